"""Checks of labels, relevance, groups and weights, one for each example."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.validation.messages import shown


def checked_weights(sample_weight: Any, n_examples: int) -> FloatArray:
    """Return the weights of the examples, scaled to a largest one from 1/2 to 1.

    The scale is a power of two, so ratios of weights stay exact, and no sum of weights overflows.
    """
    if sample_weight is None:
        return np.ones(n_examples)
    weights = numeric_weights(sample_weight).ravel()
    if len(weights) != n_examples:
        raise ValueError(
            f"sample_weight has {len(weights)} entries for {n_examples} examples; give one weight "
            "for each."
        )
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if len(bad):
        raise ValueError(
            f"sample_weight[{bad[0]}] is {weights[bad[0]]}; weights must be finite and >= 0."
        )
    if not weights.any():
        raise ValueError("sample_weight is zero everywhere; at least one example must count.")
    return np.asarray(np.ldexp(weights, -np.frexp(weights.max())[1]))


def numeric_weights(sample_weight: Any) -> FloatArray:
    """Return weights in double precision, in their shape.

    ValueError if they are not numbers.
    """
    try:
        return _real_numbers(sample_weight)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"sample_weight is not numeric ({error}); give a number for each example."
        ) from error


def _real_numbers(values: Any) -> FloatArray:
    """Convert numbers to double precision, but no text, dates, masked or complex numbers."""
    if np.ma.is_masked(values):
        raise ValueError(f"entry {int(np.argmax(np.ma.getmaskarray(values)))} is masked")
    array = np.asarray(values)
    texts = [one for one in array.ravel() if isinstance(one, str)] if array.dtype == object else []
    if texts or array.dtype.kind not in "biufO":
        what = next((one for one in texts or array.ravel() if not is_number(one)), "text")
        raise TypeError(f"it holds {array.dtype}, such as {shown(what)}")
    return array.astype(np.float64)


def is_number(value: Any) -> bool:
    """Whether a value, perhaps a text, can be read as a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def checked_example_weights(sample_weight: Any, n_examples: int) -> FloatArray:
    """Return the weights of the examples in the risk, which sum to 1."""
    weights = checked_weights(sample_weight, n_examples)
    return np.asarray(weights / weights.sum())


def check_labels(y: Any, name: str = "y") -> None:
    """Raise ValueError where a label is missing, or strings and numbers are mixed."""
    labels = np.asarray(y)
    if labels.dtype.kind not in "Of" or labels.ndim != 1:
        return
    missing = first_missing(labels)
    if missing is not None:
        label = shown(labels[missing])
        raise ValueError(
            f"{name}[{missing}] is {label}; give every sample a label, or leave it out."
        )
    if labels.dtype.kind == "f":
        return
    texts = np.array([isinstance(label, str) for label in labels])
    if texts.any() and not texts.all():
        i, j = int(np.argmax(texts)), int(np.argmin(texts))
        raise ValueError(
            f"{name}[{i}] is {shown(labels[i])} and {name}[{j}] is {shown(labels[j])}; give only "
            "strings or only numbers."
        )


def check_finite(y: Any, name: str = "y", more: str = "") -> None:
    """Raise ValueError, with the first missing or infinite entry of true outputs, if any is."""
    values = np.asarray(y).ravel()
    bad = first_missing(values)
    if bad is None and values.dtype.kind == "f" and np.isinf(values).any():
        bad = int(np.argmax(np.isinf(values)))
    if bad is not None:
        raise ValueError(
            f"{name}[{bad}] is {shown(values[bad])}; give every sample a finite number or a label, "
            f"or leave it out.{more}"
        )


def check_relevance(y: Any) -> None:
    """Raise ValueError unless relevance is numeric, since strings would be sorted by letters."""
    relevance = np.asarray(y)
    check_not_complex(relevance, "y")
    if relevance.ndim > 2:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {relevance.shape} instead; give the "
            "relevance of each item."
        )
    if relevance.ndim and len(relevance) and relevance.dtype.kind not in "biufc":
        raise ValueError(
            f"Unknown label type: y holds {relevance.dtype}, such as {shown(relevance.flat[0])}; "
            "give relevance as numbers, larger for better, such as y.astype(float)."
        )


def check_not_complex(values: NDArray[Any], name: str) -> None:
    """Raise ValueError if an array holds complex numbers."""
    if values.dtype.kind == "c":
        # The words of scikit-learn, which its checks of estimators expect.
        raise ValueError(
            f"Complex data not supported: {name} holds {values.dtype}; give real numbers, such as "
            f"{name}.real."
        )


def group_indices(groups: Any, name: str, n_examples: int) -> IntArray:
    """Return the index of the group of each example, in order of their first examples.

    ValueError if there is not one group for each example, or one is missing.
    """
    try:
        ids = np.asarray(groups)
    except ValueError:  # lists of unlike lengths
        raise ValueError(
            f"{name} is {shown(groups)}; give one for each of {n_examples} examples."
        ) from None
    if ids.shape != (n_examples,):
        raise ValueError(
            f"{name} has shape {ids.shape}; give one for each of {n_examples} examples."
        )
    by_name = group_indices_by_name(ids, name)
    # Other names for the same groups change nothing.
    first = np.unique(by_name, return_index=True)[1]
    return np.asarray(np.argsort(np.argsort(first))[by_name], np.int64)


def group_indices_by_name(ids: NDArray[Any], name: str) -> IntArray:
    """Return the index of each entry's group, in ascending order of the names.

    ValueError if an entry is missing, or strings and numbers are mixed.
    """
    missing = first_missing(ids)
    if missing is not None:
        raise ValueError(
            f"{name}[{missing}] is {shown(ids[missing])}; give every entry a group, or leave it "
            "out."
        )
    try:
        return np.asarray(np.unique(ids, return_inverse=True)[1], np.int64)
    except TypeError:
        raise ValueError(f"{name} mixes strings and numbers; give only one of them.") from None


def first_missing(values: NDArray[Any]) -> int | None:
    """Return the index of the first missing value (None, NaN or the like), or None."""
    if values.dtype.kind == "O":
        return next((i for i, value in enumerate(values) if is_missing(value)), None)
    missing = values != values  # noqa: PLR0124
    return int(np.argmax(missing)) if missing.any() else None


def is_missing(value: Any) -> bool:
    """Whether a value is None or unequal to itself, like NaN, NaT and pandas' NA."""
    try:
        return value is None or bool(value != value)  # noqa: PLR0124
    except TypeError:  # the comparison of pandas' NA is NA
        return True
    except ValueError:  # an array is compared entry by entry
        return False
