"""Containers of sequences, and the forms that the tokens and the tags of a sequence may have."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, FloatArray
from structboost.faces.table_forms import check_small, frame_of
from structboost.validation import shown

_FORMS = (
    "give a list of sequences, each of them a list of dicts, a data frame, a sparse matrix or an "
    "array (n_tokens, n_features)"
)
_TOKENS = "give (n_tokens, n_features) numbers, or a dict of features for each token."


def listed_sequences(X: Any) -> list[Any]:
    """Return the sequences of a list, an array of three dimensions, a series or another container.

    TypeError or ValueError if it is one table, a mapping, a set, a string, an iterator, no
    container, or empty.
    """
    table = _one_table(X)
    if table:
        raise TypeError(
            f"X is {table}, which does not tell where sequences begin; {_FORMS}.  [X] is one "
            "sequence."
        )
    if not _is_container(X):
        raise TypeError(f"X is {shown(X)}, not a sequence of sequences; {_FORMS}.")
    sequences = _values(X)
    if not sequences:
        raise ValueError("X is empty; give at least one sequence.")
    return sequences


def listed_tags(y: Any, lengths: Sequence[int]) -> list[list[Any]]:
    """Return the tags of each sequence as Python values, None where one is missing.

    ValueError or TypeError, which names it, if this is no list of sequences, a sequence has not one
    tag for each token, or a tag is neither a string nor a number.
    """
    wanted = "give a list that has a list of tags for each sequence"
    if not _is_container(y):
        raise TypeError(f"y is {shown(y)}; {wanted}.")
    table: Any = y if sparse.issparse(y) else _frame(y)
    if table is not None:
        raise TypeError(f"y is a table of shape {table.shape}; {wanted}.")
    y = _values(y)
    if len(y) != len(lengths):
        raise ValueError(f"X has {len(lengths)} sequences and y {len(y)}; give one for each.")
    return [_tags_of(tags, n, i) for i, (tags, n) in enumerate(zip(y, lengths, strict=True))]


def _tags_of(labels: Any, n: int, i: int) -> list[Any]:
    is_column = isinstance(labels, np.ndarray) and labels.ndim != 1
    if (
        not _is_container(labels)
        or is_column
        or sparse.issparse(labels)
        or _frame(labels) is not None
    ):
        raise ValueError(f"y[{i}] is {shown(labels)}; give a tag for each of the {n} tokens.")
    tags = _values(labels)
    if len(tags) != n:
        raise ValueError(f"y[{i}] is {shown(labels)}; give a tag for each of the {n} tokens.")
    return [tag if type(tag) is str else _tag(tag, i, t) for t, tag in enumerate(tags)]


def _tag(tag: Any, i: int, t: int) -> Any:
    """Return a tag as a Python value, None if it is missing."""
    if isinstance(tag, str):
        return str.__str__(tag)
    if isinstance(tag, np.bool_ | np.integer | np.floating):
        tag = tag.item()
    if is_missing_tag(tag):
        return None
    check_small(tag, f"y[{i}][{t}]")
    if not isinstance(tag, int | float):
        raise ValueError(f"y[{i}][{t}] is {shown(tag)}; give one string or number a token.")
    return tag


def is_missing_tag(tag: Any) -> bool:
    """Whether a tag is None, NaN, or the missing value of pandas."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and (tag is pandas.NA or tag is pandas.NaT):
        return True
    return tag is None or (isinstance(tag, float) and math.isnan(tag))


def is_of_dicts(x: Any) -> bool:
    """Whether a sequence is a list of dicts."""
    if isinstance(x, str | bytes | memoryview | Mapping) or not isinstance(x, Sequence):
        return False
    return set(map(type, x)) <= {dict} or all(isinstance(token, Mapping) for token in x)


def sequence_of(x: Any, i: int) -> Any:
    """Return sequence ``i`` as a list of dicts, a sparse array, a narwhals frame or an array.

    An empty list may stand for a sequence without tokens in any form.  ValueError or TypeError if
    it is of another form.
    """
    if is_of_dicts(x):
        return x if isinstance(x, list | tuple) else list(x)
    if sparse.issparse(x):
        return x
    try:
        frame = _frame(x)
    except ValueError as error:  # it is lazy, or two columns have one name
        raise ValueError(re.sub(r"\bX\b", f"X[{i}]", str(error))) from None
    if isinstance(x, Mapping):
        raise ValueError(
            f"X[{i}] is {shown(x)}, a token where a sequence must be; give [X] if X is one "
            "sequence."
        )
    if frame is None and not _is_container(x):
        raise ValueError(f"X[{i}] is {shown(x)}; {_TOKENS}")
    if frame is not None:
        has_names = all(isinstance(name, str) for name in frame.columns)
        return frame if has_names else numbers_of(frame.to_numpy(), i)
    x = np.asarray(x) if isinstance(x, memoryview) else x
    if not isinstance(x, np.ndarray) or (x.dtype == object and x.ndim == 1):
        tokens = _values(x)
        if is_of_dicts(tokens):
            return tokens
        x = x if isinstance(x, np.ndarray) else tokens
    return numbers_of(x, i)


