"""Linear likelihoods against enumeration, differences and independent solvers."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import check_grad, minimize
from scipy.special import logsumexp
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from structboost.contract.parts import PartKind, StackedParts
from structboost.contract.task import Task
from structboost.errors import InterruptedFitWarning, TaskError
from structboost.inference.chain import space_of_sums
from structboost.linear.chain_passes import dual_pass, space_of_pass
from structboost.linear.designs import SameColumns
from structboost.linear.dual_chain import DualChain, chain_problem
from structboost.linear.linear_trainer import LinearTrainer
from structboost.linear.primal_chain import PrimalChain, slopes_of
from structboost.linear.primal_likelihood import PrimalLikelihood
from structboost.model.ensemble import model_marginals, model_predictions
from structboost.objectives.likelihood import log_losses
from structboost.selection.folds import random_folds
from structboost.tasks import MulticlassTask
from structboost.tasks.chain import ChainTask, Stretch, labelled_stretches
from structboost.tasks.multi_label import MultiLabelTask
from structboost.validation import SparseRows

N_FEATURES = 7


def sequences(rng, n=10, n_tags=3, longest=3):
    """Tokens as numbers of active features, and tags that partly follow from them."""
    X, Y = [], []
    for _ in range(n):
        size = rng.integers(1, longest + 1)
        table = rng.random((size, N_FEATURES)) < 0.4
        X.append(np.where(table, np.arange(N_FEATURES), -1))
        Y.append((table[:, 0] + table[:, 1] + (rng.random(size) < 0.2)) % n_tags)
    return X, Y


def of_chain(weights, n_tags):
    """Weights of the tokens, the constant last, and of the pairs of tags."""
    at = (N_FEATURES + 1) * n_tags
    return weights[:at].reshape(N_FEATURES + 1, n_tags), weights[at:].reshape(n_tags, n_tags)


def log_loss_of_sequence(x, y, tokens, pairs, allowed):
    """Minus the log-probability of tags, by a list of all sequences of tags."""
    x = x.x if isinstance(x, Stretch) else x
    scores = np.array([tokens[row[row >= 0]].sum(axis=0) + tokens[-1] for row in x])

    def score(z):
        return sum(scores[t, k] for t, k in enumerate(z)) + sum(
            pairs[a, b] for a, b in itertools.pairwise(z)
        )

    every = itertools.product(range(scores.shape[1]), repeat=len(x))
    return logsumexp([score(z) for z in every if allowed(z)]) - score(y)


def enumerated(X, Y, shares, n_tags, C, allowed=lambda z: True):
    """The objective as a function of all weights."""

    def objective(weights):
        tokens, pairs = of_chain(weights, n_tags)
        losses = [
            log_loss_of_sequence(x, y, tokens, pairs, allowed) for x, y in zip(X, Y, strict=True)
        ]
        return C * float(shares @ losses) + 0.5 * float(weights @ weights)

    return objective


def optimum(objective, n_tags):
    """An independent solver."""
    start = np.zeros((N_FEATURES + 1) * n_tags + n_tags**2)
    return minimize(objective, start, method="BFGS", options={"gtol": 1e-5}).fun


def trained(problem, C, n_rounds=60):
    """Bounds and objectives of all rounds."""
    problem.begin(C)
    out = []
    for _ in range(n_rounds):
        problem.improve()
        out.append((problem.bound, problem.primal))
    return np.array(out)


# -- the chain on active features ----------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(2, 4))
@settings(max_examples=25, deadline=None)
def test_risk_of_a_chain_is_the_enumerated_one_at_any_weights(seed, n_tags):
    rng = np.random.default_rng(seed)
    X, Y = sequences(rng, n=3, n_tags=n_tags, longest=4)
    shares = rng.dirichlet(np.ones(3))
    weights = 3 * rng.normal(size=(N_FEATURES + 1) * n_tags + n_tags**2)
    tokens, pairs = of_chain(weights, n_tags)
    entries = [row[row >= 0] for x in X for row in x]
    n_tokens, starts = len(np.concatenate(Y)), np.cumsum([0] + [len(y) for y in Y])
    duals = np.zeros((n_tokens, n_tags)), np.zeros((3, n_tags**2)), np.zeros(3), np.zeros(3)
    found = dual_pass(
        (
            np.concatenate(entries).astype(np.int32),
            np.cumsum([0] + [len(own) for own in entries]),
            np.ones(N_FEATURES + 1),
            np.zeros((len(entries), 0)),
            np.zeros(len(entries)),
        ),
        (starts, np.concatenate(Y), shares, np.ones((3, 2), bool)),
        (np.zeros(n_tags**2), np.zeros(n_tags), np.zeros(n_tags)),
        np.arange(3),
        np.ascontiguousarray(tokens),
        pairs.reshape(1, -1).copy(),
        duals,
        None,
        False,
        space_of_pass(starts, n_tags),
    )
    value = enumerated(X, Y, shares, n_tags, C=1.0)(weights) - 0.5 * weights @ weights
    assert found == pytest.approx(value)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [DualChain, PrimalChain])
def test_forbidden_pairs_have_no_probability_in_training(solver):
    X, Y = sequences(np.random.default_rng(4), n=40)
    kept = [i for i in range(len(X)) if not has_forbidden(Y[i])]
    X, Y = [X[i] for i in kept[:8]], [Y[i] for i in kept[:8]]
    shares = np.full(len(X), 1 / len(X))
    objective = enumerated(X, Y, shares, 3, 8.0, allowed=lambda z: not has_forbidden(z))
    task = ChainTask(3, forbidden=[(0, 1), (None, 2), (1, None)])
    rounds = trained(solver(task, X, Y, shares, active=["token"]), 8.0)
    assert rounds[-1] == pytest.approx([optimum(objective, 3)] * 2, rel=1e-4)


def has_forbidden(tags):
    ends = len(tags) and (tags[0] == 2 or tags[-1] == 1)
    return bool(ends) or any((a, b) == (0, 1) for a, b in itertools.pairwise(tags))


def test_a_forbidden_tag_of_training_is_named():
    X, Y = [np.array([[0], [1]])] * 2, [np.array([0, 0]), np.array([0, 1])]
    task = ChainTask(2, forbidden=[(0, 1)])
    with pytest.raises(TaskError, match=r"Y\[1\]"):
        DualChain(task, X, Y, np.full(2, 0.5), active=["token"])


@pytest.mark.slow
@pytest.mark.parametrize("l1_ratio", [0.0, 0.3])
@pytest.mark.parametrize("solver", [DualChain, PrimalChain])
def test_vectors_beside_active_features_have_the_optimum_of_the_general_solver(solver, l1_ratio):
    rng = np.random.default_rng(3)
    X, Y = sequences(rng, n=12, longest=4)
    vectors = [3.0 * y[:, None] + rng.normal(5.0, [1.0, 9.0], size=(len(y), 2)) for y in Y]
    X = list(zip(X, vectors, strict=True))
    shares, task = rng.dirichlet(np.ones(12)), ChainTask(3, vectors=True)
    settings = {"active": ["token"], "l1_ratio": l1_ratio}
    wanted = trained(PrimalLikelihood(task, X, Y, shares, **settings), 6.0)[-1]
    problem = solver(task, X, Y, shares, **settings)
    assert trained(problem, 6.0)[-1] == pytest.approx([wanted[1]] * 2, rel=1e-3)
    assert wanted == pytest.approx([wanted[1]] * 2, rel=1e-3)
    assert np.abs(problem.matrices()["vector"][:2]).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("solver", [DualChain, PrimalChain])
def test_unknown_tags_leave_the_pieces_between_them(solver):
    X, Y = sequences(np.random.default_rng(5), n=6, longest=6)
    Y = [np.where(np.random.default_rng(len(y)).random(len(y)) < 0.3, -1, y) for y in Y]
    pieces, tags = labelled_stretches(X, Y)
    shares = np.full(len(pieces), 1 / len(pieces))
    rounds = trained(solver(ChainTask(3), pieces, tags, shares, active=["token"]), 5.0)
    best = optimum(enumerated(pieces, tags, shares, 3, C=5.0), 3)
    assert rounds[-1] == pytest.approx([best, best], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [DualChain, PrimalChain])
def test_a_weight_of_two_is_an_example_twice(solver):
    X, Y = sequences(np.random.default_rng(6))
    once = solver(ChainTask(3), X, Y, np.array([2.0] + [1.0] * 9) / 11, active=["token"])
    twice = solver(ChainTask(3), [X[0], *X], [Y[0], *Y], np.full(11, 1 / 11), active=["token"])
    assert trained(once, 6.0)[-1] == pytest.approx(trained(twice, 6.0)[-1], rel=1e-5)


def test_the_dual_never_falls_and_the_next_C_starts_from_it():
    X, Y = sequences(np.random.default_rng(7), n=40)
    problem = DualChain(ChainTask(3), X, Y, np.full(40, 1 / 40), active=["token"])
    bounds = trained(problem, 3.0, 10)[:, 0]
    assert (np.diff(bounds) >= -1e-9).all()
    warm = trained(problem, 4.0, 1)[0]
    cold = trained(DualChain(ChainTask(3), X, Y, np.full(40, 1 / 40), active=["token"]), 4.0, 1)[0]
    assert warm[1] - warm[0] < cold[1] - cold[0]


@pytest.mark.parametrize("solver", [DualChain, PrimalChain])
def test_scores_that_overflow_end_in_finite_weights(solver):
    X = [np.array([[0], [1], [0]])] * 3
    Y = [np.array([0, 1, 0])] * 3
    rounds = trained(solver(ChainTask(2), X, Y, np.full(3, 1 / 3), active=["token"]), 1e9)
    assert np.isfinite(rounds[-1]).all()
    assert rounds[-1][0] <= rounds[-1][1] * (1 + 1e-6)


@pytest.mark.parametrize("solver", [DualChain, PrimalChain])
def test_empty_sequences_take_part(solver):
    X = [np.zeros((0, 2), int), np.array([[0, -1], [1, -1]])]
    Y = [np.zeros(0, int), np.array([0, 1])]
    rounds = trained(solver(ChainTask(2), X, Y, np.full(2, 0.5), active=["token"]), 1.0)
    assert rounds[-1][0] == pytest.approx(rounds[-1][1], rel=1e-4)


def test_long_sequences_are_trained_in_as_many_rounds_as_short_ones():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 40, (3000, 1))
    tags = np.where(rng.random(3000) < 0.9, rows[:, 0] % 3, 0)
    objectives = []
    for size in (20, 3000):
        X, Y = ([own[i : i + size] for i in range(0, 3000, size)] for own in (rows, tags))
        problem = chain_problem(ChainTask(3), X, Y, np.full(len(X), 1 / len(X)), active=["token"])
        bound, primal = trained(problem, len(X), 15)[-1]
        assert primal - bound < 0.01 * primal
        objectives.append(primal)
    # Steps between the pieces are missing in one of them.
    assert objectives[0] == pytest.approx(objectives[1], rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("solvers", [(DualChain, PrimalChain), (PrimalChain, DualChain)])
def test_a_problem_begins_from_one_of_the_other_kind(solvers):
    X, Y = sequences(np.random.default_rng(9))
    first, second = (
        own(ChainTask(3), X, Y, np.full(len(X), 1 / len(X)), active=["token"]) for own in solvers
    )
    wanted = trained(first, 5.0)[-1]
    second.adopt(first.result(), np.arange(len(X)), 5.0)
    assert trained(second, 5.0)[-1] == pytest.approx(wanted, rel=1e-4)


# -- equal columns --------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_equal_columns_are_one_column_of_the_same_scores_and_norm(seed):
    rng = np.random.default_rng(seed)
    table = rng.random((5, 4))[:, rng.integers(0, 4, 9)] < 0.5
    rows = np.where(table, np.arange(9), -1)
    columns = SameColumns(rows, 9)
    groups, starts = columns.entries
    matrix = np.zeros((5, len(columns.values)))
    for p in range(5):
        own = groups[starts[p] : starts[p + 1]]
        assert len(set(own.tolist())) == len(own)
        matrix[p, own] = columns.values[own]
    weights = rng.normal(size=(len(columns.values), 2))
    spread = columns.spread(weights)
    np.testing.assert_allclose(matrix @ weights, table @ spread, atol=1e-12)
    assert np.square(spread).sum() == pytest.approx(np.square(weights).sum())
    distinct = {tuple(column) for column in table.T}
    assert len(columns.values) == len(distinct)


# -- any task ------------------------------------------------------------------------------------


class Signed(Task):
    """Two nodes and an edge whose score must not be negative."""

    kinds = {"node": PartKind(n_channels=2), "edge": PartKind(response=(0.0, 1.0))}

    def parts(self, x):
        return {"node": x[:2], "edge": np.abs(x[2:3])}

    def joint_feature(self, x, y):
        edge = np.array([[-float(y[0] != y[1])]])
        return {"node": (np.arange(2), np.asarray(y), np.ones(2)), "edge": edge}

    def loss(self, y, y_pred):
        return float(np.sum(np.asarray(y) != np.asarray(y_pred)))

    def outputs(self, x):
        return itertools.product((0, 1), repeat=2)


def test_gradient_is_that_of_finite_differences():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 3, 2))
    Y = [tuple(y) for y in rng.integers(0, 2, (8, 2)).tolist()]
    problem = PrimalLikelihood(Signed(), X, Y, rng.dirichlet(np.ones(8)))
    problem.begin(3.0)
    start = rng.normal(size=len(problem._solver.weights))
    error = check_grad(lambda w: problem._evaluate(w)[0], lambda w: problem._evaluate(w)[1], start)
    assert error < 1e-4


def test_bounded_weights_end_at_the_optimum_of_a_solver_with_bounds():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 3, 2))
    # Neighbours differ, so the weights of the edge would be negative.
    Y = [(k, 1 - k) if i % 4 else (k, k) for i, k in enumerate(rng.integers(0, 2, 20).tolist())]
    problem = PrimalLikelihood(Signed(), X, Y, np.full(20, 1 / 20))
    problem.begin(10.0)
    bounds = [(0, None) if b else (None, None) for b in problem._bounded]
    start = np.zeros(len(bounds))
    best = minimize(problem._evaluate, start, jac=True, method="L-BFGS-B", bounds=bounds).fun
    fresh = PrimalLikelihood(Signed(), X, Y, np.full(20, 1 / 20))
    rounds = trained(fresh, 10.0, 20)
    assert (rounds[:, 0] <= best * (1 + 1e-9)).all()
    assert rounds[-1] == pytest.approx([best, best], rel=1e-3)
    assert (fresh.matrices()["edge"] >= 0).all()


def fitted(task, X, Y, C, **settings):
    return LinearTrainer(task, loss="log_loss", C=C, tol=1e-4, max_rounds=400, **settings).fit(X, Y)


def test_classes_are_those_of_logistic_regression_on_standardised_features():
    X, y = make_classification(80, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    trainer = fitted(MulticlassTask(3), X, y, C=40.0)
    Z = np.column_stack(((X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))))
    other = LogisticRegression(C=40.0 / 80, fit_intercept=False, tol=1e-8, max_iter=1000).fit(Z, y)
    found = np.array([m.ravel() for m in model_marginals(trainer.task, trainer.model_, X)])
    np.testing.assert_allclose(found, other.predict_proba(Z), atol=2e-3)
    assert trainer.history_[-1]["gap"] <= 1e-4


def test_label_sets_of_a_sparse_table_are_one_logistic_regression_for_each_label():
    rng = np.random.default_rng(0)
    table = sparse.random(60, 12, 0.3, random_state=0, format="csr")
    X = SparseRows(table)
    Y = (table.toarray()[:, :3] + 0.3 * rng.random((60, 3)) > 0.3).astype(int)
    trainer = fitted(MultiLabelTask(3), X, Y, C=120.0)
    scores = trainer.model_.scores(X)
    Z = np.column_stack((table.toarray(), np.ones(60)))
    for k in range(3):
        other = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-8, max_iter=1000)
        other.fit(Z, Y[:, k])
        np.testing.assert_allclose(scores[:, k], other.decision_function(Z), atol=0.02)


# -- the trainer ---------------------------------------------------------------------------------


def chain_data(n=60, seed=0):
    return sequences(np.random.default_rng(seed), n=n)


def chain_trainer(**settings):
    own = {"C": 30.0, "tol": 0.01, "max_rounds": 100, "active": ["token"], "problem": DualChain}
    return LinearTrainer(ChainTask(3), loss="log_loss", **own | settings)


def test_model_has_the_certified_objective():
    X, Y = chain_data()
    trainer = chain_trainer().fit(X, Y)
    last = trainer.history_[-1]
    assert last["certified"]
    assert last["bound"] <= last["primal"] == trainer.objective_
    assert last["gap"] <= 0.01
    tokens = trainer.model_.scores(np.full((1, N_FEATURES), -1), "token")
    assert np.isfinite(tokens).all()
    weights = np.zeros((N_FEATURES + 1, 3))
    rows = np.column_stack([np.arange(N_FEATURES)] + [np.full(N_FEATURES, -1)] * (N_FEATURES - 1))
    weights[-1] = tokens[0]
    weights[:-1] = trainer.model_.scores(rows, "token") - tokens[0]
    pairs = trainer.model_.scores(np.ones((1, 1)), "step")
    flat = np.concatenate((weights.ravel(), pairs.ravel()))
    objective = enumerated(X, Y, np.full(len(X), 1 / len(X)), 3, C=30.0)
    assert objective(flat) == pytest.approx(trainer.objective_)


def test_C_is_the_largest_among_the_most_likely():
    X, Y = chain_data(200)
    given = []
    trainer = chain_trainer(C="auto", on_held_out=given.extend)
    trainer.fit(X, Y, folds=random_folds(X, Y))
    least = min(entry["surrogate"] for entry in trainer.C_path_)
    near = [entry["C"] for entry in trainer.C_path_ if entry["surrogate"] <= 1.05 * least]
    assert trainer.C_ == max(near)
    assert trainer.C_path_end_
    assert sorted(row for fold, _ in given for row in fold.held_rows) == list(range(200))
    assert all(len(own.offsets["token"]) == len(fold.held_Y) + 1 for fold, own in given)


@pytest.mark.parametrize("C", ["auto", 30.0])
def test_folds_beyond_those_that_choose_c_are_fitted_at_the_c_of_the_fit(C):
    X, Y = chain_data(300)
    folds = random_folds(X, Y)
    held = []
    chain_trainer(C=C, on_held_out=held.extend).fit(X, Y, folds=folds)
    assert [fold.rows.tolist() for fold, _ in held] == [fold.rows.tolist() for fold in folds]
    if C == "auto":
        return
    fold, scores = held[-1]
    other = chain_trainer(C=C, tol=1e-3).fit(fold.X, fold.Y)
    wanted = other.scores(fold.held_X).rows["token"]
    # Folds are fitted to a coarse gap.
    assert np.corrcoef(scores.rows["token"].ravel(), wanted.ravel())[0, 1] > 0.99


@pytest.mark.slow
def test_temperature_minimises_the_log_loss_of_held_out_sequences():
    rng = np.random.default_rng(0)
    X, Y = chain_data(30)
    Y = [np.where(rng.random(len(y)) < 0.3, rng.integers(0, 3, len(y)), y) for y in Y]
    held = []
    trainer = chain_trainer(C="auto", on_held_out=held.extend)
    trainer.fit(X, Y, folds=random_folds(X, Y))
    task = trainer.task

    def loss(factor):
        losses = []
        for fold, scores in held:
            times = StackedParts(
                {kind: factor * rows for kind, rows in scores.rows.items()}, scores.offsets
            )
            losses.extend(log_losses(task, fold.held_X, fold.held_Y, times, 1.0))
        return np.mean(losses)

    grid = np.linspace(0.3, 1.0, 141)
    best = grid[np.argmin([loss(factor) for factor in grid])]
    assert trainer.temperature_ < 0.99
    assert trainer.temperature_ == pytest.approx(best, abs=0.02)
    assert trainer.model_.metadata["temperature"] == trainer.temperature_
    assert chain_trainer(C=5.0).fit(X, Y).temperature_ is None


def test_the_same_seed_gives_the_same_model():
    X, Y = chain_data()
    first, second = (chain_trainer(random_state=1).fit(X, Y).model_ for _ in range(2))
    np.testing.assert_array_equal(
        first.members["token"].coefficients, second.members["token"].coefficients
    )


def test_ctrl_c_keeps_the_rounds_before(monkeypatch):
    X, Y = chain_data()
    interrupt(monkeypatch, 3)
    with pytest.warns(InterruptedFitWarning, match="after 2 rounds"):
        trainer = chain_trainer(tol=1e-9).fit(X, Y)
    assert trainer.interrupted_
    assert len(model_predictions(trainer.task, trainer.model_, X)) == len(X)


@pytest.mark.parametrize(("C", "round_"), [(30.0, 1), ("auto", 3)])
def test_ctrl_c_before_there_is_a_model_is_raised(monkeypatch, C, round_):
    X, Y = chain_data()
    interrupt(monkeypatch, round_)
    with pytest.raises(KeyboardInterrupt):
        chain_trainer(C=C).fit(X, Y, folds=random_folds(X, Y))


def interrupt(monkeypatch, round_):
    calls = itertools.count(1)
    improve = DualChain.improve

    def interrupted(self):
        if next(calls) == round_:
            raise KeyboardInterrupt
        improve(self)

    monkeypatch.setattr(DualChain, "improve", interrupted)


def test_rounds_that_do_not_suffice_are_warned_of():
    X, Y = chain_data()
    with pytest.warns(ConvergenceWarning, match="max_rounds = 1"):
        chain_trainer(tol=1e-6, max_rounds=1).fit(X, Y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"C": -1.0}, "C"), ({"tol": 2.0}, "tol"), ({"max_rounds": 0}, "max_rounds")],
)
def test_parameters_out_of_range_are_named(settings, message):
    X, Y = chain_data(4)
    with pytest.raises(ValueError, match=message):
        chain_trainer(**settings).fit(X, Y)


def test_features_that_are_missing_are_refused():
    X = np.array([[np.nan, 1.0], [0.0, 1.0]])
    with pytest.raises(TaskError, match=r"X\[0\]"):
        fitted(MulticlassTask(2), X, np.array([0, 1]), C=1.0)


def test_constant_features_get_no_weight():
    X = np.column_stack((np.full(20, 5.0), np.arange(20.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer = fitted(MulticlassTask(2), X, np.arange(20) // 10, C=20.0)
    assert not trainer.model_.members["x"].learners.coefficients[:, 0].any()


# -- pairs of tags that training has ---------------------------------------------------------------


@pytest.mark.parametrize("size", [1.0, 30.0, 2000.0])
@pytest.mark.parametrize("forbidden", [[], [(0, 1), (None, 2), (1, None)]])
def test_sums_over_listed_pairs_equal_sums_over_all(size, forbidden):
    rng = np.random.default_rng(0)
    n_tags, lengths = 5, [1, 0, 4, 7, 2]
    starts = np.cumsum([0, *lengths])
    tags = np.zeros(14, int)
    sequences_of = (starts, tags, rng.dirichlet(np.ones(5)), np.ones((5, 2), bool))
    task = ChainTask(n_tags, forbidden=forbidden)
    seen = np.flatnonzero(rng.random(n_tags**2) < 0.3)
    banned = np.flatnonzero(np.isinf(task.penalties[0]))
    transitions = np.zeros((1, n_tags**2))
    transitions[0, seen] = size * rng.normal(size=len(seen))
    scores = size * rng.normal(size=(14, n_tags))
    found = []
    for listed in (np.zeros(0, np.int64), np.union1d(seen, banned)):
        slopes, of_pairs = scores.copy(), np.zeros((1, n_tags**2))
        space = (*np.empty((2, 7, n_tags)), space_of_sums(starts, n_tags))
        values = slopes_of(
            slopes, transitions, sequences_of, task.penalties, listed, space, of_pairs
        )
        found.append((*values, slopes, of_pairs[:, seen]))
    for own, other in zip(*found, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-9 * size)


@pytest.mark.parametrize("least", [-np.inf, -60.0])
@pytest.mark.parametrize("largest", [0.0, 10.0, 60.0])
def test_differences_of_listed_pairs_that_lose_digits_are_found(largest, least):
    # Tags that listed pairs make unlikely are the most likely ones by their tokens.
    for seed in range(20):
        rng = np.random.default_rng(seed)
        pairs = np.zeros((1, 16))
        listed = np.sort(rng.choice(16, 10, replace=False))
        pairs[0, listed] = rng.choice([largest, least, 1.0], 10)
        scores = rng.choice([0.0, 60.0], (6, 4))
        penalties = np.where(np.isinf(pairs[0]), -np.inf, 0.0), np.zeros(4), np.zeros(4)
        sequences_of = np.array([0, 6]), np.zeros(6, int), np.ones(1), np.ones((1, 2), bool)
        space = (*np.empty((2, 6, 4)), space_of_sums(np.array([0, 6]), 4))
        finite = np.where(np.isinf(pairs), 0.0, pairs)
        slopes = [scores.copy(), scores.copy()]
        for own, of in zip(slopes, (np.zeros(0, np.int64), listed), strict=True):
            slopes_of(own, finite, sequences_of, penalties, of, space, np.zeros((1, 16)))
        np.testing.assert_allclose(slopes[1], slopes[0], atol=1e-6)


@pytest.mark.slow
def test_pairs_that_training_lacks_score_zero_at_the_optimum():
    X, Y = sequences(np.random.default_rng(1), n=8)
    shares = np.full(8, 1 / 8)
    seen = np.zeros(9)
    for y in Y:
        seen[y[:-1] * 3 + y[1:]] = 1.0
    assert 0 < seen.sum() < 9
    objective = enumerated(X, Y, shares, 3, C=8.0)
    n = (N_FEATURES + 1) * 3
    best = optimum(lambda w: objective(np.concatenate((w[:n], w[n:] * seen))), 3)
    problem = chain_problem(ChainTask(3), X, Y, shares, active=["token"], transitions="seen")
    assert trained(problem, 8.0)[-1] == pytest.approx([best, best], rel=1e-4)
    assert not problem.matrices()["step"][-1][seen == 0].any()
