"""Elastic nets against enumeration and an independent solver."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from structboost import StructBoostTagger
from structboost.linear.dual_chain import DualChain, chain_problem
from structboost.linear.primal_chain import PrimalChain
from structboost.linear.primal_likelihood import ElasticNet, PrimalLikelihood
from structboost.tasks.chain import ChainTask

N_FEATURES, N_TAGS = 7, 3
SOLVERS = [DualChain, PrimalChain, PrimalLikelihood]


def sequences(seed, n=12):
    """Tokens whose features 5 and 6 are equal, and tags that partly follow from them."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        size = rng.integers(1, 5)
        table = rng.random((size, N_FEATURES)) < 0.4
        table[:, 6] = table[:, 5]
        X.append(np.where(table, np.arange(N_FEATURES), -1))
        Y.append((table[:, 0] + table[:, 5] + (rng.random(size) < 0.2)) % N_TAGS)
    return X, Y


def features(x, y):
    """Joint feature of tokens and tags: features and a constant by tag, and pairs of tags."""
    tokens, pairs = np.zeros((N_FEATURES + 1, N_TAGS)), np.zeros((N_TAGS, N_TAGS))
    for row, tag in zip(x, y, strict=True):
        tokens[row[row >= 0], tag] += 1.0
        tokens[-1, tag] += 1.0
    for a, b in itertools.pairwise(y):
        pairs[a, b] += 1.0
    return np.concatenate((tokens.ravel(), pairs.ravel()))


def best_objective(X, Y, shares, C, l1_ratio):
    """Optimum by L-BFGS-B over positive and negative parts, with a list of all outputs."""
    outputs = [list(itertools.product(range(N_TAGS), repeat=len(x))) for x in X]
    every = [np.array([features(x, z) for z in of_x]) for x, of_x in zip(X, outputs, strict=True)]
    true = [features(x, y) for x, y in zip(X, Y, strict=True)]

    def objective(parts):
        positive, negative = np.split(parts, 2)
        w = positive - negative
        value = (1 - l1_ratio) / 2 * w @ w + l1_ratio * parts.sum()
        slope = (1 - l1_ratio) * w
        for share, of_all, of_true in zip(shares, every, true, strict=True):
            value += C * share * (logsumexp(of_all @ w) - of_true @ w)
            slope = slope + C * share * (softmax(of_all @ w) @ of_all - of_true)
        return value, np.concatenate((slope + l1_ratio, l1_ratio - slope))

    n = 2 * len(true[0])
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000, "maxfun": 5000}
    found = minimize(
        objective, np.zeros(n), jac=True, bounds=[(0, None)] * n, method="L-BFGS-B", options=options
    )
    return found.fun, np.subtract(*np.split(found.x, 2))


def weights_of(problem):
    matrices = problem.matrices()
    return np.concatenate((matrices["token"].ravel(), matrices["step"][-1]))


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("l1_ratio", "C"), [(0.0, 5.0), (0.2, 5.0), (0.5, 40.0), (0.9, 15.0)])
def test_optimum_and_zeros_are_those_of_an_independent_solver(solver, l1_ratio, C):
    X, Y = sequences(1)
    shares = np.random.default_rng(0).dirichlet(np.full(len(X), 5.0))
    best, weights = best_objective(X, Y, shares, C, l1_ratio)
    problem = solver(ChainTask(N_TAGS), X, Y, shares, active=["token"], l1_ratio=l1_ratio)
    problem.begin(C)
    for _ in range(400):
        problem.improve()
        assert problem.bound <= best * (1 + 1e-7)
        assert problem.primal >= best * (1 - 1e-7)
        if problem.primal - problem.bound < 1e-6 * problem.primal:
            break
    assert [problem.bound, problem.primal] == pytest.approx([best, best], rel=1e-4)
    own = weights_of(problem)
    np.testing.assert_allclose(own, weights, atol=0.02)
    if l1_ratio:
        clear = np.abs(weights) > 0.05
        assert own[clear].all()
        assert np.count_nonzero(own) < len(own)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("l1_ratio", [0.0, 0.3])
