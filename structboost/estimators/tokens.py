"""Conversion of sequences of tokens and tags to inputs and outputs of the chain task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import FloatArray, IntArray, override
from structboost.estimators.sequence_forms import (
    dicts_of_frame,
    is_numeric,
    listed_sequences,
    listed_tags,
    numbers_of,
    numbers_of_frame,
    sequence_of,
)
from structboost.estimators.token_names import TokenNames
from structboost.exceptions import warn_user
from structboost.validation import first_unusable, lacks_and_has, shown
from structboost.weak.active_feature import active_features

# Bytes of a table up to which sparse tokens are made dense.
_LARGEST_TABLE = 1 << 34


class TokenReader:
    """Reader of sequences of tokens that are arrays, sparse matrices or lists of dicts.

    Parameters
    ----------
    names : sequence of str, optional
        Names of the features, if tokens are dicts.
    n_features : int, optional
        Number of features of a token.
    columns : sequence of str, optional
        Names of the columns, if tokens are rows of data frames.

    Attributes
    ----------
    is_active : bool
        Whether rows hold the indices of active features
        (:func:`structboost.weak.active_feature.active_features`) instead of values.
    """

    def __init__(
        self,
        names: Sequence[str] | None = None,
        n_features: int | None = None,
        *,
        is_active: bool = False,
        columns: Sequence[str] | None = None,
    ) -> None:
        self.columns = None if columns is None else list(columns)
        self._names = None if names is None else TokenNames(names)
        self.n_features = n_features
        self.is_active = is_active

    @property
    def names(self) -> list[str] | None:
        """Names of the features, if tokens are dicts."""
        return None if self._names is None else self._names.names

    def fit(self, X: Any, *, takes_active: bool) -> list[NDArray[Any]]:
        """Learn the features, and return the rows of each sequence.

        Parameters
        ----------
        X : iterable
            Sequences of tokens.
        takes_active : bool
            Whether sparse rows of zeros and ones may stay sparse.
        """
        table, lengths = self.table(X)
        self.is_active = bool(takes_active and sparse.issparse(table) and _is_binary(table))
        if self.is_active:
            rows = active_features(table)
        else:
            self._check_size(table, lengths)
            rows = table.toarray() if sparse.issparse(table) else table
        return np.split(rows, np.cumsum(lengths)[:-1])

    def read(self, X: Any) -> tuple[Any, IntArray]:
        """Return the rows of all tokens, with the features of training, and the lengths.

        Rows are a sparse array of ones if features are active, else a sparse array or an array.

        Raises
        ------
        ValueError, TypeError
            If tokens have another number of features than in training, or another form.
        """
        table, lengths = self.table(X)
        if not self.is_active:
            return table, lengths
        table = _canonical(sparse.csr_array(table))
        if not _is_binary(table):
            bad = int(np.flatnonzero((table.data != 0) & (table.data != 1))[0])
            i, token = _place(int(np.searchsorted(table.indptr, bad, side="right")) - 1, lengths)
            column = int(table.indices[bad])
            name = column if self.names is None else repr(self.names[column])
            raise ValueError(
                f"X[{i}] has the value {table.data[bad]} for feature {name} of token {token}; the "
                "tagger was trained on features of 0 and 1 only."
            )
        return table, lengths

    def _check_size(self, table: Any, lengths: IntArray) -> None:
        """Raise ValueError if sparse tokens would be a dense table of an enormous size."""
        n_bytes = 8 * table.shape[0] * table.shape[1]
        if not sparse.issparse(table) or n_bytes <= _LARGEST_TABLE:
            return
        n_tokens, n_features = table.shape
        size = f"a dense table of {n_tokens} tokens and {n_features} features, {n_bytes >> 30} GiB"
        odd = np.flatnonzero(table.data != 1)
        if not len(odd):
            raise ValueError(
                f"X becomes {size}; write weak_learner='auto', 'stump' or 'linear', which keep "
                "tokens of zeros and ones sparse."
            )
        table = sparse.csr_array(table)
        i, token = _place(int(np.searchsorted(table.indptr, odd[0], side="right")) - 1, lengths)
        column = int(table.indices[odd[0]])
        name = column if self.names is None else repr(self.names[column])
        raise ValueError(
            f"X[{i}] has the value {table.data[odd[0]]} for feature {name} of token {token}. "
            f"Other values than 0 and 1 make X {size}.  Write such a number as a string that names "
            "its range, such as '2-4'."
        )

    def table(self, X: Any) -> tuple[Any, IntArray]:
        """Return one table of all tokens, and the number of tokens of each sequence.

        The first call learns the features; later ones raise ValueError if tokens have another
        number of them.
        """
        sequences = listed_sequences(X)
        table, lengths = self._table(sequences)
        if self.n_features is None:
            if not table.shape[1]:
                raise ValueError("X has tokens without features; give each at least one.")
            self.n_features = table.shape[1]
        elif table.shape[1] != self.n_features:
            raise ValueError(
                f"X has {table.shape[1]} features per token; the tagger was trained on "
                f"{self.n_features}."
            )
        return table, lengths

    def _table(self, given: Sequence[Any]) -> tuple[Any, IntArray]:
        X = [sequence_of(x, i) for i, x in enumerate(given)]
        frames = [i for i, x in enumerate(X) if isinstance(x, nw.DataFrame)]
        if frames:
            self._read_frames(X, frames)
        elif self.columns is not None and self._names is None:
            warn_user(
                "X has no names of features, but the tagger was trained on data frames; its "
                "columns are taken in their order.",
                UserWarning,
            )
        of_dicts = [isinstance(x, list | tuple) for x in X]
        if all(of_dicts):
            return self._vectorized(X)
        if any(is_dict and len(x) for is_dict, x in zip(of_dicts, X, strict=True)):
            first = of_dicts.index(True), of_dicts.index(False)
            raise ValueError(
                f"X[{first[0]}] has dicts or columns of text as tokens, and X[{first[1]}] is "
                f"{shown(given[first[1]])}; give all sequences in one form."
            )
        tables = {i: x for i, x in enumerate(X) if not of_dicts[i] and not _is_empty(x)}
        width = self._width(tables)
        lengths = np.array([x.shape[0] if i in tables else 0 for i, x in enumerate(X)])
        if not tables:
            table: Any = np.empty((0, width))
        elif all(sparse.issparse(x) for x in tables.values()):
            table = _canonical(sparse.csr_array(sparse.vstack([*tables.values()], format="csr")))
        else:
            table = np.concatenate([numbers_of(x, i) for i, x in tables.items()])
        bad = first_unusable(table, missing=False)
        if bad is not None:
            i, token = _place(bad, lengths)
            raise ValueError(
                f"X[{i}] has NaN or infinite features for token {token}; impute them, or leave the "
                "sequence out."
            )
        return table, lengths

    def _read_frames(self, X: list[Any], frames: Sequence[int]) -> None:
        """Replace data frames by arrays or lists of dicts, with the columns of training."""
        is_first = self.n_features is None
        as_numbers = self._names is None and all(is_numeric(X[i]) for i in frames)
        if is_first:
            self.columns = list(X[frames[0]].columns)
        elif self.columns is None and self._names is None:
            warn_user(
                "X has names of features, but the tagger was trained without; its columns are "
                "taken in their order.",
                UserWarning,
            )
        for i in frames:
            frame = X[i]
            if self.columns is not None:
                missing = [name for name in self.columns if name not in frame.columns]
                unknown = [name for name in frame.columns if name not in self.columns]
                if missing or unknown:
                    raise ValueError(
                        f"X[{i}] {lacks_and_has(missing, unknown, 'the columns ')}; give the "
                        f"columns {shown(self.columns)}, in any order."
                    )
                frame = frame.select(self.columns)
            X[i] = numbers_of_frame(frame, i) if as_numbers else dicts_of_frame(frame)

    def _width(self, tables: Mapping[int, Any]) -> int:
        """Return the number of features of tables, or raise ValueError if they differ."""
        width = self.n_features
        for i, x in tables.items():
            if len(x.shape) == 2 and width is None:
                width = x.shape[1]
            if len(x.shape) != 2 or (x.shape[1] != width and self.n_features is None):
                wanted = "n_features" if width is None else width
                raise ValueError(
                    f"X[{i}] has shape {x.shape}; give (n_tokens, {wanted}), or a list of dicts."
                )
            if x.shape[1] != width:
                raise ValueError(
                    f"X[{i}] has {x.shape[1]} features per token; the tagger was trained on "
                    f"{width}."
                )
        if width is None:
            raise ValueError("X has no tokens; give at least one sequence that has some.")
        return int(width)

    def _vectorized(self, X: Sequence[Any]) -> tuple[Any, IntArray]:
        lengths = np.array([len(x) for x in X])
        if not lengths.sum():
            if self.n_features is None:
                raise ValueError("X has no tokens; give at least one sequence that has some.")
            return sparse.csr_array((0, self.n_features)), lengths
        if self.n_features is None:
            self._names = TokenNames()
            table = self._names.learn(X)
        elif self._names is None:
            raise ValueError(
                "X has dicts or columns of text as tokens; the tagger was trained on arrays."
            )
        else:
            table = self._names.table(X)
        return _canonical(table), lengths


class RowsReader(TokenReader):
    """Reader of sequences that are already rows."""

    def __init__(self, is_active: bool) -> None:
        super().__init__(is_active=is_active)

    @override
    def read(self, X: Any) -> tuple[Any, IntArray]:
        return np.concatenate(X), np.array([len(x) for x in X])


def tag_numbers(
    y: Sequence[Any], lengths: Sequence[int], classes: NDArray[Any] | None = None
) -> tuple[NDArray[Any], list[IntArray]]:
    """Convert tags to indices, -1 for None or NaN.

    Parameters
    ----------
    y : sequence of sequences of tags
    lengths : sequence of int
        Number of tokens of each sequence.
    classes : ndarray, optional
        All tags, in ascending order.  By default, the tags that occur.

    Returns
    -------
    classes : ndarray
    indices : list of ndarray of int64

    Raises
    ------
    ValueError
        If a sequence has not one tag for each token, a tag is neither a string nor a number, or
        no tag is known.
    """
    flat = [*chain.from_iterable(listed_tags(y, lengths))]
    if classes is None:
        _check_one_type(flat, np.array(lengths))
        classes = _sorted_classes({tag for tag in flat if tag is not None})
    place: dict[Any, int] = {tag: k for k, tag in enumerate(classes.tolist())} | {None: -1}
    indices = np.array([place.get(tag, len(classes)) for tag in flat], np.int64)
    return classes, np.split(indices, np.cumsum(lengths)[:-1])


def forbidden_numbers(
    forbidden: Sequence[tuple[Any, Any]] | None, classes: NDArray[Any]
) -> list[tuple[int | None, int | None]]:
    """Convert forbidden pairs of tags to indices, without pairs whose tags never occur.

    Raises
    ------
    ValueError, TypeError
        If it is not a list of pairs.
    """
    is_list = isinstance(forbidden, Iterable) and getattr(forbidden, "ndim", 1) != 0
    if forbidden is not None and not is_list:
        raise TypeError(
            f"forbidden is {shown(forbidden)}; give a list of pairs (tag, next tag), or None."
        )
    for pair in () if forbidden is None else forbidden:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise ValueError(
                f"forbidden has {shown(pair)}; give pairs (tag, next tag), where None is the start "
                "or the end."
            )
    place: dict[Any, int | None] = {tag: k for k, tag in enumerate(classes.tolist())}
    place[None] = None
    return [(place[a], place[b]) for a, b in forbidden or () if a in place and b in place]


def warn_of_unknown_tags(
    forbidden: Sequence[tuple[Any, Any]] | None, classes: NDArray[Any]
) -> None:
    """Warn of tags in forbidden pairs that no token has, which may be misspelt."""
    tags = {None, *classes.tolist()}
    unknown = list(
        dict.fromkeys(tag for pair in forbidden or () for tag in pair if tag not in tags)
    )
    if unknown:
        warn_user(
            f"forbidden has {shown(unknown[0])}, a tag that y does not have, so its pairs do "
            f"nothing; correct it, or leave it out.  The tags of y are {shown(classes.tolist())}.",
            UserWarning,
        )


def check_allowed(
    tags: Sequence[IntArray],
    forbidden: Sequence[tuple[int | None, int | None]],
    classes: NDArray[Any],
) -> None:
    """Raise ValueError if tags, as indices, contain a forbidden pair."""
    names = {None: None} | dict(enumerate(classes.tolist()))
    pairs = set(forbidden)
    if not pairs:
        return
    for i, sequence in enumerate(tags):
        ends = [None, *sequence.tolist(), None] if len(sequence) else []
        bad = next((pair for pair in pairwise(ends) if pair in pairs), None)
        if bad is not None:
            before, after = (names[tag] for tag in bad)
            raise ValueError(
                f"y[{i}] has the pair {(before, after)!r}, which is forbidden; correct its tags, "
                "or allow the pair."
            )


def token_importances(feature: IntArray, sizes: FloatArray, n_features: int) -> FloatArray:
    """Return the fraction of the absolute weight on each feature, of single-feature learners."""
    used = feature >= 0
    sums = np.bincount(feature[used], weights=sizes[used], minlength=n_features)
    return np.asarray(sums / sums.sum() if sums.sum() > 0 else sums, np.float64)


def _check_one_type(tags: Sequence[Any], lengths: IntArray) -> None:
    """Raise ValueError if some tags are strings and others numbers."""
    known = [k for k, tag in enumerate(tags) if tag is not None]
    for k in known:
        if isinstance(tags[k], str) != isinstance(tags[known[0]], str):
            i, t = _place(k, lengths)
            raise ValueError(
                f"y[{i}][{t}] is {shown(tags[k])}, and another tag is {shown(tags[known[0]])}: "
                "strings and numbers have no order; give strings."
            )


def _sorted_classes(tags: set[Any]) -> NDArray[Any]:
    classes = np.array(sorted(tags))
    if len(set(classes.tolist())) < len(tags):
        raise ValueError(
            "y has tags that differ only in a null character at the end, which numpy drops; give "
            "other names."
        )
    if not len(classes):
        raise ValueError("y has no known tag; give the tags of some tokens.")
    return classes


def _canonical(table: sparse.csr_array) -> sparse.csr_array:
    """Return the table with each entry once and without zeros."""
    if not (table.has_canonical_format and table.data.all()):
        table = table.copy()
        table.sum_duplicates()
        table.eliminate_zeros()
    return table


def _is_binary(table: Any) -> bool:
    """Whether all entries are 0 or 1."""
    return bool(((table.data == 0) | (table.data == 1)).all())


def _place(row: int, lengths: IntArray) -> tuple[int, int]:
    """Return the indices of sequence and token for a row of the table of all tokens."""
    i = int(np.searchsorted(np.cumsum(lengths), row, side="right"))
    return i, row - int(lengths[:i].sum())


def _is_empty(x: Any) -> bool:
    """Whether a sequence is an array without tokens and without a width."""
    return isinstance(x, np.ndarray) and x.shape == (0,)
