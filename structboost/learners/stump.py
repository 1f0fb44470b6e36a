"""Decision stumps, on features in memory, on sparse ones, and on features in shards.

The three families differ in what they search: histograms of the bins of features in memory, sums of
such histograms that shards send, or the entries of a sparse table in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import (
    AnyArray,
    BoolArray,
    ByteArray,
    FloatArray,
    IntArray,
    ShortArray,
    override,
)
from structboost.files.archive import Array, DamagedFileError, whole_number
from structboost.learners.base import (
    ROUNDING,
    Candidate,
    TrainingFeatures,
    WeakLearnerFamily,
    best_first,
    best_ways,
    check_family_arguments,
    checked_directions,
    largest_norms,
    ranked,
    response_type,
    with_constant,
)
from structboost.learners.binning import (
    BinnedFeatures,
    Thresholds,
    bin_features,
    binned_features,
)
from structboost.learners.category import CategoryFamily
from structboost.learners.histogram import best_shared_splits, best_splits, histograms
from structboost.learners.responses import (
    BlockMeasure,
    DualsInShards,
    FeaturesOfRows,
    ResponsesInShard,
    entry_values,
)
from structboost.learners.table import LearnerTable, LookupTable, shares_of_one
from structboost.learners.terms import Terms
from structboost.runtime.compiled import compiled

# First feature of a group, and the first behind it.
Group = tuple[int, int]

# Most numbers in the histograms that are held together.
_HELD_ENTRIES = 1 << 22
# Work (rows x features) below which threads cost more than they save.
_MIN_THREADED_WORK = 2_000_000


class Stump(NamedTuple):
    """Stump with response ``left`` where the column is at most the threshold, else ``right``.

    The columns are those of the bins (:class:`structboost.learners.binning.Thresholds`): the
    features, if nothing is missing.  A stump with the threshold -inf is constant.
    """

    feature: int
    threshold: float
    left: float
    right: float
    bin: int


@dataclass(frozen=True)
class StumpTable(LearnerTable):
    """Table of stumps, ``left`` where the feature is at most the threshold, else ``right``.

    ``missing_left`` is whether the response to a missing feature (NaN) is ``left``.  None means
    always ``right``.
    """

    schema: ClassVar[Mapping[str, Array]] = {
        "feature": Array("int64", ("n_learners",), low=0, high="n_features - 1"),
        "threshold": Array("float64", ("n_learners",), infinite=True),
        "left": Array("float64", ("n_learners",)),
        "right": Array("float64", ("n_learners",)),
        "missing_left": Array("uint8", ("n_learners",), high=1, optional=True),
    }
    takes_missing: ClassVar[bool] = True

    feature: IntArray
    threshold: FloatArray
    left: FloatArray
    right: FloatArray
    missing_left: ByteArray | None = None

    @override
    def responses(self, features: AnyArray) -> FloatArray:
        columns = features[:, self.feature].T
        is_left = columns <= self.threshold[:, None]
        if self.missing_left is not None:
            is_left |= np.isnan(columns) & (self.missing_left[:, None] > 0)
        return np.where(is_left, self.left[:, None], self.right[:, None])

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        return shares_of_one(np.where(np.isfinite(self.threshold), self.feature, -1), n_features)

    @override
    def scorer(self, weights: FloatArray, n_features: int) -> LookupTable:
        goes_left = 0 if self.missing_left is None else self.missing_left
        missing = np.where(goes_left, self.left, self.right)
        return LookupTable.of_stumps(
            self.feature, self.threshold, self.left, self.right, missing, weights, n_features
        )


class Splits(NamedTuple):
    """Best stump on each column and channel, and the sums of duals over all parts.

    Edges are -inf where a column has one bin.  A stump that is ``flipped`` responds with the larger
    response left of its threshold.
    """

    totals: FloatArray
    edges: FloatArray
    bins: IntArray
    flipped: BoolArray


class StumpSearch(WeakLearnerFamily):
    """Search by histograms over all stumps between the bins of each feature, and the constant.

    Attributes
    ----------
    bins : Thresholds
    low, high : float
        The two responses of a stump.
    directions : ndarray of int8, shape (n_columns,)
        1 for columns whose stumps must rise, -1 where they must fall, else 0.
    rows : ndarray, shape (n_parts, n_features), or None
        The features, if they are in memory.
    """

    name = "stump"
    exact_pricing = True
    can_resume = True
    takes_missing = True
    n_threads = 1

    def __init__(
        self, bins: Thresholds, response: tuple[float, float], rows: AnyArray | None = None
    ) -> None:
        self.bins = bins
        self.rows = rows
        self.n_features = bins.n_features
        self.low, self.high = response
        self.directions = np.zeros(bins.n_columns, np.int8)

    @property
    @override
    def searches_all(self) -> bool:
        return self.bins.searches_all

    @override
    def widest_edges(self, duals: Any) -> FloatArray | None:
        if self.rows is None:
            return None
        bins, weights = self.bins, duals if isinstance(duals, np.ndarray) else duals.gathered()
        active = np.flatnonzero(weights.any(axis=1))
        weights, widest = weights[active], np.full(duals.shape[1], -np.inf)
        thinned = np.ones(bins.n_columns, bool) if bins.thinned is None else bins.thinned
        for j in np.flatnonzero(thinned).tolist():
            values = self.rows[active, bins.feature[j]]
            beyond = -np.inf if bins.is_low[j] else np.inf
            codes = np.unique(np.where(np.isnan(values), beyond, values), return_inverse=True)[1]
            sums = [np.bincount(codes, of_channel) for of_channel in weights.T]
            edges, _ = self._edges_of_cuts(j, np.vstack((np.transpose(sums), weights.sum(axis=0))))
            np.maximum(widest, edges.max(axis=0, initial=-np.inf), out=widest)
        for candidate in self.price(duals, 1):
            widest[candidate.channel] = max(widest[candidate.channel], candidate.edge)
        return widest

    def _sums(self, duals: Any, first: int, last: int) -> FloatArray:
        """Histograms of some columns, as :func:`structboost.learners.histogram.histograms`."""
        raise NotImplementedError

    def _splits(self, duals: Any) -> Splits:
        shape = (self.bins.n_columns, duals.shape[1])
        arrays = np.empty(shape), np.empty(shape, np.int64), np.empty(shape, np.bool_)
        splits = Splits(self.search(duals, best_splits, arrays), *arrays)
        for j in np.flatnonzero(self.directions).tolist():
            edges, turned = self._edges_of_cuts(j, self._sums(duals, j, j + 1))
            if len(edges):
                splits.bins[j] = edges.argmax(axis=0)
                splits.edges[j] = edges.max(axis=0)
                splits.flipped[j] = np.take_along_axis(turned, splits.bins[j][None], axis=0)[0]
        return splits

    def search(
        self, duals: Any, kernel: Callable[..., None], arrays: tuple[AnyArray, ...]
    ) -> FloatArray:
        """Fill arrays, a row for each column, by a kernel such as `best_splits`.

        Returns the sums of the duals over all parts.
        """

        def run(group: Group) -> FloatArray:
            sums = self._sums(duals, *group)
            rows = slice(*group)
            filled = (array[rows] for array in arrays)
            kernel(sums[:-1], self.bins.n_bins[rows], sums[-1], self.low, self.high, *filled)
            return np.asarray(sums[-1])

        groups = feature_groups(self.bins.n_bins, duals.shape[1], self.n_threads)
        if self.n_threads == 1 or duals.shape[0] * self.n_features < _MIN_THREADED_WORK:
            return [run(group) for group in groups][-1]
        with ThreadPoolExecutor(self.n_threads) as pool:
            return list(pool.map(run, groups))[-1]

    def _edges_of_cuts(self, j: int, sums: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Edges of the stumps of a column after each bin but the last, and which are flipped.

        The sums of the duals over all parts follow those of the bins.
        """
        below = np.cumsum(sums[:-1], axis=0)[:-1]
        above = sums[-1] - below
        rises = self.low * below + self.high * above
        falls = self.high * below + self.low * above
        turned = falls > rises
        if self.directions[j]:
            # What is missing has no place among the numbers: alone, it may go either way.
            n_directed = len(turned) - int(self.bins.is_apart[j])
            turned[:n_directed] = self.directions[j] < 0
        return np.where(turned, falls, rises), turned

    @override
    def price(self, duals: Any, per_channel: int) -> list[Candidate]:
        totals, edges, bins, flipped = self._splits(duals)
        candidates = []
        for c, total in enumerate(totals.tolist()):
            flip = self.low * total > self.high * total
            edge = (self.low if flip else self.high) * total
            constant = Candidate(self._stump(0, -1, flip), c, edge)
            splits = [
                Candidate(self._stump(f, int(bins[f, c]), flipped[f, c]), c, float(edges[f, c]))
                for f in self._best_columns(edges[:, c], per_channel)
            ]
            candidates += with_constant(splits, constant, per_channel)
        return best_first(candidates)

    @override
    def price_shared(self, duals: FloatArray, n_learners: int) -> list[tuple[Stump, FloatArray]]:
        if self.directions.any():
            raise ValueError(
                "Features with a direction (monotonic_cst) do not go with a pricing rule that "
                "shares stumps with weights of either sign; take pricing='own'."
            )
        n_columns = self.bins.n_columns
        norms, bins = np.empty(n_columns), np.empty(n_columns, np.int64)
        self.search(duals, best_shared_splits, (norms, bins))
        chosen = [
            self._stump(f, int(bins[f]), flip=False) for f in self._best_columns(norms, n_learners)
        ]
        candidates = [*chosen, self._stump(0, -1, flip=False)]
        return largest_norms(candidates, self._edges(candidates, duals), n_learners)

    @override
    def refine(self, learner: Stump, duals: Any) -> list[Candidate]:
        turned = learner._replace(left=learner.right, right=learner.left)
        is_free = learner.bin < 0 or not self.directions[learner.feature]
        ways = (learner, turned) if is_free else (learner,)
        return best_ways(ways, self._edges(ways, duals))

    def _edges(self, learners: Sequence[Stump], duals: Any) -> FloatArray:
        """Edges of stumps on all channels, shape (n_learners, n_channels)."""
        return np.asarray(self.responses(learners) @ duals)

    @override
    def table(self, learners: Sequence[Stump]) -> StumpTable:
        column, is_low = [s.feature for s in learners], self.bins.is_low
        missing_left = is_low[column].astype(np.uint8) if is_low.any() else None
        feature = self.bins.feature[column]
        return StumpTable.of(learners, feature=feature, missing_left=missing_left)

    @override
    def restored(self, values: Sequence[Any]) -> Stump:
        feature = whole_number(values[0], "feature", 0, self.bins.n_columns - 1)
        bin_ = whole_number(values[4], "bin", -1, int(self.bins.n_bins[feature]) - 2)
        stump = self._stump(feature, bin_, values[2] == self.high)
        if stump != tuple(values):
            raise DamagedFileError(f"the stump {values} is none of these features")
        return stump

    def _best_columns(self, values: FloatArray, most: int) -> list[int]:
        """Columns of the largest values, each on a feature of its own."""
        has_twins = self.bins.n_columns > self.n_features
        order = ranked(values, most * (1 + has_twins))
        if has_twins:
            first = np.unique(self.bins.feature[order], return_index=True)[1]
            order = order[np.sort(first)][:most]
        best: list[int] = order[np.isfinite(values[order])].tolist()
        return best

    def _stump(self, feature: int, bin_: int, flip: bool) -> Stump:
        threshold = -np.inf if bin_ < 0 else self.bins.values[self.bins.indptr[feature] + bin_]
        left, right = (self.high, self.low) if flip else (self.low, self.high)
        return Stump(feature, float(threshold), left, right, bin_)


