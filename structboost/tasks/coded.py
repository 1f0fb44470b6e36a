"""Multi-class classification by words of a coding matrix (MultiBoost.MO)."""

from __future__ import annotations

from typing import Any

import numpy as np

from structboost.errors import TaskError
from structboost.tasks.checks import real_table
from structboost.tasks.code import CodeTask


class CodedTask(CodeTask):
    """Classes 0..n_classes-1, each a word of -1 and 1, with the 0/1 loss.

    A channel is a bit; class c scores ``M(c, :) F(x)`` (1).  Of equally good classes the argmax
    takes the first.

    Parameters
    ----------
    code : array-like, shape (n_classes, n_bits)
        The words.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost.tasks import CodedTask
    >>> task = CodedTask([[1, 1], [1, -1], [-1, 1]])
    >>> task.argmax([0.0], np.array([[0.3, -0.9]]))
    1
    """

    def __init__(self, code: Any) -> None:
        words = real_table(code, "code")
        if words.ndim != 2 or len(words) < 2 or not np.isin(words, (-1, 1)).all():
            raise TaskError(
                f"code has shape {words.shape}; give a row of -1 and 1 for each of at least 2 "
                "classes."
            )
        super().__init__(words.astype(np.int8))
