"""Predictions and marginals of a task by the scores of a model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from structboost._typing import FloatArray
from structboost.contract.calls import marginals, predictions, stacked_inputs
from structboost.contract.parts import StackedParts
from structboost.contract.task import Task
from structboost.errors import TaskError
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
    scores = StackedParts({k: factor * rows for k, rows in scores.rows.items()}, scores.offsets)
    expected = StackedParts(marginals(task, X, scores).expected, scores.offsets)
    return [expected.example(i) for i in range(len(X))]


def model_scores(task: Task, model: Ensemble, X: Sequence[Any]) -> StackedParts:
    """Scores of the parts of all inputs by ``model``."""
    stack = stacked_inputs(task, X)
    return StackedParts({kind: _scores(model, stack, kind) for kind in stack.rows}, stack.offsets)


def _scores(model: Ensemble, stack: StackedParts, kind: str) -> FloatArray:
    """Scores of the parts of a kind, with errors that name the input."""
    rows = stack.rows[kind]
    try:
        return model.scores(rows, kind)
    except ValueError as error:
        for i, (start, stop) in enumerate(pairwise(stack.offsets[kind].tolist())):
            try:
                model.scores(rows[start:stop], kind)
            except ValueError as of_input:
                raise TaskError(
                    f"The parts of X[{{sample}}] of kind {kind!r}: {of_input}", i
                ) from error
        raise
