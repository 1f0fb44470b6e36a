"""Containers that are tables, and those that are sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from numbers import Number
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse

from structboost.validation import frame_of, is_missing, shown, without_mask


def shape_of(X: Any) -> tuple[int, ...]:
    """Return the shape of a table without its values."""
    if sparse.issparse(X):
        return tuple(X.shape)
    return np.shape(X) if (frame := frame_of(X)) is None else tuple(frame.shape)


def checked_form(X: Any, *, most_axes: int = 2) -> Any:
    """Return a native data frame, an array or a sparse array or matrix for what a user passes.

    ValueError, in the words of scikit-learn, if it is no table with rows and columns.
    """
    X = nw.to_native(X, pass_through=True)
    table = X if sparse.issparse(X) or frame_of(X) is not None else _array_of(X)
    shape = shape_of(table)
    if len(shape) < 2:
        what, text = f"{len(shape)}D array" if shape else "scalar array", ""
        if shape and table.dtype.kind in "UO" and all(isinstance(x, str) for x in table):
            what = "1D array of strings"
            text = " Texts get columns by sklearn.feature_extraction.text.TfidfVectorizer."
        raise ValueError(
            f"X is {shown(X)}, of shape {shape}. Expected 2D array, got {what} instead. Reshape "
            "your data: for one row write X.reshape(1, -1), for one column X.reshape(-1, 1). X may "
            "be a data frame of pandas, polars or Arrow, an array of shape (n_samples, "
            "n_features), a list of equally long rows, or a sparse matrix."
            f"{text}"
        )
    if len(shape) > most_axes:
        raise ValueError(
            f"X has shape {shape}: Found array with dim {len(shape)}, while dim <= {most_axes} is "
            "required; write X.reshape(len(X), -1)."
        )
    for n, what in ((shape[0], "sample"), (min(shape[1:]), "feature")):
        if not n:
            raise ValueError(
                f"X has no {what}s: Found array with 0 {what}(s) (shape={shape}) while a minimum "
                "of 1 is required."
            )
    if getattr(getattr(table, "dtype", None), "kind", "") == "c":
        raise ValueError(f"Complex data not supported: X holds {table.dtype}; give real numbers.")
    return table


def _array_of(X: Any) -> Any:
    """Return the array of what is neither sparse nor a data frame, NaN where it is masked."""
    if isinstance(X, np.matrix):
        return X  # scikit-learn names matrices of NumPy
    if isinstance(X, list | tuple) and any(
        issubclass(t, np.ma.MaskedArray) for t in {*map(type, X)}
    ):
        X = list(map(without_mask, X))
    try:
        table = np.asarray(without_mask(X))
    except (TypeError, ValueError) as error:
        lengths = [np.size(row) if isinstance(row, list | tuple | np.ndarray) else 1 for row in X]
        i = next((i for i, n in enumerate(lengths) if n != lengths[0]), 0)
        raise ValueError(
            f"X[{i}] has {lengths[i]} values, and X[0] has {lengths[0]}; give equally long rows "
            f"({error})."
        ) from error
    # Strings would swallow numbers.
    return np.asarray(X, dtype=object) if table.dtype.kind in "SU" and table.ndim > 1 else table


_FORMS = (
    "give a list of sequences, each of them a list of dicts or of lists of names, a "
    "sparse matrix or an array (n_tokens, n_features)"
)


def listed_sequences(X: Any) -> list[Any]:
    """Return the sequences of a list, an array of three dimensions, a series or another container.

    TypeError or ValueError if it is one table, a mapping, a set, a string, an iterator, no
    container, or empty.
    """
    is_table = sparse.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2)
    if not _is_container(X) or (is_table and X.dtype != object):
        raise TypeError(f"X is {shown(X)}, no list of sequences; {_FORMS}.  [X] is one sequence.")
    sequences = _values(X)
    if not sequences:
        raise ValueError("X is empty; give at least one sequence.")
    return [_named(x) for x in sequences]


def _named(x: Any) -> Any:
    """Return tokens that are lists of names as dicts, and other sequences as they are."""
    is_of_names = isinstance(x, list | tuple) and all(
        isinstance(token, list | tuple) and all(isinstance(name, str) for name in token)
        for token in x
    )
    return [dict.fromkeys(token, True) for token in x] if is_of_names else x


def listed_tags(y: Any, lengths: Sequence[int]) -> list[list[Any]]:
    """Return the tags of each sequence as Python values, None where one is missing.

    ValueError or TypeError, which names it, if this is no list of sequences, a sequence has not one
    tag for each token, or a tag is neither a string nor a number.
    """
    if not _is_container(y):
        raise TypeError(f"y is {shown(y)}; give a list that has a list of tags for each sequence.")
    y = _values(y)
    if len(y) != len(lengths):
        raise ValueError(f"X has {len(lengths)} sequences and y {len(y)}; give one for each.")
    out = []
    for i, (tags, n) in enumerate(zip(y, lengths, strict=True)):
        listed = _values(tags) if _is_container(tags) else []
        if len(listed) != n or not _is_container(tags):
            raise ValueError(f"y[{i}] is {shown(tags)}; give a tag for each of the {n} tokens.")
        out.append([tag if type(tag) is str else _tag(tag, i, t) for t, tag in enumerate(listed)])
    return out


def _tag(tag: Any, i: int, t: int) -> Any:
    """Return a tag as a Python value, None if it is missing."""
    if isinstance(tag, str):
        return str.__str__(tag)
    if is_missing_tag(tag):
        return None
    tag = tag.item() if isinstance(tag, np.generic) else tag
    if not isinstance(tag, int | float):
        raise ValueError(f"y[{i}][{t}] is {shown(tag)}; give one string or number a token.")
    return tag


def is_missing_tag(tag: Any) -> bool:
    """Whether a tag is None, NaN, or the missing value of pandas."""
    return not isinstance(tag, str) and not hasattr(tag, "__len__") and is_missing(tag)


def is_of_dicts(x: Any) -> bool:
    """Whether a sequence is a list of dicts."""
    return isinstance(x, list | tuple) and (
        set(map(type, x)) <= {dict} or all(isinstance(token, Mapping) for token in x)
    )


def numbers_of(x: Any, i: int) -> Any:
    """Return sequence ``i`` as a sparse array or an array of real numbers, of any shape.

    TypeError or ValueError if it is neither.
    """
    if sparse.issparse(x):
        return x
    if not _is_container(x) or isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"X[{i}] is {shown(x)}; give a list of dicts, such as frame.to_dict('records'), or an "
            "array, such as frame.to_numpy(), without masked values."
        )
    try:
        rows = np.asarray(x)
        if rows.dtype.kind == "O" and rows.ndim == 2 and all(map(is_real, rows.flat)):
            rows = np.array(rows, np.float64)
    except (ValueError, OverflowError):
        rows = np.zeros(0, object)
    if rows.dtype.kind not in "biuf":
        raise ValueError(
            f"X[{i}] is {shown(x)}; give (n_tokens, n_features) numbers, or a dict of features for "
            "each token.  structboost.text.TokenFeatures makes features of words."
        )
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)


def _is_container(values: Any) -> bool:
    """Whether values have an order and can be read again, which frames and iterators have not."""
    is_other = isinstance(values, str | bytes | Mapping | Set | Iterator)
    has_axes = getattr(values, "ndim", 1) != 0  # an array of none is an Iterable that raises
    is_frame = hasattr(values, "columns") or hasattr(values, "collect")
    return not (is_other or is_frame) and has_axes and isinstance(values, Iterable)


def _values(x: Any) -> list[Any]:
    """Return the items of an iterable, in Python types if a series or an Arrow array has them."""
    for name in ("to_pylist", "to_list"):
        if hasattr(x, name):
            return list(getattr(x, name)())
    return list(x)


def is_real(value: Any) -> bool:
    """Whether a value is a real number or a bool."""
    return isinstance(value, Number | np.bool_) and not isinstance(value, complex)
