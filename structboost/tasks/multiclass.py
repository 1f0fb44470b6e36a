"""Multi-class classification (StructBoost, section 3.3; MultiBoost of Shen and Hao)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structboost.exceptions import TaskError
from structboost.task import Measure, OutputCodes, PartKind, Separation, StackedParts, Task
from structboost.tasks.tables import checked_classes, stack_table


class MulticlassTask(Task):
    """Classes 0..n_classes-1, orthogonal label code (15), 0/1 loss.

    An input is a feature vector; its one part is the input itself, its channels are the classes.

    Parameters
    ----------
    n_classes : int
        At least 2.
    """

    reads_inputs: ClassVar[bool] = False

    def __init__(self, n_classes: int) -> None:
        if int(n_classes) != n_classes or n_classes < 2:
            raise TaskError(f"n_classes is {n_classes!r}; a multi-class task needs at least 2 classes.")
        self.n_classes = int(n_classes)
        self.kinds = {"x": PartKind(n_channels=self.n_classes, response=(-1.0, 1.0))}

    def parts(self, x: Any) -> NDArray[Any]:
        """The input as one row."""
        return np.asarray(x).reshape(1, -1)

    def joint_feature(self, x: Any, y: Any) -> tuple[list[int], list[int], list[float]]:
        """One-hot code of the class: Gamma(y) of (15)."""
        return [0], [int(y)], [1.0]

    def loss(self, y: Any, y_pred: Any) -> float:
        """0 where the classes agree, else 1."""
        return float(y != y_pred)

    def argmax(self, x: Any, scores: NDArray[np.float64], y: Any = None) -> int:
        """Class of the highest score; with ``y`` every other class gains 1."""
        augmented = scores[0].copy()
        if y is not None:
            augmented += 1.0
            augmented[int(y)] -= 1.0
        return int(np.argmax(augmented))

    def stack(self, X: Sequence[Any]) -> StackedParts:
        """All inputs as the rows of one table."""
        return stack_table(X)

    def separate(self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts) -> Separation:
        """Best wrong class of every example, in one pass over the scores."""
        y = checked_classes(Y, self.n_classes, "MulticlassTask")
        losses, parts, channels, values, indptr = _rival_classes(scores.rows["x"], y)
        return Separation(losses, {"x": Measure(parts, channels, values)}, {"x": indptr})

    def codes(self, Y: Sequence[Any]) -> OutputCodes:
        """One channel a class, 0/1 loss."""
        same = np.eye(self.n_classes)
        return OutputCodes(same.astype(np.int8), checked_classes(Y, self.n_classes, "MulticlassTask"), 1.0 - same)


@njit(cache=True, nogil=True)
def _rival_classes(
    scores: NDArray[np.float64], y: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Loss-augmented argmax of every row, as losses and one-hot differences."""
    n, n_classes = scores.shape
    losses = np.zeros(n)
    parts = np.empty(2 * n, np.int64)
    channels = np.empty(2 * n, np.int64)
    values = np.empty(2 * n)
    indptr = np.zeros(n + 1, np.int64)
    end = 0
    for i in range(n):
        true = y[i]
        rival = -1
        best = scores[i, true]
        for c in range(n_classes):
            if c != true and (scores[i, c] + 1.0 > best or (rival < 0 and scores[i, c] + 1.0 == best)):
                best = scores[i, c] + 1.0
                rival = c
        if rival >= 0:
            losses[i] = 1.0
            parts[end] = i
            parts[end + 1] = i
            channels[end] = true
            channels[end + 1] = rival
            values[end] = 1.0
            values[end + 1] = -1.0
            end += 2
        indptr[i + 1] = end
    return losses, parts[:end].copy(), channels[:end].copy(), values[:end].copy(), indptr
