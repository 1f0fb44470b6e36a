"""Binary classification: LPBoost as a structured problem (StructBoost, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray
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

    def joint_feature(self, x: Any, y: Any) -> FloatArray:
        """``y / 2``: half the label on the one part (section 3.1)."""
        return np.array([[0.5 * y]])

    def loss(self, y: Any, y_pred: Any) -> float:
        """0 if the labels agree, else 1."""
        return float(y != y_pred)

    def argmax(self, x: Any, scores: FloatArray, y: Any = None) -> int:
        """Sign of the score; if ``y`` is given, the wrong label gains 1 (ties: the wrong one)."""
        score = float(scores[0, 0])
        if y is None:
            return 1 if score >= 0 else -1
        return int(-y) if 1.0 - y * score >= 0 else int(y)

    def marginals_batch(self, X: Sequence[Any], scores: StackedParts) -> Marginals:
        """Half the expected label: the joint feature is the code less a half."""
        expected, log_sums = super().marginals_batch(X, scores)
        return Marginals({"x": expected["x"] - 0.5}, log_sums - 0.5 * scores.rows["x"][:, 0])

    def labels(self, Y: Sequence[Any]) -> IntArray:
        """Numbers of the labels: 0 for -1, and 1 for 1.

        Parameters
        ----------
        Y : sequence of -1 or 1, shape (n_examples,)
            True labels.

        Returns
        -------
        numbers : ndarray of int64, shape (n_examples,)
            The row of each label in the codes.

        Raises
        ------
        TaskError
            If a label is neither -1 nor 1; the message names the example.
        """
        y = np.asarray(Y, dtype=np.float64)
        bad = np.flatnonzero(~np.isin(y, (-1.0, 1.0)))
        if len(bad):
            i = int(bad[0])
            raise TaskError(f"Y[{{sample}}] is {Y[i]!r}; BinaryTask takes the labels -1 and 1.", i)
        return (y > 0).astype(np.int64)
