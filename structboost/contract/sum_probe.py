"""Comparison of the sums of a task over all outputs with scores of outputs that are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.contract.calls import marginals
from structboost.contract.listed_outputs import listed_batch
from structboost.contract.parts import OF_ARGMAX, FeatureRows, StackedParts, joint_features
from structboost.contract.task import Task
from structboost.errors import TaskError, examples_numbered

# Examples that are probed, one in so many and at most.
_EXAMPLES_PER_PROBE, _MOST_PROBED = 16, 4
# Tolerances of sums and of differences of sums, at scores of size 1, and the step of these.
_OF_SUMS, _OF_DIFFERENCES, _STEP = 1e-8, 1e-6, 1e-4
# Factor of large scores, at which a single output is certain, and tolerances there: of its joint
# feature, and of a number of outputs.  The last is of logarithms of it that are compared.
_LARGE, _CERTAIN, _OF_NUMBERS, _LARGEST_EXCESS = 100.0, 1e-9, 1e-5, 20.0
# Outputs up to which the sums are compared with all of them.
_MOST_LISTED = 200


def probe_sums(task: Task, X: Any, Y: Sequence[Any], offsets: Mapping[str, IntArray]) -> None:
    """Check on a few examples that the marginals are those of the outputs of the task.

    At random scores, the sum of ``exp(score)`` must not be below that of the true output, nor of
    the output of the argmax.  Its slope must be the expected joint feature.  If a task also lists
    few outputs, both must be the sums over them; if it only lists them, the library sums over them,
    and nothing is probed.  TaskError names the example and the method.
    """
    if not has_sums(task):
        return
    n = len(Y)
    n_probed = min(1 + n // _EXAMPLES_PER_PROBE, _MOST_PROBED, n)
    for i in np.linspace(0, n - 1, n_probed).astype(int).tolist():
        random = np.random.default_rng(i)
        rows = {}
        for kind, part in task.kinds.items():
            drawn = random.standard_normal(
                (int(offsets[kind][i + 1] - offsets[kind][i]), part.n_channels)
            )
            rows[kind] = drawn if min(part.response) < 0 else np.abs(drawn) + 0.1
        with examples_numbered([i]):
            probe_sums_of(
                task, X[[i]] if hasattr(X, "indptr") else [X[i]], Y[i], rows, _MOST_LISTED
            )


def has_sums(task: Task) -> bool:
    """Whether the task overrides the sums over all outputs, in any of their forms."""
    return task.defines("marginals", "log_sum", "marginals_batch")


def check_sum(log_sum: float, score: float, size: float, i: int, output: str) -> None:
    """Raise TaskError if the sum over all outputs is below the score of one of them."""
    if not log_sum >= score - _OF_SUMS * (1.0 + abs(log_sum) + size):
        raise TaskError(
            f"log_sum(X[{{sample}}], scores) is {log_sum:.9g}, below the score {score:.9g} of "
            f"{output}; sum exp(score) over all outputs, scores being those of joint_feature. Run "
            "check_task(task, X, Y).",
            i,
        )


def probe_sums_of(
    task: Task, X: Any, y: Any, scores: Mapping[str, FloatArray], most_listed: int
) -> None:
    """Check the sums of a single example, which has index 0.

    They are compared with all outputs if the task lists at most ``most_listed``.
    """
    features = FeatureRows({kind: rows.shape for kind, rows in scores.items()})
    offsets = {kind: np.array([0, len(rows)], np.int64) for kind, rows in scores.items()}

    def sums_at(flat: FloatArray) -> tuple[FloatArray, float]:
        """Return the expected joint feature and the log of the sum at these scores."""
        sums = marginals(task, X, StackedParts(features.by_kind(flat), offsets))
        return features.flat(sums.expected), float(sums.log_sums[0])

    def best_at(flat: FloatArray) -> Any:
        return task.argmax_batch(X, StackedParts(features.by_kind(flat), offsets))[0]

    flat = features.flat(scores)
    large = _LARGE * flat
    outputs = {"the true output": y, "the output of argmax": best_at(flat), "": best_at(large)}
    x = X[0] if task.reads_inputs else None
    for output in outputs.values():
        features.append(joint_features(task, [x], [output], offsets, OF_ARGMAX))
    matrix = features.matrix()
    expected, log_sum = sums_at(flat)
    values, sizes = matrix @ flat, abs(matrix) @ np.abs(flat)
    for name, score, size in zip([*outputs][:2], values, sizes, strict=False):
        check_sum(log_sum, float(score), float(size), 0, name)
    _check_slope(sums_at, flat, expected, log_sum)
    excess, best = 0.0, matrix[[2]].toarray()[0]
    with suppress(TaskError), np.errstate(all="ignore"):  # a sum may be right, and overflow
        expected_at_large, log_sum_at_large = sums_at(large)
        if (np.abs(expected_at_large - best) <= _CERTAIN).all():
            excess = log_sum_at_large - float(best @ large)
    _check_limit(excess)
    listed = task.outputs(x) if task.reads_inputs else None
    if listed is not None and sum(1 for _ in islice(listed, most_listed + 1)) <= most_listed:
        of_list = listed_batch(task, X, StackedParts(scores, offsets))
        for name, value, other in (
            ("log_sum", log_sum, of_list.log_sums[0]),
            ("marginals", expected, features.flat(of_list.expected)),
        ):
            if not np.allclose(value, other, rtol=_OF_SUMS, atol=_OF_SUMS):
                raise TaskError(
                    f"{name} at X[{{sample}}] differs from the sum over outputs(X[{{sample}}]), by "
                    f"up to {np.abs(value - other).max():.3g}; correct one of them.",
                    0,
                )


def _check_limit(excess: float) -> None:
    """Check that a sum exceeds the only score that counts by the log of a number of outputs.

    The probability is on outputs of one joint feature, which are mostly one.
    """
    n_outputs = float(np.exp(min(excess, _LARGEST_EXCESS)))
    if abs(n_outputs - max(1.0, round(n_outputs))) > _OF_NUMBERS * n_outputs:
        raise TaskError(
            f"log_sum(X[{{sample}}], scores) exceeds the only score that counts by {excess:.6g}; "
            "sum exp(score) over all outputs, each once. Run check_task(task, X, Y).",
            0,
        )


def _check_slope(
    sums_at: Callable[[FloatArray], tuple[FloatArray, float]],
    flat: FloatArray,
    expected: FloatArray,
    log_sum: float,
) -> None:
    """Check that the marginals are the gradient of the sum along a random direction."""
    direction = np.random.default_rng(0).standard_normal(len(flat))
    rise = sums_at(flat + _STEP * direction)[1] - sums_at(flat - _STEP * direction)[1]
    slope, wanted = rise / (2.0 * _STEP), float(expected @ direction)
    size = 1.0 + float(np.abs(expected * direction).sum())
    if abs(slope - wanted) > _OF_DIFFERENCES * size**3 + 1e-15 * abs(log_sum) / _STEP:
        raise TaskError(
            "marginals(X[{sample}], scores) is not the gradient of log_sum: along a random "
            f"direction log_sum rises by {slope:.6g}, by the marginals it must be {wanted:.6g}. "
            "Run check_task(task, X, Y).",
            0,
        )
