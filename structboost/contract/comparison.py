"""Comparison of the output of an exact argmax with other outputs of the same example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.contract.parts import StackedParts
from structboost.contract.separation import Separation
from structboost.contract.task import Task
from structboost.errors import TaskError, examples_numbered

# An exact argmax may fall behind another output by rounding, not by more.
SLIP = 1e-6
# Examples of a pass for each that is searched without its loss, and the most of them.
_EXAMPLES_PER_CHECK, _MOST_CHECKED = 256, 4
# Step from one checked example to the next: a prime, so that passes check various ones.
_STRIDE = 7919
_REMEDY = "Run check_task(task, X, Y) and correct it, or set exact_argmax = False."


def beaten(value: Any, rival: Any, size: Any) -> NDArray[np.bool_]:
    """Return where ``rival`` exceeds ``value`` by more than rounding of terms of this ``size``."""
    return np.asarray(rival - value > SLIP * (np.abs(value) + np.abs(rival) + size))


def check_found(
    values: FloatArray,
    rivals: FloatArray,
    losses: FloatArray,
    scores: StackedParts,
    first: int = 0,
    names: tuple[str, str] = ("it found an output", "an earlier output"),
) -> None:
    """Raise TaskError if an earlier output violates its margin more than the argmax.

    ``values`` and ``rivals`` are the largest violations, of the argmax and of the outputs it is
    compared with, and ``losses`` those of the outputs of the argmax.  The message has the index of
    the example, counted from ``first``, and the ``names`` of both outputs.
    """
    for i in np.flatnonzero(beaten(values, rivals, losses)).tolist():
        size = losses[i] + _size(scores, i)
        if beaten(values[i], rivals[i], size):
            raise TaskError(
                f"The loss-augmented argmax of X[{{sample}}] is not exact: {names[0]} of value "
                f"{values[i]:.6g}, {names[1]} has {rivals[i]:.6g}. {_REMEDY}",
                first + i,
            )


def check_plain_argmax(
    task: Task,
    X: Sequence[Any] | None,
    Y: Sequence[Any],
    scores: StackedParts,
    augmented: Separation,
    n_passes: int,
) -> None:
    """Compare the argmax with and without the loss on a few examples of a pass.

    Either output is a candidate of the other search: the plain one, with its loss, must not beat
    the augmented one, nor the augmented one, without its loss, the plain one.  Passes whose number
    is a power of 2 are checked, so that the cost is below a hundredth of theirs.  A task is not
    checked if its argmax is declared inexact, is the best of its listed outputs, or is replaced by
    a compiled ``separate``.  ``X`` may be None if the task does not read it.  TaskError names the
    example and the method.
    """
    is_checked = task.exact_argmax and not (task.separates_in_batches or task.is_enumerated)
    n = len(Y)
    if not is_checked or n_passes & (n_passes - 1) or len(augmented.losses) != n or not n:
        return
    n_checked = min(max(1, n // _EXAMPLES_PER_CHECK), _MOST_CHECKED)
    rows = (n_passes + np.arange(n_checked)) * _STRIDE % n
    for i in np.unique(rows).tolist():
        x = None if X is None or not task.reads_inputs else X[i]
        first_rows = {kind: int(starts[i]) for kind, starts in scores.offsets.items()}
        compare_plain_argmax(task, x, Y[i], scores.only(i), augmented.only(i, first_rows), i)


def compare_plain_argmax(
    task: Task, x: Any, y: Any, scores: StackedParts, augmented: Separation, i: int
) -> None:
    """Compare both searches on example ``i``, as :func:`check_plain_argmax` does."""
    with examples_numbered([i]):
        outputs = task.argmax_batch([x], scores)
        plain = Separation.from_outputs(task, [x], [y], outputs, scores.offsets)
    names = "it found an output", "the one of argmax(X[{sample}], scores)"
    value, rival = (one.violations(scores) for one in (augmented, plain))
    losses = augmented.losses + plain.losses
    check_found(np.maximum(value, 0.0), rival, losses, scores, i, names)
    best = np.maximum(value - augmented.losses, 0.0)
    if beaten(rival - plain.losses, best, losses + _size(scores, 0)).any():
        raise TaskError(
            "argmax(X[{sample}], scores) is not exact: its output scores "
            f"{float((rival - plain.losses)[0]):.6g} more than the true one, and another output "
            f"{float(best[0]):.6g}. {_REMEDY}",
            i,
        )


def _size(scores: StackedParts, i: int) -> float:
    """Return the sum of the largest absolute scores of the parts of an example."""
    return sum(
        float(np.abs(rows[slice(*scores.offsets[kind][i : i + 2])]).max(axis=1, initial=0.0).sum())
        for kind, rows in scores.rows.items()
    )
