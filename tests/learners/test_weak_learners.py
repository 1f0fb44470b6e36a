"""Families of weak learners: edges, tables, and every formulation with each family."""

from functools import partial
from itertools import permutations, product
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.svm import LinearSVC

from structboost import BinaryTask, StructBoost
from structboost.errors import EmptyModelWarning
from structboost.learners import (
    ActiveFeatureFamily,
    CategoryFamily,
    FeatureFamily,
    LDAFamily,
    LinearFunctionFamily,
    PairTreeFamily,
    PatchFamily,
    PerceptronFamily,
    SVMFamily,
    TreeFamily,
    UnionFamily,
    active_features,
)
from structboost.learners.base import ListedFamily
from structboost.learners.histogram import histograms
from structboost.learners.pricing import BestChannel, BestCode, PerChannel, SharedOverChannels
from structboost.learners.stump import ShardedStumps, SparseStumpFamily, StumpFamily
from tests.helpers.problems import all_stumps

PAIR, SIGNED = ((-1.0, 1.0), (0.0, 1.0)), ((-1.0, 1.0),)


def made(seed=0, n=60):
    rng = default_rng(seed)
    return rng.normal(size=(n, 3)), rng.normal(size=(n, 2))


def with_holes(X):
    """Some values of the first feature are missing, and all of the last."""
    holes = default_rng(0).random(X.shape) < [0.3, 0.0, 1.0]
    return np.where(holes, np.nan, X)


def with_categories(X):
    rows = np.column_stack((np.floor(4 * np.abs(X[:, 0])) % 5, X[:, 1], np.abs(X[:, 2]) > 1))
    return np.where(default_rng(0).random(X.shape) < [0.2, 0.0, 0.2], np.nan, rows)


class Duals(NamedTuple):
    """Duals whose rows are elsewhere."""

    rows: StumpFamily
    duals: Any

    @property
    def shape(self):
        return self.duals.shape

    def sums(self, first, last):
        return histograms(self.rows.binned, self.duals, first, last)


class Elsewhere(ShardedStumps):
    """Stumps that only get histograms of the duals."""

    def __init__(self, X, response):
        self.here = StumpFamily(X, response)
        super().__init__(self.here.bins, response)

    def price(self, duals, per_channel):
        return super().price(Duals(self.here, duals), per_channel)

    def refine(self, learner, duals):
        return super().refine(learner, Duals(self.here, duals))

    def responses(self, learners):
        return self.here.responses(learners)


def union(X, response):
    return UnionFamily([LinearFunctionFamily(X, response), StumpFamily(X, response)])


images = partial(PatchFamily, image_shape=(6, 6), side=3, grid=2, n_candidates=5)
# Families, their responses, and the features that they read.
CASES = {
    "stump": (StumpFamily, PAIR),
    "stump, sparse": (lambda X, r: SparseStumpFamily(sparse.csr_array(X), r), PAIR),
    "stump, elsewhere": (Elsewhere, PAIR),
    "stump, holes": (StumpFamily, PAIR, with_holes),
    "stump, directions": (partial(StumpFamily, directions=[1, -1, 0]), PAIR, with_holes),
    "category": (partial(CategoryFamily, categorical=(0, 2)), PAIR, with_categories),
    "pair tree": (PairTreeFamily, PAIR),
    "tree": (partial(TreeFamily, depth=2), PAIR),
    "perceptron": (PerceptronFamily, PAIR),
    "svm": (SVMFamily, PAIR),
    "lda": (LDAFamily, PAIR),
    "tree, holes": (partial(TreeFamily, depth=4), PAIR, with_holes),
    "tree, sets": (partial(TreeFamily, depth=3, categorical=(0, 2)), PAIR, with_categories),
    "feature": (FeatureFamily, SIGNED),
    "active feature": (ActiveFeatureFamily, SIGNED, lambda X: active_features(X > 0.5)),
    "patch": (images, SIGNED, lambda X: np.tile(X, 12)),
    "linear": (LinearFunctionFamily, SIGNED),
    "linear, sparse": (lambda X, r: LinearFunctionFamily(sparse.csr_array(X), r), SIGNED),
    "union": (union, SIGNED),
}
SHARED = ["stump", "tree", "perceptron", "svm", "lda", "feature", "active feature", "patch"]


