"""Semi-Markov chains, which cut sequences into labelled segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from structboost._typing import AnyArray, FloatArray, IntArray, override
from structboost.contract.parts import PartKind, SparseFeature, StackedParts
from structboost.contract.task import Task
from structboost.errors import TaskError, on_example
from structboost.inference.segments import best_segments, cut_of
from structboost.tasks.base import alone, as_array, checked_features, indicator, penalties
from structboost.validation import checked_choice, checked_flag, checked_whole_number, shown

_LOSSES = ("tokens", "segments")


class SegmentTask(Task):
    """Segments that cover a sequence, each with a label 0..n_labels-1.

    An input is an array (n_tokens, n_features).  An output is an array (n_segments, 3) of int with
    a row ``(start, end, label)`` for each segment: its first token, the token after its last one,
    and its label.  A segment scores the sum of its tokens for its label (kind ``"token"``), of its
    first token (``"begin"``), and of its length (``"span"``, whose one feature is the length).  Two
    neighbours score by their labels (``"pair"``).  The argmax is exact, as
    :func:`~structboost.inference.semi_markov_viterbi` is, for all sequences at once.  Of equally
    good cuts it takes the one with the first label and the shortest segment, compared from the last
    segment on.

    With ``span_features`` an input is a pair of the tokens and an array (n_tokens, max_length,
    n_span_features), where ``[start, length - 1]`` describes a possible segment as a whole; rows
    that reach beyond the sequence are not read.

    Parameters
    ----------
    n_labels : int
        Number of labels of segments.
    max_length : int
        Most tokens of a segment.
    loss : {"tokens", "segments"}
        The number of tokens of another label; or the number of segments that only one of both
        outputs has, where a segment is the same if start, end and label are.
    span_features : bool
        Whether inputs bring features of the possible segments.
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
        self,
        n_labels: int,
        max_length: int,
        *,
        loss: str = "tokens",
        span_features: bool = False,
        forbidden: Iterable[tuple[int, int]] = (),
    ) -> None:
        self.n_labels = checked_whole_number(n_labels, "n_labels")
        self.max_length = checked_whole_number(max_length, "max_length")
        self.loss_name = checked_choice(loss, "loss", _LOSSES)
        self.span_features = checked_flag(span_features, "span_features")
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
        if self.span_features and not (isinstance(x, tuple | list) and len(x) == 2):
            raise TaskError(
                f"An input is {shown(x)}; give a pair of the tokens and the features of segments."
            )
        tokens = checked_features(x[0] if self.span_features else x, "(n_tokens, n_features)")
        if not self.span_features:
            spans = np.arange(1.0, self.max_length + 1.0).reshape(-1, 1)
        else:
            spans = checked_features(x[1], "(n_tokens, max_length, n_features) for segments")
            if spans.shape[:2] != (len(tokens), self.max_length):
                raise TaskError(
                    f"An input has features of segments of shape {spans.shape}; give "
                    f"({len(tokens)}, {self.max_length}, n_features): n_tokens and max_length."
                )
            spans = spans.reshape(len(tokens) * self.max_length, spans.shape[-1])
        return {"token": tokens, "begin": tokens, "span": spans, "pair": np.ones((1, 1))}

    @override
    def joint_feature(self, x: Any, y: Any) -> dict[str, SparseFeature]:
        tokens = x[0] if self.span_features and x is not None else x
        segments = self._checked(y, None if x is None else len(tokens))
        if not self._is_allowed(segments):
            raise TaskError(f"The segments {shown(segments.tolist())} have forbidden neighbours.")
        start, end, label = segments.T
        n_tokens = int(end[-1]) if len(end) else 0
        pairs = label[:-1] * self.n_labels + label[1:]
        rows = end - start - 1 + start * self.max_length * self.span_features
        return {
            "token": indicator(np.arange(n_tokens), np.repeat(label, end - start)),
            "begin": indicator(start, label),
            "span": indicator(rows, label),
            "pair": indicator(np.zeros(len(pairs), np.int64), pairs),
        }

    @override
    def loss(self, y: Any, y_pred: Any) -> float:
        true, predicted = self._checked(y), self._checked(y_pred)
        if (true[-1:, 1] != predicted[-1:, 1]).any() or (len(true) == 0) != (len(predicted) == 0):
            raise TaskError("Two outputs cover sequences of different length.")
        if self.loss_name == "tokens":
            tags = (np.repeat(cut[:, 2], cut[:, 1] - cut[:, 0]) for cut in (true, predicted))
            return float(np.sum(np.not_equal(*tags)))
        return float(len(set(map(tuple, true.tolist())) ^ set(map(tuple, predicted.tolist()))))

    @override
    def argmax(self, x: Any, scores: Any, y: Any = None) -> IntArray:
        stacked = alone(self.kinds, scores)
        return self.argmax_batch([x], stacked, None if y is None else [y])[0]

    @override
    def argmax_batch(
        self, X: Sequence[Any], scores: StackedParts, Y: Sequence[Any] | None = None
    ) -> list[IntArray]:
        starts = np.ascontiguousarray(scores.offsets["token"], np.int64)
        rows = {
            kind: np.ascontiguousarray(of_kind, np.float64) for kind, of_kind in scores.rows.items()
        }
        rewarded = np.zeros((len(rows["token"]), 2), np.int64)
        if Y is not None:
            self._add_loss(Y, starts, rows, rewarded)
        lengths, labels = np.zeros((2, len(rows["token"])), np.int64)
        span_rows = np.ascontiguousarray(scores.offsets["span"][:-1], np.int64)
        step = self.max_length * self.span_features
        impossible = best_segments(
            (rows["token"], rows["begin"], rows["span"], rows["pair"] + self._forbidden),
            (starts, span_rows, step, self.max_length), (rewarded, -2.0), lengths, labels,
        )  # fmt: skip
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
            segments = self._checked(y, len(self.parts(x)["token"]))
        except TaskError:
            return False
        return self._is_allowed(segments)

    def _add_loss(
        self, Y: Sequence[Any], starts: IntArray, rows: dict[str, FloatArray], rewarded: IntArray
    ) -> None:
        """Raise scores by the loss, one for each wrong token or segment.

        The others lack a segment of the true output, so such a segment saves two.
        """
        for i, y in enumerate(Y):
            n_tokens = int(starts[i + 1] - starts[i])
            segments = on_example("joint_feature", i, self._checked, y, n_tokens)
            rewarded[starts[i] + segments[:, 0]] = np.column_stack(
                (segments[:, 1] - segments[:, 0], segments[:, 2])
            )
        if self.loss_name == "segments":
            rows["begin"] = rows["begin"] + 1.0
            return
        began = np.flatnonzero(rewarded[:, 0])
        tags = np.repeat(rewarded[began, 1], rewarded[began, 0])
        rows["token"] = rows["token"] + 1.0
        rows["token"][np.arange(len(tags)), tags] -= 1.0
        rewarded[:, 0] = 0

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
