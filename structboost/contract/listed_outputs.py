"""Tasks whose outputs can all be listed: the best of them, and sums over all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.contract.measures import Measure, measure_of
from structboost.exceptions import TaskError

if TYPE_CHECKING:
    from structboost.task import Task


class Marginals(NamedTuple):
    """Outputs of every example as random ones, of probability ``~ exp(score)``.

    Parameters
    ----------
    expected : dict of str to ndarray, shape (n_rows, n_channels)
        The joint feature that is to be expected, by kind, its rows those of the stack.
    log_sums : ndarray, shape (n_examples,)
        Logarithm of the sum of ``exp(score)`` over all outputs.
    """

    expected: dict[str, FloatArray]
    log_sums: FloatArray


class OutputCodes(NamedTuple):
    """All outputs of a task by their label codes, for masters that sum over every output.

    Parameters
    ----------
    codes : ndarray of int8, shape (n_outputs, n_channels)
        Output y scores ``<codes[y], F(x)>``, up to a term that all outputs share.
    labels : ndarray of int64, shape (n_examples,)
        Row of each true output.
    losses : ndarray of float64, shape (n_outputs, n_outputs)
        Delta(true, output).
    """

    codes: NDArray[np.int8]
    labels: IntArray
    losses: FloatArray


class _Rated(NamedTuple):
    """An output, its joint feature, and the score of each kind."""

    output: Any
    measures: dict[str, Measure]
    scores: list[float]


def best_listed(task: Task, x: Any, scores: Any, added: Callable[[Any], float]) -> Any:
    """The first of :meth:`Task.outputs` of highest score plus ``added``.

    Raises
    ------
    TaskError
        If the task does not list its outputs, or has none.
    """
    need = "defines neither argmax(x, scores) nor outputs(x); define one of them."
    rated = _rated_outputs(task, x, _by_kind(task, scores), need)
    # A plain sum: that of Python 3.12 rounds in another way.
    return max(rated, key=lambda r: reduce(add, r.scores, added(r.output))).output


def listed_marginals(task: Task, x: Any, scores: Any) -> tuple[dict[str, FloatArray], float]:
    """Expected joint feature, by kind, and logarithm of the sum, over :meth:`Task.outputs`.

    Raises
    ------
    TaskError
        If the task does not list its outputs, or has none.
    """
    by_kind = _by_kind(task, scores)
    need = (
        "has no marginals(x, scores), which formulation='log' and predict_marginals need; define "
        "marginals and log_sum, or outputs(x)."
    )
    rated = list(_rated_outputs(task, x, by_kind, need))
    values = np.array([reduce(add, r.scores) for r in rated])
    largest = float(values.max())
    weights = np.exp(values - largest)
    total = float(weights.sum())
    expected = {kind: np.zeros(by_kind[kind].shape) for kind in task.kinds}
    for (_, measures, _), weight in zip(rated, weights / total, strict=True):
        for kind, (parts, channels, amounts) in measures.items():
            np.add.at(expected[kind], (parts, channels), weight * amounts)
    return expected, largest + float(np.log(total))


def _by_kind(task: Task, scores: Any) -> Mapping[str, FloatArray]:
    return scores if isinstance(scores, Mapping) else dict.fromkeys(task.kinds, scores)


def _rated_outputs(
    task: Task, x: Any, scores: Mapping[str, FloatArray], need: str
) -> Iterator[_Rated]:
    """All outputs of ``x``, one by one; ``need`` ends the error of a task that lists none."""
    listed = task.outputs(x)
    if listed is None:
        raise TaskError(f"{type(task).__name__} {need}")
    is_empty = True
    for output in listed:
        feature = task.joint_feature(x, output)
        measures = {
            kind: measure_of(task.kinds, feature, kind, len(rows)) for kind, rows in scores.items()
        }
        of_kinds = [
            float(m.values @ scores[kind][m.parts, m.channels]) for kind, m in measures.items()
        ]
        yield _Rated(output, measures, of_kinds)
        is_empty = False
    if is_empty:
        raise TaskError("outputs(x) is empty; give at least one output.")
