"""Decision stumps, on features in memory, on sparse ones, and on features in shards.

Sets of categories are the stumps of categorical features.  The other three families differ in what
they search: histograms of the bins of features in memory, sums of such histograms that shards send,
or the entries of a sparse table in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from structboost._typing import (
    AnyArray,
    BoolArray,
    ByteArray,
    FloatArray,
    IntArray,
    Range,
    RowArray,
    WordArray,
    override,
)
from structboost.contract.parts import starts_of
from structboost.files.archive import Array, DamagedFileError, whole_number
from structboost.learners.base import (
    Candidate,
    Group,
    TrainingFeatures,
    WeakLearnerFamily,
    best_edges,
    best_first,
    best_on_channels,
    largest_norms,
    ranked,
    response_type,
    with_constant,
)
from structboost.learners.binning import (
    HALF,
    N_WORDS,
    BinnedFeatures,
    Thresholds,
    bin_features,
    flags_of,
    for_all_categories,
    number_of_flags,
    words_of,
)
from structboost.learners.histogram import best_shared_splits, best_splits, histograms
from structboost.learners.responses import (
    BlockMeasure,
    DualsInShards,
    FeaturesOfRows,
    ResponsesInShard,
    entry_values,
)
from structboost.learners.table import LookupTable, ScoredTable, StumpTable, shares_of_one
from structboost.learners.terms import Terms
from structboost.runtime.compiled import compiled


class CategorySet(NamedTuple):
    """Learner with the larger response on a set of bins, stored as bits of an integer."""

    feature: int
    members: int


@dataclass(frozen=True)
class CategoryTable(ScoredTable):
    """Table of sets of categories, as bits.

    ``missing_inside`` is whether missing values, and categories that are not in training, count as
    in the set.
    """

    schema = {
        "feature": Array("int64", ("n_learners",), low=0, high="n_features - 1"),
        "sets": Array("uint64", ("n_learners", N_WORDS)),
        "missing_inside": Array("uint8", ("n_learners",), high=1),
        "inside": Array("float64", ("n_learners",)),
        "outside": Array("float64", ("n_learners",)),
    }
    takes_missing = True

    feature: IntArray
    sets: WordArray
    missing_inside: ByteArray
    inside: FloatArray
    outside: FloatArray

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        return shares_of_one(self.feature, n_features)

    @override
    def scorer(self, weights: FloatArray, n_features: int) -> LookupTable:
        used, place = np.unique(self.feature, return_inverse=True)
        is_inside = flags_of(self.sets)
        n_bins = is_inside.shape[1]
        responses = np.where(is_inside, self.inside[:, None], self.outside[:, None])
        values = np.zeros((len(used), n_bins, weights.shape[1]))
        missing = np.zeros((len(used), weights.shape[1]))
        of_missing = np.where(self.missing_inside > 0, self.inside, self.outside)
        np.add.at(values, place, responses[:, :, None] * weights[:, None])
        np.add.at(missing, place, of_missing[:, None] * weights)
        thresholds = np.tile(np.arange(n_bins - 1) + HALF, len(used))
        return LookupTable(
            np.zeros(weights.shape[1]), used.astype(np.int64), thresholds,
            np.arange(len(used) + 1, dtype=np.int64) * (n_bins - 1),
            values.reshape(len(used) * n_bins, weights.shape[1]), n_features, missing,
        )  # fmt: skip


class CategoryFamily(WeakLearnerFamily):
    """Family of all sets of categories of each categorical feature.

    The edge of a set is a sum over its categories, so the best set of a channel holds the
    categories whose duals have a positive sum, and pricing is exact.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
        Features of the training parts.
    response : (float, float)
        The two responses.
    categorical : sequence of int
        Features that hold numbers of categories, from 0 to 254.
    """

    name = "category"
    exact_pricing = True
    can_resume = True
    takes_missing = True

    def __init__(
        self, features: AnyArray, response: Range, *, categorical: Sequence[int] = ()
    ) -> None:
        self.n_features = features.shape[1]
        self.categorical = np.array(categorical, np.int64)
        of_categories = features[:, self.categorical]
        self.binned = bin_features(of_categories, categorical=range(len(self.categorical)))
        self.low, self.high = response
        self._ends = starts_of(self.binned.bins.n_bins)

    @override
    def price(self, duals: FloatArray, per_channel: int) -> list[Candidate]:
        sums = histograms(self.binned, duals, 0, len(self.categorical))
        totals, inside = sums[-1], sums[:-1] > 0
        gains = np.add.reduceat(np.maximum(sums[:-1], 0.0), self._ends[:-1], axis=0)
        edges = self.low * totals + (self.high - self.low) * gains

        def learner(j: int, c: int) -> CategorySet:
            members = number_of_flags(inside[self._ends[j] : self._ends[j + 1], c])
            return CategorySet(int(self.categorical[j]), members)

        return best_on_channels(edges, per_channel, learner)

    @override
    def ways(self, learner: CategorySet) -> Sequence[CategorySet]:
        every = 2 ** int(self.binned.bins.n_bins[self._column(learner)]) - 1
        return [learner, learner._replace(members=learner.members ^ every)]

    @override
    def restored(self, values: Sequence[Any]) -> CategorySet:
        category_set = CategorySet(*values)
        if category_set.feature not in self.categorical.tolist():
            raise DamagedFileError(f"feature {category_set.feature!r} has no categories")
        n_bins = int(self.binned.bins.n_bins[self._column(category_set)])
        whole_number(category_set.members, "set", 0, 2**n_bins - 1)
        return category_set

    @override
    def responses(self, learners: Sequence[CategorySet]) -> AnyArray:
        out = np.empty((len(learners), self.binned.n_rows), response_type(self.low, self.high))
        inside = flags_of(words_of(learner.members for learner in learners))
        for k, learner in enumerate(learners):
            is_inside = inside[k][self.binned.codes[self._column(learner)]]
            out[k] = np.where(is_inside, self.high, self.low)
        return out

    @override
    def table(self, learners: Sequence[CategorySet]) -> CategoryTable:
        words = words_of(learner.members for learner in learners)
        columns = np.array([self._column(learner) for learner in learners], np.int64)
        words, is_missing = for_all_categories(words, self.binned.bins.n_bins[columns])
        n = len(learners)
        return CategoryTable(
            self.categorical[columns], words, is_missing.astype(np.uint8),
            np.full(n, float(self.high)), np.full(n, float(self.low)),
        )  # fmt: skip

    def _column(self, learner: CategorySet) -> int:
        return int(np.searchsorted(self.categorical, learner.feature))


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

    def __init__(self, bins: Thresholds, response: Range, rows: AnyArray | None = None) -> None:
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
        if self.rows is None or self.searches_all:
            return super().widest_edges(duals)
        bins, weights = self.bins, duals if isinstance(duals, np.ndarray) else duals.gathered()
        active = np.flatnonzero(weights.any(axis=1))
        weights, widest = weights[active], best_edges(self.price(duals, 1), duals.shape[1])
        thinned = np.ones(bins.n_columns, bool) if bins.thinned is None else bins.thinned
        for j in np.flatnonzero(thinned).tolist():
            values = self.rows[active, bins.feature[j]]
            beyond = -np.inf if bins.is_low[j] else np.inf
            codes = np.unique(np.where(np.isnan(values), beyond, values), return_inverse=True)[1]
            sums = [np.bincount(codes, of_channel) for of_channel in weights.T]
            edges, _ = self._edges_of_cuts(j, np.vstack((np.transpose(sums), weights.sum(axis=0))))
            np.maximum(widest, edges.max(axis=0, initial=-np.inf), out=widest)
        return widest

    def sums(self, duals: Any, first: int, last: int) -> FloatArray:
        """Histograms of some columns, as :func:`structboost.learners.histogram.histograms`."""
        raise NotImplementedError

    def search(
        self, duals: Any, kernel: Callable[..., None], arrays: tuple[AnyArray, ...]
    ) -> FloatArray:
        """Fill arrays, a row for each column, by a kernel such as `best_splits`.

        Returns the sums of the duals over all parts.
        """
        n_bins, n_channels = self.bins.n_bins, duals.shape[1]
        # Columns whose histograms are in memory together: one empty group without columns.
        ends = starts_of(n_bins) * n_channels
        n_groups = max(self.n_threads, -(-int(ends[-1]) // _HELD_ENTRIES))
        inner = ends[1:].searchsorted(np.arange(1, n_groups) * (ends[-1] / n_groups))
        bounds = np.unique([0, *inner, len(n_bins)]) if len(n_bins) else [0, 0]

        def run(first: int, last: int) -> FloatArray:
            sums, rows = self.sums(duals, first, last), slice(first, last)
            filled = (array[rows] for array in arrays)
            kernel(sums[:-1], n_bins[rows], sums[-1], self.low, self.high, *filled)
            return np.asarray(sums[-1])

        if self.n_threads == 1 or duals.shape[0] * self.n_features < _MIN_THREADED_WORK:
            return [*map(run, bounds[:-1], bounds[1:])][-1]
        with ThreadPoolExecutor(self.n_threads) as pool:
            return [*pool.map(run, bounds[:-1], bounds[1:])][-1]

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
        shape = (self.bins.n_columns, duals.shape[1])
        edges, bins, flipped = np.empty(shape), np.empty(shape, np.int64), np.empty(shape, np.bool_)
        totals = self.search(duals, best_splits, (edges, bins, flipped))
        for j in np.flatnonzero(self.directions).tolist():
            of_cuts, turned = self._edges_of_cuts(j, self.sums(duals, j, j + 1))
            if len(of_cuts):
                bins[j], edges[j] = of_cuts.argmax(axis=0), of_cuts.max(axis=0)
                flipped[j] = np.take_along_axis(turned, bins[j][None], axis=0)[0]
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
    def price_groups(self, duals: FloatArray, n_groups: int) -> list[Group]:
        if self.directions.any():
            raise ValueError(
                "Features with a direction (monotonic_cst) do not go with a pricing rule that "
                "shares stumps with weights of either sign; take pricing='own'."
            )
        n_columns = self.bins.n_columns
        norms, bins = np.empty(n_columns), np.empty(n_columns, np.int64)
        self.search(duals, best_shared_splits, (norms, bins))
        chosen = [
            self._stump(f, int(bins[f]), flip=False) for f in self._best_columns(norms, n_groups)
        ]
        candidates = [*chosen, self._stump(0, -1, flip=False)]
        return largest_norms(candidates, self.edges(candidates, duals), n_groups)

    @override
    def ways(self, learner: Stump) -> Sequence[Stump]:
        turned = learner._replace(left=learner.right, right=learner.left)
        is_free = learner.bin < 0 or not self.directions[learner.feature]
        return (learner, turned) if is_free else (learner,)

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
        response: Range,
        *,
        exact: bool | None = None,
        n_threads: int = 1,
        directions: Sequence[int] | None = None,
    ) -> None:
        self.binned = bin_features(features, exact=exact)
        super().__init__(self.binned.bins, response, features)
        if directions is not None:
            self.directions = np.array(directions, np.int8)[self.bins.feature]
        self.n_threads = n_threads

    @override
    def sums(self, duals: FloatArray, first: int, last: int) -> FloatArray:
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
    takes_sparse = True

    def __init__(self, features: Any, response: Range) -> None:
        self.n_parts, n_features = features.shape
        self._columns = columns = sparse.csc_array(features)
        columns.sum_duplicates()
        columns.eliminate_zeros()
        counts = np.diff(columns.indptr)
        # One entry, of no row, stands for all zeros of a feature, if it has any.
        self._with_zeros = np.flatnonzero(counts < max(1, self.n_parts))
        every = np.arange(n_features, dtype=np.int32)
        owner = np.append(np.repeat(every, counts), every[self._with_zeros])
        values = np.append(columns.data, np.zeros(len(self._with_zeros))).astype(np.float64)
        rows = np.append(columns.indices, np.full(len(self._with_zeros), -1)).astype(np.int32)
        order = np.lexsort((values, owner))
        owner, values, rows = owner[order], values[order], rows[order]
        is_first = np.diff(owner, prepend=-1) > 0
        begins_bin = is_first | (values > np.append(0.0, values[:-1]))
        at = np.flatnonzero(begins_bin & ~is_first)
        lower, upper = values[at - 1], values[at]
        with np.errstate(over="ignore"):
            middle = lower + 0.5 * (upper - lower)
        cuts = np.where(middle < upper, middle, lower)
        ends = np.searchsorted(owner[at], np.arange(n_features + 1))
        bin_of, has_row = np.cumsum(begins_bin) - 1, rows >= 0
        self._bins_of_zeros = bin_of[~has_row]
        n_bins = len(at) + n_features
        indptr = np.searchsorted(bin_of[has_row], np.arange(n_bins + 1))
        # Row b: the parts in bin b of all features.
        entries = np.ones(indptr[-1]), rows[has_row], indptr
        self._parts_of = sparse.csr_array(entries, (n_bins, self.n_parts))
        thinned = np.zeros(n_features, np.bool_)
        super().__init__(Thresholds(cuts, ends, every.astype(np.int64), thinned), response)

    @override
    def sums(self, duals: FloatArray, first: int, last: int) -> FloatArray:
        starts = self.bins.indptr[first : last + 1] + np.arange(first, last + 1)
        out = np.empty((starts[-1] - starts[0] + 1, duals.shape[1]))
        is_whole = len(out) > self._parts_of.shape[0]
        parts_of = self._parts_of if is_whole else self._parts_of[starts[0] : starts[-1]]
        out[:-1] = parts_of @ duals
        out[-1] = duals.sum(axis=0)
        if first < last:
            zeros = slice(*self._with_zeros.searchsorted((first, last)))
            others = np.add.reduceat(out[:-1], starts[:-1] - starts[0], axis=0)
            at = self._bins_of_zeros[zeros] - starts[0]
            out[at] += out[-1] - others[self._with_zeros[zeros] - first]
        return out

    @override
    def responses(self, learners: Sequence[Stump]) -> AnyArray:
        out = np.empty((len(learners), self.n_parts), response_type(self.low, self.high))
        for k, stump in enumerate(learners):
            out[k] = stump.left if stump.threshold >= 0 else stump.right
            entries = slice(*self._columns.indptr[stump.feature : stump.feature + 2])
            below = self._columns.data[entries] <= stump.threshold
            out[k, self._columns.indices[entries]] = np.where(below, stump.left, stump.right)
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
        return StumpResponses(BinnedFeatures(features.codes(self.bins), self.bins, starts))


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

    def __init__(self, bins: Thresholds, response: Range, rows: AnyArray | None = None) -> None:
        super().__init__(bins, response, rows)
        self.shard_features = BinsOfRows(bins)

    @classmethod
    def of_kind(
        cls, features: TrainingFeatures, kind: str, response: Range, *, exact: bool | None
    ) -> ShardedStumps:
        """Make the family for the parts of a kind."""
        rows = None if features.rows is None else features.rows[kind]
        return cls(features.bins(kind, exact=exact), response, rows)

    @override
    def sums(self, duals: DualsInShards, first: int, last: int) -> FloatArray:
        return duals.sums(first, last)

    @override
    def edges(self, learners: Sequence[Stump], duals: DualsInShards) -> FloatArray:
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
    measure: tuple[RowArray, ByteArray, FloatArray, IntArray],
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
