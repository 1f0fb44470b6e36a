"""Check of :meth:`structboost.Task.marginals` at random scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from structboost.conformance.watched_task import Scores, by_kind, only
from structboost.contract.listed_outputs import Marginals, listed_marginals
from structboost.contract.parts import StackedParts
from structboost.contract.task import Task
from structboost.errors import TaskError

# Step of the differences, and tolerances at scores of size 1.
_STEP = 1e-4
_OF_DIFFERENCES = 1e-6
_OF_SUMS = 1e-8
# Outputs up to which the sums are compared with all of them.
_MAX_LISTED = 2000


def has_marginals(task: Task) -> bool:
    """Whether the task overrides the marginals, in any of their forms."""
    return task.defines("marginals", "log_sum", "marginals_batch")


def check_marginals(
    task: Task,
    i: int,
    x: Any,
    scores: Scores,
    value_of: Callable[[Scores], list[float]],
    random: np.random.Generator,
) -> None:
    """Check that the marginals of one input are the gradient of its ``log_sum``.

    ``value_of`` takes scores of the parts and returns the scores of some outputs.
    """
    log_sum = float(task.log_sum(x, only(scores)))
    means = by_kind(task, task.marginals(x, only(scores)))
    for kind, rows in scores.items():
        if means[kind].shape != rows.shape or not np.isfinite(means[kind]).all():
            raise TaskError(
                f"marginals(X[{i}], scores) for kind {kind!r} must be finite, of shape "
                f"(n_parts, n_channels) = {rows.shape}; it has shape {means[kind].shape}."
            )
    best = max(value_of(scores))
    if not log_sum >= best - _OF_SUMS * (1.0 + abs(best)):
        raise TaskError(
            f"log_sum(X[{i}], scores) is {log_sum:.9g}, below the score {best:.9g} of a single "
            "output; sum exp(score) over all outputs, scores being those of joint_feature."
        )
    listed = task.outputs(x)
    if listed is not None and sum(1 for _ in islice(listed, _MAX_LISTED + 1)) <= _MAX_LISTED:
        expected, sum_of_all = listed_marginals(task, x, only(scores))
        _compare(f"log_sum(X[{i}], scores)", "the sum over outputs(x)", log_sum, sum_of_all)
        for kind, rows in expected.items():
            _compare(f"marginals(X[{i}], scores)", "the mean over outputs(x)", means[kind], rows)
    direction = {kind: random.standard_normal(rows.shape) for kind, rows in scores.items()}
    ends = [
        float(task.log_sum(x, only({k: scores[k] + step * direction[k] for k in scores})))
        for step in (_STEP, -_STEP)
    ]
    slope = (ends[0] - ends[1]) / (2 * _STEP)
    expected_slope = sum(float((means[kind] * direction[kind]).sum()) for kind in scores)
    size = 1.0 + sum(float(np.abs(means[kind] * direction[kind]).sum()) for kind in scores)
    rounding = 1e-15 * abs(log_sum) / _STEP
    if abs(slope - expected_slope) > _OF_DIFFERENCES * size**3 + rounding:
        raise TaskError(
            f"marginals(X[{i}], scores) is not the gradient of log_sum: along a random direction "
            f"log_sum rises by {slope:.6g}, by the marginals it must be {expected_slope:.6g}."
        )


def check_marginals_batch(
    task: Task, X: Sequence[Any], scores: StackedParts, means: Marginals, examples: Sequence[int]
) -> None:
    """Check that the batch form agrees with the methods of one example."""
    for i in examples:
        of_example = scores.example(i)
        _compare(
            f"marginals_batch: log_sums[{i}]", "log_sum", means.log_sums[i],
            task.log_sum(X[i], of_example),
        )  # fmt: skip
        single = by_kind(task, task.marginals(X[i], of_example))
        for kind, starts in scores.offsets.items():
            rows = means.expected[kind][starts[i] : starts[i + 1]]
            _compare(f"marginals_batch of X[{i}]", "marginals", rows, single[kind])


def _compare(name: str, other: str, means: Any, expected: Any) -> None:
    if not np.allclose(means, expected, rtol=_OF_SUMS, atol=_OF_SUMS):
        most = float(np.abs(np.asarray(means) - np.asarray(expected)).max())
        raise TaskError(f"{name} differs from {other}, by up to {most:.3g}.")
