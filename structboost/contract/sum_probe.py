"""Comparison of the sums of a task over all outputs with scores of outputs that are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.contract.calls import marginals
from structboost.contract.listed_outputs import Marginals, listed_batch
from structboost.contract.measures import OF_ARGMAX, SparseFeature, joint_features
from structboost.contract.parts import StackedParts
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
        with examples_numbered([i]):
            inputs = X[[i]] if hasattr(X, "indptr") else [X[i]]
            probe_sums_of(task, inputs, Y[i], _random(task, offsets, i), _MOST_LISTED)


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


def _random(task: Task, offsets: Mapping[str, IntArray], i: int) -> StackedParts:
    """Draw scores of example ``i``, not negative where they must not be."""
    random = np.random.default_rng(i)
    rows, starts = {}, {}
    for kind, part in task.kinds.items():
        size = int(offsets[kind][i + 1] - offsets[kind][i])
        drawn = random.standard_normal((size, part.n_channels))
        rows[kind] = drawn if min(part.response) < 0 else np.abs(drawn) + 0.1
        starts[kind] = np.array([0, size], np.int64)
    return StackedParts(rows, starts)


def probe_sums_of(task: Task, X: Any, y: Any, scores: StackedParts, most_listed: int) -> None:
    """Check the sums of a single example, which has index 0.

    They are compared with all outputs if the task lists at most ``most_listed``.
    """
    sums = marginals(task, X, scores)
    log_sum = float(sums.log_sums[0])
    inputs = [X[0]] if task.reads_inputs else [None]
    outputs = {
        "the true output": [y],
        "the output of argmax": task.argmax_batch(X, scores),
    }
    for name, output in outputs.items():
        features = joint_features(task, inputs, output, scores.offsets, OF_ARGMAX)
        check_sum(log_sum, *_score(features, scores), 0, name)
    _check_slope(task, X, scores, sums)
    _check_limit(task, X, inputs, scores)
    listed = task.outputs(X[0]) if task.reads_inputs else None
    if listed is not None and sum(1 for _ in islice(listed, most_listed + 1)) <= most_listed:
        expected = listed_batch(task, X, scores)
        pairs = {"log_sum": (sums.log_sums, expected.log_sums)}
        pairs |= {
            f"marginals of {k!r}": (sums.expected[k], expected.expected[k]) for k in scores.rows
        }
        for name, (value, of_list) in pairs.items():
            if not np.allclose(value, of_list, rtol=_OF_SUMS, atol=_OF_SUMS):
                raise TaskError(
                    f"{name} at X[{{sample}}] differs from the sum over outputs(X[{{sample}}]), by "
                    f"up to {np.abs(value - of_list).max():.3g}; correct one of them.",
                    0,
                )


def _score(features: Mapping[str, SparseFeature], scores: StackedParts) -> tuple[float, float]:
    """Return the score of an output, and the sum of its absolute terms."""
    terms = [
        feature.values * scores.rows[kind][feature.parts, feature.channels]
        for kind, feature in features.items()
    ]
    sums = ((float(of_kind.sum()), float(np.abs(of_kind).sum())) for of_kind in terms)
    score, size = (sum(column) for column in zip(*sums, strict=True))
    return score, size


def _check_limit(task: Task, X: Any, inputs: Sequence[Any], scores: StackedParts) -> None:
    """Check that sums at large scores exceed the best score by the log of a number of outputs.

    They do if the probability is on outputs of one joint feature, which are mostly one.
    """
    rows = {kind: _LARGE * of_kind for kind, of_kind in scores.rows.items()}
    large = StackedParts(rows, scores.offsets)
    try:
        with np.errstate(all="ignore"):
            sums = marginals(task, X, large)
    except TaskError:  # a sum may be right, and overflow
        return
    output = task.argmax_batch(X, large)
    features = joint_features(task, inputs, output, scores.offsets, OF_ARGMAX)
    for kind, (parts, channels, values) in features.items():
        of_output = np.zeros_like(sums.expected[kind])
        np.add.at(of_output, (parts, channels), values)
        if np.abs(sums.expected[kind] - of_output).max(initial=0.0) > _CERTAIN:
            return
    excess = float(sums.log_sums[0]) - _score(features, large)[0]
    n_outputs = float(np.exp(min(excess, _LARGEST_EXCESS)))
    if abs(n_outputs - max(1.0, round(n_outputs))) > _OF_NUMBERS * n_outputs:
        raise TaskError(
            f"log_sum(X[{{sample}}], scores) exceeds the only score that counts by {excess:.6g}; "
            "sum exp(score) over all outputs, each once. Run check_task(task, X, Y).",
            0,
        )


def _check_slope(task: Task, X: Any, scores: StackedParts, sums: Marginals) -> None:
    """Check that the marginals are the gradient of the sum along a random direction."""
    random = np.random.default_rng(0)
    direction = {kind: random.standard_normal(rows.shape) for kind, rows in scores.rows.items()}

    def log_sum(step: float) -> float:
        rows: dict[str, FloatArray] = {
            kind: of_kind + step * direction[kind] for kind, of_kind in scores.rows.items()
        }
        return float(marginals(task, X, StackedParts(rows, scores.offsets)).log_sums[0])

    slope = (log_sum(_STEP) - log_sum(-_STEP)) / (2.0 * _STEP)
    terms = [sums.expected[kind] * direction[kind] for kind in scores.rows]
    expected = sum(float(of_kind.sum()) for of_kind in terms)
    size = 1.0 + sum(float(np.abs(of_kind).sum()) for of_kind in terms)
    rounding = 1e-15 * abs(float(sums.log_sums[0])) / _STEP
    if abs(slope - expected) > _OF_DIFFERENCES * size**3 + rounding:
        raise TaskError(
            "marginals(X[{sample}], scores) is not the gradient of log_sum: along a random "
            f"direction log_sum rises by {slope:.6g}, by the marginals it must be {expected:.6g}. "
            "Run check_task(task, X, Y).",
            0,
        )
