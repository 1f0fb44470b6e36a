"""Categorical columns of tables, and their encoding as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import narwhals as nw
import numpy as np

from structboost._typing import FloatArray
from structboost.errors import warn_user
from structboost.faces.table_forms import frame_of, shape_of
from structboost.learners.category_sets import MOST_CATEGORIES
from structboost.validation import array_of, is_missing, is_number, shown

FROM_DTYPE = "from_dtype"
# Fraction of the values of a column that are unknown, where the column is not that of training.
_NEARLY_ALL = 0.9
# Ordered categories of a column, whose positions are their codes.
Categories = Mapping[int, Sequence[Any]]


class RareCategories(tuple[Any, ...]):
    """Categories of a column that share one code, because the column has too many."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} rare categories>"


def categorical_columns(X: Any, wanted: Any) -> list[int]:
    """Return the indices of the categorical columns of a table.

    ValueError if it names no columns of X.
    """
    frame = frame_of(X)
    if wanted is None or (isinstance(wanted, str) and wanted == FROM_DTYPE):
        if wanted is None or frame is None:
            return []
        kinds = (nw.Categorical, nw.Enum, nw.String)
        return [i for i, dtype in enumerate(frame.schema.values()) if isinstance(dtype, kinds)]
    selection, n_columns = array_of(wanted), shape_of(X)[1]
    if selection.dtype.kind in "UO" and frame is not None and selection.ndim == 1:
        unknown = [name for name in selection.tolist() if name not in frame.columns]
        if unknown:
            raise ValueError(
                f"categorical_features names {unknown[0]!r}, which is no column of X; it has "
                f"{shown(frame.columns)}."
            )
        return sorted(frame.columns.index(name) for name in selection.tolist())
    if selection.dtype.kind == "b" and selection.shape == (n_columns,):
        return [int(f) for f in np.flatnonzero(selection)]
    is_index = selection.dtype.kind in "iu" and selection.ndim == 1
    if is_index and (selection >= 0).all() and (selection < n_columns).all():
        return [int(f) for f in np.unique(selection)]
    if selection.ndim == 1 and not selection.size:
        return []
    raise ValueError(
        f"categorical_features is {shown(wanted)}; give 'from_dtype', None, names of columns of a "
        f"data frame, column indices from 0 to {n_columns - 1}, or a mask of {n_columns} bool."
    )


def categories_of(X: Any, columns: Sequence[int]) -> dict[int, list[Any]]:
    """Return the categories that occur in columns.

    If a column has too many, the most frequent ones, and of equally frequent ones the first in
    order, have codes of their own.  The last entry holds the others.  ValueError if a column holds
    values that are no categories; the message names it.  UserWarning if categories of a column are
    grouped.
    """
    categories = {}
    for f in columns:
        name = f"Column {_name(X, f)!r} of X"
        try:
            counts = {
                value.item() if isinstance(value, np.generic) else value: count
                for value, count in Counter(_values(X, f)).items()
                if not is_missing(value)
            }
        except TypeError as error:
            raise ValueError(
                f"{name} holds values that are no categories ({error}); leave it out of "
                "categorical_features."
            ) from error
        categories[f] = _grouped(_in_order(counts, name), counts, name)
    return categories


def _grouped(ordered: list[Any], counts: Mapping[Any, int], name: str) -> list[Any]:
    """Return categories of which the rarest share the last entry, if there are too many."""
    if len(ordered) <= MOST_CATEGORIES:
        return ordered
    by_frequency = sorted(ordered, key=lambda value: -counts[value])
    rare = set(by_frequency[MOST_CATEGORIES - 1 :])
    n_rows = counts[by_frequency[MOST_CATEGORIES - 1]]
    is_text = sum(isinstance(value, str) and is_number(value) for value in ordered)
    remedy = (
        "If the text stands for numbers, give pandas.to_numeric(column, errors='coerce')."
        if is_text > len(ordered) / 2
        else "If the column names the rows, leave it out of X; else "
        "sklearn.preprocessing.TargetEncoder makes a number of each category."
    )
    warn_user(
        f"{name} has {len(ordered)} categories; the {MOST_CATEGORIES - 1} most frequent are apart, "
        f"and the {len(rare)} others, each in at most {n_rows} {'row' if n_rows == 1 else 'rows'}, "
        f"count as one. {remedy}",
        UserWarning,
    )
    frequent = [value for value in ordered if value not in rare]
    return [*frequent, RareCategories(value for value in ordered if value in rare)]