def test_the_next_C_and_the_whole_set_start_from_the_fit_before(solver, l1_ratio):
    X, Y = sequences(2, 40)
    rows = np.arange(0, 40, 2)
    settings = {"active": ["token"], "l1_ratio": l1_ratio}
    part = solver(
        ChainTask(N_TAGS), [X[i] for i in rows], [Y[i] for i in rows], np.full(20, 1 / 20),
        **settings,
    )  # fmt: skip
    for C in (10.0, 20.0):
        part.begin(C)
        for _ in range(60):
            part.improve()
    whole = solver(ChainTask(N_TAGS), X, Y, np.full(40, 1 / 40), **settings)
    other = solver(ChainTask(N_TAGS), X, Y, np.full(40, 1 / 40), **settings)
    whole.adopt(part.result(), rows, 30.0)
    other.begin(30.0)
    whole.improve()
    other.improve()
    assert whole.primal < other.primal
    for problem in (whole, other):
        for _ in range(100):
            problem.improve()
    assert whole.primal == pytest.approx(other.primal, rel=1e-3)
    assert whole.bound <= other.primal * (1 + 1e-9)


@settings(deadline=None)
@given(st.floats(0, 0.95), st.lists(st.floats(-5, 5), min_size=1, max_size=4), st.floats(1, 3))
def test_the_conjugate_is_the_largest_difference(l1_ratio, slopes, scale):
    net, slopes = ElasticNet(l1_ratio), np.array(slopes)
    best = net.best(slopes, scale)

    def difference(w):
        return float(slopes @ w) - net.value(w, scale)

    assert net.conjugate(slopes, scale) == pytest.approx(difference(best), abs=1e-9)
    for step in np.random.default_rng(0).normal(size=(20, len(slopes))):
        assert difference(best + step) <= difference(best) + 1e-9


def test_all_solvers_of_a_chain_take_it():
    X, Y = sequences(3)
    shares = np.full(len(X), 1 / len(X))
    for transitions in ("all", "seen"):
        problem = chain_problem(
            ChainTask(N_TAGS), X, Y, shares,
            active=["token"], transitions=transitions, l1_ratio=0.9,
        )  # fmt: skip
        problem.begin(1e-3)
        problem.improve()
        assert not weights_of(problem).any()


# -- the tagger ----------------------------------------------------------------------------------


def tokens(seed=0, n=60):
    """Sequences of which one name of twenty decides the tag."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        names = rng.random((5, 20)) < 0.3
        X.append([{f"f{j:02d}": True for j in np.flatnonzero(row)} | {"b": True} for row in names])
        y.append([("no", "yes")[int(row[3])] for row in names])
    return X, y


def test_names_that_say_nothing_have_weights_of_zero():
    X, y = tokens()
    plain = StructBoostTagger(C=60.0).fit(X, y)
    sparse = StructBoostTagger(C=60.0, l1_ratio=0.9).fit(X, y)
    assert np.count_nonzero(plain.feature_weights_.any(axis=1)) == 21
    used = sparse.feature_weights_.any(axis=1)
    assert used[sparse.feature_names_.index("f03")]
    assert used.sum() < 10
    assert sparse.score(*tokens(1)) == 1.0
    n = sum(np.count_nonzero(sparse.model_.matrix(kind)) for kind in ("token", "step"))
    assert f"{n} weights are not zero" in repr(sparse)
    assert sparse.history_[-1]["gap"] <= 0.01


def test_C_is_chosen_beside_an_l1_norm_and_the_file_has_the_same_model(tmp_path):
    X, y = tokens()
    tagger = StructBoostTagger(l1_ratio=0.5).fit(X, y)
    assert tagger.C_path_
    assert tagger.history_[-1]["gap"] <= 0.01
    tagger.save(tmp_path / "tagger")
    loaded = StructBoostTagger.load(tmp_path / "tagger")
    assert loaded.l1_ratio == 0.5
    assert loaded.predict(X) == tagger.predict(X)


def test_arrays_of_numbers_take_it_with_one_linear_function():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 12)) for _ in range(40)]
    y = [(x[:, 2] > 0).astype(int) for x in X]
    tagger = StructBoostTagger(weak_learner="linear", C=20.0, l1_ratio=0.9).fit(X, y)
    used = tagger.model_.members["token"].learners.coefficients.any(axis=0)
    assert used[2]
    assert used.sum() < 12


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "hinge"}, r"0\.5, which .* does not read; leave it out"),
        ({"objective": "svm"}, r"0\.5, which .* does not read; leave it out"),
        ({"weak_learner": "tree"}, r"0\.5, which .* does not read; leave it out"),
        ({"l1_ratio": 1.0}, "1"),
        ({"l1_ratio": -0.1}, "-0"),
        ({"l1_ratio": np.nan}, "nan"),
    ],
)
def test_values_out_of_range_and_objectives_that_do_not_read_it_are_refused(settings, message):
    with pytest.raises(ValueError, match=f"l1_ratio is {message}"):
        StructBoostTagger(**{"l1_ratio": 0.5} | settings).fit(*tokens(n=4))
