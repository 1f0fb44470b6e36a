"""Families of weak learners: edges, tables, files, and every formulation with each family."""

from __future__ import annotations

from functools import partial
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.svm import LinearSVC

from structboost import (
    AdaBoostECCClassifier,
    BinaryTask,
    MultiBoostCWClassifier,
    MultiBoostMOClassifier,
    ShareBoostClassifier,
    StructBoost,
    StructBoostClassifier,
)
from structboost.errors import EmptyModelWarning, TaskError
from structboost.learners import PairTreeFamily
from structboost.learners.feature import FeatureFamily
from structboost.learners.histogram import histograms
from structboost.learners.linear import LDAFamily, PerceptronFamily, SVMFamily
from structboost.learners.patch import PatchFamily
from structboost.learners.piecewise import PiecewiseFamily
from structboost.learners.pricing import BestChannel, BestCode, PerChannel, SharedOverChannels
from structboost.learners.stump import ShardedStumps, StumpFamily
from structboost.learners.tree import TreeFamily
from structboost.tasks import RankingTask

FAMILIES = [partial(TreeFamily, depth=2), PerceptronFamily, SVMFamily, LDAFamily]
NAMES = ["tree", "perceptron", "svm", "lda"]


def made(seed=0, n=60):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.normal(size=(n, 2))


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 999),
    st.sampled_from(range(len(FAMILIES))),
    st.sampled_from([(-1.0, 1.0), (0.0, 1.0)]),
)
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


REAL = [
    (FeatureFamily, (-1.0, 1.0)),
    (FeatureFamily, (0.0, 1.0)),
    (partial(PiecewiseFamily, n_centers=3, quantiles=(0.3,)), (-1.0, 1.0)),
]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 999), st.sampled_from(REAL))
def test_real_answers_are_priced_with_both_signs(seed, how):
    make, response = how
    X, duals = made(seed)
    family = make(X, response)
    found = family.price(duals, 2)
    for candidate in [*found, *family.refine(found[-1].learner, duals)]:
        answers = family.responses([candidate.learner])[0].astype(float)
        assert response[0] - 1e-6 <= answers.min() <= answers.max() <= response[1] + 1e-6
        assert answers @ duals[:, candidate.channel] == pytest.approx(candidate.edge, abs=1e-4)
        np.testing.assert_allclose(
            family.table([candidate.learner]).responses(X)[0], answers, atol=1e-6
        )
    # Every learner in both orientations, by enumeration.
    learners = [learner for learner, _ in family.price_shared(duals, 10**6)]
    answers = family.responses(learners).astype(float)
    both = np.concatenate((answers, sum(response) - answers))
    best = (both[both.any(axis=1)] @ duals).max(axis=0)
    for channel in range(2):
        assert max(c.edge for c in found if c.channel == channel) == pytest.approx(
            best[channel], abs=1e-4
        )


@pytest.mark.slow
@pytest.mark.parametrize("weak_learner", ["feature", "piecewise"])
@pytest.mark.parametrize("formulation", ["one_slack", "m_slack"])
def test_a_falling_feature_is_learned(weak_learner, formulation):
    x = np.random.default_rng(0).normal(size=(120, 2))
    label = np.sign(-x[:, 0]).astype(int)
    falling, rising = (
        StructBoostClassifier(
            objective="hinge", C=500, weak_learner=weak_learner, formulation=formulation
        ).fit(way * x, label)
        for way in (1.0, -1.0)
    )
    assert falling.history_[-1]["certified"]
    assert falling.score(x, label) > 0.97
    assert falling.objective_ == pytest.approx(rising.objective_, rel=0.02)


