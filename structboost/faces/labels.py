"""Conversion between the labels of users and the outputs of classification tasks.

Labels are strings, numbers or bools.  All labels of a training set are of one sort.  Whole numbers
keep their values, whatever their size: where they would be rounded, they are refused.  Labels can
all be saved, and have the same type in the loaded model.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.metrics import accuracy_score
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray
from structboost.contract.parts import PartKind
from structboost.contract.task import Task
from structboost.errors import ConstantPredictionWarning, warn_user
from structboost.files.archive import DamagedFileError
from structboost.learners.table import StumpTable
from structboost.linear.designs import plain_functions
from structboost.model.ensemble import Ensemble, KindEnsemble
from structboost.tasks.base import merge_repeated_rows
from structboost.tasks.classes import BinaryTask, CodedTask, MulticlassTask
from structboost.tasks.hierarchical import TaxonomyTask, label_tree
from structboost.validation import (
    check_class_weight,
    check_finite,
    check_labels,
    check_not_complex,
    check_sequence,
    checked_weights,
    first_masked,
    first_missing,
    frame_of,
    is_missing,
    lacks_and_has,
    numeric_weights,
    shown,
)


def warn_of_one_class(label: Any, what: str = "class", several: str = "classes") -> None:
    """Warn that y has one class."""
    warn_user(
        f"y has 1 {what} only, {shown(label)}, so the model always predicts it; give examples of "
        f"at least two {several}.",
        ConstantPredictionWarning,
    )


def without_learners(
    kinds: Mapping[str, PartKind], n_features: Mapping[str, int], metadata: dict[str, Any]
) -> Ensemble:
    """Return a model of no weak learners, whose scores are 0."""
    none = np.zeros(0, np.int64)
    members = {
        kind: KindEnsemble("stump", StumpTable.of([]), none, none, none, np.zeros(0), n)
        for kind, n in n_features.items()
    }
    return Ensemble(dict(kinds), members, np.zeros(0), np.zeros((1, 0)), metadata)


def zero_function(kind: PartKind, n_features: int, metadata: dict[str, Any]) -> Ensemble:
    """Return a model of one linear function that is 0."""
    member = plain_functions(np.zeros((n_features + kind.has_bias, 1)), kind, 0)
    return Ensemble({"x": kind}, {"x": member}, np.ones(1), np.ones((1, 1)), metadata)


_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
_MOST_BYTES_OF_CLASSES = 1 << 26


def label_vector(y: Any, wanted: str = "a label") -> Any:
    """Return labels of samples as an array of strings, numbers or bools.

    ``y`` is an array, list, tuple, series or data frame of one column, shape (n_samples,) or
    (n_samples, 1), which the labels keep.  None is returned as it is.  Errors say that each sample
    needs ``wanted``.  TypeError if ``y`` or a label is of another type.  ValueError if a label is
    missing, strings and numbers are mixed, or ``y`` has several columns.
    """
    if y is None or hasattr(y, "__dask_graph__"):
        return y
    y = _sequence(y, "give the label of each sample, in the order of the samples")
    labels = _array(y)
    if labels.ndim == 2 and labels.shape[1] > 1:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {labels.shape} instead; give one label "
            "for each sample, such as y.argmax(axis=1), or take StructBoostMultiLabelClassifier "
            "for sets of labels."
        )
    if labels.ndim > 2:
        raise ValueError(
            f"y has shape {labels.shape}: Found array with dim {labels.ndim}; give one label for "
            "each sample."
        )
    check_not_complex(labels)
    flat = labels.ravel()
    if (missing := first_missing(flat)) is not None:
        raise ValueError(
            f"y[{missing}] is {shown(flat[missing])}; give every sample {wanted}, or leave it out."
        )
    items = y if isinstance(y, list | tuple) and labels.ndim == 1 else flat
    return _checked_sort(flat, items, wanted).reshape(labels.shape)


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


def check_targets(y: AnyArray) -> None:
    """Raise ValueError unless labels are classes, such as strings and whole numbers."""
    try:
        check_classification_targets(y)
    except ValueError as error:
        raise ValueError(f"{error} y is {shown(y)}; give a class of each sample.") from None


def check_lengths(n_samples: int, n_labels: int) -> None:
    """Raise ValueError unless there are as many labels as samples."""
    if n_samples != n_labels:
        raise ValueError(f"X has {n_samples} samples and y {n_labels}; give one label for each.")


def _sequence(y: Any, remedy: str) -> Any:
    """Return ``y``, an array of what has no length, or raise unless it is a list of labels."""
    y = plain_array(y) if hasattr(y, "__array__") and not hasattr(y, "__len__") else y
    check_sequence(y, "y", remedy)
    if (index := first_masked(y)) is not None:
        raise ValueError(f"y[{index}] is masked; give every sample a label, or leave it out.")
    return y


def plain_array(y: Any) -> AnyArray:
    """Return the array of a table or a series, or raise TypeError if its type has none."""
    try:
        return np.asarray(y)
    except Exception as error:  # libraries of frames have errors of their own
        raise TypeError(
            f"y cannot be read as an array ({type(error).__name__}: {error}); give a list of "
            "strings or numbers."
        ) from error


def _array(y: Any) -> AnyArray:
    """Return labels as an array, without conversion of one type to another."""
    frame = frame_of(y, "y") if hasattr(y, "columns") else None
    if frame is not None and frame.shape[1] == 1:
        # A label of the column that is a whole number, such as 0, would name a row.
        return _array(next(iter(frame.iter_columns())).to_native()).reshape(-1, 1)
    if hasattr(getattr(y, "dtype", None), "na_value"):  # whole numbers and bools of pandas
        y = y.to_numpy()
    try:
        labels = plain_array(y)
    except TypeError:
        if not isinstance(y, list | tuple):
            raise
        labels = np.fromiter(y, object, len(y))  # rows of different lengths
    return labels.astype(object) if labels.dtype.kind == "T" else labels


def _checked_sort(labels: AnyArray, items: Any, wanted: str) -> AnyArray:
    """Return labels in a type of numpy that keeps their values, which ``items`` are, too."""
    kind, is_array = labels.dtype.kind, isinstance(items, np.ndarray)
    if kind in "biu" or (kind in "fcU" and is_array):
        return labels
    if kind != "O":
        entries = np.empty(len(items), object)
        entries[:] = items
    else:
        entries = labels
    check_labels(entries)
    for i, label in enumerate(entries):
        if not isinstance(label, (str, complex, *_NUMBERS)):
            raise TypeError(
                f"y[{i}] is {shown(label)}, of type {type(label).__name__}: labels of this type "
                "are not supported; give strings or numbers, such as [str(label) for label in y]."
            )
    if not len(entries) or isinstance(entries[0], str):
        # Types of fixed width drop zeros at the end.
        is_cut = kind == "U" and any(label.endswith("\0") for label in entries)
        return entries if is_cut else labels
    plain = np.array(entries.tolist())
    more = ", or strings" if wanted == "a label" else ""
    for i, label in enumerate(entries if plain.dtype.kind in "fO" else ()):
        if isinstance(label, int | np.integer) and abs(int(label)) > 2**53:
            raise ValueError(
                f"y[{i}] is {shown(label)}, and floats cannot hold all whole numbers beyond 2**53 "
                f"without rounding; give smaller ones{more}."
            )
    return plain


def plain_classes(classes: AnyArray) -> dict[str, Any]:
    """Return labels and their type as a header of a file holds them.

    TypeError if a label is of a type that files do not hold.
    """
    for label in classes.tolist():
        if not isinstance(label, (str, bool, int, float)):
            raise TypeError(
                f"The label {shown(label)} is of type {type(label).__name__}, which files do not "
                "hold; train on strings or numbers."
            )
    return {"classes": classes.tolist(), "classes_dtype": classes.dtype.str}


def saved_classes(metadata: Mapping[str, Any]) -> AnyArray:
    """Return the labels of a saved classifier in their original type."""
    labels, dtype = metadata["classes"], np.dtype(metadata["classes_dtype"])
    if dtype.kind not in "biufUO" or dtype.itemsize * len(labels) > _MOST_BYTES_OF_CLASSES:
        raise DamagedFileError(f"its classes are of type {dtype}")
    classes = np.array(labels, dtype)
    if classes.ndim != 1 or not len(classes):
        raise DamagedFileError(f"its classes have shape {classes.shape}")
    return classes


FORMS = ("matrix", "lists", "single")
# Relative difference of a weight from a multiple that is rounding, and the most rows that weights
# are taken for.
_ROUNDING, _MOST_ROWS = 1e-9, 1_000_000
# Doubles from which on all are whole.
_MOST_WHOLE = 2.0**53


def classification_task(
    classes: Sequence[Any], taxonomy: Any = None
) -> BinaryTask | MulticlassTask | TaxonomyTask:
    """Return a TaxonomyTask for a taxonomy, a BinaryTask up to two classes, else a MulticlassTask.

    One class is the first label of a BinaryTask.
    """
    if taxonomy is not None:
        return TaxonomyTask(label_tree(taxonomy, classes))
    return BinaryTask() if len(classes) <= 2 else MulticlassTask(len(classes))


def outputs_of(labels: IntArray, task: Task) -> IntArray:
    """Convert indices of classes to outputs of the task."""
    return 2 * labels - 1 if isinstance(task, BinaryTask) else labels


def classification_examples(
    X: AnyArray, y: AnyArray, sample_weight: Any, class_weight: Any
) -> tuple[AnyArray, AnyArray, Any, FloatArray, IntArray]:
    """Return the classes, and inputs, class indices, weights and counts of the distinct examples.

    ValueError or TypeError if a weight is out of its range, or weights leave one of several
    classes.  ConstantPredictionWarning if there is one class.
    """
    check_class_weight(class_weight)
    check_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        warn_of_one_class(classes[0])
    weights = checked_weights(sample_weight, len(X))
    raw = weights if sample_weight is None else numeric_weights(sample_weight).ravel()
    repeats = _repeats(raw)
    if class_weight is not None:
        weights = weights * class_weights(class_weight, classes, labels, labels)
        if not weights.any():
            raise ValueError(
                f"class_weight is {shown(class_weight)}, which leaves no sample a weight; give a "
                "class of weighted samples a weight above 0."
            )
        weights = checked_weights(weights, len(X))
    counted = weights > 0
    if not counted.all():
        X, labels, weights, repeats = (
            X[counted], labels[counted], weights[counted], repeats[counted],
        )  # fmt: skip
    X, labels, weights, counts = merge_repeated_rows(X, labels, weights, repeats)
    if len(classes) > 1 and len(np.unique(labels)) < 2:
        weighing = "sample_weight" if class_weight is None else "sample_weight times class_weight"
        raise ValueError(
            f"{weighing} leaves samples of class {shown(classes[labels[0]])} only; give weights "
            "above 0 to at least two classes."
        )
    return classes, X, labels, weights, counts


def _repeats(weights: FloatArray) -> IntArray:
    """Return weights as numbers of rows, or ones if they are no whole numbers or their multiples.

    Tables of counts have one row for each cell and label.
    """
    positive = weights[weights > 0]
    for unit in (1.0, positive.min()):
        with np.errstate(over="ignore"):
            n_rows = np.round(positive / unit)
        is_whole = np.allclose(positive, unit * n_rows, rtol=_ROUNDING, atol=0.0)
        if is_whole and n_rows.max() < _MOST_WHOLE:
            n_rows /= np.gcd.reduce(n_rows.astype(np.int64))
            # More rows say no more about folds.
            step = max(1.0, n_rows.sum() / max(_MOST_ROWS, len(positive)))
            repeats = np.ones(len(weights), np.int64)
            repeats[weights > 0] = np.maximum(1.0, np.round(n_rows / step))
            return repeats
    return np.ones(len(weights), np.int64)


def class_weights(
    class_weight: Any, classes: AnyArray, labels: IntArray, of_training: IntArray
) -> FloatArray:
    """Return the weights of samples of these classes, as their indices, by those of training."""
    if isinstance(class_weight, Mapping):
        return _weights_of_classes(class_weight, classes)[labels]
    places = np.arange(len(classes))
    return np.asarray(compute_class_weight(class_weight, classes=places, y=of_training))[labels]


def indices_among(labels: AnyArray, classes: AnyArray) -> IntArray:
    """Return the place of each label among those of training, or raise ValueError if it has none.

    The message names the labels.
    """
    if new := sorted({*labels.tolist()} - {*classes.tolist()}):
        raise ValueError(
            f"y has {shown(new)}, which training does not have; give labels of "
            f"{shown(classes.tolist())}."
        )
    return np.searchsorted(classes, labels)


def _weights_of_classes(class_weight: Mapping[Any, float], classes: AnyArray) -> FloatArray:
    """Return the weight of each class, which is 1 where the dict has none.

    ValueError if the dict has a label that is no class.
    """
    index = {label: i for i, label in enumerate(classes)}
    weights = np.ones(len(classes))
    for label, weight in class_weight.items():
        if label not in index:
            raise ValueError(
                f"class_weight has the label {shown(label)}, which y does not have; give labels of "
                f"{shown(classes.tolist())}."
            )
        weights[index[label]] = weight
    return weights


def classes_in_place(y: Any) -> tuple[AnyArray, Callable[[Any, Task], Any]]:
    """Return the classes of labels, and a function that converts labels to outputs of a task.

    Both take Dask collections, too.  ValueError if there are fewer than two classes.
    """
    if not hasattr(y, "__dask_graph__"):
        y = label_vector(y)
        classes = np.unique(column_or_1d(y))
    else:
        from dask.base import compute
        from dask.delayed import delayed

        y = y.to_dask_array() if hasattr(y, "to_dask_array") else y
        blocks = compute(*(delayed(_unique_labels)(block) for block in y.to_delayed().ravel()))
        classes = np.unique(np.concatenate(blocks))
    if len(classes) < 2:
        raise ValueError(
            f"y has 1 class only, {shown(classes[0])}; a classifier needs examples of at least two "
            "classes."
        )

    def encode(y: Any, task: Task) -> Any:
        if not hasattr(y, "__dask_graph__"):
            return outputs_of(np.searchsorted(classes, column_or_1d(label_vector(y))), task)
        y = y.to_dask_array(lengths=True) if hasattr(y, "to_dask_array") else y
        return y.map_blocks(
            lambda block: outputs_of(np.asarray(np.searchsorted(classes, block)), task),
            dtype=np.int64,
        )

    return classes, encode


def _unique_labels(block: AnyArray) -> AnyArray:
    check_labels(block, "a block of y")
    return np.asarray(np.unique(block))


def decision_of(scores: FloatArray, task: Task | None = None) -> FloatArray:
    """Return the scores of the classes, one-dimensional for two classes."""
    if isinstance(task, (TaxonomyTask, CodedTask)):
        scores = task.class_scores(scores)
    if scores.shape[1] == 2:
        return scores[:, 1] - scores[:, 0]
    return scores[:, 0] if scores.shape[1] == 1 else scores


def labels_of(scores: FloatArray, classes: AnyArray) -> AnyArray:
    """Return the label with the highest score, or by the sign of one-dimensional scores."""
    index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    return np.asarray(classes[index])


class LabelSets(NamedTuple):
    """Labels of samples as an indicator matrix, and their original form.

    Attributes
    ----------
    classes : ndarray, shape (n_labels,)
    indicator : ndarray of int64, shape (n_samples, n_labels)
    form : {"matrix", "lists", "single"}
        An indicator matrix, a list of labels for each sample, or one label for each.
    unknown : ndarray of bool, shape (n_samples,)
        Whether a sample has labels outside ``classes``.
    """

    classes: AnyArray
    indicator: IntArray
    form: str
    unknown: BoolArray


def label_sets(y: Any, classes: AnyArray | None = None) -> LabelSets:
    """Convert labels of samples, in any of the supported forms, to an indicator matrix.

    Parameters
    ----------
    y : array, data frame, sparse matrix or list
        An indicator matrix of 0 and 1, also as a list of rows, or a list of labels for each
        sample, or one label for each sample.  The names of the columns of a data frame are the
        labels.
    classes : ndarray, optional
        The labels of training.

    Raises
    ------
    TypeError, ValueError
        If ``y`` has none of these forms, or there are fewer than two labels.

    Warns
    -----
    UserWarning
        If the columns of a data frame have names, and those of training had none.
    """
    y, names = _as_table_or_sequence(y)
    if not len(y):
        raise ValueError("y is empty; give the labels of each sample.")
    unknown = np.zeros(len(y), bool)
    if y.ndim == 2:
        _check_indicator(y, names)
        indicator, form = y.astype(np.int64), "matrix"
        if classes is None:
            classes = np.arange(y.shape[1]) if names is None else _label_array(names)
        elif names is not None:
            indicator = indicator[:, _columns_of(names, classes)]
    elif any(_is_list(labels) for labels in y):
        _check_lists(y)
        if classes is None:
            # A set has each of several equal labels, such as 1 and True, once.
            classes = _label_array(sorted({label for labels in y for label in labels}))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "unknown class")  # ``unknown`` marks them
            indicator = MultiLabelBinarizer(classes=classes.tolist()).fit_transform(y)
        indicator, form = indicator.astype(np.int64), "lists"
        all_labels = set(classes.tolist())
        unknown = np.array([not all_labels.issuperset(labels) for labels in y], bool)
    else:
        y = label_vector(y)
        check_targets(y)
        classes = np.unique(y) if classes is None else classes
        indicator, form = (y[:, None] == classes).astype(np.int64), "single"
        unknown = ~indicator.any(axis=1)
    if len(classes) < 2:
        raise ValueError(
            f"y has {len(classes)} class or label, {shown(classes.tolist())}; a classifier of sets "
            "needs at least two."
        )
    if indicator.shape[1] != len(classes):
        raise ValueError(f"y has {indicator.shape[1]} labels; the model has {len(classes)}.")
    return LabelSets(classes, indicator, form, unknown)


def _label_array(labels: Sequence[Any]) -> AnyArray:
    """Return different labels as an array of their type."""
    array = np.asarray(label_vector(list(labels)))
    check_not_complex(array)
    return array


def _as_table_or_sequence(y: Any) -> tuple[AnyArray, list[Any] | None]:
    """Return a table of at least two columns, or an array with one entry per sample, and names.

    The names are those of the columns of a data frame, or None.
    """
    y = y.toarray() if sparse.issparse(y) else y
    y = _sequence(y, "give an indicator matrix of 0 and 1, or a list of labels of each sample")
    frame = frame_of(y, "y") if hasattr(y, "columns") else None
    if frame is not None and frame.shape[1] != 1:
        names = list(frame.columns)
        for name in names:
            if not isinstance(name, (str, *_NUMBERS)):
                raise ValueError(f"y has a column {shown(name)}; name columns by their labels.")
            check_same_sort(names[0], name, "y has the column", "another")
        return plain_array(frame.to_numpy()), names
    if frame is not None:
        y = next(iter(frame.iter_columns())).to_list()
    rows = list(y)
    are_lists = list(map(_is_list, rows))
    if not any(are_lists):
        return np.asarray(label_vector(y)), None
    if all(isinstance(row, list | tuple | np.ndarray) for row in rows):
        are_equal = len({*map(len, rows)}) == 1
        is_table = isinstance(y, np.ndarray) and y.ndim == 2
        if is_table and len(rows[0]) == 1:
            return _as_table_or_sequence(y[:, 0])
        if is_table or (are_equal and len(rows[0]) > 1 and _are_bits(rows)):
            return np.asarray(y), None
        if not are_equal and _are_bits(rows) and any(len(set(row)) < len(row) for row in rows):
            i = next(i for i, row in enumerate(rows) if len(row) != len(rows[0]))
            raise ValueError(
                f"y[{i}] has {len(rows[i])} entries of 0 and 1, and y[0] {len(rows[0])}; give "
                "equally long rows of an indicator matrix, or each label of a sample once."
            )
    return np.fromiter(rows, object, len(rows)), None


def _are_bits(rows: Sequence[Any]) -> bool:
    return all(isinstance(v, _NUMBERS) and v in (0, 1) for row in rows for v in row)


def _columns_of(names: list[Any], classes: AnyArray) -> IntArray:
    """Return the column of each label of training, found by its name."""
    place = {name: i for i, name in enumerate(names)}
    labels = classes.tolist()
    if set(place) == set(labels):
        return np.array([place[label] for label in labels], np.int64)
    if labels == list(range(len(labels))) and len(names) == len(labels):
        warn_user(
            f"y has the columns {shown(names)}, but the model was fitted without names of labels; "
            "its columns are taken in their order.",
            UserWarning,
        )
        return np.arange(len(labels))
    missing = [label for label in labels if label not in place]
    unknown = [name for name in names if name not in set(labels)]
    raise ValueError(
        f"y {lacks_and_has(missing, unknown, 'the columns ')}; give a column for each label of "
        "training."
    )


def _check_indicator(y: AnyArray, names: list[Any] | None) -> None:
    if y.dtype.kind == "O":
        good = [[isinstance(v, _NUMBERS) and v in (0, 1) for v in row] for row in y]
    else:
        good = np.isin(y, (0, 1))  # type: ignore[assignment]
    if not np.all(good):
        i, j = np.argwhere(~np.array(good))[0].tolist()
        column = j if names is None else shown(names[j])
        raise ValueError(
            f"y[{i}, {column}] is {shown(y[i, j])}; give an indicator matrix of 0 and 1, or lists "
            "of labels."
        )


def _check_lists(y: AnyArray) -> None:
    """Raise unless samples have lists, of strings only or of numbers only."""
    are_lists = list(map(_is_list, y))
    if not all(are_lists):
        i = are_lists.index(not are_lists[0])
        raise ValueError(
            f"y[{i}] is {shown(y[i])}, and y[0] is {shown(y[0])}; give a list of labels for each "
            "sample, or one label for each."
        )
    first = None
    for i, labels in enumerate(y):
        for label in labels:
            if not isinstance(label, (str, *_NUMBERS)) or is_missing(label):
                raise ValueError(
                    f"y[{i}] has the label {shown(label)}; give strings or numbers, and leave "
                    "labels out that are missing."
                )
            first = label if first is None else first
            check_same_sort(first, label, f"y[{i}] has the label", "y")


def check_same_sort(first: Any, label: Any, name: str, name_of_first: str) -> None:
    """Raise ValueError if one of two labels is a string and the other is not."""
    if isinstance(first, str) != isinstance(label, str):
        raise ValueError(
            f"{name} {shown(label)}, and {name_of_first} has {shown(first)}; give only strings or "
            "only numbers."
        )


def _is_list(labels: Any) -> bool:
    return isinstance(labels, list | tuple | Set | np.ndarray)
