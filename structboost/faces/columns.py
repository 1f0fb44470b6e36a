"""Columns of tables as training had them, by names, with categories and their encoding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Self

import narwhals as nw
import numpy as np

from structboost._typing import AnyArray, FloatArray, IntArray
from structboost.errors import warn_user
from structboost.faces.forms import shape_of
from structboost.files.archive import DamagedFileError, finite_number, whole_number
from structboost.learners.binning import MOST_CATEGORIES
from structboost.runtime.column_names import are_labels, plain_labels
from structboost.validation import array_of, frame_of, is_missing, shown

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
    for f, label, values in _listed(X, columns):
        name = f"Column {label!r} of X"
        try:
            counts = {
                value.item() if isinstance(value, np.generic) else value: count
                for value, count in Counter(values).items()
                if not is_missing(value)
            }
        except TypeError as error:
            raise ValueError(
                f"{name} holds values that are no categories ({error}); leave it out of "
                "categorical_features."
            ) from error
        n_texts = sum(isinstance(value, str) and len(value.split()) > 3 for value in counts)
        if 2 * n_texts > sum(counts.values()):
            warn_user(
                f"{name} holds texts of several words, of which hardly any occurs often, so a "
                "category for each tells nothing of others. Columns of words are better, by "
                "sklearn.feature_extraction.text.TfidfVectorizer, beside others in "
                "sklearn.compose.make_column_transformer.",
                UserWarning,
            )
        categories[f] = _grouped(_in_order(counts, name), counts, name)
    return categories


def _grouped(ordered: list[Any], counts: Mapping[Any, int], name: str) -> list[Any]:
    """Return categories of which the rarest share the last entry, if there are too many."""
    if len(ordered) <= MOST_CATEGORIES:
        return ordered
    by_frequency = sorted(ordered, key=lambda value: -counts[value])
    rare = set(by_frequency[MOST_CATEGORIES - 1 :])
    n_rows = counts[by_frequency[MOST_CATEGORIES - 1]]
    warn_user(
        f"{name} has {len(ordered)} categories; the {MOST_CATEGORIES - 1} most frequent are apart, "
        f"and the {len(rare)} others, each in at most {n_rows} {'row' if n_rows == 1 else 'rows'}, "
        "count as one. If the text stands for numbers, give pandas.to_numeric(column); if it names "
        "the rows, leave it out; else sklearn.preprocessing.TargetEncoder makes numbers of it.",
        UserWarning,
    )
    frequent = [value for value in ordered if value not in rare]
    return [*frequent, RareCategories(value for value in ordered if value in rare)]


def codes_of(X: Any, categories: Categories, *, warn: bool = False) -> dict[int, FloatArray]:
    """Return the codes of categorical columns, NaN if missing or unknown.

    UserWarning if ``warn`` and nearly all values of a column are unknown.
    """
    codes = {}
    for f, label, values in _listed(X, categories):
        codes[f] = _codes(values, categories[f])
        if warn:
            _warn_of_unknown(values, codes[f], categories[f], label)
    return codes


def _plain_categories(categories: Categories) -> list[list[Any]]:
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


def _listed(X: Any, columns: Iterable[int]) -> Iterator[tuple[int, Any, list[Any]]]:
    """Yield the index of columns, their label, and their values as Python objects."""
    frame = frame_of(X)
    labels = () if frame is None else frame.columns
    for f in columns:
        if frame is None:
            yield f, f, np.asarray(X)[:, f].tolist()
        else:
            yield f, labels[f], frame.get_column(labels[f]).to_list()


def _in_order(values: Iterable[Any], name: str) -> list[Any]:
    """Return categories in ascending order, strings last."""
    try:
        return sorted(values, key=lambda value: (isinstance(value, str), value))
    except TypeError as error:
        raise ValueError(
            f"{name} has categories of types that have no common order ({error}); convert them to "
            "strings."
        ) from error


@dataclass(frozen=True)
class ColumnEncoding:
    """Columns that linear weak learners have in place of those of a table.

    The columns of a table stay in order.  A category becomes one column for each value, which is 1
    where the value is there.  A missing or unknown category is 0 in all of them.  A missing number
    becomes the mean of its column in training, and columns with missing values in training are
    followed by one that is 1 where the value is missing.

    Parameters
    ----------
    n_categories : tuple of int, shape (n_features,)
        Number of categories of each column of the table, -1 for numbers.
    means : tuple of float or None, shape (n_features,)
        Numbers that replace missing ones.  None if missing numbers stay.
    is_marked : tuple of bool, shape (n_features,)
        Whether a column follows that marks missing values.
    """

    n_categories: tuple[int, ...]
    means: tuple[float, ...] | None
    is_marked: tuple[bool, ...]

    @classmethod
    def of_training(
        cls, table: AnyArray, categories: Mapping[int, Sequence[Any]], *, fills: bool
    ) -> Self | None:
        """Return the encoding of a training table, or None if it would change nothing.

        ``fills`` is whether missing numbers become means.  ValueError if no column is left.
        """
        width = table.shape[1]
        if not (categories or fills):
            return None
        means, is_marked = [0.0] * width, [False] * width
        for f in range(width if fills else 0):
            if f not in categories:
                is_missing = np.isnan(table[:, f])
                is_marked[f] = bool(is_missing.any())
                present = table[~is_missing, f].astype(np.float64)
                # In ascending order, the sum does not depend on the order of the rows.
                means[f] = _mean(np.sort(present) if is_marked[f] else present)
        sizes = tuple(len(categories[f]) if f in categories else -1 for f in range(width))
        encoding = cls(sizes, tuple(means) if fills else None, tuple(is_marked))
        if not len(encoding.sources):
            raise ValueError(
                "X has categorical columns only, all of whose values are missing; give columns "
                "with values."
            )
        return encoding

    @property
    def adds_columns(self) -> bool:
        """Whether encoded columns are not the columns of the table."""
        return any(self.is_marked) or max(self.n_categories) >= 0

    @property
    def n_features(self) -> int:
        """Number of columns of the table."""
        return len(self.n_categories)

    @property
    def sources(self) -> IntArray:
        """Column of the table that each encoded column stems from, shape (n_encoded,)."""
        sizes = [
            1 + is_marked if n < 0 else n
            for n, is_marked in zip(self.n_categories, self.is_marked, strict=True)
        ]
        return np.repeat(np.arange(len(sizes)), sizes)

    def encode(self, table: AnyArray) -> AnyArray:
        """Return the encoded columns of a table, shape (n_samples, n_encoded)."""
        if not self.adds_columns:
            is_missing = np.isnan(table)
            if not is_missing.any() or self.means is None:
                return table
            return np.where(is_missing, self.means, table)
        out = np.zeros((len(table), len(self.sources)))
        place = 0
        for f, n in enumerate(self.n_categories):
            column, is_missing = table[:, f], np.isnan(table[:, f])
            if n >= 0:
                rows = np.flatnonzero(~is_missing)
                out[rows, place + column[rows].astype(np.int64)] = 1.0
                place += n
                continue
            out[:, place] = column
            if self.means is not None:
                out[is_missing, place] = self.means[f]
            if self.is_marked[f]:
                out[:, place + 1] = is_missing
            place += 1 + self.is_marked[f]
        return out

    def summed(self, values: FloatArray, axis: int = 0) -> FloatArray:
        """Add up values of encoded columns that stem from one column of the table."""
        moved = np.moveaxis(values, axis, 0)
        out = np.zeros((self.n_features, *moved.shape[1:]))
        np.add.at(out, self.sources, moved)
        return np.moveaxis(out, 0, axis)

    def names(self, names: Sequence[str], categories: Mapping[int, Sequence[Any]]) -> list[str]:
        """Return a name for each encoded column, such as ``city=Bonn`` or ``age is missing``."""
        out = []
        for f, n in enumerate(self.n_categories):
            if n >= 0:
                out += [f"{names[f]}={value}" for value in categories[f]]
                continue
            out.append(names[f])
            if self.is_marked[f]:
                out.append(f"{names[f]} is missing")
        return out

    def to_plain(self) -> dict[str, Any]:
        """Return the encoding as plain values of a model file."""
        return {
            "n_categories": list(self.n_categories),
            "means": None if self.means is None else list(self.means),
            "is_marked": list(self.is_marked),
        }

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Self:
        """Restore an encoding from plain values of a model file.

        DamagedFileError if the values do not belong together.
        """
        sizes = [
            whole_number(n, "number of categories", -1, MOST_CATEGORIES)
            for n in values["n_categories"]
        ]
        means = values["means"]
        if means is not None:
            means = tuple(finite_number(mean, "mean of a column") for mean in means)
        marks = tuple(mark is True for mark in values["is_marked"])
        if len(marks) != len(sizes) or (means is not None and len(means) != len(sizes)):
            raise DamagedFileError("its encoded columns do not belong together")
        return cls(tuple(sizes), means, marks)


def _mean(values: FloatArray) -> float:
    """Return a mean that does not overflow, 0 of no values."""
    return float((values / len(values)).sum()) if len(values) else 0.0


@dataclass(frozen=True)
class Columns:
    """Columns of a table, as training had them.

    Parameters
    ----------
    n_features : int
        Number of columns.
    labels : list, optional
        Text or whole numbers, by which later tables are put in order.
    categories : dict of int to sequence
        Categories of each categorical column, by its index.
    encoding : ColumnEncoding, optional
        Columns that the model has in their place.
    has_empty_rows : bool
        Whether a row of a sparse table of training was empty.
    """

    n_features: int
    labels: Sequence[Any] | None = None
    categories: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    encoding: ColumnEncoding | None = None
    has_empty_rows: bool = True

    @property
    def names(self) -> list[str] | None:
        """Names of the columns, if they are text."""
        has_names = self.labels is not None and isinstance(self.labels[0], str)
        return list(self.labels) if self.labels is not None and has_names else None

    @property
    def n_encoded(self) -> int:
        """Number of columns that the model has in their place."""
        return self.n_features if self.encoding is None else len(self.encoding.sources)

    @property
    def encoded_names(self) -> list[str]:
        """Names of the columns that the model has."""
        names = self.names or [f"x{i}" for i in range(self.n_features)]
        return names if self.encoding is None else self.encoding.names(names, self.categories)

    def to_plain(self) -> dict[str, Any]:
        """Return the columns as plain values of a model file."""
        return {
            "n_features": self.n_features,
            "labels": plain_labels(self.labels),
            "categories": _plain_categories(self.categories),
            "encoding": None if self.encoding is None else self.encoding.to_plain(),
            "has_empty_rows": self.has_empty_rows,
        }

    @classmethod
    def from_plain(cls, values: Mapping[str, Any], n_encoded: int) -> Self:
        """Restore columns from plain values of a file whose model has ``n_encoded`` columns.

        DamagedFileError if the values do not belong together.
        """
        encoding, labels = values["encoding"], values["labels"]
        width = whole_number(values["n_features"], "number of features", 1)
        columns = cls(
            width,
            labels,
            {
                whole_number(f, "index of a column", high=width - 1): [
                    RareCategories(v) if isinstance(v, list) else v for v in listed
                ]
                for f, listed in values["categories"]
            },
            None if encoding is None else ColumnEncoding.from_plain(encoding),
            values["has_empty_rows"] is not False,
        )
        has_labels = labels is None or (
            isinstance(labels, list) and len(labels) == columns.n_features and are_labels(labels)
        )
        if not has_labels:
            raise DamagedFileError(f"its features have the names {shown(labels)}")
        sizes = () if columns.encoding is None else columns.encoding.n_categories
        is_whole = columns.encoding is None or len(sizes) == width
        for f, n in enumerate(sizes):
            is_whole &= max(n, 0) == len(columns.categories.get(f, ()))
        if columns.n_encoded != n_encoded or not is_whole:
            raise DamagedFileError("its features do not belong to its model")
        return columns