def case_of(name, X):
    """Constructor of a family, its responses, and the features that it reads."""
    make, responses, *reads = CASES[name]
    return make, responses, reads[0](X) if reads else X


def answers_of(family, learners):
    answers = family.responses(learners)
    return (answers.toarray() if sparse.issparse(answers) else answers).astype(float)


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=10)
@given(seed=st.integers(0, 999), per_channel=st.integers(1, 3))
def test_edges_are_what_the_answers_give_and_no_learner_has_a_larger_one(name, seed, per_channel):
    X, duals = made(seed)
    # Values that many rows share, zeros among them, and at times a channel without duals.
    X[:, 0] = np.round(X[:, 0])
    X[default_rng(seed).random(60) < 0.4, 1] = 0.0
    duals[:, 0] *= seed % 5 > 0
    make, responses, rows = case_of(name, X)
    for response in responses:
        family = make(rows, response)
        found = family.price(duals, per_channel)
        assert (np.diff([c.edge for c in found]) < 1e-9).all()  # of ties the first come first
        assert {c.channel for c in found} == {0, 1}
        refined = family.refine(found[-1].learner, duals)
        assert [c.channel for c in refined] == [0, 1]
        for candidate in [*found, *refined]:
            answers = answers_of(family, [candidate.learner])[0]
            edge = answers @ duals[:, candidate.channel]
            assert edge == pytest.approx(candidate.edge, rel=1e-4, abs=1e-4)
            if family.can_resume:
                assert family.restored(list(candidate.learner)) == candidate.learner
        check_table(family, [c.learner for c in [*found, *refined]], rows)
        every = every_answer(family, rows, response)
        widest = family.widest_edges(duals)
        for channel in range(2):
            best = max(c.edge for c in found if c.channel == channel)
            if len(every) and family.exact_pricing:
                # No learner of a negative edge is ever taken.
                largest = max(0.0, (every @ duals[:, channel]).max())
                assert max(0.0, best) == pytest.approx(largest, rel=1e-4, abs=1e-5)
            if widest is not None:
                assert max(0.0, widest[channel]) == pytest.approx(max(0.0, best), abs=1e-9)
            for candidate in refined:
                # A learner is turned around where that is better, and the family holds it so.
                turned = sum(response) - answers_of(family, [candidate.learner])[0]
                is_held = (every == turned).all(axis=1).any() and name != "stump, directions"
                if is_held or family.name == "linear":
                    own = duals[:, candidate.channel]
                    assert candidate.edge >= turned @ own - 1e-4


def check_table(family, learners, rows):
    """Check that the table of learners, and its fastest form, give the answers of the family."""
    table, answers = family.table(learners), answers_of(family, learners)
    assert_allclose(table.responses(rows), answers, atol=1e-5)
    weights = default_rng(0).normal(size=(len(learners), 3))
    weights[0] = 0.0
    scorer = table.scorer(weights, rows.shape[1])
    for n in (0, 1, 2, 60):
        expected = answers[:, :n].T @ weights
        assert_allclose(scorer.raw_scores(rows[:n]), expected, atol=1e-4)
    shares = table.feature_shares(rows.shape[1]).sum(axis=1)
    assert shares.max() <= 1 + 1e-12


def splits_of(column):
    """Left sides of all splits: at each distinct threshold, what is missing on either side."""
    missing = np.isnan(column)
    for threshold in [-np.inf, *np.unique(column[~missing])]:
        yield (column <= threshold) | missing
        yield column <= threshold


