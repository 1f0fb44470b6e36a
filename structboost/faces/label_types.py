"""Types of labels that ``fit`` takes, and their form in files.

Labels are strings, numbers, bools, or dates and durations of numpy.  All labels of a training set
are of one sort.  Whole numbers keep their values, whatever their size: where they would be rounded,
they are refused.  Labels of these types can all be saved, and have the same type in the loaded
model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets

from structboost.faces.exact_numbers import check_small
from structboost.faces.table_forms import frame_of
from structboost.files.schema import DamagedFileError
from structboost.validation import (
    check_finite,
    check_labels,
    checked_weights,
    first_missing,
    shown,
)

_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
_DATES = (np.datetime64, np.timedelta64)
_TAKEN = "give strings or numbers, such as [str(label) for label in y]"
_MOST_BYTES_OF_CLASSES = 1 << 26


def label_vector(y: Any, wanted: str = "a label") -> Any:
    """Return labels of samples as an array of strings, numbers, bools or dates.

    ``y`` is an array, list, tuple, series or data frame of one column, shape (n_samples,) or
    (n_samples, 1), which the labels keep.  None and arrays of no dimension are returned as they
    are.  Errors say that each sample needs ``wanted``.  TypeError if ``y`` is of another type, or
    labels are of a type that no file could hold.  ValueError if a label is missing, strings and
    numbers are mixed, or ``y`` has several columns.
    """
    if y is None or hasattr(y, "__dask_graph__"):
        return y
    is_set = isinstance(y, (Mapping, Set, Iterator)) or (
        not hasattr(y, "__getitem__") and not hasattr(y, "__array__") and hasattr(y, "__iter__")
    )
    if isinstance(y, (str, bytes)) or is_set:
        raise TypeError(
            f"y is {shown(y)}; give a list, an array or a series with the label of each "
            "sample, in the order of the samples."
        )
    check_unmasked(y)
    labels = _array(y)
    if labels.ndim == 2 and labels.shape[1] > 1:
        is_one_hot = labels.dtype.kind in "biuf" and np.isin(labels, (0, 1)).all()
        remedy = (
            "give y.argmax(axis=1) for one class of each sample, or take "
            "StructBoostMultiLabelClassifier for sets of labels"
            if is_one_hot
            else "give one label for each sample"
        )
        raise ValueError(
            f"y should be a 1d array, got an array of shape {labels.shape} instead; {remedy}."
        )
    if labels.ndim not in (1, 2):
        return labels
    flat = labels.ravel()
    entries = y if isinstance(y, (list, tuple)) and labels.ndim == 1 else flat
    checked = _of_one_sort(flat, entries, wanted)
    return checked.reshape(labels.shape)


def score(self: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Return the fraction of samples whose label is predicted.

    Parameters
    ----------
    X : array-like, shape (n_samples, n_features)
        Samples with the columns of training.
    y : array-like, shape (n_samples,)
        True labels, in any form that ``fit`` takes.
    sample_weight : array-like, shape (n_samples,), optional
        Weight of each sample.

    Returns
    -------
    accuracy : float
        From 0 to 1.

    Raises
    ------
    ValueError, TypeError
        If lengths differ, or labels or weights are out of their range.
    """
    labels = np.asarray(label_vector(y))
    if labels.ndim not in (1, 2) or labels.dtype.kind == "c":
        raise ValueError(
            f"y is {shown(y)}, of shape {labels.shape}; give one label for each sample."
        )
    check_finite(labels)
    check_targets(labels.ravel())
    predicted = self.predict(X)
    check_lengths(len(predicted), len(labels))
    if sample_weight is not None:
        sample_weight = checked_weights(sample_weight, len(labels))
    return float(accuracy_score(labels, predicted, sample_weight=sample_weight))


def check_targets(y: NDArray[Any]) -> None:
    """Raise ValueError unless labels are classes, such as strings and whole numbers."""
    try:
        check_classification_targets(y)
    except ValueError as error:
        raise ValueError(f"{error} y is {shown(y)}; give a class of each sample.") from None


def check_lengths(n_samples: int, n_labels: int) -> None:
    """Raise ValueError unless there are as many labels as samples."""
    if n_samples != n_labels:
        raise ValueError(f"X has {n_samples} samples and y {n_labels}; give one label for each.")


def check_unmasked(y: Any) -> None:
    """Raise ValueError if an entry of a masked array is masked."""
    if isinstance(y, np.ma.MaskedArray) and np.ma.getmaskarray(y).any():
        index = ", ".join(map(str, np.argwhere(np.ma.getmaskarray(y))[0].tolist()))
        raise ValueError(f"y[{index}] is masked; give every sample a label, or leave it out.")


