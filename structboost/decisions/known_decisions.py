"""Training on the decisions known so far, with exact solves only to certify it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from structboost._typing import FloatArray, override
from structboost.decisions.instances import DecisionInputs, TrueDecisions
from structboost.decisions.model import costs_of
from structboost.decisions.problem import BatchProblem, DecisionProblem
from structboost.decisions.task import check_best
from structboost.errors import examples_numbered, warn_user
from structboost.runtime.interrupts import uninterrupted
from structboost.training.trainer import Trainer

# Products of costs and decisions held at once.
_MOST_PRODUCTS = 1 << 24
# After each fit, one of so many parts of the instances is solved exactly.
_PARTS = 16
# Exact solves of each instance, about, after which training ends.
_MOST_SOLVES = 10
# The fit on the known decisions closes its gap to this fraction of the last gap over all decisions.
_INNER_GAP = 0.2
_COARSEST = 0.2


class KnownDecisions(BatchProblem):
    """A problem restricted to known decisions, shape (n, n_items), the best of which it returns."""

    def __init__(self, problem: DecisionProblem, decisions: FloatArray) -> None:
        self.maximize = problem.maximize
        self.n_items = decisions.shape[1]
        self._name = str(problem)
        self.decisions = np.unique(decisions, axis=0)

    def add(self, decisions: FloatArray) -> None:
        """Add further decisions."""
        self.decisions = np.unique(np.concatenate((self.decisions, decisions)), axis=0)

    @override
    def solve_all(self, costs: FloatArray) -> FloatArray:
        step, sign = max(1, _MOST_PRODUCTS // len(self.decisions)), -1.0 if self.maximize else 1.0
        best = [
            np.argmin(sign * costs[i : i + step] @ self.decisions.T, axis=1)
            for i in range(0, len(costs), step)
        ]
        decisions: FloatArray = self.decisions[np.concatenate(best)]
        return decisions

    @override
    def is_feasible(self, decision: FloatArray) -> bool:
        return bool((self.decisions == decision).all(axis=1).any())

    def __str__(self) -> str:
        return self._name


def fit_on_known_decisions(
    trainer: Trainer, X: DecisionInputs, Y: TrueDecisions
) -> list[dict[str, Any]]:
    """Fit a trainer on the known decisions, solve some instances exactly at its costs, and repeat.

    First the problem's own ``improve_all`` betters the known decisions, until they leave a gap of
    at most the trainer's ``tol``.  Then a few instances at a time are solved, each time after a new
    fit; once these few have such a gap, all others are solved too.  Every decision is known for all
    instances from then on.  The maximum of the hinge over known decisions is at most that over all,
    so the bound of each fit holds for the whole problem; solving all gives the primal value.
    Returns a record per fit; where it is not ``certified``, primal and gap are estimates.
    """
    task: Any = trainer.task
    problem: DecisionProblem = task.problem
    pool = KnownDecisions(problem, Y.chosen)
    passes: list[dict[str, Any]] = []
    tol, n = float(trainer.tol), len(Y)
    few = np.arange(-(-n // _PARTS))
    gap, bound, n_solves = 1.0, -np.inf, 0
    trainer.task = task.with_problem(pool)
    try:
        while True:
            trainer.tol = max(0.5 * tol, min(_COARSEST, _INNER_GAP * gap))
            uninterrupted(partial(trainer.fit, X, Y))
            trainer.C = C = trainer.C_
            bound = max(bound, float(trainer.history_[-1]["bound"]))
            # Where the trainer gave up, only what exact solves miss can become smaller.
            gave_up = trainer.history_[-1]["gap"] > trainer.tol
            costs = costs_of(trainer, X) - 0.5 * Y.costs
            best = pool.solve_all(costs)
            better = problem.improve_all(costs, best)
            pool.add(better)
            slack = _slack(problem, costs, best, better)
            primal = trainer.objective_ + C * float(slack.mean())
            gap = (primal - bound) / primal if primal else 0.0
            is_close = slack.mean() * C <= tol * primal if gave_up else gap <= tol
            if slack.any() and not is_close:
                continue
            slack[:] = np.nan
            is_last = n_solves + n >= _MOST_SOLVES * n
            for rows in (few, np.setdiff1d(np.arange(n), few)):
                with examples_numbered(rows):
                    decisions = problem.solve_all(costs[rows])
                check_best(problem, costs[rows], decisions, best[rows], rows)
                pool.add(decisions)
                n_solves += len(rows)
                slack[rows] = _slack(problem, costs[rows], best[rows], decisions)
                missed = C * float(np.nanmean(slack))
                primal = trainer.objective_ + missed
                gap = (primal - bound) / primal if primal else 0.0
                is_close = is_last or gap <= tol or (gave_up and missed <= tol * primal)
                if not is_close:
                    break
            few = (few + len(few)) % n
            is_certified = not np.isnan(slack).any()
            passes.append(
                {
                    "round": len(passes) + 1,
                    "primal": primal,
                    "bound": bound,
                    "gap": gap,
                    "certified": is_certified,
                    "exact_solves": n_solves,
                    "decisions": len(pool.decisions),
                }
            )
            if is_certified and is_close:
                break
    finally:
        trainer.task, trainer.tol = task, tol
    trainer.objective_ = primal
    if gap > tol:
        warn_user(
            f"The gap is {gap:.2g} after {n_solves} exact solves, above tol = {tol}; raise tol or "
            "max_rounds, lower C, or set spare_solves=False.",
            ConvergenceWarning,
        )
    return passes


def _slack(
    problem: DecisionProblem, costs: FloatArray, decisions: FloatArray, better: FloatArray
) -> FloatArray:
    """Hinge of each instance that better decisions add, which other ones did not tell of."""
    twice = -2.0 if problem.maximize else 2.0
    gains: FloatArray = twice * np.einsum("ij,ij->i", costs, decisions - better)
    return np.maximum(gains, 0.0)
