"""Linear chain on active features, by dual ascent or quasi-Newton steps of its likelihood."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from structboost._typing import BoolArray, Examples, FloatArray, IntArray, override
from structboost.contract.calls import stacked
from structboost.contract.task import Task
from structboost.linear.chain_passes import FIRST_OVERLAP, dual_pass, slopes_of, space_of_pass
from structboost.linear.designs import (
    FoldResult,
    LinearProblem,
    SameColumns,
    designs_of,
)
from structboost.linear.primal_likelihood import PrimalLikelihood
from structboost.runtime.interrupts import raise_if_interrupted
from structboost.tasks.chain import Stretch

# Passes over all sequences between two exact ones.
_PASSES = 2
# Mean length of the sequence of a token from which on quasi-Newton steps are faster.
_LONG = 100.0
# Probabilities of pairs of tags that dual ascent may store, 128 megabytes.
_MOST_PAIRS = 1 << 24


class DualChain(LinearProblem):
    """Solver of the dual of the regularised likelihood of a :class:`structboost.ChainTask`.

    An output has the probability ``~ exp(score)``.  With ``c_i`` = C times the weight of example i,
    the primal is ``sum_i c_i (-log p(y_i)) + |w|^2 / 2``, the dual ``sum_i c_i H(p_i) - |w(p)|^2 /
    2`` with ``w(p) = sum_i c_i (features of y_i - those expected by p_i)``.  The dual
    distributions p_i are stored by their probabilities of tags and of pairs of tags, and a lower
    bound of their entropies H, by concavity; so the bound on the primal is certified.  Pairs are
    summed over each sequence.

    Features that occur in the same tokens have equal weights at the optimum, and are merged.

    Parameters
    ----------
    task : ChainTask
        Without features of the steps.
    X, Y : sequence
        Tokens as indices of active features, with vectors if the task has them, and tags.
    example_weights : ndarray, shape (n_examples,)
        Weights of the examples, which sum to 1.
    active : collection of str
        ``["token"]``.
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
        X: Examples,
        Y: Examples,
        example_weights: FloatArray,
        *,
        active: Collection[str],
        random_state: Any = None,
    ) -> None:
        self.task: Task = task
        stack = stacked(task, X)
        self._starts = starts = stack.offsets["token"]
        self._sequences = sequences_of(task, X, Y, starts, np.zeros(len(Y)))
        self.designs = designs_of(task.kinds, stack, active)
        self._random = check_random_state(0 if random_state is None else random_state)
        self._example_weights = example_weights
        self._penalties = task.penalties
        n_tags, tags = task.n_tags, self._sequences[1]
        vectors = np.zeros((len(tags), 0))
        if "vector" in self.designs:
            vectors = self.designs["vector"].matrix(stack.rows["vector"])
        rows = stack.rows["token"]
        self._columns = SameColumns(rows, self.designs["token"].width - 1 if rows.size else 0)
        del stack, rows  # which are large
        # Tokens, and the pairs of tags of each sequence.  The columns of vectors and the constant
        # have the value 1.
        values = np.concatenate((self._columns.values, np.ones(vectors.shape[1] + 1)))
        squares = np.einsum("tj,tj->t", vectors, vectors)
        self._tokens: tuple[Any, ...] = (*self._columns.entries, values, vectors, squares)
        n = len(Y)
        no_entries = np.zeros(0, np.int32), np.zeros(n + 1, np.int64)
        self._pairs = *no_entries, np.ones(1), np.zeros((n, 0)), np.zeros(n)
        owners = np.repeat(np.arange(n), np.diff(starts))
        inner = np.flatnonzero(owners[1:] == owners[:-1])
        self._true = (
            (np.arange(len(tags)), tags),
            (owners[inner], tags[inner] * n_tags + tags[inner + 1]),
        )
        self._space = space_of_pass(starts, n_tags)
        self._weights = [np.zeros((len(values), n_tags)), np.zeros((1, n_tags**2))]
        # Distributions certain of the true tags, whose weights are zero.
        self._duals = (
            np.zeros((len(tags), n_tags)), np.zeros((n, n_tags**2)), np.zeros(n),
            np.full(n, FIRST_OVERLAP),
        )  # fmt: skip
        for of, at in zip(self._duals, self._true, strict=False):
            np.add.at(of, at, 1.0)
        self.primal, self.bound, self._C = np.inf, -np.inf, 0.0
        self._best = self._weights

    @override
    def begin(self, C: float) -> None:
        self._sequences[2][:] = C * self._example_weights
        if self._C:
            for weights in self._weights:
                weights *= C / self._C
        self._C = C
        self.primal, self.bound = np.inf, -np.inf

    def result(self) -> FoldResult:
        """Return the dual distributions and the best weights so far."""
        return FoldResult(self.matrices(), self._duals)

    def adopt(self, result: FoldResult, rows: IntArray, C: float) -> None:
        """Start at C from the distributions of a problem with the examples ``rows``."""
        self.begin(C)
        if not result.duals:
            return
        places = _rows_within(self._starts, rows), rows, rows, rows
        for ours, theirs, at in zip(self._duals, result.duals, places, strict=True):
            ours[at] = theirs
        # The sums of features that the duals give.
        of_sequences = self._sequences[2]
        by_token = np.repeat(of_sequences, np.diff(self._starts))
        of_tokens, of_pairs = (
            -weights[:, None] * duals
            for weights, duals in zip((by_token, of_sequences), self._duals, strict=False)
        )
        np.add.at(of_tokens, self._true[0], by_token)
        np.add.at(of_pairs, self._true[1], of_sequences[self._true[1][0]])
        features, starts, values, vectors, _ = self._tokens
        table = sparse.csr_array(
            (values[features], features, starts), (len(of_tokens), len(values))
        )
        weights, self._weights[1][0] = self._weights[0], of_pairs.sum(axis=0)
        weights[:] = table.T @ of_tokens
        weights[len(values) - 1 - vectors.shape[1] : -1] = vectors.T @ of_tokens
        weights[-1] = of_tokens.sum(axis=0)

    @override
    def improve(self) -> None:
        for _ in range(_PASSES):
            raise_if_interrupted()
            self._pass(self._random.permutation(len(self._example_weights)), moves=True)
        raise_if_interrupted()
        penalty = sum(0.5 * float(np.vdot(of, of)) for of in self._weights)
        risk = self._pass(np.arange(len(self._example_weights)), moves=False)
        entropy = float(self._sequences[2] @ self._duals[2])
        self.bound = max(self.bound, entropy - penalty)
        if risk + penalty < self.primal:
            self.primal = risk + penalty
            self._best = [of.copy() for of in self._weights]

    def _pass(self, order: IntArray, *, moves: bool) -> float:
        """Make a pass over the sequences, and return their weighted loss."""
        return dual_pass(
            self._tokens, self._pairs, self._sequences, self._penalties, order,
            tuple(self._weights), self._duals, moves, self._space,
        )  # fmt: skip

    @override
    def matrices(self) -> Mapping[str, FloatArray]:
        of_tokens, of_pairs = self._best
        columns = self._columns
        out = {
            kind: np.zeros((self.designs[kind].width, of.shape[1]))
            for kind, of in (("token", of_tokens), ("step", of_pairs))
        }
        spread = columns.spread(of_tokens[: len(columns.values)])
        out["token"][: len(spread)] = spread
        out["token"][-1], out["step"][-1] = of_tokens[-1], of_pairs[-1]
        if "vector" in self.designs:
            out["vector"] = of_tokens[len(columns.values) : -1]
        return out


