"""Features and costs that users pass for decisions, read and checked once.

Features of instances are a table with a row for each.  Features of items are an array of numbers,
with a row for each item of each instance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, FloatArray
from structboost.decisions.problem import DecisionProblem
from structboost.errors import TaskError
from structboost.faces.columns import (
    ColumnEncoding,
    Columns,
    categorical_columns,
    categories_of,
    codes_of,
)
from structboost.faces.forms import checked_form, shape_of
from structboost.faces.table_numbers import numbers_of
from structboost.runtime.column_names import by_name, labels_of
from structboost.runtime.memory import check_memory
from structboost.validation import shown, without_mask


class DecisionInput(NamedTuple):
    """An input of :class:`PredictThenOptimizeTask` that needs more than one array.

    Parameters
    ----------
    instance : ndarray, shape (n_features,), optional
        Features of the instance.
    items : ndarray, shape (n_items, n_item_features), optional
        Features of its items.
    problem : DecisionProblem, optional
        Problem of this instance, where instances differ in what is feasible.
    """

    instance: AnyArray | None = None
    items: AnyArray | None = None
    problem: DecisionProblem | None = None


class Decision(NamedTuple):
    """An output of :class:`PredictThenOptimizeTask`.

    Parameters
    ----------
    chosen : ndarray, shape (n_items,)
        The decision z.
    costs : ndarray, shape (n_items,), optional
        The true costs c of a true output; None in a predicted one.
    """

    chosen: FloatArray
    costs: FloatArray | None = None


class _Tables(Sequence[Any]):
    """Examples of one shape, as tables that have a row for each and are attributes, too."""

    entry: type[Any]

    def __init__(self, **tables: AnyArray) -> None:
        self.tables = tables
        vars(self).update(tables)

    def __len__(self) -> int:
        return len(next(iter(self.tables.values())))

    def __getitem__(self, index: Any) -> Any:
        rows = {name: table[index] for name, table in self.tables.items()}
        return (self.entry if isinstance(index, int | np.integer) else type(self))(**rows)


class DecisionInputs(_Tables):
    """Inputs of finite features, as tables of the ``instance``, of the ``items``, or of both.

    ``features`` names the kinds for the task, and ``n_items`` is None where items have no features.
    """

    entry = DecisionInput

    def __init__(self, **tables: AnyArray) -> None:
        super().__init__(**tables)
        self.features: Any = "both" if len(tables) > 1 else next(iter(tables))
        self.n_items = tables["items"].shape[1] if "items" in tables else None


class TrueDecisions(_Tables):
    """True outputs of problems with equally many items, as tables ``chosen`` and ``costs``."""

    entry = Decision
    chosen: FloatArray
    costs: FloatArray


FACE = "PredictThenOptimize"
# Sums of such costs are finite.
_LARGEST = 1e300
# Kinds of features, which are of the instance or of its items.
_KINDS = ("instance", "items")


class FeatureReader:
    """Reader of features by the columns that each kind had in training.

    ``names`` has the names of all columns, and is None where there are none.
    """

    def __init__(self, columns: Mapping[str, Columns]) -> None:
        self.columns = dict(columns)
        self.n_features = sum(of_kind.n_features for of_kind in columns.values())
        self.names = columns["instance"].names if "instance" in columns else None

    @classmethod
    def fit(cls, X: Any, categorical_features: Any) -> tuple[Self, DecisionInputs]:
        """Read the features of training instances, and remember their columns.

        ValueError or TypeError if shapes or names do not fit, an entry is no number, or an input
        has a problem of its own.  TaskError, which names the instance, if features are infinite.
        """
        columns, encoded = {}, {}
        for kind, table in _tables(X).items():
            chosen = categorical_columns(
                table, categorical_features if kind == "instance" else None
            )
            if chosen and sparse.issparse(table):
                raise ValueError("X is sparse, with which categorical_features is not supported.")
            categories = categories_of(table, chosen)
            rows = _numbers(table, codes_of(table, categories))
            encoding = ColumnEncoding.of_training(rows, categories, fills=True)
            columns[kind] = Columns(rows.shape[1], labels_of(table), categories, encoding)
            encoded[kind] = _encoded(rows, table, columns[kind])
        return cls(columns), DecisionInputs(**encoded)

    def read(self, X: Any) -> DecisionInputs:
        """Read features after training, with the same errors."""
        tables = _tables(X)
        if tables.keys() != self.columns.keys():
            raise ValueError(
                f"X has features of the {' and the '.join(tables)}, and {FACE} was trained with "
                f"features of the {' and the '.join(self.columns)}; give those of training."
            )
        encoded = {}
        for kind, columns in self.columns.items():
            table = by_name(tables[kind], columns.labels, "X", FACE)
            if shape_of(table)[-1] != columns.n_features:
                raise ValueError(
                    f"X has {shape_of(table)[-1]} features, but {FACE} is expecting "
                    f"{columns.n_features} features as input."
                )
            rows = _numbers(table, codes_of(table, columns.categories, warn=True))
            encoded[kind] = _encoded(rows, table, columns)
        return DecisionInputs(**encoded)


def _tables(X: Any) -> dict[str, Any]:
    """Return the features of each kind, as a table of instances or an array of three axes."""
    if not isinstance(X, list | tuple) or not X or not isinstance(X[0], DecisionInput):
        X = checked_form(X, most_axes=3)
        return {_KINDS[len(shape_of(X)) - 2]: X}
    kinds = [kind for kind in _KINDS if getattr(X[0], kind) is not None]
    if not kinds:
        raise ValueError("X[0] has features neither of the instance nor of the items.")
    tables = {}
    for kind in kinds:
        arrays = [np.asarray(without_mask(getattr(x, kind))) for x in X]
        for i, (x, array) in enumerate(zip(X, arrays, strict=True)):
            if x.problem is not None:
                raise ValueError(
                    f"X[{i}] has a problem of its own; {FACE} has one problem for all, train "
                    "StructuredSVM(PredictThenOptimizeTask(None, ...)) instead."
                )
            if array.shape != arrays[0].shape or array.ndim != 1 + (kind == "items"):
                raise ValueError(
                    f"X[{i}].{kind} is {shown(getattr(x, kind))}; give all inputs arrays of one "
                    "shape, a vector of the instance and a row for each item."
                )
        tables[kind] = np.stack(arrays)
    return tables


def _numbers(table: Any, codes: dict[int, FloatArray]) -> FloatArray:
    """Return rows of floats, NaN where values are missing, and codes of categories."""
    shape = shape_of(table)
    rows = numbers_of(table.reshape(-1, shape[2]) if len(shape) == 3 else table, codes)
    if sparse.issparse(rows):
        check_memory(8.0 * rows.shape[0] * rows.shape[1], "Entries of X", "take fewer columns")
        rows = rows.toarray()
    floats = np.ascontiguousarray(rows, np.float64)
    for row, column in np.argwhere(np.isinf(floats)).tolist():
        name = (labels_of(table) or range(floats.shape[1]))[column]
        raise TaskError(
            f"X[{{sample}}] has {floats[row, column]} in feature {name!r}; give finite numbers. "
            "Missing ones may be NaN.",
            row * shape[0] // len(floats),
        )
    return floats


def _encoded(rows: FloatArray, table: Any, columns: Columns) -> FloatArray:
    """Return the features with the axes of their table."""
    if columns.encoding:
        rows = columns.encoding.encode(rows)
    return rows.reshape(*shape_of(table)[:-1], rows.shape[1])


def read_costs(
    costs: Any, n: int, n_items: int | None, names: Sequence[Any] | None = None
) -> tuple[FloatArray, list[Any] | None]:
    """Read costs of n instances as a table of n rows, and the names of the items, if there are any.

    Columns of a data frame are matched with ``names``, those of training.  TaskError, which names
    instance and item, if a cost is no number, or so large that sums of costs would overflow.
    """
    if costs is None:
        raise ValueError(f"{FACE} requires y to be passed, but the target y is None: give costs.")
    if sparse.issparse(costs):
        raise TypeError(f"costs is {shown(costs)}; write costs.toarray().")
    try:
        costs = checked_form(costs)
        labels = labels_of(costs)
        if labels and names:
            costs, labels = by_name(costs, names, "costs", FACE), list(names)
        # The order of entries in memory is that of sums, and so of their last bits.
        table = np.ascontiguousarray(numbers_of(costs, {}), np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(re.sub(r"\bX\b", "costs", str(error))) from error
    if len(table) != n:
        raise ValueError(
            f"costs has shape {table.shape}; give a row of costs for each of the {n} rows of X."
        )
    if n_items is not None and table.shape[1] != n_items:
        raise ValueError(
            f"X has features of {n_items} items, and costs has {table.shape[1]} columns; give one "
            "of each per item."
        )
    for i, item in np.argwhere(~(np.abs(table) <= _LARGEST)).tolist():
        raise TaskError(
            f"The costs of X[{{sample}}] have {table[i, item]} for item "
            f"{(labels or range(table.shape[1]))[item]!r}; leave the input out, or fill the cost "
            f"in, from {-_LARGEST} to {_LARGEST}.",
            i,
        )
    return table, labels