def numbers_of(x: Any, i: int) -> AnyArray:
    """Return the tokens of sequence ``i`` as an array of numbers, of unchecked shape.

    ValueError if it is no array of real numbers that floats can hold.
    """
    try:
        rows: AnyArray = x.toarray() if sparse.issparse(x) else np.asarray(x)
    except ValueError:
        raise ValueError(
            f"X[{i}] is {shown(x)}, whose tokens differ in length; {_TOKENS}"
        ) from None
    if isinstance(x, np.ma.MaskedArray) and np.ma.getmaskarray(x).any():
        raise ValueError(f"X[{i}] has masked values; impute them, or leave the sequence out.")
    if rows.dtype.kind == "O" and rows.ndim == 2 and all(map(is_real, rows.flat)):
        for value in rows.flat:
            check_small(value, f"X[{i}]")
        rows = np.array(rows, np.float64)
    if rows.dtype.kind not in "biuf":
        is_text = rows.ndim == 1 and rows.size > 0 and all(isinstance(word, str) for word in rows)
        words = " Words get features by structboost.text.TokenFeatures." if is_text else ""
        raise ValueError(f"X[{i}] is {shown(x)}; {_TOKENS}{words}")
    if rows.dtype.kind in "iu" and rows.size:
        check_small(max(int(rows.max()), -int(rows.min())), f"X[{i}]")
    if rows.dtype.kind == "f" and rows.dtype.itemsize not in (4, 8):
        rows = rows.astype(np.float32 if rows.dtype.itemsize == 2 else np.float64)
    return rows.astype(rows.dtype.newbyteorder("="), copy=False)


def is_numeric(frame: Any) -> bool:
    """Whether all columns of a narwhals frame are numbers or bools."""
    return all(dtype.is_numeric() or str(dtype) == "Boolean" for dtype in frame.schema.values())


def numbers_of_frame(frame: Any, i: int) -> FloatArray:
    """Return the columns of a narwhals frame as floats, NaN where a value is missing."""
    columns = [
        [np.nan if is_missing_tag(value) else value for value in frame[name].to_list()]
        for name in frame.columns
    ]
    table = np.empty((len(frame), len(columns)))
    for k, column in enumerate(columns):
        for value in column:
            check_small(value, f"X[{i}]")
        table[:, k] = column
    return table


def dicts_of_frame(frame: Any) -> list[dict[str, Any]]:
    """Return a dict of the values of each token of a narwhals frame."""
    columns = [frame[name].to_list() for name in frame.columns]
    return [dict(zip(frame.columns, row, strict=True)) for row in zip(*columns, strict=True)]


def _is_container(values: Any) -> bool:
    """Whether values have an order and can be read again, which iterators cannot."""
    is_other = isinstance(values, str | bytes | Mapping | Set | Iterator)
    has_axes = getattr(values, "ndim", 1) != 0  # an array of none is an Iterable that raises
    return not is_other and has_axes and isinstance(values, Iterable)


def _one_table(X: Any) -> str:
    """Describe a table that may hold several sequences, empty if it is no table."""
    if sparse.issparse(X):
        return f"one sparse matrix of shape {X.shape}"
    frame = _frame(X)
    if frame is not None:
        return f"one data frame of shape {frame.shape}"
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind != "O":
        return f"one array of shape {X.shape}"
    return ""


def _frame(x: Any) -> Any:
    """Return the narwhals frame of a data frame, else None."""
    return None if isinstance(x, list | tuple | np.ndarray) else frame_of(x)


def _values(x: Any) -> list[Any]:
    """Return the items of an iterable, in Python types if a series or an Arrow array has them."""
    if isinstance(x, list):
        return x
    for name in ("to_pylist", "to_list"):
        if hasattr(x, name):
            return list(getattr(x, name)())
    return list(x)


def is_real(value: Any) -> bool:
    """Whether a value is a real number or a bool."""
    return isinstance(value, Number | np.bool_) and not isinstance(value, complex)