def _rows_within(starts: IntArray, sequences: IntArray) -> IntArray:
    """Return the rows of some sequences that begin at ``starts``, in their order."""
    sizes = np.diff(starts)[sequences]
    first = np.repeat(starts[sequences] - (np.cumsum(sizes) - sizes), sizes)
    return np.asarray(first + np.arange(len(first)))


def sequences_of(
    task: Any, X: Examples, Y: Examples, starts: IntArray, weights: FloatArray
) -> tuple[IntArray, IntArray, FloatArray, BoolArray]:
    """Return sequences as compiled passes take them."""
    ends = [(x.begins, x.ends) if isinstance(x, Stretch) else (True, True) for x in X]
    tags = task.checked_tags(X, Y, np.diff(starts))
    return starts, tags, np.asarray(weights, np.float64), np.array(ends)


class PrimalChain(PrimalLikelihood):
    """Minimiser of the regularised likelihood of a :class:`structboost.ChainTask`.

    It equals :class:`PrimalLikelihood`, with one row of scores of pairs for all sequences, so that
    neither time nor memory depends on how tokens are cut into sequences.  Weights are scaled by the
    curvature that they have at the frequencies of features and tags, which saves steps.

    Parameters
    ----------
    task : ChainTask
        Without features of the steps.
    X, Y : sequence
        Tokens as indices of active features, with vectors if the task has them, and tags.
    example_weights : ndarray, shape (n_examples,)
        Weights of the examples, which sum to 1.
    **settings
        As for :class:`PrimalLikelihood`.
    """

    _uses_sums_of_task = False

    def __init__(
        self,
        task: Any,
        X: Examples,
        Y: Examples,
        example_weights: FloatArray,
        **settings: Any,
    ) -> None:
        super().__init__(task, X, Y, example_weights, **settings)
        starts = self._offsets["token"]
        sizes = np.diff(starts)
        self._sequences = sequences_of(task, X, Y, starts, example_weights)
        tags = self._sequences[1]
        self._penalties = task.penalties
        # Kept, since the system clears new memory of a long sequence at each use.
        self._space = space_of_pass(starts, task.n_tags)
        of_tokens = np.repeat(example_weights, sizes)
        frequencies = np.bincount(tags, of_tokens, task.n_tags)
        frequencies = (frequencies + 1e-9) / (frequencies + 1e-9).sum()
        of_pairs = np.outer(frequencies, frequencies).ravel()
        n_pairs = float(example_weights @ np.maximum(sizes - 1, 0))
        self._kinds_of_tokens = [kind for kind in task.kinds if kind != "step"]
        self._curvature = np.zeros(sum(a * b for a, b in self._shapes.values()))
        by_kind = self._split(self._curvature)
        for kind in self._kinds_of_tokens:
            matrix = self._matrices[kind]
            of_features = np.asarray((matrix * matrix).T @ of_tokens)
            by_kind[kind][:] = np.outer(of_features, frequencies * (1.0 - frequencies))
        by_kind["step"][-1] = n_pairs * of_pairs * (1.0 - of_pairs)

    @override
    def begin(self, C: float) -> None:
        self._scale = 1.0 / np.sqrt(1.0 + C * self._curvature)
        super().begin(C)

    @override
    def _evaluate(self, weights: FloatArray) -> tuple[float, FloatArray]:
        weights = self._scale * weights
        by_kind = self._split(weights)
        scores = np.asarray(self._matrices["token"] @ by_kind["token"])
        for kind in self._kinds_of_tokens[1:]:
            scores += self._matrices[kind] @ by_kind[kind]
        rising = np.zeros(len(weights))
        slopes = self._split(rising)
        pairs = slopes["step"][-1:]
        loss, entropy = slopes_of(
            scores, by_kind["step"][-1:], self._sequences, self._penalties, self._space, pairs,
        )  # fmt: skip
        for kind in self._kinds_of_tokens:
            slopes[kind][:] = self._matrices[kind].T @ scores
        self._mix(rising, entropy)
        value = self._C * loss + 0.5 * float(weights @ weights)
        return value, self._scale * (weights - self._C * rising)


def chain_problem(
    task: Any,
    X: Examples,
    Y: Examples,
    example_weights: FloatArray,
    **settings: Any,
) -> DualChain | PrimalChain:
    """Return the fastest solver, which is dual ascent unless sequences are long or tags many.

    A step of dual ascent changes one sequence, so that it needs many passes over a few long ones
    (docs/decisions.md), and it stores the pairs of tags of each.  Parameters are those of
    :class:`.DualChain` and :class:`.PrimalChain`.
    """
    lengths = np.array([len(y) for y in Y], np.float64)
    is_long = float(lengths @ lengths) > _LONG * float(lengths.sum())
    if is_long or len(Y) * task.n_tags**2 > _MOST_PAIRS:
        return PrimalChain(task, X, Y, example_weights, **settings)
    return DualChain(task, X, Y, example_weights, **settings)
