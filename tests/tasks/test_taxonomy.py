"""Label trees, the task on them, and classifiers with a taxonomy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from structboost import (
    MultiBoostCWClassifier,
    MulticlassTask,
    StructBoost,
    StructBoostClassifier,
    TaxonomyTask,
    check_task,
)
from structboost.errors import TaskError
from structboost.objectives import Exponential
from structboost.tasks.taxonomy import label_tree

NESTED = {"l": [0, 1], "r": {2: None, "s": [3, 4]}}
TREE_LOSS = [[0, 1, 3, 3, 3], [1, 0, 3, 3, 3], [3, 3, 0, 2, 2], [3, 3, 2, 0, 1], [3, 3, 2, 1, 0]]


def graph():
    networkx = pytest.importorskip("networkx")
    return networkx.DiGraph(
        [("all", "l"), ("all", "r"), ("l", 0), ("l", 1), ("r", 2), ("r", "s"), ("s", 3), ("s", 4)]
    )


def test_dicts_and_graphs_give_the_same_label_tree():
    for taxonomy in (NESTED, graph()):
        tree = label_tree(taxonomy, range(5))
        np.testing.assert_array_equal(tree.losses(), TREE_LOSS)
        codes = tree.codes()
        assert codes.shape == (5, 8)
        # Common predecessors without the root: Gamma(y)' Gamma(y') below (20).
        common = codes @ codes.T
        np.testing.assert_array_equal(common[0], [2, 1, 0, 0, 0])
        np.testing.assert_array_equal(common[3], [0, 0, 1, 3, 2])


def test_label_trees_take_names_and_drop_other_leaves():
    tree = label_tree(
        {"a": ["car", "bus"], "b": ["cat", "dog", "unicorn"]}, ["bus", "car", "cat", "dog"]
    )
    np.testing.assert_array_equal(tree.losses()[0], [0, 1, 2, 2])
    assert len(tree.parents) == 7


@pytest.mark.parametrize(
    ("taxonomy", "message"),
    [
        ({"a": [0, 1], "b": [2]}, "lacks the class 3"),
        ({"a": [0, 1], "b": [2, 3, 1]}, "node 1 has 2 parents"),
        ({"a": [0, 1], "b": [2, 3, 2]}, "names 2 twice"),
        ({"a": [0, 1], 2: [3]}, "must be leaves"),
    ],
)
def test_a_taxonomy_that_is_no_tree_is_named(taxonomy, message):
    with pytest.raises(ValueError, match=message):
        label_tree(taxonomy, range(4))


def test_a_graph_that_is_no_tree_is_named():
    networkx = pytest.importorskip("networkx")
    with pytest.raises(ValueError, match="2 parents"):
        label_tree(networkx.DiGraph([("r", 0), ("r", 1), ("r", "a"), ("a", 1)]), range(2))


class Enumerated(TaxonomyTask):
    """Lists all classes, so that check_task compares the argmax with each."""

    def outputs(self, x):
        return range(self.n_classes)


@st.composite
def nested(draw):
    """Draw the pairs of a random tree of 2 to 7 classes."""
    nodes, pairs = list(range(draw(st.integers(2, 7)))), []
    while len(nodes) > 1:
        size = draw(st.integers(2, len(nodes)))
        order = draw(st.permutations(nodes))
        above = f"node {len(pairs)}"
        pairs += [(above, node) for node in order[:size]]
        nodes = [*order[size:], above]
    return pairs


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(nested(), st.integers(0, 100))
def test_the_taxonomy_task_passes_check_task(taxonomy, seed):
    """Argmax, separation and codes against each other and against every class."""
    task = Enumerated(taxonomy)
    rng = np.random.default_rng(seed)
    check_task(task, rng.normal(size=(8, 3)), rng.integers(0, task.n_classes, 8), random_state=seed)
    losses = task.tree.losses()
    np.testing.assert_array_equal(losses, losses.T)
    # Heights of first common ancestors are an ultrametric.
    for a in range(task.n_classes):
        assert (losses <= np.maximum(losses[:, [a]], losses[[a], :])).all()


def test_a_star_trains_the_model_of_the_flat_task():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 4)) + np.eye(3)[y] @ rng.normal(size=(3, 4))
    for formulation in ("one_slack", Exponential(tau_max=20, epsilon=1e-6)):
        fits = [
            StructBoost(task, C=20.0, tol=1e-3, formulation=formulation).fit(X, y)
            for task in (MulticlassTask(3), TaxonomyTask({"all": [0, 1, 2]}))
        ]
        assert fits[0].objective_ == pytest.approx(fits[1].objective_, rel=2e-3)


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [StructBoostClassifier(objective="hinge", C=50), MultiBoostCWClassifier(C=1e3, max_rounds=40)],
)
def test_classifiers_with_a_taxonomy_predict_and_load(estimator, tmp_path):
    X, y = load_digits(return_X_y=True)
    names = np.array(["zero", "one", "two", "three", "four"])
    X, y = X[y < 5], names[y[y < 5]]
    estimator.set_params(
        taxonomy={"low": ["zero", "one"], "high": {"two": None, "top": ["three", "four"]}}
    ).fit(X[::2], y[::2])
    assert estimator.decision_function(X).shape == (len(X), 5)
    assert estimator.score(X[1::2], y[1::2]) > 0.9
    estimator.save(tmp_path / "model")
    loaded = type(estimator).load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), estimator.predict(X))
    pair = np.isin(y, ["one", "two"])
    two = estimator.set_params(taxonomy={"all": ["one", "two"]}).fit(X[pair][::2], y[pair][::2])
    assert two.decision_function(X).shape == (len(X),)
    assert two.score(X[pair], y[pair]) > 0.95
    with pytest.raises(ValueError, match="lacks the class"):
        estimator.set_params(taxonomy={"low": ["zero"], "two": None}).fit(X, y)


def test_wrong_labels_of_a_taxonomy_are_named():
    with pytest.raises(TaskError, match=r"Y\[1\] is 5"):
        TaxonomyTask(NESTED).codes([0, 5])
    with pytest.raises(TaskError, match="n_classes is 1; give a whole number from 2"):
        TaxonomyTask({"all": [0]})
