"""Whether an argmax that claims to be exact finds at least what is known already.

What was found at other scores is an output as well.  Where it is better than the new one, the
argmax is not exact: the primal is too low, and nothing is certified.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.exceptions import TaskError
from structboost.task import Separation, StackedParts, Task

# An exact argmax may fall behind an earlier output by rounding, not by more.
_SLIP = 1e-6


def beaten(found: Any, known: Any, size: Any) -> NDArray[np.bool_]:
    """Where ``known`` is above ``found`` by more than rounding; ``size``: that of their terms."""
    return np.asarray(known - found > _SLIP * (1.0 + np.abs(found) + size))


def check_found(
    found: FloatArray, known: FloatArray, losses: FloatArray, scores: StackedParts, first: int = 0
) -> None:
    """Raise TaskError where an output that is known violates its margin more than the one found.

    Parameters
    ----------
    found, known : ndarray, shape (n_examples,)
        Largest violations, by what the argmax found and by earlier outputs.
    losses : ndarray, shape (n_examples,)
        Losses of the outputs found.
    scores : StackedParts
        Scores of the parts at which they were found.
    first : int
        Number of the first example, for the message.
    """
    for i in np.flatnonzero(beaten(found, known, losses)).tolist():
        size = losses[i] + sum(
            float(np.abs(rows[slice(*scores.offsets[kind][i : i + 2])]).max(axis=1).sum())
            for kind, rows in scores.rows.items()
        )
        if beaten(found[i], known[i], size):
            raise TaskError(
                "The loss-augmented argmax of X[{sample}] is not exact: it found an output of "
                f"value {found[i]:.6g}, an earlier output has {known[i]:.6g}. Run "
                "check_task(task, X, Y) and correct it, or set exact_argmax = False.",
                first + i,
            )


class LastOutputs:
    """The outputs of fixed examples that were found last, which the next ones must not fall behind.

    Kept where a task finds outputs one by one; then looking at them once more costs nothing beside.
    """

    def __init__(self) -> None:
        self._found: Separation | None = None

    def check(
        self,
        task: Task,
        found: Separation,
        violations: FloatArray,
        scores: StackedParts,
        first: int = 0,
    ) -> None:
        """Compare the outputs found at ``scores`` with the last ones, and keep them.

        Parameters
        ----------
        task : Task
        found : Separation
        violations : ndarray, shape (n_examples,)
            Those of ``found``.
        scores : StackedParts
        first : int
            Number of the first example.

        Raises
        ------
        TaskError
            If one of the last is better; the message names the example.
        """
        if not task.exact_argmax or type(task).separate is not Task.separate:
            return
        if self._found is not None:
            hinges = np.maximum(violations, 0.0)
            check_found(hinges, self._found.violations(scores), found.losses, scores, first)
        self._found = found
