"""Losses that a task returns, with errors that name the example."""

from __future__ import annotations

from typing import Any

import numpy as np

from structboost.contract.members import TaskMembers
from structboost.contract.results import LARGEST, real_number, refused_output
from structboost.errors import TaskError, note_examples


def loss_of(task: TaskMembers, i: int, y: Any, y_pred: Any) -> float:
    """Return the loss of an output of example ``i`` as a float.

    TaskError if the task returns no number, or one that is negative, not finite or too large.
    """
    try:
        value = task.loss(y, y_pred)
    except Exception as error:
        takes_truth = _takes_truth(task, y)
        if takes_truth and not isinstance(error, TaskError):
            name = "The output for X[{sample}], by argmax or predict,"
            raise refused_output(name, y_pred, "loss", error, i) from error
        both = "Y[{sample}] and the output for X[{sample}]"
        note_examples(error, "loss", i, i, both if takes_truth else "Y")
        raise
    return check_loss(real_number(value, "loss(Y[{sample}], y_pred)", i), i)


def _takes_truth(task: TaskMembers, y: Any) -> bool:
    """Whether ``loss`` takes a true output with itself, so that another one is at fault."""
    try:
        task.loss(y, y)
    except Exception:
        return False
    return True


def check_loss(value: float, i: int) -> float:
    """Check that a loss of example ``i`` is finite and not negative, and return it."""
    if not 0 <= value <= LARGEST:
        wanted = f"<= {LARGEST:g}" if LARGEST < value < np.inf else "finite and >= 0"
        raise TaskError(f"loss(Y[{{sample}}], y_pred) is {value}; a loss must be {wanted}.", i)
    return value


def check_loss_of_truth(loss: float, tolerance: float, i: int) -> None:
    """Raise TaskError if the true output of example ``i`` has a loss."""
    if loss > tolerance:
        raise TaskError(
            f"loss(Y[{{sample}}], Y[{{sample}}]) is {loss:.6g}; the loss of the true output must "
            "be 0.",
            i,
        )
