"""Multi-class classification (StructBoost, section 3.3, and MultiBoost of Shen and Hao)."""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray, override
from structboost.tasks.checks import check_pairs_fit, checked_size
from structboost.tasks.code import CodeTask


class MulticlassTask(CodeTask):
    """Classes 0..n_classes-1 with the orthogonal label code (15) and the 0/1 loss.

    An input is a feature vector; its one part is the input itself, its channels are the classes.
    Of equally good classes the argmax takes the first.

    Parameters
    ----------
    n_classes : int
        At least 2.

    Raises
    ------
    TaskError
        If ``n_classes`` is out of its range.
    MemoryError
        If the losses of all pairs of classes do not fit into memory.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost import MulticlassTask
    >>> task = MulticlassTask(3)
    >>> task.loss(0, 2)
    1.0
    >>> task.argmax([0.0], np.array([[0.2, 0.5, 0.1]]))
    1
    """

    separates_in_batches = True

    def __init__(self, n_classes: int) -> None:
        n = checked_size(n_classes, "n_classes")
        check_pairs_fit(n, "classes")
        super().__init__(np.eye(n, dtype=np.int8))

    @override
    def class_scores(self, scores: FloatArray) -> FloatArray:
        return scores
