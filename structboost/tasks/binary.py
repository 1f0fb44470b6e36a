"""Binary classification: LPBoost as a structured problem (StructBoost, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.listed_outputs import Marginals
from structboost.contract.parts import StackedParts
from structboost.exceptions import TaskError
from structboost.tasks.code import CodeTask


class BinaryTask(CodeTask):
    """Two labels, -1 and 1, with the joint feature ``y / 2`` and the 0/1 loss.

    An input is a feature vector; its one part is the input itself.

    Notes
    -----
    StructBoost, section 3.1.
    """

    def __init__(self) -> None:
        super().__init__(np.array([[0], [1]], np.int8))

    @override
    def joint_feature(self, x: Any, y: Any) -> FloatArray:
        return np.array([[0.5 * y]])

    @override
    def loss(self, y: Any, y_pred: Any) -> float:
        return float(y != y_pred)

    @override
    def argmax(self, x: Any, scores: FloatArray, y: Any = None) -> int:
        score = float(scores[0, 0])
        if y is None:
            return 1 if score >= 0 else -1
        # A tie goes to the wrong label.
        return int(-y) if 1.0 - y * score >= 0 else int(y)

    @override
    def marginals_batch(self, X: Sequence[Any], scores: StackedParts) -> Marginals:
        # The joint feature is the code less a half.
        expected, log_sums = super().marginals_batch(X, scores)
        return Marginals({"x": expected["x"] - 0.5}, log_sums - 0.5 * scores.rows["x"][:, 0])

    @override
    def labels(self, Y: Sequence[Any]) -> IntArray:
        y = np.asarray(Y, dtype=np.float64)
        bad = np.flatnonzero(~np.isin(y, (-1.0, 1.0)))
        if len(bad):
            i = int(bad[0])
            raise TaskError(f"Y[{{sample}}] is {Y[i]!r}; BinaryTask takes the labels -1 and 1.", i)
        return (y > 0).astype(np.int64)