class StumpFamily(StumpSearch):
    """Family of stumps on features in memory.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
        Training features; they are binned once.
    response : (float, float)
        The two responses of a stump (:class:`structboost.PartKind`).
    exact : bool or None
        Whether the family holds all distinct thresholds, or 255 quantiles of each feature.  None
        means all for at most 20,000 parts.
    n_threads : int
        Number of threads; the result does not depend on it.
    directions : sequence of int, optional
        For each feature 1, -1 or 0: its stumps rise with it, fall with it, or do either.
    """

    sets_of_categories = CategoryFamily
    in_threads = True

    def __init__(
        self,
        features: AnyArray,
        response: tuple[float, float],
        *,
        exact: bool | None = None,
        n_threads: int = 1,
        directions: Sequence[int] | None = None,
    ) -> None:
        check_family_arguments(features, response, exact=exact, n_threads=n_threads)
        self.binned = bin_features(features, exact=exact)
        super().__init__(self.binned.bins, response, features)
        self.directions = checked_directions(directions, self.n_features)[self.bins.feature]
        self.n_threads = n_threads

    @override
    def _sums(self, duals: FloatArray, first: int, last: int) -> FloatArray:
        return histograms(self.binned, duals, first, last)

    @override
    def responses(self, learners: Sequence[Stump]) -> AnyArray:
        out = np.empty((len(learners), self.binned.n_rows), response_type(self.low, self.high))
        for k, stump in enumerate(learners):
            below = self.binned.codes[stump.feature].astype(np.int64) <= stump.bin
            out[k] = np.where(below, stump.left, stump.right)
        return out


