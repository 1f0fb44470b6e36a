"""The linear program of a ranking with all pairs, solved by HiGHS: the m-slack master's rival."""

from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack
from threadpoolctl import threadpool_limits

from benchmarks.ours.methods import ONE_SLACK
from benchmarks.runner.datasets import Split, Table
from benchmarks.runner.protocol import timed
from structboost import RankingTask
from structboost.masters import Problem
from structboost.masters.slack_oracle import SlackOracle
from structboost.masters.slack_program import SlackProgramMaster
from structboost.weak.terms import Terms

MAX_PAIRS = 30_000
TOLERANCE = 1e-6
SOLVERS = ("highs-ds", "highs-ipm")


def compare(limit: float, tables: Split, C: float) -> dict[str, Any]:
    """Seconds of the m-slack master and of HiGHS over the columns of a fit, both from scratch.

    HiGHS gets the better of its simplex and interior-point methods; its answer is the yardstick of
    the objective.
    """
    table = tables.train
    with threadpool_limits(1):
        columns = ONE_SLACK.fit(table, {"C": C}).model_.members["x"].learners
        responses = columns.responses(table.X)
        m_slack(table, responses, C)
        objective, ours = timed(m_slack, table, responses, C)
        answers = {solver: _solved(table, responses, C, solver, limit) for solver in SOLVERS}
    seconds, optimum, solver = min((*answer, name) for name, answer in answers.items())
    return {
        "value": None,
        "seconds": seconds,
        "seconds_master": ours,
        "ratio": seconds / ours,
        "solver": solver,
        "columns": len(responses),
        "pairs": pairs(table.y),
        "C": C,
        "difference": None if optimum is None else abs(objective - optimum) / optimum,
        "status": "ok" if optimum is not None else "time_limit",
    }


def pairs(y: np.ndarray) -> int:
    """Number of pairs of a positive and a negative row."""
    return int(y.sum()) * int((1 - y).sum())


def m_slack(table: Table, responses: np.ndarray, C: float) -> float:
    """Objective of the m-slack master with all columns at once."""
    task, X, Y = RankingTask(), [table.X], [table.y]
    random = np.random.RandomState(0)
    oracle = SlackOracle(Problem(task, X, Y, task.stack(X).offsets, np.ones(1), random))
    oracle.add_responses("x", responses.astype(np.int8))
    master = SlackProgramMaster(oracle, C)
    numbers = np.arange(len(responses))
    terms = Terms(numbers, numbers, np.zeros_like(numbers), np.ones(len(numbers)))
    master.add_columns({"x": terms}, len(numbers))
    master.solve(TOLERANCE)
    return master.primal


def _solved(
    table: Table, responses: np.ndarray, C: float, solver: str, limit: float
) -> tuple[float, float | None]:
    """Seconds and optimum of one solver, None if it ran out of time; the matrix is not timed."""
    positive, negative = responses[:, table.y == 1], responses[:, table.y == 0]
    margins = positive[:, :, None].astype(float) - negative[:, None, :]
    margins = margins.reshape(len(responses), -1).T
    n_pairs = len(margins)
    matrix = hstack([csr_array(-margins), -eye_array(n_pairs)], format="csc")
    costs = np.concatenate((np.ones(len(responses)), np.full(n_pairs, C / n_pairs)))
    program = {"A_ub": matrix, "b_ub": -np.ones(n_pairs), "bounds": (0, None)}
    options = {"time_limit": limit}
    answer, seconds = timed(linprog, costs, **program, method=solver, options=options)
    return seconds, float(answer.fun) if answer.status == 0 else None
