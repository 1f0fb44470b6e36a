"""LPBoost as a structured problem of binary classification (StructBoost, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.listed_outputs import Marginals
from structboost.contract.parts import StackedParts
from structboost.errors import TaskError
from structboost.tasks.checks import as_array
from structboost.tasks.code import CodeTask
from structboost.validation import shown


class BinaryTask(CodeTask):
    """Two labels, -1 and 1, with the joint feature ``y / 2`` and the 0/1 loss.

    An input is a feature vector; its one part is the input itself.  Of equally good labels the
    argmax takes 1, and in training the wrong one.

    Notes
    -----
    StructBoost, section 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost import BinaryTask
    >>> task = BinaryTask()
    >>> task.argmax([0.0], np.array([[0.7]]))
    1
    """

    separates_in_batches = True

    def __init__(self) -> None:
        super().__init__(np.array([[0], [1]], np.int8))

    @override
    def joint_feature(self, x: Any, y: Any) -> FloatArray:
        return np.array([[0.5 * _checked(y)]])

    @override
    def loss(self, y: Any, y_pred: Any) -> float:
        return float(_checked(y) != _checked(y_pred))

    @override
    def argmax(self, x: Any, scores: FloatArray, y: Any = None) -> int:
        score = float(scores[0, 0])
        if y is None:
            return 1 if score >= 0 else -1
        true = _checked(y)
        # A tie goes to the wrong label.
        return -true if 1.0 - true * score >= 0 else true

    @override
    def marginals_batch(self, X: Sequence[Any], scores: StackedParts) -> Marginals:
        # The joint feature is the code less a half.
        expected, log_sums = super().marginals_batch(X, scores)
        return Marginals({"x": expected["x"] - 0.5}, log_sums - 0.5 * scores.rows["x"][:, 0])

    @override
    def labels(self, Y: Sequence[Any]) -> IntArray:
        table = as_array(Y)
        if table is not None and table.ndim == 1 and table.dtype.kind in "biuf":
            y = table.astype(np.float64)
            bad = np.flatnonzero(~np.isin(y, (-1.0, 1.0)))
            if not len(bad):
                return (y > 0).astype(np.int64)
        return np.array([_checked(y, i) > 0 for i, y in enumerate(Y)], np.int64)


def _checked(y: Any, sample: int | None = None) -> int:
    """Return a label as an int, after a check that it is -1 or 1."""
    is_number = isinstance(y, int | float | np.integer | np.floating | np.ndarray)
    if not is_number or np.ndim(y) or y not in (-1, 1):
        name = "A label" if sample is None else "Y[{sample}]"
        raise TaskError(f"{name} is {shown(y)}; BinaryTask takes the labels -1 and 1.", sample)
    return int(y)