class SparseStumpFamily(StumpSearch):
    """Family of all stumps between distinct values of sparse features, and the constant.

    The search visits only the entries that are not 0.

    Parameters
    ----------
    features : sparse array, shape (n_parts, n_features)
        Finite.
    response : (float, float)
        The two responses of a stump.
    """

    takes_missing = False

    def __init__(self, features: Any, response: tuple[float, float]) -> None:
        self.n_parts, n_features = features.shape
        columns = sparse.csc_array(features)
        columns.sum_duplicates()
        columns.eliminate_zeros()
        counts = np.diff(columns.indptr)
        # One entry stands for all zeros of a feature, if it has any.
        with_zeros = np.flatnonzero(counts < self.n_parts)
        owner = np.repeat(np.arange(n_features, dtype=np.int32), counts)
        owner = np.append(owner, with_zeros.astype(np.int32))
        values = np.append(columns.data, np.zeros(len(with_zeros), columns.data.dtype))
        rows = np.append(columns.indices, np.full(len(with_zeros), -1)).astype(np.int32)
        order = np.lexsort((values, owner))
        self._rows, self._values = rows[order], values[order].astype(np.float64)
        self._starts = np.append(0, np.cumsum(counts + (counts < self.n_parts))).astype(np.int64)
        owner = np.repeat(np.arange(n_features, dtype=np.int32), np.diff(self._starts))
        at = np.flatnonzero((self._values[:-1] < self._values[1:]) & (owner[:-1] == owner[1:]))
        lower, upper = self._values[at], self._values[at + 1]
        with np.errstate(over="ignore"):
            middle = lower + 0.5 * (upper - lower)
        cuts, ends = np.where(middle < upper, middle, lower), np.searchsorted(at, self._starts)
        every = np.arange(n_features)
        super().__init__(Thresholds(cuts, ends, every, np.zeros(n_features, np.bool_)), response)

    @override
    def _splits(self, duals: FloatArray) -> Splits:
        shape = (duals.shape[1], self.n_features)
        edges, bins, flipped = np.empty(shape), np.empty(shape, np.int64), np.empty(shape, np.bool_)
        totals = np.empty(len(edges))
        for channel, weights in enumerate(np.ascontiguousarray(duals.T)):
            totals[channel] = weights.sum()
            _best_places(
                (self._starts, self._rows, self._values), weights, totals[channel], self.low,
                self.high, edges[channel], bins[channel], flipped[channel],
            )  # fmt: skip
        return Splits(totals, edges.T, bins.T, flipped.T)

    @override
    def price_shared(self, duals: FloatArray, n_learners: int) -> Any:
        return WeakLearnerFamily.price_shared(self, duals, n_learners)

    @override
    def responses(self, learners: Sequence[Stump]) -> AnyArray:
        out = np.empty((len(learners), self.n_parts), response_type(self.low, self.high))
        for k, stump in enumerate(learners):
            out[k] = stump.left if stump.threshold >= 0 else stump.right
            entries = slice(*self._starts[stump.feature : stump.feature + 2])
            rows, below = self._rows[entries], self._values[entries] <= stump.threshold
            out[k, rows[rows >= 0]] = np.where(below, stump.left, stump.right)[rows >= 0]
        return out


