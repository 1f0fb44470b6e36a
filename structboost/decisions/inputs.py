"""Features and costs that users pass for decisions, read and checked once.

Features of an instance are a table with a row for each instance.  Features of items are read as
such a table, too, with a row for each item of each instance.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import FloatArray
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
from structboost.faces.exact_numbers import check_exact
from structboost.faces.table_forms import checked_form, frame_of, is_sparse, shape_of
from structboost.faces.table_numbers import numbers_of
from structboost.runtime.memory import check_memory
from structboost.validation import is_missing, lacks_and_has, shown, without_mask


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

    instance: NDArray[Any] | None = None
    items: NDArray[Any] | None = None
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

    def __init__(self, **tables: NDArray[Any]) -> None:
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

    def __init__(self, **tables: NDArray[Any]) -> None:
        super().__init__(**tables)
        self.features = "both" if len(tables) > 1 else next(iter(tables))
        self.n_items = tables["items"].shape[1] if "items" in tables else None


class TrueDecisions(_Tables):
    """True outputs of problems with equally many items, as tables ``chosen`` and ``costs``."""

    entry = Decision
    chosen: FloatArray
    costs: FloatArray


FACE = "PredictThenOptimize"
# Kinds of features, which are of the instance or of its items, and the axes of their tables.
_AXES = {"instance": 2, "items": 3}


class _Stack:
    """Features of one kind of all n instances as one table, one instance after the other."""

    def __init__(self, table: Any, n: int, kind: str) -> None:
        self.table, self.n, self.kind = table, n, kind
        self.n_rows, self.n_features = shape_of(table)

    def numbers(self, categories: Mapping[int, Sequence[Any]], *, warn: bool) -> FloatArray:
        """Return numbers, NaN where values are missing, and codes of categories.

        Errors about entries of items name the instance.
        """
        try:
            rows = numbers_of(self.table, codes_of(self.table, categories, warn=warn))
        except (TypeError, ValueError) as error:
            if self.kind == "items":
                self._raise_for_instance(categories, error)
            raise
        if sparse.issparse(rows):
            check_memory(8.0 * self.n_rows * self.n_features, "Entries of X", "take fewer columns")
            rows = rows.toarray()
        dtype = np.asarray(rows).dtype
        if dtype.kind not in "biuf":
            raise ValueError(f"Complex data not supported: X holds {dtype}; give real numbers.")
        table: FloatArray = np.ascontiguousarray(rows, np.float64)
        is_infinite = ~(np.isfinite(table) | np.isnan(table))
        if is_infinite.any():
            row, column = np.argwhere(is_infinite)[0].tolist()
            each = self.n_rows // self.n
            where = f" of item {row % each}" if self.kind == "items" else ""
            name = (labels_of(self.table) or range(self.n_features))[column]
            raise TaskError(
                f"X[{{sample}}] has {table[row, column]} in feature {name!r}{where}; give finite "
                "numbers. Missing ones may be NaN.",
                row // each,
            )
        return table

    def _raise_for_instance(
        self, categories: Mapping[int, Sequence[Any]], error: Exception
    ) -> None:
        """Raise the error of the first instance that has one of its own."""
        each, frame = self.n_rows // self.n, frame_of(self.table)
        for i in range(self.n):
            part = slice(each * i, each * (i + 1))
            rows = self.table[part] if frame is None else frame[part].to_native()
            try:
                numbers_of(rows, codes_of(rows, categories))
            except (TypeError, ValueError) as reason:
                raise type(reason)(f"X[{i}] has items that are refused: {reason}") from error


class FeatureReader:
    """Reader of features by the columns that each kind had in training.

    ``names`` has the names of all columns, and is None where some have none.
    """

    def __init__(self, columns: Mapping[str, Columns]) -> None:
        self.columns = dict(columns)
        self.n_features = sum(one.n_features for one in columns.values())
        names = [one.names or [] for one in columns.values()]
        self.names = [name for of_kind in names for name in of_kind] if all(names) else None

    @classmethod
    def fit(cls, X: Any, categorical_features: Any) -> tuple[Self, DecisionInputs]:
        """Read the features of training instances, and remember their columns.

        ValueError or TypeError if shapes or names do not fit, an entry is no number, or an input
        has a problem of its own.  TaskError, which names the instance, if features are infinite.
        """
        stacks = _stacks(X, {})
        columns, tables = {}, {}
        for kind, stack in stacks.items():
            chosen = categorical_columns(stack.table, _of_kind(categorical_features, kind, stacks))
            if chosen and is_sparse(stack.table):
                raise ValueError("X is sparse, with which categorical_features is not supported.")
            categories = categories_of(stack.table, chosen)
            rows = stack.numbers(categories, warn=False)
            encoding = ColumnEncoding.of_training(rows, categories, fills=True)
            columns[kind] = Columns(stack.n_features, labels_of(stack.table), categories, encoding)
            tables[kind] = _encoded(stack, columns[kind], rows)
        return cls(columns), DecisionInputs(**tables)

    def read(self, X: Any) -> DecisionInputs:
        """Read features after training, with the same errors.

        Missing numbers of columns that had none in training are NaN.
        """
        stacks = _stacks(X, {kind: columns.labels for kind, columns in self.columns.items()})
        sizes = {kind: stack.n_features for kind, stack in stacks.items()}
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
        tables = {}
        for kind, stack in stacks.items():
            columns = self.columns[kind]
            rows = stack.numbers(columns.categories, warn=True)
            tables[kind] = _encoded(stack, columns, rows)
        return DecisionInputs(**tables)


def _encoded(stack: _Stack, columns: Columns, rows: FloatArray) -> FloatArray:
    """Return the features with an axis of instances."""
    if columns.encoding is not None:
        rows = columns.encoding.encode(rows)
    each = () if stack.kind == "instance" else (len(rows) // stack.n,)
    return rows.reshape(stack.n, *each, rows.shape[1])


def _of_kind(wanted: Any, kind: str, stacks: Mapping[str, _Stack]) -> Any:
    """Return the categorical columns of one kind of features."""
    if len(stacks) == 1 or wanted is None or isinstance(wanted, str):
        return wanted
    columns = {name: labels_of(stack.table) or [] for name, stack in stacks.items()}
    unknown = [one for one in wanted if not any(one in names for names in columns.values())]
    if unknown:
        raise ValueError(
            f"categorical_features has {shown(unknown[0])}, and X has features of instances and of "
            f"items; give names of columns: {shown(columns)}."
        )
    return [one for one in wanted if one in columns[kind]]


def _stacks(X: Any, labels: Mapping[str, Sequence[Any] | None]) -> dict[str, _Stack]:
    """Return the features of each kind, with columns in the order of training."""
    X = nw.to_native(X, pass_through=True)
    if isinstance(X, DecisionInput):
        raise TypeError("X is one DecisionInput; give a list of them, such as [X].")
    if isinstance(X, Mapping) and not sparse.issparse(X) and set(X) & set(_AXES):
        raise TypeError(
            f"X is a {type(X).__name__} of features; give a list with a DecisionInput of each "
            "instance, such as [DecisionInput(instance=..., items=...)]."
        )
    first = X[0] if isinstance(X, list | tuple) and len(X) else None
    if isinstance(first, DecisionInput):
        blocks = {kind: _blocks(X, kind) for kind in _AXES}
    elif frame_of(first) is not None:
        blocks = {"items": _blocks([DecisionInput(items=frame) for frame in X], "items")}
    else:
        return _stack_of_table(X, labels)
    stacks = {
        kind: _stack_of_blocks(of_kind, kind, labels.get(kind), trained=bool(labels))
        for kind, of_kind in blocks.items()
        if of_kind
    }
    if not stacks:
        raise ValueError("X[0] has features neither of the instance nor of the items.")
    return stacks


def _stack_of_table(X: Any, labels: Mapping[str, Sequence[Any] | None]) -> dict[str, _Stack]:
    X = checked_form(X, most_axes=3)
    shape = shape_of(X)
    if len(shape) == 3:
        return {"items": _Stack(X.reshape(-1, shape[2]), shape[0], "items")}
    if labels:
        X = by_name(X, labels.get("instance"), "X", FACE)
    return {"instance": _Stack(X, shape[0], "instance")}


def _blocks(X: Sequence[DecisionInput], kind: str) -> list[Any]:
    """Return the features of one kind of all inputs, none where the first input has none."""
    blocks, shape = [], None
    for i, x in enumerate(X):
        if not isinstance(x, DecisionInput):
            raise TypeError(f"X[{i}] is {shown(x)}; give a DecisionInput, as X[0] is one.")
        if x.problem is not None:
            raise ValueError(
                f"X[{i}] has a problem of its own; {FACE} has one problem for all, train "
                "StructuredSVM(PredictThenOptimizeTask(None, ...)) instead."
            )
        block = nw.to_native(getattr(x, kind), pass_through=True)
        blocks.append(_checked_block(block, kind, f"X[{i}].{kind}"))
        of_block = None if block is None else shape_of(blocks[i])
        if i == 0:
            shape = of_block
        elif of_block != shape:
            raise ValueError(
                f"X[{i}].{kind} is {shown(block)}, and X[0].{kind} has the shape "
                f"{() if shape is None else shape}; give all inputs features of one shape."
            )
        elif (frame_of(blocks[i]) is None) != (frame_of(blocks[0]) is None):
            raise TypeError(
                f"X[{i}].{kind} is a {type(block).__name__}, and X[0].{kind} a "
                f"{type(getattr(X[0], kind)).__name__}; give data frames, or arrays, in all inputs."
            )
    return [] if shape is None else blocks


def _checked_block(block: Any, kind: str, place: str) -> Any:
    """Return the features of one instance as a data frame or an array of two axes."""
    if block is None:
        return None
    if kind == "instance":
        frame = frame_of(block)
        if frame is not None and len(frame) == 1:
            return block
        if hasattr(block, "to_frame") and labels_of(block) is not None:  # a series of pandas
            return block.to_frame().T.infer_objects()
        block = [block]
    try:
        table = checked_form(block)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{place} is {shown(block)}, which is refused: {error}") from error
    if len(shape_of(table)) != 2 or is_sparse(table):
        raise ValueError(
            f"{place} is {shown(block)}; give an array of shape "
            f"{'(n_features,)' if kind == 'instance' else '(n_items, n_features)'}."
        )
    return table


def _stack_of_blocks(
    blocks: list[Any], kind: str, labels: Sequence[Any] | None, *, trained: bool
) -> _Stack:
    """Return blocks one below the other."""
    if not trained:
        labels = labels_of(blocks[0])
    named = [by_name(block, labels, f"X[{i}].{kind}", FACE) for i, block in enumerate(blocks)]
    if frame_of(named[0]) is None:
        # Strings would swallow numbers.
        is_plain = all(block.dtype.kind in "biuf" for block in named)
        arrays: list[NDArray[Any]] = named if is_plain else [b.astype(object) for b in named]
        return _Stack(np.concatenate(arrays), len(blocks), kind)
    try:
        table = nw.concat([frame_of(block) for block in named], how="vertical").to_native()
    except Exception as error:
        raise TypeError(
            f"X has data frames of {kind} whose columns are of different types ({error}); give "
            "each column one type in all of them."
        ) from error
    return _Stack(table, len(blocks), kind)


Names = Sequence[Hashable]


def read_costs(
    costs: Any, n: int, n_items: int | None, names: Names | None = None
) -> tuple[FloatArray, list[Hashable] | None]:
    """Read costs of n instances as a table of n rows, and the names of the items, if there are any.

    Columns of a data frame are matched with ``names``, those of the problem or of training, or with
    their text.  TaskError, which names instance and item, if a cost is no finite number.
    """
    values, names = _by_item(nw.to_native(costs, pass_through=True), n, names)
    if values.ndim != 2 or len(values) != n:
        raise ValueError(
            f"costs has shape {values.shape}; give a row of costs for each of the {n} rows of X."
        )
    if n_items is not None and values.shape[1] != n_items:
        raise ValueError(
            f"X has features of {n_items} items, and costs has {values.shape[1]} columns; give one "
            "of each per item."
        )
    check_exact(values, "costs")
    table = _numbers(values, names)
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        _raise_for_entry(table, names, *bad[0].tolist())
    # The order of entries in memory is that of sums, and so of their last bits.
    return np.ascontiguousarray(table), names


def _by_item(costs: Any, n: int, names: Names | None) -> tuple[Any, list[Hashable] | None]:
    """Return costs as an array with the items in order, and their names."""
    ordered = None if names is None else list(names)
    form = f"give an array or a data frame with a row of numbers for each of the {n} rows of X"
    if costs is None:
        raise ValueError(
            "PredictThenOptimize requires y to be passed, but the target y is None: give costs."
        )
    if isinstance(costs, str | bytes | Mapping | Set | Iterator) or sparse.issparse(costs):
        hint = "write costs.toarray()" if sparse.issparse(costs) else form
        raise TypeError(f"costs is {shown(costs)}; {hint}.")
    try:
        frame = frame_of(costs)
    except ValueError as error:
        raise ValueError(str(error).replace("X", "costs")) from None
    if frame is None:
        return _array(costs, form), ordered
    columns = list(costs.columns if hasattr(costs, "iloc") else frame.columns)
    counted: list[Any] = list(range(len(columns)))
    if set(columns) == set(counted):
        # Labels that pandas gives to columns without names, perhaps in another order.
        order = [columns.index(item) for item in counted]
    else:
        ordered = ordered or columns
        order = _order(columns, ordered)
    table = np.empty((len(frame), len(order)), object)
    for place, column in enumerate(order):
        table[:, place] = frame[:, column].to_list()
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


def _array(costs: Any, form: str) -> Any:
    """Return an array, perhaps of objects, and name the first row that is no row of numbers."""
    try:
        values = np.asarray(without_mask(costs))
    except (TypeError, ValueError):
        values = None
    if values is None or (values.dtype.kind == "O" and values.ndim < 2):
        _raise_for_row(costs, form)
        values = np.array([list(row) for row in costs], object)
    return values


def _raise_for_row(costs: Any, form: str) -> None:
    """Raise ValueError for the first entry that is no row or has another length."""
    is_sized = hasattr(costs, "__len__") and hasattr(costs, "__iter__")
    if isinstance(costs, type) or not is_sized or not len(costs):
        raise TypeError(f"costs is {shown(costs)}; {form}.")
    lengths = [len(row) if hasattr(row, "__len__") else None for row in costs]
    for i, length in enumerate(lengths):
        if length is None or isinstance(costs[i], str | bytes | Mapping | Set):
            raise ValueError(f"costs[{i}] is {shown(costs[i])}; {form}.")
    usual = max(set(lengths), key=lengths.count)
    for i, length in enumerate(lengths):
        if length != usual:
            raise ValueError(f"costs[{i}] has {length} entries, and other rows {usual}; {form}.")


def _numbers(values: Any, names: Names | None) -> FloatArray:
    """Return floats of an array, and name the first entry that is no real number."""
    if values.dtype.kind in "biuf":
        return np.asarray(values, np.float64)
    table = np.full(values.shape, np.nan)
    for i, row in enumerate(values.tolist()):
        for item, value in enumerate(row):
            if is_missing(value):
                continue
            try:
                if isinstance(value, str | bytes | complex) or hasattr(value, "year"):
                    raise TypeError
                table[i, item] = float(value)
            except (TypeError, ValueError, OverflowError):
                _raise_for_entry(values, names, i, item)
    return table


def _raise_for_entry(values: Any, names: Names | None, i: int, item: int) -> None:
    value = values[i, item]
    text = value if isinstance(value, float) else shown(value)
    name = item if names is None else repr(names[item])
    raise TaskError(
        f"The costs of X[{{sample}}] have {text} for item {name}; leave the input out, "
        "or fill the cost in.",
        i,
    )
