"""Whether an argmax that claims to be exact finds at least what is known already.

What was found at other scores is an output as well.  Where it is better than the new one, the
argmax is not exact: the primal is too low, and nothing is certified.

What an argmax never returns, no later comparison can show: of a smaller set of outputs, or of a
loss with the wrong sign, all that it finds is the best.  So a few examples are probed before
training, at scores for and against their true outputs, which are outputs that are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.contract.calls import separation
from structboost.contract.measures import SparseFeature, measure_of
from structboost.contract.parts import StackedParts
from structboost.contract.separation import KeptTruth, Separation, check_loss_of_truth, loss_of
from structboost.contract.task import Task
from structboost.exceptions import TaskError, on_example

# An exact argmax may fall behind an earlier output by rounding, not by more.
_SLIP = 1e-6
# Examples that are probed: at least where there are enough, and at most; one more per so many
# examples; and those they are chosen from.
_LEAST_PROBED = 2
_PROBED = 8
_EXAMPLES_PER_PROBE = 16
_CANDIDATES = 64
# Scores of a probe, in units in which a part is worth the largest loss.
_STRENGTH = 4.0
# Joint features below this have no scores that would tell them apart.
_LEAST_WEIGHT = 1e-9
# Units of a loss that are tried where none is known.
_UNITS = (1.0, 1e4, 1e8)


def beaten(found: Any, known: Any, size: Any) -> NDArray[np.bool_]:
    """Where ``known`` is above ``found`` by more than rounding; ``size``: that of their terms."""
    return np.asarray(known - found > _SLIP * (1.0 + np.abs(found) + size))


def check_found(
    found: FloatArray,
    known: FloatArray,
    losses: FloatArray,
    scores: StackedParts,
    first: int = 0,
    names: tuple[str, str] = ("it found an output", "an earlier output"),
) -> None:
    """Raise TaskError where an output that is known violates its margin more than the one found.

    Parameters
    ----------
    found, known : ndarray, shape (n_examples,)
        Largest violations, by what the argmax found and by earlier outputs.
    losses : ndarray, shape (n_examples,)
        Losses of the outputs found.
    scores : StackedParts
        Scores of the parts at which they were found.
    first : int
        Number of the first example, for the message.
    names : (str, str)
        What the message calls the output found and the one that is known.
    """
    for i in np.flatnonzero(beaten(found, known, losses)).tolist():
        size = losses[i] + sum(
            float(np.abs(rows[slice(*scores.offsets[kind][i : i + 2])]).max(axis=1).sum())
            for kind, rows in scores.rows.items()
        )
        if beaten(found[i], known[i], size):
            raise TaskError(
                f"The loss-augmented argmax of X[{{sample}}] is not exact: {names[0]} of value "
                f"{found[i]:.6g}, {names[1]} has {known[i]:.6g}. Run "
                "check_task(task, X, Y) and correct it, or set exact_argmax = False.",
                first + i,
            )


class LastOutputs:
    """The outputs of fixed examples that were found last, which the next ones must not fall behind.

    Kept where a task finds outputs one by one; then looking at them once more costs nothing beside.
    """

    def __init__(self) -> None:
        self._found: Separation | None = None

    def check(
        self,
        task: Task,
        found: Separation,
        violations: FloatArray,
        scores: StackedParts,
        first: int = 0,
    ) -> None:
        """Compare the outputs found at ``scores`` with the last ones, and keep them.

        Parameters
        ----------
        task : Task
        found : Separation
        violations : ndarray, shape (n_examples,)
            Those of ``found``.
        scores : StackedParts
        first : int
            Number of the first example.

        Raises
        ------
        TaskError
            If one of the last is better; the message names the example.
        """
        if not task.exact_argmax or task.separates_in_batches:
            return
        if self._found is not None:
            hinges = np.maximum(violations, 0.0)
            check_found(hinges, self._found.violations(scores), found.losses, scores, first)
        self._found = found


def probe_argmax(
    task: Task, X: Sequence[Any] | None, Y: Sequence[Any], offsets: Mapping[str, IntArray]
) -> None:
    """Look at a few examples whether the truth has no loss, and whether the argmax is exact.

    Each is searched without scores, and at scores against and for the truth.  None of the outputs
    found may fall behind another of them, or behind the truth, at its own scores.

    Parameters
    ----------
    task : Task
        Not probed if its argmax is declared not to be exact, or does not serve training.
    X, Y : sequence
        Inputs and true outputs; X may be None if the task does not read it.
    offsets : dict of str to ndarray of int64, shape (n_examples + 1,)
        First part of each example, by kind.

    Raises
    ------
    TaskError
        If an output falls behind, or a true output has a loss; the message names the example.
    """
    if not task.exact_argmax or task.separates_in_batches:
        return
    n = len(Y)
    candidates = np.unique(np.linspace(0, n - 1, min(n, _CANDIDATES)).astype(int)).tolist()
    for i in candidates:
        check_loss_of_truth(loss_of(task, i, Y[i], Y[i]), _SLIP, i)
    truths = {i: _truth(task, _input(task, X, i), Y[i], offsets, i) for i in candidates}
    for i in _various(truths, min(_PROBED, 1 + n // _EXAMPLES_PER_PROBE)):
        _probe(task, _input(task, X, i), Y[i], _favouring(task, truths[i], offsets, i), i)


def _input(task: Task, X: Sequence[Any] | None, i: int) -> Any:
    """Input ``i``, None where the task reads none."""
    return None if X is None or not task.reads_inputs else X[i]


def _truth(
    task: Task, x: Any, y: Any, offsets: Mapping[str, IntArray], i: int
) -> dict[str, SparseFeature]:
    """Joint feature of the true output of example ``i``, by kind."""
    value = on_example("joint_feature", i, task.joint_feature, x, y)
    sizes = {kind: int(offsets[kind][i + 1] - offsets[kind][i]) for kind in task.kinds}
    return {kind: measure_of(task.kinds, value, kind, sizes[kind], i) for kind in task.kinds}


def _various(truths: Mapping[int, Mapping[str, SparseFeature]], n: int) -> list[int]:
    """At most so many examples, whose truths have as many different channels as may be."""
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
    """Scores by which the truth of example ``i`` is worth about 1 more per part than others."""
    rows, starts = {}, {}
    for kind, measure in truth.items():
        n_parts = int(offsets[kind][i + 1] - offsets[kind][i])
        rows[kind] = np.zeros((n_parts, task.kinds[kind].n_channels))
        # Scores of other kinds must not be negative; zero they may be.
        if min(task.kinds[kind].response) < 0:
            np.add.at(rows[kind], (measure.parts, measure.channels), measure.values)
        starts[kind] = np.array([0, n_parts], np.int64)
    largest = max(float(np.abs(of_kind).max(initial=0.0)) for of_kind in rows.values())
    return _times(StackedParts(rows, starts), 1.0 / max(largest, _LEAST_WEIGHT) ** 2)


def _times(scores: StackedParts, factor: float) -> StackedParts:
    return StackedParts({kind: factor * rows for kind, rows in scores.rows.items()}, scores.offsets)


def _probe(task: Task, x: Any, y: Any, favouring: StackedParts, i: int) -> None:
    """Search example ``i`` at scores of several strengths, and compare what is found."""
    found: list[tuple[StackedParts, Separation]] = []
    truth = KeptTruth()

    def search(strength: float) -> float:
        """Loss of what is found at these scores."""
        scores = _times(favouring, strength)
        found.append((scores, separation(task, [x], [y], scores, i, truth)))
        return float(found[-1][1].losses[0])

    loss = search(0.0)
    # Where the truth is found without scores, only scores against it find the unit of the loss.
    for unit in (loss,) if loss else _UNITS:
        loss = max(loss, search(-_STRENGTH * unit))
        if loss:
            break
    search(_STRENGTH * (loss or 1.0))
    for scores, own in found:
        others = max(float(other.violations(scores)[0]) for _, other in found)
        rival = "the true output" if others <= 0 else "another output"
        names = f"it found an output (loss {own.losses[0]:.6g})", rival
        size = own.losses + sum(_size(other, scores) for _, other in found)
        known = np.array([max(others, 0.0)])
        check_found(own.violations(scores), known, size, scores, i, names)


def _size(found: Separation, scores: StackedParts) -> float:
    """Sum of the terms by which the score of an output falls behind that of the truth."""
    return sum(
        float(np.abs(own.values * scores.rows[kind][own.parts, own.channels]).sum())
        for kind, own in found.differences.items()
    )
