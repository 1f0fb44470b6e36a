"""Columns of 0 and 1 for categories and missing values, which linear functions cannot split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.files.schema import DamagedFileError, finite_number, whole_number
from structboost.learners.category_sets import MOST_CATEGORIES


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
        cls, table: NDArray[Any], categories: Mapping[int, Sequence[Any]], *, fills: bool
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

    def encode(self, table: NDArray[Any]) -> NDArray[Any]:
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
        out: list[str] = []
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
