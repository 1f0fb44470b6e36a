"""Features and costs that users pass for decisions, read and checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_array

from structboost._typing import FloatArray
from structboost.decisions.task import DecisionInput
from structboost.estimators.column_names import by_name, names_of
from structboost.estimators.table_forms import frame_of
from structboost.exceptions import TaskError
from structboost.validation import shown

_FACE = "PredictThenOptimize"
# Kinds of features, and the axes of their tables.
_AXES = {"instance": 2, "items": 3}

# By the kind of features, which are of the instance or of the items.
Tables = Mapping[str, FloatArray]
Names = Mapping[str, list[str]]


def read_features(
    X: Any, trained: tuple[Names, Mapping[str, int]] | None = None
) -> tuple[dict[str, FloatArray], Names]:
    """Read the features that :meth:`PredictThenOptimize.fit` takes, and the names in frames.

    After training, ``trained`` are its names and numbers of features.

    Raises
    ------
    ValueError
        If shapes or names do not fit, or an input has a problem of its own.
    TaskError
        If features are not finite; the message names the instance.
    """
    names = {} if trained is None else dict(trained[0])

    def ordered(block: Any, kind: str, place: str) -> Any:
        if trained is None and (of_block := names_of(block)) is not None:
            names.setdefault(kind, of_block)
        return by_name(block, names.get(kind), place, _FACE)

    tables: dict[str, FloatArray] = {}
    first = X[0] if isinstance(X, Sequence) and len(X) else None
    if frame_of(first) is not None:
        X = [DecisionInput(items=frame) for frame in X]
        first = X[0]
    if isinstance(first, DecisionInput):
        for kind in _AXES:
            blocks = [
                ordered(block, kind, f"X[{i}].{kind}") for i, block in enumerate(_blocks(X, kind))
            ]
            if blocks:
                tables[kind] = np.array(blocks, np.float64)
        if not tables:
            raise ValueError("X[0] has features neither of the instance nor of the items.")
    else:
        # Rows of NaN are named below.
        table = check_array(
            ordered(X, "instance", "X"), dtype=np.float64, order="C", allow_nd=True,
            ensure_all_finite=False, estimator=_FACE,
        )  # fmt: skip
        tables["instance" if table.ndim == 2 else "items"] = table
    for kind, table in tables.items():
        if table.ndim != _AXES[kind] or not table.size:
            raise ValueError(
                f"X has shape {table.shape}; give (n, n_features) for features of instances, "
                "(n, n_items, n_features) for features of items."
            )
        bad = np.flatnonzero(~np.isfinite(table).all(axis=tuple(range(1, table.ndim))))
        if len(bad):
            raise TaskError("X[{sample}] has NaN or infinite features; impute them.", int(bad[0]))
    sizes = {kind: table.shape[-1] for kind, table in tables.items()}
    if trained is not None and sizes != trained[1]:
        raise ValueError(
            f"X has {sum(sizes.values())} features, but {_FACE} is expecting "
            f"{sum(trained[1].values())} features as input: {dict(trained[1])}."
        )
    return tables, names


def _blocks(X: Sequence[DecisionInput], kind: str) -> list[Any]:
    """Return the features of one kind of all inputs, none where the first input has none."""
    first = getattr(X[0], kind)
    for i, x in enumerate(X):
        block = getattr(x, kind)
        if x.problem is not None:
            raise ValueError(
                f"X[{i}] has a problem of its own; {_FACE} has one problem for all, train "
                "StructuredSVM(PredictThenOptimizeTask(None, ...)) instead."
            )
        if np.shape(block) != np.shape(first) or (block is None) != (first is None):
            raise ValueError(
                f"X[{i}].{kind} is {shown(block)}, and X[0].{kind} has the shape "
                f"{np.shape(first)}; give all inputs features of one shape."
            )
    return [] if first is None else [getattr(x, kind) for x in X]


def read_costs(costs: Any, tables: Tables) -> FloatArray:
    """Read costs as a table that has as many rows and items as the features."""
    n = len(next(iter(tables.values())))
    if costs is None:
        raise ValueError(f"{_FACE} requires y to be passed, but the target y is None: give costs.")
    try:
        # The order of entries in memory is that of sums, and so of their last bits.
        table = np.asarray(costs, np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"costs is {shown(costs)} ({error}); give a row of numbers for each of {n} X."
        ) from None
    if table.ndim != 2 or len(table) != n:
        raise ValueError(f"costs has shape {table.shape}; give a row of costs for each of {n} X.")
    if "items" in tables and tables["items"].shape[1] != table.shape[1]:
        raise ValueError(
            f"X has features of {tables['items'].shape[1]} items, and costs has {table.shape[1]} "
            "columns; give one of each per item."
        )
    return table
