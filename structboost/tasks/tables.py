"""Inputs that are the rows of one table."""

from __future__ import annotations

from typing import Any

import numpy as np

from structboost.exceptions import TaskError
from structboost.task import StackedParts


def stack_table(X: Any) -> StackedParts:
    """Stack of a table in which every row is an input with one part, itself.

    Parameters
    ----------
    X : array-like, shape (n_examples, n_features)

    Raises
    ------
    TaskError
        If ``X`` is empty, is not two-dimensional, or has NaN or infinite entries.
    """
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.size == 0:
        raise TaskError(f"X has shape {rows.shape}; give a non-empty table (n_examples, n_features).")
    if rows.dtype.kind not in "fiub":
        rows = rows.astype(np.float64)
    if rows.dtype.kind == "f":
        finite = np.isfinite(rows)
        if not finite.all():
            bad = int(np.flatnonzero(~finite.all(axis=1))[0])
            raise TaskError(f"X[{bad}] has NaN or infinite features; impute or drop them.")
    return StackedParts({"x": rows}, {"x": np.arange(len(rows) + 1, dtype=np.int64)})
