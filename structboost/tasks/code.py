"""Classification by label codes, the base of binary, multi-class, coded and taxonomy tasks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.listed_outputs import Marginals, OutputCodes
from structboost.contract.measures import SparseFeature
from structboost.contract.parts import PartKind, StackedParts
from structboost.contract.separation import Separation
from structboost.runtime.compiled import compiled
from structboost.tasks.checks import check_pairs_fit
from structboost.tasks.tables import TableTask, checked_class, checked_classes

# Codes by rows: where each begins, channels and values of the entries that are not 0.
_Codes = tuple[IntArray, IntArray, FloatArray]


class CodeTask(TableTask):
    """Classes 0..n_classes-1, each a row of a code matrix, with the score ``<code[c], F(x)>``.

    An input is a feature vector; its one part is the input itself.  Of equally good classes
    the argmax takes the first, and in training another one than the truth, if there is one.

    Parameters
    ----------
    code : ndarray of int8, shape (n_classes, n_channels)
        Label codes of the classes.
    losses : ndarray of float64, shape (n_classes, n_classes), optional
        Loss of each (true, predicted) pair of classes.  Default: 0 on the diagonal, else 1.
    """

    separates_in_batches = True

    def __init__(self, code: NDArray[np.int8], losses: FloatArray | None = None) -> None:
        self.code = code
        self.n_classes = len(code)
        check_pairs_fit(self.n_classes, "classes")
        self.losses = 1.0 - np.eye(self.n_classes) if losses is None else losses
        self.kinds = {"x": PartKind(n_channels=code.shape[1], response=(-1.0, 1.0))}

    @override
    def joint_feature(self, x: Any, y: Any) -> FloatArray:
        return self.code[[self._class(y)]].astype(np.float64)

    @override
    def loss(self, y: Any, y_pred: Any) -> float:
        return float(self.losses[self._class(y), self._class(y_pred)])

    @override
    def argmax(self, x: Any, scores: FloatArray, y: Any = None) -> int:
        by_class = self.class_scores(scores)[0]
        return int(np.argmax(by_class if y is None else by_class + self.losses[self._class(y)]))

    def _class(self, y: Any) -> int:
        """Return a class as an int, after a check."""
        return checked_class(y, self.n_classes, type(self).__name__)

    def class_scores(self, scores: FloatArray) -> FloatArray:
        """Compute the scores of the classes from those of the channels.

        Parameters
        ----------
        scores : ndarray, shape (n_parts, n_channels)
            Scores of the channels.

        Returns
        -------
        by_class : ndarray, shape (n_parts, n_classes)
            Scores of the classes.
        """
        return np.asarray(scores @ self.code.T.astype(np.float64), np.float64)

    @override
    def separate(self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts) -> Separation:
        losses, rows, channels, values, indptr = _separated(
            self.class_scores(scores.rows["x"]), self.losses, self.labels(Y), self._entries
        )
        return Separation(losses, {"x": SparseFeature(rows, channels, values)}, {"x": indptr})

    @cached_property
    def _entries(self) -> _Codes:
        classes, channels = np.nonzero(self.code)
        starts = np.searchsorted(classes, np.arange(self.n_classes + 1)).astype(np.int64)
        values = self.code[classes, channels].astype(np.float64)
        return starts, np.ascontiguousarray(channels), values

    @override
    def marginals_batch(self, X: Sequence[Any], scores: StackedParts) -> Marginals:
        by_class = self.class_scores(scores.rows["x"])
        log_sums = logsumexp(by_class, axis=1)
        expected = np.exp(by_class - log_sums[:, None]) @ self.code.astype(np.float64)
        return Marginals({"x": expected}, log_sums)

    def codes(self, Y: Sequence[Any]) -> OutputCodes:
        """Return the codes of all classes, and which are true."""
        return OutputCodes(self.code, self.labels(Y), self.losses)

    def labels(self, Y: Sequence[Any]) -> IntArray:
        """Return the row of each true output in the code.

        Parameters
        ----------
        Y : sequence, shape (n_examples,)
            True outputs.

        Returns
        -------
        labels : ndarray of int64, shape (n_examples,)
            Rows of the code.

        Raises
        ------
        TaskError
            If one is no class; the message names the example.
        """
        return checked_classes(Y, self.n_classes, type(self).__name__)


def _separated(
    scores: FloatArray, losses: FloatArray, labels: IntArray, codes: _Codes
) -> tuple[FloatArray, IntArray, IntArray, FloatArray, IntArray]:
    """Return the losses of the best classes with their loss added, and where the codes differ.

    The differences are entries: rows, channels and values, and where those of each row begin.
    """
    # Python allocates, because numba compiles each kind of allocation anew.
    n = len(labels)
    rivals, best, of_rivals = labels.copy(), np.empty(n), np.empty(n)
    room = _find_rivals(scores, losses, labels, codes[0], rivals, best, of_rivals)
    rows, channels, values = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
    indptr = np.zeros(n + 1, np.int64)
    _write_differences(codes, labels, rivals, rows, channels, values, indptr)
    end = indptr[-1]
    return of_rivals, rows[:end], channels[:end], values[:end], indptr


@compiled
def _find_rivals(
    scores: FloatArray,
    losses: FloatArray,
    labels: IntArray,
    starts: IntArray,
    rivals: IntArray,
    best: FloatArray,
    of_rivals: FloatArray,
) -> int:
    """Find the best class of each row with its loss added, the other one in a tie with the truth.

    The rivals begin as the truth.  Returns the most entries of differences of their codes, and two
    more, which do not count.  Class after class and without branches: no processor could predict
    them, and each would cost as much as the rest.
    """
    for i in range(len(labels)):
        best[i] = scores[i, labels[i]]
    for c in range(scores.shape[1]):
        for i in range(len(labels)):
            true, rival, before = labels[i], rivals[i], best[i]
            value = scores[i, c] + losses[true, c]
            ties = (value == before) & (rival == true)
            is_better = (c != true) & ((value > before) | ties)
            best[i] = value if is_better else before
            rivals[i] = c if is_better else rival
    room = 2
    for i in range(len(labels)):
        true, rival = labels[i], rivals[i]
        of_rivals[i] = losses[true, rival]
        size = starts[true + 1] - starts[true] + starts[rival + 1] - starts[rival]
        room += size if true != rival else 0
    return room


@compiled
def _write_differences(
    codes: _Codes,
    labels: IntArray,
    rivals: IntArray,
    rows: IntArray,
    channels: IntArray,
    values: FloatArray,
    indptr: IntArray,
) -> None:
    """Write the code of the true class less that of the rival, row by row."""
    starts, code_channels, code_values = codes
    end = indptr[0]
    for i in range(len(labels)):
        a, b = starts[labels[i]], starts[rivals[i]]
        a_end, b_end = starts[labels[i] + 1], starts[rivals[i] + 1]
        if a_end - a == 1 and b_end - b == 1:
            # Where classes are channels; without a branch, as above.
            left, right = code_channels[a], code_channels[b]
            value, other = code_values[a], -code_values[b]
            is_one, in_order = left == right, left < right
            rows[end] = rows[end + 1] = i
            channels[end], channels[end + 1] = (left, right) if in_order else (right, left)
            values[end] = value + other if is_one else value if in_order else other
            values[end + 1] = other if in_order else value
            end += (1 if value + other != 0.0 else 0) if is_one else 2
        elif labels[i] != rivals[i]:
            while a < a_end or b < b_end:
                from_a = b == b_end or (a < a_end and code_channels[a] <= code_channels[b])
                from_b = a == a_end or (b < b_end and code_channels[b] <= code_channels[a])
                value = 0.0
                if from_a:
                    channels[end] = code_channels[a]
                    value += code_values[a]
                    a += 1
                if from_b:
                    channels[end] = code_channels[b]
                    value -= code_values[b]
                    b += 1
                if value != 0.0:
                    rows[end], values[end] = i, value
                    end += 1
        indptr[i + 1] = end
