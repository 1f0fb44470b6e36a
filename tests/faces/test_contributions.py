"""Contributions add up to the decision function, and are Shapley values where they are centred."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.datasets import load_iris

from structboost import (
    AdaBoostMHClassifier,
    MulticlassTask,
    ShareBoostClassifier,
    StructBoost,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructuredSVMClassifier,
)
from structboost.learners import ActiveFeatureFamily
from tests.helpers.refusals import refused

X, Y = load_iris(return_X_y=True)
OF_TRAINER = {"C": 20, "max_rounds": 6, "tol": 0.2}
QUICK = {"objective": "hinge", "C": 20, "max_iter": 6, "tol": 0.2}
MODELS = {
    "stumps": (StructBoostClassifier(**QUICK), Y),
    "two classes": (StructBoostClassifier(**QUICK), Y == 1),
    "both": (StructBoostClassifier(weak_learner=["linear", "stump"], **QUICK), Y),
    "taxonomy": (StructBoostClassifier(taxonomy={"a": [0, 1], "b": [2]}, **QUICK), Y),
    "ranker": (StructBoostRanker(**QUICK), Y),
    "sets": (StructBoostMultiLabelClassifier(**QUICK), np.column_stack((Y > 0, Y > 1, Y == 1))),
    "features": (ShareBoostClassifier(max_rounds=3), Y),
    "pairs": (StructBoostClassifier(weak_learner="pair_tree", **QUICK), Y),
    "trees": (StructBoostClassifier(max_iter=5), Y),
    "deep trees": (StructBoostClassifier(max_iter=2, max_depth=12), Y),
    "trees, ranked": (StructBoostRanker(max_iter=5), Y),
    "stumps and trees": (StructBoostClassifier(weak_learner=["stump", "tree"], **QUICK), Y),
    "categories": (StructBoostClassifier(max_iter=5, categorical_features=[0, 3]), Y),
    "codes": (AdaBoostMHClassifier(max_rounds=5), Y),
    "linear": (StructuredSVMClassifier(tol=0.2), Y),
    "linear, two classes": (StructuredSVMClassifier(tol=0.2), Y == 1),
}
OF_TREES = {"trees", "deep trees", "trees, ranked", "stumps and trees", "categories"}


def shapley_values(decide, x, background):
    """By the definition: over all coalitions, features outside come from the background."""
    n = len(x)

    def value(members):
        mixed = background.copy()
        mixed[:, members] = x[list(members)]
        return decide(mixed).mean(axis=0)

    out = []
    for feature in range(n):
        others = [f for f in range(n) if f != feature]
        total = 0.0
        for size in range(n):
            share = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
            for chosen in itertools.combinations(others, size):
                total = total + share * (value([*chosen, feature]) - value(list(chosen)))
        out.append(total)
    return np.array(out)


@pytest.mark.parametrize("name", MODELS)
def test_contributions_are_the_shapley_values_of_the_decision_function(name):
    model, y = MODELS[name]
    background = X[::2]
    model.fit(background, y[::2])
    decided = model.decision_function(X)
    needs_background = name in OF_TREES
    for given in ((), (background,))[needs_background:]:
        values, base = model.contributions(X, *given)
        assert values.shape == (*X.shape, *decided.shape[1:])
        size = np.abs(values).sum(axis=1).max() + np.abs(base).max()
        assert_allclose(base + values.sum(axis=1), decided, atol=1e-12 * size)
    mean = model.decision_function(background).mean(axis=0)
    assert_allclose(base, mean, atol=1e-12 * size)
    for i in (0, 149):
        wanted = shapley_values(model.decision_function, X[i], background)
        assert_allclose(values[i], wanted, atol=1e-11 * size)
        assert np.abs(wanted).max() > 1e-3 * size


def test_trees_need_a_background_and_other_learners_on_several_features_are_refused():
    trees, other = StructBoostClassifier(max_iter=2), StructBoostClassifier("hinge", C=20, tol=0.2)
    refused("Give background=X_train", trees.fit(X, Y).contributions, X)
    refused("X has no samples.*\nThis X is the background", trees.contributions, X, X[:0])
    other.set_params(weak_learner="lda", max_iter=6).fit(X, Y)
    refused("exact for 'stump', 'tree'", other.contributions, X, X)


@pytest.mark.slow
def test_an_ensemble_returns_contributions_to_its_channels():
    model = StructBoost(MulticlassTask(3), **OF_TRAINER).fit(X, Y).model_
    single = X.astype(np.float32)
    values, base = model.contributions(single)
    assert values.shape == (150, 4, 3)
    assert_allclose(base + values.sum(axis=1), model.scores(single))
    refused("features has shape", model.contributions, X[:, :2])
    rows = np.where(X > np.median(X, axis=0), np.arange(4), -1).astype(np.int32)
    active = StructBoost(MulticlassTask(3), weak_learner=ActiveFeatureFamily, **OF_TRAINER)
    refused("exact for", active.fit(rows, Y).model_.contributions, rows)


@pytest.mark.parametrize("objective", ["svm", "hinge"])
def test_sparse_rows_have_the_contributions_of_the_same_array(objective):
    model = StructBoostClassifier(objective, C=5.0, weak_learner="linear").fit(X, Y)
    of_array, table = model.contributions(X, X[:9]), csr_array(X)
    assert_allclose(model.contributions(table, table[:9]).values, of_array.values)
