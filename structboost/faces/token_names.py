"""Names and indices of the features of dict tokens."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain, count
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import BoolArray, FloatArray, IntArray, ShortArray
from structboost.errors import warn_user
from structboost.faces.forms import EXACT, is_real
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
            others = entries.data[~inside], entries.indices[~inside]
            entries = sparse.csr_array((*others, ends.astype(entries.indptr.dtype)), self.shape)
            entries.has_canonical_format = self.entries.has_canonical_format
        for table, rows, of_block in self.blocks:
            at, inside = _places(table, columns)
            if inside.any():
                values[np.ix_(rows, at[inside])] += of_block[:, inside]
            if not inside.all():
                outside = np.repeat(rows, (~inside).sum()), np.tile(table[~inside], len(rows))
                more = sparse.csr_array((of_block[:, ~inside].ravel(), outside), self.shape)
                entries = sparse.csr_array(entries + more)
        return canonical(entries), values


def canonical(table: sparse.csr_array) -> sparse.csr_array:
    """Return a table with each entry once and without zeros."""
    if not (table.has_canonical_format and table.data.all()):
        table = table.copy()
        table.sum_duplicates()
        table.eliminate_zeros()
    return table


def is_binary(table: sparse.csr_array) -> bool:
    """Whether all entries are 0 or 1."""
    return not _is_odd(table.data).any()


def _places(features: NDArray[np.integer], columns: IntArray) -> tuple[IntArray, BoolArray]:
    """Return where features stand among ascending columns, and whether they do."""
    if not len(columns):
        return np.zeros(len(features), np.int64), np.zeros(len(features), bool)
    at = np.minimum(np.searchsorted(columns, features), len(columns) - 1)
    return at, columns[at] == features


def _is_odd(values: FloatArray) -> BoolArray:
    return np.asarray((values != 0) & (values != 1))


# Codes of values: no feature, and neither a string nor 0 or 1.
_ABSENT, _OTHER = -1, -2
# Types of values that are read together, or have no hash.
_NO_KEYS = {float, list, tuple, dict, np.ndarray}
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
        self._codes = _Names(self.names, learns=False)

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
        reading = _Reading(sequences, _Names([], learns=True), {})
        table, vectors = reading.table(), reading.vectors()
        names = list(reading.places)
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
        reading = _Reading(sequences, self._codes, self.shortest)
        return TokenTable(reading.table(), reading.vectors())

    def unknown_features(self, token: Mapping[str, Any]) -> list[str]:
        """Return the names of the features of a token that were not learned."""
        reading = _Reading([[token]], self._codes, self.shortest)
        return [
            key
            for name, value in token.items()
            for key, amount in reading._entries(name, value, 0)
            if amount and key not in reading.places
        ]


class _Codes(dict[Any, int]):
    """Indices of the features of one name by its values, which are added at their first use.

    Values that are equal are one key: 1, 1.0 and True, and those of numpy.
    """

    __slots__ = ("name", "names")

    def __init__(self, name: Any, names: _Names) -> None:
        self.name, self.names = name, names

    def __missing__(self, value: Any) -> int:
        name, place = self.name, self.names.place
        if not isinstance(name, str) or not isinstance(value, str | bool | np.bool_):
            return _OTHER
        if isinstance(value, str):
            code = place(f"{name}={str.__str__(value)}")
        else:
            code, self[False] = place(name), _ABSENT
            if code < 0 and f"{name}[0]" in self.names.places:  # a vector in training
                return _OTHER
            if not value:
                return _ABSENT
        if code >= 0:
            self[value] = code
        return code


class _Names(dict[Any, _Codes]):
    """Codes of the values of all names, which are added at their first use."""

    def __init__(self, names: Sequence[str], *, learns: bool) -> None:
        self.places = {name: k for k, name in enumerate(names)}
        self.learns = learns

    def __missing__(self, name: Any) -> _Codes:
        codes = _Codes(str.__str__(name) if isinstance(name, str) else name, self)
        if self.learns or len(self) < len(self.places):
            self[name] = codes
        return codes

    def place(self, key: Any) -> int:
        """Return the index of a feature, a new one if it may be learned, else -1."""
        places = self.places
        return places.setdefault(key, len(places)) if self.learns else places.get(key, _ABSENT)


class _Reading:
    """One pass over the tokens of sequences."""

    def __init__(
        self, sequences: Sequence[Any], codes: _Names, shortest: Mapping[str, int]
    ) -> None:
        self._lengths = np.array([len(sequence) for sequence in sequences], np.int64)
        self._tokens = list(chain.from_iterable(sequences))
        self._codes, self.places, self._shortest = codes, codes.places, shortest
        # Entries of other values than 1, by row, index and value.
        self._others: list[tuple[Any, Any, Any]] = []
        # Vectors of the same length under one name, by name and length.
        self._vectors: dict[tuple[str, int], list[tuple[Any, Any]]] = defaultdict(list)
        self._unread: dict[tuple[str, int], list[tuple[int, Any]]] = defaultdict(list)
        self._lengths_of: dict[str, set[int]] = defaultdict(set)
        # Names of numbers that were vectors in training, which were warned of.
        self._scalars: set[str] = set()

    def table(self) -> sparse.csr_array:
        """Return the table of all tokens."""
        blocks, counts = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
        for first in range(0, len(self._tokens), _BLOCK):
            block = self._tokens[first : first + _BLOCK]
            of_name, rows = self._codes, np.repeat(np.arange(len(block)), [*map(len, block)])
            are_true = all(value is True for token in block for value in token.values())
            try:
                if are_true and {type(name) for token in block for name in token} == {str}:
                    # Tokens may have many names, which need no codes of their own.
                    listed = [*map(self._codes.place, chain.from_iterable(block))]
                elif _NO_KEYS.isdisjoint(map(type, block[0].values())):
                    listed = [of_name[n][value] for token in block for n, value in token.items()]
                else:
                    listed = [
                        _OTHER if type(value) in _NO_KEYS else of_name[n][value]
                        for token in block
                        for n, value in token.items()
                    ]
            except TypeError:  # an unhashable value
                listed = [self._code(*entry) for token in block for entry in token.items()]
            codes = np.array(listed, np.int32)
            if are_true or (codes == _OTHER).any():
                names = [*chain.from_iterable(block)]
                for k in np.flatnonzero(codes == _ABSENT).tolist() if are_true else ():
                    self._check_form(names[k])
                values = [value for token in block for value in token.values()]
                self._read_others(names, values, np.flatnonzero(codes == _OTHER), first + rows)
            is_feature = codes >= 0
            blocks.append(codes[is_feature])
            counts.append(np.bincount(rows[is_feature], minlength=len(block)))
            self._read_vectors()
        indices, indptr = np.concatenate(blocks), np.cumsum(np.concatenate(counts))
        shape = len(self._tokens), len(self.places)
        if max(len(indices), *shape) < 2**31:
            indptr = indptr.astype(np.int32)
        table = sparse.csr_array((np.ones(len(indices)), indices, indptr), shape)
        if self._others:
            at = [np.concatenate(part) for part in zip(*self._others, strict=True)]
            table = sparse.csr_array(table + sparse.csr_array((at[2], (at[0], at[1])), shape))
        table.sum_duplicates()
        return table

    def vectors(self) -> list[Block]:
        """Return the vectors that :meth:`table` read, without columns that were not learned."""
        out: list[Block] = []
        for (name, width), blocks in self._vectors.items():
            keys = [f"{name}[{k}]" for k in range(width)]
            columns = np.array([self.places.get(key, _ABSENT) for key in keys], np.int32)
            rows = np.concatenate([np.asarray(of_block, np.int64) for of_block, _ in blocks])
            values = np.concatenate([of_block for _, of_block in blocks])
            is_trained = columns >= 0
            if not self._codes.learns:
                n_trained = int(is_trained.sum())
                if f"{name}[{width}]" in self.places:
                    n_trained = next(k for k in count(width) if f"{name}[{k}]" not in self.places)
                    if width < self._shortest.get(name, n_trained):
                        _warn_of_length(name, width, n_trained, "count as 0")
                elif 0 < n_trained < width:
                    _warn_of_length(name, width, n_trained, "are not read")
                elif name in self.places:
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
        is_learned = self._codes.learns or f"{name}[0]" not in self.places
        if not is_learned and name not in self._scalars:
            self._scalars.add(name)
            _warn_of_form(name, "a number", "a vector")

    def _code(self, name: Any, value: Any) -> int:
        """Return the code of a value, which may be unhashable."""
        try:
            return self._codes[name][value]
        except TypeError:
            return _OTHER

    def _read_others(
        self, names: Sequence[Any], values: Sequence[Any], chosen: IntArray, rows: IntArray
    ) -> None:
        """Read entries that are neither strings nor bools, floats of one name together."""
        floats: dict[Any, list[int]] = defaultdict(list)
        for k in chosen.tolist():
            name, value = names[k], values[k]
            if type(value) is float and isinstance(name, str):
                floats[name].append(k)
            elif isinstance(name, str) and _is_vector(value):
                # An array is made of all of a block.
                self._unread[str.__str__(name), len(value)].append((int(rows[k]), value))
            else:
                self._read_entries(name, value, int(rows[k]))
        for name, of_name in floats.items():
            amounts = np.array([values[k] for k in of_name])
            wrong = np.flatnonzero(~np.isfinite(amounts))
            if len(wrong):
                raise self._missing(name, amounts[wrong[0]], int(rows[of_name[wrong[0]]]))
            place = self._codes.place(str.__str__(name))
            if place < 0:
                self._check_form(name)
            else:
                self._others.append((rows[of_name], np.full(len(amounts), place), amounts))

    def _read_vectors(self) -> None:
        """Read the vectors that the tokens of a block have."""
        for (name, width), vectors in self._unread.items():
            rows, items = zip(*vectors, strict=True)
            self._lengths_of[name].add(width)
            keys = {f"{name}[{j}]" for j in range(width)}
            for row in rows:
                for key in keys & self._tokens[row].keys():
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
            if self._codes.learns:
                for j in range(width):
                    self._codes.place(f"{name}[{j}]")
            self._vectors[name, width].append((rows, values))
        self._unread.clear()

    def _read_entries(self, name: Any, value: Any, row: int) -> None:
        """Read the features of one entry of a token one by one."""
        for key, amount in self._entries(name, value, row):
            place = self._codes.place(key)
            if place >= 0:
                self._others.append(([row], [place], [amount]))
            elif isinstance(value, Number | np.ndarray | np.bool_):
                self._check_form(key)

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
        f"{name!r} of a token has {width} number{'s' * (width > 1)}, and had at most {n_trained} "
        f"in training.  The others {result}.  Are these vectors of the same kind?",
        UserWarning,
    )


def _warn_of_form(name: str, form: str, trained: str) -> None:
    warn_user(
        f"{name!r} of a token is {form}, and was {trained} in training, so it is not read.  Give "
        f"{trained}.",
        UserWarning,
    )


def _numbers(values: Sequence[Any]) -> FloatArray | None:
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


# Fraction of the tokens from which on "nearly all" of them have nothing that training had.
_NEARLY_ALL = 0.95
# Fraction of bare tokens in training below which bare ones need no unknown feature to be strange.
_RARE = 0.01
# Names of training among which the nearest is looked for.
_MOST_NAMES = 5000


@dataclass(frozen=True)
class KnownFeatures:
    """Features of training that distinguish tokens.

    Parameters
    ----------
    uninformative : ndarray of int64, shape (n,)
        Indices of features that no token of training had, or that each one had with the value 1,
        such as a bias.
    bare : float
        Fraction of the tokens of training that had no other features.
    """

    uninformative: IntArray
    bare: float

    @classmethod
    def of(cls, table: Any) -> KnownFeatures:
        """Learn them from the table of all tokens of training, a TokenTable or an array."""
        n_tokens, n_features = table.shape
        if isinstance(table, TokenTable):
            entries = table.entries
            n_ones = np.bincount(entries.indices[entries.data == 1], minlength=n_features)
            n_others = np.bincount(entries.indices[entries.data != 0], minlength=n_features)
            for columns, _, _ in table.blocks:
                n_others[columns] += 1
        else:
            n_ones, n_others = (table == 1).sum(axis=0), (table != 0).sum(axis=0)
        uninformative = np.flatnonzero((n_others == 0) | (n_ones == n_tokens)).astype(np.int64)
        bare = cls(uninformative, 0.0).bare_tokens(table)
        return cls(uninformative, float(bare.mean()) if n_tokens else 0.0)

    def bare_tokens(self, table: Any) -> BoolArray:
        """Return which tokens have no feature that distinguishes tokens of training."""
        is_known = np.ones(table.shape[1], bool)
        is_known[self.uninformative] = False
        if not isinstance(table, TokenTable):
            return np.asarray(~(table[:, is_known] != 0).any(axis=1))
        entries = table.entries
        counts = (entries.data != 0).astype(np.int32), entries.indices, entries.indptr
        has_known = sparse.csr_array(counts, table.shape) @ is_known.astype(np.int32) > 0
        for columns, rows, _ in table.blocks:
            has_known[rows] |= bool(is_known[columns].any())
        return np.asarray(~has_known)

    def warn(
        self,
        table: Any,
        lengths: IntArray,
        tokens: Sequence[Sequence[Mapping[Any, Any]]] | None,
        names: TokenNames | None,
    ) -> None:
        """Warn if nearly all tokens of an input have nothing that training had.

        ``tokens`` are those of the table if they are dicts, of features with these ``names``.
        """
        strange = np.flatnonzero(self.bare_tokens(table))
        least = _NEARLY_ALL * table.shape[0]
        if not len(strange) or len(strange) < least:
            return
        if tokens is None or names is None:
            features = [_columns(table, row) for row in strange.tolist()]
        else:
            flat = list(chain.from_iterable(tokens))
            features = [names.unknown_features(flat[row]) for row in strange.tolist()]
        if self.bare >= _RARE:  # they are strange only where they have other features
            strange = strange[[bool(of_token) for of_token in features]]
            features = [of_token for of_token in features if of_token]
            if not len(strange) or len(strange) < least:
                return
        i = int(np.searchsorted(np.cumsum(lengths), strange[0], side="right"))
        place = f"X[{i}][{strange[0] - lengths[:i].sum()}]"
        example = _example(features[0], None if tokens is None or names is None else names.names)
        warn_user(
            f"{len(strange)} of the {table.shape[0]} tokens of X have nothing that training had: "
            f"{place} has {example}.  Such tokens get the tags of any "
            "token.  Give tokens the names, values and features that they had in training.",
            UserWarning,
        )


def _columns(table: Any, row: int) -> list[str]:
    """Return the indices of the features of a token."""
    if not isinstance(table, TokenTable):
        return list(map(str, np.flatnonzero(table[row])))
    start, end = table.entries.indptr[row : row + 2]
    return list(map(str, table.entries.indices[start:end]))


def _example(features: Sequence[str], names: Sequence[str] | None) -> str:
    """Describe the features of a token in words, beside a near one of training."""
    if not features:
        return "no feature"
    if names is None:
        return f"only features that no token of training had, or each, such as column {features[0]}"
    plain = {name.casefold(): name for name in names[:_MOST_NAMES]}
    near = get_close_matches(features[0].casefold(), plain, 1, 0.0)
    return f"{shown(features[0])}, and training had features such as {shown(plain[near[0]])}"
