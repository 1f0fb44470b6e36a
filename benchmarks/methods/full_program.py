"""The linear program of a ranking over given columns, all pairs in it, solved by HiGHS: the m-slack master's rival."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack
from threadpoolctl import threadpool_limits

from benchmarks.methods.base import Table
from benchmarks.methods.structboost import Ranking

MAX_PAIRS = 30_000
SOLVERS = ("highs-ds", "highs-ipm")
TOLERANCE = 1e-6


def compare(table: Table, C: float, limit: float) -> dict[str, Any]:
    """Seconds of the m-slack master and of HiGHS on the program over the columns of a fit, both from scratch.

    HiGHS gets the better of its simplex and interior-point methods; its answer is the yardstick of the objective.
    """
    with threadpool_limits(1):
        columns = Ranking(spreads=False).fit(table, {"C": C}).model_.members["x"].learners
        responses = columns.responses(table.X)
        _master_seconds(table, responses, C)
        ours, objective = _master_seconds(table, responses, C)
        answers = {solver: _full_seconds(table, responses, C, solver, limit) for solver in SOLVERS}
    seconds, optimum, solver = min((*answer, name) for name, answer in answers.items())
    return {
        "value": None,
        "seconds": seconds,
        "seconds_master": ours,
        "ratio": seconds / ours,
        "solver": solver,
        "columns": len(responses),
        "pairs": int(table.y.sum()) * int((1 - table.y).sum()),
        "C": C,
        "difference": None if optimum is None else abs(objective - optimum) / optimum,
        "status": "ok" if optimum is not None else "time_limit",
    }


def _master_seconds(table: Table, responses: np.ndarray, C: float) -> tuple[float, float]:
    """Seconds and objective of our master with all columns at once."""
    from structboost.masters.base import Problem
    from structboost.masters.m_slack import MSlackMaster
    from structboost.tasks import RankingTask

    task, X, Y = RankingTask(), [table.X], [table.y]
    began = time.perf_counter()
    oracle = Problem(task, X, Y, task.stack(X), np.ones(1), np.random.RandomState(0)).slack_oracle()
    oracle.add_responses("x", responses.astype(np.int8))
    master = MSlackMaster(oracle, C)
    numbers = np.arange(len(responses))
    master.add_columns({"x": (numbers, numbers, np.zeros_like(numbers), np.ones(len(numbers)))}, len(numbers))
    master.solve(TOLERANCE)
    return time.perf_counter() - began, master.primal


def _full_seconds(
    table: Table, responses: np.ndarray, C: float, solver: str, limit: float
) -> tuple[float, float | None]:
    """Seconds and optimum of one solver, None if it ran out of time; making the matrix does not count."""
    positive, negative = responses[:, table.y == 1], responses[:, table.y == 0]
    margins = (positive[:, :, None].astype(float) - negative[:, None, :]).reshape(len(responses), -1).T
    n_pairs = len(margins)
    matrix = hstack([csr_array(-margins), -eye_array(n_pairs)], format="csc")
    costs = np.concatenate((np.ones(len(responses)), np.full(n_pairs, C / n_pairs)))
    began = time.perf_counter()
    answer = linprog(
        costs, A_ub=matrix, b_ub=-np.ones(n_pairs), bounds=(0, None), method=solver, options={"time_limit": limit}
    )
    return time.perf_counter() - began, float(answer.fun) if answer.status == 0 else None
