"""Checks of the methods of one example."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.contract.equality import deeply_equal
from structboost.contract.losses import check_loss_of_truth
from structboost.contract.parts import StackedParts, check_known, stack_parts
from structboost.contract.results import shaped_array
from structboost.contract.sampled_outputs import (
    TOLERANCE,
    OutputListing,
    Rated,
    check_not_beaten,
)
from structboost.contract.sum_probe import has_sums, probe_sums_of
from structboost.contract.task import Task
from structboost.contract.watched_task import Scores, WatchedTask, by_kind, only, stacked
from structboost.errors import (
    TaskError,
    TooManyOutputsError,
    UnsureOutputWarning,
    count_examples_from,
    examples_numbered,
)
from structboost.validation import shown

# True outputs of other examples tried on each.
_MAX_FOREIGN = 20
# Standard deviations of the random scores.  At 0, all outputs tie or only the loss decides.
_SCALES = (0.0, 1.0, 1.0, 0.1, 10.0)
# Multiples of a set of scores, at some of which a wrongly scaled loss changes the argmax.
_MULTIPLES = tuple(np.geomspace(1e-3, 30.0, 20).tolist())
# Outputs up to which sums are compared with all of them.
_MOST_LISTED = 2000
# Sets of scores to multiply, over all examples, and at least one for each.
_MULTIPLIED_SETS = 8


class SingleExamples(WatchedTask):
    """Checks of single examples, where ``comparable`` is as in :func:`structboost.check_task`."""

    def __init__(
        self,
        task: Task,
        X: Sequence[Any],
        Y: Sequence[Any],
        examples: list[int],
        random: np.random.Generator,
        comparable: bool,
    ) -> None:
        super().__init__(task, X, Y, examples, random)
        self.comparable = comparable
        self.checks_validity = task.defines("is_valid")
        # What is wrong with examples, if outputs of other inputs are outputs of theirs.
        self.unsure: dict[int, str] = {}
        self._is_listed = False
        self.parts: dict[int, Any] = {}
        self.rows: dict[int, dict[str, NDArray[Any]]] = {}

    def check_parts(self) -> None:
        """Check shapes, values and determinism of the parts."""
        for i in self.examples:
            self.parts[i] = self.call("parts", i, x=self.X[i])
            if not deeply_equal(self.parts[i], self.call("parts", i, x=self.X[i])):
                raise TaskError(
                    f"parts(X[{i}]) is not deterministic: two calls gave different features."
                )
            self._check_against_first(i)
            self.rows[i] = by_kind(self.task, self.parts[i])
            self.sizes[i] = {kind: len(rows) for kind, rows in self.rows[i].items()}

    def _check_against_first(self, i: int) -> None:
        """Check the parts of ``X[i]``, which need the number of features of the first example."""
        first = self.examples[0]
        pair = [self.parts[first], self.parts[i]] if i != first else [self.parts[i]]
        try:
            stack_parts(self.task.kinds, pair)
        except Exception as error:
            count_examples_from(error, i - len(pair) + 1)
            raise

    def check_truth(self, i: int) -> None:
        """Check the joint feature of the true output, and its loss against itself."""
        self.valid(i, f"the true output Y[{i}]", self.Y[i])
        first, second = (self.measures(i, self.Y[i]) for _ in range(2))
        if not deeply_equal(first, second):
            raise TaskError(
                f"joint_feature(X[{i}], Y[{i}]) is not deterministic: two calls gave different "
                "weights."
            )
        check_loss_of_truth(self.loss(i, self.Y[i]), TOLERANCE, i)

    def check_argmax(self, i: int, outputs: Iterable[Any], listing: OutputListing) -> None:
        """Check that the argmax is deterministic and optimal at several random scores."""
        scores = [self.random_scores(i, scale) for scale in _SCALES]
        for _ in range(max(1, _MULTIPLIED_SETS // len(self.examples))):
            base = self.random_scores(i, 1.0)
            scores += [
                {kind: multiple * rows for kind, rows in base.items()} for multiple in _MULTIPLES
            ]
        added = self._loss_scores(i)
        best = {
            False: [self.argmax(i, s, with_truth=False) for s in scores[: len(_SCALES)]],
            True: [
                self.argmax(i, s, with_truth=True, twice=k < len(_SCALES))
                for k, s in enumerate(scores)
            ],
        }
        sets = stacked(scores if added is None else [*scores, added])
        plain, augmented = (
            [
                self.evaluate(i, f"its output at other scores (set {k})", output, sets)
                for k, output in enumerate(argmaxes)
            ]
            for argmaxes in best.values()
        )
        self.call("predict", i, x=self.X[i], scores=only(scores[1]))
        if added is not None:
            self._check_loss_scores(i, sets, plain + augmented)
        if has_sums(self.task):
            with suppress(TooManyOutputsError):
                self._check_marginals(i, scores[1])
        if not self.task.exact_argmax:
            return
        pool = [self.Y[i], *best[False], *best[True]]
        others = [
            self.evaluate(i, name, output, sets, watched=False)
            for name, output in self._candidates(i, outputs, pool, listing)
        ]
        foreign = [
            self.evaluate(i, f"Y[{j}]", self.Y[j], sets, watched=False) for j in self._unsure(i)
        ]
        self.check_unchanged("joint_feature, loss or is_valid", [i])
        if added is not None and self.comparable:
            self._check_loss_scores(i, sets, others)
        self._check_best(i, plain, augmented, others)
        if foreign:
            try:
                self._check_best(i, plain, augmented, foreign)
            except TaskError as error:
                self.unsure.setdefault(i, str(error))

    def _check_best(
        self, i: int, plain: list[Rated], augmented: list[Rated], others: list[Rated]
    ) -> None:
        """Check that no output beats those of the argmax, with and without loss."""
        rivals = plain + augmented + others if self.comparable else plain
        check_not_beaten(f"argmax(X[{i}], scores)", plain, rivals, loss_weight=0)
        rivals = plain + augmented + others if self.comparable else augmented + others
        check_not_beaten(f"argmax(X[{i}], scores, Y[{i}])", augmented, rivals, loss_weight=1)

    def warn(self) -> None:
        """Warn if an argmax is beaten by outputs of other inputs only."""
        if not self.unsure:
            return
        i = min(self.unsure)
        warnings.warn(
            f"A true output of another input may be no output of X[{i}]; define is_valid(x, y), "
            f"so that check_task knows.  If it is one, the task is wrong: {self.unsure[i]}",
            UnsureOutputWarning,
            stacklevel=3,
        )

    def _check_marginals(self, i: int, scores: Scores) -> None:
        """Check the marginals and sums of one example at scores of size 1."""
        for name in ("marginals", "log_sum"):
            self.call(name, i, x=self.X[i], scores=only(scores))
        offsets = {kind: np.array([0, len(rows)]) for kind, rows in scores.items()}
        with examples_numbered([i]):
            probe_sums_of(
                self.task, [self.X[i]], self.Y[i], StackedParts(scores, offsets), _MOST_LISTED
            )

    def _loss_scores(self, i: int) -> Scores | None:
        """Return the loss as scores, zero for missing kinds, or None if the task has none."""
        added = self.call("loss_scores", i, x=self.X[i], y=self.Y[i])
        if added is None:
            return None
        of_kinds = added if isinstance(added, Mapping) else dict.fromkeys(self.task.kinds, added)
        check_known(self.task.kinds, of_kinds, "loss_scores", i)
        rows = {}
        for kind, n in self.sizes[i].items():
            shape = (n, self.task.kinds[kind].n_channels)
            value = of_kinds.get(kind, np.zeros(shape))
            rows[kind] = shaped_array(value, shape, "loss_scores(X[{sample}], y)", i, kind)
            if min(self.task.kinds[kind].response) >= 0 and (rows[kind] < 0).any():
                raise TaskError(
                    f"loss_scores(X[{i}], Y[{i}]) is negative for kind {kind!r}, whose scores must "
                    "not be; put the loss on another kind."
                )
        return rows

    def _check_loss_scores(self, i: int, sets: Scores, outputs: Sequence[Rated]) -> None:
        """Check that the last set of scores gives each output its loss, relative to the truth."""
        truth = self.evaluate(i, "", self.Y[i], sets, watched=False)
        for output in outputs:
            by_scores = output.scores[-1] - truth.scores[-1]
            size = output.loss + output.sizes[-1] + truth.sizes[-1]
            if abs(by_scores - output.loss) > TOLERANCE * (1.0 + size):
                raise TaskError(
                    f"loss_scores and loss disagree on X[{i}]: {output.name} has the loss "
                    f"{output.loss:.6g}, and loss_scores(X[{i}], Y[{i}]) gives it {by_scores:.6g} "
                    "more than the truth."
                )

    def _candidates(
        self, i: int, outputs: Iterable[Any], pool: list[Any], listing: OutputListing
    ) -> Iterator[tuple[str, Any]]:
        """Iterate over the outputs to compare with the argmax, each with a name."""
        yield f"the true output Y[{i}]", self.Y[i]
        listing.start_example()
        for k, output in listing.first_of(outputs):
            yield self.valid(i, f"outputs[{i}][{k}]", output)
        listed = self.attempt("outputs", i, lambda: self.task.outputs(self.X[i]))
        has_truth = listed is None
        for k, output in listing.first_of(() if listed is None else listed):
            has_truth = has_truth or self.loss(i, output, watched=False) <= TOLERANCE
            yield self.valid(i, f"output {k} of task.outputs(X[{i}])", output)
        # The list of all outputs is final.
        self._is_listed = listed is not None and not listing.left_out
        if self.comparable and self.checks_validity and not self._is_listed:
            for j in self._foreign(i):
                yield f"the output Y[{j}]", self.Y[j]
        if not has_truth and not listing.left_out:
            raise TaskError(
                f"task.outputs(X[{i}]) does not list the true output Y[{i}]: none of them has the "
                f"loss 0. List all outputs of an input, or correct Y[{i}]."
            )
        if self.checks_validity:
            for output in listing.mixtures_of(pool, self.random):
                if self.is_valid(i, output):
                    yield f"the valid output {shown(output)}", output
        listing.end_example(i)

    def _unsure(self, i: int) -> list[int]:
        """List examples whose true outputs may be outputs of ``X[i]``, as far as is known."""
        is_known = self.checks_validity or self._is_listed or not self.comparable
        return [] if is_known else list(self._foreign(i))

    def _foreign(self, i: int) -> Iterator[int]:
        """Iterate over examples whose true outputs the task takes as outputs of ``X[i]``."""
        alike = [
            j
            for j in self.examples
            if j != i and (self.checks_validity or self.sizes[j] == self.sizes[i])
        ]
        for j in self.random.permutation(alike)[:_MAX_FOREIGN].astype(int):
            if self._fits(i, self.Y[j]):
                yield j

    def _fits(self, i: int, y: Any) -> bool:
        """Whether the true output ``y`` of another example is an output of ``X[i]``."""
        if self.checks_validity:
            return self.is_valid(i, y)
        try:
            self.measures(i, y)
            self.task.loss(self.Y[i], y)
        except Exception:  # with any error, the task refuses the output
            return False
        return True
