"""Multi-class classification (StructBoost, section 3.3; MultiBoost of Shen and Hao)."""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray
from structboost.exceptions import TaskError
from structboost.tasks.code import CodeTask


class MulticlassTask(CodeTask):
    """Classes 0..n_classes-1 with the orthogonal label code (15) and the 0/1 loss.

    An input is a feature vector; its one part is the input itself, its channels are the classes.

    Parameters
    ----------
    n_classes : int
        At least 2.
    """

    def __init__(self, n_classes: int) -> None:
        if int(n_classes) != n_classes or n_classes < 2:
            raise TaskError(
                f"n_classes is {n_classes!r}; a multi-class task needs at least 2 classes."
            )
        super().__init__(np.eye(int(n_classes), dtype=np.int8))

    def class_scores(self, scores: FloatArray) -> FloatArray:
        """The scores themselves: a channel is a class."""
        return scores
