"""Features and costs that users pass for decisions, read and checked once.

Features of an instance are a table with a row for each instance.  Features of items are read as
such a table, too, with a row for each item of each instance.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import narwhals as nw
import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, FloatArray
from structboost.decisions.problem import DecisionProblem
from structboost.errors import TaskError
from structboost.faces.columns import (
    ColumnEncoding,
    Columns,
    by_name,
    categorical_columns,
    categories_of,
    codes_of,
    labels_of,
)
from structboost.faces.forms import checked_form, frame_of, is_sparse, shape_of
from structboost.faces.table_numbers import numbers_of
from structboost.runtime.memory import check_memory
from structboost.validation import lacks_and_has, shown


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
        self.features = "both" if len(tables) > 1 else next(iter(tables))
        self.n_items = tables["items"].shape[1] if "items" in tables else None


class TrueDecisions(_Tables):
    """True outputs of problems with equally many items, as tables ``chosen`` and ``costs``."""

    entry = Decision
    chosen: FloatArray
    costs: FloatArray


FACE = "PredictThenOptimize"
# Kinds of features, which are of the instance or of its items.
_KINDS = ("instance", "items")


class FeatureReader:
    """Reader of features by the columns that each kind had in training.

    ``names`` has the names of all columns, and is None where some have none.
    """

    def __init__(self, columns: Mapping[str, Columns]) -> None:
        self.columns = dict(columns)
        self.n_features = sum(of_kind.n_features for of_kind in columns.values())
        names = [of_kind.names or [] for of_kind in columns.values()]
        self.names = [name for of_kind in names for name in of_kind] if all(names) else None

    @classmethod
    def fit(cls, X: Any, categorical_features: Any) -> tuple[Self, DecisionInputs]:
        """Read the features of training instances, and remember their columns.

        ValueError or TypeError if shapes or names do not fit, an entry is no number, or an input
        has a problem of its own.  TaskError, which names the instance, if features are infinite.
        """
        n, tables = _tables(X, {})
        labels = {kind: labels_of(table) for kind, table in tables.items()}
        columns, encoded = {}, {}
        for kind, table in tables.items():
            wanted = categorical_features
            if len(tables) > 1 and not isinstance(wanted, str | None):
                _check_names(wanted, labels)
                wanted = [name for name in wanted if name in (labels[kind] or ())]
            chosen = categorical_columns(table, wanted)
            if chosen and is_sparse(table):
                raise ValueError("X is sparse, with which categorical_features is not supported.")
            categories = categories_of(table, chosen)
            rows = _numbers(table, n, kind, categories, warn=False)
            encoding = ColumnEncoding.of_training(rows, categories, fills=True)
            columns[kind] = Columns(rows.shape[1], labels[kind], categories, encoding)
            encoded[kind] = _encoded(rows, n, kind, columns[kind])
        return cls(columns), DecisionInputs(**encoded)

    def read(self, X: Any) -> DecisionInputs:
        """Read features after training, with the same errors.

        Missing numbers of columns that had none in training are NaN.
        """
        n, tables = _tables(X, {kind: columns.labels for kind, columns in self.columns.items()})
        sizes = {kind: shape_of(table)[1] for kind, table in tables.items()}
        trained = {kind: columns.n_features for kind, columns in self.columns.items()}
        if sizes.keys() != trained.keys():
            raise ValueError(
                f"X has features of the {' and the '.join(sizes)}, and {FACE} was trained with "
                f"features of the {' and the '.join(trained)}; give those of training."
            )
        if sizes != trained:
            raise ValueError(
                f"X has {sum(sizes.values())} features, but {FACE} is expecting "
                f"{self.n_features} features as input: {trained}."
            )
        encoded = {}
        for kind, table in tables.items():
            rows = _numbers(table, n, kind, self.columns[kind].categories, warn=True)
            encoded[kind] = _encoded(rows, n, kind, self.columns[kind])
        return DecisionInputs(**encoded)


def _check_names(names: Sequence[Any], labels: Mapping[str, Sequence[Any] | None]) -> None:
    """Raise ValueError if categorical columns have other names than those of any kind."""
    columns = [name for of_kind in labels.values() for name in of_kind or ()]
    unknown = [name for name in names if name not in columns]
    if unknown:
        raise ValueError(
            f"categorical_features has {shown(unknown[0])}, and X has features of instances and of "
            f"items; give names of columns: {shown(labels)}."
        )


def _numbers(
    table: Any, n: int, kind: str, categories: Mapping[int, Sequence[Any]], *, warn: bool
) -> FloatArray:
    """Return floats, NaN where values are missing, and codes of categories.

    Errors about entries of items name the instance.
    """
    each = shape_of(table)[0] // n
    try:
        rows = numbers_of(table, codes_of(table, categories, warn=warn))
    except (TypeError, ValueError) as error:
        if kind == "instance":
            raise

        def place(row: re.Match[str]) -> str:
            i, item = divmod(int(row[1]), each)
            return f"in item {item} of X[{i}]"

        raise type(error)(re.sub(r"in row (\d+)", place, str(error))) from error
    if sparse.issparse(rows):
        check_memory(8.0 * rows.shape[0] * rows.shape[1], "Entries of X", "take fewer columns")
        rows = rows.toarray()
    floats: FloatArray = np.ascontiguousarray(rows, np.float64)
    is_infinite = ~(np.isfinite(floats) | np.isnan(floats))
    if is_infinite.any():
        row, column = np.argwhere(is_infinite)[0].tolist()
        where = f" of item {row % each}" if kind == "items" else ""
        name = (labels_of(table) or range(floats.shape[1]))[column]
        raise TaskError(
            f"X[{{sample}}] has {floats[row, column]} in feature {name!r}{where}; give finite "
            "numbers. Missing ones may be NaN.",
            row // each,
        )
    return floats


def _encoded(rows: FloatArray, n: int, kind: str, columns: Columns) -> FloatArray:
    """Return the features with an axis of instances."""
    if columns.encoding is not None:
        rows = columns.encoding.encode(rows)
    each = () if kind == "instance" else (len(rows) // n,)
    return rows.reshape(n, *each, rows.shape[1])


def _tables(X: Any, labels: Mapping[str, Sequence[Any] | None]) -> tuple[int, dict[str, Any]]:
    """Return the number of instances, and the features of each kind as a table.

    Rows of an instance stand below those of the one before, and columns in the order of training,
    if there are ``labels`` of it.
    """
    X = nw.to_native(X, pass_through=True)
    if isinstance(X, DecisionInput):
        raise TypeError("X is one DecisionInput; give a list of them, such as [X].")
    if isinstance(X, Mapping) and not sparse.issparse(X) and set(X) & set(_KINDS):
        raise TypeError(
            f"X is a {type(X).__name__} of features; give a list with a DecisionInput of each "
            "instance, such as [DecisionInput(instance=..., items=...)]."
        )
    first = X[0] if isinstance(X, list | tuple) and len(X) else None
    if not isinstance(first, DecisionInput) and frame_of(first) is None:
        X = checked_form(X, most_axes=3)
        n, *shape = shape_of(X)
        if len(shape) == 2:
            return n, {"items": X.reshape(-1, shape[1])}
        return n, {"instance": by_name(X, labels.get("instance"), "X", FACE) if labels else X}
    inputs = [x if isinstance(x, DecisionInput) else DecisionInput(items=x) for x in X]
    for i, x in enumerate(inputs):
        if x.problem is not None:
            raise ValueError(
                f"X[{i}] has a problem of its own; {FACE} has one problem for all, train "
                "StructuredSVM(PredictThenOptimizeTask(None, ...)) instead."
            )
    kinds = [kind for kind in _KINDS if getattr(inputs[0], kind) is not None]
    if not kinds:
        raise ValueError("X[0] has features neither of the instance nor of the items.")
    return len(inputs), {kind: _stacked(inputs, kind, labels) for kind in kinds}


def _stacked(
    inputs: Sequence[DecisionInput], kind: str, labels: Mapping[str, Sequence[Any] | None]
) -> Any:
    """Return the features of one kind of all instances one below the other."""
    blocks: list[Any] = []
    for i, x in enumerate(inputs):
        features, place = getattr(x, kind), f"X[{i}].{kind}"
        try:
            block = _block(features, kind)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{place} is {shown(features)}, which is refused: {error}") from error
        forms = [(shape_of(table), frame_of(table) is None) for table in (block, *blocks[:1])]
        if forms[0] != forms[-1] or is_sparse(block):
            raise ValueError(
                f"{place} is {shown(features)}; give all inputs data frames, or arrays, of the "
                f"shape of X[0].{kind}, which is {forms[-1][0]}."
            )
        names = labels.get(kind) if labels else labels_of(blocks[0] if i else block)
        blocks.append(by_name(block, names, place, FACE))
    if frame_of(blocks[0]) is None:
        # Strings would swallow numbers.
        is_plain = all(block.dtype.kind in "biuf" for block in blocks)
        return np.concatenate(blocks if is_plain else [block.astype(object) for block in blocks])
    try:
        return nw.concat([frame_of(block) for block in blocks], how="vertical").to_native()
    except Exception as error:
        raise TypeError(
            f"X has data frames of {kind} whose columns are of different types ({error}); give "
            "each column one type in all of them."
        ) from error


def _block(features: Any, kind: str) -> Any:
    """Return the features of one instance as a data frame or an array of two axes."""
    features = nw.to_native(features, pass_through=True)
    if kind == "instance":
        frame = frame_of(features)
        if frame is not None and len(frame) == 1:
            return features
        if hasattr(features, "to_frame") and labels_of(features) is not None:  # of pandas
            return features.to_frame().T.infer_objects()
        features = features if features is None else [features]
    return checked_form(features)


def read_costs(
    costs: Any, n: int, n_items: int | None, names: Sequence[Hashable] | None = None
) -> tuple[FloatArray, list[Hashable] | None]:
    """Read costs of n instances as a table of n rows, and the names of the items, if there are any.

    Columns of a data frame are matched with ``names``, those of the problem or of training, or with
    their text.  TaskError, which names instance and item, if a cost is no finite number.
    """
    if costs is None:
        raise ValueError(f"{FACE} requires y to be passed, but the target y is None: give costs.")
    if sparse.issparse(costs):
        raise TypeError(f"costs is {shown(costs)}; write costs.toarray().")
    ordered = None if names is None else list(names)
    try:
        frame = frame_of(costs)
        if frame is None:
            values = checked_form(costs)
        else:
            costs = nw.to_native(costs, pass_through=True)
            columns = list(costs.columns if hasattr(costs, "iloc") else frame.columns)
            places = list(range(len(columns)))
            if set(columns) == set(places):
                # Labels that pandas gives to columns without names, perhaps in another order.
                order = [columns.index(place) for place in places]
            else:
                ordered = ordered or columns
                order = _order(columns, ordered)
            values = np.array([frame[:, place].to_list() for place in order], object).T
        # The order of entries in memory is that of sums, and so of their last bits.
        table: FloatArray = np.ascontiguousarray(numbers_of(values, {}), np.float64)
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
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        i, item = bad[0].tolist()
        name = item if ordered is None else repr(ordered[item])
        raise TaskError(
            f"The costs of X[{{sample}}] have {table[i, item]} for item {name}; leave the input "
            "out, or fill the cost in.",
            i,
        )
    return table, ordered


def _order(columns: list[Any], names: list[Hashable]) -> list[int]:
    """Return the place of the column of each item."""
    texts = [str(name) for name in names]
    wanted: list[Any] = texts if set(columns) == set(texts) else names
    missing = [name for name in wanted if name not in columns]
    unknown = [column for column in columns if column not in wanted]
    if missing or unknown:
        raise ValueError(
            f"The columns of costs must have the names of the items, such as {names[0]!r}; costs "
            f"{lacks_and_has(missing, unknown)}. Rename the columns, or give costs.to_numpy() with "
            "the columns in the order of the items."
        )
    return [columns.index(name) for name in wanted]