def every_answer(family, X, response):
    """Answers of all learners of stumps, of sets, and of families that list theirs."""
    low, high = response
    if family.name == "stump":
        is_right = []
        for f, column in enumerate(X.T):
            direction = family.directions[np.argmax(family.bins.feature == f)]
            for left in splits_of(column):
                # What is missing has no place in the order.
                is_free = np.isin((left == np.isnan(column)).mean(), (0, 1)) or not direction
                is_right += [left] * bool(is_free or direction < 0)
                is_right += [~left] * bool(is_free or direction > 0)
        return np.where(is_right, high, low)
    if family.name == "category":
        codes = [np.unique(X[:, f], return_inverse=True)[1] for f in (0, 2)]
        sets = [product((low, high), repeat=own.max() + 1) for own in codes]
        return np.concatenate([np.array([*s])[:, own] for s, own in zip(sets, codes, strict=True)])
    if not isinstance(family, ListedFamily):
        return np.zeros((0, len(X)))
    learner, edges = family.listed(np.zeros((len(X), 1)))
    right = answers_of(family, [learner(k) for k in range(len(edges))])
    both = np.concatenate((right, -right)) if family.both_signs else right
    return both[both.any(axis=1)]


@pytest.mark.parametrize("name", SHARED)
def test_shared_learners_are_those_of_largest_norm(name):
    X, duals = made(3)
    make, _, rows = case_of(name, X)
    family = make(rows, (-1.0, 1.0))
    found = [of for group in family.price_groups(duals, 10) for of in group]
    norms = [np.abs(edges).sum() for _, edges in found]
    assert len(norms) > 1
    if name != "patch":  # groups of cells
        assert norms == sorted(norms, reverse=True)
    learners = [learner for learner, _ in found]
    edges = np.array([edges for _, edges in found])
    assert_allclose(answers_of(family, learners) @ duals, edges, atol=1e-4)
    if name != "patch":  # draws others
        assert family.price_groups(duals, 1)[0][0][0] == learners[0]


def test_a_perceptron_is_at_least_as_good_as_the_stump_that_it_starts_from():
    X, duals = made(2, 200)
    stump = StumpFamily(X, (-1.0, 1.0)).price(duals, 1)[0].edge
    assert PerceptronFamily(X, (-1.0, 1.0)).price(duals, 1)[0].edge >= stump - 1e-9


@pytest.mark.parametrize("changes", [{"side": 1}, {"side": 7}, {"grid": 5}, {"overlap": -1}])
def test_cells_without_a_position_are_refused(changes):
    X = default_rng(0).normal(size=(20, 36))
    assert PatchFamily(X, image_shape=(6, 6), side=3, grid=4, overlap=0).n_features == 36
    with pytest.raises(ValueError, match=r"side is .*, grid .* and overlap"):
        PatchFamily(X, image_shape=(6, 6), **{"side": 3, **changes})


@pytest.mark.filterwarnings("error")
def test_a_model_without_splits_has_no_important_features():
    X = default_rng(0).normal(size=(30, 3))
    with pytest.warns(EmptyModelWarning):
        empty = StructBoost(BinaryTask(), C=1e-3).fit(X, np.where(X[:, 0] > 0, 1, -1)).model_
    assert empty.n_learners == 0
    assert_array_equal(empty.feature_importances(), np.zeros(3))
    assert_array_equal(empty.scores(X), np.zeros((30, 1)))
    constant = StructBoost(BinaryTask(), C=10.0).fit(X, np.ones(30)).model_
    assert constant.n_learners == 1
    assert_array_equal(constant.feature_importances(), np.zeros(3))


def test_discriminant_is_that_of_scikit_learn():
    X, _ = made(1, 300)
    y = X @ [1.0, -2.0, 0.5] + default_rng(0).normal(size=300) > 0.3
    # Equal weights within each class, equal classes.
    duals = np.where(y, 1.0 / y.sum(), -1.0 / (~y).sum())
    ours = LDAFamily(X, (-1.0, 1.0)).direction(duals)[:-1] / X.std(axis=0)
    theirs = LinearDiscriminantAnalysis(priors=[0.5, 0.5]).fit(X, y).coef_[0]
    cosine = ours @ theirs / np.linalg.norm(ours) / np.linalg.norm(theirs)
    assert cosine > 0.999


