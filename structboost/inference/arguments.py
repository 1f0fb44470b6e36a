"""Checks of arguments of searches and tasks, whose errors name the argument and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import AnyArray, FloatArray, IntArray
from structboost.errors import TaskError
from structboost.runtime.memory import check_memory
from structboost.validation import array_of, first_masked, is_whole, shown, without_mask

T = TypeVar("T")

# A dimension is a size, or the name of one that may be any.
Shape = tuple[int | str, ...]


def real_array(
    value: ArrayLike, name: str, shape: Shape, *, forbids: bool = False, empty: bool = False
) -> FloatArray:
    """Convert an argument to a contiguous array of finite float64.

    ``forbids`` allows minus infinity, as the score of what is forbidden, and ``empty`` a size of 0
    in other dimensions than the first.  TypeError if the entries are not real numbers.  ValueError
    if the shape is another one, or an entry is NaN or infinite.
    """
    array = _array(value, name, shape, "biuf", "real numbers")
    if not empty and 0 in array.shape[1:]:
        raise ValueError(f"{name} has shape {array.shape}; give {_text(shape)} entries, not none.")
    values = np.ascontiguousarray(array, np.float64)
    good = np.isfinite(values)
    if not good.all():
        good |= forbids & (values == -np.inf)
        wanted = "numbers below infinity; minus infinity forbids" if forbids else "finite numbers"
        refuse(values, ~good, name, wanted)
    return values


def check_sum(values: FloatArray, name: str) -> None:
    """Raise ValueError if numbers are so large that sums of them overflow."""
    with np.errstate(over="ignore"):
        total = float(np.abs(values[np.isfinite(values)]).sum())
    if not np.isfinite(total):
        raise ValueError(f"{name} has numbers whose sum is infinite; give smaller numbers.")


def not_negative(value: ArrayLike, name: str, shape: Shape) -> FloatArray:
    """Convert an argument as :func:`real_array` does, and refuse numbers below 0."""
    values = real_array(value, name, shape)
    refuse(values, values < 0, name, "finite numbers, not negative")
    return values


def whole_array(value: ArrayLike, name: str, shape: Shape, size: int | None = None) -> IntArray:
    """Convert an argument to a contiguous array of int64, from 0 and below ``size``."""
    array = _array(value, name, shape, "biu", "whole numbers")
    values = np.ascontiguousarray(array, np.int64)
    if values.size and (values.min() < 0 or (size is not None and values.max() >= size)):
        wanted = "whole numbers from 0" + ("" if size is None else f" to {size - 1}")
        if size == 0:
            wanted = "no entries, since there is nothing to index"
        refuse(values, (values < 0) | (values >= (np.inf if size is None else size)), name, wanted)
    return values


def node_pairs(value: ArrayLike, name: str, n_nodes: int | None = None) -> IntArray:
    """Convert edges, which may be none, to a table of pairs of different nodes."""
    pairs = whole_array(value, name, (f"n_{name}", 2), n_nodes)
    refuse(pairs, pairs[:, 0] == pairs[:, 1], name, "two different nodes")
    return pairs


def rows(value: ArrayLike, name: str, size: int | str) -> tuple[FloatArray, tuple[int, ...]]:
    """Convert a vector, or a row for each problem, to a table, and return its shape, too."""
    is_vector = n_dimensions(value, name) == 1
    array = real_array(value, name, (size,) if is_vector else ("n_problems", size))
    return np.atleast_2d(array), array.shape


def n_dimensions(value: ArrayLike, name: str) -> int:
    """Count the dimensions of an argument that may have several shapes."""
    return _plain(value, name).ndim


def _plain(value: ArrayLike, name: str) -> AnyArray:
    if (place := first_masked(value)) is not None:
        raise ValueError(f"{name}[{place}] is masked; give every entry a number.")
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is no array ({error}); give rows of equal length.") from None


def _array(value: ArrayLike, name: str, shape: Shape, kinds: str, wanted: str) -> AnyArray:
    """Return the value as an array, after a check of the kinds of its numbers and its shape."""
    array = _plain(value, name)
    if not array.size and isinstance(shape[0], str) and array.ndim <= len(shape):
        sizes = [0, *(1 if isinstance(size, str) else size for size in shape[1:])]
        array = np.zeros(sizes if array.ndim < len(shape) else array.shape, np.int8)
    if array.dtype.kind not in kinds:
        raise TypeError(f"{name} has type {array.dtype}; give {wanted} of shape {_text(shape)}.")
    pairs = zip(array.shape, shape, strict=False)
    if array.ndim != len(shape) or any(n != size for n, size in pairs if isinstance(size, int)):
        raise ValueError(f"{name} has shape {array.shape}; give {_text(shape)}.")
    return array


def refuse(values: AnyArray, bad: Any, name: str, wanted: str) -> None:
    """Raise ValueError for the first bad entry, or the first bad row."""
    if bad.any():
        index = tuple(np.argwhere(bad)[0].tolist())
        place = ", ".join(map(str, index))
        raise ValueError(f"{name}[{place}] is {values[index].tolist()}; give {wanted}.")


def _text(shape: Shape) -> str:
    """Write a shape, such as ``(3, n_labels)``."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def as_task_error(check: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call a check, and raise its error as a TaskError."""
    try:
        return check(*arguments, **options)
    except (TypeError, ValueError) as error:
        raise TaskError(str(error)) from None


