"""A problem as masters get it, without a trainer, and its optimum by a full linear program."""

import numpy as np
from scipy.optimize import linprog, minimize

from structboost.objectives import Problem


def problem_of(task, y):
    """A problem whose examples have one part each, all of the same weight."""
    n = len(y)
    (kind,) = task.kinds
    random = np.random.RandomState(0)
    return Problem(task, None, y, {kind: np.arange(n + 1)}, np.full(n, 1 / n), random)


def all_stumps(X):
    """Responses of all stumps and constants, both orientations, shape (n_learners, n)."""
    out = [np.ones(len(X)), -np.ones(len(X))]
    for f in range(X.shape[1]):
        for value in np.unique(X[:, f])[:-1]:
            right = np.where(X[:, f] > value, 1.0, -1.0)
            out += [right, -right]
    return np.array(out)


def class_margins(responses, y, n_classes=3):
    """Margin of every (example, wrong class) by the weights of (channel, learner); the examples."""
    pairs = [(i, wrong) for i in range(len(y)) for wrong in range(n_classes) if wrong != y[i]]
    codes = np.eye(n_classes)
    margins = [np.kron(codes[y[i]] - codes[wrong], responses[:, i]) for i, wrong in pairs]
    return np.array(margins), np.array(pairs)[:, 0]


def full_optimum(rows, losses, slacks, costs, norms=None, most=None):
    """Smallest ``sum(w) + costs' xi`` with ``rows w >= losses - xi[slacks]``, by scipy.

    With ``norms``, weights cost nothing, and ``norms w <= most``.
    """
    A = -np.hstack((rows, np.eye(len(costs))[slacks]))
    b = -np.broadcast_to(losses, len(rows))
    if norms is not None:
        A = np.vstack((A, np.hstack((norms, np.zeros((len(norms), len(costs)))))))
        b = np.append(b, np.full(len(norms), most))
    answer = linprog(np.append(np.full(rows.shape[1], float(norms is None)), costs), A, b)
    assert answer.status == 0
    return answer.fun


def quadratic_optimum(costs, squares, rows, right, least=0.0):
    """Smallest ``costs' x + squares' x**2 / 2`` with ``rows x >= right``, ``x >= least``, and x."""
    found = minimize(
        lambda x: costs @ x + 0.5 * squares @ x**2,
        np.ones(len(costs)),
        jac=lambda x: costs + squares * x,
        bounds=[(low, None) for low in np.broadcast_to(least, len(costs))],
        constraints={"type": "ineq", "fun": lambda x: rows @ x - right, "jac": lambda x: rows},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    return found.fun, np.maximum(found.x, least)
