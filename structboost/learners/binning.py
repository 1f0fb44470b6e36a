"""Features, binned once before the first round.

A split of a feature with categories sends a set of them left, which is stored as bits of integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from structboost._typing import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    RowArray,
    WordArray,
)
from structboost.contract.parts import starts_of
from structboost.errors import TaskError
from structboost.runtime.blocks import blocks_of_rows
from structboost.runtime.compiled import compiled
from structboost.validation import OrderedRows

# Numbers of 64 bits that hold a set of bins, and most categories of a feature: one bin is missing.
N_WORDS = 4
MOST_CATEGORIES = 64 * N_WORDS - 1
# Between "in the set" and "not in the set".
HALF = 0.5
# The bin of a node that splits by a set.
BY_SET = -2


@compiled
def is_in_set(words: WordArray, code: Any) -> bool:
    """Whether a bin is in a set."""
    return bool((words[code >> 6] >> np.uint64(code & 63)) & np.uint64(1) != 0)


def words_of(sets: Iterable[int]) -> WordArray:
    """Convert sets from integers of any size to words, shape (n_sets, N_WORDS)."""
    parts = b"".join(members.to_bytes(8 * N_WORDS, "little") for members in sets)
    return np.frombuffer(parts, "<u8").astype(np.uint64).reshape(-1, N_WORDS)


def numbers_of(words: WordArray) -> list[int]:
    """Convert sets of shape (n_sets, N_WORDS) to integers."""
    sets = words.astype("<u8").view(f"S{8 * N_WORDS}")
    return [int.from_bytes(members, "little") for members in sets.ravel().tolist()]


def flags_of(words: WordArray) -> BoolArray:
    """Convert sets to flags of bins, shape (n_sets, 64 * N_WORDS)."""
    parts = np.ascontiguousarray(words, "<u8").view(np.uint8)
    return np.unpackbits(parts, axis=-1, bitorder="little").astype(np.bool_)


def number_of_flags(flags: BoolArray) -> int:
    """Convert a set from flags of its first bins to one integer."""
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def for_all_categories(words: WordArray, n_bins: IntArray) -> tuple[WordArray, BoolArray]:
    """Extend sets to all bins from the last one on, which is missing, by the flag of that bin.

    Returns the words, shape (..., N_WORDS), and whether missing values are inside, shape (...).
    """
    flags, last = flags_of(words), np.minimum(n_bins, MOST_CATEGORIES + 1)[..., None] - 1
    inside = np.take_along_axis(flags, last, axis=-1)
    flags = np.where(np.arange(MOST_CATEGORIES + 1) < last, flags, inside)
    parts = np.packbits(flags, axis=-1, bitorder="little")
    return parts.view("<u8").astype(np.uint64), np.asarray(inside[..., 0])


@compiled
def category_of(value: Any) -> int:
    """Return the category that a number stands for, or the last bit of sets, which is missing."""
    if 0 <= value < MOST_CATEGORIES and np.int64(value) == value:
        return int(value)
    return MOST_CATEGORIES


MAX_BINS = 256
# Up to so many rows all thresholds cost hardly more than 255 of each feature
# (docs/decisions.md).
MOST_EXACT_ROWS = 20_000
# Above all numbers, and below what is missing.
ABOVE_ALL = float(np.finfo(np.float64).max)
# Thresholds of larger tables come from a sample of this many rows.
SAMPLED_ROWS = 1 << 18
# Entries of a sparse table that may be turned into dense bins.
MOST_CODES = 1 << 30
# A row costs three bytes in the sparse form, one in the dense.
_MIN_COMMON_SHARE = 0.3


class Thresholds(NamedTuple):
    """Thresholds between the bins of each column, one for each feature without missing values.

    A feature with missing values (NaN) in training has two columns.  In the first they are above
    all numbers, in a separate bin.  In the second they share the bin of the smallest numbers.  So a
    split can send them to either side.

    Parameters
    ----------
    values : ndarray of float64
        Ascending for each column.
    indptr : ndarray of int64, shape (n_columns + 1,)
        Thresholds of column j are ``values[indptr[j]:indptr[j + 1]]``.
    feature : ndarray of int64, shape (n_columns,)
        Feature of each column, in ascending order.
    thinned : ndarray of bool, shape (n_columns,), optional
        Columns whose distinct training values may share bins.  None means any.
    """

    values: FloatArray
    indptr: IntArray
    feature: IntArray
    thinned: BoolArray | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.feature)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.feature.max(initial=-1)) + 1

    @property
    def is_low(self) -> BoolArray:
        """Flags of the columns whose missing values are below all thresholds."""
        return np.asarray(np.diff(self.feature, prepend=-1) == 0)

    @property
    def is_apart(self) -> BoolArray:
        """Flags of the columns whose last bin holds missing values only."""
        # The column with low missing values follows that with high ones.
        return np.roll(self.is_low, -1)

    @property
    def n_bins(self) -> IntArray:
        """Number of bins of each column."""
        return np.diff(self.indptr) + 1

    @property
    def searches_all(self) -> bool:
        """Whether all distinct training values are in different bins."""
        return self.thinned is not None and not self.thinned.any()


class RareRows(NamedTuple):
    """Rows outside the commonest bin of a feature in a block, which histograms visit.

    Parameters
    ----------
    common : ndarray of int64, shape (n_blocks, n_features)
        The commonest bin, or -1 if so few rows of the block share it that the feature stays dense
        in it.
    indptr : ndarray of int64, shape (n_blocks * n_features + 1,)
    rows : ndarray of uint16
        Rows of feature f in block b, counted from the first of the block, at ``indptr[b *
        n_features + f]`` and on, ascending, and none if it is dense.
    codes : ndarray
        Their bins.
    """

    common: IntArray
    indptr: IntArray
    rows: RowArray
    codes: AnyArray


@dataclass(frozen=True)
class BinnedFeatures:
    """Bin codes of a feature table, and the thresholds between the bins.

    Parameters
    ----------
    codes : ndarray of uint8, uint16 or uint32, shape (n_columns, n_rows)
        ``codes[j, p] <= b`` exactly where ``features[p, f] <= thresholds[indptr[j] + b]``, if
        column j reads feature f.
    bins : Thresholds
    blocks : ndarray of int64, shape (n_blocks + 1,)
        First row of each block, and the number of rows.
    """

    codes: AnyArray
    bins: Thresholds
    blocks: IntArray

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.codes.shape[1])

    @cached_property
    def rare(self) -> RareRows:
        """Sparse form of the columns with a bin that is common enough, block by block."""
        common = np.full((len(self.blocks) - 1, len(self.codes)), -1, np.int64)
        sizes, rows, outside = [0], [np.zeros(0, np.uint16)], [np.zeros(0, self.codes.dtype)]
        for block, (a, b) in enumerate(pairwise(self.blocks.tolist())):
            for f, code in enumerate(self.codes[:, a:b]):
                counts = np.bincount(code, minlength=1)
                most = int(counts.argmax())
                sizes.append(0)
                if counts[most] >= max(1.0, _MIN_COMMON_SHARE * (b - a)):
                    common[block, f] = most
                    rare = np.flatnonzero(code != most)
                    sizes[-1] = len(rare)
                    rows.append(rare.astype(np.uint16))
                    outside.append(code[rare])
        return RareRows(common, np.cumsum(sizes), np.concatenate(rows), np.concatenate(outside))

    @cached_property
    def distinct_rows(self) -> tuple[IntArray, int]:
        """Index of the distinct codes of each row, and how many there are."""
        hashes, groups = np.unique(_row_hashes(self.codes), return_inverse=True)
        return groups, len(hashes)


def _row_hashes(codes: AnyArray) -> WordArray:
    """Hash each row, with one hash for equal rows, by steps of splitmix64."""
    out = np.zeros(codes.shape[1], np.uint64)
    for code in codes:
        z = (out ^ code) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        out = z ^ (z >> np.uint64(31))
    return out


class BinsOfOneTable:
    """Bins of one table at a time, for the families that a fit makes of it in turn.

    The table must not change in between.
    """

    def __init__(self) -> None:
        self.forget()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forget(self) -> None:
        """Drop the table and its bins."""
        self._of: tuple[Any, dict[str, Any]] = None, {}
        self._binned: BinnedFeatures | None = None

    def rows_of_each(self, counts: IntArray | None = None) -> float:
        """Return how many rows each row of distinct bins stands for on average, 0 without a table.

        ``counts`` are the numbers of rows that those of the table stand for, by default one.
        """
        if self._binned is None:
            return 0.0
        n_rows = self._binned.n_rows if counts is None else int(counts.sum())
        return n_rows / self._binned.distinct_rows[1]

    def __call__(self, features: Any, **options: Any) -> BinnedFeatures:
        """Return what :func:`bin_features` does."""
        table, of_options = self._of
        if self._binned is None or table is not features or of_options != options:
            self._of, self._binned = (features, options), bin_features(features, **options)
        return self._binned


def bin_features(
    features: Any,
    *,
    exact: bool | None = False,
    categorical: Sequence[int] = (),
    max_bins: int = MAX_BINS,
) -> BinnedFeatures:
    """Bin each feature between its distinct values (:func:`bin_thresholds`).

    The codes of a sparse table are dense: a byte for each entry as a rule.  TaskError, which names
    the row and the feature, if a feature is infinite, or if the codes of a sparse table would take
    more than a gigabyte.
    """
    n_rows = features.shape[0]
    if sparse.issparse(features):
        if n_rows * features.shape[1] > MOST_CODES:
            raise TaskError(
                f"features is a sparse table of {n_rows} rows and {features.shape[1]} columns, "
                f"whose bins would take more than {MOST_CODES >> 30} GB; leave out columns, or "
                "take weak_learner='stump', which visits what is not 0."
            )
        features = sparse.csc_array(features)
        features.sum_duplicates()
    bins = bin_thresholds(features, exact=exact, categorical=categorical, max_bins=max_bins)
    if isinstance(features, OrderedRows):
        codes = bin_codes(features.table, bins).take(features.order, axis=1)
    else:
        codes = bin_codes(features, bins)
    return BinnedFeatures(codes, bins, blocks_of_rows(n_rows))


def bin_thresholds(
    features: Any,
    *,
    exact: bool | None = False,
    categorical: Sequence[int] = (),
    max_bins: int = MAX_BINS,
) -> Thresholds:
    """Thresholds between the distinct values of each feature.

    A feature with at most ``max_bins`` (256) distinct values gets a bin for each.  Other features
    get 256 bins of about equal count: threshold k = 1, ..., 255 lies above the smallest value v for
    which at least k/256 of the rows have a value of at most v; equal thresholds are merged.  With
    ``exact`` every distinct value gets a bin.  A table of more than `SAMPLED_ROWS` rows is sampled
    by :func:`sampled_rows`, unless ``exact``.  Missing values have no rank.  Where there are some,
    a feature has one bin of numbers less, and two columns (:class:`Thresholds`).

    Parameters
    ----------
    features : ndarray or sparse array by columns, shape (n_rows, n_features)
        Finite, or missing (NaN).
    exact : bool or None
        Whether to keep all thresholds.  None means: of at most 20,000 rows.
    categorical : sequence of int
        Features that hold numbers of categories, from 0.  Each category has a bin, and
        missing values the last.
    max_bins : int
        Most bins of a feature of numbers, unless ``exact``.

    Raises
    ------
    TaskError
        If a feature is infinite, or holds no categories.
    """
    n_rows = features.shape[0]
    if exact is None:
        exact = n_rows <= MOST_EXACT_ROWS
    sampled = not exact and n_rows > SAMPLED_ROWS
    if sampled:
        features = features[sampled_rows(n_rows, SAMPLED_ROWS)]
    of_columns: list[FloatArray] = []
    thinned: list[bool] = []
    feature: list[int] = []
    for f in range(features.shape[1]):
        distinct, counts = _distinct_values(features, f)
        has_gaps = len(distinct) > 1 and bool(np.isnan(distinct[-1]))
        if has_gaps:
            distinct, counts = distinct[:-1], counts[:-1]
        if len(distinct) and np.isinf(distinct[[0, -1]]).any():
            _raise_infinite(_column(features, f), f)
        if f in categorical:
            distinct, has_gaps = _categories(distinct, f), False
            cuts = distinct + HALF
        else:
            cuts = _thresholds(distinct, counts, max(1, max_bins - has_gaps), exact=exact)
        of_columns += [np.append(cuts, ABOVE_ALL), cuts] if has_gaps else [cuts]
        n_columns = 1 + has_gaps
        thinned += [sampled or len(cuts) < len(distinct) - 1] * n_columns
        feature += [f] * n_columns
    sizes = [len(thresholds) for thresholds in of_columns]
    flat = np.concatenate(of_columns) if of_columns else np.zeros(0)
    indptr = starts_of(sizes)
    return Thresholds(flat, indptr, np.array(feature, np.int64), np.array(thinned, np.bool_))


def _column(features: Any, f: int) -> FloatArray:
    """Values of a feature, from a table or from a sparse array by columns."""
    if not sparse.issparse(features):
        return np.asarray(features[:, f].astype(np.float64))
    column = np.zeros(features.shape[0])
    begin, end = features.indptr[f], features.indptr[f + 1]
    column[features.indices[begin:end]] = features.data[begin:end]
    return column


def _distinct_values(features: Any, f: int) -> tuple[FloatArray, IntArray]:
    """Distinct values of a feature, ascending with NaN last, and their counts."""
    if not sparse.issparse(features):
        distinct, counts = np.unique(features[:, f], return_counts=True)
        return distinct.astype(np.float64), counts
    stored = features.data[features.indptr[f] : features.indptr[f + 1]]
    stored = stored[stored != 0].astype(np.float64)
    n_zeros = features.shape[0] - len(stored)
    distinct, counts = np.unique(stored, return_counts=True)
    if n_zeros:
        place = int(distinct.searchsorted(0.0))
        distinct = np.concatenate((distinct[:place], [0.0], distinct[place:]))
        counts = np.concatenate((counts[:place], [n_zeros], counts[place:]))
    return distinct, counts


def sampled_rows(n_rows: int, n: int) -> IntArray:
    """Ascending sample of ``n`` of ``n_rows`` rows, one from each stretch of equal length."""
    starts = np.arange(n + 1) * n_rows // n
    within = np.random.RandomState(0).random_sample(n)
    return np.asarray(starts[:-1] + (within * np.diff(starts)).astype(np.int64))


def bin_codes(features: Any, bins: Thresholds) -> AnyArray:
    """Bin of every value, shape (n_columns, n_rows).

    Missing values are in the last bin, except in the columns where they are low.  An infinite
    feature raises TaskError.
    """
    codes = np.empty((bins.n_columns, features.shape[0]), dtype=code_dtype(bins))
    for j, (f, is_low) in enumerate(zip(bins.feature.tolist(), bins.is_low, strict=True)):
        column = _column(features, f)
        if np.isinf(column).any():
            _raise_infinite(column, f)
        of_column = bins.values[bins.indptr[j] : bins.indptr[j + 1]]
        n_steps = len(of_column).bit_length()
        padded = np.full(1 << n_steps, np.inf)
        padded[: len(of_column)] = of_column
        _fill_codes(column, padded, n_steps, 0 if is_low else len(of_column), codes[j])
    return codes


@compiled
def _fill_codes(
    column: FloatArray, thresholds: FloatArray, n_steps: int, of_missing: int, codes: AnyArray
) -> None:
    """Count the thresholds below each value, out of 2^n_steps that are padded with infinity.

    The search has no branches, since a processor could not predict them.
    """
    for i in range(len(column)):
        value, code = column[i], np.int64(0)
        for step in range(n_steps - 1, -1, -1):
            is_above = thresholds[code + (np.int64(1) << step) - 1] < value
            code += np.int64(is_above) << step
        codes[i] = of_missing if math.isnan(value) else code


def _categories(distinct: FloatArray, f: int) -> FloatArray:
    """Categories of a feature, the integers from 0 to the largest that occurs."""
    present = distinct[~np.isnan(distinct)]
    if len(present) and (present[0] < 0 or present[-1] >= MOST_CATEGORIES or (present % 1).any()):
        raise TaskError(
            f"Feature {f} is categorical and holds values such as {present[-1]:g}; give numbers of "
            f"categories from 0 to {MOST_CATEGORIES - 1}, or leave it out of the categorical ones."
        )
    return np.arange(0 if not len(present) else present[-1] + 1)


def _raise_infinite(column: AnyArray, f: int) -> None:
    """Raise for the first infinite value of a feature."""
    bad = int(np.flatnonzero(np.isinf(column))[0])
    raise TaskError(
        f"Feature {f} of part {bad} is infinite in features; replace it, or make it NaN: missing."
    )


def code_dtype(bins: Thresholds) -> np.dtype[Any]:
    """Smallest unsigned type that holds the bins of all features."""
    return np.min_scalar_type(int(bins.n_bins.max(initial=1)) - 1)


def _thresholds(
    distinct: FloatArray, counts: IntArray, most_bins: int, *, exact: bool
) -> FloatArray:
    """Thresholds between neighbouring distinct values, thinned to quantiles if too many."""
    lower, upper = distinct[:-1], distinct[1:]
    with np.errstate(over="ignore"):
        middle = lower + 0.5 * (upper - lower)
    # Between neighbouring floats the middle may round up to the upper value, which must stay right
    # of it.  Where the difference is infinite, the lower value is a threshold as good.
    middle = np.where(middle < upper, middle, lower)
    if exact or len(distinct) <= most_bins:
        return middle
    at_or_below = np.cumsum(counts)[:-1]
    wanted = np.arange(1, most_bins) * (counts.sum() / most_bins)
    chosen = np.unique(np.minimum(np.searchsorted(at_or_below, wanted), len(middle) - 1))
    return np.asarray(middle[chosen])
