"""Names and indices of the features of dict tokens."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, count, repeat
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import IntArray
from structboost.errors import warn_user
from structboost.faces.exact_numbers import EXACT
from structboost.faces.sequence_forms import is_real
from structboost.faces.string_index import StringIndex
from structboost.faces.token_table import Block, TokenTable
from structboost.validation import shown

# Codes of values: no feature, and neither a string nor 0 or 1.
_ABSENT, _OTHER = -1, -2
_ABSENTS = repeat(_ABSENT)
# Tokens that are read together, so that their values stay in the cache of the processor.
_BLOCK = 512
# Entries that get their last indices together.
_ENTRIES = 1 << 18
# Tokens that share their names, on average, from which on they are read column by column.
_FEW = 4


class TokenNames:
    """Indices of features by name, a faster form of scikit-learn's DictVectorizer.

    A string ``value`` of ``name``, or each in a list, is the feature ``name=value``.  Numbers and
    bools, including those of numpy, are values of the feature ``name``.  A dict under ``name`` has
    the features ``name:key``, and a vector of numbers ``name[0]``, ``name[1]`` and so on.

    Parameters
    ----------
    names : sequence of str, optional
        Names of the features in their order.  Without them, call :meth:`learn` first.
    shortest : dict of str to int, optional
        Length of the shortest vector in training, by name, where there was a shorter one than the
        longest.

    Attributes
    ----------
    names : list of str
        Names in ascending order.
    """

    def __init__(
        self, names: Sequence[str] = (), shortest: Mapping[str, int] | None = None
    ) -> None:
        self._set(list(names), shortest or {})

    def _set(self, names: list[str], shortest: Mapping[str, int]) -> None:
        self.names, self.shortest = names, dict(shortest)
        self._places = {name: k for k, name in enumerate(self.names)}
        self._codes: dict[str, _Codes] = {}
        self.__dict__.pop("_index", None)

    @cached_property
    def _index(self) -> StringIndex:
        return StringIndex(self.names)

    def __reduce__(self) -> tuple[type[TokenNames], tuple[list[str], dict[str, int]]]:
        # The codes are found again.
        return type(self), (self.names, self.shortest)

    def learn(self, sequences: Sequence[Sequence[Mapping[str, Any]]]) -> TokenTable:
        """Learn the names, and return the table of all tokens.

        Raises
        ------
        TypeError, ValueError
            If a name is not a string, or a value has another type; the message names the token.
        """
        reading = _Reading(sequences, self._places, self._codes, None, {})
        table, vectors = reading.table(), reading.vectors()
        names = list(self._places)
        order = sorted(range(len(names)), key=names.__getitem__)
        new = np.empty(len(names), np.int32)
        new[order] = np.arange(len(names), dtype=np.int32)
        self._set([names[k] for k in order], reading.shortest())
        # Block by block: numpy makes 64-bit integers of indices first.
        for first in range(0, len(table.indices), _ENTRIES):
            block = table.indices[first : first + _ENTRIES]
            block[:] = new[block]
        table = sparse.csr_array((table.data, table.indices, table.indptr), table.shape)
        table.sum_duplicates()
        blocks = [(new[columns], rows, values) for columns, rows, values in vectors]
        return TokenTable(table, blocks)

    def table(self, sequences: Sequence[Sequence[Mapping[str, Any]]]) -> TokenTable:
        """Return the table of all tokens, without names that were not learned.

        Raises
        ------
        TypeError, ValueError
            As :meth:`learn` does.
        """
        reading = _Reading(sequences, self._places, self._codes, self._index, self.shortest)
        return TokenTable(reading.table(), reading.vectors())

    def unknown_features(self, token: Mapping[str, Any]) -> list[str]:
        """Return the names of the features of a token that were not learned."""
        reading = _Reading([[token]], self._places, self._codes, self._index, self.shortest)
        return [
            key
            for name, value in token.items()
            for key, amount in reading._entries(name, value, 0)
            if amount and key not in self._places
        ]


class _Codes(dict[Any, int]):
    """Indices of the features of one name by its values, which are added at their first use.

    Values that are equal are one key: 1, 1.0 and True, and those of numpy.
    """

    __slots__ = ("learns", "name", "places", "prefix")

    def __init__(self, name: str, places: dict[str, int], *, learns: bool) -> None:
        self.name, self.prefix, self.places, self.learns = name, f"{name}=", places, learns

    def __missing__(self, value: Any) -> int:
        if isinstance(value, str):
            place = self.place(self.prefix + str.__str__(value))
            if place >= 0:
                self[value] = place
            return place
        if isinstance(value, bool | np.bool_):
            place = self.place(self.name)
            self[False] = _ABSENT
            if place >= 0:
                self[True] = place
            elif f"{self.name}[0]" in self.places:  # a vector in training
                return _OTHER
            return place if value else _ABSENT
        return _OTHER

    def place(self, key: str) -> int:
        """Return the index of a feature, or -1 if it was not learned."""
        return place_of(key, self.places, learns=self.learns)


class _Reading:
    """One pass over the tokens of sequences.

    Tokens of the same names are read column by column, which needs no step of the interpreter for
    each value (docs/decisions.md).
    """

    def __init__(
        self,
        sequences: Sequence[Any],
        places: dict[str, int],
        codes: dict[str, _Codes],
        index: StringIndex | None,
        shortest: Mapping[str, int],
    ) -> None:
        self._lengths = np.array([len(sequence) for sequence in sequences], np.int64)
        self._tokens = list(chain.from_iterable(sequences))
        self._places, self._codes, self._index = places, codes, index
        self._learns, self._shortest = index is None, shortest
        # Entries of the value 1, in the order of the tokens; and others by row, index and value.
        self._indices: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]
        self._counts: list[IntArray] = [np.zeros(0, np.int64)]
        self._others: list[tuple[Any, Any, Any]] = []
        # Vectors of the same length under one name, by name and length.
        self._vectors: dict[tuple[str, int], list[tuple[Any, Any]]] = defaultdict(list)
        self._unread: dict[tuple[str, int], list[tuple[int, Any]]] = defaultdict(list)
        self._lengths_of: dict[str, set[int]] = defaultdict(set)
        # Names of numbers that were vectors in training, which were warned of.
        self._scalars: set[str] = set()
        self._is_ordered = True

    def table(self) -> sparse.csr_array:
        """Return the table of all tokens."""
        for first in range(0, len(self._tokens), _BLOCK):
            block = self._tokens[first : first + _BLOCK]
            by_names: dict[tuple[Any, ...], Sequence[int]] = _by_names(block, first)
            if len(by_names) * _FEW <= len(block) or len(by_names) == 1:
                self._read_columns(first, len(block), by_names)
            else:
                self._read_tokens(first, block)
            self._read_vectors()
        indices = np.concatenate(self._indices)
        self._indices.clear()
        indptr = np.concatenate(([0], np.cumsum(np.concatenate(self._counts)))).astype(np.int64)
        shape = len(self._tokens), len(self._places)
        if max(len(indices), *shape) < 2**31:
            indptr = indptr.astype(np.int32)
        table = sparse.csr_array((np.ones(len(indices)), indices, indptr), shape)
        if self._others:
            rows, columns, values = (
                np.concatenate(part) for part in zip(*self._others, strict=True)
            )
            table = sparse.csr_array(table + sparse.csr_array((values, (rows, columns)), shape))
        if self._is_ordered and not self._others:
            table.has_canonical_format = True
        table.sum_duplicates()
        return table

    def vectors(self) -> list[Block]:
        """Return the vectors that :meth:`table` read, without columns that were not learned."""
        out: list[Block] = []
        for (name, width), blocks in self._vectors.items():
            keys = [f"{name}[{k}]" for k in range(width)]
            columns = np.array([self._places.get(key, _ABSENT) for key in keys], np.int32)
            rows = np.concatenate([np.asarray(of_block, np.int64) for of_block, _ in blocks])
            values = np.concatenate([of_block for _, of_block in blocks])
            is_trained = columns >= 0
            if not self._learns:
                n_trained = int(is_trained.sum())
                if f"{name}[{width}]" in self._places:
                    n_trained = next(k for k in count(width) if f"{name}[{k}]" not in self._places)
                    if width < self._shortest.get(name, n_trained):
                        _warn_of_length(name, width, n_trained, "count as 0")
                elif 0 < n_trained < width:
                    _warn_of_length(name, width, n_trained, "are not read")
                elif name in self._places:
                    _warn_of_form(name, "a vector", "a number")
            out.append(
                (columns[is_trained], rows, values if is_trained.all() else values[:, is_trained])
            )
        return out

    def shortest(self) -> dict[str, int]:
        """Return the length of the shortest vector by name, where it is not that of the longest."""
        return {
            name: min(of_name) for name, of_name in self._lengths_of.items() if len(of_name) > 1
        }

    def _check_form(self, name: str) -> None:
        """Warn if the numbers of a name that is not learned were vectors in training."""
        if not self._learns and f"{name}[0]" in self._places and name not in self._scalars:
            self._scalars.add(name)
            _warn_of_form(name, "a number", "a vector")

    def _read_columns(
        self, first: int, n: int, by_names: Mapping[tuple[Any, ...], Sequence[int]]
    ) -> None:
        """Read the tokens of a block, those of the same names together."""
        codes = np.full((n, max(map(len, by_names))), _ABSENT, np.int32)
        for names, rows in by_names.items():
            tokens = [self._tokens[row] for row in rows]
            columns = [*zip(*[token.values() for token in tokens], strict=True)]
            chosen = self._columns(names, columns, rows)
            # In ascending order, as far as the first token shows.
            chosen.sort(key=lambda column: int(column[0]))
            if chosen:
                codes[np.array(rows) - first, : len(chosen)] = np.array(chosen).T
        codes.sort(axis=1)
        is_feature = codes >= 0
        is_repeated = (codes[:, 1:] == codes[:, :-1]) & is_feature[:, 1:]
        self._is_ordered &= not is_repeated.any()
        self._indices.append(codes[is_feature])
        self._counts.append(is_feature.sum(axis=1))

    def _columns(
        self, names: Sequence[Any], columns: Sequence[Sequence[Any]], rows: Sequence[int]
    ) -> list[NDArray[np.int32]]:
        """Return the codes of the values of names, of strings by the index if there is one."""
        codes_of: dict[int, NDArray[np.int32]] = {}
        if self._index is not None:
            texts = [k for k, column in enumerate(columns) if type(column[0]) is str]
            texts = [k for k in texts if isinstance(names[k], str)]
            prefixes = [f"{str.__str__(names[k])}=" for k in texts]
            of_texts = self._index.find(prefixes, [columns[k] for k in texts])
            codes_of = {texts[k]: codes for k, codes in of_texts.items()}
        return [
            codes_of[k] if k in codes_of else self._column(names[k], column, rows)
            for k, column in enumerate(columns)
        ]

    def _column(self, name: Any, column: Sequence[Any], rows: Sequence[int]) -> NDArray[np.int32]:
        """Return the codes of the values of one name, after its other values are read."""
        if isinstance(column[0], Number | np.ndarray) and not isinstance(column[0], bool):
            values = _numbers(column)
            if values is not None and values.ndim == 1:
                wrong = np.flatnonzero(~np.isfinite(values))
                if len(wrong):
                    raise self._missing(name, values[wrong[0]], rows[wrong[0]])
                place = self._codes_of(name, rows[0]).place(name)
                if place < 0:
                    self._check_form(name)
                other = np.flatnonzero((values != 1) & (values != 0) & (place >= 0))
                if len(other):
                    at = np.array(rows)[other], np.full(len(other), place)
                    self._others.append((*at, values[other]))
                return np.where(values == 1, place, _ABSENT).astype(np.int32)
        of_name = self._codes_of(name, rows[0])
        try:
            codes = np.fromiter(map(of_name.__getitem__, column), np.int32, len(column))
        except TypeError:  # an unhashable value
            codes = np.array([_code(of_name, value) for value in column], np.int32)
        for k in np.flatnonzero(codes == _OTHER).tolist():
            self._read_other(name, column[k], rows[k])
        return codes

    def _read_vectors(self) -> None:
        """Read the vectors that the tokens of a block have."""
        for (name, width), vectors in self._unread.items():
            rows, items = zip(*vectors, strict=True)
            self._lengths_of[name].add(width)
            for key in self._codes.keys() & {f"{name}[{j}]" for j in range(width)}:
                for row in rows:
                    if not isinstance(self._tokens[row].get(key, ""), str):
                        raise self._refused(
                            row, f"its vector {name!r} and its {key!r} are the same feature",
                            f"rename {key!r}",
                        )  # fmt: skip
            values = _numbers(items)
            if values is None:
                for row, item in vectors:
                    self._read_entries(name, item, row)
                continue
            wrong = np.argwhere(~np.isfinite(values))
            if len(wrong):
                k, j = wrong[0].tolist()
                raise self._missing(f"{name}[{j}]", values[k, j], rows[k])
            if self._learns:
                for j in range(width):
                    place_of(f"{name}[{j}]", self._places, learns=True)
            self._vectors[name, width].append((rows, values))
        self._unread.clear()

    def _read_tokens(self, first: int, block: Sequence[Mapping[Any, Any]]) -> None:
        """Read tokens of different names one by one."""
        out: list[int] = []
        counts, places = [], self._places
        for row, token in enumerate(block, first):
            n_before = len(out)
            if set(map(type, token.values())) == {bool} and all(token.values()):
                # Tokens may have many names, which need no codes of their own.
                self._check_names(token, row)
                if self._learns:
                    out += [places.setdefault(name, len(places)) for name in token]
                else:
                    out += [place for place in map(places.get, token, _ABSENTS) if place >= 0]
                    if len(out) - n_before < len(token):
                        for name in token:
                            if name not in places:
                                self._check_form(name)
            else:
                for name, value in token.items():
                    code = _code(self._codes_of(name, row), value)
                    if code >= 0:
                        out.append(code)
                    elif code == _OTHER:
                        self._read_other(name, value, row)
            counts.append(len(out) - n_before)
        self._indices.append(np.array(out, np.int32))
        self._counts.append(np.array(counts, np.int64))
        self._is_ordered = False

    def _check_names(self, names: Iterable[Any], row: int) -> None:
        """Raise TypeError unless all names are strings."""
        try:
            "".join(names)
        except TypeError:
            name = next(name for name in names if not isinstance(name, str))
            raise self._refused(row, f"{shown(name)} is not a string") from None

    def _read_other(self, name: Any, value: Any, row: int) -> None:
        """Read a value that is neither a string nor a bool."""
        if isinstance(name, str) and _is_vector(value):
            # An array is made of all of a block.
            self._unread[str.__str__(name), len(value)].append((row, value))
        else:
            self._read_entries(name, value, row)

    def _read_entries(self, name: Any, value: Any, row: int) -> None:
        """Read the features of one entry of a token one by one."""
        for key, amount in self._entries(name, value, row):
            place = place_of(key, self._places, learns=self._learns)
            if place >= 0:
                self._others.append(([row], [place], [amount]))
            elif isinstance(value, Number | np.ndarray | np.bool_):
                self._check_form(key)

    def _codes_of(self, name: Any, row: int) -> _Codes:
        codes = self._codes.get(name)
        if codes is None:
            if not isinstance(name, str):
                raise self._refused(row, f"{shown(name)} is not a string")
            codes = _Codes(str.__str__(name), self._places, learns=self._learns)
            if self._learns or len(self._codes) < len(self._places):
                self._codes[codes.name] = codes
        return codes

    def _entries(self, name: Any, value: Any, row: int) -> Iterator[tuple[str, float]]:
        """Yield the names and values of the features of one entry of a token."""
        if not isinstance(name, str):
            raise self._refused(row, f"{shown(name)} is not a string")
        if isinstance(value, str):
            yield f"{name}={str.__str__(value)}", 1.0
            return
        if np.ma.is_masked(value):
            filled = "filled" if isinstance(value, np.ma.MaskedArray) else "fillna"
            raise self._refused(
                row, f"the value of {shown(name)} is masked in part",
                f"write {name}.{filled}(number), or leave {shown(name)} out",
            )  # fmt: skip
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        if value is None:
            raise self._missing(name, value, row)
        if isinstance(value, Number | np.bool_) and not isinstance(value, complex):
            yield name, self._number(name, value, row)
            return
        if isinstance(value, Mapping):
            for key, of_key in value.items():
                if not isinstance(key, str):
                    raise self._refused(row, f"{shown(key)} in {shown(name)} is not a string")
                yield from self._entries(f"{name}:{key}", of_key, row)
            return
        if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | Iterator):
            items = list(value)
            if all(isinstance(text, str) for text in items):
                yield from ((f"{name}={str.__str__(text)}", 1.0) for text in items)
                return
            if not isinstance(value, set | frozenset) and all(map(is_real, items)):
                for k, amount in enumerate(items):
                    yield f"{name}[{k}]", self._number(f"{name}[{k}]", amount, row)
                return
        raise self._refused(row, f"the value of {shown(name)} is {shown(value)}")

    def _number(self, name: str, value: Any, row: int) -> float:
        if isinstance(value, int | np.integer) and abs(int(value)) > EXACT:
            raise self._refused(
                row, f"the value of {shown(name)} is {shown(value)}, beyond 2**53, where floats "
                "merge whole numbers", "write it as a string if it is a name",
            )  # fmt: skip
        try:
            amount = float(value)
        except (TypeError, ValueError, OverflowError):
            raise self._refused(row, f"the value of {shown(name)} is {shown(value)}") from None
        if not math.isfinite(amount):
            raise self._missing(name, value, row)
        return amount

    def _missing(self, name: str, value: Any, row: int) -> ValueError:
        i, t = self._place_of_row(row)
        return ValueError(
            f"X[{i}][{t}] has the value {shown(value)} for the feature {name!r}; leave it out "
            "where it is missing."
        )

    def _place_of_row(self, row: int) -> tuple[int, int]:
        """Return the indices of sequence and token."""
        i = int(np.searchsorted(np.cumsum(self._lengths), row, side="right"))
        return i, row - int(self._lengths[:i].sum())

    def _refused(self, row: int, reason: str, remedy: str = "") -> TypeError:
        i, t = self._place_of_row(row)
        remedy = remedy or (
            "give each feature a string as its name, and a number, a bool, a string, a list of "
            "strings, a vector of numbers or bools, or a dict of these as its value"
        )
        return TypeError(f"X[{i}][{t}] is {shown(self._tokens[row])}; {remedy} ({reason}).")


def _warn_of_length(name: str, width: int, n_trained: int, result: str) -> None:
    warn_user(
        f"{name!r} of a token has {_counted(width)}, and had at most {n_trained} in training.  The "
        f"others {result}.  Are these vectors of the same kind?",
        UserWarning,
    )


def _warn_of_form(name: str, form: str, trained: str) -> None:
    warn_user(
        f"{name!r} of a token is {form}, and was {trained} in training, so it is not read.  Give "
        f"{trained}.",
        UserWarning,
    )


def _counted(n: int) -> str:
    return f"{n} number" + ("" if n == 1 else "s")


def _by_names(
    tokens: Sequence[Mapping[Any, Any]], first: int
) -> dict[tuple[Any, ...], Sequence[int]]:
    """Return the rows of the tokens that have the same names in the same order."""
    names = list(map(tuple, tokens))
    if names.count(names[0]) == len(names):
        return {names[0]: range(first, first + len(names))}
    rows: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row, of_token in enumerate(names, first):
        rows[of_token].append(row)
    return {**rows}


def _numbers(values: Sequence[Any]) -> NDArray[np.float64] | None:
    """Return numbers as floats, or None if there are other values or unsafe whole numbers."""
    if any(isinstance(value, np.ma.MaskedArray) for value in values):
        return None
    try:
        array = np.array(values)
    except (ValueError, OverflowError):
        return None
    if array.dtype.kind not in "iufb" or not array.size:
        return None
    # Whole numbers among them may have been rounded; infinite ones are refused later.
    if (array > EXACT - 1).any() or (array < 1 - EXACT).any():
        return None
    return array.astype(np.float64)


def _is_vector(value: Any) -> bool:
    """Whether a value looks like a vector of numbers."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "iufb" and len(value) > 0
    if not isinstance(value, list | tuple) or not len(value):
        return False
    return is_real(value[0])


def place_of(key: str, places: dict[str, int], *, learns: bool) -> int:
    """Return the index of a feature, a new one if it may be learned, else -1."""
    if learns:
        return places.setdefault(key, len(places))
    return places.get(key, _ABSENT)


def _code(codes: _Codes, value: Any) -> int:
    """Return the code of a value, which may be unhashable."""
    try:
        return codes[value]
    except TypeError:
        return _OTHER
