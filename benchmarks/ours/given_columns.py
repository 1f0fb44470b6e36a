"""Restricted masters over given columns: the same program for our solvers and for rivals."""

import time
from typing import Any

import numpy as np
from scipy.optimize import minimize

from benchmarks.runner.datasets import Table
from structboost import Exponential, MulticlassTask, Problem, RankingTask
from structboost.columns import Terms
from structboost.masters.exponential import ExponentialMaster
from structboost.masters.m_slack import MSlackMaster
from structboost.masters.slack_oracle import SlackOracle

TOLERANCE = 1e-6
MOST_PASSES = 500


def m_slack_ranking(table: Table, responses: np.ndarray, C: float) -> tuple[float, float]:
    """Seconds and objective of the m-slack master with all columns at once."""
    task, X, Y = RankingTask(), [table.X], [table.y]
    began = time.perf_counter()
    random = np.random.RandomState(0)
    oracle = SlackOracle(Problem(task, X, Y, task.stack(X).offsets, np.ones(1), random))
    oracle.add_responses("x", responses.astype(np.int8))
    master = MSlackMaster(oracle, C)
    numbers = np.arange(len(responses))
    terms = Terms(numbers, numbers, np.zeros_like(numbers), np.ones(len(numbers)))
    master.add_columns({"x": terms}, len(numbers))
    master.solve(TOLERANCE)
    return time.perf_counter() - began, master.primal


def exponential_descent(
    model: Any, train: Table, n_classes: int, C: float, solver: str, start: np.ndarray
) -> list[tuple[float, float]]:
    """(CPU seconds, objective) of a solver on a model's columns, until it gains nothing more."""
    master = _exponential_master(model, train, n_classes, C, solver)
    master.start_at(start)
    trace: list[tuple[float, float]] = []
    began = time.process_time()

    def note(value: float) -> None:
        trace.append((time.process_time() - began, value))

    if solver == "lbfgs":
        bounds = [(0.0, None)] * len(start)
        options = {"ftol": 1e-13, "gtol": 1e-10, "maxiter": 10_000, "maxfun": 20_000}
        minimize(
            *(master.value_and_gradient, start),
            **{"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": options},
            callback=lambda intermediate_result: note(intermediate_result.fun),
        )
        return trace
    for _ in range(MOST_PASSES):
        before = master.primal
        master.solve(0.0, np.arange(len(start)))
        note(master.primal)
        if before - master.primal < 1e-10 * master.primal:
            break
    return trace


def _exponential_master(
    model: Any, train: Table, n_classes: int, C: float, solver: str
) -> ExponentialMaster:
    """A master with the columns of a model and without weights."""
    member = model.members["x"]
    task, n = MulticlassTask(n_classes), len(train.y)
    formulation = Exponential(solver, tau_max=2, epsilon=1e-9)
    random = np.random.RandomState(0)
    offsets = {"x": np.arange(n + 1)}
    problem = Problem(task, train.X, train.y, offsets, np.full(n, 1.0 / n), random)
    master = ExponentialMaster(problem, C, formulation)
    master.add_responses("x", member.learners.responses(train.X).astype(np.int8))
    order = np.argsort(member.columns)
    terms = [of_terms[order] for of_terms in (member.columns, member.term_learners)]
    channels = member.channels[order]
    master.add_columns({"x": Terms(*terms, channels, np.ones(len(order)))}, len(order))
    return master
