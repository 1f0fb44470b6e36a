"""The linear structured SVM against an independent solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from structboost import BinaryTask, MulticlassTask, RankingTask, StructuredSVM
from structboost.exceptions import InterruptedFitWarning

N, D, K = 15, 2, 3


def quadratic_program(rows, losses, slacks, costs):
    """``min 1/2 |w|^2 + costs' xi`` subject to ``rows w + xi >= losses, xi >= 0``, by SLSQP."""
    n_weights, n_slacks = rows.shape[1], len(costs)
    one_hot = np.zeros((len(rows), n_slacks))
    one_hot[np.arange(len(rows)), slacks] = 1.0
    A = np.hstack((rows, one_hot))
    start = np.concatenate((np.zeros(n_weights), np.ones(n_slacks)))
    result = minimize(
        lambda v: 0.5 * v[:n_weights] @ v[:n_weights] + costs @ v[n_weights:],
        start,
        jac=lambda v: np.concatenate((v[:n_weights], costs)),
        constraints={"type": "ineq", "fun": lambda v: A @ v - losses, "jac": lambda v: A},
        bounds=[(None, None)] * n_weights + [(0, None)] * n_slacks,
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert result.success
    return result.fun


def multiclass(rng, C):
    X, y = rng.normal(size=(N, D)), rng.integers(0, K, size=N)
    bias = np.hstack((X, np.ones((N, 1))))
    rows, slacks = [], []
    for i in range(N):
        for c in set(range(K)) - {int(y[i])}:
            row = np.zeros((D + 1, K))
            row[:, y[i]] += bias[i]
            row[:, c] -= bias[i]
            rows.append(row.ravel())
            slacks.append(i)
    return MulticlassTask(K), X, y, quadratic_program(np.array(rows), np.ones(len(rows)), slacks, np.full(N, C / N))


def binary(rng, C):
    X, y = rng.normal(size=(N, D)), rng.choice([-1, 1], size=N)
    rows = y[:, None] * np.hstack((X, np.ones((N, 1))))
    return BinaryTask(), X, y, quadratic_program(rows, np.ones(N), np.arange(N), np.full(N, C / N))


def ranking(rng, C):
    X, y = rng.normal(size=(8, D)), rng.integers(0, 3, size=8)
    pairs = [(i, j) for i in range(8) for j in range(8) if y[i] > y[j]]
    rows = np.array([np.append(X[i] - X[j], 0.0) for i, j in pairs])
    costs = np.full(len(pairs), C / len(pairs))
    return RankingTask(), [X], [y], quadratic_program(rows, np.ones(len(pairs)), np.arange(len(pairs)), costs)


@pytest.mark.parametrize("problem", [multiclass, binary, ranking])
@pytest.mark.parametrize("C", [0.5, 20.0])
def test_objective_and_bound(problem, C):
    task, X, Y, optimum = problem(np.random.default_rng(3), C)
    svm = StructuredSVM(task, C=C, tol=1e-5, random_state=0).fit(X, Y)
    assert svm.objective_ == pytest.approx(optimum, rel=2e-5)
    for record in svm.history_:
        assert record["bound"] <= optimum * (1 + 1e-6)
        assert record["primal"] >= optimum * (1 - 1e-6)


def test_same_seed_same_weights():
    task, X, Y, _ = multiclass(np.random.default_rng(0), 1.0)
    a, b = (StructuredSVM(task, C=5.0, random_state=1).fit(X, Y) for _ in range(2))
    assert np.array_equal(a.w_, b.w_)
    assert a.predict(X) == b.predict(X)


def test_interruption_keeps_the_best_weights():
    class Interrupting(MulticlassTask):
        calls = 0

        def separate(self, X, Y, scores):
            type(self).calls += 1
            if type(self).calls == 3:
                raise KeyboardInterrupt
            return super().separate(X, Y, scores)

    _, X, Y, _ = multiclass(np.random.default_rng(0), 1.0)
    svm = StructuredSVM(Interrupting(K), C=500.0, tol=1e-9, random_state=0)
    with pytest.warns(InterruptedFitWarning, match="2 exact passes"):
        svm.fit(X, Y)
    assert len(svm.predict(X)) == N


@pytest.mark.parametrize(("arguments", "message"), [({"C": 0}, "C is 0"), ({"tol": -1}, "tol is -1")])
def test_parameters_out_of_range_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        StructuredSVM(BinaryTask(), **arguments).fit([[0.0], [1.0]], [-1, 1])
