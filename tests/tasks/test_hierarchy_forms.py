"""Forms of hierarchies: each gives the same tree, and every other value is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from structboost import (
    HierarchicalMultiLabelTask,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    TaxonomyTask,
)
from structboost.errors import TaskError
from structboost.tasks.hierarchy_forms import read_hierarchy
from structboost.tasks.label_tree import label_tree, saved_tree

networkx = pytest.importorskip("networkx")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

CLASSES = ["cat", "dog", "elm", "oak"]
EDGES = [("tree", "oak"), ("tree", "elm"), ("animal", "dog"), ("animal", "cat")]
BELOW_ALL = [("all", *pair) for pair in EDGES]
LEVELS = pandas.DataFrame(BELOW_ALL, columns=["all", "kingdom", "species"])
PATHS = ["/".join(pair) for pair in EDGES]
TREES = {
    "lists": [["oak", "elm"], ["cat", "dog"]],
    "tuples": (("cat", "dog"), ("oak", "elm")),
    "dict of lists": {"tree": ["oak", "elm"], "animal": ("cat", "dog")},
    "dict of dicts": {"animal": {"cat": {}, "dog": None}, "tree": {"oak": [], "elm": ()}},
    "adjacency": {"all": ["animal", "tree"], "tree": ["oak", "elm"], "animal": ["cat", "dog"]},
    "lists with a dict": [{"animal": ["cat", "dog"]}, ["oak", "elm"]],
    "parents": {"cat": "animal", "dog": "animal", "oak": "tree", "elm": "tree", "tree": None},
    "edges": EDGES,
    "lists of two": [list(pair) for pair in [("all", "tree"), ("all", "animal"), *EDGES]],
    "graph": networkx.DiGraph([("all", "tree"), ("all", "animal"), *EDGES]),
    "forest": networkx.DiGraph(EDGES),
    "paths": PATHS,
    "longer paths": np.array(["/".join(path) for path in BELOW_ALL]),
    "series of paths": pandas.Series(PATHS),
    "polars series": polars.Series(PATHS),
    "frame": LEVELS,
    "categories": LEVELS.astype("category"),
    "frame of edges": pandas.DataFrame(EDGES),
    "frame of children": pandas.DataFrame(EDGES, columns=["Parent", "Child"])[["Child", "Parent"]],
    "polars": polars.DataFrame(BELOW_ALL, orient="row"),
    "arrow": pyarrow.Table.from_pandas(LEVELS),
    "array": np.array(BELOW_ALL),
    "array of edges": np.array(EDGES, object),
    "parent array": [5, 5, 4, 4, 6, 6, -1],
}


@pytest.mark.parametrize("form", TREES)
def test_each_form_of_a_taxonomy_gives_the_same_tree(form):
    tree = label_tree(TREES[form], CLASSES)
    np.testing.assert_array_equal(tree.parents, [5, 5, 6, 6, -1, 4, 4])


def test_each_form_of_a_taxonomy_gives_the_same_model_to_the_last_bit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.array(CLASSES)[2 * (X[:, 0] > 0) + (X[:, 1] > 0)]
    scores = [
        StructBoostClassifier(objective="hinge", C=10, max_iter=4, taxonomy=TREES[form])
        .fit(X, y)
        .decision_function(X)
        for form in ("lists", "parents", "graph", "paths", "frame", "edges", "parent array")
    ]
    for others in scores[1:]:
        np.testing.assert_array_equal(others, scores[0])


# Nested lists have no names for what is above, and the labels of parent arrays come first.
NAMED = {form for form in TREES if form not in {"lists", "tuples", "lists with a dict"}}


@pytest.mark.parametrize("form", sorted(NAMED - {"parent array"}))
def test_each_form_of_a_hierarchy_gives_the_same_edges(form):
    edges = read_hierarchy(TREES[form], CLASSES, "hierarchy", pairs_are_edges=True).named_edges()
    assert {pair for pair in edges if pair[0] != "all"} == set(EDGES)


def test_each_form_of_a_hierarchy_gives_the_same_model_to_the_last_bit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = [[CLASSES[i]] for i in 2 * (X[:, 0] > 0) + (X[:, 1] > 0)]
    fits = [
        StructBoostMultiLabelClassifier(objective="hinge", C=10, max_iter=4, hierarchy=TREES[form])
        for form in ("edges", "dict of lists", "parents", "forest", "paths", "array of edges")
    ]
    for fit in fits:
        assert fit.fit(X, y).classes_.tolist() == sorted([*CLASSES, "animal", "tree"])
        np.testing.assert_array_equal(fit.decision_function(X), fits[0].decision_function(X))


def test_nodes_without_a_name_are_passed_over_in_a_hierarchy():
    nested = {"all": [["cat", "dog"], [["oak"], {"tree": ["elm"]}]]}
    edges = read_hierarchy(nested, (), "hierarchy", pairs_are_edges=True).named_edges()
    assert set(edges) == {
        ("all", "cat"), ("all", "dog"), ("all", "oak"), ("all", "tree"), ("tree", "elm")
    }  # fmt: skip


def test_a_label_may_have_several_parents_in_a_hierarchy_but_not_in_a_taxonomy():
    several = {"pet": ["cat"], "animal": ["cat", "dog"]}
    edges = read_hierarchy(several, (), "hierarchy", pairs_are_edges=True).named_edges()
    assert set(edges) == {("pet", "cat"), ("animal", "cat"), ("animal", "dog")}
    with pytest.raises(ValueError, match=r"node 'cat' has 2 parents \('pet', 'animal'\)"):
        label_tree(several, ["cat", "dog"])


def test_rows_may_end_at_different_levels():
    rows = [("a", "b", "x"), ("a", "y", None), ("z", np.nan, ""), ("a", "b", "w")]
    tree = label_tree(pandas.DataFrame(rows), ["w", "x", "y", "z"])
    expected = label_tree([[["w", "x"], "y"], "z"], ["w", "x", "y", "z"])
    np.testing.assert_array_equal(tree.parents, expected.parents)
    with pytest.raises(ValueError, match=r"row 0 is .*missing values only after it"):
        label_tree(pandas.DataFrame([("a", None, "x"), ("a", "b", "y")]), ["x", "y"])


def test_whole_paths_and_names_that_repeat_at_other_places_are_kept_apart():
    paths = ["a/other", "b/other", "b/x"]
    np.testing.assert_array_equal(
        label_tree(paths, ["a/other", "b/other", "b/x"]).losses(), [[0, 2, 2], [2, 0, 1], [2, 1, 0]]
    )
    inner = ["a/other/x", "b/other/y", "b/other/z"]
    np.testing.assert_array_equal(
        label_tree(inner, ["x", "y", "z"]).losses(), [[0, 3, 3], [3, 0, 1], [3, 1, 0]]
    )
    with pytest.raises(ValueError, match="names 'other' twice"):
        label_tree(paths, ["other", "x"])


def test_slashes_in_nested_lists_are_part_of_the_labels():
    tree = label_tree([["TCP/IP", "UDP"], ["x"]], ["TCP/IP", "UDP", "x"])
    np.testing.assert_array_equal(tree.losses()[0], [0, 1, 2])


def test_a_flat_list_is_a_taxonomy_of_one_level():
    tree = label_tree(["a", "b", "c"], ["a", "b", "c"])
    np.testing.assert_array_equal(tree.losses(), 1 - np.eye(3))


def within_itself():
    nested = ["a"]
    nested.append(nested)
    return nested


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a", "b"}, "give nested lists"),
        ((label for label in "ab"), "generator"),
        ("a/b", "taxonomy is 'a/b'; give"),
        (b"a/b", "taxonomy is b'a/b'; give"),
        (7, "taxonomy is 7; give"),
        (None, "taxonomy is None; give"),
        (object(), "give nested lists"),
        (networkx.Graph([("a", "b")]), "undirected graph.*DiGraph"),
        (networkx.DiGraph(), "graph without nodes"),
        (within_itself(), "a list that contains itself"),
        ([("a", "b"), ("b", "a")], "cycle, in which a label is above itself: 'a' > 'b' > 'a'"),
        ([("a", "a"), ("a", "b")], "above itself: 'a' > 'a'; take one pair"),
        ({i: (i + 1) % 50 for i in range(50)}, r"0 > 49 > .* > \.\.\. > 0"),
        ([["a"], {"b"}], r"has \{'b'\}; give"),
        ([["a"], iter("b")], "give nested lists"),
        ({"a": ["b"], "c": "d"}, r"\['a'\] is \['b'\] and taxonomy\['c'\] is 'd'"),
        ({"a": {"b", "c"}}, r"taxonomy\['a'\] is \{"),
        ({"a": {"b": "c"}}, "has 'c' below 'b'"),
        ({"a": None, "b": None}, "no label is above another"),
        ([], "taxonomy is empty"),
        ({}, "taxonomy is empty"),
        ([["a"], []], "empty list"),
        ([["a", None], ["b"]], "has the label None"),
        ([["a", float("nan")], ["b"]], "has the label nan"),
        (["a//b"], "between slashes"),
        ([["a", "b"], ["a", "c", "d"]], "names 'a' twice"),
        (pandas.DataFrame({"a": ["b"]}), "1 rows and 1 columns"),
        (polars.DataFrame(BELOW_ALL, orient="row").lazy(), "LazyFrame"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        ({"a": ["c"], "b": None}, "the class 'a' has nodes below it"),
    ],
)
def test_what_is_no_tree_is_refused_with_the_forms_that_are_taken(value, message):
    with pytest.raises((TypeError, ValueError), match=message):
        label_tree(value, ["a", "b"])


@pytest.mark.parametrize(
    "value",
    [[{}], {"a": {}}, [{"a": []}], [["a"], {}], networkx.empty_graph(3, networkx.DiGraph)],
    ids=str,
)
def test_a_hierarchy_in_which_no_label_is_above_another_is_refused(value):
    with pytest.raises(ValueError, match=r"hierarchy.* is .*(above another|above others)"):
        read_hierarchy(value, (), "hierarchy", pairs_are_edges=True)


def test_pairs_beside_a_dict_are_not_lost():
    with pytest.raises(ValueError, match=r"hierarchy\[2\] is \{2: \[3\]\}; give pairs"):
        read_hierarchy([(0, 1), (1, 2), {2: [3]}], (), "hierarchy", pairs_are_edges=True)


@pytest.mark.parametrize("value", [[["a", "b", "c"], ["d"]], [["a", ["b"]]]])
def test_nested_lists_without_names_are_no_hierarchy(value):
    with pytest.raises(ValueError, match=r"hierarchy\[0\] is .*nested dicts"):
        read_hierarchy(value, (), "hierarchy", pairs_are_edges=True)


def test_a_tree_of_1200_levels_is_read():
    nested = {"lists": "d", "dicts": ["d"]}
    for _ in range(1200):
        nested = {"lists": [nested["lists"]], "dicts": {"d" * (_ + 2): nested["dicts"]}}
    assert label_tree([["u"], nested["lists"]], ["u", "d"]).losses()[0, 1] == 1201
    path = "/".join(["r", *map(str, range(1200)), "d"])
    assert label_tree([path, "r/u"], ["u", "d"]).losses()[0, 1] == 1201
    below = read_hierarchy(nested["dicts"], (), "hierarchy", pairs_are_edges=True)
    assert len(below.named_edges()) == 1200
    with pytest.raises(ValueError, match="lacks the class 'x'"):
        label_tree([["u"], nested["lists"]], ["u", "x"])


@pytest.mark.slow
def test_an_estimator_with_a_deep_taxonomy_is_written_cloned_and_saved(tmp_path):
    nested = "d"
    for _ in range(1200):
        nested = [nested]
    X, y = np.arange(20.0)[:, None], np.repeat(["u", "d"], 10)
    deep = StructBoostClassifier(objective="hinge", C=10, max_iter=2, taxonomy=[["u"], nested])
    assert "StructBoostClassifier" in repr(deep)
    copied = clone(deep).fit(X, y)
    assert copied.score(X, y) == 1.0
    assert "StructBoostClassifier" in repr(copied)
    copied.save(tmp_path / "model")
    loaded = StructBoostClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), y)
    np.testing.assert_array_equal(clone(loaded).fit(X, y).predict(X), y)


def test_tasks_take_the_forms_with_indices():
    tree = TaxonomyTask([[0, 1], [2, 3]]).tree.parents
    for form in ({"a": [0, 1], "b": [2, 3]}, {0: "a", 1: "a", 2: "b", 3: "b"}):
        np.testing.assert_array_equal(TaxonomyTask(form).tree.parents, tree)
    for edges in ({0: [1, 2]}, {1: 0, 2: 0}, networkx.DiGraph([(0, 1), (0, 2)])):
        task = HierarchicalMultiLabelTask(3, edges)
        np.testing.assert_array_equal(task.edges, [[0, 1], [0, 2]])
    with pytest.raises(TaskError, match=r"edges has a cycle.*0 > 1 > 0"):
        HierarchicalMultiLabelTask(3, {0: 1, 1: 0})
    with pytest.raises(TaskError, match="parent array, which needs n_classes"):
        TaxonomyTask([2, 2, -1])


def test_the_tree_of_a_file_keeps_the_order_of_its_nodes():
    parents = [4, 4, 5, 5, 6, 6, -1]
    np.testing.assert_array_equal(saved_tree(parents, 4).parents, parents)
    for wrong in ([4, 4, 5, 5, 6, 5, -1], [0, 4, 4, 4, -1], [-1, 4, 4, 4, -1], [4, 4], "x", [[1]]):
        with pytest.raises((TypeError, ValueError)):
            saved_tree(wrong, 4)


def test_a_taxonomy_too_large_for_memory_is_refused_before_memory_is_taken():
    with pytest.raises(MemoryError, match=r"take 8e\+03 GB.*group the classes"):
        TaxonomyTask({"all": [0, 1]}, n_classes=10**6)
