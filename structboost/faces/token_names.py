"""Names and indices of the features of dict tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import BoolArray, FloatArray, IntArray, ShortArray
from structboost.faces.forms import is_real
from structboost.validation import shown

# Indices of features, rows of tokens, and the values (n_rows, n_features) that these have.
Block = tuple[ShortArray, IntArray, FloatArray]


@dataclass(frozen=True)
class TokenTable:
    """Features of tokens, as sparse entries and dense blocks that add up.

    Parameters
    ----------
    entries : sparse array by rows, shape (n_tokens, n_features)
    blocks : sequence of (ndarray of int32, ndarray of int64, ndarray of float64)
        Indices of features, indices of tokens, and the values that these tokens have there.
    """

    entries: sparse.csr_array
    blocks: Sequence[Block] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of tokens and features."""
        n_tokens, n_features = self.entries.shape
        return n_tokens, n_features

    def whole(self) -> sparse.csr_array:
        """Return all features as one sparse array."""
        return self.parted(np.zeros(0, np.int64))[0]

    def numeric_columns(self) -> IntArray:
        """Return the features that have other values than 0 and 1, in ascending order."""
        numeric = [self.entries.indices[_is_odd(self.entries.data)]]
        # Vectors stay together.
        numeric += [columns for columns, _, values in self.blocks if _is_odd(values).any()]
        return np.unique(np.concatenate(numeric)).astype(np.int64)

    def uninformative(self) -> IntArray:
        """Return the features that no token has, or all have with the value 1, such as a bias."""
        n_tokens, width = (entries := self.whole()).shape
        n_ones = np.bincount(entries.indices[entries.data == 1], minlength=width)
        counts = np.bincount(entries.indices, minlength=width)
        return np.flatnonzero((counts == 0) | (n_ones == n_tokens)).astype(np.int64)

    def bare_tokens(self, uninformative: IntArray) -> BoolArray:
        """Return which tokens have no other features than these."""
        is_informative = ~_places(self.entries.indices, uninformative)[1] & (self.entries.data != 0)
        counts = np.diff(np.concatenate(([0], np.cumsum(is_informative)))[self.entries.indptr])
        for columns, rows, values in self.blocks:
            inside = _places(columns, uninformative)[1]
            counts[rows] += (values[:, ~inside] != 0).any(axis=1)
        return np.asarray(counts == 0)

    def parted(self, columns: IntArray) -> tuple[sparse.csr_array, FloatArray]:
        """Return the entries outside of some features, and the table of these features.

        Parameters
        ----------
        columns : ndarray of int64
            Indices of features, in ascending order.

        Returns
        -------
        entries : sparse array by rows, shape (n_tokens, n_features)
            Each once, without zeros.
        values : ndarray, shape (n_tokens, n_columns)
        """
        entries = self.entries
        values = np.zeros((self.shape[0], len(columns)))
        at, inside = _places(entries.indices, columns)
        if inside.any():
            rows = np.repeat(np.arange(len(values)), np.diff(entries.indptr))
            np.add.at(values, (rows[inside], at[inside]), entries.data[inside])
            ends = np.concatenate(([0], np.cumsum(~inside)))[entries.indptr]
            outside = entries.data[~inside], entries.indices[~inside]
            entries = sparse.csr_array((*outside, ends.astype(entries.indptr.dtype)), self.shape)
            entries.has_canonical_format = self.entries.has_canonical_format
        more = []
        for table, rows, of_block in self.blocks:
            at, inside = _places(table, columns)
            if inside.any():
                values[np.ix_(rows, at[inside])] += of_block[:, inside]
            if not inside.all():
                places = np.repeat(rows, (~inside).sum()), np.tile(table[~inside], len(rows))
                more.append((of_block[:, ~inside].ravel(), *places))
        if more:
            data, rows, at = map(np.concatenate, zip(*more, strict=True))
            entries = sparse.csr_array(entries + sparse.csr_array((data, (rows, at)), self.shape))
        return canonical(entries), values


def canonical(table: sparse.csr_array) -> sparse.csr_array:
    """Return a table with each entry once and without zeros."""
    if not (table.has_canonical_format and table.data.all()):
        table = table.copy()
        table.sum_duplicates()
        table.eliminate_zeros()
    return table


