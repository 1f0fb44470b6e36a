"""Conversion of sequences of tokens and tags to inputs and outputs of the chain task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise
from typing import Any, Self

import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray, override
from structboost.errors import warn_user
from structboost.faces.base import saved_indices, saved_names
from structboost.faces.forms import is_of_dicts, listed_sequences, listed_tags, numbers_of
from structboost.faces.labels import indices_among
from structboost.faces.token_names import TokenNames, TokenTable, canonical
from structboost.files.archive import finite_number, whole_number
from structboost.learners.feature import active_features
from structboost.runtime.memory import check_memory
from structboost.tasks.chain import Stretch
from structboost.validation import checked_list, first_unusable, shown

# Fraction of the tokens from which on "nearly all" of them have nothing that training had, and
# fraction of bare tokens in training from which on bare ones are nothing strange.
_NEARLY_ALL, _RARE = 0.95, 0.01
_none = partial[IntArray](np.zeros, 0, np.int64)


@dataclass(eq=False)
class TokenReader:
    """Reader of sequences of tokens that are arrays, sparse matrices or lists of dicts.

    Parameters
    ----------
    learned : TokenNames, optional
        Names of the features, if tokens are dicts.
    n_features : int, optional
        Number of features of a token.
    is_active : bool
        Whether rows hold the indices of active features
        (:func:`structboost.learners.feature.active_features`) instead of values.  Features
        with other values than 0 and 1 are columns of vectors beside these rows.
    vector_columns : ndarray of int64, optional
        Indices of the features that are columns of vectors, by default none.
    uninformative : ndarray of int64, optional
        Indices of features that no token of training had, or each one, by default none.
    bare : float
        Fraction of the tokens of training that have no other feature.
    min_freq : int
        Least number of tokens of training that have a name of dicts which is learned.
    """

    learned: TokenNames | None = None
    n_features: int | None = None
    is_active: bool = False
    vector_columns: IntArray = field(default_factory=_none)
    uninformative: IntArray = field(default_factory=_none)
    bare: float = 1.0
    min_freq: int = 1

    def to_plain(self) -> dict[str, Any]:
        """Return the features as plain values of a model file."""
        return {
            "names": self.names,
            "n_features": self.n_features,
            "is_active": self.is_active,
            "vector_columns": self.vector_columns.tolist(),
            "uninformative": self.uninformative.tolist(),
            "bare": self.bare,
        }

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Self:
        """Restore a reader from plain values of a file.

        DamagedFileError if the values do not belong together.
        """
        width = whole_number(values["n_features"], "number of features", low=1)
        names = saved_names(values["names"], width)
        return cls(
            None if names is None else TokenNames(names),
            width,
            is_active=values["is_active"] is True,
            vector_columns=saved_indices(values["vector_columns"], width),
            uninformative=saved_indices(values["uninformative"], width),
            bare=finite_number(values["bare"], "fraction of bare tokens"),
        )

    @property
    def names(self) -> list[str] | None:
        """Names of the features, if tokens are dicts."""
        return None if self.learned is None else self.learned.names

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
        table, lengths = self._table(X)
        if isinstance(table, TokenTable) and takes_active:
            numeric = table.numeric_columns()
            self.is_active = len(numeric) < table.shape[1]
            if self.is_active:
                self.vector_columns = numeric
        return self._rows(table, lengths)

    def later_rows(self, X: Any) -> list[Any]:
        """Return the rows of each sequence as :meth:`fit` does, with the features of training.

        ValueError or TypeError as in :meth:`read`.
        """
        return self._rows(*self._table(X))

    def _rows(self, table: Any, lengths: IntArray) -> list[Any]:
        """Split a table into the rows of each sequence."""
        ends = np.cumsum(lengths)[:-1]
        if self.is_active:
            entries, vectors = self._parted(table, lengths)
            rows = np.split(active_features(entries), ends)
            if vectors is None:
                return rows
            return [*zip(rows, np.split(vectors, ends), strict=True)]
        if isinstance(table, TokenTable):
            n_tokens, width = table.shape
            what = f"A dense table of {n_tokens} tokens and {width} features"
            check_memory(8 * n_tokens * width, what, "give fewer features")
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
        if not self.is_active:
            rows, lengths = self.table(X)
            return rows, None, lengths
        table, lengths = self._table(X)
        return *self._parted(table, lengths), lengths

    def _parted(self, table: Any, lengths: IntArray) -> tuple[Any, FloatArray | None]:
        """Return the active features of tokens, and their vectors, if there are any."""
        if not isinstance(table, TokenTable):
            table = TokenTable(sparse.csr_array(table))
        rows, vectors = table.parted(self.vector_columns)
        if (rows.data != 1).any():
            bad = int(np.argmax(rows.data != 1))
            place = _place(int(np.searchsorted(rows.indptr, bad, side="right")) - 1, lengths)
            column = int(rows.indices[bad])
            raise ValueError(
                f"{place} has the value {rows.data[bad]} for feature "
                f"{column if self.names is None else repr(self.names[column])}; it was 0 or 1 in "
                "all training, and may be nothing else now."
            )
        return rows, vectors if len(self.vector_columns) else None

    def table(self, X: Any) -> tuple[Any, IntArray]:
        """Return one table of all tokens, an array or a sparse array, and their lengths.

        Raises
        ------
        ValueError, TypeError
            As :meth:`read` does.
        """
        table, lengths = self._table(X)
        return table.whole() if isinstance(table, TokenTable) else table, lengths

    def _table(self, X: Any) -> tuple[Any, IntArray]:
        """Return a TokenTable or an array, and the number of tokens of each sequence.

        The first call learns the features; later ones raise ValueError if tokens have another
        number of them, and warn if tokens have nothing that training had.
        """
        sequences = listed_sequences(X)
        are_dicts = [is_of_dicts(x) for x in sequences]
        first = next((i for i, is_dicts in enumerate(are_dicts) if not is_dicts or sequences[i]), 0)
        if not are_dicts[first]:
            if self.n_features is None and self.min_freq > 1:
                raise ValueError(
                    f"min_freq is {self.min_freq}, which a fit to arrays as tokens does not read; "
                    "leave it out, or give dicts."
                )
            # A sequence without tokens may be an empty list in any form.
            tables = {
                i: numbers_of(x, i)
                for i, (x, is_dicts) in enumerate(zip(sequences, are_dicts, strict=True))
                if not (is_dicts and not x)
            }
            table, lengths = self._stacked(tables, len(sequences))
        elif not all(are_dicts):
            i = are_dicts.index(False)
            raise ValueError(
                f"X[{i}] is {shown(sequences[i])}; give a list of dicts, as X[{first}] is."
            )
        else:
            lengths = np.array(list(map(len, sequences)))
            if self.n_features is None:
                self.learned = TokenNames()
                table = self.learned.learn(sequences, self.min_freq)
            elif self.learned is not None:
                table = self.learned.table(sequences)
            elif lengths.any():
                raise ValueError("X has dicts as tokens; the tagger was trained on arrays.")
            else:
                table = TokenTable(sparse.csr_array((0, self.n_features)))
        if self.n_features is None:
            if not table.shape[1]:
                raise ValueError(
                    "X has no tokens with features, or none that min_freq keeps; give at least one."
                )
            entries = table
            if not isinstance(table, TokenTable):
                entries = TokenTable(sparse.csr_array(table))
            self.n_features, self.uninformative = table.shape[1], entries.uninformative()
            is_bare = _bare_tokens(table, self.uninformative)
            self.bare = float(is_bare.mean()) if len(is_bare) else 1.0
        elif table.shape[0] and self.bare < _RARE:
            is_bare = _bare_tokens(table, self.uninformative)
            if is_bare.mean() < _NEARLY_ALL:
                return table, lengths
            examples = "" if self.names is None else f", such as {shown(self.names[:3])}"
            warn_user(
                f"{is_bare.sum()} of the {len(is_bare)} tokens of X have nothing that training "
                "had, or nothing but what each token had, such as "
                f"{_place(int(is_bare.argmax()), lengths)}.  They get the tags of any token.  Give "
                f"tokens the names and values that they had in training{examples}.",
                UserWarning,
            )
        return table, lengths

    def _stacked(self, tables: Mapping[int, Any], n: int) -> tuple[Any, IntArray]:
        """Return one table of sequences that are arrays, and the lengths of all."""
        if self.learned is not None:
            raise ValueError("X has arrays as tokens; the tagger was trained on dicts.")
        width, lengths = self.n_features, np.zeros(n, np.int64)
        for i, x in tables.items():
            if x.shape == (0,):
                continue
            width = x.shape[1] if width is None and x.ndim == 2 else width
            if x.ndim != 2 or x.shape[1] != width:
                raise ValueError(
                    f"X[{i}] has shape {x.shape}; give (n_tokens, {width or 'n_features'}) numbers."
                )
            lengths[i] = x.shape[0]
        full = [x for x in tables.values() if x.shape != (0,)]
        if not full:
            table: Any = np.empty((0, width or 0))
        elif all(map(sparse.issparse, full)):
            table = TokenTable(canonical(sparse.csr_array(sparse.vstack(full, format="csr"))))
        else:
            table = np.concatenate([x.toarray() if sparse.issparse(x) else x for x in full])
        values = table.entries if isinstance(table, TokenTable) else table
        bad = first_unusable(values, missing=False)
        if bad is not None:
            raise ValueError(
                f"{_place(bad, lengths)} has NaN or infinite features; impute them, or leave the "
                "sequence out."
            )
        return table, lengths


def _bare_tokens(table: Any, uninformative: IntArray) -> BoolArray:
    """Return which tokens have no other features than these."""
    if isinstance(table, TokenTable):
        return table.bare_tokens(uninformative)
    return np.asarray(~np.delete(table, uninformative, axis=1).any(axis=1))


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
        tagged = [k for k, tag in enumerate(flat) if tag is not None]
        if not tagged:
            raise ValueError("y has no known tag; give the tags of some tokens.")
        are_texts = [isinstance(flat[k], str) for k in tagged]
        if not all(are_texts) and any(are_texts):
            k, first = tagged[are_texts.index(not are_texts[0])], flat[tagged[0]]
            raise ValueError(
                f"y{_place(k, np.array(lengths))[1:]} is {shown(flat[k])}, and another tag is "
                f"{shown(first)}; give only strings or only numbers."
            )
        classes = np.array(sorted({flat[k] for k in tagged}))
    place = {tag: k for k, tag in enumerate(classes.tolist())} | {None: -1}
    indices = np.array([place.get(tag, len(classes)) for tag in flat], np.int64)
    return classes, np.split(indices, np.cumsum(lengths)[:-1])


def later_tags(y: Sequence[Any], lengths: Sequence[int], classes: AnyArray) -> list[IntArray]:
    """Return the indices of tags as :func:`tag_indices` does, all of which training has.

    ValueError names those that it has not.
    """
    distinct, indices = tag_indices(y, lengths)
    places = np.append(indices_among(distinct, classes), -1)
    return [places[of] for of in indices]


def forbidden_indices(
    forbidden: Sequence[tuple[Any, Any]] | None, classes: AnyArray
) -> list[tuple[int | None, int | None]]:
    """Convert forbidden pairs of tags to indices, without pairs whose tags never occur.

    ValueError or TypeError if it is not a list of pairs.
    """
    place: dict[Any, int | None] = {tag: k for k, tag in enumerate(classes.tolist())}
    place[None] = None
    out = []
    for pair in checked_list(() if forbidden is None else forbidden, "forbidden", "[('O', 'I')]"):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise ValueError(
                f"forbidden has {shown(pair)}; give pairs (tag, next tag), where None is the start "
                "or the end."
            )
        if all(tag in place for tag in pair):
            out.append((place[pair[0]], place[pair[1]]))
    return out


def check_allowed(
    tags: Sequence[IntArray], forbidden: Sequence[tuple[int | None, int | None]], classes: AnyArray
) -> None:
    """Raise ValueError if tags, as indices, contain a forbidden pair."""
    names = {None: None} | dict(enumerate(classes.tolist()))
    pairs = set(forbidden)
    for i, sequence in enumerate(tags if pairs else ()):
        ends = [None, *sequence.tolist(), None] if len(sequence) else []
        bad = next((pair for pair in pairwise(ends) if pair in pairs), None)
        if bad is not None:
            raise ValueError(
                f"y[{i}] has the pair {tuple(names[tag] for tag in bad)!r}, which is forbidden, by "
                "forbidden or scheme; correct its tags (structboost.text.convert_tags takes them "
                "to another scheme), or allow the pair."
            )


def _place(row: int, lengths: IntArray) -> str:
    """Return the place of a row of the table of all tokens, as ``X[sequence][token]``."""
    i = int(np.searchsorted(np.cumsum(lengths), row, side="right"))
    return f"X[{i}][{row - int(lengths[:i].sum())}]"
