"""Rankings by AUC, ordinal regression (StructBoost, section 3.2) or losses at the top."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, Examples, FloatArray, IntArray, override
from structboost.contract.parts import PartKind, SparseFeature, StackedParts, stack_parts, starts_of
from structboost.contract.separation import Separation
from structboost.contract.task import Predicts, Searches, Separates, SeparatesSlacks, Task
from structboost.errors import TaskError, on_example
from structboost.inference.arguments import as_array, checked_features
from structboost.inference.ranking import (
    TopMeasure,
    most_violated_graded_order,
    most_violated_order,
    most_violated_pairs,
    value_of_order,
    violated_pair_weights,
    weigh_pairs,
)
from structboost.tasks.base import exchange
from structboost.validation import SparseRows, shown

# Largest relevance that is a grade, of exponential gain.
_LARGEST_GRADE = 30

# Most items of a query whose order is an assignment problem: its memory grows with their square.
_LONGEST_GRADED_LIST = 3000


class PairOrder(NamedTuple):
    """An order of the items of a query, as a cut needs it, without a list of its pairs.

    Parameters
    ----------
    counts : ndarray, shape (n_items,)
        Fraction of the pairs that are swapped with the item as the better half, minus that with the
        item as the worse half.
    loss : float
        Fraction of the pairs that are swapped.
    """

    counts: FloatArray
    loss: float


class WeightedRelevance(NamedTuple):
    """True output of a query whose items differ in weight, where a pair weighs their product.

    Parameters
    ----------
    relevance : array-like, shape (n_items,)
        Relevance of each item, larger for better.
    weights : ndarray of float64, shape (n_items,)
        Weight of each item.
    """

    relevance: Any
    weights: FloatArray


class _Judged(NamedTuple):
    """Relevance of the items of a query as dense ranks, their weights, and that of all pairs."""

    levels: IntArray
    n_levels: int
    weights: FloatArray
    all_pairs: float

    def violated(self, scores: FloatArray, margin: float) -> tuple[FloatArray, float]:
        """Compute the fractions of violated pairs, signed for each item and in all."""
        signed, violated = violated_pair_weights(
            scores, self.levels, self.n_levels, self.weights, margin
        )
        return signed / self.all_pairs, violated / self.all_pairs


class RankingTask(Task, Searches, Predicts, Separates, SeparatesSlacks):
    """Order the items of a query so that better ones score higher.

    An example is a query: its input a table (n_items, n_features), its true output the relevance of
    each item (two levels: the AUC), or a :class:`WeightedRelevance`.  The loss is the fraction of
    pairs of different relevance in the wrong order, tied pairs counting half, so a query counts the
    same whatever its size; with one query this is (14).  Queries without two levels of relevance
    have no pairs and no loss.  The argmax without ``y`` is the rank of each item by its score; with
    ``y`` it is the most violated :class:`PairOrder`, in which a pair is swapped where its margin is
    below 1 (line 8 of Algorithm 2).  Items of equal scores have one rank, so there are no equally
    good orders.  A prediction is the scores of the items.

    Other losses look at the top of the list.  With ``loss="ndcg"`` the loss is 1 minus the
    normalised discounted gain of the query, with ``"ndcg@10"`` that of the first 10 places.  An
    item gains ``2^relevance - 1`` if the relevances of the query are whole numbers from 0 to 30,
    otherwise the rank of its level.  With ``"map"`` the loss is 1 minus the average precision, and
    with ``"capped_recall@10"`` 1 minus the number of relevant items among the first 10, over the
    largest number that can be there (10, or all that are relevant); these two take two levels of
    relevance.  Their argmax is exact, and a query has one slack, as they are no sums over pairs.

    Parameters
    ----------
    loss : {"pairs", "map", "ndcg"} or str
        ``"capped_recall@"`` and ``"ndcg@"`` are followed by a whole number from 1.

    Raises
    ------
    ValueError
        If there is no such loss.

    Notes
    -----
    Joachims, ICML 2005 (pairs, precision); Yue and others, SIGIR 2007 (average precision);
    Chakrabarti and others, KDD 2008 (NDCG).

    Examples
    --------
    >>> import numpy as np
    >>> from structboost import RankingTask
    >>> task = RankingTask()
    >>> x = np.zeros((3, 1))  # three items of a query
    >>> task.argmax(x, np.array([[0.1], [0.9], [0.5]]))
    array([0., 2., 1.])
    """

    reads_inputs = False
    separates_in_batches = True
    kinds = {"x": PartKind(n_channels=1, response=(-1.0, 1.0))}

    def __init__(self, loss: str = "pairs") -> None:
        self.loss_name = loss
        self._measure = _measure_of(loss)

    @override
    def parts(self, x: Any) -> AnyArray:
        return x if sparse.issparse(x) else checked_features(x, "(n_items, n_features)")

    @override
    def stack(self, X: Examples) -> StackedParts:
        # Features may be missing (NaN), or sparse in all queries.
        if len(X) and all(sparse.issparse(x) for x in X):
            tables = [sparse.csr_array(x) for x in X]
            starts = starts_of([x.shape[0] for x in X])
            return StackedParts({"x": SparseRows(sparse.vstack(tables))}, {"x": starts})
        return stack_parts(
            self.kinds,
            [on_example("parts", i, self.parts, x) for i, x in enumerate(X)],
            missing=True,
        )

    @override
    def joint_feature(self, x: Any, y: Any) -> FloatArray:
        # The truth, or an order that the argmax returned.
        if isinstance(y, PairOrder):
            return y.counts.reshape(-1, 1)
        judged = _judged(y)
        if judged.all_pairs == 0:
            return np.zeros((len(judged.levels), 1))
        signed, _ = judged.violated(np.zeros(len(judged.levels)), 1.0)
        return (0.5 * signed).reshape(-1, 1)

    @override
    def loss(self, y: Any, y_pred: Any) -> float:
        if isinstance(y_pred, PairOrder):
            return y_pred.loss
        order = y_pred.relevance if isinstance(y_pred, WeightedRelevance) else y_pred
        flat = np.asarray(order, dtype=np.float64).ravel()
        judged = _judged(y, len(flat))
        if judged.all_pairs == 0:
            return 0.0
        if self._measure is None:
            return max(
                0.0, 0.5 + 0.5 * (judged.violated(flat, 0.0)[1] - judged.violated(-flat, 0.0)[1])
            )
        gains = self._graded_gains(y, judged)
        if gains is None:
            gains = _two_levels(judged, self.loss_name).astype(np.float64)
        return max(0.0, 1.0 - value_of_order(flat, gains, self._measure))

    @override
    def argmax(self, x: Any, scores: FloatArray, y: Any = None) -> Any:
        flat = np.ascontiguousarray(scores[:, 0])
        if y is None:
            return np.unique(flat, return_inverse=True)[1].astype(np.float64)
        judged = _judged(y, len(flat))
        true = self.joint_feature(x, y)[:, 0]
        if judged.all_pairs == 0:
            return PairOrder(true, 0.0)
        signed, loss = self._violated(y, judged, flat)
        return PairOrder(true - signed, loss)

    @override
    def predict(self, x: Any, scores: FloatArray) -> FloatArray:
        return np.array(scores[:, 0])

    @override
    def separate(self, X: Examples, Y: Examples, scores: StackedParts) -> Separation:
        flat = scores.rows["x"][:, 0]
        offsets = scores.offsets["x"]
        losses = np.zeros(len(Y))
        weights = np.zeros(len(flat))
        for i, judged, rows in _with_pairs(Y, offsets):
            scored = np.ascontiguousarray(flat[rows])
            weights[rows], losses[i] = self._violated(Y[i], judged, scored, i)
        items = np.flatnonzero(weights)
        difference = SparseFeature(items, np.zeros(len(items), np.int64), weights[items])
        return Separation(losses, {"x": difference}, {"x": np.searchsorted(items, offsets)})

    @override
    def separate_slacks(
        self, X: Examples, Y: Examples, scores: StackedParts, limit: int
    ) -> Separation:
        if self._measure is not None:
            return self.separate(X, Y, scores)
        flat = scores.rows["x"][:, 0]
        offsets = scores.offsets["x"]
        blocks = [(np.zeros(0, np.int64),) * 2 + (np.zeros(0), np.zeros(0, np.int64))]
        for i, judged, rows in _with_pairs(Y, offsets):
            scored = np.ascontiguousarray(flat[rows])
            per_item = max(1, limit // len(scored))
            upper, lower = most_violated_pairs(scored, judged.levels, 1.0, per_item)
            pairs = judged.weights[upper] * judged.weights[lower]
            weight = pairs / (judged.all_pairs * len(Y))
            blocks.append((upper + rows.start, lower + rows.start, weight, np.full(len(upper), i)))
        upper, lower, weight, query = map(np.concatenate, zip(*blocks, strict=True))
        violation = 1.0 - (flat[upper] - flat[lower])
        most = np.sort(np.argsort(-violation, kind="stable")[:limit])
        upper, lower = upper[most], lower[most]
        n = len(most)
        return Separation(
            losses=np.ones(n),
            differences={"x": exchange((upper, lower))},
            indptr={"x": 2 * np.arange(n + 1, dtype=np.int64)},
            slacks=upper * len(flat) + lower,
            weights=weight[most],
            examples=query[most],
        )

    @override
    def gains(self, Y: Examples) -> tuple[FloatArray, FloatArray]:
        judged = [_judged(y, None, i) for i, y in enumerate(Y)]
        weights = np.concatenate([of_query.weights for of_query in judged])
        grades = np.concatenate([_relevance(y) for y in Y])
        levels = np.concatenate([of_query.levels for of_query in judged])
        return _gains(grades, levels), weights

    def _violated(
        self, y: Any, judged: _Judged, flat: FloatArray, sample: int | None = None
    ) -> tuple[FloatArray, float]:
        """Return the signed fractions of swapped pairs of the most violated order, and its loss."""
        if self._measure is None:
            return judged.violated(flat, 1.0)
        gains = self._graded_gains(y, judged, sample)
        if gains is None:
            levels = _two_levels(judged, self.loss_name, sample)
            return most_violated_order(flat, levels, self._measure)
        if len(gains) > _LONGEST_GRADED_LIST:
            raise TaskError(
                f"{_name(sample)} has {len(gains)} items; loss={self.loss_name!r} takes at most "
                f"{_LONGEST_GRADED_LIST} of them for several grades or a number of places. "
                "loss='pairs' takes more.",
                sample,
            )
        heights, loss = most_violated_graded_order(
            flat, gains, judged.all_pairs / judged.weights[0] ** 2, self._measure
        )
        return judged.violated(heights, 0.0)[0], loss

    def _graded_gains(
        self, y: Any, judged: _Judged, sample: int | None = None
    ) -> FloatArray | None:
        """Return the gain of each item where the loss is an NDCG that needs more than two lists."""
        if self._measure is None or self._measure.name != "ndcg":
            return None
        gains = _gains(_relevance(y), judged.levels)
        if judged.n_levels == 2 and not self._measure.k and gains.min() == 0:
            return None
        _check_equal_weights(judged, self.loss_name, sample)
        return gains


def _with_pairs(Y: Examples, offsets: IntArray) -> Iterator[tuple[int, _Judged, slice]]:
    """Iterate over the queries of two levels or more, and the rows of their items."""
    for i, y in enumerate(Y):
        judged = _judged(y, int(offsets[i + 1] - offsets[i]), i)
        if judged.all_pairs:
            yield i, judged, slice(int(offsets[i]), int(offsets[i + 1]))


def _measure_of(loss: Any) -> TopMeasure | None:
    """Return the measure at the top of the list, None for the fraction of swapped pairs."""
    if isinstance(loss, str):
        name, at, k = loss.partition("@")
        if name in ("capped_recall", "ndcg") and k.isdecimal() and int(k) > 0:
            return TopMeasure(name, int(k))
        if name in ("map", "ndcg") and not at:
            return TopMeasure(name)
        if loss == "pairs":
            return None
    raise ValueError(
        f"loss is {shown(loss)}; choose one of 'pairs', 'map', 'ndcg', or 'capped_recall@10' or "
        "'ndcg@10' for the first 10."
    )


def _two_levels(judged: _Judged, loss: str, sample: int | None = None) -> IntArray:
    """Return levels, after a check that there are two, and that items do not differ in weight."""
    if judged.n_levels > 2:
        raise TaskError(
            f"{_name(sample)} has {judged.n_levels} levels; loss={loss!r} takes two: relevant, or "
            "not. 'pairs' and 'ndcg' take more.",
            sample,
        )
    _check_equal_weights(judged, loss, sample)
    return judged.levels


def _check_equal_weights(judged: _Judged, loss: str, sample: int | None) -> None:
    if (judged.weights != judged.weights[0]).any():
        raise TaskError(
            f"{_name(sample)} has weights of items, and loss={loss!r} weighs queries only; give "
            "all items of a query the same sample_weight, or take loss='pairs'.",
            sample,
        )


def _name(sample: int | None) -> str:
    return "The relevance of a query" if sample is None else "Y[{sample}]"


def _relevance(y: Any) -> FloatArray:
    """Return the relevance of the items of a query as numbers."""
    return np.asarray(y.relevance if isinstance(y, WeightedRelevance) else y, np.float64).ravel()


def _gains(relevance: FloatArray, levels: IntArray) -> FloatArray:
    """Return ``2^relevance - 1`` of grades, whole numbers from 0 to 30, else ``levels``."""
    if ((relevance >= 0) & (relevance <= _LARGEST_GRADE) & (relevance % 1 == 0)).all():
        return np.exp2(relevance) - 1.0
    return levels.astype(np.float64)


def _judged(y: Any, n_items: int | None = None, sample: int | None = None) -> _Judged:
    """Return a true output as a cut needs it, after a check of its number of items."""
    relevance = y.relevance if isinstance(y, WeightedRelevance) else y
    levels, n_levels = _levels(relevance, sample)
    if n_items is not None and len(levels) != n_items:
        raise TaskError(
            f"{_name(sample)} has {len(levels)} entries for {n_items} items; give one for each.",
            sample,
        )
    weights = (
        np.asarray(y.weights, np.float64)
        if isinstance(y, WeightedRelevance)
        else np.ones(len(levels))
    )
    if len(weights) != len(levels):
        raise TaskError(
            f"{_name(sample)} has {len(weights)} weights for {len(levels)} items; give one for "
            "each.",
            sample,
        )
    return _Judged(levels, n_levels, weights, weigh_pairs(levels, n_levels, weights))


def _levels(y: Any, sample: int | None) -> tuple[IntArray, int]:
    """Return relevance as dense ranks 0..n_levels-1, and their number.

    TaskError if it is not of numbers, or has NaN.
    """
    array = as_array(y)
    relevance = array.ravel()
    if (
        relevance.dtype.kind in "iu"
        and len(relevance)
        and 0 <= relevance.min()
        and relevance.max() < len(relevance)
    ):
        # Without a sort: this runs for every cut.
        ranks = np.cumsum(np.bincount(relevance) > 0) - 1
        return ranks[relevance], int(ranks[-1]) + 1
    is_number = relevance.dtype.kind in "biuf"
    wrong = relevance[np.isnan(relevance)] if is_number else relevance
    if not array.ndim or len(wrong):
        such = f", such as {shown(wrong[0])}" if len(wrong) else ""
        raise TaskError(
            f"{_name(sample)} holds {relevance.dtype}{such}; give numbers, larger for better.",
            sample,
        )
    values, levels = np.unique(relevance, return_inverse=True)
    return levels.astype(np.int64), len(values)
