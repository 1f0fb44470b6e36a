"""Linear chain on active features, trained by dual coordinate ascent of its likelihood.

:func:`chain_problem` chooses between it and quasi-Newton steps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.calls import stacked
from structboost.contract.task import Task
from structboost.linear.chain_passes import (
    FIRST_OVERLAP,
    dual_pass,
    space_of_pass,
)
from structboost.linear.designs import SameColumns, designs_of
from structboost.linear.primal_chain import PrimalChain, sequences_of
from structboost.linear.problem import ElasticNet, FoldResult, LinearProblem
from structboost.runtime.interrupts import raise_if_interrupted

# Passes over all sequences between two exact ones.
_PASSES = 2
# Mean length of the sequence of a token from which on quasi-Newton steps are faster.
_LONG = 100.0
# Probabilities of pairs of tags that dual ascent may store: 128 megabytes for sequences, and 512
# for steps, where quasi-Newton steps take ten times as long.
_MOST_PAIRS, _MOST_PAIRS_OF_STEPS = 1 << 24, 1 << 26


class DualChain(LinearProblem):
    """Solver of the dual of the regularised likelihood of a :class:`structboost.ChainTask`.

    An output has the probability ``~ exp(score)``.  With ``c_i`` = C times the weight of example i,
    the primal is ``sum_i c_i (-log p(y_i)) + |w|^2 / 2``, the dual ``sum_i c_i H(p_i) - |w(p)|^2 /
    2`` with ``w(p) = sum_i c_i (features of y_i - those expected by p_i)``.  With an l1 norm the
    penalty is an :class:`.ElasticNet`, and the dual has its conjugate at w(p).  The dual
    distributions p_i are stored by their probabilities of tags and of pairs of tags, and a lower
    bound of their entropies H, by concavity; so the bound on the primal is certified.  Pairs are
    summed over each sequence, or stored for each step if the steps have features.

    Features that occur in the same tokens have equal weights at the optimum, and are merged.

    Parameters
    ----------
    task : ChainTask
        With features of the steps only without an l1 norm.
    X, Y : sequence
        Tokens as indices of active features, with vectors if the task has them, and tags.
    example_weights : ndarray, shape (n_examples,)
        Weights of the examples, which sum to 1.
    active : collection of str
        ``["token"]``.
    l1_ratio : float
        As for :class:`.ElasticNet`.
    random_state : int, RandomState or None
        Seed for the order of the examples.  None is a fixed seed, too.

    Attributes
    ----------
    primal, bound : float
        Objective of the best weights so far, and the lower bound, at the C of :meth:`begin`.

    Notes
    -----
    Le Priol, Piche and Lacoste-Julien, Adaptive stochastic dual coordinate ascent for conditional
    random fields, UAI 2018.
    """

    def __init__(
        self,
        task: Any,
        X: Sequence[Any],
        Y: Sequence[Any],
        example_weights: FloatArray,
        *,
        active: Collection[str],
        l1_ratio: float = 0.0,
        random_state: Any = None,
    ) -> None:
        self.task: Task = task
        self._penalty = ElasticNet(l1_ratio)
        stack = stacked(task, X)
        rows, starts = stack.rows["token"], stack.offsets["token"]
        self._sequences = sequences_of(task, X, Y, starts, np.zeros(len(Y)))
        self.designs = designs_of(task.kinds, stack, active)
        self._columns = SameColumns(rows, self.designs["token"].width - 1)
        self._random = check_random_state(0 if random_state is None else random_state)
        self._example_weights = example_weights
        self._penalties = task.penalties
        vectors = np.zeros((len(rows), 0))
        if "vector" in self.designs:
            vectors = self.designs["vector"].matrix(stack.rows["vector"])
        self._steps: tuple[Any, ...] = ()
        if task.step_features:
            steps = stack.rows["step"]
            self._columns_of_steps = SameColumns(steps, self.designs["step"].width - 1)
            values = np.append(self._columns_of_steps.values, 1.0)
            none = np.zeros((len(steps), 0)), np.zeros(len(steps))
            self._steps = (*self._columns_of_steps.entries, values, *none, stack.offsets["step"])
            del steps
        self._space = space_of_pass(starts, task.n_tags, has_steps=bool(self._steps))
        del stack, rows  # which are large
        # The columns of vectors and the constant have the value 1.
        values = np.concatenate((self._columns.values, np.ones(vectors.shape[1] + 1)))
        norms = np.einsum("tj,tj->t", vectors, vectors)
        self._tokens = (*self._columns.entries, values, vectors, norms)
        n_tags = task.n_tags
        self._weights = np.zeros((len(values), n_tags))
        self._transitions = np.zeros((len(self._steps[2]) if self._steps else 1, n_tags**2))
        # With an l1 norm, the sums of features whose shrunk form the weights are.
        self._slopes = self._weights, self._transitions
        if l1_ratio:
            self._slopes = self._weights.copy(), self._transitions.copy()
        self._true_pairs, self._duals = _true_duals(
            starts, self._sequences[1], n_tags, by_steps=bool(self._steps)
        )
        self.primal, self.bound, self._C = np.inf, -np.inf, 0.0
        self._best = self._weights, self._transitions

    @override
    def begin(self, C: float) -> None:
        self._sequences[2][:] = C * self._example_weights
        if self._C:
            for slopes in self._slopes:
                slopes *= C / self._C
            self._shrink()
        self._C = C
        self.primal, self.bound = np.inf, -np.inf

    def result(self) -> FoldResult:
        """Return the dual distributions and the best weights so far."""
        return FoldResult(self.matrices(), self._duals)

    def adopt(self, result: FoldResult, rows: IntArray, C: float) -> None:
        """Start at C from the distributions of a problem with the examples ``rows``."""
        if not result.duals:
            self.begin(C)
            return
        pairs = _rows_within(self._steps[5], rows) if self._steps else rows
        places = (_rows_within(self._sequences[0], rows), pairs, rows, rows)
        for ours, theirs, at in zip(self._duals, result.duals, places, strict=True):
            ours[at] = theirs
        self.begin(C)
        self._set_slopes()
        self._shrink()

    def _set_slopes(self) -> None:
        """Set the sums of features that the duals give."""
        vectors = self._tokens[3]
        starts, tags, weights, _ = self._sequences
        of_tags = self._duals[0]
        n_tokens = len(of_tags)
        of_tokens = np.repeat(weights, np.diff(starts))
        change = -of_tokens[:, None] * of_tags
        change[np.arange(n_tokens), tags] += of_tokens
        n_active = len(self._columns.values)
        slopes = self._slopes[0]
        slopes[:n_active] = _sums(self._tokens, change)[:n_active]
        slopes[n_active:-1] = vectors.T @ change
        slopes[-1] = change.sum(axis=0)
        self._set_slopes_of_pairs()

    def _set_slopes_of_pairs(self) -> None:
        """Set the sums of the pairs of tags that the duals give."""
        (starts, tags, weights, _), n_tags = self._sequences, self._weights.shape[1]
        of_pairs, pairs = self._duals[1], self._slopes[1]
        if self._steps:
            weights = np.repeat(weights, np.diff(self._steps[5]))
            change = -weights[:, None] * of_pairs
            change[np.arange(len(change)), self._true_pairs] += weights
            pairs[:] = _sums(self._steps, change)
            pairs[-1] = change.sum(axis=0)
            return
        pairs[0] = 0.0
        of_steps = tags[:-1] * n_tags + tags[1:]
        # Sequence by sequence, so that sums do not depend on how BLAS adds.
        for weight, of_pair, (first, last) in zip(
            weights, of_pairs, pairwise(starts.tolist()), strict=True
        ):
            np.add.at(pairs[0], of_steps[first : max(first, last - 1)], weight)
            pairs[0] -= weight * of_pair

    def _shrink(self) -> None:
        """Set the weights by their slopes."""
        if self._penalty.l1_ratio:
            for weights, slopes, scale in self._by_kind():
                weights[:] = self._penalty.best(slopes, scale)

    def _by_kind(self) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
        """Return weights, slopes and scales of the l1 norm, of tokens and of pairs of tags."""
        weights = self._weights, self._transitions
        scales = self._tokens[2][:, None], np.ones(1)
        return list(zip(weights, self._slopes, scales, strict=True))

    @override
    def improve(self) -> None:
        slopes: Any = None
        if self._penalty.l1_ratio:
            slopes = (*self._slopes, self._penalty.l1_ratio, self._penalty.ridge)
        for _ in range(_PASSES):
            raise_if_interrupted()
            self._pass(self._random.permutation(len(self._example_weights)), slopes, moves=True)
        raise_if_interrupted()
        penalty, conjugate = 0.0, 0.0
        for weights, of_weights, scale in self._by_kind():
            penalty += self._penalty.value(weights, scale)
            conjugate += self._penalty.conjugate(of_weights, scale)
        risk = self._pass(np.arange(len(self._example_weights)), slopes, moves=False)
        entropy = float(self._sequences[2] @ self._duals[2])
        self.bound = max(self.bound, entropy - conjugate)
        if risk + penalty < self.primal:
            self.primal = risk + penalty
            self._best = self._weights.copy(), self._transitions.copy()

    def _pass(self, order: IntArray, slopes: Any, *, moves: bool) -> float:
        """Make a pass over the sequences, and return their weighted loss."""
        return dual_pass(
            self._tokens, self._steps or None, self._sequences, self._penalties, order,
            (self._weights, self._transitions), self._duals, slopes, moves, self._space,
        )  # fmt: skip

    @override
    def matrices(self) -> Mapping[str, FloatArray]:
        weights, transitions = self._best
        n_active = len(self._columns.values)
        tokens = np.vstack((self._columns.spread(weights[:n_active]), weights[-1:]))
        steps = np.zeros_like(transitions)
        if self._steps:
            columns = self._columns_of_steps
            steps = columns.spread(transitions[: len(columns.values)])
        steps = np.vstack((steps, transitions[-1:]))
        vectors = {"vector": weights[n_active:-1]} if "vector" in self.designs else {}
        return {"token": tokens, "step": steps, **vectors}


def _sums(rows: tuple[Any, ...], change: FloatArray) -> FloatArray:
    """Return the sums of the rows of tokens or steps with each active feature, times its value."""
    features, at, values = rows[:3]
    matrix = sparse.csr_array((values[features], features, at), (len(change), len(values)))
    return np.asarray(matrix.T @ change)


def _rows_within(starts: IntArray, sequences: IntArray) -> IntArray:
    """Return the rows of some sequences that begin at ``starts``, in their order."""
    sizes = np.diff(starts)[sequences]
    first = np.repeat(starts[sequences] - (np.cumsum(sizes) - sizes), sizes)
    return np.asarray(first + np.arange(len(first)))


def _true_duals(
    starts: IntArray, tags: IntArray, n_tags: int, *, by_steps: bool
) -> tuple[IntArray, tuple[FloatArray, ...]]:
    """Return the true pairs, and distributions certain of the true tags, whose weights are zero."""
    n = len(starts) - 1
    of_tags = np.zeros((len(tags), n_tags))
    of_tags[np.arange(len(tags)), tags] = 1.0
    owners = np.repeat(np.arange(n), np.diff(starts))
    inner = np.flatnonzero(owners[1:] == owners[:-1])
    pairs = tags[inner] * n_tags + tags[inner + 1]
    n_rows, rows = (len(inner), np.arange(len(inner))) if by_steps else (n, owners[inner])
    of_pairs = np.zeros((n_rows, n_tags**2))
    np.add.at(of_pairs, (rows, pairs), 1.0)
    return pairs, (of_tags, of_pairs, np.zeros(n), np.full(n, FIRST_OVERLAP))


def chain_problem(
    task: Any,
    X: Sequence[Any],
    Y: Sequence[Any],
    example_weights: FloatArray,
    *,
    transitions: str = "all",
    **settings: Any,
) -> DualChain | PrimalChain:
    """Return the fastest solver, which is dual ascent unless sequences are long or tags many.

    A step of dual ascent changes one sequence, so that it needs many passes over a few long ones
    (docs/decisions.md), and it stores the pairs of tags of each, or of each step where they depend
    on features.  Parameters are those of :class:`.DualChain` and :class:`.PrimalChain`.
    """
    if transitions == "seen":
        return PrimalChain(task, X, Y, example_weights, transitions=transitions, **settings)
    lengths = np.array([len(y) for y in Y], np.float64)
    is_long = float(lengths @ lengths) > _LONG * float(lengths.sum())
    n_rows, most = len(Y), _MOST_PAIRS
    if task.step_features:
        n_rows, most = int(np.maximum(lengths - 1, 0).sum()), _MOST_PAIRS_OF_STEPS
    is_large = n_rows * task.n_tags**2 > most
    has_both = bool(task.step_features and settings.get("l1_ratio"))
    solver = PrimalChain if is_long or is_large or has_both else DualChain
    return solver(task, X, Y, example_weights, **settings)
