"""Equality of nested values that may hold arrays, such as inputs and outputs of a task."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np


def deep_copy(value: Any) -> Any:
    """Return a deep copy, or None if the value cannot be copied."""
    try:
        return copy.deepcopy(value)
    except Exception:  # an input may hold what cannot be copied: an open file, a lock
        return None


def deeply_equal(a: Any, b: Any) -> bool:
    """Whether two values have the same type and content, where NaN equals NaN.

    Objects without attributes that compare only by identity count as equal.
    """
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return _equal_arrays(a, b)
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(deeply_equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(deeply_equal(v, w) for v, w in zip(a, b, strict=True))
    by_identity = type(a).__eq__ is object.__eq__  # type: ignore[comparison-overlap]
    if by_identity or dataclasses.is_dataclass(a):
        return not hasattr(a, "__dict__") or deeply_equal(vars(a), vars(b))
    if isinstance(a, (float, np.floating)) and np.isnan(a):
        return bool(np.isnan(b))
    try:
        return bool(
            a.equals(b) if hasattr(a, "equals") else np.all(a == b)
        )  # pandas: NaN equals NaN
    except Exception:  # the comparison has no truth value
        return True


def _equal_arrays(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind == "O":
        return all(deeply_equal(v, w) for v, w in zip(a.ravel(), b.ravel(), strict=True))
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))
