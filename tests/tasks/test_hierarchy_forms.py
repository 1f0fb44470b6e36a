"""Hierarchies: their forms, what is refused, label trees, and classifiers with a taxonomy."""

import networkx
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits

from structboost import HierarchicalMultiLabelTask, StructBoost, StructBoostClassifier, TaxonomyTask
from structboost.objectives import Exponential
from structboost.tasks.hierarchical import check_order, label_tree, read_hierarchy, saved_tree
from tests.helpers.refusals import refused

CLASSES = ["cat", "dog", "elm", "oak"]
EDGES = [("tree", "oak"), ("tree", "elm"), ("animal", "dog"), ("animal", "cat")]
BELOW_ALL = [("all", *pair) for pair in EDGES]
PATHS = ["/".join(pair) for pair in EDGES]
TREES = {
    "dict of lists": {"tree": ["oak", "elm"], "animal": ("cat", "dog")},
    "dict of dicts": {"animal": {"cat": {}, "dog": None}, "tree": {"oak": [], "elm": ()}},
    "adjacency": {"all": ["animal", "tree"], "tree": ["oak", "elm"], "animal": ["cat", "dog"]},
    "edges": EDGES,
    "lists of two": [list(pair) for pair in [("all", "tree"), ("all", "animal"), *EDGES]],
    "array of edges": np.array(EDGES, object),
    "graph": networkx.DiGraph([("all", "tree"), ("all", "animal"), *EDGES]),
    "forest": networkx.DiGraph(EDGES),
    "paths": PATHS,
    "longer paths": np.array(["/".join(path) for path in BELOW_ALL]),
}


@pytest.mark.parametrize("form", TREES)
def test_each_form_gives_the_same_tree_and_the_same_edges(form):
    tree = label_tree(TREES[form], CLASSES)
    assert_array_equal(tree.parents, [5, 5, 6, 6, -1, 4, 4])
    edges = read_hierarchy(TREES[form], CLASSES, "hierarchy").named_edges()
    assert {pair for pair in edges if pair[0] != "all"} == set(EDGES)


def test_a_label_may_have_several_parents_in_a_hierarchy_but_not_in_a_taxonomy():
    several = {"pet": ["cat"], "animal": ["cat", "dog"]}
    edges = read_hierarchy(several, (), "hierarchy").named_edges()
    assert set(edges) == {("pet", "cat"), ("animal", "cat"), ("animal", "dog")}
    refused(r"node 'cat' has 2 parents \('pet', 'animal'\)", label_tree, several, ["cat", "dog"])


def test_whole_paths_and_names_that_repeat_at_other_places_are_kept_apart():
    paths = ["a/other", "b/other", "b/x"]
    assert_array_equal(
        label_tree(paths, ["a/other", "b/other", "b/x"]).losses(), [[0, 2, 2], [2, 0, 1], [2, 1, 0]]
    )
    inner = ["a/other/x", "b/other/y", "b/other/z"]
    assert_array_equal(
        label_tree(inner, ["x", "y", "z"]).losses(), [[0, 3, 3], [3, 0, 1], [3, 1, 0]]
    )
    refused("names 'other' twice", label_tree, paths, ["other", "x"])


def test_slashes_in_dicts_are_part_of_the_labels():
    tree = label_tree({"a/b": ["TCP/IP", "UDP"], "c": ["x"]}, ["TCP/IP", "UDP", "x"])
    assert_array_equal(tree.losses()[0], [0, 1, 2])


def within_itself():
    nested = {}
    nested["a"] = nested
    return nested


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a", "b"}, "give a dict"),
        ("a/b", "taxonomy is 'a/b'; give"),
        (None, "taxonomy is None; give"),
        (networkx.Graph([("a", "b")]), "undirected graph.*DiGraph"),
        (networkx.DiGraph(), "no label is above another"),
        (within_itself(), "names 'a' twice below 'a'"),
        ([("a", "b"), ("b", "a")], r"cycle, in which a label is above itself: \['a', 'b', 'a'\]"),
        ([("a", "a"), ("a", "b")], r"above itself: \['a', 'a'\]; take one pair"),
        (["a", "b"], r"taxonomy\[0\] is 'a'; give"),
        ([("a", "b"), {"b": ["c"]}], r"taxonomy\[1\] is \{"),
        ([("a", ["b"])], "in the place of a label"),
        ({"a": {"b", "c"}}, "below 'a'; give a list"),
        ({"a": {"b": "c"}}, "has 'c' below 'b'"),
        ({"a": [{"b": None}]}, "in the place of a label"),
        ([], "taxonomy is empty"),
        (["a//b"], "between slashes"),
        ({"a": ["c"], "b": None}, "lacks the class 'a'"),
    ],
)
def test_what_is_no_tree_is_refused_with_the_forms_that_are_taken(value, message):
    refused(message, label_tree, value, ["a", "b"])


