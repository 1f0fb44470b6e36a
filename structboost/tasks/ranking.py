"""Ranking: AUC and ordinal regression (StructBoost, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost.inference.pair_sorting import (
    count_pairs,
    most_violated_pairs,
    violated_pair_counts,
)
from structboost.task import Measure, PartKind, Separation, StackedParts, Task


class PairOrder(NamedTuple):
    """An order of the items of a query, given as what a cut needs of it.

    ``counts`` is the signed share of swapped pairs of each item (better half minus worse half),
    ``loss`` the share of pairs swapped; the pairs themselves are never listed.
    """

    counts: NDArray[np.float64]
    loss: float


class RankingTask(Task):
    """Order the items of a query so that better ones score higher.

    An example is a query: its input a table (n_items, n_features), its true output the relevance of each item
    (two levels: the AUC).  The loss is the share of pairs of different relevance in the wrong order, so
    a query counts the same whatever its size; with one query this is (14).  Queries without two levels of
    relevance have no pairs and no loss.
    """

    reads_inputs: ClassVar[bool] = False
    kinds = {"x": PartKind(n_channels=1, response=(-1.0, 1.0))}
    comparable_outputs = False

    def parts(self, x: Any) -> NDArray[Any]:
        """The items of the query."""
        return np.asarray(x)

    def joint_feature(self, x: Any, y: Any) -> NDArray[np.float64]:
        """Signed share of pairs of each item: +1 as the better half, -1 as the worse.

        ``y`` is a relevance vector or the order that :meth:`argmax` found.
        """
        if isinstance(y, PairOrder):
            return y.counts.reshape(-1, 1)
        levels, n_levels = _levels(y)
        n_pairs = count_pairs(levels, n_levels)
        if n_pairs == 0:
            return np.zeros((len(levels), 1))
        counts, _ = violated_pair_counts(np.zeros(len(levels)), levels, n_levels, 1.0)
        return (counts / (2.0 * n_pairs)).reshape(-1, 1)

    def loss(self, y: Any, y_pred: Any) -> float:
        """Share of the pairs of different relevance that ``y_pred`` swaps; ties are not swapped."""
        if isinstance(y_pred, PairOrder):
            return y_pred.loss
        levels, n_levels = _levels(y)
        n_pairs = count_pairs(levels, n_levels)
        if n_pairs == 0:
            return 0.0
        order = np.asarray(y_pred, dtype=np.float64).ravel()
        _, wrong = violated_pair_counts(order, levels, n_levels, 0.0)
        return wrong / n_pairs

    def argmax(self, x: Any, scores: NDArray[np.float64], y: Any = None) -> Any:
        """Ranks of the items by score; with ``y`` the most violated :class:`PairOrder`.

        A pair is swapped where its margin is below 1, the rule of line 8 of Algorithm 2.
        """
        flat = np.ascontiguousarray(scores[:, 0])
        if y is None:
            return np.unique(flat, return_inverse=True)[1].astype(np.float64)
        true = self.joint_feature(x, y)[:, 0]
        levels, n_levels = _levels(y)
        n_pairs = count_pairs(levels, n_levels)
        if n_pairs == 0:
            return PairOrder(true, 0.0)
        counts, swapped = violated_pair_counts(flat, levels, n_levels, 1.0)
        return PairOrder(true - counts / n_pairs, swapped / n_pairs)

    def predict(self, x: Any, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The scores of the items."""
        return np.array(scores[:, 0])

    def separate(self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts) -> Separation:
        """Most violated order of every query, by sorting."""
        flat = scores.rows["x"][:, 0]
        offsets = scores.offsets["x"]
        losses = np.zeros(len(Y))
        weights = np.zeros(len(flat))
        for i in range(len(Y)):
            levels, n_levels = _levels(Y[i])
            n_pairs = count_pairs(levels, n_levels)
            if n_pairs:
                own = slice(offsets[i], offsets[i + 1])
                counts, swapped = violated_pair_counts(np.ascontiguousarray(flat[own]), levels, n_levels, 1.0)
                weights[own] = counts / n_pairs
                losses[i] = swapped / n_pairs
        rows = np.flatnonzero(weights)
        difference = Measure(rows, np.zeros(len(rows), np.int64), weights[rows])
        return Separation(losses, {"x": difference}, {"x": np.searchsorted(rows, offsets)})

    def separate_slacks(self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts, limit: int) -> Separation:
        """Violated pairs, each with the slack that (14) gives it; at most about ``limit``."""
        flat = scores.rows["x"][:, 0]
        offsets = scores.offsets["x"]
        n_rows = len(flat)
        better, worse, weights = [], [], []
        for i in range(len(Y)):
            levels, n_levels = _levels(Y[i])
            n_pairs = count_pairs(levels, n_levels)
            if n_pairs:
                start = offsets[i]
                own = np.ascontiguousarray(flat[start : offsets[i + 1]])
                per_item = max(1, limit // len(own))
                upper, lower = most_violated_pairs(own, levels, 1.0, per_item)
                better.append(upper + start)
                worse.append(lower + start)
                weights.append(np.full(len(upper), 1.0 / (n_pairs * len(Y))))
        upper, lower = (np.concatenate(pairs) if pairs else np.zeros(0, np.int64) for pairs in (better, worse))
        weight = np.concatenate(weights) if weights else np.zeros(0)
        violation = 1.0 - (flat[upper] - flat[lower])
        taken = np.sort(np.argsort(-violation, kind="stable")[:limit])
        upper, lower = upper[taken], lower[taken]
        n = len(taken)
        difference = Measure(
            np.column_stack((upper, lower)).ravel(),
            np.zeros(2 * n, np.int64),
            np.tile((1.0, -1.0), n),
        )
        return Separation(
            losses=np.ones(n),
            differences={"x": difference},
            indptr={"x": 2 * np.arange(n + 1, dtype=np.int64)},
            slacks=upper * n_rows + lower,
            weights=weight[taken],
        )


def _levels(y: Any) -> tuple[NDArray[np.int64], int]:
    """Relevance as dense ranks 0..n_levels-1."""
    relevance = np.asarray(y).ravel()
    if relevance.dtype.kind in "iu" and len(relevance) and 0 <= relevance.min() and relevance.max() < len(relevance):
        # Without a sort: this runs for every cut.
        ranks = np.cumsum(np.bincount(relevance) > 0) - 1
        return ranks[relevance], int(ranks[-1]) + 1
    values, levels = np.unique(relevance, return_inverse=True)
    return levels.astype(np.int64), len(values)
