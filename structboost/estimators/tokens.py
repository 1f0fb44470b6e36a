"""Conversion of sequences of tokens and tags to inputs and outputs of the chain task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import FloatArray, IntArray, override
from structboost.estimators.token_names import TokenNames
from structboost.exceptions import warn_user
from structboost.validation import check_inputs, first_unusable, shown
from structboost.weak.active_feature import active_features


class TokenReader:
    """Reader of sequences of tokens that are arrays, sparse matrices or lists of dicts.

    Parameters
    ----------
    names : sequence of str, optional
        Names of the features, if tokens are dicts.
    n_features : int, optional
        Number of features of a token.

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
    ) -> None:
        self._names = None if names is None else TokenNames(names)
        self.n_features = n_features
        self.is_active = is_active

    @property
    def names(self) -> list[str] | None:
        """Names of the features, if tokens are dicts."""
        return None if self._names is None else self._names.names

    def fit(self, X: Sequence[Any], *, takes_active: bool) -> list[NDArray[Any]]:
        """Learn the features, and return the rows of each sequence.

        Parameters
        ----------
        X : sequence
            Sequences of tokens.
        takes_active : bool
            Whether sparse rows of zeros and ones may stay sparse.
        """
        table, lengths = self.table(X)
        self.is_active = bool(takes_active and sparse.issparse(table) and _is_binary(table))
        return self._split(table, lengths)

    def read(self, X: Sequence[Any]) -> list[NDArray[Any]]:
        """Return the rows of each sequence, with the features of training.

        Raises
        ------
        ValueError
            If tokens have another number of features than in training.
        """
        return self._split(*self.table(X))

    def table(self, X: Sequence[Any]) -> tuple[Any, IntArray]:
        """Return one table of all tokens, and the number of tokens of each sequence.

        The first call learns the features; later ones raise ValueError if tokens have another
        number of them.
        """
        check_inputs(X)
        table, lengths = self._table(X)
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

    def _split(self, table: Any, lengths: IntArray) -> list[NDArray[Any]]:
        if self.is_active:
            rows = active_features(table)
        else:
            rows = table.toarray() if sparse.issparse(table) else table
        return np.split(rows, np.cumsum(lengths)[:-1])

    def _table(self, X: Sequence[Any]) -> tuple[Any, IntArray]:
        if not len(X):
            raise ValueError("X is empty; give at least one sequence.")
        if all(is_of_dicts(x) for x in X):
            return self._vectorized(X)
        if all(sparse.issparse(x) for x in X):
            lengths = np.array([x.shape[0] for x in X])
            _check_widths([x.shape for x in X])
            table = sparse.csr_array(sparse.vstack(X, format="csr"))
        else:
            rows = [_dense(x, i) for i, x in enumerate(X)]
            _check_widths([row.shape for row in rows])
            table, lengths = np.concatenate(rows), np.array([len(row) for row in rows])
        bad = first_unusable(table, missing=False)
        if bad is not None:
            i, token = _place(bad, lengths)
            raise ValueError(
                f"X[{i}] has NaN or infinite features for token {token}; impute them, or leave the "
                "sequence out."
            )
        return table, lengths

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
            raise ValueError("X has dicts as tokens; the tagger was trained on arrays.")
        else:
            table = self._names.table(X)
        bad = np.flatnonzero(~np.isfinite(table.data))
        if len(bad):
            row = int(np.searchsorted(table.indptr, bad[0], side="right")) - 1
            i, token = _place(row, lengths)
            raise ValueError(
                f"X[{i}][{token}] has the value {table.data[bad[0]]} for "
                f"the feature {self._names.names[table.indices[bad[0]]]!r}; leave it out "
                "where it is missing."
            )
        return table, lengths


class RowsReader(TokenReader):
    """Reader of sequences that are already rows."""

    def __init__(self, is_active: bool) -> None:
        super().__init__(is_active=is_active)

    @override
    def read(self, X: Sequence[Any]) -> list[NDArray[Any]]:
        return list(X)


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
        fewer than two tags occur.
    """
    if len(y) != len(lengths):
        raise ValueError(f"X has {len(lengths)} sequences and y {len(y)}; give one for each.")
    for i, (tags, n) in enumerate(zip(y, lengths, strict=True)):
        if isinstance(tags, str) or not hasattr(tags, "__len__") or len(tags) != n:
            raise ValueError(f"y[{i}] is {shown(tags)}; give a tag for each of the {n} tokens.")
        for j, tag in enumerate(tags):
            if not isinstance(tag, str | int | float | np.generic | None):
                raise ValueError(f"y[{i}][{j}] is {shown(tag)}; give one string or number a token.")
    plain = (tag.item() if isinstance(tag, np.generic) else tag for tag in chain.from_iterable(y))
    # Data frames use NaN for a missing tag.
    flat = [None if isinstance(tag, float) and np.isnan(tag) else tag for tag in plain]
    if classes is None:
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
    if forbidden is not None and not isinstance(forbidden, Iterable):
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


def _sorted_classes(tags: set[Any]) -> NDArray[Any]:
    try:
        classes = np.array(sorted(tags))
    except TypeError:
        raise ValueError("y mixes tags of types that have no order; give strings.") from None
    if len(classes) < 2:
        raise ValueError(
            f"y has {len(classes)} different tags; a tagger needs examples of at least two."
        )
    return classes


def is_of_dicts(x: Any) -> bool:
    """Whether a sequence is a list of dicts."""
    return isinstance(x, Sequence) and all(isinstance(token, Mapping) for token in x)


def _is_binary(table: Any) -> bool:
    """Whether all entries are 0 or 1."""
    return bool(((table.data == 0) | (table.data == 1)).all())


def _dense(x: Any, i: int) -> NDArray[Any]:
    """Return the tokens of sequence ``i`` as an array of numbers, of unchecked shape."""
    wanted = "give (n_tokens, n_features) numbers, or a dict of features for each token."
    try:
        rows: NDArray[Any] = x.toarray() if sparse.issparse(x) else np.asarray(x)
    except ValueError:
        raise ValueError(f"X[{i}] is {shown(x)}, whose tokens differ in length; {wanted}") from None
    is_text = rows.dtype.kind in "US" or (rows.dtype.kind == "O" and rows.ndim > 0)
    if is_text and not (isinstance(x, np.ndarray) and rows.ndim != 2):
        raise ValueError(f"X[{i}] is {shown(x)}; {wanted}")
    return rows


def _place(row: int, lengths: IntArray) -> tuple[int, int]:
    """Return the indices of sequence and token for a row of the table of all tokens."""
    i = int(np.searchsorted(np.cumsum(lengths), row, side="right"))
    return i, row - int(lengths[:i].sum())


def _check_widths(shapes: Sequence[tuple[int, ...]]) -> None:
    """Raise ValueError unless all shapes are of tables of one width."""
    for i, shape in enumerate(shapes):
        if len(shape) != 2 or shape[1] != shapes[0][1]:
            width = shapes[0][1] if len(shapes[0]) == 2 else "n_features"
            raise ValueError(
                f"X[{i}] has shape {shape}; give (n_tokens, {width}), or a list of dicts."
            )
