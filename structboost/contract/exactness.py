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
from typing import Any, NamedTuple

import numpy as np

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray
from structboost.contract.parts import (
    SLIP,
    FeatureRows,
    SparseFeature,
    StackedParts,
    check_loss_of_truth,
    check_not_none,
    check_one_each,
    deeply_equal,
    loss_of,
    measure_of,
    returned_none,
)
from structboost.contract.separation import (
    KeptTruth,
    Separation,
    check_separation,
    stacked_loss_scores,
)
from structboost.contract.task import Task
from structboost.errors import TaskError, examples_numbered, note_examples, on_example

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
# Examples of a pass for each that is searched again, and the most of them.
_EXAMPLES_PER_CHECK, _MOST_CHECKED = 256, 4
# Step from one checked example to the next: a prime, so that passes check various ones.
_STRIDE = 7919
_REMEDY = (
    "Search all outputs, and add the loss as it is: run check_task(task, X, Y), or set "
    "exact_argmax = False."
)

# Names of searches in errors.
_AUGMENTED, _PLAIN = "The loss-augmented argmax of X[{sample}]", "argmax(X[{sample}], scores)"
_ANY = "the argmax of X[{sample}]"

# Scores of one example by kind, even if there is only one.
Scores = Mapping[str, FloatArray]


def beaten(value: Any, rival: Any, size: Any) -> BoolArray:
    """Return where ``rival`` exceeds ``value`` by more than rounding of terms of this ``size``."""
    return np.asarray(rival - value > SLIP * (np.abs(value) + np.abs(rival) + size))


def check_found(
    values: FloatArray, rivals: FloatArray, losses: FloatArray, scores: StackedParts, first: int = 0
) -> None:
    """Raise TaskError if an earlier output violates its margin more than the argmax.

    ``values`` and ``rivals`` are the largest violations, of the argmax and of the outputs it is
    compared with, and ``losses`` those of the outputs of the argmax.  The message has the index of
    the example, counted from ``first``.
    """
    for i in np.flatnonzero(beaten(values, rivals, losses)).tolist():
        if beaten(values[i], rivals[i], losses[i] + size_of(scores, i)):
            raise TaskError(
                "The loss-augmented argmax of X[{sample}] is not exact: it found an output of "
                f"value {values[i]:.6g}, an earlier output has {rivals[i]:.6g}. {_REMEDY}",
                first + i,
            )


def size_of(scores: StackedParts, i: int) -> float:
    """Return the sum of the largest absolute scores of the parts of an example."""
    return sum(
        float(np.abs(rows[slice(*scores.offsets[kind][i : i + 2])]).max(axis=1, initial=0.0).sum())
        for kind, rows in scores.rows.items()
    )


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


class _Candidate(NamedTuple):
    """Output of an example, with its loss, and whether a search without loss found it."""

    name: str
    output: Any
    loss: float
    is_plain: bool = False


class _Search(NamedTuple):
    """Call that found an output at a set of scores, with the loss or without it."""

    call: str
    at: int
    output: int
    has_loss: bool


