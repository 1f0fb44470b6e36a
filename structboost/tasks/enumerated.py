"""Problems with few outputs, whose codes and losses are arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.parts import StackedParts
from structboost.errors import TaskError
from structboost.tasks.checks import real_table
from structboost.tasks.code import CodeTask
from structboost.validation import check_sequence, shown


class EnumeratedTask(CodeTask):
    """Outputs of any kind that can be listed, each with a row of a code matrix.

    An input is a feature vector; its one part is the input itself.  Output k scores ``<codes[k],
    F(x)>``, so outputs that share a channel learn from each other's examples.  The argmax tries all
    outputs, so any loss is exact.  Of equally good outputs it takes the first of the list.

    Parameters
    ----------
    outputs : sequence of hashable, shape (n_outputs,)
        At least two different outputs: strings, tuples, frozensets; not arrays or lists.
    codes : array-like of int, shape (n_outputs, n_channels)
        Whole numbers in -127..127.
    losses : array-like, shape (n_outputs, n_outputs), optional
        Loss of each (true, predicted) pair: finite, not negative, 0 on the diagonal.  Default: 1
        off the diagonal.

    Raises
    ------
    TaskError
        If the arrays do not fit the outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost import EnumeratedTask
    >>> task = EnumeratedTask(["red", "blue"], [[1, 0], [0, 1]])
    >>> task.argmax([0.0], np.array([[0.2, 0.7]]))
    'blue'
    """

    separates_in_batches = True

    def __init__(self, outputs: Sequence[Hashable], codes: Any, losses: Any = None) -> None:
        check_sequence(outputs, "outputs", "give a list of at least two outputs")
        self.listed = list(outputs)
        self._rows = _rows(self.listed)
        code = _checked_codes(codes, len(self.listed))
        super().__init__(code, None if losses is None else _checked_losses(losses, len(code)))

    @override
    def joint_feature(self, x: Any, y: Any) -> FloatArray:
        return super().joint_feature(x, self._row(y))

    @override
    def loss(self, y: Any, y_pred: Any) -> float:
        return super().loss(self._row(y), self._row(y_pred))

    @override
    def argmax(self, x: Any, scores: FloatArray, y: Any = None) -> Any:
        return self.listed[super().argmax(x, scores, None if y is None else self._row(y))]

    @override
    def argmax_batch(
        self, X: Sequence[Any], scores: StackedParts, Y: Sequence[Any] | None = None
    ) -> list[Any]:
        by_output = self.class_scores(scores.rows["x"])
        if Y is not None:
            by_output = by_output + self.losses[self.labels(Y)]
        return [self.listed[k] for k in np.argmax(by_output, axis=1)]

    @override
    def outputs(self, x: Any) -> Iterator[Any]:
        return iter(self.listed)

    @override
    def is_valid(self, x: Any, y: Any) -> bool:
        return isinstance(y, Hashable) and y in self._rows

    @override
    def labels(self, Y: Sequence[Any]) -> IntArray:
        return np.array([self._row(y, i) for i, y in enumerate(Y)], np.int64)

    def _row(self, y: Any, sample: int | None = None) -> int:
        """Return the row of an output."""
        try:
            return self._rows[y]
        except (KeyError, TypeError):
            name = "An output" if sample is None else "Y[{sample}]"
            raise TaskError(
                f"{name} is {shown(y)}, which is none of the {len(self.listed)} outputs of this "
                "task; list it, or drop the example.",
                sample,
            ) from None


def _rows(outputs: Sequence[Any]) -> dict[Any, int]:
    """Return the row of each output, after a check that they are hashable and different."""
    if len(outputs) < 2:
        raise TaskError(f"outputs has {len(outputs)} entries; a task needs at least 2.")
    rows: dict[Any, int] = {}
    for k, output in enumerate(outputs):
        try:
            hash(output)
        except TypeError:
            raise TaskError(
                f"outputs[{k}] is {shown(output)}, which cannot be hashed; give tuples or "
                "frozensets."
            ) from None
        if output in rows:
            raise TaskError(f"outputs[{k}] is {shown(output)} again; list each output once.")
        rows[output] = k
    return rows


def _checked_codes(codes: Any, n_outputs: int) -> NDArray[np.int8]:
    table = real_table(codes, "codes")
    if table.ndim != 2 or len(table) != n_outputs or table.shape[1] < 1:
        raise TaskError(
            f"codes has shape {table.shape}; give (n_outputs, n_channels), a row for each of the "
            f"{n_outputs} outputs."
        )
    is_small = table.dtype.kind in "biuf" and bool((np.abs(table) <= 127).all())
    if not is_small or (table % 1).any():
        raise TaskError("codes has other entries than whole numbers in -127..127; scale them.")
    return table.astype(np.int8)


def _checked_losses(losses: Any, n_outputs: int) -> FloatArray:
    table = real_table(losses, "losses")
    if table.shape != (n_outputs, n_outputs):
        raise TaskError(
            f"losses has shape {table.shape}; give a row and a column for each of the {n_outputs} "
            "outputs."
        )
    if not (np.isfinite(table) & (table >= 0)).all() or np.diag(table).any():
        raise TaskError("losses must be finite, not negative, and 0 on the diagonal.")
    return table
