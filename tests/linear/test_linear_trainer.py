"""The trainer of linear functions by likelihood: optima, choice of C, temperature, Ctrl-C."""

import itertools

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from structboost.linear.chain import DualChain
from structboost.linear.designs import weights_of
from structboost.linear.linear_trainer import LinearTrainer
from structboost.linear.primal_likelihood import PrimalLikelihood
from structboost.model.ensemble import model_marginals
from structboost.objectives.likelihood import Likelihood
from structboost.selection.folds import random_folds
from structboost.tasks import MulticlassTask
from structboost.tasks.chain import ChainTask
from structboost.tasks.multi_label import MultiLabelTask
from structboost.validation import SparseRows
from tests.helpers.listed_outputs import Pairs

N_FEATURES = 7


def chain_data(n=60):
    """Tokens as indices of active features, and tags that partly follow from them."""
    rng = default_rng(0)
    X, Y = [], []
    for _ in range(n):
        size = rng.integers(1, 4)
        table = rng.random((size, N_FEATURES)) < 0.4
        X.append(np.where(table, np.arange(N_FEATURES), -1))
        Y.append((table[:, 0] + table[:, 1] + (rng.random(size) < 0.2)) % 3)
    return X, Y


# -- any task ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_bounded_weights_end_at_the_optimum_of_a_solver_with_bounds():
    rng = default_rng(1)
    X = rng.normal(size=(20, 3, 2))
    # Neighbours differ, so the weights of the edge would be negative.
    Y = [(k, 1 - k) if i % 4 else (k, k) for i, k in enumerate(rng.integers(0, 2, 20).tolist())]
    problem, fresh = (PrimalLikelihood(Pairs(), X, Y, np.full(20, 1 / 20)) for _ in range(2))
    problem.begin(10.0)
    bounds = [(0, None) if b else (None, None) for b in problem._bounded]
    start = np.zeros(len(bounds))
    best = minimize(problem._evaluate, start, jac=True, method="SLSQP", bounds=bounds).fun
    fresh.begin(10.0)
    for _ in range(20):
        fresh.improve()
        assert fresh.bound <= best * (1 + 1e-7)
    assert [fresh.bound, fresh.primal] == pytest.approx([best, best], rel=1e-3)
    assert (fresh.matrices()["edge"] >= 0).all()


def fitted(task, X, Y, C, weights=None):
    trainer = LinearTrainer(task, loss="log_loss", C=C, tol=1e-6, max_epochs=400)
    return trainer.fit(X, Y, weights)


def test_classes_are_those_of_logistic_regression_on_standardised_features():
    X, y = make_classification(80, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    weights = y + 1
    trainer = fitted(MulticlassTask(3), X, y, 40.0, weights)
    Z = np.column_stack(((X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))))
    other = LogisticRegression(
        C=40.0 / weights.sum(), fit_intercept=False, tol=1e-8, max_iter=1000
    ).fit(Z, y, weights)
    found = np.array([m.ravel() for m in model_marginals(trainer.task, trainer.model_, X)])
    np.testing.assert_allclose(found, other.predict_proba(Z), atol=2e-3)
    assert trainer.history_[-1]["gap"] <= 1e-4


def test_label_sets_of_a_sparse_table_are_one_logistic_regression_for_each_label():
    table = sparse.random(60, 12, 0.3, random_state=0, format="csr")
    X = SparseRows(table)
    Y = (table.toarray()[:, :3] + 0.3 * default_rng(0).random((60, 3)) > 0.3).astype(int)
    trainer = fitted(MultiLabelTask(3), X, Y, C=120.0)
    scores = trainer.model_.scores(X)
    Z = np.column_stack((table.toarray(), np.ones(60)))
    for k in range(3):
        other = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-8, max_iter=1000)
        other.fit(Z, Y[:, k])
        np.testing.assert_allclose(scores[:, k], other.decision_function(Z), atol=0.02)


# -- the trainer ---------------------------------------------------------------------------------


def chain_trainer(**settings):
    own = {"C": 30.0, "tol": 0.01, "max_epochs": 100, "active": ["token"], "problem": DualChain}
    return LinearTrainer(ChainTask(3), loss="log_loss", **own | settings)


def test_model_has_the_certified_objective():
    X, Y = chain_data()
    trainer = chain_trainer().fit(X, Y)
    last = trainer.history_[-1]
    assert last["certified"]
    assert last["bound"] <= last["primal"] == trainer.objective_
    assert last["gap"] <= 0.01
    scores = trainer.scores(X)
    losses = Likelihood.of(trainer.task, X, Y, scores.offsets).losses(scores.rows)
    model = trainer.model_
    tokens = weights_of(model.members["token"], trainer.task.kinds["token"], N_FEATURES)
    pairs = model.scores(np.ones((1, 1)), "step")
    norm = np.square(tokens).sum() + np.square(pairs).sum()
    assert 30.0 * losses.mean() + 0.5 * norm == pytest.approx(trainer.objective_)


def chosen(X, Y):
    """A trainer that has chosen C, and its folds with their held-out scores."""
    held = []
    trainer = chain_trainer(C="auto", on_held_out=held.extend)
    return trainer.fit(X, Y, folds=random_folds(X, Y)), held


def test_C_is_the_largest_among_the_most_likely():
    trainer, given = chosen(*chain_data(200))
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
    rng = default_rng(0)
    X, Y = chain_data(30)
    Y = [np.where(rng.random(len(y)) < 0.3, rng.integers(0, 3, len(y)), y) for y in Y]
    trainer, held = chosen(X, Y)
    task = trainer.task

    def loss(factor):
        losses = []
        for fold, scores in held:
            likelihood = Likelihood.of(task, fold.held_X, fold.held_Y, scores.offsets)
            losses.extend(likelihood.losses(scores.times(factor).rows))
        return np.mean(losses)

    grid = np.linspace(0.3, 1.0, 141)
    best = grid[np.argmin([loss(factor) for factor in grid])]
    assert trainer.temperature_ < 0.99
    assert trainer.temperature_ == pytest.approx(best, abs=0.02)
    assert trainer.model_.metadata["temperature"] == trainer.temperature_
    assert chain_trainer(C=5.0).fit(X, Y).temperature_ is None


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


@pytest.mark.filterwarnings("error")
def test_constant_features_get_no_weight():
    X = np.column_stack((np.full(20, 5.0), np.arange(20.0)))
    trainer = fitted(MulticlassTask(2), X, np.arange(20) // 10, C=20.0)
    assert not trainer.model_.members["x"].learners.coefficients[:, 0].any()