class Probe:
    """Outputs of one example, rated at the scores of all searches.

    Parameters
    ----------
    task : Task
    x, y
        Input and true output; x may be None if the task does not read it.
    i : int
        Index of the example in errors.
    n_parts : dict of str to int
        Number of its parts, by kind.
    """

    def __init__(self, task: Task, x: Any, y: Any, i: int, n_parts: Mapping[str, int]) -> None:
        self.task, self.x, self.y, self.i = task, x, y, i
        self.n_parts = n_parts
        self.candidates: list[_Candidate] = []
        self._features = FeatureRows(
            {kind: (n, task.kinds[kind].n_channels) for kind, n in n_parts.items()}
        )
        self._sets: list[Scores] = []
        self._searches: list[_Search] = []
        self._memo = KeptTruth(counts_passes=False)
        self._offsets = {kind: np.array([0, n], np.int64) for kind, n in n_parts.items()}
        self._truth = self.measures(y, "Y[{sample}]")
        self._append(_Candidate("the true output", y, loss_of(task, i, y, y)), self._truth)

    def measures(self, output: Any, name: str = "y") -> dict[str, SparseFeature]:
        """Return the joint feature of an output, checked, by kind."""
        value = on_example("joint_feature", self.i, self.task.joint_feature, self.x, output)
        measures = {}
        for kind, n in self.n_parts.items():
            measures[kind] = measure_of(self.task.kinds, value, kind, n, self.i, name)
        return measures

    def channels(self) -> set[tuple[str, int]]:
        """Return the channels of the true output."""
        return {
            (kind, c) for kind, of_kind in self._truth.items() for c in of_kind.channels.tolist()
        }

    def check_truth(self) -> None:
        """Check that two calls give the truth one joint feature, and that its loss is 0."""
        if not deeply_equal(self._truth, self.measures(self.y)):
            raise TaskError(
                "joint_feature(X[{sample}], Y[{sample}]) is not deterministic: two calls gave "
                "different weights.",
                self.i,
            )
        check_loss_of_truth(self.task, self.i, self.y)
        self.check_loss_scores()

    def add(self, name: str, output: Any, *, is_plain: bool = False) -> int:
        """Add an output, called ``name`` in errors, and return its index."""
        candidate = _Candidate(name, output, loss_of(self.task, self.i, self.y, output), is_plain)
        return self._append(candidate, self.measures(output))

    def search(self, scores: Scores) -> list[int]:
        """Search at some scores with and without the loss, in all forms that the task defines.

        Returns the indices of the outputs, of which the first was found with the loss.
        """
        task, rows = self.task, scores if len(scores) > 1 else next(iter(scores.values()))
        self._sets.append({kind: of_kind.copy() for kind, of_kind in scores.items()})
        n_before = len(self._searches)
        # An argmax among listed outputs is that of the library.
        for has_loss in () if task.is_enumerated else (True, False):
            try:
                if has_loss:
                    output = task.augmented_argmax(self.x, rows, self.y)
                else:
                    output = task.argmax(self.x, rows)
            except Exception as error:
                note_examples(error, "argmax", self.i, self.i)
                raise
            check_not_none(task, self.x, self.y, output, self.i)
            place = self.add("another output", output, is_plain=not has_loss)
            call = _AUGMENTED if has_loss else _PLAIN
            self._searches.append(_Search(call, len(self._sets) - 1, place, has_loss))
        stack = StackedParts(scores, self._offsets, self._memo)
        if task.defines("argmax_batch"):
            with examples_numbered([self.i]):
                outputs = on_example("argmax_batch", 0, task.argmax_batch, [self.x], stack)
            check_one_each(outputs, 1)
            place = self.add("another output", outputs[0], is_plain=True)
            call = f"argmax_batch: {_ANY}"
            self._searches.append(_Search(call, len(self._sets) - 1, place, has_loss=False))
        if task.defines("separate", "argmax_batch") or task.is_enumerated:
            with examples_numbered([self.i]):
                separated = on_example("separate", 0, task.separate, [self.x], [self.y], stack)
                check_separation(task, separated, stack)
            measures = {
                kind: truth.minus(separated.differences[kind])
                for kind, truth in self._truth.items()
            }
            place = self._append(
                _Candidate("another output", ..., float(separated.losses[0])), measures
            )
            call = f"separate: {_ANY}"
            self._searches.append(_Search(call, len(self._sets) - 1, place, has_loss=True))
        if not deeply_equal(dict(scores), dict(self._sets[-1])):
            raise TaskError(
                "argmax or separate changed the scores of X[{sample}] in place; work on a copy.",
                self.i,
            )
        return [search.output for search in self._searches[n_before:]]

    def search_near_truth(self) -> None:
        """Search at zero, and at scores against and for the truth, which outweigh any loss."""
        favouring = {}
        for kind, measure in self._truth.items():
            favouring[kind] = np.zeros(self._features.shapes[kind])
            # Scores of other kinds must not be negative, but may be zero.
            if min(self.task.kinds[kind].response) < 0:
                np.add.at(favouring[kind], (measure.parts, measure.channels), measure.values)
        largest = max(float(np.abs(rows).max(initial=0.0)) for rows in favouring.values())
        # At these scores the truth gains about 1 per part over others.
        factor = 1.0 / max(largest, _LEAST_WEIGHT) ** 2

        def search(strength: float) -> float:
            """Return the loss of the argmax at these scores."""
            scores = {kind: strength * factor * rows for kind, rows in favouring.items()}
            return self.candidates[self.search(scores)[0]].loss

        loss = search(0.0)
        # If the search without scores gives the truth, only scores against it give the unit.
        for unit in (loss,) if loss else _UNITS:
            loss = max(loss, search(-_STRENGTH * unit))
            if loss:
                break
        search(_STRENGTH * (loss or 1.0))

    def rated(self, indices: Sequence[int]) -> list[AnyArray]:
        """Return losses and joint features of outputs, as arrays to compare."""
        rows = self._features.matrix()[indices]
        losses = np.array([self.candidates[k].loss for k in indices])
        return [losses, rows.data, rows.indices, rows.indptr]

    def check(self, *, comparable: bool = True) -> None:
        """Raise TaskError if a search fell behind any output at its scores.

        If outputs are not ``comparable``, those found without the loss are compared only with each
        other, and those found with it only with the rest.
        """
        matrix = self._features.matrix()
        losses = np.array([candidate.loss for candidate in self.candidates])
        flat = np.stack([self._features.flat(scores) for scores in self._sets], axis=1)
        values, sizes = matrix @ flat, abs(matrix) @ np.abs(flat) + losses[:, None]
        is_plain = np.array([candidate.is_plain for candidate in self.candidates])
        for call, at, place, has_loss in self._searches:
            gains = has_loss * losses + values[:, at]
            better = beaten(gains[place], gains, sizes[place, at] + sizes[:, at])
            if not comparable:
                better &= is_plain != has_loss
            if better.any():
                rival = int(np.flatnonzero(better)[0])
                if self.candidates[place].output is None and self.y is not None:
                    raise returned_none("argmax", self.i)
                terms = "value" if has_loss else "score"
                raise TaskError(
                    f"{call} is not exact: it found an output (loss {losses[place]:.6g}) of "
                    f"{terms} {gains[place]:.6g}, {self.candidates[rival].name} has "
                    f"{gains[rival]:.6g}. {_REMEDY}",
                    self.i,
                )

    def check_loss_scores(self) -> None:
        """Raise TaskError unless the scores of the loss give each output its loss."""
        with examples_numbered([self.i]):
            added = stacked_loss_scores(self.task, [self.x], [self.y], self._offsets)
        if added is None:
            return
        for kind, rows in added.items():
            if min(self.task.kinds[kind].response) >= 0 and (rows < 0).any():
                raise TaskError(
                    f"loss_scores(X[{{sample}}], Y[{{sample}}]) is negative for kind {kind!r}, "
                    "whose scores must not be; put the loss on another kind.",
                    self.i,
                )
        shapes = self._features.shapes
        flat = self._features.flat({k: added.get(k, np.zeros(shapes[k])) for k in shapes})
        matrix = self._features.matrix()
        gains, sizes = matrix @ flat, abs(matrix) @ np.abs(flat)
        for candidate, gain, size in zip(
            self.candidates, gains - gains[0], sizes + sizes[0], strict=True
        ):
            if beaten(min(candidate.loss, gain), max(candidate.loss, gain), size):
                raise TaskError(
                    f"loss_scores and loss disagree on X[{{sample}}]: {candidate.name} has the "
                    f"loss {candidate.loss:.6g}, and loss_scores(X[{{sample}}], Y[{{sample}}]) "
                    f"gives it {gain:.6g} more than the truth. Run check_task(task, X, Y) "
                    "and correct one of them.",
                    self.i,
                )

    def _append(self, candidate: _Candidate, measures: Mapping[str, SparseFeature]) -> int:
        self._features.append(measures)
        self.candidates.append(candidate)
        return len(self.candidates) - 1


