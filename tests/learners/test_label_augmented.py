"""Stumps on label-augmented data, against the augmented vectors and against a whole LP."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from sklearn.datasets import load_iris

from structboost import StructBoost, StructBoostClassifier, StructBoostRanker, TaxonomyTask
from structboost.learners.label_augmented import LabelAugmented
from structboost.learners.stump import StumpFamily
from structboost.learners.tree import TreeFamily
from structboost.objectives import Exponential
from tests.helpers.refusals import refused

NESTED = {"l": [0, 1], "r": {2: None, "s": [3, 4]}}
FLOWERS = {"l": [0], "r": [1, 2]}


def augmented(x, code):
    """(1, x) (x) Gamma(y), shape (n_nodes, 1 + n_features)."""
    return np.outer(code, np.concatenate(([1.0], x)))


def integers(seed, n_rows, n_features=3):
    """Features with the training value 0: augmented vectors have no other thresholds."""
    X = default_rng(seed).integers(-2, 4, (n_rows, n_features)).astype(float)
    X[0] = 0.0
    return X


def all_stumps(X, low, high):
    """(feature of (1, x), threshold, left, right): all splits of an augmented vector, both ways."""
    for f, column in enumerate(np.column_stack((np.ones(len(X)), X)).T):
        values = np.unique(np.append(column, 0.0))
        for threshold in (values[:-1] + values[1:]) / 2:
            yield f, threshold, low, high
            yield f, threshold, high, low


def answers(X, codes, node, feature, threshold, left, right):
    """h(x'_y) from the augmented vectors, shape (n_rows, n_classes)."""
    entries = np.array([[augmented(x, code)[node, feature] for code in codes] for x in X])
    return np.where(entries <= threshold, left, right)


def responses(family, column, n_nodes):
    """What a column adds to the scores of the nodes, shape (n_rows, n_nodes)."""
    out = np.zeros((family.binned.n_rows, n_nodes))
    for term in column.terms:
        out[:, term.channel] += term.coefficient * family.responses([term.learner])[0]
    return out


@pytest.mark.slow
@given(
    st.integers(0, 10_000),
    st.sampled_from([(-1.0, 1.0), (0.0, 1.0), (-1.0, 0.0), (-0.5, 2.0)]),
    st.integers(1, 4),
)
def test_pricing_equals_all_stumps_on_augmented_vectors(seed, response, per_channel):
    rng = default_rng(seed)
    X, codes = integers(seed, 8, n_features=2), TaxonomyTask(NESTED).tree.codes()
    X *= seed % 5 > 0  # at times without a split
    # Duals of outputs: what each example asks of each class sums to 0, so that what is common to
    # classes cancels.
    of_classes = rng.normal(size=(8, 5)) * (rng.random((8, 1)) < 0.8)
    of_classes -= of_classes.mean(axis=1, keepdims=True)
    duals = of_classes @ codes
    family = StumpFamily(X, response, exact=True)
    columns, largest = LabelAugmented().columns(family, duals, per_channel, 1e-9)
    edges = np.array(
        [
            [
                (of_classes * answers(X, codes, node, *stump)).sum()
                for stump in all_stumps(X, *response)
            ]
            for node in range(codes.shape[1])
        ]
    )
    assert largest == pytest.approx(edges.max(), abs=1e-9)
    for node in range(codes.shape[1]):
        best = max((c.edge for c in columns if c.terms[0].channel == node), default=0.0)
        assert best == pytest.approx(max(edges[node].max(), 0.0), abs=1e-9)
    for column in columns:
        assert (duals * responses(family, column, codes.shape[1])).sum() == pytest.approx(
            column.edge, rel=1e-5
        )
    assert [c.edge for c in columns] == sorted((c.edge for c in columns), reverse=True)


def test_classifiers_take_it_by_name():
    X, y = load_iris(return_X_y=True)
    model = StructBoostClassifier(
        objective="hinge", C=50, taxonomy=FLOWERS, pricing="label_augmented"
    ).fit(X[::2], y[::2])
    assert model.history_[-1]["certified"]
    assert model.history_[-1]["gap"] <= 0.01
    losses = TaxonomyTask(FLOWERS).tree.losses()
    loss = [losses[y[k::2], model.predict(X[k::2])].mean() for k in (0, 1)]
    # Chance is (2/3) of 2 or 1: about 1.1 a flower.
    assert loss[0] <= 0.03
    assert loss[1] < 0.15


def test_what_it_does_not_do_is_named():
    X, y = load_iris(return_X_y=True)
    refused(
        "give taxonomy=",
        StructBoostClassifier("hinge", pricing="label_augmented").fit,
        X,
        y,
    )
    refused("'label_augmented'", StructBoostClassifier("hinge", pricing="augmented").fit, X, y)
    refused(
        "pricing is 'label_augmented'",
        StructBoostRanker("hinge", pricing="label_augmented").fit,
        X,
        y,
    )
    refused(
        "'tree'", LabelAugmented().columns, TreeFamily(X, (-1.0, 1.0)), np.ones((150, 2)), 1, 0.0
    )
    refused(
        "one weak learner on one channel",
        StructBoost(
            TaxonomyTask(FLOWERS), C=1.0, formulation=Exponential(), pricing=LabelAugmented()
        ).fit,
        X,
        y,
    )
