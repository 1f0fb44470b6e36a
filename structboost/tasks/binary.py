"""Binary classification: LPBoost as a structured problem (StructBoost, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import TaskError
from structboost.task import Measure, OutputCodes, PartKind, Separation, StackedParts, Task
from structboost.tasks.tables import stack_table


class BinaryTask(Task):
    """Two labels, -1 and 1, with the joint feature ``y / 2`` and the 0/1 loss.

    An input is a feature vector; its one part is the input itself.
    """

    reads_inputs: ClassVar[bool] = False
    kinds = {"x": PartKind(n_channels=1, response=(-1.0, 1.0))}

    def parts(self, x: Any) -> NDArray[Any]:
        """The input as one row."""
        return np.asarray(x).reshape(1, -1)

    def joint_feature(self, x: Any, y: Any) -> NDArray[np.float64]:
        """``y / 2``: half the label on the one part (section 3.1)."""
        return np.array([[0.5 * y]])

    def loss(self, y: Any, y_pred: Any) -> float:
        """0 where the labels agree, else 1."""
        return float(y != y_pred)

    def argmax(self, x: Any, scores: NDArray[np.float64], y: Any = None) -> int:
        """Sign of the score; with ``y`` the label of larger loss plus score (ties: the wrong one)."""
        score = float(scores[0, 0])
        if y is None:
            return 1 if score >= 0 else -1
        return int(-y) if 1.0 - y * score >= 0 else int(y)

    def stack(self, X: Sequence[Any]) -> StackedParts:
        """All inputs as the rows of one table."""
        return stack_table(X)

    def separate(self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts) -> Separation:
        """Every example whose margin is below 1, in one pass."""
        y = _checked_labels(Y)
        wrong = 1.0 - y * scores.rows["x"][:, 0] >= 0
        rows = np.flatnonzero(wrong)
        difference = Measure(rows, np.zeros(len(rows), np.int64), y[rows])
        indptr = np.concatenate(([0], np.cumsum(wrong))).astype(np.int64)
        return Separation(wrong.astype(np.float64), {"x": difference}, {"x": indptr})

    def codes(self, Y: Sequence[Any]) -> OutputCodes:
        """The two labels, with codes that differ by 1 as their joint features do."""
        labels = (_checked_labels(Y) > 0).astype(np.int64)
        return OutputCodes(np.array([[0], [1]], np.int8), labels, 1.0 - np.eye(2))


def _checked_labels(Y: Sequence[Any]) -> NDArray[np.float64]:
    """Labels as floats, each of them -1 or 1."""
    y = np.asarray(Y, dtype=np.float64)
    bad = np.flatnonzero(~np.isin(y, (-1.0, 1.0)))
    if len(bad):
        raise TaskError(f"Y[{{sample}}] is {Y[bad[0]]!r}; BinaryTask takes the labels -1 and 1.", int(bad[0]))
    return y
