"""Whole numbers that double precision holds exactly, and errors for all others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.validation import shown

# Larger whole numbers are not all numbers of double precision.
EXACT = 2**53


def check_exact(values: NDArray[Any], name: str) -> None:
    """Raise ValueError if an array has whole numbers that double precision would round."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8 or not values.size:
        return
    if -EXACT <= int(values.min()) and int(values.max()) <= EXACT:
        return
    is_large = values > EXACT
    if values.dtype.kind == "i":
        is_large |= values < -EXACT
    for value in values[is_large].tolist():
        check_whole_number_exact(value, name)


def check_whole_number_exact(value: int, name: str) -> None:
    """Raise ValueError if double precision would round a whole number."""
    try:
        is_exact = int(float(value)) == value
    except OverflowError:
        is_exact = False
    if not is_exact:
        raise ValueError(
            f"{name} holds {shown(value)}, a whole number beyond 2**53 that double precision "
            "rounds, so neighbours would be equal; if it is a label, name its column in "
            "categorical_features or write strings, else subtract an offset."
        )


def check_small(value: Any, name: str) -> None:
    """Raise ValueError for a whole number whose neighbours may be equal as floats."""
    if isinstance(value, int | np.integer) and abs(int(value)) > EXACT:
        raise ValueError(
            f"{name} holds {shown(value)}, a whole number beyond 2**53, and floats cannot hold "
            "all of these without rounding; give smaller ones, or strings if they are names."
        )


def may_be_rounded(table: NDArray[Any]) -> bool:
    """Whether an array of floats may have been made of larger whole numbers."""
    if table.dtype.kind != "f" or not table.size:
        return False
    return bool((np.abs(table) >= EXACT).any())