def test_the_svm_is_trained_without_the_smallest_tenth_of_the_duals():
    """Section 4.3: a tenth of the rows with a dual lies far out and has a small weight."""
    rng = default_rng(0)
    X = rng.normal(size=(120, 2))
    duals = np.where(X @ [1.0, 2.0] > 0, 1.0, -1.0) * rng.uniform(1.0, 2.0, size=120)
    duals[:20] = 0.0
    X[20:30] = [0.0, 30.0] + 0.1 * rng.normal(size=(10, 2))
    duals[20:30] = -rng.uniform(0.5, 0.9, size=10)

    def plane(rows):
        scaled, sizes = (X - X.mean(axis=0)) / X.std(axis=0), np.abs(duals[rows])
        machine = LinearSVC(dual=False, tol=1e-3)
        machine.fit(scaled[rows], duals[rows] > 0, sample_weight=sizes / sizes.mean())
        return np.append(machine.coef_, machine.intercept_)

    found = SVMFamily(X, (-1.0, 1.0)).direction(duals)
    assert_allclose(found, plane(np.arange(30, 120)), rtol=1e-9)
    assert np.abs(found - plane(np.arange(20, 120))).max() > 0.1


@pytest.mark.parametrize(
    "rule",
    [PerChannel(), BestChannel(), SharedOverChannels(), BestCode()],
    ids=lambda rule: type(rule).__name__,
)
@pytest.mark.parametrize("scales", list(permutations((0.01, 1.0, 7.0))))
def test_the_largest_edge_is_that_over_all_kinds(rule, scales):
    """Whichever kind comes first: a bound that forgets one is above the optimum."""
    rng = default_rng(0)
    parts = {"node": 30, "edge": 50, "image": 10}
    tables = {kind: rng.normal(size=(n, 2)) for kind, n in parts.items()}
    duals = {
        kind: scale * rng.normal(size=(n, 3))
        for (kind, n), scale in zip(parts.items(), scales, strict=True)
    }
    largest = {
        SharedOverChannels: lambda sizes: sizes.max(axis=0).sum(),
        BestCode: lambda sizes: sizes.sum(axis=1).max(),
    }.get(type(rule), np.max)
    edges = [largest(np.abs(all_stumps(X) @ duals[kind])) for kind, X in tables.items()]
    families = {kind: StumpFamily(X, (-1.0, 1.0)) for kind, X in tables.items()}
    priced = rule.price(families, duals, 2, 0.0)
    assert priced.largest_edge == pytest.approx(max(edges), rel=1e-9)
    assert list(priced.columns) == list(parts)
    for kind, edge in zip(parts, edges, strict=True):
        assert max(column.edge for column in priced.columns[kind]) == pytest.approx(edge, rel=1e-9)
    # Columns of a kind come only where their edge is above what a unit of weight costs.
    between = rule.price(families, duals, 2, float(np.median(edges)) * (1 + 1e-6))
    assert sum(bool(columns) for columns in between.columns.values()) == 1


def test_stumps_priced_over_several_blocks_of_rows():
    rng = default_rng(0)
    # A sparse feature, which is read by its rare rows, a dense one, and rows without duals.
    features = np.column_stack((rng.random(20_000) < 0.1, rng.integers(300, size=20_000)))
    duals = rng.normal(size=(20_000, 2)) * (rng.random((20_000, 1)) < 0.6)
    best = (all_stumps(features) @ duals).max(axis=0)
    family = StumpFamily(features, (-1.0, 1.0), exact=True)
    for candidate in family.price(duals, 1):
        channel = candidate.channel
        assert candidate.edge == pytest.approx(best[channel])
        assert candidate.edge == pytest.approx(
            float(family.responses([candidate.learner])[0] @ duals[:, channel])
        )


def test_the_seed_of_a_family_that_draws_changes_what_it_finds():
    family = partial(PatchFamily, image_shape=(6, 6), side=3, grid=2, overlap=1, n_candidates=5)
    rng = default_rng(0)
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
    random = default_rng(seed)
    column = random.integers(0, 6, (40, 2)).astype(float)
    # Each feature has a mirror image, whose learners are as good.
    searched = family(np.hstack((column, -column)), (-1.0, 1.0))
    duals = random.integers(-3, 4, (40, 3)).astype(float)

    def found(noise):
        noisy = duals * (1.0 + noise * random.normal(size=duals.shape))
        if shared:
            return [group[0][0] for group in searched.price_groups(noisy, 2)]
        return [(c.learner, c.channel) for c in searched.price(noisy, 2)]

    expected = found(0.0)
    for _ in range(5):
        assert found(1e-15) == expected
