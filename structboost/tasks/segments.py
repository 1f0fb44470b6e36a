"""Semi-Markov chains, which cut sequences into labelled segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from structboost._typing import AnyArray, BoolArray, Examples, IntArray, override
from structboost.contract.parts import PartKind, SparseFeature, StackedParts
from structboost.contract.task import Batches, Decomposes, Lists, Searches, Task, Validates
from structboost.errors import TaskError
from structboost.inference.arguments import as_array, checked_features, penalties
from structboost.inference.segments import best_segments, cut_of
from structboost.tasks.base import alone, indicator
from structboost.validation import checked_whole_number, shown


class SegmentTask(Task, Searches, Batches, Decomposes, Lists, Validates):
    """Segments that cover a sequence, each with a label 0..n_labels-1.

    An input is an array (n_tokens, n_features).  An output is an array (n_segments, 3) of int with
    a row ``(start, end, label)`` for each segment: its first token, the token after its last one,
    and its label.  A segment scores the sum of its tokens for its label (kind ``"token"``), of its
    first token (``"begin"``), and of its length (``"span"``, whose one feature is the length).  Two
    neighbours score by their labels (``"pair"``).  The argmax is exact, as
    :func:`~structboost.inference.semi_markov_viterbi` is, for all sequences at once.  Of equally
    good cuts it takes the one with the first label and the shortest segment, compared from the last
    segment on.  The loss is the number of tokens of another label.

    Parameters
    ----------
    n_labels : int
        Number of labels of segments.
    max_length : int
        Most tokens of a segment.
    forbidden : iterable of (int, int)
        Pairs of labels of which the second never follows the first.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range.

    Notes
    -----
    Sarawagi and Cohen, Semi-Markov conditional random fields for information extraction, NIPS 2004.

    Examples
    --------
    >>> from structboost import SegmentTask
    >>> task = SegmentTask(2, 3)
    >>> task.loss([(0, 2, 1)], [(0, 2, 0)])
    2.0
    """

    reads_inputs = False

    def __init__(
        self, n_labels: int, max_length: int, *, forbidden: Iterable[tuple[int, int]] = ()
    ) -> None:
        self.n_labels = checked_whole_number(n_labels, "n_labels")
        self.max_length = checked_whole_number(max_length, "max_length")
        self._forbidden, *_ = penalties(forbidden, self.n_labels, "labels")
        of_label = PartKind(self.n_labels)
        self.kinds = {
            "token": of_label,
            "begin": of_label,
            "span": of_label,
            "pair": PartKind(self.n_labels**2),
        }

    @override
    def parts(self, x: Any) -> dict[str, AnyArray]:
        tokens = checked_features(x, "(n_tokens, n_features)")
        spans = np.arange(1.0, self.max_length + 1.0).reshape(-1, 1)
        return {"token": tokens, "begin": tokens, "span": spans, "pair": np.ones((1, 1))}

    @override
    def joint_feature(self, x: Any, y: Any) -> dict[str, SparseFeature]:
        segments = self._checked(y, None if x is None else len(x))
        if not self._is_allowed(segments):
            raise TaskError(f"The segments {shown(segments.tolist())} have forbidden neighbours.")
        start, end, label = segments.T
        n_tokens = int(end[-1]) if len(end) else 0
        pairs = label[:-1] * self.n_labels + label[1:]
        return {
            "token": indicator(np.arange(n_tokens), np.repeat(label, end - start)),
            "begin": indicator(start, label),
            "span": indicator(end - start - 1, label),
            "pair": indicator(np.zeros(len(pairs), np.int64), pairs),
        }

    @override
    def loss(self, y: Any, y_pred: Any) -> float:
        true, predicted = self._checked(y), self._checked(y_pred)
        if (true[-1:, 1] != predicted[-1:, 1]).any() or (len(true) == 0) != (len(predicted) == 0):
            raise TaskError("Two outputs cover sequences of different length.")
        return float(np.sum(_tags(true) != _tags(predicted)))

    @override
    def loss_scores(self, x: Any, y: Any) -> dict[str, BoolArray]:
        return {"token": np.arange(self.n_labels) != _tags(self._checked(y))[:, None]}

    @override
    def argmax(self, x: Any, scores: Any) -> IntArray:
        return self.argmax_batch([x], alone(self.kinds, scores))[0]

    @override
    def argmax_batch(
        self, X: Examples, scores: StackedParts, Y: Examples | None = None
    ) -> list[IntArray]:
        starts = np.ascontiguousarray(scores.offsets["token"], np.int64)
        rows = {
            kind: np.ascontiguousarray(of_kind, np.float64) for kind, of_kind in scores.rows.items()
        }
        lengths, labels = np.zeros((2, len(rows["token"])), np.int64)
        span_rows = np.ascontiguousarray(scores.offsets["span"][:-1], np.int64)
        impossible = best_segments(
            (rows["token"], rows["begin"], rows["span"], rows["pair"] + self._forbidden),
            (starts, span_rows, 0, self.max_length),
            lengths,
            labels,
        )
        if impossible >= 0:
            raise TaskError(
                f"No cut of the {np.diff(starts)[impossible]} tokens of X[{{sample}}] is allowed; "
                "forbid less, or take a larger max_length.",
                impossible,
            )
        pieces = (np.split(array, starts[1:-1]) for array in (lengths, labels))
        return [cut_of(*piece) for piece in zip(*pieces, strict=True)]

    @override
    def outputs(self, x: Any) -> Iterator[IntArray]:
        for cut in self._cuts(0, len(self.parts(x)["token"])):
            segments = np.array(cut, np.int64).reshape(-1, 3)
            if self._is_allowed(segments):
                yield segments

    @override
    def is_valid(self, x: Any, y: Any) -> bool:
        try:
            segments = self._checked(y, len(x))
        except TaskError:
            return False
        return self._is_allowed(segments)

    def _cuts(self, start: int, n_tokens: int) -> Iterator[list[tuple[int, int, int]]]:
        if start == n_tokens:
            yield []
        for end in range(start + 1, min(start + self.max_length, n_tokens) + 1):
            for label in range(self.n_labels):
                for rest in self._cuts(end, n_tokens):
                    yield [(start, end, label), *rest]

    def _is_allowed(self, segments: IntArray) -> bool:
        label = segments[:, 2]
        return not self._forbidden[label[:-1] * self.n_labels + label[1:]].any()

    def _checked(self, y: Any, n_tokens: int | None = None) -> IntArray:
        """Return segments as an array, after a check that they cover the tokens in turn."""
        segments = as_array(y)
        if segments.size == 0:
            segments = np.zeros((0, 3), np.int64)
        if segments.ndim != 2 or segments.shape[1] != 3 or segments.dtype.kind not in "iu":
            raise TaskError(
                f"An output is {shown(y)}; give rows (start, end, label) of whole numbers."
            )
        start, end, label = segments.T
        length = end - start
        if len(segments) and not (
            np.array_equal(start, np.append(0, end[:-1]))
            and 1 <= length.min() <= length.max() <= self.max_length
            and 0 <= label.min() <= label.max() < self.n_labels
        ):
            raise TaskError(
                f"The segments are {shown(segments.tolist())}; give rows (start, end, label) that "
                "cover the tokens in turn, without gaps, with labels of "
                f"0..{self.n_labels - 1} and at most max_length={self.max_length} tokens each."
            )
        covered = int(end[-1]) if len(segments) else 0
        if n_tokens is not None and covered != n_tokens:
            raise TaskError(f"The segments end at {covered}; the sequence has {n_tokens} tokens.")
        return segments.astype(np.int64, copy=False)


def _tags(segments: IntArray) -> IntArray:
    """Return the label of each token."""
    return np.repeat(segments[:, 2], segments[:, 1] - segments[:, 0])
