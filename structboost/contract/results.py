"""Checks of what methods of a task return, whose errors name method and example."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.errors import TaskError, note_examples
from structboost.validation import array_of, shown


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


# Largest loss and weight of a joint feature: products and squares of larger ones may overflow.
LARGEST = 1e100
# Loss of a true output, and relative difference of values, that may be rounding.
SLIP = 1e-6


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
    array = array_of(value)
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
    array = array_of(value)
    if array.dtype.kind in "biu":
        return array.astype(np.int64, copy=False)
    if array.size == 0:
        return np.zeros(array.shape, np.int64)
    if array.dtype.kind != "f" or not (array == np.floor(array)).all():
        raise TaskError(f"{call} is {shown(value)}{_of(kind)}; give whole numbers{hint(value)}.", i)
    return array.astype(np.int64)


def _of(kind: str) -> str:
    return f" for kind {kind!r}" if kind else ""


def loss_of(task: Any, i: int, y: Any, y_pred: Any) -> float:
    """Return the loss of an output of example ``i`` as a float.

    TaskError if the task returns no number, or one that is negative, not finite or too large.
    """
    try:
        value = task.loss(y, y_pred)
    except Exception as error:
        takes_truth = takes(task.loss, y, y)
        if takes_truth and not isinstance(error, TaskError):
            name = "The output for X[{sample}], by argmax or predict,"
            raise refused_output(name, y_pred, "loss", error, i) from error
        both = "Y[{sample}] and the output for X[{sample}]"
        note_examples(error, "loss", i, i, both if takes_truth else "Y")
        raise
    loss = real_number(value, "loss(Y[{sample}], y_pred)", i)
    if not 0 <= loss <= LARGEST:
        wanted = f"<= {LARGEST:g}" if LARGEST < loss < np.inf else "finite and >= 0"
        raise TaskError(f"loss(Y[{{sample}}], y_pred) is {loss}; a loss must be {wanted}.", i)
    return loss


def check_loss_of_truth(task: Any, i: int, y: Any) -> None:
    """Raise TaskError if the true output of example ``i`` has a loss, beyond rounding."""
    loss = loss_of(task, i, y, y)
    if loss > SLIP:
        raise TaskError(
            f"loss(Y[{{sample}}], Y[{{sample}}]) is {loss:.6g}; the loss of the true output must "
            "be 0.",
            i,
        )


def check_one_each(outputs: Any, n_examples: int, method: str = "argmax_batch") -> None:
    """Raise TaskError unless a batch form gave one output per example."""
    if isinstance(outputs, str) or not hasattr(outputs, "__len__"):
        raise TaskError(
            f"{method} gave {shown(outputs)}; give a list of outputs, one for each example"
            f"{hint(outputs)}."
        )
    if len(outputs) != n_examples:
        raise TaskError(
            f"{method} gave {len(outputs)} outputs for {n_examples} examples; give one for each."
        )


def check_not_none(task: Any, x: Any, y: Any, output: Any, i: int) -> None:
    """Raise TaskError if the argmax of example ``i`` gave None, which is no output of it.

    It is one if the true output is None, or if both ``joint_feature`` and ``loss`` take it.
    """
    if output is None and y is not None:
        if not (takes(task.joint_feature, x, None) and takes(task.loss, y, None)):
            raise returned_none("argmax", i)


def returned_none(method: str, i: int) -> TaskError:
    """Make the error of a method that ends without return for example ``i``."""
    return TaskError(
        f"{method} returned None for X[{{sample}}], which is no output; end the method with return "
        "and the best output.",
        i,
    )


def takes(method: Callable[..., Any], *arguments: Any) -> bool:
    """Whether a call raises no error."""
    try:
        method(*arguments)
    except Exception:
        return False
    return True
