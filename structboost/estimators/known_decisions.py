"""Training on the decisions known so far, with exact solves only to certify it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structboost._typing import FloatArray
from structboost.boosting import StructBoost
from structboost.decisions.known import KnownDecisions
from structboost.decisions.problem import DecisionProblem
from structboost.linear.structured_svm import StructuredSVM
from structboost.task import StackedParts
from structboost.task_calls import stacked_inputs
from structboost.tasks.predict_then_optimize import PredictThenOptimizeTask, TrueDecisions

Trainer = StructBoost | StructuredSVM


def fit_on_known_decisions(
    trainer: Trainer, X: Sequence[Any], Y: TrueDecisions, max_passes: int
) -> list[dict[str, Any]]:
    """Fit a trainer on the known decisions, solve exactly at its costs, and repeat.

    What exact solves found is known from then on, until the gap is closed.  The maximum of the
    hinge over known decisions is at most that over all, so each fit's bound holds for the whole
    problem; an exact pass gives the primal value.

    Parameters
    ----------
    trainer : StructBoost or StructuredSVM
        Of a :class:`PredictThenOptimizeTask` whose problem is to be spared.  Afterwards it is
        fitted, and its task is as before.
    X : sequence
    Y : TrueDecisions
    max_passes : int
        Most exact passes, each of which solves every instance once.

    Returns
    -------
    passes : list of dict
        One per exact pass: ``round``, ``primal`` (of all decisions), ``bound``, ``gap``,
        ``exact_solves`` so far, ``decisions`` known.
    """
    task = trainer.task
    assert isinstance(task, PredictThenOptimizeTask)
    exact: DecisionProblem = task.problem  # type: ignore[assignment]
    known = KnownDecisions(exact, Y.chosen)
    task_of_known = task.with_problem(known)
    passes: list[dict[str, Any]] = []
    tol = float(trainer.tol)
    trainer.tol = 0.5 * tol
    try:
        trainer.task = task_of_known
        for number in range(1, max_passes + 1):
            trainer.fit(X, Y)
            if isinstance(trainer, StructBoost):
                trainer.C = trainer.C_
            predicted = task.costs_table(scores_of(trainer, X), len(Y))
            augmented = predicted - 0.5 * Y.costs
            found = exact.solve_all(augmented)
            sign = -1.0 if exact.maximize else 1.0
            slack = 2.0 * sign * augmented * (known.solve_all(augmented) - found)
            primal = trainer.objective_ + float(trainer.C) * float(slack.sum()) / len(Y)
            bound = float(trainer.history_[-1]["bound"])
            passes.append(
                {
                    "round": number,
                    "primal": primal,
                    "bound": bound,
                    "gap": (primal - bound) / primal if primal else 0.0,
                    "exact_solves": number * len(Y),
                    "decisions": len(known.decisions),
                }
            )
            if passes[-1]["gap"] <= tol:
                break
            known.add(found)
    finally:
        trainer.task, trainer.tol = task, tol
    trainer.objective_ = passes[-1]["primal"]
    return passes


def scores_of(trainer: Trainer, X: Sequence[Any]) -> StackedParts:
    """Scores of the parts of all inputs by a fitted trainer."""
    if isinstance(trainer, StructuredSVM):
        return trainer.scores(X)
    stack = stacked_inputs(trainer.task, X)
    rows = {kind: trainer.model_.scores(rows, kind) for kind, rows in stack.rows.items()}
    return StackedParts(rows, stack.offsets)


def costs_of(task: PredictThenOptimizeTask, trainer: Trainer, X: Sequence[Any]) -> list[FloatArray]:
    """Predicted costs of each input."""
    return [np.asarray(row) for row in task.predicted_costs(scores_of(trainer, X))]
