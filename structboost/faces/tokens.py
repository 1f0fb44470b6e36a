"""Conversion of sequences of tokens and tags to inputs and outputs of the chain task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Self

import narwhals as nw
import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, FloatArray, IntArray, override
from structboost.errors import warn_user
from structboost.faces.base import saved_indices, saved_names
from structboost.faces.forms import (
    dicts_of_frame,
    is_numeric,
    listed_sequences,
    listed_tags,
    numbers_of,
    numbers_of_frame,
    sequence_of,
)
from structboost.faces.token_names import (
    KnownFeatures,
    TokenNames,
    TokenTable,
    canonical,
    is_binary,
)
from structboost.files.archive import finite_number, whole_number
from structboost.learners.active_feature import active_features
from structboost.tasks.chain import Stretch
from structboost.validation import first_unusable, lacks_and_has, shown

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
    vector_columns : ndarray of int64, optional
        Indices of the features that are columns of vectors, by default none.
    shortest_vectors : dict of str to int, optional
        As for :class:`structboost.faces.token_names.TokenNames`.
    known_features : KnownFeatures, optional
        Features that distinguish tokens, by default all.

    Attributes
    ----------
    is_active : bool
        Whether rows hold the indices of active features
        (:func:`structboost.learners.active_feature.active_features`) instead of values.  Features
        with other values than 0 and 1 are columns of vectors beside these rows.
    """

    def __init__(
        self,
        names: Sequence[str] | None = None,
        n_features: int | None = None,
        *,
        is_active: bool = False,
        columns: Sequence[str] | None = None,
        vector_columns: IntArray | None = None,
        shortest_vectors: Mapping[str, int] | None = None,
        known_features: KnownFeatures | None = None,
    ) -> None:
        self.known_features = known_features or KnownFeatures(np.zeros(0, np.int64), 1.0)
        self.columns = None if columns is None else list(columns)
        self._names = None if names is None else TokenNames(names, shortest_vectors)
        self.n_features = n_features
        self.is_active = is_active
        self.vector_columns = np.zeros(0, np.int64) if vector_columns is None else vector_columns

    def to_plain(self) -> dict[str, Any]:
        """Return the features as plain values of a model file."""
        return {
            "names": self.names,
            "n_features": self.n_features,
            "is_active": self.is_active,
            "columns": self.columns,
            "vector_columns": self.vector_columns.tolist(),
            "shortest_vectors": self.shortest_vectors,
            "uninformative": self.known_features.uninformative.tolist(),
            "bare": self.known_features.bare,
        }

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Self:
        """Restore a reader from plain values of a file.

        DamagedFileError if the values do not belong together.
        """
        width = whole_number(values["n_features"], "number of features", low=1)
        columns = values["columns"]
        return cls(
            saved_names(values["names"], width),
            width,
            is_active=values["is_active"] is True,
            columns=None if columns is None else saved_names(columns, len(columns)),
            vector_columns=saved_indices(values["vector_columns"], width),
            shortest_vectors={
                name: whole_number(length, "length of a vector", low=1)
                for name, length in dict(values["shortest_vectors"]).items()
            },
            known_features=KnownFeatures(
                saved_indices(values["uninformative"], width),
                finite_number(values["bare"], "fraction of bare tokens"),
            ),
        )

    @property
    def names(self) -> list[str] | None:
        """Names of the features, if tokens are dicts."""
        return None if self._names is None else self._names.names

    @property
    def shortest_vectors(self) -> dict[str, int]:
        """Lengths of the shortest vectors of training, where they are not all of one length."""
        return {} if self._names is None else self._names.shortest

    def fit(self, X: Any, *, takes_active: bool) -> list[Any]:
        """Learn the features, and return the rows of each sequence.

        They are a pair of rows of active features and vectors if there are both.

        Parameters
        ----------
        X : iterable
            Sequences of tokens.
        takes_active : bool
            Whether names of sparse tokens may stay sparse.
        """
        table, lengths = self._checked_table(X)
        ends = np.cumsum(lengths)[:-1]
        if isinstance(table, TokenTable) and takes_active:
            numeric = table.numeric_columns()
            self.is_active = len(numeric) < table.shape[1]
            if self.is_active:
                self._check_size(table, len(numeric), numeric, lengths)
                self.vector_columns = numeric
                entries, vectors = table.parted(numeric)
                rows = np.split(active_features(entries), ends)
                if not len(numeric):
                    return rows
                return [*zip(rows, np.split(vectors, ends), strict=True)]
        if isinstance(table, TokenTable):
            self._check_size(table, table.shape[1], table.numeric_columns(), lengths)
            table = table.whole().toarray()
        return np.split(table, ends)

    def read(self, X: Any) -> tuple[Any, FloatArray | None, IntArray]:
        """Return the rows and the vectors of all tokens, and the number of tokens of each sequence.

        Rows are a sparse array of ones if features are active, else a sparse array or an array.
        Vectors are None if there are none.

        Raises
        ------
        ValueError, TypeError
            If tokens have another number of features than in training, or another form.
        """
        table, lengths = self._checked_table(X)
        if not self.is_active:
            return table.whole() if isinstance(table, TokenTable) else table, None, lengths
        if not isinstance(table, TokenTable):
            table = TokenTable(sparse.csr_array(table))
        rows, vectors = table.parted(self.vector_columns)
        if not is_binary(rows):
            bad = int(np.flatnonzero((rows.data != 0) & (rows.data != 1))[0])
            i, token = _place(int(np.searchsorted(rows.indptr, bad, side="right")) - 1, lengths)
            raise ValueError(
                f"X[{i}] has the value {rows.data[bad]} for feature "
                f"{self.name_of(int(rows.indices[bad]))} of token {token}; it was 0 or 1 in all "
                "training, and may be nothing else now."
            )
        return rows, vectors if len(self.vector_columns) else None, lengths

    def name_of(self, column: int) -> str:
        """Return the name of a feature, or its index."""
        return str(column) if self.names is None else repr(self.names[column])

    def _check_size(
        self, table: TokenTable, n_dense: int, numeric: IntArray, lengths: IntArray
    ) -> None:
        """Raise ValueError if features would be a dense table of an enormous size."""
        n_tokens = table.shape[0]
        n_bytes = 8 * n_tokens * n_dense
        if n_bytes <= _LARGEST_TABLE:
            return
        size = f"a dense table of {n_tokens} tokens and {n_dense} features, {n_bytes >> 30} GiB"
        if n_dense > len(numeric):
            raise ValueError(
                f"X becomes {size}; write weak_learner='auto', 'stump' or 'linear', which keep "
                "features of zeros and ones sparse."
            )
        names = ", ".join(self.name_of(int(column)) for column in numeric[:3])
        raise ValueError(
            f"X has features of other values than 0 and 1, such as {names}, which become {size}.  "
            "Write such numbers as strings that name their ranges, such as '2-4', or leave some."
        )

    def table(self, X: Any) -> tuple[Any, IntArray]:
        """Return one table of all tokens, an array or a sparse array, and their lengths.

        Raises
        ------
        ValueError, TypeError
            As :meth:`read` does.
        """
        table, lengths = self._checked_table(X)
        return table.whole() if isinstance(table, TokenTable) else table, lengths

    def _checked_table(self, X: Any) -> tuple[Any, IntArray]:
        """Return a TokenTable or an array, and the number of tokens of each sequence.

        The first call learns the features; later ones raise ValueError if tokens have another
        number of them, and warn if tokens have nothing that training had.
        """
        sequences = listed_sequences(X)
        table, lengths, tokens = self._table(sequences)
        if self.n_features is None:
            if not table.shape[1]:
                raise ValueError("X has tokens without features; give each at least one.")
            self.n_features, self.known_features = table.shape[1], KnownFeatures.of(table)
        elif table.shape[1] != self.n_features:
            raise ValueError(
                f"X has {table.shape[1]} features per token; the tagger was trained on "
                f"{self.n_features}."
            )
        else:
            self.known_features.warn(table, lengths, tokens, self._names)
        return table, lengths

    def _table(self, sequences: Sequence[Any]) -> tuple[Any, IntArray, Sequence[Any] | None]:
        """Return the table of all tokens, their numbers in each sequence, and tokens of dicts."""
        X = [sequence_of(x, i) for i, x in enumerate(sequences)]
        frames = [i for i, x in enumerate(X) if isinstance(x, nw.DataFrame)]
        if frames:
            self._read_frames(X, frames)
        elif self._names is not None and not all(isinstance(x, list | tuple) for x in X):
            warn_user(
                "X has no names of features, but the tagger was trained on dicts; its columns are "
                "taken in the order of feature_names_.",
                UserWarning,
            )
        elif self.columns is not None and self._names is None:
            warn_user(
                "X has no names of features, but the tagger was trained on data frames; its "
                "columns are taken in their order.",
                UserWarning,
            )
        of_dicts = [isinstance(x, list | tuple) for x in X]
        if all(of_dicts):
            return *self._vectorized(X), X
        if any(is_dict and len(x) for is_dict, x in zip(of_dicts, X, strict=True)):
            first = of_dicts.index(True), of_dicts.index(False)
            raise ValueError(
                f"X[{first[0]}] has dicts or columns of text as tokens, and X[{first[1]}] is "
                f"{shown(sequences[first[1]])}; give all sequences in one form."
            )
        # An array without tokens may have no width.
        tables = {i: x for i, x in enumerate(X) if not of_dicts[i] and x.shape != (0,)}
        width = self._width(tables)
        lengths = np.array([x.shape[0] if i in tables else 0 for i, x in enumerate(X)])
        if not tables:
            table: Any = np.empty((0, width))
        elif all(sparse.issparse(x) for x in tables.values()):
            stacked = sparse.csr_array(sparse.vstack([*tables.values()], format="csr"))
            table = TokenTable(canonical(stacked))
        else:
            table = np.concatenate([numbers_of(x, i) for i, x in tables.items()])
        values = table.entries if isinstance(table, TokenTable) else table
        bad = first_unusable(values, missing=False)
        if bad is not None:
            i, token = _place(bad, lengths)
            raise ValueError(
                f"X[{i}] has NaN or infinite features for token {token}; impute them, or leave the "
                "sequence out."
            )
        return table, lengths, None

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
            return TokenTable(sparse.csr_array((0, self.n_features))), lengths
        if self.n_features is None:
            self._names = TokenNames()
            table = self._names.learn(X)
        elif self._names is None:
            raise ValueError(
                "X has dicts or columns of text as tokens; the tagger was trained on arrays."
            )
        else:
            table = self._names.table(X)
        return table, lengths


