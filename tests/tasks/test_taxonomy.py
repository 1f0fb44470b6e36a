"""Label trees, the task on them, and classifiers with a taxonomy."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from structboost import (
    MultiBoostCWClassifier,
    MulticlassTask,
    StructBoost,
    StructBoostClassifier,
    TaxonomyTask,
)
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