def plain_array(make: Callable[[], Any]) -> NDArray[Any]:
    """Return the array of a table or a series, or raise TypeError if its type has none."""
    try:
        return np.asarray(make())
    except Exception as error:  # libraries of frames have errors of their own
        raise TypeError(
            f"y cannot be read as an array ({type(error).__name__}: {error}); give a list of "
            "strings or numbers."
        ) from error


def _array(y: Any) -> NDArray[Any]:
    """Return labels as an array, without conversion of one type to another."""
    frame = frame_of(y, "y") if hasattr(y, "columns") or hasattr(y, "column_names") else None
    if frame is not None:
        if frame.shape[1] == 1:
            # A label of the column that is a whole number, such as 0, would name a row.
            column = next(iter(frame.iter_columns()))
            return _array(column.to_native()).reshape(-1, 1)
        return plain_array(frame.to_numpy)
    if hasattr(getattr(y, "dtype", None), "na_value"):  # whole numbers and bools of pandas
        y = y.to_numpy()
    nested = (list, tuple, np.ndarray)
    if isinstance(y, (list, tuple)) and any(isinstance(one, nested) for one in y):
        try:
            return np.asarray(y)
        except ValueError:  # rows of different lengths
            return np.fromiter(y, object, len(y))
    labels = plain_array(lambda: y)
    if labels.dtype.kind == "T":
        labels = labels.astype(object)
    return labels


def _of_one_sort(labels: NDArray[Any], entries: Any, wanted: str) -> NDArray[Any]:
    """Return labels in a type of numpy that keeps their values."""
    kind = labels.dtype.kind
    if kind in "mMf" and (missing := first_missing(labels)) is not None:
        raise ValueError(
            f"y[{missing}] is {shown(entries[missing])}; give every sample {wanted}, or leave "
            "it out."
        )
    if kind in "mMbiu" or (kind in "fc" and isinstance(entries, np.ndarray)):
        return labels
    if kind in "SV":
        raise TypeError(
            f"y[0] is {shown(entries[0])}: labels of type {labels.dtype} are not supported; "
            "give strings or numbers, such as [label.decode() for label in y] for bytes."
        )
    if kind == "U" and isinstance(entries, np.ndarray):
        return labels
    items = np.empty(len(entries), object)
    items[:] = entries
    check_labels(items)
    for i, label in enumerate(items):
        if not isinstance(label, (str, complex, *_NUMBERS, *_DATES)):
            raise TypeError(
                f"y[{i}] is {shown(label)}, of type {type(label).__name__}: labels of this "
                f"type are not supported; {_TAKEN}."
            )
    are_dates = [isinstance(label, _DATES) for label in items]
    if any(are_dates) and not all(are_dates):
        i, j = are_dates.index(True), are_dates.index(False)
        raise ValueError(
            f"y[{i}] is {shown(items[i])} and y[{j}] is {shown(items[j])}; give only "
            "dates, or none."
        )
    if not len(items) or kind in "fc":
        _check_exact(items, labels)
        return labels
    if isinstance(items[0], str):
        # Types of fixed width drop zeros at the end.
        is_cut = kind == "U" and any(label.endswith("\0") for label in items)
        return items if is_cut else labels
    plain = np.array(items.tolist())
    _check_exact(items, plain)
    return plain


def _check_exact(items: Any, labels: NDArray[Any]) -> None:
    """Raise ValueError if a whole number was rounded, or is too large for numpy."""
    for i, label in enumerate(items if labels.dtype.kind in "fO" else ()):
        check_small(label, f"y[{i}]")


def plain_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """Return labels and their type as a header of a file holds them.

    TypeError if a label is of a type that files do not hold.
    """
    values = classes.view(np.int64) if classes.dtype.kind in "mM" else classes
    for label in values.tolist():
        if not isinstance(label, (str, bool, int, float)):
            raise TypeError(
                f"The label {shown(label)} is of type {type(label).__name__}, which files do not "
                "hold; train on strings or numbers."
            )
    return {"classes": values.tolist(), "classes_dtype": classes.dtype.str}


def saved_classes(metadata: Mapping[str, Any]) -> NDArray[Any]:
    """Return the labels of a saved classifier in their original type."""
    labels, dtype = metadata["classes"], np.dtype(metadata["classes_dtype"])
    if dtype.kind not in "biufSUOmM" or dtype.itemsize * len(labels) > _MOST_BYTES_OF_CLASSES:
        raise DamagedFileError(f"its classes are of type {dtype}")
    is_date = dtype.kind in "mM"
    classes: NDArray[Any] = np.array(labels, np.int64 if is_date else dtype)
    classes = classes.view(dtype) if is_date else classes
    if classes.ndim != 1 or not len(classes):
        raise DamagedFileError(f"its classes have shape {classes.shape}")
    return classes