class RowsReader(TokenReader):
    """Reader of sequences that are already rows, with vectors or without."""

    def __init__(self, is_active: bool, *, has_vectors: bool) -> None:
        super().__init__(is_active=is_active)
        self._has_vectors = has_vectors

    @override
    def read(self, X: Any) -> tuple[Any, FloatArray | None, IntArray]:
        contents = [x.x if isinstance(x, Stretch) else x for x in X]
        tables = [x if isinstance(x, tuple) else (x,) for x in contents]
        rows = np.concatenate([parts[0] for parts in tables])
        vectors = np.concatenate([parts[1] for parts in tables]) if self._has_vectors else None
        return rows, vectors, np.array([len(parts[0]) for parts in tables])


def tag_indices(
    y: Sequence[Any], lengths: Sequence[int], classes: AnyArray | None = None
) -> tuple[AnyArray, list[IntArray]]:
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


def forbidden_indices(
    forbidden: Sequence[tuple[Any, Any]] | None, classes: AnyArray
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


def warn_of_unknown_tags(forbidden: Sequence[tuple[Any, Any]] | None, classes: AnyArray) -> None:
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
    classes: AnyArray,
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
                f"y[{i}] has the pair {(before, after)!r}, which is forbidden, by forbidden "
                "or scheme; correct its tags (structboost.text.convert_tags takes them to "
                "another scheme), or allow the pair."
            )


def _check_one_type(tags: Sequence[Any], lengths: IntArray) -> None:
    """Raise ValueError if some tags are strings and others numbers."""
    tagged = [k for k, tag in enumerate(tags) if tag is not None]
    for k in tagged:
        if isinstance(tags[k], str) != isinstance(tags[tagged[0]], str):
            i, t = _place(k, lengths)
            raise ValueError(
                f"y[{i}][{t}] is {shown(tags[k])}, and another tag is {shown(tags[tagged[0]])}: "
                "strings and numbers have no order; give strings."
            )


def _sorted_classes(tags: set[Any]) -> AnyArray:
    classes = np.array(sorted(tags))
    if len(set(classes.tolist())) < len(tags):
        raise ValueError(
            "y has tags that differ only in a null character at the end, which numpy drops; give "
            "other names."
        )
    if not len(classes):
        raise ValueError("y has no known tag; give the tags of some tokens.")
    return classes


def _place(row: int, lengths: IntArray) -> tuple[int, int]:
    """Return the indices of sequence and token for a row of the table of all tokens."""
    i = int(np.searchsorted(np.cumsum(lengths), row, side="right"))
    return i, row - int(lengths[:i].sum())
