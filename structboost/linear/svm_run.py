"""Problem of a linear structured SVM, which alternates exact passes and steps on cuts.

::

    repeat
        exact pass at w     the most violated outputs, the primal value, new cuts
        stop when the gap to the dual value is small enough
        steps on the cuts so far, until they leave a fraction of the gap
        w = between the best weights so far and the new ones
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from structboost._typing import FloatArray, override
from structboost.contract.calls import separation, stacked
from structboost.contract.exactness import check_found, probe_argmax
from structboost.contract.separation import KeptTruth
from structboost.contract.task import Task
from structboost.linear.designs import Design, check_sizes, designs_of, stacked_without_gaps
from structboost.linear.problem import LinearProblem, approached
from structboost.runtime.interrupts import raise_if_interrupted
from structboost.solvers.block_frank_wolfe import BlockFrankWolfe
from structboost.solvers.linear_scores import FoundOutputs, LinearScores, merge_kinds, starts_of
from structboost.training.history import relative_gap

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
# A fit that tells whether weights lower the hinge at all: its C in units of one at which examples
# count much, its gap, and its most passes.
_PROBE_STRENGTH, _PROBE_GAP, _PROBE_EPOCHS = 10.0, 0.1, 30


class HingeProblem(LinearProblem):
    """Minimiser of ``C mean(structured hinge) + |w|^2 / 2`` over linear functions.

    A round is an exact pass, after steps on the cuts of the passes before it.

    Parameters
    ----------
    task : Task
    X, Y : sequence
        Inputs and true outputs.
    example_weights : ndarray, shape (n_examples,)
        Weights of the examples, which sum to 1.
    tol : float
        Relative gap that is wanted.  Steps on cuts are no finer than it needs.
    active, average, random_state
        As in :class:`structboost.StructuredSVM`.
    standardise : bool
        Whether dense features get mean 0 and one standard deviation.

    Attributes
    ----------
    primal, bound : float
        Objective of the best weights so far, and the lower bound, at the C of :meth:`begin`.
    """

    def __init__(
        self,
        task: Task,
        X: Sequence[Any],
        Y: Sequence[Any],
        example_weights: FloatArray,
        *,
        tol: float,
        active: Collection[str],
        average: bool = True,
        random_state: Any,
        standardise: bool,
    ) -> None:
        self._X, self._Y, self._budgets = X, Y, example_weights
        self._tol, self._average = float(tol), average
        stack = stacked_without_gaps(task, X, active)
        self.task = task.for_inputs(X)
        self.is_exact = bool(self.task.exact_argmax)
        probe_argmax(self.task, X, Y, stack.offsets)
        self.designs: Mapping[str, Design] = designs_of(
            task.kinds, stack, active, standardise=standardise
        )
        check_sizes(self.designs, stack, _LARGEST)
        matrices = {k: design.matrix(stack.rows[k]) for k, design in self.designs.items()}
        self._parts = LinearScores(self.task.kinds, matrices, stack.offsets)
        random = check_random_state(random_state)
        self._solver = BlockFrankWolfe(self._parts, example_weights, random)
        self._truth = KeptTruth()
        self._C = 1.0
        self._start()

    def _start(self) -> None:
        self._best = self._solver.weights.copy()
        self.primal, self.bound = np.inf, -np.inf
        self._n_first, self._n_passes = 0, 0
        self._fraction_of_new, self._is_better = 1.0, False
        # Outputs and flat scores of the last pass, whose cuts are not added yet.
        self._last_pass: tuple[FoundOutputs, FloatArray] | None = None

    @override
    def begin(self, C: float) -> None:
        if (relative_gap(self.primal, self.bound) or 0.0) > self._tol:
            self._next_weights()
        factor = C / self._C
        self._C, self._budgets = C, factor * self._budgets
        self._solver.scale_budgets(factor)
        self._start()

    @property
    def loss_fraction(self) -> float:
        """Fraction of the objective that is loss."""
        norm = 0.5 * float(self._best @ self._best)
        return 1.0 - norm / self.primal if self.primal else 0.0

    def is_empty_whatever_C(self, C: float) -> bool:
        """Whether a coarse fit at a large C proves that weights hardly lower the hinge."""
        self._tol = _PROBE_GAP
        self.begin(max(C, _PROBE_STRENGTH * self._unit_of_C()))
        approached(self, _PROBE_GAP, _PROBE_EPOCHS)
        _, scores = self._parts.scores(np.zeros(self._parts.n_weights))
        losses = separation(self.task, self._X, self._Y, scores).losses
        return self.bound >= (1.0 - 2.0 * _PROBE_GAP) * float(self._budgets @ losses)

    def _unit_of_C(self) -> float:
        """Divide the number of examples by the mean square of the features of one."""
        squares = 0.0
        for kind, rows in stacked(self.task, self._X).rows.items():
            last = -1 if self.task.kinds[kind].has_bias else None
            table = self.designs[kind].matrix(rows)[:, :last]
            squares += float(np.square(table.data if sparse.issparse(table) else table).sum())
        unit = len(self._X) ** 2 / squares if squares > 0 else 1.0
        # Squares of tiny features are too small for a float.
        return unit if np.isfinite(unit) else 1.0

    @override
    def facts(self) -> dict[str, int]:
        return {
            "cuts": self._solver.n_cuts,
            "columns": int(np.count_nonzero(self._best)),
            "oracle_calls": self._n_first + self._n_passes,
        }

    @override
    def matrices(self) -> dict[str, FloatArray]:
        return {at.kind: self._parts.matrix(self._best, at) for at in self._parts.layouts}

    @override
    def improve(self) -> None:
        weights = self._next_weights()
        raise_if_interrupted()
        flat, scores = self._parts.scores(weights)
        separated = separation(self.task, self._X, self._Y, scores, truth=self._truth)
        outputs = merge_kinds(separated, self._parts, scores)
        hinges = np.maximum(outputs.violations, 0.0)
        cached = self._solver.cached_violations(flat)
        if self.is_exact:
            check_found(hinges, cached, outputs.losses, scores)
        risk = float(self._budgets @ np.maximum(hinges, cached))
        primal = 0.5 * float(weights @ weights) + risk
        self.bound = max(self.bound, self._solver.dual_value)
        self._is_better = primal < self.primal
        if self._is_better:
            self.primal, self._best = primal, weights
        self._n_passes += 1
        self._last_pass = outputs, flat

    def _next_weights(self) -> FloatArray:
        """Add the cuts of the last pass, make steps on all, and return weights for the next one."""
        if self._last_pass is None:
            # Passes in runs, if there are many examples and no cuts of another C.
            if self._parts.n_examples >= _MANY_EXAMPLES and not self._solver.n_cuts:
                for _ in range(_FIRST_PASSES):
                    raise_if_interrupted()
                    pass_in_runs(self.task, self._X, self._Y, self._parts, self._solver, _RUNS)
                    self._n_first += 1
            return self._solver.weights.copy()
        n_added = self._solver.add(*self._last_pass)
        mean = self._solver.improve(
            _INNER_FRACTION * max(self.primal - self.bound, self._tol * self.primal)
        )
        factor = _MORE_NEW if self._is_better else _LESS_NEW
        self._fraction_of_new = min(1.0, max(_LEAST_NEW, factor * self._fraction_of_new))
        if self._average and (self._is_better or n_added):
            return (1.0 - self._fraction_of_new) * self._best + self._fraction_of_new * mean
        # Without a better bound or cut, only the newest weights give more information.
        return self._solver.weights.copy()


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
    """Return the outputs of a run as those of all n examples, of which others have no cut."""
    around = first, n - first - len(outputs.losses)
    return FoundOutputs(
        np.pad(outputs.losses, around), np.pad(outputs.violations, around, constant_values=-1.0),
        starts_of(np.pad(np.diff(outputs.first_entry), around)), outputs.entry_score,
        outputs.entry_value,
    )  # fmt: skip
