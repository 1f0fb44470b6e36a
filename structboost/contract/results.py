"""Checks of numbers that methods of a task return, whose errors name method and example."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.errors import TaskError
from structboost.validation import shown

# Largest loss and weight of a joint feature: products and squares of larger ones may overflow.
LARGEST = 1e100


def real_number(value: Any, call: str, i: int | None = None) -> float:
    """Return a result that is one real number as a float, or raise TaskError.

    The message has the ``call`` of the method, such as ``"loss(Y[{sample}], y_pred)"``.
    """
    if type(value) is float:
        return value
    is_other = isinstance(value, str | bytes | complex | np.complexfloating)
    try:
        if is_other or np.ndim(value):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise TaskError(f"{call} is {shown(value)}; give a number{hint(value)}.", i) from None


def refused_output(
    name: str, output: Any, method: str, error: Exception, i: int | None = None
) -> TaskError:
    """Make the error of an output of a task, called ``name``, that another method does not take."""
    reason = f"{type(error).__name__}: {error}"
    return TaskError(
        f"{name} is {shown(output)}, which {method} does not take ({reason}); return an output "
        f"that joint_feature and loss take{hint(output)}.",
        i,
    )


def hint(value: Any) -> str:
    """Return words about the likely cause of a result that is None, else an empty string."""
    return ", and end the method with return" if value is None else ""


def finite_array(value: Any, call: str, i: int | None = None, kind: str = "") -> FloatArray:
    """Return a result that is an array of real numbers up to :data:`LARGEST` as float64.

    TaskError if entries are no real numbers, NaN, or larger; the message names the example.
    """
    array = _array(value, call, i)
    if array.dtype.kind not in "biuf":
        raise TaskError(f"{call} is {shown(value)}{_of(kind)}; give real numbers{hint(value)}.", i)
    values = np.asarray(array, np.float64)
    check_finite(values, call, i, kind)
    return values


def shaped_array(
    value: Any, shape: tuple[int, ...], call: str, i: int | None, kind: str
) -> FloatArray:
    """Return a result that is an array of finite numbers of this shape.

    Raises
    ------
    TaskError
        As :func:`finite_array` does, or if the shape is another one.
    """
    array = finite_array(value, call, i, kind)
    if array.shape != shape:
        raise TaskError(
            f"{call} gave shape {array.shape}{_of(kind)}; expected (n_parts, n_channels) = "
            f"{shape}.",
            i,
        )
    return array


def check_finite(values: FloatArray, call: str, i: int | None = None, kind: str = "") -> None:
    """Raise TaskError if an entry is NaN or infinite, or larger than :data:`LARGEST`."""
    if not (np.abs(values) <= LARGEST).all():
        if not np.isfinite(values).all():
            raise TaskError(f"{call} has NaN or infinite entries{_of(kind)}.", i)
        raise TaskError(
            f"{call} has entries up to {np.abs(values).max():.3g}{_of(kind)}; give numbers up to "
            f"{LARGEST:g}, because larger ones overflow.",
            i,
        )


def whole_array(value: Any, call: str, i: int | None = None, kind: str = "") -> IntArray:
    """Return a result that is an array of whole numbers, of any type, as int64.

    TaskError if an entry is no whole number; the message names the example.
    """
    array = _array(value, call, i)
    if array.dtype.kind in "biu":
        return array.astype(np.int64, copy=False)
    if array.size == 0:
        return np.zeros(array.shape, np.int64)
    if array.dtype.kind != "f" or not (array == np.floor(array)).all():
        raise TaskError(f"{call} is {shown(value)}{_of(kind)}; give whole numbers{hint(value)}.", i)
    return array.astype(np.int64)


def _of(kind: str) -> str:
    return f" for kind {kind!r}" if kind else ""


def _array(value: Any, call: str, i: int | None) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except Exception as error:
        raise TaskError(
            f"{call} is {shown(value)}, which is no array ({error}); give an array of numbers.", i
        ) from error
