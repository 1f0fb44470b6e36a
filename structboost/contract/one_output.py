"""Models that predict one output for everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from structboost.contract.calls import predictions
from structboost.contract.equality import deeply_equal
from structboost.contract.parts import StackedParts
from structboost.contract.results import loss_of
from structboost.contract.task import Task
from structboost.errors import ConstantPredictionWarning, warn_user
from structboost.validation import by_position, rows_of

# Examples that are looked at first.  So many times as many are, where these have one prediction.
_SAMPLED, _TIMES = 50, 16

# What to write where the hinge of a loss is no guide.
WITHOUT_HINGE = (
    "Write objective='log_loss' (formulation='log' of StructBoost), or take a loss that counts the "
    "wrong parts of an output, such as loss='hamming' of label sets."
)

# Scores of the parts of inputs.
Scorer = Callable[[Sequence[Any]], StackedParts]


def warn_of_one_output(
    task: Task,
    X: Sequence[Any],
    Y: Sequence[Any],
    scores_of: Scorer,
    is_optimum: Callable[[], bool] | None = None,
) -> None:
    """Warn if a model predicts one output for all examples, whose true outputs differ.

    ``scores_of(X)`` returns the scores of the model.  If ``is_optimum()``, no weights have a
    smaller loss than none, whatever C, and the ConstantPredictionWarning adds this.
    """
    X, Y = by_position(X), by_position(Y)
    if not predicts_one_output(task, X, Y, scores_of):
        return
    remedy = (
        "Use more rounds, a larger C, or features that separate the outputs, or give the "
        "examples of rare outputs larger weights."
    )
    if is_optimum is not None and is_optimum():
        remedy = (
            "That is the optimum: hardly any weights have a smaller hinge of this loss than none, "
            "whatever C.  So it is where no output of an input is more probable than all others "
            f"together.  {WITHOUT_HINGE}"
        )
    warn_user(
        "The model predicts one output for all training examples, whose true outputs "
        f"differ.  {remedy}",
        ConstantPredictionWarning,
    )


def predicts_one_output(task: Task, X: Sequence[Any], Y: Sequence[Any], scores_of: Scorer) -> bool:
    """Whether a model predicts one output for all examples, whose true outputs differ.

    True outputs that give no loss to the prediction count as the same: costs may differ, and have
    the same best decision.  The arguments are those of :func:`warn_of_one_output`.
    """
    X, Y = by_position(X), by_position(Y)
    n_rows = 0
    while n_rows < len(Y):
        n_rows = min(len(Y), max(_SAMPLED, _TIMES * n_rows))
        inputs = rows_of(X, np.linspace(0, len(Y) - 1, n_rows).astype(np.int64))
        outputs = predictions(task, inputs, scores_of(inputs))
        if not _are_same(task, inputs, outputs):
            return False
    return not _are_same(task, X, Y) and any(
        loss_of(task, i, y, outputs[i]) > 0 for i, y in enumerate(Y)
    )


def is_constant(
    task: Task, X: Sequence[Any], Y: Sequence[Any], outputs: Sequence[Any], scores: StackedParts
) -> bool:
    """Whether predictions are the same for all examples though the true outputs differ.

    They are constant if all parts of a kind have equal scores.  If outputs label parts, such as the
    tokens of a sequence, they are constant if all parts have one label.  Other outputs are constant
    if all are equal.
    """
    if all((rows == rows[:1]).all() for rows in scores.rows.values()):
        return True
    return _are_same(task, X, outputs) and not _are_same(task, X, Y)


def _are_same(task: Task, X: Sequence[Any], outputs: Sequence[Any]) -> bool:
    """Whether all outputs are equal, or label all parts alike."""
    if task.labelled_kind is None:
        return all(deeply_equal(outputs[0], output) for output in outputs[1:])
    pairs = zip(X, outputs, strict=True)
    labels = [np.asarray(task.part_labels(x, y)) for x, y in pairs]
    rows = [part.reshape(len(part), -1) for part in labels if part.size]
    table = np.concatenate(rows or [np.empty((0, 1))])
    return bool((table == table[:1]).all())