@pytest.mark.parametrize("value", [{"a": {}}, {"a": []}, networkx.empty_graph(3, networkx.DiGraph)])
def test_a_hierarchy_in_which_no_label_is_above_another_is_refused(value):
    refused(r"hierarchy is .*above another", read_hierarchy, value, (), "hierarchy")


def test_pairs_that_all_sets_respect_are_no_pairs_that_are_turned():
    check_order([("a", "c"), ("b", "c")], np.ones((2, 3), int), "abc")


def nested_deep():
    nested = ["d"]
    for level in range(1200):
        nested = {level: nested}
    return nested


def test_a_tree_of_1200_levels_is_read():
    nested = nested_deep()
    assert label_tree({"r": ["u"], **nested}, ["u", "d"]).losses()[0, 1] == 1201
    path = "/".join(["r", *map(str, range(1200)), "d"])
    assert label_tree([path, "r/u"], ["u", "d"]).losses()[0, 1] == 1201
    assert len(read_hierarchy(nested, (), "hierarchy").named_edges()) == 1200
    refused("lacks the class 'x'", label_tree, {"r": ["u"], **nested}, ["u", "x"])


@pytest.mark.slow
def test_an_estimator_with_a_deep_taxonomy_is_written_cloned_and_saved(reloaded):
    X, y = np.arange(20.0)[:, None], np.repeat(["u", "d"], 10)
    deep = StructBoostClassifier(
        objective="hinge", C=10, max_iter=2, taxonomy={"r": ["u"], **nested_deep()}
    )
    assert "StructBoostClassifier" in repr(deep)
    copied = clone(deep).fit(X, y)
    assert copied.score(X, y) == 1.0
    assert "StructBoostClassifier" in repr(copied)
    loaded = reloaded(copied)
    assert_array_equal(loaded.predict(X), y)
    assert_array_equal(clone(loaded).fit(X, y).predict(X), y)


def test_tasks_take_the_forms_with_indices():
    tree = TaxonomyTask([("a", 0), ("a", 1), ("b", 2), ("b", 3)]).tree.parents
    assert_array_equal(TaxonomyTask({"a": [0, 1], "b": [2, 3]}).tree.parents, tree)
    for edges in ({0: [1, 2]}, networkx.DiGraph([(0, 1), (0, 2)])):
        assert_array_equal(HierarchicalMultiLabelTask(3, edges).edges, [[0, 1], [0, 2]])
    refused(r"edges has a cycle.*0, 1, 0", HierarchicalMultiLabelTask, 3, {0: [1], 1: [0]})


def test_the_tree_of_a_file_keeps_the_order_of_its_nodes():
    parents = [4, 4, 5, 5, 6, 6, -1]
    assert_array_equal(saved_tree(parents, 4).parents, parents)
    for wrong in ([4, 4, 5, 5, 6, 5, -1], [0, 4, 4, 4, -1], [-1, 4, 4, 4, -1], [4, 4], "x", [[1]]):
        with pytest.raises((TypeError, ValueError)):
            saved_tree(wrong, 4)


def test_a_taxonomy_too_large_for_memory_is_refused_before_memory_is_taken():
    with pytest.raises(MemoryError, match=r"take 8e\+03 GB.*group the classes"):
        TaxonomyTask({"all": [0, 1]}, n_classes=10**6)


NESTED = {"l": [0, 1], "r": {2: None, "s": [3, 4]}}
TREE_LOSS = [[0, 1, 3, 3, 3], [1, 0, 3, 3, 3], [3, 3, 0, 2, 2], [3, 3, 2, 0, 1], [3, 3, 2, 1, 0]]


def test_losses_and_codes_of_a_label_tree_are_those_of_common_ancestors():
    tree = label_tree(NESTED, range(5))
    assert_array_equal(tree.losses(), TREE_LOSS)
    codes = tree.codes()
    assert codes.shape == (5, 8)
    # Common predecessors without the root: Gamma(y)' Gamma(y') below (20).
    common = codes @ codes.T
    assert_array_equal(common[0], [2, 1, 0, 0, 0])
    assert_array_equal(common[3], [0, 0, 1, 3, 2])
    # Other leaves are dropped.
    assert len(label_tree({"a": [0, 1], "b": [2, 3, "unicorn"]}, range(4)).parents) == 7


def test_exponential_loss_weighs_pairs_by_the_tree():
    """The objective, pair by pair, from the scores of the nodes."""
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 5][:300], y[y < 5][:300]
    task = TaxonomyTask(NESTED)
    fitted = StructBoost(
        task, C=100.0, max_rounds=15, columns_per_channel=1, formulation=Exponential()
    ).fit(X, y)
    scores = task.class_scores(fitted.model_.scores(X))
    pairs = np.array(TREE_LOSS)[y] * np.exp(scores - scores[np.arange(300), y][:, None])
    assert fitted.objective_ == pytest.approx(
        fitted.model_.weights.sum() + 100 * pairs.sum() / (300 * 4), rel=1e-9
    )
    assert all(r["bound"] <= r["primal"] for r in fitted.history_)