class StumpResponses(ResponsesInShard):
    """Responses of stumps by look-up in the codes of their features, without a store."""

    def __init__(self, binned: BinnedFeatures) -> None:
        super().__init__(binned.codes.T, binned.blocks)
        self.binned = binned
        # Responses right and left of the threshold, column and bin of each stump.
        self._stumps = np.zeros((0, 4))

    @override
    def add(self, new: Sequence[Stump]) -> int:
        first = len(self._stumps)
        fields = np.array(new, np.float64).reshape(-1, 5)[:, [3, 2, 0, 4]]
        self._stumps = np.append(self._stumps, fields, axis=0)
        return first

    def _taken(self, learners: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Columns and bins of stumps, and their responses right and left of the threshold."""
        stumps = self._stumps[learners]
        return stumps[:, 2].astype(np.int64), stumps[:, 3].astype(np.int64), stumps[:, :2].copy()

    @override
    def sums(self, duals: FloatArray, first: int, last: int) -> FloatArray:
        return histograms(self.binned, duals, first, last)

    @override
    def add_scores(self, terms: Terms, first: int, out: FloatArray) -> None:
        features, bins, sides = self._taken(terms.learners)
        sides *= terms.coefficients[:, None]
        _add_stump_scores(self.binned.codes, features, bins, sides, terms.channels, first, out)

    @override
    def add_products(
        self, terms: Terms, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        taken = self._taken(terms.learners)
        _add_stump_products(self.binned.codes, *taken, terms.channels, (*measure,), first, out)


class BinsOfRows(NamedTuple):
    """Bins of the features of a shard."""

    bins: Thresholds

    @property
    def identity(self) -> tuple[FloatArray, IntArray]:
        """Thresholds, and the start of those of each column."""
        return self.bins.values, self.bins.indptr

    def in_shard(self, features: FeaturesOfRows, starts: IntArray) -> StumpResponses:
        """Bin the features of a shard."""
        return StumpResponses(binned_features(features.codes(self.bins), self.bins, starts))


class ShardedStumps(StumpSearch):
    """Family of stumps on binned features in shards, which send histograms only.

    Parameters
    ----------
    bins : Thresholds
    response : (float, float)
        The two responses of a stump (:class:`structboost.PartKind`).
    rows : ndarray, shape (n_parts, n_features), optional
        The features, if they are in memory as well.
    """

    def __init__(
        self, bins: Thresholds, response: tuple[float, float], rows: AnyArray | None = None
    ) -> None:
        super().__init__(bins, response, rows)
        self.shard_features = BinsOfRows(bins)

    @classmethod
    def of_kind(
        cls,
        features: TrainingFeatures,
        kind: str,
        response: tuple[float, float],
        *,
        exact: bool | None,
    ) -> ShardedStumps:
        """Make the family for the parts of a kind."""
        rows = None if features.rows is None else features.rows[kind]
        return cls(features.bins(kind, exact=exact), response, rows)

    @override
    def _sums(self, duals: DualsInShards, first: int, last: int) -> FloatArray:
        return duals.sums(first, last)

    @override
    def _edges(self, learners: Sequence[Stump], duals: DualsInShards) -> FloatArray:
        edges = []
        sums = {f: duals.sums(f, f + 1) for f in {stump.feature for stump in learners}}
        for stump in learners:
            *bins, totals = sums[stump.feature]
            below = np.sum(bins[: stump.bin + 1], axis=0)
            edges.append(stump.left * below + stump.right * (totals - below))
        return np.array(edges)

    @override
    def responses(self, learners: Sequence[Stump]) -> Sequence[Stump]:
        return learners


def feature_groups(n_bins: IntArray, n_channels: int, at_least: int = 1) -> list[Group]:
    """First and last feature of each group whose histograms are in memory together.

    Without features there is one empty group.
    """
    ends = np.cumsum(n_bins) * n_channels
    total = int(ends[-1]) if len(ends) else 0
    n_groups = min(max(at_least, -(-total // _HELD_ENTRIES)), max(1, len(n_bins)))
    if not len(n_bins):
        return [(0, 0)]
    bounds = np.searchsorted(ends, np.arange(1, n_groups) * (total / n_groups))
    starts = np.unique([0, *bounds.tolist(), len(n_bins)])
    return [(int(first), int(last)) for first, last in pairwise(starts)]


@compiled
def _best_places(
    entries: tuple[IntArray, ShortArray, FloatArray],
    duals: FloatArray,
    total: float,
    low: float,
    high: float,
    edges: FloatArray,
    bins: IntArray,
    flipped: BoolArray,
) -> None:
    """Find the best split of each feature from its entries in ascending order.

    A negative row stands for all parts without an entry.  The edge is -inf if all values are equal.
    """
    starts, rows, values = entries
    for f in range(len(edges)):
        edges[f], bins[f], flipped[f] = -np.inf, 0, False
        zeros = total
        for e in range(starts[f], starts[f + 1]):
            if rows[e] >= 0:
                zeros -= duals[rows[e]]
        left, bin_ = 0.0, 0
        for e in range(starts[f], starts[f + 1] - 1):
            left += zeros if rows[e] < 0 else duals[rows[e]]
            if values[e] == values[e + 1]:
                continue
            right = total - left
            straight, turned = low * left + high * right, high * left + low * right
            edge = max(straight, turned)
            if edge > edges[f] + ROUNDING * abs(edge):
                edges[f], bins[f], flipped[f] = edge, bin_, turned > straight
            bin_ += 1


@compiled
def _add_stump_scores(
    codes: AnyArray,
    features: IntArray,
    bins: IntArray,
    sides: FloatArray,
    channels: IntArray,
    first: int,
    out: FloatArray,
) -> None:
    n_rows = out.shape[1]
    for t in range(len(features)):
        row, at_right, at_left = out[channels[t]], sides[t, 0], sides[t, 1]
        if bins[t] < 0:
            for p in range(n_rows):
                row[p] += at_right
        else:
            code = codes[features[t], first : first + n_rows]
            for p in range(n_rows):
                row[p] += at_left if code[p] <= bins[t] else at_right


@compiled
def _add_stump_products(
    codes: AnyArray,
    features: IntArray,
    bins: IntArray,
    sides: FloatArray,
    channels: IntArray,
    measure: tuple[NDArray[np.uint16], ByteArray, FloatArray, IntArray],
    first: int,
    out: FloatArray,
) -> None:
    parts, value_codes, levels, indptr = measure
    values = entry_values(value_codes, levels)
    for t in range(len(features)):
        # Looked up by the comparison: a branch that cannot be foretold takes four times as long.
        code, responses, last = codes[features[t], first:], sides[t], bins[t]
        total = 0.0
        for e in range(indptr[channels[t]], indptr[channels[t] + 1]):
            total += values[e] * responses[np.int64(np.int64(code[parts[e]]) <= last)]
        out[t] += total
