"""Predictions and marginals of a task by the scores of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structboost.contract.calls import marginals, predictions, stacked_inputs
from structboost.contract.parts import StackedParts
from structboost.contract.task import Task
from structboost.model.ensemble import Ensemble
from structboost.validation import by_position


def model_predictions(task: Task, model: Ensemble, X: Sequence[Any]) -> list[Any]:
    """Predictions of ``task`` with the scores of ``model``."""
    X = by_position(X)
    return predictions(task, X, model_scores(task, model, X))


def model_marginals(
    task: Task, model: Ensemble, X: Sequence[Any], factor: float = 1.0
) -> list[Any]:
    """Marginals of each input at ``factor`` times the scores of ``model``, by kind if several."""
    X = by_position(X)
    scores = model_scores(task, model, X)
    scores = StackedParts({k: factor * own for k, own in scores.rows.items()}, scores.offsets)
    found = StackedParts(marginals(task, X, scores).expected, scores.offsets)
    return [found.example(i) for i in range(len(X))]


def model_scores(task: Task, model: Ensemble, X: Sequence[Any]) -> StackedParts:
    """Scores of the parts of all inputs by ``model``."""
    stack = stacked_inputs(task, X)
    return StackedParts(
        {kind: model.scores(rows, kind) for kind, rows in stack.rows.items()}, stack.offsets
    )
