"""Multi-class classification by words of a coding matrix (MultiBoost.MO)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import TaskError
from structboost.task import Measure, OutputCodes, PartKind, Separation, StackedParts, Task
from structboost.tasks.tables import checked_classes, stack_table


class CodedTask(Task):
    """Classes 0..n_classes-1, each a word of -1 and 1; a channel is a bit, a class scores ``M(c, :) F(x)`` (1).

    Parameters
    ----------
    code : array-like, shape (n_classes, n_bits)
    """

    reads_inputs: ClassVar[bool] = False

    def __init__(self, code: Any) -> None:
        self.code = np.asarray(code, np.int8)
        if self.code.ndim != 2 or len(self.code) < 2 or not np.isin(self.code, (-1, 1)).all():
            raise TaskError(f"code has shape {self.code.shape}; give a row of -1 and 1 for each of at least 2 classes.")
        self.n_classes = len(self.code)
        self.kinds = {"x": PartKind(n_channels=self.code.shape[1], response=(-1.0, 1.0))}

    def parts(self, x: Any) -> NDArray[Any]:
        """The input as one row."""
        return np.asarray(x).reshape(1, -1)

    def joint_feature(self, x: Any, y: Any) -> NDArray[np.float64]:
        """The word of the class."""
        return self.code[[int(y)]].astype(np.float64)

    def loss(self, y: Any, y_pred: Any) -> float:
        """0 where the classes agree, else 1."""
        return float(y != y_pred)

    def argmax(self, x: Any, scores: NDArray[np.float64], y: Any = None) -> int:
        """Class of the highest score; with ``y`` every other class gains 1."""
        by_class = self.class_scores(scores)[0]
        return int(np.argmax(by_class if y is None else by_class + (np.arange(self.n_classes) != int(y))))

    def class_scores(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of the classes from those of the bits, shape (n_parts, n_classes)."""
        return np.asarray(scores @ self.code.T.astype(np.float64), np.float64)

    def stack(self, X: Sequence[Any]) -> StackedParts:
        """All inputs as the rows of one table."""
        return stack_table(X)

    def separate(self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts) -> Separation:
        """Best class of every example when all wrong ones gain 1, in one pass."""
        labels = checked_classes(Y, self.n_classes, "CodedTask")
        augmented = self.class_scores(scores.rows["x"]) + 1.0
        augmented[np.arange(len(labels)), labels] -= 1.0
        rivals = augmented.argmax(axis=1)
        rows, channels = np.nonzero(self.code[labels] != self.code[rivals])
        values = 2.0 * self.code[labels[rows], channels].astype(np.float64)
        indptr = np.searchsorted(rows, np.arange(len(labels) + 1)).astype(np.int64)
        return Separation((rivals != labels).astype(np.float64), {"x": Measure(rows, channels, values)}, {"x": indptr})

    def codes(self, Y: Sequence[Any]) -> OutputCodes:
        """The words, 0/1 loss."""
        return OutputCodes(self.code, checked_classes(Y, self.n_classes, "CodedTask"), 1.0 - np.eye(self.n_classes))
