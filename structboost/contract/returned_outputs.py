"""Checks that methods of a task return outputs, one for each example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structboost.contract.members import TaskMembers
from structboost.contract.results import hint
from structboost.errors import TaskError
from structboost.validation import shown


def check_one_each(outputs: Any, n_examples: int, method: str = "argmax_batch") -> None:
    """Raise TaskError unless a batch form gave one output per example."""
    if isinstance(outputs, str) or not hasattr(outputs, "__len__"):
        raise TaskError(
            f"{method} gave {shown(outputs)}; give a list of outputs, one for each example"
            f"{hint(outputs)}."
        )
    if len(outputs) != n_examples:
        raise TaskError(
            f"{method} gave {len(outputs)} outputs for {n_examples} examples; give one for each."
        )


def check_returned(
    task: TaskMembers, X: Sequence[Any], Y: Sequence[Any], outputs: Sequence[Any]
) -> None:
    """Raise TaskError if None is no output of an example for which the argmax gave it.

    It is an output if a true output is None, or if both ``joint_feature`` and ``loss`` take it.
    """
    if any(y is None for y in Y):
        return
    for i, output in enumerate(outputs):
        check_not_none(task, X[i], Y[i], output, i)


def check_not_none(task: TaskMembers, x: Any, y: Any, output: Any, i: int) -> None:
    """Raise TaskError if the argmax of example ``i`` gave None, which is no output."""
    if output is None and y is not None and not _takes_none(task, x, y):
        raise returned_none("argmax", i)


def returned_none(method: str, i: int) -> TaskError:
    """Make the error of a method that ends without return for example ``i``."""
    return TaskError(
        f"{method} returned None for X[{{sample}}], which is no output; end the method with return "
        "and the best output.",
        i,
    )


def _takes_none(task: TaskMembers, x: Any, y: Any) -> bool:
    """Whether joint feature and loss take None as an output."""
    try:
        task.joint_feature(x, None)
        task.loss(y, None)
    except Exception:
        return False
    return True
