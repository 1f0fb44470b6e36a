"""Families of weak learners: their edges, tables, files, and every formulation with each of them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from structboost import (
    AdaBoostECCClassifier,
    MultiBoostCWClassifier,
    MultiBoostMOClassifier,
    ShareBoostClassifier,
    StructBoost,
    StructBoostClassifier,
)
from structboost.tasks import RankingTask
from structboost.weak.linear import LDAFamily, PerceptronFamily, SVMFamily
from structboost.weak.stump import StumpFamily
from structboost.weak.tree import TreeFamily

FAMILIES = [partial(TreeFamily, depth=2), PerceptronFamily, SVMFamily, LDAFamily]
NAMES = ["tree", "perceptron", "svm", "lda"]


def made(seed=0, n=60):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.normal(size=(n, 2))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 999), st.sampled_from(range(len(FAMILIES))), st.sampled_from([(-1.0, 1.0), (0.0, 1.0)]))
def test_edges_are_what_the_answers_give(seed, which, response):
    X, duals = made(seed)
    family = FAMILIES[which](X, response)
    found = family.price(duals, 1)
    assert [c.edge for c in found] == sorted((c.edge for c in found), reverse=True)
    assert {c.channel for c in found} == {0, 1}
    for candidate in [*found, *family.refine(found[0].learner, duals)]:
        answers = family.responses([candidate.learner])[0].astype(float)
        assert set(np.unique(answers)) <= set(response)
        assert answers @ duals[:, candidate.channel] == pytest.approx(candidate.edge, abs=1e-9)
        # The table answers on raw features as the family does on its own.
        np.testing.assert_array_equal(family.table([candidate.learner]).responses(X)[0], answers)
    assert family.table([c.learner for c in found]).feature_shares(3).sum(axis=1).max() <= 1 + 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_deeper_trees_and_turned_planes_beat_stumps(seed):
    X, duals = made(seed, 200)
    stump = StumpFamily(X, (-1.0, 1.0)).price(duals, 1)[0].edge
    edges = [TreeFamily(X, (-1.0, 1.0), depth=d).price(duals, 1)[0].edge for d in (2, 4, 6)]
    assert edges[0] < edges[1] < edges[2]
    assert PerceptronFamily(X, (-1.0, 1.0)).price(duals, 1)[0].edge >= stump - 1e-9


def test_a_tree_of_depth_one_is_a_stump_of_least_impurity():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    duals = np.array([[-1.0], [-1.0], [1.0], [1.0]])
    (found,) = TreeFamily(X, (-1.0, 1.0), depth=1).price(duals, 1)
    assert (found.learner.thresholds, found.learner.leaves, found.edge) == ((1.5,), (-1.0, 1.0), 4.0)


def test_exclusive_or_needs_depth_two():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 2))
    X[:, 0] += 0.05
    y = (X[:, 0] > 0) ^ (X[:, 1] > 0)
    deep = MultiBoostCWClassifier(C=1e3, weak_learner="tree", max_rounds=60).fit(X, y)
    flat = MultiBoostCWClassifier(C=1e3, max_rounds=60).fit(X, y)
    assert deep.score(X, y) > 0.97 > flat.score(X, y) + 0.1


def test_discriminant_is_that_of_scikit_learn():
    X, _ = made(1, 300)
    y = X @ [1.0, -2.0, 0.5] + np.random.default_rng(0).normal(size=300) > 0.3
    # Equal weights within each class, equal classes.
    duals = np.where(y, 1.0 / y.sum(), -1.0 / (~y).sum())
    ours = LDAFamily(X, (-1.0, 1.0)).direction(duals)[:-1] / X.std(axis=0)
    theirs = LinearDiscriminantAnalysis(priors=[0.5, 0.5]).fit(X, y).coef_[0]
    cosine = ours @ theirs / np.linalg.norm(ours) / np.linalg.norm(theirs)
    assert cosine > 0.999


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weak_learner", NAMES)
@pytest.mark.parametrize(
    "face",
    [
        StructBoostClassifier(C=50, max_rounds=8),
        MultiBoostCWClassifier(max_rounds=8),
        MultiBoostMOClassifier(max_rounds=5),
        AdaBoostECCClassifier(max_rounds=15),
        ShareBoostClassifier(max_rounds=5),
    ],
    ids=lambda face: type(face).__name__,
)
def test_every_method_takes_every_learner(face, weak_learner, tmp_path):
    X, y = load_wine(return_X_y=True)
    face.set_params(weak_learner=weak_learner, random_state=0).fit(X[::2], y[::2])
    assert face.score(X[1::2], y[1::2]) > 0.8
    assert not face.history_[-1]["certified"]
    face.save(tmp_path / "model")
    np.testing.assert_array_equal(type(face).load(tmp_path / "model").predict(X), face.predict(X))


def test_rankings_and_callables():
    X, y = load_wine(return_X_y=True)
    trainer = StructBoost(
        RankingTask(), C=20.0, max_rounds=10, weak_learner=partial(TreeFamily, depth=4)
    ).fit([X], [(y == 0).astype(int)])  # fmt: skip
    assert trainer.model_.members["x"].learners.feature.shape[1] == 15
    with pytest.raises(ValueError, match="depth is 0"):
        TreeFamily(X, (-1.0, 1.0), depth=0)
    with pytest.raises(ValueError, match="weak_learner is 'net'"):
        StructBoostClassifier(weak_learner="net").fit(X, y)


def test_stumps_priced_over_several_blocks_of_rows():
    rng = np.random.default_rng(0)
    # A sparse feature, which is read by its rare rows, a dense one, and rows without duals.
    features = np.column_stack((rng.random(20_000) < 0.1, rng.integers(300, size=20_000)))
    duals = rng.normal(size=(20_000, 2)) * (rng.random((20_000, 1)) < 0.6)
    splits = [features[:, f] > t for f in range(2) for t in np.unique(features[:, f])[:-1]]
    best = np.max([np.abs(np.where(right, 1.0, -1.0) @ duals) for right in splits], axis=0)
    family = StumpFamily(features, (-1.0, 1.0), exact=True)
    for candidate in family.price(duals, 1):
        channel = candidate.channel
        assert candidate.edge == pytest.approx(max(best[channel], abs(duals[:, channel].sum())))
        assert candidate.edge == pytest.approx(float(family.responses([candidate.learner])[0] @ duals[:, channel]))
