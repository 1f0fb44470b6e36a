"""Checks of arguments and outputs of tasks, which raise TaskError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.errors import TaskError
from structboost.inference.arguments import real_array
from structboost.runtime.memory import check_memory
from structboost.validation import array_of, is_whole, shown, without_mask

T = TypeVar("T")
_LARGEST_INT = np.iinfo(np.int64).max


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


def whole_vector(y: Any, name: str, wanted: str, sample: int | None = None) -> IntArray:
    """Return a vector of whole numbers, whose error names the ``wanted`` ones."""
    vector = as_array(y)
    if vector.ndim != 1 or (len(vector) and vector.dtype.kind not in "iu"):
        raise TaskError(f"{name} is {shown(y)}; give an array of whole numbers, {wanted}.", sample)
    if vector.dtype.kind == "u" and len(vector) and vector.max() > _LARGEST_INT:
        raise TaskError(f"{name} has {vector.max()}; give smaller numbers, {wanted}.", sample)
    return vector.astype(np.int64, copy=False)


def as_array(value: Any) -> NDArray[Any]:
    """Return a value as an array without a mask, of no dimensions if it cannot be one."""
    return array_of(without_mask(value))


def checked_features(x: Any, axes: str, other: str = "") -> NDArray[Any]:
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


def checked_labels(
    y: Any,
    n_labels: int,
    part: str,
    n_parts: int | None = None,
    *,
    remedy: str = "",
    sample: int | None = None,
) -> IntArray:
    """Return the labels 0..n_labels-1 of an output, one for each part of the input.

    Errors use the name of a ``part``, a ``remedy`` for labels out of range, and the index
    ``sample`` of the example.  Without ``n_parts`` any number of labels will do.
    """
    name = "An output" if sample is None else "Y[{sample}]"
    labels = whole_vector(y, name, f"a label for each {part}", sample)
    if n_parts is not None and len(labels) != n_parts:
        raise TaskError(
            f"{name} has {len(labels)} labels for {n_parts} {part}s; give one for each.", sample
        )
    if len(labels) and not 0 <= labels.min() <= labels.max() < n_labels:
        raise TaskError(
            f"{name} has labels from {labels.min()} to {labels.max()}; a {part} has one of "
            f"0..{n_labels - 1}.{remedy}",
            sample,
        )
    return labels
