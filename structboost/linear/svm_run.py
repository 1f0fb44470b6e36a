"""Run of a structured SVM, which alternates exact passes and steps on the cuts that they found.

::

    repeat
        exact pass at w     the most violated outputs, the primal value, new cuts
        stop when the gap to the dual value is small enough
        steps on the cuts so far, until they leave a fraction of the gap
        w = between the best weights so far and the new ones
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from structboost._typing import FloatArray
from structboost.contract.calls import separation
from structboost.contract.comparison import check_found
from structboost.contract.exactness import probe_argmax
from structboost.contract.parts import StackedParts
from structboost.contract.separation import KeptTruth
from structboost.contract.task import Task
from structboost.linear.designs import check_sizes, designs_of
from structboost.progress import ProgressBar
from structboost.runtime.interrupts import raise_if_interrupted
from structboost.solvers.block_frank_wolfe import BlockFrankWolfe
from structboost.solvers.linear_scores import FoundOutputs, LinearScores, merge_kinds, starts_of
from structboost.training.history import contradicts, ending_in_words, ending_of_passes, record

# The problem restricted to the cached cuts is solved to this fraction of the gap after the last
# exact pass.
_INNER_FRACTION = 0.2
# The next exact pass is made between the best weights so far and the new ones: nearer to the new
# ones after progress, nearer to the best after none (in-out separation).
_MORE_NEW = 1.2
_LESS_NEW = 0.6
_LEAST_NEW = 0.1
# With so many examples the first passes go in runs of examples.
_MANY_EXAMPLES = 2000
_FIRST_PASSES = 3
_RUNS = 64
# Largest size of features, and its inverse: sums of their squares are numbers.
_LARGEST = 1e150


class Run:
    """State of one fit, with the solver, the best weights so far, and their certificate.

    Parameters
    ----------
    svm : StructuredSVM
        Its parameters are those of the run, and were checked.
    X, Y : sequence
        Inputs and true outputs.
    example_weights : ndarray, shape (n_examples,)
        Weights of the examples, which sum to 1.
    """

    def __init__(
        self, svm: Any, X: Sequence[Any], Y: Sequence[Any], example_weights: FloatArray
    ) -> None:
        self.began = time.perf_counter()
        self.svm, self.X, self.Y = svm, X, Y
        self.tol = float(svm.tol)
        self.budgets = float(svm.C) * example_weights
        stack = svm._stack(X)
        self.task = svm.task.for_inputs(X)
        probe_argmax(self.task, X, Y, stack.offsets)
        self.designs = designs_of(svm.task.kinds, stack, svm.active, standardise=svm._standardises)
        rows = {kind: design.features(stack.rows[kind]) for kind, design in self.designs.items()}
        self.n_known = {kind: int(stack.rows[kind].max(initial=-1)) + 1 for kind in svm.active}
        check_sizes(rows, _LARGEST)
        self.parts = LinearScores(self.task.kinds, StackedParts(rows, stack.offsets), self.n_known)
        random = check_random_state(svm.random_state)
        self.solver = BlockFrankWolfe(self.parts, self.budgets, random)
        self._begin()
        self.truth = KeptTruth()
        self.n_first = self.n_added = 0

    def _begin(self) -> None:
        self.best = self.solver.weights.copy()
        self.primal, self.bound = np.inf, -np.inf
        self.certified = bool(self.task.exact_argmax)
        self.history: list[dict[str, Any]] = []

    def continue_with(self, svm: Any) -> None:
        """Take the parameters of another fit, with the same cuts and scaled multipliers."""
        factor = float(svm.C) / float(self.svm.C)
        self.began, self.svm, self.tol = time.perf_counter(), svm, float(svm.tol)
        self.budgets = factor * self.budgets
        self.solver.scale_budgets(factor)
        self.n_first = 0
        self._begin()

    @property
    def gap(self) -> float:
        """Relative gap of the last exact pass."""
        return float(self.history[-1]["gap"])

    def optimise(self) -> bool:
        """Train, and return False if Ctrl-C ended it.

        Raises KeyboardInterrupt if there was no exact pass yet.
        """
        label = f"{self.svm._objective} over linear, C {float(self.svm.C):.4g}  "
        bar = ProgressBar(self.tol, self.svm.max_epochs, label) if self.svm.verbose else None
        interrupted = False
        try:
            self._first_passes()
            weights, fraction_of_new = self.solver.weights.copy(), 1.0
            for _ in range(int(self.svm.max_epochs)):
                raise_if_interrupted()
                better = self._exact_pass(weights)
                if bar is not None:
                    bar(self.history[-1], self.svm)
                if self.gap <= self.tol:
                    break
                mean = self.solver.improve(
                    _INNER_FRACTION * max(self.primal - self.bound, self.tol * self.primal)
                )
                if not self.svm.average:
                    weights = self.solver.weights.copy()
                    continue
                factor = _MORE_NEW if better else _LESS_NEW
                fraction_of_new = min(1.0, max(_LEAST_NEW, factor * fraction_of_new))
                if not (better or self.n_added):
                    # No better bound yet: only the newest weights give more information.
                    weights = self.solver.weights.copy()
                    continue
                weights = (1.0 - fraction_of_new) * self.best + fraction_of_new * mean
            raise_if_interrupted()
        except KeyboardInterrupt:
            if not self.history:
                raise
            interrupted = True
        if bar is not None:
            ending = ending_of_passes(self.history, self.tol, interrupted=interrupted)
            bar.end(ending_in_words(ending))
        return not interrupted

    def _first_passes(self) -> None:
        """Make passes in runs, if there are many examples and no cuts of another C."""
        if self.parts.n_examples >= _MANY_EXAMPLES and not self.solver.n_cuts:
            for _ in range(_FIRST_PASSES):
                raise_if_interrupted()
                pass_in_runs(self.task, self.X, self.Y, self.parts, self.solver, _RUNS)
                self.n_first += 1

    def _exact_pass(self, weights: FloatArray) -> bool:
        """Make an exact pass at ``weights``, and return whether they are the best so far."""
        flat, scores = self.parts.scores(weights)
        separated = separation(self.task, self.X, self.Y, scores, truth=self.truth)
        outputs = merge_kinds(separated, self.parts, scores)
        hinges = np.maximum(outputs.violations, 0.0)
        cached = self.solver.cached_violations(flat)
        if self.task.exact_argmax:
            check_found(hinges, cached, outputs.losses, scores)
        risk = float(self.budgets @ np.maximum(hinges, cached))
        primal = 0.5 * float(weights @ weights) + risk
        self.bound = max(self.bound, self.solver.dual_value)
        better = primal < self.primal
        if better:
            self.primal, self.best = primal, weights
        self._record()
        if self.gap > self.tol:
            self.n_added = self.solver.add(outputs, flat)
        return better

    def _record(self) -> None:
        n = len(self.history) + 1
        if self.certified:
            self.certified = not contradicts(self.history, self.primal, self.bound)
        self.history.append(
            record(
                n,
                self.primal,
                self.bound,
                certified=self.certified,
                cuts=self.solver.n_cuts,
                columns=int(np.count_nonzero(self.best)),
                oracle_calls=self.n_first + n,
                seconds=time.perf_counter() - self.began,
            )
        )


def pass_in_runs(
    task: Task,
    X: Sequence[Any],
    Y: Sequence[Any],
    parts: LinearScores,
    solver: BlockFrankWolfe,
    n_runs: int,
) -> None:
    """Make one pass over the examples, in runs that each add their cuts and step on them.

    The examples of a run follow each other.  At weight zero the loss-augmented argmax gives all
    examples much the same cuts, which small weights satisfy.  A pass in runs makes the cuts of each
    run at the weights that the runs before have left, as block-coordinate Frank-Wolfe does example
    by example.
    """
    n = parts.n_examples
    flat = np.zeros(parts.n_scores)
    for first, last in pairwise(np.linspace(0, n, n_runs + 1).astype(int).tolist()):
        if first == last:
            continue
        scores = parts.scores_of_run(solver.weights, first, last, flat)
        separated = separation(
            task, [X[i] for i in range(first, last)], [Y[i] for i in range(first, last)], scores,
            first,
        )  # fmt: skip
        outputs = merge_kinds(separated, parts, scores, first)
        solver.add(_among_all(outputs, first, n), flat)
        solver.visit(np.arange(first, last))


def _among_all(outputs: FoundOutputs, first: int, n: int) -> FoundOutputs:
    m = len(outputs.losses)

    def padded(values: FloatArray, fill: float) -> FloatArray:
        out = np.full(n, fill)
        out[first : first + m] = values
        return out

    counts = padded(np.diff(outputs.first_entry), 0.0)
    return FoundOutputs(
        padded(outputs.losses, 0.0), padded(outputs.violations, -1.0), starts_of(counts),
        outputs.entry_score, outputs.entry_value,
    )  # fmt: skip
