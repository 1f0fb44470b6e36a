"""Names and indices of the features of dict tokens."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse

from structboost.validation import shown


class TokenNames:
    """Indices of features by name, a faster form of scikit-learn's DictVectorizer.

    A string ``value`` of ``name``, or each in a list, is the feature ``name=value``.  Numbers and
    bools, including those of numpy, are values of the feature ``name``.

    Parameters
    ----------
    names : sequence of str, optional
        Names of the features in their order.  Without them, call :meth:`learn` first.

    Attributes
    ----------
    names : list of str
        Names in ascending order.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = list(names)
        self._places = {name: k for k, name in enumerate(self.names)}
        # Indices by name and text, so that most names need not be joined.
        self._texts: dict[str, dict[str, int]] = {}

    def learn(self, sequences: Sequence[Sequence[Mapping[str, Any]]]) -> sparse.csr_array:
        """Learn the names, and return the table of all tokens.

        Raises
        ------
        TypeError
            If a name is not a string, or a value has another type; the message names the token.
        """
        table = self._read(sequences, learns=True)
        names = list(self._places)
        order = sorted(range(len(names)), key=names.__getitem__)
        new = np.empty(len(names), np.int32)
        new[order] = np.arange(len(names), dtype=np.int32)
        self.names = [names[k] for k in order]
        self._places = {name: k for k, name in enumerate(self.names)}
        self._texts = {
            name: {text: int(new[k]) for text, k in texts.items()}
            for name, texts in self._texts.items()
        }
        shape = table.shape[0], len(names)
        table = sparse.csr_array((table.data, new[table.indices], table.indptr), shape)
        table.sum_duplicates()
        return table

    def table(self, sequences: Sequence[Sequence[Mapping[str, Any]]]) -> sparse.csr_array:
        """Return the table of all tokens, without names that were not learned.

        Raises
        ------
        TypeError
            As :meth:`learn` does.
        """
        table = self._read(sequences, learns=False)
        table.sum_duplicates()
        return table

    def _read(self, sequences: Sequence[Any], *, learns: bool) -> sparse.csr_array:
        places, by_name = self._places, self._texts
        numbers, ends = array("i"), array("q", [0])
        # Values other than 1, and their positions.
        odd, values = array("q"), array("d")
        for i, sequence in enumerate(sequences):
            for t, token in enumerate(sequence):
                for name, value in token.items():
                    kind = type(value)
                    if kind is str and name in by_name:
                        texts = by_name[name]
                        place = texts.get(value)
                        if place is None:
                            key = f"{name}={value}"
                            place = (
                                places.setdefault(key, len(places)) if learns else places.get(key)
                            )
                            if place is None:
                                continue
                            texts[value] = place
                        numbers.append(place)
                    elif kind is bool and name in places:
                        if value:
                            numbers.append(places[name])
                    else:
                        for key, number in _entries(name, value, (i, t, token)):
                            place = (
                                places.setdefault(key, len(places)) if learns else places.get(key)
                            )
                            if place is not None:
                                if number != 1.0:
                                    odd.append(len(numbers))
                                    values.append(number)
                                numbers.append(place)
                        if kind is str:
                            by_name[name] = {}
                ends.append(len(numbers))
        data = np.ones(len(numbers))
        data[np.array(odd, np.int64)] = np.array(values, np.float64)
        indices, indptr = np.array(numbers, np.int32), np.array(ends, np.int64)
        return sparse.csr_array((data, indices, indptr), (len(ends) - 1, len(places)))


def _entries(name: Any, value: Any, token: tuple[int, int, Any]) -> list[tuple[str, float]]:
    """Return the names and values of the features of one entry of a token."""
    if not isinstance(name, str):
        raise _refused(*token, f"{shown(name)} is not a string")
    if isinstance(value, str):
        return [(f"{name}={value}", 1.0)]
    if value is None:
        return [(name, np.nan)]
    if isinstance(value, Number | np.bool_) and not isinstance(value, complex):
        return [(name, float(value))]  # type: ignore[arg-type]
    if isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
        texts = list(value)
        if all(isinstance(text, str) for text in texts):
            return [(f"{name}={text}", 1.0) for text in texts]
    raise _refused(*token, f"the value of {shown(name)} is {shown(value)}")


def _refused(i: int, t: int, token: Any, reason: str) -> TypeError:
    return TypeError(
        f"X[{i}][{t}] is {shown(token)}; give each feature a string as its name, and a number, a "
        f"bool, a string or a list of strings as its value ({reason})."
    )