def codes_of(X: Any, categories: Categories, *, warn: bool = False) -> dict[int, FloatArray]:
    """Return the codes of categorical columns, NaN if missing or unknown.

    UserWarning if ``warn`` and nearly all values of a column are unknown.
    """
    codes = {}
    for f, of_column in categories.items():
        values = _values(X, f)
        codes[f] = _codes(values, of_column)
        if warn:
            _warn_of_unknown(values, codes[f], of_column, _name(X, f))
    return codes


def plain_categories(categories: Categories) -> list[list[Any]]:
    """Return categories for a model file, or raise TypeError if no file can hold one."""
    for f, values in categories.items():
        listed = [value if isinstance(value, RareCategories) else (value,) for value in values]
        for value in chain.from_iterable(listed):
            if not isinstance(value, (str, int, float)):
                raise TypeError(
                    f"Column {f} of X has the category {shown(value)} of type "
                    f"{type(value).__name__}; files of models hold strings and numbers. Convert "
                    "it to strings before the fit, or keep this model with joblib.dump."
                )
    return [[f, values] for f, values in categories.items()]


def saved_categories(entries: Iterable[Any]) -> dict[int, list[Any]]:
    """Restore what :func:`plain_categories` returned, from a file."""
    return {
        int(f): [RareCategories(one) if isinstance(one, list) else one for one in values]
        for f, values in entries
    }


def _warn_of_unknown(
    values: Sequence[Any], codes: FloatArray, categories: Sequence[Any], name: Any
) -> None:
    """Warn if a column has values, and nearly all of them are no categories."""
    uncoded = (values[i] for i in np.flatnonzero(np.isnan(codes)).tolist())
    unknown = [value for value in uncoded if not is_missing(value)]
    n_present = len(unknown) + np.count_nonzero(~np.isnan(codes))
    if not unknown or len(unknown) < _NEARLY_ALL * n_present:
        return
    is_any = len(unknown) < n_present
    how_many = f"{len(unknown)} of {n_present} values" if is_any else "no value"
    warn_user(
        f"Column {name!r} of X has {how_many} that training {'did not have' if is_any else 'had'}: "
        f"it holds {shown(unknown[0])}, and training had {shown(list(categories))}. Values that "
        "training did not have count as missing.",
        UserWarning,
    )


def _codes(values: Sequence[Any], categories: Sequence[Any]) -> FloatArray:
    code: dict[Any, float] = {}
    for i, value in enumerate(categories):
        if isinstance(value, RareCategories):
            code |= dict.fromkeys(value, float(i))
        else:
            code[value] = float(i)
    try:
        return np.array([code.get(value, np.nan) for value in values], np.float64)
    except TypeError:  # lists and the like are no categories
        hashable = [value if isinstance(value, Hashable) else None for value in values]
        return np.array([code.get(value, np.nan) for value in hashable], np.float64)


def _values(X: Any, f: int) -> Sequence[Any]:
    """Return the values of a column as Python objects."""
    frame = frame_of(X)
    if frame is None:
        return list(np.asarray(X)[:, f].tolist())
    return list(frame.get_column(frame.columns[f]).to_list())


def _name(X: Any, f: int) -> Any:
    frame = frame_of(X)
    return f if frame is None else frame.columns[f]


def _in_order(values: Iterable[Any], name: str) -> list[Any]:
    """Return categories in ascending order, strings last."""
    try:
        return sorted(values, key=lambda value: (isinstance(value, str), value))
    except TypeError as error:
        raise ValueError(
            f"{name} has categories of types that have no common order ({error}); convert them to "
            "strings."
        ) from error
