"""Comparison of an exact argmax with outputs from other searches.

An output found at other scores is also a candidate.  If it is better than the new one, the argmax
is not exact: the primal is too low, and nothing is certified.

Later comparisons cannot reveal outputs that the argmax never returns, because it searches too small
a set or has the sign of the loss wrong.  So a few examples are probed before training, at scores
for and against their true outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.contract.calls import separation
from structboost.contract.comparison import SLIP, beaten, check_found, compare_plain_argmax
from structboost.contract.equality import deeply_equal
from structboost.contract.losses import check_loss_of_truth, loss_of
from structboost.contract.measures import SparseFeature, measure_of
from structboost.contract.parts import StackedParts
from structboost.contract.returned_outputs import returned_none
from structboost.contract.separation import KeptTruth, Separation
from structboost.contract.task import Task
from structboost.errors import TaskError, examples_numbered, on_example

# Minimum (if there are enough) and maximum number of probed examples, examples per further probe,
# and number of candidates.
_LEAST_PROBED = 2
_PROBED = 8
_EXAMPLES_PER_PROBE = 16
_CANDIDATES = 64
# Maximum number of true outputs whose loss is computed; later passes notice others.
_MOST_LOSSES = 256
# Scores of a probe, in units in which a part is worth the largest loss.
_STRENGTH = 4.0
# Joint features below this cannot be separated by scores.
_LEAST_WEIGHT = 1e-9
# Units of a loss to try if the search without scores gives none.
_UNITS = (1.0, 1e4, 1e8)


class LastOutputs:
    """Last outputs of fixed examples, which the next ones must not fall behind.

    They are stored only if a task finds outputs one by one, where a comparison costs little.
    """

    def __init__(self) -> None:
        self._last: Separation | None = None

    def check(
        self,
        task: Task,
        separation: Separation,
        violations: FloatArray,
        scores: StackedParts,
        first: int = 0,
    ) -> None:
        """Compare new outputs at ``scores`` with the last ones, and store the new ones.

        TaskError if one of the last is better; the message names the example.
        """
        if not task.exact_argmax or task.separates_in_batches:
            return
        if self._last is not None:
            hinges = np.maximum(violations, 0.0)
            check_found(hinges, self._last.violations(scores), separation.losses, scores, first)
        self._last = separation


def probe_argmax(
    task: Task, X: Sequence[Any] | None, Y: Sequence[Any], offsets: Mapping[str, IntArray]
) -> None:
    """Check that truths have no loss, parts stay, and the argmax of a few examples is exact.

    Each is searched at zero scores, and at scores against and for the truth.  No output may fall
    behind another one, or behind the truth, at the scores where it was found.  The argmax without
    loss is a candidate as well, a batch form must reach the same values, the scores of a loss must
    give it, and arguments must stay as they are.  A task is not probed if its argmax is declared
    inexact, or training does not use it.  ``X`` may be None if the task does not read it.
    TaskError names the example.
    """
    if not task.exact_argmax or task.separates_in_batches:
        return
    n = len(Y)
    for i in np.unique(np.linspace(0, n - 1, min(n, _MOST_LOSSES)).astype(int)).tolist():
        check_loss_of_truth(loss_of(task, i, Y[i], Y[i]), SLIP, i)
    candidates = np.unique(np.linspace(0, n - 1, min(n, _CANDIDATES)).astype(int)).tolist()
    _check_same_parts(task, _input(task, X, 0))
    truths = {i: _truth(task, _input(task, X, i), Y[i], offsets, i) for i in candidates}
    for i in _various(truths, min(_PROBED, 1 + n // _EXAMPLES_PER_PROBE)):
        x, favouring = _input(task, X, i), _favouring(task, truths[i], offsets, i)
        try:
            _probe(task, x, Y[i], favouring, i)
        except TaskError:
            if not any(y is None for y in Y) and _returns_none(task, x, favouring):
                raise returned_none("argmax", i) from None
            raise


def _returns_none(task: Task, x: Any, scores: StackedParts) -> bool:
    """Whether the argmax of an example is None."""
    try:
        return bool(task.argmax_batch([x], scores)[0] is None)
    except Exception:
        return False


def _input(task: Task, X: Sequence[Any] | None, i: int) -> Any:
    """Return input ``i``, or None if the task reads none."""
    return None if X is None or not task.reads_inputs else X[i]


def _truth(
    task: Task, x: Any, y: Any, offsets: Mapping[str, IntArray], i: int
) -> dict[str, SparseFeature]:
    """Return the joint feature of the true output of example ``i``, by kind."""
    value = on_example("joint_feature", i, task.joint_feature, x, y)
    sizes = {kind: int(offsets[kind][i + 1] - offsets[kind][i]) for kind in task.kinds}
    return {
        kind: measure_of(task.kinds, value, kind, sizes[kind], i, "Y[{sample}]")
        for kind in task.kinds
    }


def _various(truths: Mapping[int, Mapping[str, SparseFeature]], n: int) -> list[int]:
    """Choose at most ``n`` examples whose true outputs cover as many channels as possible."""
    channels = {
        i: {(kind, c) for kind, measure in truth.items() for c in measure.channels.tolist()}
        for i, truth in truths.items()
    }
    chosen: list[int] = []
    seen: set[tuple[str, int]] = set()
    while channels and len(chosen) < n:
        best = max(channels, key=lambda i: len(channels[i] - seen))
        if len(chosen) >= _LEAST_PROBED and channels[best] <= seen:
            break
        seen |= channels.pop(best)
        chosen.append(best)
    return chosen


def _favouring(
    task: Task, truth: Mapping[str, SparseFeature], offsets: Mapping[str, IntArray], i: int
) -> StackedParts:
    """Return scores at which the truth of example ``i`` gains about 1 per part over others."""
    rows, starts = {}, {}
    for kind, measure in truth.items():
        n_parts = int(offsets[kind][i + 1] - offsets[kind][i])
        rows[kind] = np.zeros((n_parts, task.kinds[kind].n_channels))
        # Scores of other kinds must not be negative, but may be zero.
        if min(task.kinds[kind].response) < 0:
            np.add.at(rows[kind], (measure.parts, measure.channels), measure.values)
        starts[kind] = np.array([0, n_parts], np.int64)
    largest = max(float(np.abs(of_kind).max(initial=0.0)) for of_kind in rows.values())
    return _times(StackedParts(rows, starts), 1.0 / max(largest, _LEAST_WEIGHT) ** 2)


def _times(scores: StackedParts, factor: float) -> StackedParts:
    return StackedParts({kind: factor * rows for kind, rows in scores.rows.items()}, scores.offsets)


def _probe(task: Task, x: Any, y: Any, favouring: StackedParts, i: int) -> None:
    """Search example ``i`` at scores of several strengths, and compare the outputs."""
    _check_same_twice(task, x, y, i)
    probes: list[tuple[StackedParts, Separation]] = []
    truth = KeptTruth(counts_passes=False)

    def search(strength: float) -> float:
        """Return the loss of the argmax at these scores."""
        scores = _times(favouring, strength)
        probes.append((scores, separation(task, [x], [y], scores, i, truth)))
        if not deeply_equal(dict(scores.rows), dict(_times(favouring, strength).rows)):
            raise TaskError(
                "argmax or separate changed the scores of X[{sample}] in place; work on a copy.", i
            )
        return float(probes[-1][1].losses[0])

    loss = search(0.0)
    # If the search without scores gives the truth, only scores against it give the unit.
    for unit in (loss,) if loss else _UNITS:
        loss = max(loss, search(-_STRENGTH * unit))
        if loss:
            break
    against = probes[-1]
    search(_STRENGTH * (loss or 1.0))
    for scores, output in probes:
        others = max(float(other.violations(scores)[0]) for _, other in probes)
        rival = "the true output" if others <= 0 else "another output"
        names = f"it found an output (loss {output.losses[0]:.6g})", rival
        size = output.losses + sum(_size(other, scores) for _, other in probes)
        best = np.array([max(others, 0.0)])
        check_found(output.violations(scores), best, size, scores, i, names)
    _check_separate(task, x, y, *against, i)
    if not task.is_enumerated:
        compare_plain_argmax(task, x, y, *against, i)
    _check_loss_scores(task, x, y, [output for _, output in probes], favouring, i)


def _check_same_parts(task: Task, x: Any) -> None:
    """Check that the parts of the first input, if it is read, are the same in two calls."""
    if x is None:
        return
    first = deepcopy(on_example("parts", 0, task.parts, x))
    if not deeply_equal(first, on_example("parts", 0, task.parts, x)):
        raise TaskError(
            "parts(X[{sample}]) is not deterministic: two calls gave different features. Draw "
            "nothing at random there, and work on a copy of X[{sample}].",
            0,
        )


def _check_same_twice(task: Task, x: Any, y: Any, i: int) -> None:
    """Check that joint feature of the truth is the same in two calls."""
    first, second = (
        on_example("joint_feature", i, task.joint_feature, x, y, argument="Y") for _ in range(2)
    )
    if not deeply_equal(first, second):
        raise TaskError(
            "joint_feature(X[{sample}], Y[{sample}]) is not deterministic: two calls gave "
            "different weights.",
            i,
        )


def _check_separate(
    task: Task, x: Any, y: Any, scores: StackedParts, batch: Separation, i: int
) -> None:
    """Check that a ``separate`` of the task reaches the value of its argmax."""
    if not task.defines("separate"):
        return
    with examples_numbered([i]):
        single = Task.separate(task, [x], [y], scores)
    values = float(batch.violations(scores)[0]), float(single.violations(scores)[0])
    size = float(batch.losses[0] + single.losses[0]) + _size(batch, scores) + _size(single, scores)
    if beaten(min(values), max(values), size):
        raise TaskError(
            "separate and argmax disagree on X[{sample}]: loss minus difference of scores is "
            f"{values[0]:.6g} by separate, {values[1]:.6g} by the loss-augmented argmax. "
            "Run check_task(task, X, Y) and correct one of them.",
            i,
        )


def _check_loss_scores(
    task: Task, x: Any, y: Any, outputs: Sequence[Separation], shapes: StackedParts, i: int
) -> None:
    """Check that the scores of the loss give each output its loss."""
    added = KeptTruth().loss_scores(task, [x], [y], shapes.offsets)
    if added is None:
        return
    rows = {
        kind: np.asarray(added.get(kind, np.zeros_like(of_kind)), np.float64)
        for kind, of_kind in shapes.rows.items()
    }
    scores = StackedParts(rows, shapes.offsets)
    for output in outputs:
        loss = float(output.losses[0])
        gain = float(output.violations(scores)[0]) - loss
        if beaten(min(loss, gain), max(loss, gain), _size(output, scores)):
            raise TaskError(
                f"loss_scores and loss disagree on X[{{sample}}]: an output has the loss "
                f"{loss:.6g}, and loss_scores(X[{{sample}}], Y[{{sample}}]) gives it {gain:.6g} "
                "more than the truth. Run check_task(task, X, Y) and correct one of them.",
                i,
            )


def _size(output: Separation, scores: StackedParts) -> float:
    """Return the sum of the absolute terms in the score difference of an output and the truth."""
    return sum(
        float(np.abs(m.values * scores.rows[kind][m.parts, m.channels]).sum())
        for kind, m in output.differences.items()
    )
