"""Linear chain on active features, by dual ascent or quasi-Newton steps of its likelihood."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from structboost._typing import BoolArray, FloatArray, IntArray, override
from structboost.contract.calls import stacked
from structboost.contract.task import Task
from structboost.linear.chain_passes import FIRST_OVERLAP, dual_pass, slopes_of, space_of_pass
from structboost.linear.designs import (
    ElasticNet,
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
    X, Y : sequence
        Tokens as indices of active features, with vectors if the task has them, and tags.
    example_weights : ndarray, shape (n_examples,)
        Weights of the examples, which sum to 1.
    active : collection of str
        ``["token"]``, and ``"step"`` if the steps have features.
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
        starts, first_rows = stack.offsets["token"], stack.offsets["step"]
        self._sequences = sequences_of(task, X, Y, starts, np.zeros(len(Y)))
        self.designs = designs_of(task.kinds, stack, active)
        self._random = check_random_state(0 if random_state is None else random_state)
        self._example_weights = example_weights
        self._penalties = task.penalties
        n_tags, tags, n_steps = task.n_tags, self._sequences[1], np.diff(first_rows)
        # Columns, features, first rows and true entries of tokens, then of pairs of tags.
        active_steps = stack.rows["step"]
        if not task.step_features:
            active_steps = np.zeros((len(Y), 0), np.int64)
        vectors = np.zeros((len(tags), 0))
        if "vector" in self.designs:
            vectors = self.designs["vector"].matrix(stack.rows["vector"])
        self._columns = [
            SameColumns(rows, self.designs[kind].width - 1 if rows.size else 0)
            for kind, rows in (("token", stack.rows["token"]), ("step", active_steps))
        ]
        self._rows = [
            _rows(columns, of_rows)
            for columns, of_rows in zip(
                self._columns, (vectors, np.zeros((len(active_steps), 0))), strict=True
            )
        ]
        del stack, active_steps  # which are large
        self._first_rows = starts, first_rows
        owners = np.repeat(np.arange(len(Y)), np.diff(starts))
        inner = np.flatnonzero(owners[1:] == owners[:-1])
        steps = np.arange(len(inner)) if task.step_features else owners[inner]
        self._true = (
            (np.arange(len(tags)), tags),
            (steps, tags[inner] * n_tags + tags[inner + 1]),
        )
        row_step = np.int64(1) if task.step_features else None
        self._pairs = self._rows[1], np.asarray(first_rows, np.int64), row_step
        self._space = space_of_pass(starts, n_tags, has_steps=task.step_features)
        self._weights = [
            np.zeros((len(of[2]), n)) for of, n in zip(self._rows, (n_tags, n_tags**2), strict=True)
        ]
        # With an l1 norm, the sums of features whose shrunk form the weights are.
        self._slopes = [of.copy() for of in self._weights] if l1_ratio else self._weights
        # Distributions certain of the true tags, whose weights are zero.
        n_rows = len(tags), int(n_steps.sum())
        self._duals = (
            *(np.zeros((n, of.shape[1])) for n, of in zip(n_rows, self._weights, strict=True)),
            np.zeros(len(Y)), np.full(len(Y), FIRST_OVERLAP),
        )  # fmt: skip
        for of, at in zip(self._duals, self._true, strict=False):
            np.add.at(of, at, 1.0)
        self.primal, self.bound, self._C = np.inf, -np.inf, 0.0
        self._best = self._weights

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
        self.begin(C)
        if not result.duals:
            return
        places = (*(_rows_within(first, rows) for first in self._first_rows), rows, rows)
        for ours, theirs, at in zip(self._duals, result.duals, places, strict=True):
            ours[at] = theirs
        # The sums of features that the duals give.
        for of_rows, first, true, duals, slopes in zip(
            self._rows, self._first_rows, self._true, self._duals, self._slopes, strict=False
        ):
            features, starts, values, vectors, _ = of_rows
            weights = np.repeat(self._sequences[2], np.diff(first))
            change = -weights[:, None] * duals
            np.add.at(change, true, weights[true[0]])
            entries = values[features], features, starts
            slopes[:] = sparse.csr_array(entries, (len(change), len(values))).T @ change
            slopes[len(values) - 1 - vectors.shape[1] : -1] = vectors.T @ change
            slopes[-1] = change.sum(axis=0)
        self._shrink()

    def _shrink(self) -> None:
        """Set the weights by their slopes."""
        if self._penalty.l1_ratio:
            for weights, slopes, rows in zip(self._weights, self._slopes, self._rows, strict=True):
                weights[:] = self._penalty.best(slopes, rows[2][:, None])

    @override
    def improve(self) -> None:
        for _ in range(_PASSES):
            raise_if_interrupted()
            self._pass(self._random.permutation(len(self._example_weights)), moves=True)
        raise_if_interrupted()
        penalty, conjugate = 0.0, 0.0
        for weights, slopes, rows in zip(self._weights, self._slopes, self._rows, strict=True):
            penalty += self._penalty.value(weights, rows[2][:, None])
            conjugate += self._penalty.conjugate(slopes, rows[2][:, None])
        risk = self._pass(np.arange(len(self._example_weights)), moves=False)
        entropy = float(self._sequences[2] @ self._duals[2])
        self.bound = max(self.bound, entropy - conjugate)
        if risk + penalty < self.primal:
            self.primal = risk + penalty
            self._best = [of.copy() for of in self._weights]

    def _pass(self, order: IntArray, *, moves: bool) -> float:
        """Make a pass over the sequences, and return their weighted loss."""
        slopes: Any = None
        if self._penalty.l1_ratio:
            slopes = (*self._slopes, self._penalty.l1_ratio, self._penalty.ridge)
        return dual_pass(
            self._rows[0], self._pairs, self._sequences, self._penalties, order,
            tuple(self._weights), self._duals, slopes, moves, self._space,
        )  # fmt: skip

    @override
    def matrices(self) -> Mapping[str, FloatArray]:
        out = {}
        for kind, columns, weights in zip(
            ("token", "step"), self._columns, self._best, strict=True
        ):
            out[kind] = np.zeros((self.designs[kind].width, weights.shape[1]))
            spread = columns.spread(weights[: len(columns.values)])
            out[kind][: len(spread)], out[kind][-1] = spread, weights[-1]
        if "vector" in self.designs:
            out["vector"] = self._best[0][len(self._columns[0].values) : -1]
        return out


def _rows(columns: SameColumns, vectors: FloatArray) -> tuple[Any, ...]:
    """Return tokens or pairs as compiled passes take them."""
    # The columns of vectors and the constant have the value 1.
    values = np.concatenate((columns.values, np.ones(vectors.shape[1] + 1)))
    return (*columns.entries, values, vectors, np.einsum("tj,tj->t", vectors, vectors))


def _rows_within(starts: IntArray, sequences: IntArray) -> IntArray:
    """Return the rows of some sequences that begin at ``starts``, in their order."""
    sizes = np.diff(starts)[sequences]
    first = np.repeat(starts[sequences] - (np.cumsum(sizes) - sizes), sizes)
    return np.asarray(first + np.arange(len(first)))


def sequences_of(
    task: Any, X: Sequence[Any], Y: Sequence[Any], starts: IntArray, weights: FloatArray
) -> tuple[IntArray, IntArray, FloatArray, BoolArray]:
    """Return sequences as compiled passes take them."""
    ends = [(x.begins, x.ends) if isinstance(x, Stretch) else (True, True) for x in X]
    tags = task.checked_tags(X, Y, np.diff(starts))
    return starts, tags, np.asarray(weights, np.float64), np.array(ends)


class PrimalChain(PrimalLikelihood):
    """Minimiser of the regularised likelihood of a :class:`structboost.ChainTask`.

    It equals :class:`PrimalLikelihood`, with one row of scores of pairs for all sequences, so that
    neither time nor memory depends on how tokens are cut into sequences.  Where the steps have
    features, scores of pairs are in memory for one sequence at a time.  Weights are scaled by the
    curvature that they have at the frequencies of features and tags, which saves steps.

    Parameters
    ----------
    task : ChainTask
        With or without features of the steps.
    X, Y : sequence
        Tokens and steps as indices of active features, with vectors if the task has them, and tags.
    example_weights : ndarray, shape (n_examples,)
        Weights of the examples, which sum to 1.
    transitions : {"all", "seen"}
        Pairs of tags that have a weight, all of them or those that ``Y`` has.  Others score 0, and
        the time for each token is proportional to the number of tags and seen pairs.
    **settings
        As for :class:`PrimalLikelihood`.
    """

    _uses_sums_of_task = False

    def __init__(
        self,
        task: Any,
        X: Sequence[Any],
        Y: Sequence[Any],
        example_weights: FloatArray,
        *,
        transitions: str = "all",
        **settings: Any,
    ) -> None:
        super().__init__(task, X, Y, example_weights, **settings)
        starts, first_rows = self._offsets["token"], self._offsets["step"]
        sizes = np.diff(starts)
        self._sequences = sequences_of(task, X, Y, starts, example_weights)
        tags = self._sequences[1]
        self._penalties = task.penalties
        # Kept, since the system clears new memory of a long sequence at each use.
        self._space = space_of_pass(starts, task.n_tags, has_steps=task.step_features)
        # Pairs of tags that have a weight, or that are forbidden; none means all.
        self._listed = np.zeros(0, np.int64)
        if transitions == "seen":
            inner = np.flatnonzero(np.diff(np.repeat(np.arange(len(sizes)), sizes)) == 0)
            seen = np.zeros(task.n_tags**2, bool)
            seen[tags[inner] * task.n_tags + tags[inner + 1]] = True
            self._has_weight = seen.astype(np.float64)
            self._listed = np.flatnonzero(seen | (self._penalties[0] < 0)).astype(np.int64)
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
        matrix = self._matrices["step"]
        steps = sparse.csr_array((matrix.shape[0], 0))
        if task.step_features:
            steps = matrix[:, :-1]
            of_steps = np.repeat(self._sequences[2], np.diff(first_rows))
            # That of a feature is that of all pairs, by its frequency among the steps.
            frequencies = np.asarray(matrix.T @ of_steps) / max(of_steps.sum(), 1e-300)
            by_kind["step"][:] = np.outer(frequencies, by_kind["step"][-1])
        entries = steps.indices.astype(np.int32), steps.indptr.astype(np.int64)
        n_rows, width = steps.shape
        rows = *entries, np.ones(width + 1), np.zeros((n_rows, 0)), np.zeros(n_rows)
        row_step = np.int64(1) if task.step_features else None
        self._pairs = rows, np.asarray(first_rows, np.int64), row_step

    @override
    def begin(self, C: float) -> None:
        self._scale = 1.0 / np.sqrt(self._penalty.ridge + C * self._curvature)
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
        at = slice(-1 - len(self._pairs[0][2][:-1]), None)
        pairs = slopes["step"][at]
        loss, entropy = slopes_of(
            scores, np.ascontiguousarray(by_kind["step"][at]), self._pairs, self._sequences,
            self._penalties, self._listed, self._space, pairs,
        )  # fmt: skip
        if len(self._listed):
            pairs *= self._has_weight
        for kind in self._kinds_of_tokens:
            slopes[kind][:] = self._matrices[kind].T @ scores
        self._mix(rising, entropy)
        ridge = self._penalty.ridge
        value = self._C * loss + 0.5 * ridge * float(weights @ weights)
        return value, self._scale * (ridge * weights - self._C * rising)


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
    lengths = np.array([len(y) for y in Y], np.float64)
    is_long = float(lengths @ lengths) > _LONG * float(lengths.sum())
    n_rows, most = len(Y), _MOST_PAIRS
    if task.step_features:
        n_rows, most = int(np.maximum(lengths - 1, 0).sum()), _MOST_PAIRS_OF_STEPS
    if transitions == "seen" or is_long or n_rows * task.n_tags**2 > most:
        settings["transitions"] = transitions
        return PrimalChain(task, X, Y, example_weights, **settings)
    return DualChain(task, X, Y, example_weights, **settings)