def _places(features: NDArray[np.integer], columns: IntArray) -> tuple[IntArray, BoolArray]:
    """Return where features stand among ascending columns, and whether they do."""
    if not len(columns):
        return np.zeros(len(features), np.int64), np.zeros(len(features), bool)
    at = np.minimum(np.searchsorted(columns, features), len(columns) - 1)
    return at, columns[at] == features


def _is_odd(values: FloatArray) -> BoolArray:
    return np.asarray((values != 0) & (values != 1))


# Codes of values: no feature, and neither a string nor a bool.
_ABSENT, _OTHER = -1, -2
# Types of values that are read together, or have no hash.
_NO_KEYS = {float, int, list, tuple, set, dict, np.ndarray}
# Tokens that are read together, so that their values stay in the cache of the processor.
_BLOCK = 512
# Entries that get their last indices together.
_ENTRIES = 1 << 18


class TokenNames:
    """Indices of features by name, a faster form of scikit-learn's DictVectorizer.

    A string ``value`` of ``name``, or each in a list, is the feature ``name=value``.  Numbers and
    bools, including those of numpy, are values of the feature ``name``.  A dict under ``name`` has
    the features ``name:key``, and a vector of numbers ``name[0]``, ``name[1]`` and so on.

    Parameters
    ----------
    names : sequence of str, optional
        Names of the features in their order.  Without them, call :meth:`learn` first.

    Attributes
    ----------
    names : list of str
        Names in ascending order.
    rare : sequence of str
        Names that :meth:`learn` left out, in ascending order.
    """

    rare: Sequence[str] = ()

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._take(names)

    def _take(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._codes = _Names(self.names, learns=False)

    def __reduce__(self) -> tuple[type[TokenNames], tuple[list[str]]]:
        # The codes are found again.
        return type(self), (self.names,)

    def learn(
        self, sequences: Sequence[Sequence[Mapping[str, Any]]], min_freq: int = 1
    ) -> TokenTable:
        """Learn the names that so many tokens have, and return the table of all tokens.

        Raises
        ------
        TypeError, ValueError
            If a name is not a string, or a value has another type; the message names the token.
        """
        codes = _Names([], learns=True, counts_false=min_freq > 1)
        read = _Reading(sequences, codes).table()
        names = list(map(str.__str__, codes.places))
        if min_freq > 1:
            counts = np.bincount(read.entries.indices, minlength=len(names))
            for columns, rows, _ in read.blocks:
                counts[columns] += len(rows)
            self._take(sorted(compress(names, counts >= min_freq)))
            self.rare = sorted(compress(names, counts < min_freq))
            return self.table(sequences)  # in which False is no entry
        order = sorted(range(len(names)), key=names.__getitem__)
        new = np.empty(len(names), np.int32)
        new[order] = np.arange(len(names), dtype=np.int32)
        self._take([names[k] for k in order])
        entries = read.entries
        # Block by block: numpy makes 64-bit integers of indices first.
        for first in range(0, len(entries.indices), _ENTRIES):
            block = entries.indices[first : first + _ENTRIES]
            block[:] = new[block]
        entries = sparse.csr_array((entries.data, entries.indices, entries.indptr), entries.shape)
        entries.sum_duplicates()
        return TokenTable(
            entries, [(new[columns], rows, values) for columns, rows, values in read.blocks]
        )

    def table(self, sequences: Sequence[Sequence[Mapping[str, Any]]]) -> TokenTable:
        """Return the table of all tokens, without names that were not learned.

        Raises
        ------
        TypeError, ValueError
            As :meth:`learn` does, or if numbers were vectors in training, or of another length.
        """
        return _Reading(sequences, self._codes).table()


class _Codes(dict[Any, int]):
    """Indices of the features of one name by its values, which are added at their first use."""

    __slots__ = ("name", "names")

    def __init__(self, name: Any, names: _Names) -> None:
        self.name, self.names = name, names

    def __missing__(self, value: Any) -> int:
        if not isinstance(self.name, str) or not isinstance(value, str | bool | np.bool_):
            return _OTHER
        # A string of another class may have another format.
        if isinstance(value, str):
            code = self.names.place("=".join((self.name, value)))
        else:
            code = self.names.place(self.name)
            code = code if value or self.names.counts_false else _ABSENT
        if code >= 0 or not value:
            self[value] = code
        return code


class _Names(dict[Any, _Codes]):
    """Codes of the values of all names, which are added at their first use."""

    def __init__(self, names: Sequence[str], *, learns: bool, counts_false: bool = False) -> None:
        self.places = {name: k for k, name in enumerate(names)}
        self.learns, self.counts_false = learns, counts_false

    def __missing__(self, name: Any) -> _Codes:
        codes = _Codes(name, self)
        if self.learns or len(self) < len(self.places):
            self[name] = codes
        return codes

    def place(self, key: str) -> int:
        """Return the index of a feature, a new one if it may be learned, else -1."""
        places = self.places
        return places.setdefault(key, len(places)) if self.learns else places.get(key, _ABSENT)


# Rows and values of numbers by the name of their feature.
_Amounts = dict[str, tuple[list[int], list[Any]]]


class _Reading:
    """One pass over the tokens of sequences."""

    def __init__(self, sequences: Sequence[Any], codes: _Names) -> None:
        self._sequences, self._codes = sequences, codes
        self._tokens = list(chain.from_iterable(sequences))
        # Rows and features of strings in lists and dicts.
        self._texts: list[tuple[int, int]] = []
        # Features of numbers by their name, and their rows and values in each block of tokens.
        self._amounts: dict[str, tuple[list[str], list[tuple[IntArray, FloatArray]]]] = {}

    def table(self) -> TokenTable:
        """Return the table of all tokens."""
        indices, counts = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
        for first in range(0, len(self._tokens), _BLOCK):
            block = self._tokens[first : first + _BLOCK]
            codes = self._codes_of(block)
            rows, is_feature = np.repeat(np.arange(len(block)), [*map(len, block)]), codes >= 0
            if (codes == _OTHER).any():
                self._read_others(block, first, rows, codes)
            indices.append(codes[is_feature])
            counts.append(np.bincount(rows[is_feature], minlength=len(block)))
        keys = [key for of_name, _ in self._amounts.values() for key in of_name]
        if len(set(keys)) < len(keys):
            key = max(keys, key=keys.count)
            raise TypeError(f"X has a feature {key!r} and a vector with this number; rename one.")
        blocks = [self._block(*of_name) for of_name in self._amounts.values()]
        columns, ends = np.concatenate(indices), np.cumsum(np.concatenate(counts))
        shape = len(self._tokens), len(self._codes.places)
        if max(len(columns), *shape) < 2**31:
            ends = ends.astype(np.int32)
        entries = sparse.csr_array((np.ones(len(columns)), columns, ends), shape)
        if self._texts:
            places = np.array(self._texts).T
            more = sparse.csr_array((np.ones(len(self._texts)), (places[0], places[1])), shape)
            entries = sparse.csr_array(entries + more)
        entries.sum_duplicates()
        return TokenTable(entries, blocks)

    def _codes_of(self, block: Sequence[Mapping[Any, Any]]) -> ShortArray:
        of_name, values = self._codes, chain.from_iterable(token.values() for token in block)
        try:
            if all(value is True for value in values) and {*map(type, chain(*block))} == {str}:
                # Tokens may have many names, which need no codes of their own.
                listed = [*map(of_name.place, chain.from_iterable(block))]
            elif _NO_KEYS.isdisjoint(map(type, block[0].values())):
                listed = [of_name[n][value] for token in block for n, value in token.items()]
            else:
                listed = [
                    _OTHER if type(value) in _NO_KEYS else of_name[n][value]
                    for token in block
                    for n, value in token.items()
                ]
        except TypeError:  # a value of another type without a hash
            listed = [
                of_name[name][value] if isinstance(value, str | bool) else _OTHER
                for token in block
                for name, value in token.items()
            ]
        return np.array(listed, np.int32)

    def _block(self, keys: Sequence[str], parts: Sequence[tuple[IntArray, FloatArray]]) -> Block:
        """Return the numbers of a name, without features that were not learned."""
        columns = np.array([self._codes.place(key) for key in keys], np.int32)
        rows, values = map(np.concatenate, zip(*parts, strict=True))
        is_known = columns >= 0
        return columns[is_known], rows, values if is_known.all() else values[:, is_known]

    def _read_others(
        self, block: Sequence[Any], first: int, rows: IntArray, codes: ShortArray
    ) -> None:
        """Read entries that are neither strings nor bools, numbers of one name together."""
        names = [*chain.from_iterable(block)]
        amounts: _Amounts = defaultdict(lambda: ([], []))
        values = [value for token in block for value in token.values()]
        others = np.flatnonzero(codes == _OTHER)
        for k, row in zip(others.tolist(), (first + rows[others]).tolist(), strict=True):
            name, value = names[k], values[k]
            if type(name) is str and (type(value) in (float, int) or _is_vector(value)):
                at, entries = amounts[name]
                at.append(row)
                entries.append(value)
            else:
                self._read_entry(row, name, value, amounts)
        for name, of_name in amounts.items():
            self._add_numbers(name, *of_name)

    def _read_entry(self, row: int, name: Any, value: Any, amounts: _Amounts) -> None:
        """Read strings in lists and dicts, and collect the numbers."""
        if not isinstance(name, str):
            raise self._refused(row, name, value)
        if isinstance(value, Mapping):
            for key, of_key in value.items():
                inner = ":".join((name, key)) if isinstance(key, str) else key
                self._read_entry(row, inner, of_key, amounts)
        elif isinstance(value, str | bool | np.bool_) or _are_texts(value):
            texts = [value] if isinstance(value, str | bool | np.bool_) else value
            codes = [self._codes[name][text] for text in texts]
            self._texts += [(row, code) for code in codes if code >= 0]
        else:
            at, entries = amounts[str.__str__(name)]
            at.append(row)
            entries.append(value)

    def _add_numbers(self, name: str, rows: Sequence[int], values: Sequence[Any]) -> None:
        """Add the numbers, or the vectors of equal lengths, that tokens have under a name."""
        array = _numbers(values)
        if array is None:
            if len(values) > 1:
                for row, value in zip(rows, values, strict=True):
                    self._add_numbers(name, [row], [value])
            raise self._refused(rows[0], name, values[0])
        keys = [name] if array.ndim == 1 else [f"{name}[{j}]" for j in range(array.shape[1])]
        trained, places = keys, self._codes.places
        if not self._codes.learns:
            is_known = [key in places for key in keys]
            is_longer = array.ndim > 1 and f"{name}[{len(keys)}]" in places
            if (any(is_known) and (is_longer or not all(is_known))) or (
                not any(is_known) and (name in places or f"{name}[0]" in places)
            ):
                trained = []
        trained, parts = self._amounts.setdefault(name, (trained, []))
        if trained != keys:
            raise ValueError(
                f"{self._place(rows[0])} has {shown(values[0])} for the feature {name!r}, and "
                "another token a number, or a vector of another length; give equally many numbers."
            )
        parts.append((np.array(rows), array.reshape(len(rows), -1)))

    def _place(self, row: int) -> str:
        """Describe a token by the indices of its sequence and in it."""
        for i, sequence in enumerate(self._sequences):
            if row < len(sequence):
                return f"X[{i}][{row}]"
            row -= len(sequence)
        raise IndexError(row)

    def _refused(self, row: int, name: Any, value: Any) -> TypeError:
        return TypeError(
            f"{self._place(row)} has {shown(value)} for the feature {shown(name)}; give each "
            "feature a string as its name, and a finite number, a bool, a string, a list of "
            "strings, a vector of numbers, or a dict of these as its value.  Leave it out where it "
            "is missing."
        )


def _is_vector(value: Any) -> bool:
    """Whether a value looks like a vector of numbers."""
    if type(value) is np.ndarray:
        return value.dtype.kind in "iufb"
    return type(value) is list and len(value) > 0 and type(value[0]) is float


def _are_texts(value: Any) -> bool:
    """Whether a value is a list of strings, or a set or an array of these."""
    return (
        isinstance(value, list | tuple | set | frozenset | np.ndarray)
        and getattr(value, "ndim", 1) == 1
        and all(isinstance(text, str) for text in value)
    )


def _numbers(values: Sequence[Any]) -> FloatArray | None:
    """Return finite numbers, or vectors of these, as an array, or None if there are others."""
    if any(issubclass(of, np.ma.MaskedArray) for of in {*map(type, values)}):
        return None
    try:
        array = np.array(values)
        if array.dtype.kind == "O" and all(map(is_real, array.flat)):
            array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    is_shaped = array.ndim == 1 or (array.ndim == 2 and array.size > 0)
    if array.dtype.kind not in "iufb" or not is_shaped or not np.isfinite(array).all():
        return None
    return array.astype(np.float64)
