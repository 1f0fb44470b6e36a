"""Parts and their labels, as one table, whatever form inputs and outputs have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array

from structboost._typing import FloatArray, IntArray
from structboost.contract.calls import stacked_inputs
from structboost.contract.task import Task
from structboost.estimators.labels import label_sets
from structboost.estimators.tokens import TokenReader, is_of_dicts, tag_numbers
from structboost.exceptions import TaskError, on_example
from structboost.validation import check_labels


class PartTable:
    """Parts of some examples as rows of one table.

    Attributes
    ----------
    rows : ndarray or sparse array, shape (n_parts, n_features)
    lengths : ndarray of int64, shape (n_examples,)
        Number of parts of each example.
    """

    def __init__(self, rows: Any, lengths: IntArray) -> None:
        self.rows = rows
        self.lengths = lengths

    @property
    def owners(self) -> IntArray:
        """Example of each part."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def split(self, rows: Any) -> list[Any]:
        """Other rows of the same parts, by example."""
        ends = np.cumsum(self.lengths).tolist()
        return [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]


class Form(ABC):
    """How inputs and outputs are given.

    Attributes
    ----------
    is_table : bool
        Whether inputs are the rows of a table.
    """

    is_table = False

    @abstractmethod
    def read(self, X: Any) -> PartTable:
        """The parts of inputs; the first call learns the features."""

    @abstractmethod
    def labels(self, X: Any, y: Any, parts: PartTable) -> tuple[NDArray[Any], IntArray]:
        """Classes, and the number of each part's class, -1 if unknown; or a row of 0 and 1."""

    @abstractmethod
    def made(self, X: Any, parts: PartTable, rows: Any) -> Any:
        """Inputs as given, but with other ``rows`` of features."""


def form_of(X: Any, task: Task | None) -> Form:
    """The form of inputs: those of a task, sequences of tokens, or a table."""
    if task is not None:
        return _TaskForm(task)
    if not hasattr(X, "ndim") and len(X) and all(_is_sequence(x) for x in X):
        return _SequenceForm()
    if getattr(getattr(X, "dtype", None), "kind", "") == "O" and X.ndim == 1:
        return _SequenceForm()
    return _TableForm()


def _is_sequence(x: Any) -> bool:
    if isinstance(x, Sequence) and not isinstance(x, str):
        return is_of_dicts(x) or np.ndim(x) == 2
    return getattr(x, "ndim", 1) == 2


class _TableForm(Form):
    """Every row is an example with one part."""

    is_table = True

    def read(self, X: Any) -> PartTable:
        rows = check_array(X, accept_sparse="csr", ensure_all_finite="allow-nan")
        return PartTable(rows, np.ones(rows.shape[0], np.int64))

    def labels(self, X: Any, y: Any, parts: PartTable) -> tuple[NDArray[Any], IntArray]:
        if not _has_sets(y):
            check_labels(y)
            classes, labels = np.unique(np.asarray(y), return_inverse=True)
        else:
            classes, labels, *_ = label_sets(y)
        if len(labels) != len(parts.lengths):
            raise ValueError(
                f"X has {len(parts.lengths)} samples and y {len(labels)}; give one for each."
            )
        return classes, labels.astype(np.int64)

    def made(self, X: Any, parts: PartTable, rows: Any) -> Any:
        return rows


class _SequenceForm(Form):
    """Every example is a sequence of tokens."""

    def __init__(self) -> None:
        self._reader = TokenReader()

    def read(self, X: Any) -> PartTable:
        return PartTable(*self._reader.table(X))

    def labels(self, X: Any, y: Any, parts: PartTable) -> tuple[NDArray[Any], IntArray]:
        classes, tags = tag_numbers(y, parts.lengths.tolist())
        return classes, np.concatenate(tags)

    def made(self, X: Any, parts: PartTable, rows: Any) -> Any:
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

    def labels(self, X: Any, y: Any, parts: PartTable) -> tuple[NDArray[Any], IntArray]:
        if len(y) != len(X):
            raise ValueError(f"X has {len(X)} examples and y {len(y)}; give one for each.")
        found = []
        for i, n in enumerate(parts.lengths.tolist()):
            own = np.asarray(on_example("part_labels", i, self._task.part_labels, X[i], y[i]))
            if len(own) != n:
                raise TaskError(f"part_labels gave {len(own)} labels for {n} parts.", i)
            found.append(own)
        labels = np.concatenate(found)
        if labels.ndim == 2:
            return np.arange(labels.shape[1]), labels.astype(np.int64)
        known = labels >= 0
        classes, numbers = np.unique(labels[known], return_inverse=True)
        out = np.full(len(labels), -1, np.int64)
        out[known] = numbers
        return classes, out

    def made(self, X: Any, parts: PartTable, rows: Any) -> Any:
        return [
            on_example("with_features", i, self._task.with_features, x, own)
            for i, (x, own) in enumerate(zip(X, parts.split(rows), strict=True))
        ]


def _has_sets(y: Any) -> bool:
    """Whether labels are an indicator matrix or lists of labels."""
    if sparse.issparse(y) or hasattr(y, "ndim"):
        return bool(y.ndim == 2 and y.shape[1] > 1)
    return any(not isinstance(own, str | Mapping) and hasattr(own, "__len__") for own in y)


def hstack(answers: FloatArray, rows: Any) -> Any:
    """Answers with features behind them, sparse where the features are."""
    if sparse.issparse(rows):
        return sparse.csr_array(sparse.hstack((answers, rows), format="csr"))
    return np.column_stack((answers, rows))
