"""Conditional likelihood of the true outputs, its derivatives, and its master."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import coo_array, issparse

from structboost._typing import (
    BoolArray,
    Examples,
    FloatArray,
    IntArray,
    KindArrays,
    KindIndices,
    override,
)
from structboost.contract.calls import log_sums, marginals
from structboost.contract.parts import StackedParts, joint_features
from structboost.contract.probes import check_sum, probe_sums
from structboost.contract.separation import KeptTruth
from structboost.contract.task import Task
from structboost.errors import SolverError
from structboost.learners.responses import SparseResponses, StoredResponses
from structboost.learners.terms import KindTerms, TermsByKind
from structboost.objectives.base import Formulation, Problem, SoftmaxLink
from structboost.objectives.master import RestrictedMaster
from structboost.runtime.interrupts import raise_if_interrupted

# Minus a loss, over the size of the sum, from which the rounding of its terms is looked at.
_SUSPICIOUS = 1e-8


class LikelihoodAt(NamedTuple):
    """Losses and marginals at some scores.

    Parameters
    ----------
    losses : ndarray, shape (n_examples,)
        Minus the logarithm of the probability of each true output.
    entropies : ndarray, shape (n_examples,)
        Entropies of the outputs of each example.
    expected : dict of str to ndarray, shape (n_parts, n_channels)
        Expected joint features.
    slopes : dict of str to ndarray, shape (n_channels, n_parts)
        Weight of the example times (truth - expected joint feature).
    """

    losses: FloatArray
    entropies: FloatArray
    expected: KindArrays
    slopes: dict[str, FloatArray]


class Likelihood:
    """Likelihood of the true outputs of a problem whose task gives its marginals.

    Parameters
    ----------
    problem : Problem
        Examples and their task.
    probes : bool
        Whether to compare the sums of the task with outputs that are known, on a few examples.

    Raises
    ------
    TaskError
        If a true output is malformed, or the sums are not those over all outputs.

    Attributes
    ----------
    owners : dict of str to ndarray of int64, shape (n_parts,)
        Example of each part.
    counts : dict of str to bool
        Whether joint features are counts, which is if a true one is above 1.
    """

    def __init__(self, problem: Problem, *, probes: bool = True) -> None:
        self._problem = problem
        offsets = problem.offsets
        self._memo = KeptTruth()
        indices = np.arange(len(problem.Y))
        # Sparse tables have no single rows in scipy before 1.15.  Lists show the length of inputs.
        reads = problem.task.reads_inputs or isinstance(problem.X, list | tuple)
        inputs = problem.X if reads else [None] * len(indices)
        self._truth = joint_features(problem.task, inputs, problem.Y, offsets)
        if probes:
            probe_sums(problem.task, problem.X, problem.Y, offsets)
        self.counts = {}
        for kind, (parts, channels, values) in self._truth.items():
            shape = int(offsets[kind][-1]), problem.task.kinds[kind].n_channels
            # An entry that comes twice is summed.
            table = coo_array((values, (parts, channels)), shape).tocsr()
            self.counts[kind] = bool((table.data > 1).any())
        self.owners = {kind: np.repeat(indices, np.diff(at)) for kind, at in offsets.items()}

    @classmethod
    def of(cls, task: Task, X: Examples, Y: Examples, offsets: KindIndices) -> Self:
        """Return that of examples of equal weights, without probes."""
        problem = Problem(task, X, Y, offsets, np.full(len(Y), 1.0 / len(Y)))
        return cls(problem, probes=False)

    def losses(self, rows: KindArrays) -> FloatArray:
        """Return the losses alone at scores of shape (n_parts, n_channels).

        TaskError if the task has no marginals.
        """
        problem = self._problem
        scores = StackedParts(dict(rows), problem.offsets)
        return self._losses(rows, log_sums(problem.task, problem.X, scores, self._memo))

    def at(self, rows: KindArrays) -> LikelihoodAt:
        """Marginals and losses at scores of shape (n_parts, n_channels).

        TaskError if the task has no marginals.
        """
        problem = self._problem
        scores = StackedParts(dict(rows), problem.offsets)
        expected, sums = marginals(problem.task, problem.X, scores, self._memo)
        losses, entropies, slopes = self._losses(rows, sums), sums.copy(), {}
        for kind, (parts, channels, values) in self._truth.items():
            owners = self.owners[kind]
            by_row = np.einsum("pc,pc->p", expected[kind], rows[kind])
            entropies -= np.bincount(owners, by_row, len(sums))
            difference = -expected[kind]
            np.add.at(difference, (parts, channels), values)
            difference *= problem.example_weights[owners][:, None]
            slopes[kind] = np.ascontiguousarray(difference.T)
        return LikelihoodAt(losses, entropies, expected, slopes)

    def _losses(self, rows: KindArrays, sums: FloatArray) -> FloatArray:
        """Return the log sums over all outputs minus the scores of the true ones.

        TaskError if the true output of an example scores more than the sum over all.
        """
        losses = sums.copy()
        for kind, (parts, channels, values) in self._truth.items():
            products = np.asarray(values * rows[kind][parts, channels], np.float64)
            losses -= np.bincount(self.owners[kind][parts], products, len(sums))
        for i in np.flatnonzero(losses < -_SUSPICIOUS * (1.0 + np.abs(sums))).tolist():
            size = 0.0
            for kind, (parts, channels, values) in self._truth.items():
                here = np.flatnonzero(self.owners[kind][parts] == i)
                size += float(np.abs(values[here] * rows[kind][parts[here], channels[here]]).sum())
            log_sum = float(sums[i])
            check_sum(log_sum, log_sum - float(losses[i]), size, i, "the true output")
        return losses


_MAX_ITERATIONS = 1000
# Changes of gradient and weights that L-BFGS keeps.
_MEMORY = 10


@dataclass(frozen=True)
class ConditionalLikelihood(Formulation):
    """Negative log conditional likelihood of the true outputs, for a boosted CRF.

    An output y of x has the probability ``exp(F(x, y)) / sum_z exp(F(x, z))``.  Minimises ::

        sum(w) + C/m sum_i [log sum_y exp(F(x_i, y)) - F(x_i, y_i)]

    over ``w >= 0`` (Lafferty et al., ICML 2001, with columns and an l1 norm).  Tasks must give
    their marginals (:class:`structboost.contract.Sums`): chains do, and tasks that list their
    outputs.  The loss of the task plays no part in training.

    A task that lists its outputs (:class:`structboost.contract.Lists`) lists them once per fit, and
    their joint features are stored up to 256 megabytes.  Outputs of further examples are listed
    anew in every pass.

    Notes
    -----
    Let q_i be any distribution of the outputs of example i, and H its entropy.  The dual is ::

        max  C/m sum_i H(q_i)
        s.t. C/m sum_i <M(x_i, y_i) - E_q M(x_i, y), h> <= 1   for each column h

    Columns of largest edge under the model's own q are added.  Mixed with the truth, so that no
    edge exceeds 1, this q gives the lower bound.
    """

    can_choose_C = True
    link = SoftmaxLink()

    @override
    def start(self, problem: Problem, C: float) -> ConditionalLikelihoodMaster:
        """Master by L-BFGS-B over the columns so far, until the duality gap is small enough.

        Raises
        ------
        TaskError
            If the task has no marginals.
        """
        return ConditionalLikelihoodMaster(problem, C)


class _Point(NamedTuple):
    """Weights, shape (n_columns,), and the likelihood at their scores."""

    weights: FloatArray
    likelihood: LikelihoodAt


class ConditionalLikelihoodMaster(RestrictedMaster):
    """Master of the conditional likelihood, for columns with several terms and kinds."""

    takes_sparse_responses = True

    def __init__(self, problem: Problem, C: float) -> None:
        super().__init__(C)
        self._problem = problem
        kinds, offsets = problem.task.kinds, problem.offsets
        self._columns = TermsByKind(kinds)
        self._responses: dict[str, StoredResponses | SparseResponses] = {
            kind: StoredResponses(int(offsets[kind][-1])) for kind in kinds
        }
        self._likelihood = Likelihood(problem)
        self._at = self._point(self.weights)
        self.risk = self._risk()

    @override
    def is_exact(self, task: Task) -> bool:
        return True

    @override
    def add_responses(self, kind: str, responses: Any) -> int:
        if issparse(responses):
            self._responses[kind] = SparseResponses.instead_of(self._responses[kind])
        return self._responses[kind].add(responses)

    @override
    def add_columns(self, terms: KindTerms, n_new: int) -> None:
        self._columns.add(terms, n_new)
        super().add_columns(terms, n_new)

    @override
    def keep_columns(self, mask: BoolArray) -> None:
        self._columns.keep(mask)
        super().keep_columns(mask)

    @override
    def solve(self, tolerance: float, selected: IntArray | None = None) -> None:
        if not len(self.weights):
            return

        def stop_at_gap(weights: FloatArray) -> None:
            raise_if_interrupted()
            value, gradient = self.value_and_gradient(weights)
            if value - self.bound(float((1.0 - gradient).max())) <= tolerance * value:
                raise StopIteration

        result = minimize(
            self.value_and_gradient, self.weights, jac=True, method="L-BFGS-B",
            callback=stop_at_gap, bounds=[(0.0, np.inf)] * len(self.weights),
            options={"maxiter": _MAX_ITERATIONS, "maxcor": _MEMORY, "ftol": 0.0, "gtol": 0.0},
        )  # fmt: skip
        self._go_to(np.asarray(result.x, np.float64))
        if not np.isfinite(self._at.likelihood.losses).all():
            raise SolverError("The conditional likelihood is not finite; choose a smaller C.")
        self.weights, self.risk = self._at.weights, self._risk()

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Objective and its gradient by the weights of the columns so far."""
        self._go_to(weights)
        gradient = np.ones(len(weights))
        for kind, terms in self._columns.terms.items():
            edges = self._responses[kind].edges(terms, self._at.likelihood.slopes[kind])
            np.subtract.at(gradient, terms.columns, self.C * (terms.coefficients * edges))
        return float(weights.sum()) + self.C * self._risk(), gradient

    @override
    def duals(self) -> dict[str, FloatArray]:
        return {
            kind: np.ascontiguousarray(self.C * of.T)
            for kind, of in self._at.likelihood.slopes.items()
        }

    @override
    def bound(self, largest_edge: float) -> float:
        # Mean entropy of ``(1 - s) truth + s q`` times C, with s such that no edge exceeds 1.
        losses, entropies, *_ = self._at.likelihood
        s = min(1.0, 1.0 / max(largest_edge, 1e-300))
        true = np.exp(-losses)
        # Entropy without the term of the truth, whose probability becomes ``mixed``.
        others = entropies - true * losses
        mixed = 1.0 - s * -np.expm1(-losses)
        entropies = s * others + s * np.expm1(-losses) * np.log(s)
        entropies -= mixed * np.log(np.maximum(mixed, 1e-300))
        return max(0.0, self.C * float(self._problem.example_weights @ entropies))

    def _risk(self) -> float:
        return float(self._problem.example_weights @ self._at.likelihood.losses)

    def _go_to(self, weights: FloatArray) -> None:
        if not np.array_equal(self._at.weights, weights):
            self._at = self._point(weights)

    def _point(self, weights: FloatArray) -> _Point:
        self._calls += 1
        rows = {}
        for kind, terms in self._columns.weighted(weights).items():
            n_channels = self._problem.task.kinds[kind].n_channels
            out = np.zeros((n_channels, len(self._likelihood.owners[kind])))
            self._responses[kind].add_scores(terms, 0, out)
            rows[kind] = np.ascontiguousarray(out.T)
        return _Point(weights.copy(), self._likelihood.at(rows))
