"""Features of tokens on which the scores of pairs of tags depend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import IntArray
from structboost.faces.tokens import TokenReader
from structboost.learners.active_feature import active_features
from structboost.validation import shown

# Characters after the name of an entry of a dict, in the names of its features.
_ENDS = ("=", ":")


class StepFeatures:
    """Active features of tokens that are features of the step to the token, too.

    Parameters
    ----------
    columns : ndarray of int64
        Indices of the features, in ascending order.
    n_features : int
        Number of features of a token.
    """

    def __init__(self, columns: IntArray, n_features: int) -> None:
        self.columns, self.n_features = columns, n_features

    def of_tokens(self, rows: Any) -> sparse.csr_array:
        """Return the chosen features of tokens, shape (n_tokens, n_chosen).

        Parameters
        ----------
        rows : sparse array or ndarray of int
            Zeros and ones, or indices of active features, filled up with -1.
        """
        if not sparse.issparse(rows):
            used = rows >= 0
            ends = np.concatenate(([0], np.cumsum(used.sum(axis=1))))
            shape = len(rows), max(self.n_features, 1 + int(rows.max(initial=-1)))
            rows = sparse.csr_array((np.ones(int(ends[-1])), rows[used], ends), shape)
        return sparse.csr_array(rows[:, self.columns])

    def of_sequences(self, rows: Sequence[NDArray[Any]]) -> list[NDArray[np.int32]]:
        """Return the features of the steps of sequences, as rows of active features."""
        tokens = active_features(self.of_tokens(np.concatenate(rows)))
        return [table[1:] for table in np.split(tokens, np.cumsum([*map(len, rows)])[:-1])]


def chosen_columns(features: Any, reader: TokenReader) -> IntArray:
    """Return the indices of the features that ``transition_features`` names.

    Parameters
    ----------
    features : sequence of str or of int, or callable
        Names of entries of tokens, indices of columns, or a function of the name of a feature.
    reader : TokenReader
        After it has read the training tokens.

    Raises
    ------
    ValueError, TypeError
        If it names no features, or numbers, or is of another kind.
    """
    names, n_features = reader.names, int(reader.n_features or 0)
    wanted = "give a list of names, of indices of columns, or a function of the name of a feature"
    if callable(features):
        columns = _matching(features, names)
    elif isinstance(features, str):
        raise TypeError(f"transition_features is {features!r}; give a list, [{features!r}].")
    elif isinstance(features, bytes) or not isinstance(features, Iterable):
        raise TypeError(f"transition_features is {shown(features)}; {wanted}.")
    else:
        items = list(features)
        texts = [item for item in items if isinstance(item, str)]
        is_whole = all(
            isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items
        )
        if not items:
            raise ValueError(f"transition_features is empty; leave it out, or {wanted}.")
        if not (len(texts) == len(items) or is_whole):
            raise TypeError(f"transition_features is {shown(features)}; {wanted}.")
        if texts:
            for text in texts:
                if not len(_matching(_is_of(text), names)):
                    raise _unknown(text, reader)
            columns = _matching(lambda name: any(_is_of(text)(name) for text in texts), names)
        else:
            columns = np.unique(np.array(items, np.int64))
            if columns[0] < 0 or columns[-1] >= n_features:
                raise ValueError(
                    f"transition_features is {shown(features)}, and tokens have {n_features} "
                    f"features; give indices from 0 to {n_features - 1}."
                )
    if not len(columns):
        raise ValueError("transition_features is true for no feature; leave it out.")
    if len(dense := np.intersect1d(columns, reader.vector_columns)):
        raise ValueError(
            f"transition_features has the feature {reader.name_of(int(dense[0]))}, whose values "
            "are numbers; give features of 0 and 1, such as strings."
        )
    return columns


def _matching(is_chosen: Callable[[str], Any], names: Sequence[str] | None) -> IntArray:
    """Return the indices of the names for which a function is true."""
    if names is None:
        raise ValueError(
            "transition_features is of names, and X has columns without names; give indices of "
            "columns."
        )
    return np.flatnonzero([bool(is_chosen(name)) for name in names]).astype(np.int64)


def _unknown(entry: str, reader: TokenReader) -> ValueError:
    """Return the error about a name that is of no feature, with names that begin like it."""
    names = reader.names or []
    first = f"{entry}[0]"
    if any(names[int(column)] == first for column in reader.vector_columns):
        return ValueError(
            f"transition_features names {entry!r}, whose values are vectors of numbers; give "
            "features of 0 and 1, such as strings."
        )
    entries = list(dict.fromkeys(name.partition("=")[0] for name in names))
    alike = [name for name in entries if name.startswith(entry)]
    return ValueError(
        f"transition_features names {entry!r}, which no token has; give names of entries of "
        f"tokens, such as {shown((alike or entries)[:3])}."
    )


def _is_of(entry: str) -> Callable[[str], bool]:
    """Return whether the name of a feature is of an entry of tokens."""
    starts = tuple(entry + end for end in _ENDS)
    return lambda name: name == entry or name.startswith(starts)
