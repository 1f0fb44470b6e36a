"""Training on the decisions known so far, with exact solves only to certify it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structboost._typing import FloatArray
from structboost.contract.parts import StackedParts
from structboost.decisions.known import KnownDecisions
from structboost.decisions.problem import DecisionProblem
from structboost.exceptions import examples_numbered
from structboost.tasks.predict_then_optimize import PredictThenOptimizeTask, TrueDecisions
from structboost.training.trainer import Trainer

# After each fit, one of so many parts of the instances is solved exactly.
_SHARES = 16
# The fit on the known decisions closes its gap to this share of the last gap over all decisions.
_INNER_SHARE = 0.2
_COARSEST = 0.2


def fit_on_known_decisions(
    trainer: Trainer, X: Sequence[Any], Y: TrueDecisions, max_passes: int
) -> list[dict[str, Any]]:
    """Fit a trainer on the known decisions, solve some instances exactly at its costs, and repeat.

    What is found is known from then on, for all instances.  First the problem's own
    ``improve_all`` betters the known decisions, until what it finds leaves a gap of at most the
    trainer's ``tol``.  Then a few instances at a time are solved, each time after a new fit; once
    these few have such a gap, all others are solved too.  The maximum of the hinge over known
    decisions is at most that over all, so the bound of each fit holds for the whole problem;
    solving all gives the primal value.

    Parameters
    ----------
    trainer : StructBoost or StructuredSVM
        Of a :class:`PredictThenOptimizeTask` whose problem is to be spared.  Afterwards it is
        fitted, and its task is as before.
    X : sequence
    Y : TrueDecisions
    max_passes : int
        Exact solves end after about this many for each instance.

    Returns
    -------
    passes : list of dict
        One per fit: ``round``, ``primal``, ``bound``, ``gap``, ``certified`` (whether all instances
        were solved; else primal and gap are estimates), ``exact_solves`` so far, ``decisions``
        known.
    """
    task = trainer.task
    assert isinstance(task, PredictThenOptimizeTask)
    exact: DecisionProblem = task.problem  # type: ignore[assignment]
    known = KnownDecisions(exact, Y.chosen)
    twice = -2.0 if exact.maximize else 2.0
    passes: list[dict[str, Any]] = []
    tol, n = float(trainer.tol), len(Y)
    few = np.arange(-(-n // _SHARES))
    gap, bound, n_solves = 1.0, -np.inf, 0
    try:
        trainer.task = task.with_problem(known)
        while True:
            trainer.tol = max(0.5 * tol, min(_COARSEST, _INNER_SHARE * gap))
            trainer.fit(X, Y)
            trainer.C = trainer.C_
            bound = max(bound, float(trainer.history_[-1]["bound"]))
            augmented = task.costs_table(scores_of(trainer, X), n) - 0.5 * Y.costs
            answers = known.solve_all(augmented)
            better = exact.improve_all(augmented, answers)
            known.add(better)
            slack = np.maximum(twice * np.einsum("ij,ij->i", augmented, answers - better), 0.0)
            primal = trainer.objective_ + float(trainer.C) * float(slack.mean())
            if slack.any() and primal - bound > tol * primal:
                gap = (primal - bound) / primal
                continue
            slack[:] = np.nan
            is_last = n_solves + n >= max_passes * n
            for rows in (few, np.setdiff1d(np.arange(n), few)):
                with examples_numbered(rows):
                    found = exact.solve_all(augmented[rows])
                task.check_best(augmented[rows], found, answers[rows], rows)
                known.add(found)
                n_solves += len(rows)
                gained = np.einsum("ij,ij->i", augmented[rows], answers[rows] - found)
                slack[rows] = np.maximum(twice * gained, 0.0)
                primal = trainer.objective_ + float(trainer.C) * float(np.nanmean(slack))
                gap = (primal - bound) / primal if primal else 0.0
                if gap > tol and not is_last:
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
                    "decisions": len(known.decisions),
                }
            )
            if is_certified and (gap <= tol or is_last):
                break
    finally:
        trainer.task, trainer.tol = task, tol
    trainer.objective_ = passes[-1]["primal"]
    return passes


def scores_of(trainer: Trainer, X: Sequence[Any]) -> StackedParts:
    """Scores of the parts of all inputs by a fitted trainer."""
    return trainer.scores(X)


def costs_of(task: PredictThenOptimizeTask, trainer: Trainer, X: Sequence[Any]) -> list[FloatArray]:
    """Predicted costs of each input."""
    return [np.asarray(row) for row in task.predicted_costs(scores_of(trainer, X))]
