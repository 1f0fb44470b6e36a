"""Comparison of what a task finds and sums with outputs that are known.

An output found at other scores is also a candidate of an exact argmax.  If it is better than the
new one, the argmax is not exact: the primal is too low, and nothing is certified.

Later comparisons cannot reveal outputs that the argmax never returns, because it searches too small
a set or has the sign of the loss wrong.  So a few examples are probed before training, at scores
for and against their true outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from structboost._typing import AnyArray, Examples, FloatArray, KindArrays, KindIndices
from structboost.contract.calls import ANY, AUGMENTED, PLAIN, REMEDY, beaten, differ, marginals
from structboost.contract.parts import (
    OF_ARGMAX,
    FeatureRows,
    SparseFeature,
    StackedParts,
    check_loss_of_truth,
    check_not_none,
    check_one_each,
    deeply_equal,
    joint_features,
    loss_of,
    measure_of,
    refused_output,
    returned_none,
)
from structboost.contract.separation import (
    KeptTruth,
    best_output,
    best_outputs,
    check_separation,
    listed_batch,
    separate_by_argmax,
    stacked_loss_scores,
)
from structboost.contract.task import (
    Batches,
    Decomposes,
    Lists,
    Predicts,
    Separates,
    Sums,
    SumsBatches,
    Task,
    is_enumerated,
)
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
# Scores of one example by kind, even if there is only one.
Scores = KindArrays


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
        self.names: list[str] = []
        self.outputs: list[Any] = []
        self.losses: list[float] = []
        self._features = FeatureRows(
            {kind: (n, task.kinds[kind].n_channels) for kind, n in n_parts.items()}
        )
        self._sets: list[Scores] = []
        self._searches: list[_Search] = []
        self._memo = KeptTruth(counts_passes=False)
        self._offsets = {kind: np.array([0, n], np.int64) for kind, n in n_parts.items()}
        self._truth = self.measures(y, "Y[{sample}]")
        self._append("the true output", y, loss_of(task, i, y, y), self._truth)

    def measures(self, output: Any, name: str = "y") -> dict[str, SparseFeature]:
        """Return the joint feature of an output, checked, by kind."""
        try:
            value = on_example("joint_feature", self.i, self.task.joint_feature, self.x, output)
        except Exception as error:
            if output is self.y or isinstance(error, TaskError):
                raise
            raise refused_output(OF_ARGMAX, output, "joint_feature", error, self.i) from error
        return {
            kind: measure_of(self.task.kinds, value, kind, n, self.i, name)
            for kind, n in self.n_parts.items()
        }

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

    def add(self, name: str, output: Any) -> int:
        """Add an output, called ``name`` in errors, and return its index."""
        loss = loss_of(self.task, self.i, self.y, output)
        return self._append(name, output, loss, self.measures(output))

    def search(self, scores: Scores) -> list[int]:
        """Search at some scores with and without the loss, in all forms that the task defines.

        Returns the indices of the outputs, of which the first was found with the loss.
        """
        task: Any = self.task
        rows = scores if len(scores) > 1 else next(iter(scores.values()))
        self._sets.append({kind: of_kind.copy() for kind, of_kind in scores.items()})
        n_before = len(self._searches)
        # An argmax among listed outputs is that of the library, and a task with another prediction
        # than the best output needs no argmax without the loss.
        plain = () if isinstance(task, Predicts) else (False,)
        for has_loss in () if is_enumerated(task) else (True, *plain):
            try:
                output = best_output(task, self.x, rows, self.y if has_loss else None)
            except Exception as error:
                note_examples(error, "argmax", self.i, self.i)
                raise
            check_not_none(task, self.x, self.y, output, self.i)
            self._found(AUGMENTED if has_loss else PLAIN, output, has_loss=has_loss)
        stack = StackedParts(scores, self._offsets, self._memo)
        if isinstance(task, Batches):
            with examples_numbered([self.i]):
                outputs = on_example("argmax_batch", 0, task.argmax_batch, [self.x], stack)
                check_one_each(outputs, 1)
            self._found(f"argmax_batch: {ANY}", outputs[0], has_loss=False)
        if isinstance(task, Separates | Batches) or is_enumerated(task):
            is_own = isinstance(task, Separates)
            separate = task.separate if is_own else partial(separate_by_argmax, task)
            with examples_numbered([self.i]):
                separated = on_example("separate", 0, separate, [self.x], [self.y], stack)
                check_separation(task, separated, stack)
            measures = {
                kind: truth.minus(separated.differences[kind])
                for kind, truth in self._truth.items()
            }
            place = self._append("another output", ..., float(separated.losses[0]), measures)
            call = f"separate: {ANY}"
            self._searches.append(_Search(call, len(self._sets) - 1, place, has_loss=True))
        if not deeply_equal(dict(scores), dict(self._sets[-1])):
            raise TaskError(
                "argmax or separate changed the scores of X[{sample}] in place; work on a copy.",
                self.i,
            )
        return [search.output for search in self._searches[n_before:]]

    def _found(self, call: str, output: Any, *, has_loss: bool) -> None:
        place = self.add("another output", output)
        self._searches.append(_Search(call, len(self._sets) - 1, place, has_loss))

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
            return self.losses[self.search(scores)[0]]

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
        return [np.array(self.losses)[indices], rows.data, rows.indices, rows.indptr]

    def check(self) -> None:
        """Raise TaskError if a search fell behind any output at its scores."""
        matrix = self._features.matrix()
        losses = np.array(self.losses)
        flat = np.stack([self._features.flat(scores) for scores in self._sets], axis=1)
        values, sizes = matrix @ flat, abs(matrix) @ np.abs(flat) + losses[:, None]
        for call, at, place, has_loss in self._searches:
            gains = has_loss * losses + values[:, at]
            better = beaten(gains[place], gains, sizes[place, at] + sizes[:, at])
            if better.any():
                rival = int(np.flatnonzero(better)[0])
                if self.outputs[place] is None and self.y is not None:
                    raise returned_none(self.i)
                terms = "value" if has_loss else "score"
                raise TaskError(
                    f"{call} is not exact: it found an output (loss {losses[place]:.6g}) of "
                    f"{terms} {gains[place]:.6g}, {self.names[rival]} has "
                    f"{gains[rival]:.6g}. {REMEDY}",
                    self.i,
                )

    def check_loss_scores(self) -> None:
        """Raise TaskError unless the scores of the loss give each output its loss."""
        if not isinstance(self.task, Decomposes):
            return
        with examples_numbered([self.i]):
            added = stacked_loss_scores(self.task, [self.x], [self.y], self._offsets)
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
        losses, gains = np.array(self.losses), gains - gains[0]
        wrong = np.flatnonzero(differ(losses, gains, sizes + sizes[0]))
        if len(wrong):
            k = int(wrong[0])
            raise TaskError(
                f"loss_scores and loss disagree on X[{{sample}}]: {self.names[k]} has the loss "
                f"{losses[k]:.6g}, and loss_scores(X[{{sample}}], Y[{{sample}}]) gives it "
                f"{gains[k]:.6g} more than the truth. Run check_task(task, X, Y) and correct one "
                "of them.",
                self.i,
            )

    def _append(
        self, name: str, output: Any, loss: float, measures: Mapping[str, SparseFeature]
    ) -> int:
        self._features.append(measures)
        self.names.append(name)
        self.outputs.append(output)
        self.losses.append(loss)
        return len(self.names) - 1


def probe_argmax(task: Task, X: Examples | None, Y: Examples, offsets: KindIndices) -> None:
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
    probes = []
    for i in candidates:
        n_parts = {kind: int(starts[i + 1] - starts[i]) for kind, starts in offsets.items()}
        x = None if X is None or not task.reads_inputs else X[i]
        probes.append(Probe(task, x, Y[i], i, n_parts))
    for probe in _various(probes, min(_PROBED, 1 + n // _EXAMPLES_PER_PROBE)):
        probe.check_truth()
        probe.search_near_truth()
        probe.check()
        probe.check_loss_scores()


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


# Examples whose sums are probed, at most.
_MOST_PROBED = 4
# Tolerances of sums and of differences of sums, at scores of size 1, and the step of these.
_OF_SUMS, _OF_DIFFERENCES, _STEP = 1e-8, 1e-6, 1e-4
# Factor of large scores, at which a single output is certain, and tolerances there: of its joint
# feature, and of a number of outputs.  The last is of logarithms of it that are compared.
_LARGE, _CERTAIN, _OF_NUMBERS, _LARGEST_EXCESS = 100.0, 1e-9, 1e-5, 20.0
# Outputs up to which the sums are compared with all of them.
_MOST_LISTED = 200


def probe_sums(task: Task, X: Any, Y: Examples, offsets: KindIndices) -> None:
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
    """Whether the task sums over all outputs, in any form."""
    return isinstance(task, Sums | SumsBatches)


def check_sum(log_sum: float, score: float, size: float, i: int, output: str) -> None:
    """Raise TaskError if the sum over all outputs is below the score of one of them."""
    if not log_sum >= score - _OF_SUMS * (1.0 + abs(log_sum) + size):
        raise TaskError(
            f"log_sum(X[{{sample}}], scores) is {log_sum:.9g}, below the score {score:.9g} of "
            f"{output}; sum exp(score) over all outputs, scores being those of joint_feature. Run "
            "check_task(task, X, Y).",
            i,
        )


def probe_sums_of(task: Task, X: Any, y: Any, scores: KindArrays, most_listed: int) -> None:
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
        return best_outputs(task, X, StackedParts(features.by_kind(flat), offsets))[0]

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
    n_listed = most_listed + 1
    if isinstance(task, Lists) and task.reads_inputs:
        n_listed = len(list(islice(task.outputs(x), n_listed)))
    if n_listed <= most_listed:
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
