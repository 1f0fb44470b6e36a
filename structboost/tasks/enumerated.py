"""Problems with few outputs, which are listed: codes and losses are arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.contract.parts import StackedParts
from structboost.exceptions import TaskError
from structboost.tasks.code import CodeTask
from structboost.validation import shown


class EnumeratedTask(CodeTask):
    """Outputs of any kind that can be listed, each with a row of a code matrix.

    An input is a feature vector; its one part is the input itself.  Output k scores
    ``<codes[k], F(x)>``, so outputs that share a channel learn from each other's examples.  The
    argmax tries all outputs, so any loss is exact.

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
    """

    def __init__(self, outputs: Sequence[Hashable], codes: Any, losses: Any = None) -> None:
        self.listed = list(outputs)
        self._numbers = _numbers(self.listed)
        code = _checked_codes(codes, len(self.listed))
        super().__init__(code, None if losses is None else _checked_losses(losses, len(code)))

    def joint_feature(self, x: Any, y: Any) -> FloatArray:
        """The code of the output."""
        return super().joint_feature(x, self._number(y))

    def loss(self, y: Any, y_pred: Any) -> float:
        """Entry of the loss matrix."""
        return super().loss(self._number(y), self._number(y_pred))

    def argmax(self, x: Any, scores: FloatArray, y: Any = None) -> Any:
        """Output of the highest score; if ``y`` is given, each output gains its loss."""
        return self.listed[super().argmax(x, scores, None if y is None else self._number(y))]

    def argmax_batch(
        self, X: Sequence[Any], scores: StackedParts, Y: Sequence[Any] | None = None
    ) -> list[Any]:
        """Best output of every example, by one product of matrices."""
        by_output = self.class_scores(scores.rows["x"])
        if Y is not None:
            by_output = by_output + self.losses[self.labels(Y)]
        return [self.listed[k] for k in np.argmax(by_output, axis=1)]

    def outputs(self, x: Any) -> Iterator[Any]:
        """All outputs."""
        return iter(self.listed)

    def is_valid(self, x: Any, y: Any) -> bool:
        """Whether ``y`` is one of the outputs."""
        return isinstance(y, Hashable) and y in self._numbers

    def labels(self, Y: Sequence[Any]) -> IntArray:
        """True outputs as rows of the code.

        Raises
        ------
        TaskError
            If one is not listed; the message names the example.
        """
        return np.array([self._number(y, i) for i, y in enumerate(Y)], np.int64)

    def _number(self, y: Any, sample: int | None = None) -> int:
        """Row of an output."""
        try:
            return self._numbers[y]
        except (KeyError, TypeError):
            name = "An output" if sample is None else "Y[{sample}]"
            raise TaskError(
                f"{name} is {shown(y)}, which is none of the {len(self.listed)} outputs of this "
                "task; list it, or drop the example.",
                sample,
            ) from None


def _numbers(outputs: Sequence[Any]) -> dict[Any, int]:
    """Place of each output; TaskError unless there are two, hashable and different."""
    if len(outputs) < 2:
        raise TaskError(f"outputs has {len(outputs)} entries; a task needs at least 2.")
    numbers: dict[Any, int] = {}
    for k, output in enumerate(outputs):
        if not isinstance(output, Hashable):
            raise TaskError(
                f"outputs[{k}] is {shown(output)}, which cannot be hashed; give tuples or "
                "frozensets."
            )
        if output in numbers:
            raise TaskError(f"outputs[{k}] is {shown(output)} again; list each output once.")
        numbers[output] = k
    return numbers


def _checked_codes(codes: Any, n_outputs: int) -> NDArray[np.int8]:
    given = np.asarray(codes)
    if given.ndim != 2 or len(given) != n_outputs or given.shape[1] < 1:
        raise TaskError(
            f"codes has shape {given.shape}; give (n_outputs, n_channels), a row for each of the "
            f"{n_outputs} outputs."
        )
    if given.dtype.kind not in "biuf" or not (np.abs(given) <= 127).all():
        raise TaskError("codes must be whole numbers in -127..127.")
    code = given.astype(np.int8)
    if not np.array_equal(code, given):
        raise TaskError("codes must be whole numbers in -127..127.")
    return code


def _checked_losses(losses: Any, n_outputs: int) -> FloatArray:
    given = np.asarray(losses, np.float64)
    if given.shape != (n_outputs, n_outputs):
        raise TaskError(
            f"losses has shape {given.shape}; give a row and a column for each of the {n_outputs} "
            "outputs."
        )
    if not (np.isfinite(given) & (given >= 0)).all() or np.diag(given).any():
        raise TaskError("losses must be finite, not negative, and 0 on the diagonal.")
    return given
