"""Parts and their labels as one table, for inputs and outputs of any form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, column_or_1d

from structboost._typing import AnyArray, FloatArray, IntArray, override
from structboost.contract.calls import stacked_inputs
from structboost.contract.task import Task
from structboost.errors import TaskError, on_example
from structboost.faces.columns import FROM_DTYPE, categorical_columns
from structboost.faces.forms import checked_form, is_of_dicts, shape_of
from structboost.faces.labels import label_sets, label_vector
from structboost.faces.table_numbers import check_lengths, check_width, numbers_of
from structboost.faces.tokens import TokenReader, tag_indices
from structboost.runtime.column_names import by_name, labels_of
from structboost.validation import first_unusable, frame_of, shown


class PartTable:
    """Table whose rows are the parts of some examples.

    Attributes
    ----------
    rows : ndarray or sparse array, shape (n_parts, n_features)
    lengths : ndarray of int64, shape (n_examples,)
        Number of parts of each example.
    """

    def __init__(self, rows: Any, lengths: IntArray) -> None:
        self.rows = _with_small_indices(rows) if sparse.issparse(rows) else rows
        self.lengths = lengths

    @property
    def owners(self) -> IntArray:
        """Index of the example of each part."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def split(self, rows: Any) -> list[Any]:
        """Split rows, one per part, by example."""
        ends = np.cumsum(self.lengths).tolist()
        return [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _with_small_indices(rows: Any) -> Any:
    """Return a sparse array whose indices are of 32 bits, if they fit, as some classifiers need."""
    rows = sparse.csr_array(rows)
    if max(rows.shape[1], rows.nnz) < np.iinfo(np.int32).max:
        small = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
        rows = sparse.csr_array((rows.data, *small), rows.shape)
    return rows


class Form(ABC):
    """Form of inputs and outputs.

    Attributes
    ----------
    is_table : bool
        Whether inputs are the rows of a table.
    columns : list or None
        Labels of the columns in training, if they have labels.
    """

    is_table = False

    columns: list[Any] | None = None

    @abstractmethod
    def read(self, X: Any) -> PartTable:
        """Return the parts of inputs, with the features of the first call."""

    @abstractmethod
    def labels(self, X: Any, y: Any, parts: PartTable) -> tuple[AnyArray, IntArray]:
        """Return the classes, and for each part the index of its class or a row of 0 and 1.

        The index is -1 if the class is unknown.
        """

    @abstractmethod
    def with_rows(self, X: Any, parts: PartTable, rows: Any) -> Any:
        """Return inputs in the form of ``X`` with other ``rows`` of features."""


def form_of(X: Any, task: Task | None) -> Form:
    """Return the form of inputs of a task, of sequences of tokens, or of a table."""
    if task is not None:
        return _TaskForm(task)
    if frame_of(X) is not None:
        return TableForm()
    if not hasattr(X, "ndim") and len(X) and _is_sequence(X[0]):
        return _SequenceForm()
    if getattr(getattr(X, "dtype", None), "kind", "") == "O" and X.ndim == 1:
        return _SequenceForm()
    return TableForm()


def _is_sequence(x: Any) -> bool:
    if isinstance(x, Sequence) and not isinstance(x, str):
        return is_of_dicts(x) or np.ndim(x) == 2
    return getattr(x, "ndim", 1) == 2


class TableForm(Form):
    """Table whose rows are examples with one part.

    Attributes
    ----------
    columns : list or None
        Labels of the columns in training, if they have labels.
    n_features : int or None
        Number of columns in training.
    """

    is_table = True

    def __init__(self) -> None:
        self.n_features: int | None = None
        self._has_categories = False

    @override
    def read(self, X: Any) -> PartTable:
        X = checked_form(X)
        is_first = self.n_features is None
        if is_first and len(shape_of(X)) == 2:
            self.columns, self.n_features = labels_of(X), shape_of(X)[1]
            self._has_categories = bool(categorical_columns(X, FROM_DTYPE))
        elif not is_first:
            X = by_name(X, self.columns, "X", "CrossFitted")
            check_width("CrossFitted", self.n_features, X)
        # Classifiers that take frames read their categories themselves.
        rows = X
        if not self._has_categories or frame_of(X) is None:
            rows = check_array(
                numbers_of(X, {}), accept_sparse="csr", ensure_all_finite=False,
                estimator="CrossFitted", input_name="X", dtype=np.float64,
            )  # fmt: skip
            bad = first_unusable(rows, missing=True)
            if bad is not None:
                raise ValueError(
                    f"X[{bad}] has infinite features; replace them, or leave the sample out."
                )
        return PartTable(rows, np.ones(rows.shape[0], np.int64))

    @override
    def labels(self, X: Any, y: Any, parts: PartTable) -> tuple[AnyArray, IntArray]:
        if not _has_sets(y):
            classes, labels = np.unique(column_or_1d(label_vector(y)), return_inverse=True)
        else:
            classes, labels, *_ = label_sets(y)
        check_lengths(parts.rows, labels)
        return classes, labels.astype(np.int64)

    @override
    def with_rows(self, X: Any, parts: PartTable, rows: Any) -> Any:
        return rows


class _SequenceForm(Form):
    """Sequences of tokens."""

    def __init__(self) -> None:
        self._reader = TokenReader()

    def read(self, X: Any) -> PartTable:
        rows, lengths = self._reader.table(X)
        # Equal values have equal responses, whatever their type.
        return PartTable(rows.astype(np.float64, copy=False), lengths)

    def labels(self, X: Any, y: Any, parts: PartTable) -> tuple[AnyArray, IntArray]:
        classes, tags = tag_indices(y, parts.lengths.tolist())
        return classes, np.concatenate(tags)

    def with_rows(self, X: Any, parts: PartTable, rows: Any) -> Any:
        return parts.split(rows)


class _TaskForm(Form):
    """Inputs and outputs of a task, which labels the parts of one kind."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._kind = ""

    def read(self, X: Any) -> PartTable:
        self._kind = self._task.labelled_kind or ""
        if self._kind not in self._task.kinds:
            raise TaskError(
                f"{type(self._task).__name__} names no labelled_kind of parts; define "
                "labelled_kind, part_labels and with_features."
            )
        stack = stacked_inputs(self._task, X)
        return PartTable(stack.rows[self._kind], np.diff(stack.offsets[self._kind]))

    def labels(self, X: Any, y: Any, parts: PartTable) -> tuple[AnyArray, IntArray]:
        if len(y) != len(X):
            raise ValueError(f"X has {len(X)} examples and y {len(y)}; give one for each.")
        blocks = []
        for i, n in enumerate(parts.lengths.tolist()):
            block = np.asarray(on_example("part_labels", i, self._task.part_labels, X[i], y[i]))
            if len(block) != n:
                raise TaskError(f"part_labels gave {len(block)} labels for {n} parts.", i)
            blocks.append(block)
        labels = np.concatenate(blocks)
        if labels.ndim == 2:
            return np.arange(labels.shape[1]), labels.astype(np.int64)
        is_known = labels >= 0
        classes, indices = np.unique(labels[is_known], return_inverse=True)
        out = np.full(len(labels), -1, np.int64)
        out[is_known] = indices
        return classes, out

    def with_rows(self, X: Any, parts: PartTable, rows: Any) -> Any:
        return [
            on_example("with_features", i, self._task.with_features, x, block)
            for i, (x, block) in enumerate(zip(X, parts.split(rows), strict=True))
        ]


def _has_sets(y: Any) -> bool:
    """Whether labels are an indicator matrix or lists of labels."""
    if sparse.issparse(y) or hasattr(y, "ndim"):
        return bool(y.ndim == 2 and y.shape[1] > 1)
    return any(not isinstance(one, str | Mapping) and hasattr(one, "__len__") for one in y)


def rows_at(rows: Any, index: AnyArray) -> Any:
    """Return the rows of an array, a sparse array or a data frame at indices or in a mask."""
    frame = frame_of(rows)
    if frame is None:
        return rows[index]
    native, index = frame.to_native(), np.arange(len(frame))[index]
    return native.iloc[index] if hasattr(native, "iloc") else frame[index.tolist()].to_native()


def hstack(responses: FloatArray, rows: Any) -> Any:
    """Append features to responses, as a sparse array if the features are sparse.

    ValueError if columns of a data frame hold categories.
    """
    if frame_of(rows) is not None:
        names = [frame_of(rows).columns[f] for f in categorical_columns(rows, FROM_DTYPE)]
        raise ValueError(
            f"passthrough is True, and columns {shown(names)} of X hold categories, which cannot "
            "stand beside responses; encode them as numbers, or leave passthrough out."
        )
    if sparse.issparse(rows):
        return sparse.csr_array(sparse.hstack((responses, rows), format="csr"))
    return np.column_stack((responses, rows))