def probe_argmax(
    task: Task, X: Sequence[Any] | None, Y: Sequence[Any], offsets: Mapping[str, IntArray]
) -> None:
    """Check that truths have no loss, parts stay, and the argmax of a few examples is exact.

    Each is searched at zero scores, and at scores against and for the truth.  No output may fall
    behind another one, or behind the truth, at the scores where it was found.  The argmax without
    loss is a candidate as well, a batch form must reach the same values, the scores of a loss must
    give it, and scores must stay as they are.  A task is not probed if its argmax is declared
    inexact, or training does not use it.  ``X`` may be None if the task does not read it.
    TaskError names the example.
    """
    if not task.exact_argmax or task.separates_in_batches:
        return
    n = len(Y)
    for i in np.unique(np.linspace(0, n - 1, min(n, _MOST_LOSSES)).astype(int)).tolist():
        check_loss_of_truth(task, i, Y[i])
    if X is not None and task.reads_inputs:
        check_same_parts(task, X[0], 0)
    candidates = np.unique(np.linspace(0, n - 1, min(n, _CANDIDATES)).astype(int)).tolist()
    probes = [_probe(task, X, Y, offsets, i) for i in candidates]
    for probe in _various(probes, min(_PROBED, 1 + n // _EXAMPLES_PER_PROBE)):
        probe.check_truth()
        probe.search_near_truth()
        probe.check()
        probe.check_loss_scores()


def check_pass(
    task: Task, X: Sequence[Any] | None, Y: Sequence[Any], scores: StackedParts, n_passes: int
) -> None:
    """Compare the argmax with and without the loss on a few examples of a pass.

    Either output is a candidate of the other search: the plain one, with its loss, must not beat
    the augmented one, nor the augmented one, without its loss, the plain one.  Passes whose number
    is a power of 2 are checked, so that the cost is below a hundredth of theirs.  A task is not
    checked if its argmax is declared inexact, is the best of its listed outputs, or is replaced by
    a compiled ``separate``.  ``X`` may be None if the task does not read it.  TaskError names the
    example and the method.
    """
    is_checked = task.exact_argmax and not (task.separates_in_batches or task.is_enumerated)
    n = len(Y)
    if not is_checked or n_passes & (n_passes - 1) or not n:
        return
    n_checked = min(max(1, n // _EXAMPLES_PER_CHECK), _MOST_CHECKED)
    rows = (n_passes + np.arange(n_checked)) * _STRIDE % n
    for i in np.unique(rows).tolist():
        probe = _probe(task, X, Y, scores.offsets, i)
        probe.search(scores.only(i).rows)
        probe.check()


def _probe(
    task: Task,
    X: Sequence[Any] | None,
    Y: Sequence[Any],
    offsets: Mapping[str, IntArray],
    i: int,
) -> Probe:
    n_parts = {kind: int(starts[i + 1] - starts[i]) for kind, starts in offsets.items()}
    return Probe(task, None if X is None or not task.reads_inputs else X[i], Y[i], i, n_parts)


def _various(probes: Sequence[Probe], n: int) -> list[Probe]:
    """Choose at most ``n`` examples whose true outputs cover as many channels as possible."""
    left = {probe: probe.channels() for probe in probes}
    chosen: list[Probe] = []
    seen: set[tuple[str, int]] = set()
    while left and len(chosen) < n:
        best = max(left, key=lambda probe: len(left[probe] - seen))
        if len(chosen) >= _LEAST_PROBED and left[best] <= seen:
            break
        seen |= left.pop(best)
        chosen.append(best)
    return chosen


def check_same_parts(task: Task, x: Any, i: int) -> None:
    """Check that the parts of an input are the same in two calls."""
    first = deepcopy(on_example("parts", i, task.parts, x))
    if not deeply_equal(first, on_example("parts", i, task.parts, x)):
        raise TaskError(
            "parts(X[{sample}]) is not deterministic: two calls gave different features. Draw "
            "nothing at random there, and work on a copy of X[{sample}].",
            i,
        )