@pytest.mark.parametrize("weak_learner", ["feature", "piecewise"])
def test_both_hinge_forms_have_the_same_optimum_over_real_answers(weak_learner):
    """Answers that are no whole numbers reach the masters as they are."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=40) > 0, 1, -1)
    one, several = (
        StructBoost(
            BinaryTask(), C=20.0, tol=1e-5, weak_learner=weak_learner, formulation=formulation
        ).fit(X, y)
        for formulation in ("one_slack", "m_slack")
    )
    assert several.history_[-1]["gap"] <= 1e-5
    assert one.objective_ == pytest.approx(several.objective_, rel=1e-4)
    for trainer in (one, several):
        losses = np.maximum(0.0, 1.0 - y * trainer.model_.scores(X)[:, 0])
        objective = trainer.model_.weights.sum() + 20.0 * losses.mean()
        assert trainer.objective_ == pytest.approx(objective, rel=1e-5)


def test_pieces_of_both_signs_are_saved(tmp_path):
    X = made(3)[0]
    label = (X[:, 0] * X[:, 1] < 0).astype(int)
    model = StructBoostClassifier(
        objective="hinge", C=20, weak_learner="piecewise", max_iter=10
    ).fit(X, label)
    model.save(tmp_path / "pieces.model")
    again = StructBoostClassifier.load(tmp_path / "pieces.model")
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    table = model.model_.members["x"].learners
    assert set(np.unique(table.signs)) == {-1.0, 1.0}


def test_pieces_are_refused_where_scores_must_not_be_negative():
    with pytest.raises(ValueError, match="both signs"):
        PiecewiseFamily(made()[0], (0.0, 1.0))


@pytest.mark.parametrize("which", range(len(FAMILIES)))
def test_shared_learners_are_those_of_largest_norm(which):
    X, duals = made(3)
    family = FAMILIES[which](X, (-1.0, 1.0))
    found = family.price_shared(duals, 10)
    norms = [np.abs(edges).sum() for _, edges in found]
    assert len(norms) > 1
    assert norms == sorted(norms, reverse=True)
    answers = family.responses([learner for learner, _ in found]).astype(float)
    np.testing.assert_allclose(answers @ duals, [edges for _, edges in found], atol=1e-9)
    ((best, _),) = family.price_shared(duals, 1)
    assert best == found[0][0]


def test_a_stump_is_turned_on_shards_as_it_is_at_hand():
    X = made()[0]
    here = StumpFamily(X, (-1.0, 1.0))
    there = ShardedStumps(here.bins, (-1.0, 1.0))
    turned = 0
    for seed in range(6):
        duals = made(seed)[1]

        class Duals:
            """Duals whose rows are elsewhere."""

            def sums(self, first, last, duals=duals):
                return histograms(here.binned, duals, first, last)

        stump = here.price(duals, 1)[0].learner
        assert stump.bin >= 0
        found, expected = there.refine(stump, Duals()), here.refine(stump, duals)
        assert [c.learner for c in found] == [c.learner for c in expected]
        np.testing.assert_allclose([c.edge for c in found], [c.edge for c in expected], rtol=1e-9)
        assert all(c.edge >= 0 for c in found)
        turned += sum(c.learner != stump for c in found)
    assert turned > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((partial(PatchFamily, image_shape=(3, 1), side=side), "side is .*, grid .* and overlap")
          for side in (1, 2, 4)),
        *((partial(PatchFamily, image_shape=(6, 6), side=3, **changes), "side is 3, grid .* and")
          for changes in ({"grid": 0}, {"grid": 5}, {"overlap": -1})),
        (partial(PiecewiseFamily, n_centers=0), "n_centers is 0; give a whole number"),
        *((partial(PiecewiseFamily, quantiles=quantiles), "quantiles is .*; give fractions")
          for quantiles in ((), (0.5, 0.0), (1.5,))),
    ],
)  # fmt: skip
def test_what_a_family_cannot_be_made_with_is_named(make, message):
    width = int(np.prod(make.keywords.get("image_shape", (3, 1))))
    with pytest.raises(ValueError, match=message):
        make(np.random.default_rng(0).normal(size=(20, width)), (-1.0, 1.0))


def test_the_largest_grid_and_share_are_allowed():
    X = np.random.default_rng(0).normal(size=(20, 36))
    assert PatchFamily(X, image_shape=(6, 6), side=3, grid=4, overlap=0).n_features == 36
    assert PiecewiseFamily(X, (-1.0, 1.0), n_centers=1, quantiles=(1.0,)).n_features == 36


@pytest.mark.parametrize("which", range(len(FAMILIES)))
@pytest.mark.filterwarnings("error")
def test_a_channel_without_duals_has_an_edge_of_zero(which):
    X, duals = made()
    duals[:, 0] = 0.0
    found = FAMILIES[which](X, (-1.0, 1.0)).price(duals, 1)
    assert [c.channel for c in found] == [1, 0]
    assert found[0].edge > 0.0 == found[1].edge


@pytest.mark.filterwarnings("error")
def test_a_model_without_splits_has_no_important_features():
    X = np.random.default_rng(0).normal(size=(30, 3))
    with pytest.warns(EmptyModelWarning):
        empty = StructBoost(BinaryTask(), C=1e-3).fit(X, np.where(X[:, 0] > 0, 1, -1)).model_
    assert empty.n_learners == 0
    np.testing.assert_array_equal(empty.feature_importances(), np.zeros(3))
    np.testing.assert_array_equal(empty.scores(X), np.zeros((30, 1)))
    constant = StructBoost(BinaryTask(), C=10.0).fit(X, np.ones(30)).model_
    assert constant.n_learners == 1
    np.testing.assert_array_equal(constant.feature_importances(), np.zeros(3))


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
    assert (found.learner.thresholds, found.learner.leaves, found.edge) == (
        (1.5,),
        (-1.0, 1.0),
        4.0,
    )


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


@pytest.mark.parametrize("channel", [0, 1])
def test_the_svm_is_trained_without_the_smallest_tenth_of_the_duals(channel):
    """Section 4.3: a tenth of the rows with a dual lies far out and has a small weight."""
    rng = np.random.default_rng(channel)
    n = 120
    X = rng.normal(size=(n, 2))
    duals = np.zeros((n, 2))
    own = duals[:, channel]
    own[:] = np.where(X[:, 0] + 2.0 * X[:, 1] > 0, 1.0, -1.0) * rng.uniform(1.0, 2.0, size=n)
    own[:20] = 0.0
    X[20:30] = [0.0, 30.0] + 0.1 * rng.normal(size=(10, 2))
    own[20:30] = -rng.uniform(0.5, 0.9, size=10)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)

    def plane(rows):
        sizes = np.abs(own[rows])
        machine = LinearSVC(dual=False, tol=1e-3).fit(
            scaled[rows], own[rows] > 0, sample_weight=sizes / sizes.mean()
        )
        coefficients = machine.coef_[0] / X.std(axis=0)
        return np.append(coefficients, machine.intercept_[0] - coefficients @ X.mean(axis=0))

    learner = next(
        c for c in SVMFamily(X, (-1.0, 1.0)).price(duals, 1) if c.channel == channel
    ).learner
    found = np.append(learner.coefficients, learner.intercept)
    np.testing.assert_allclose(found, plane(np.arange(30, n)), rtol=1e-9)
    with_all = plane(np.arange(20, n))
    assert found[:2] @ with_all[:2] < 0.9 * np.linalg.norm(found[:2]) * np.linalg.norm(with_all[:2])


@pytest.mark.parametrize(
    "rule",
    [PerChannel(), BestChannel(), SharedOverChannels(), BestCode()],
    ids=lambda rule: type(rule).__name__,
)
@pytest.mark.parametrize("scales", list(permutations((0.01, 1.0, 7.0))))
def test_the_largest_edge_is_that_over_all_kinds(rule, scales):
    """Whichever kind comes first: a bound that forgets one is above the optimum."""
    rng = np.random.default_rng(0)
    parts = {"node": 30, "edge": 50, "image": 10}
    tables = {kind: rng.normal(size=(n, 2)) for kind, n in parts.items()}
    duals = {
        kind: scale * rng.normal(size=(n, 3))
        for (kind, n), scale in zip(parts.items(), scales, strict=True)
    }
    edges = []
    for kind, X in tables.items():
        splits = [
            np.ones(len(X)),
            *(np.where(X[:, f] > t, 1.0, -1.0) for f in range(2) for t in X[:, f]),
        ]
        by_channel = np.abs(np.array(splits) @ duals[kind])
        per_rule = {
            PerChannel: by_channel.max(),
            BestChannel: by_channel.max(),
            SharedOverChannels: by_channel.max(axis=0).sum(),
        }
        edges.append(per_rule.get(type(rule), by_channel.sum(axis=1).max()))
    families = {kind: StumpFamily(X, (-1.0, 1.0)) for kind, X in tables.items()}
    priced = rule.price(families, duals, 2, 0.0)
    assert priced.largest_edge == pytest.approx(max(edges), rel=1e-9)
    assert list(priced.columns) == list(parts)
    for kind, edge in zip(parts, edges, strict=True):
        assert max(column.edge for column in priced.columns[kind]) == pytest.approx(edge, rel=1e-9)
    # Columns of a kind come only where their edge is above what a unit of weight costs.
    between = rule.price(families, duals, 2, float(np.median(edges)) * (1 + 1e-6))
    assert sum(bool(columns) for columns in between.columns.values()) == 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weak_learner", NAMES)
@pytest.mark.parametrize(
    "face",
    [
        StructBoostClassifier(objective="hinge", C=50, max_iter=8),
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
        StructBoostClassifier(objective="hinge", weak_learner="net").fit(X, y)


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
        assert candidate.edge == pytest.approx(
            float(family.responses([candidate.learner])[0] @ duals[:, channel])
        )


@pytest.mark.parametrize("scale", [1e39, 1e-160])
def test_features_that_are_no_float32_are_named(scale):
    features = np.array([[1.0, scale], [2.0, 3 * scale]])
    with pytest.raises(
        TaskError, match=r"Feature 1 of X has values up to 3e[+-]\d+.*scale the feature"
    ):
        FeatureFamily(features)


@pytest.mark.parametrize(
    "family",
    [
        partial(PatchFamily, image_shape=(6, 6), side=3, grid=2, overlap=1, n_candidates=5),
        partial(PiecewiseFamily, n_centers=4, quantiles=(0.3,)),
    ],
)
def test_the_seed_of_a_family_that_draws_changes_what_it_finds(family):
    rng = np.random.default_rng(0)
    rows, duals = rng.random((60, 36)), rng.normal(size=(60, 2))
    edges = [
        [c.edge for c in family(rows, (-1.0, 1.0), random_state=seed).price(duals, 20)]
        for seed in (0, 0, 1)
    ]
    assert edges[0] == edges[1] != edges[2]


@pytest.mark.parametrize(
    ("family", "shared"),
    [
        (StumpFamily, False),
        (StumpFamily, True),
        (PairTreeFamily, False),
        (FeatureFamily, False),
        (FeatureFamily, True),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_last_bits_of_duals_do_not_decide_between_equal_learners(family, shared, seed):
    random = np.random.default_rng(seed)
    column = random.integers(0, 6, (40, 2)).astype(float)
    # Each feature has a mirror image, whose learners are as good.
    searched = family(np.hstack((column, -column)), (-1.0, 1.0))
    duals = random.integers(-3, 4, (40, 3)).astype(float)

    def found(noise):
        noisy = duals * (1.0 + noise * random.normal(size=duals.shape))
        if shared:
            return [learner for learner, _ in searched.price_shared(noisy, 2)]
        return [(c.learner, c.channel) for c in searched.price(noisy, 2)]

    expected = found(0.0)
    for _ in range(5):
        assert found(1e-15) == expected