def passes(check: Callable[..., Any], *arguments: Any) -> bool:
    """Return whether a check raises no TaskError."""
    try:
        check(*arguments)
    except TaskError:
        return False
    return True


def checked_costs(costs: Any, n_items: int | None, n_axes: int = 1) -> FloatArray:
    """Return costs as finite float64, a vector or a row for each problem."""
    shape = ("n_problems",)[: n_axes - 1]
    return real_array(costs, "costs", (*shape, "n_items" if n_items is None else n_items))


def penalties(
    forbidden: Any, n: int, what: str, *, ends: bool = False
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return minus infinity on forbidden pairs of labels, first labels and last labels, else 0.

    There are ``n`` labels, of which errors use the name ``what``.  None means the start or the end
    if ``ends``.
    """
    check_pairs_fit(n, what)
    table = np.zeros((n + 1, n + 1))
    try:
        pairs = [(first, second) for first, second in forbidden]
    except (TypeError, ValueError):
        raise TaskError(
            f"forbidden is {shown(forbidden)}; give pairs of {what}, such as [(0, 1)]."
        ) from None
    for pair in pairs:
        is_pair = all((ends and end is None) or (is_whole(end) and 0 <= end < n) for end in pair)
        if not is_pair or pair == (None, None):
            more = ", or None for the start or the end" if ends else ""
            raise TaskError(
                f"forbidden has {shown(pair)}; give pairs of {what} in 0..{n - 1}{more}."
            )
        table[*(n if end is None else end for end in pair)] = -np.inf
    return table[:n, :n].ravel(), table[n, :n].copy(), table[:n, n].copy()


def check_pairs_fit(n: int, what: str) -> None:
    """Raise MemoryError if a number for each pair of ``n`` things does not fit into memory."""
    check_memory(8 * n**2, f"Numbers for all pairs of {n} {what}", f"take fewer {what}")


def labels_of(
    y: Any,
    name: str,
    n: int | None = None,
    high: float = np.inf,
    *,
    low: int = 0,
    more: str = "",
    sample: int | None = None,
) -> IntArray:
    """Return a vector of ``n`` whole numbers from ``low`` to ``high``.

    TaskError, with ``more`` in its text and the example ``sample``, if it is another value.
    """
    vector = as_array(y)
    if vector.ndim != 1 or (len(vector) and vector.dtype.kind not in "iu"):
        raise TaskError(f"{name} is {shown(y)}; give an array of whole numbers{more}.", sample)
    if n is not None and len(vector) != n:
        raise TaskError(f"{name} has {len(vector)} entries; give {n}{more}.", sample)
    if len(vector) and not low <= vector.min() <= vector.max() <= high:
        raise TaskError(
            f"{name} has entries from {vector.min()} to {vector.max()}; give {low} to "
            f"{high}{more}.",
            sample,
        )
    return vector.astype(np.int64, copy=False)


def as_array(value: Any) -> AnyArray:
    """Return a value as an array without a mask, of no dimensions if it cannot be one."""
    return array_of(without_mask(value))


def checked_features(x: Any, axes: str, other: str = "") -> AnyArray:
    """Return an input that is an array of features with these axes, such as ``(n, n_features)``.

    ``other`` names other inputs that the task takes, for the error.
    """
    table = as_array(x)
    if table.ndim != axes.count(",") + 1:
        fault = f"has shape {table.shape}" if table.ndim else f"is {shown(x)}"
        raise TaskError(f"An input {fault}; give {axes}{other}.")
    return table


def check_has(x: Any, members: tuple[str, ...], wanted: str) -> None:
    """Raise TaskError unless an input has these members."""
    if not all(hasattr(x, name) for name in members):
        raise TaskError(f"An input is {shown(x)}; give {wanted}.")
