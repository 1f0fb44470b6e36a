"""Linear chain on active features, by dual ascent or quasi-Newton steps of its likelihood.

A compiled pass goes from sequence to sequence: scores of its tokens, sums over its tags, changes of
the weights of its features.  There is no table of all scores.  The time is proportional to the
number of tokens, however they are cut into sequences.

All passes take the same groups of arrays:

tokens : (ndarray of int32, ndarray of int64, ndarray, ndarray (n_tokens, width), ndarray)
    Active features of all tokens, the first entry of each token, the value of each feature, the
    vectors of all tokens, of width 0 without any, and their squared norms.
pairs : tuple
    Rows of the pairs of tags in the form of ``tokens``, one without features for each sequence.
sequences : (ndarray of int64, ndarray of int64, ndarray of float64, ndarray of bool (n, 2))
    First token of each sequence, true tags of all tokens, C times the weight of each sequence, and
    whether each begins and ends where the sequence that it was cut from does.
penalties : (ndarray, ndarray, ndarray)
    0, or minus infinity for forbidden pairs, first tags and last tags.
weights : ndarray, shape (n_features, n_tags)
    Weights of active features, of the columns of vectors, and of the constant.
transitions : ndarray, shape (1, n_tags * n_tags)
    Weights of the pairs of tags.
duals : tuple of ndarray
    Probabilities of tags (n_tokens, n_tags), and those of pairs of tags summed over each sequence
    (n_sequences, n_tags * n_tags); entropies (n_sequences,); overlaps (n_sequences,).
space : tuple
    Result of :func:`space_of_pass`, to work in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from structboost._typing import BoolArray, Examples, FloatArray, IntArray, override
from structboost.contract.calls import stacked
from structboost.contract.task import Task
from structboost.inference.chain import INSIDE, ONE_ROW, exponentials, space_of_sums, sum_product
from structboost.linear.designs import FoldResult, LinearProblem, SameColumns, designs_of
from structboost.linear.primal_likelihood import PrimalLikelihood
from structboost.runtime.compiled import compiled
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
        # Sparse products have one order of sums on every processor.
        weights[len(values) - 1 - vectors.shape[1] : -1] = sparse.csr_array(vectors).T @ of_tokens
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
        self, task: Any, X: Examples, Y: Examples, example_weights: FloatArray, **settings: Any
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
    task: Any, X: Examples, Y: Examples, example_weights: FloatArray, **settings: Any
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


# Overlap of a sequence that no step was made on yet.
FIRST_OVERLAP = 2.0
_LEAST_OVERLAP = 1e-3
_TINY = 1e-300


@compiled
def dual_pass(
    tokens: Any,
    pairs: Any,
    sequences: Any,
    penalties: Any,
    order: Any,
    point: Any,
    duals: Any,
    moves: bool,
    space: Any,
) -> float:
    """Run dual coordinate ascent over the sequences of ``order``, in place.

    Returns the sum of minus the log-likelihoods of the true tags, each times its weight and C, at
    the weights before the step on its sequence.  Unless it ``moves``, there are no steps: one
    function serves both, since it takes seconds to compile.

    The weights are ``sum_i c_i (truth - p_i)``, where p_i are the features expected under the
    dual distribution of example i.  A step mixes p_i with the expectation q_i at the weights.
    Entropies are concave, so the dual objective rises by at least
    ``beta c_i gap - (beta c_i |p_i - q_i|)^2 / 2``, which beta maximises.  The norm of the change
    is only available after the step.  So the overlap of the features of different rows is taken
    from the last step on the same sequence.

    ``point`` is ``(weights, transitions)``.
    """
    starts, tags, example_weights, ends = sequences
    tag_duals, pair_duals, entropies, overlaps = duals
    emissions, changes, change, met, sums = space
    weights, transitions = point
    n_tags = weights.shape[1]
    total, shift, is_new = 0.0, 0.0, True
    for place in range(len(order)):
        i = order[place]
        begin, n = starts[i], starts[i + 1] - starts[i]
        if n == 0:
            continue
        if is_new:
            shift = exponentials(transitions, ONE_ROW, penalties[0], sums[3], sums[4], sums[8])
            is_new = moves
        for k in range(n_tags * n_tags):
            change[0, k] = 0.0
        _score(begin, n, tokens, weights, emissions)
        true = 0.0
        for t in range(n):
            true += emissions[t, tags[begin + t]]
            if t:
                true += transitions[0, tags[begin + t - 1] * n_tags + tags[begin + t]]
        add_ends(emissions, n, ends[i], penalties)
        log_sum = sum_product(
            emissions, ONE_ROW, n, (transitions, penalties[0], ONE_ROW), sums, shift, changes,
            change,
        )  # fmt: skip
        total += example_weights[i] * (log_sum - true)
        if not moves:
            continue
        # <scores, p>, <scores, q - p> and |q - p|^2 without overlaps, of tokens and of pairs.
        expected, within, squares = _compare(begin, n, tokens, emissions, tag_duals, changes)
        of_pairs = _compare(i, 1, pairs, transitions, pair_duals, change)
        expected, moved = expected + of_pairs[0], within + of_pairs[1]
        gap = log_sum - entropies[i] - expected
        # The only row of pairs of a sequence overlaps with no other.
        norm = example_weights[i] * (overlaps[i] * squares + of_pairs[2])
        beta = min(1.0, gap / max(norm, _TINY))
        if not beta > 0.0:
            continue
        entropies[i] += beta * (log_sum - expected - moved - entropies[i])
        factor = -example_weights[i] * beta
        _mix(begin, n, beta, factor, tag_duals, changes)
        _mix(i, 1, beta, factor, pair_duals, change)
        rise = _scatter(begin, n, tokens, changes, weights, met)
        _scatter(i, 1, pairs, change, transitions, met)
        whole = 2.0 * (rise - factor * within)
        overlaps[i] = max(_LEAST_OVERLAP, whole / max(factor * factor * squares, _TINY))
    return total


@compiled(**INSIDE)
def add_ends(emissions: FloatArray, n: int, ends: Any, penalties: Any) -> None:
    """Add the penalties of first and last tags where a sequence of n tokens begins and ends."""
    for k in range(emissions.shape[1]):
        if ends[0]:
            emissions[0, k] += penalties[1][k]
        if ends[1]:
            emissions[n - 1, k] += penalties[2][k]


@compiled(**INSIDE)
def _score(begin: int, n: int, rows: Any, weights: FloatArray, out: FloatArray) -> None:
    """Compute the scores of tokens or of pairs."""
    features, at, values, vectors, _norms = rows
    n_channels, bias = weights.shape[1], len(weights) - 1
    first = bias - vectors.shape[1]
    for t in range(n):
        for k in range(n_channels):
            out[t, k] = values[bias] * weights[bias, k]
        for a in range(at[begin + t], at[begin + t + 1]):
            f = features[a]
            value = values[f]
            for k in range(n_channels):
                out[t, k] += value * weights[f, k]
        for j in range(vectors.shape[1]):
            value = vectors[begin + t, j]
            for k in range(n_channels):
                out[t, k] += value * weights[first + j, k]


@compiled(**INSIDE)
def _compare(
    begin: int, n: int, rows: Any, scores: FloatArray, duals: FloatArray, out: FloatArray
) -> tuple[float, float, float]:
    """Subtract the dual probabilities from those of the weights, in place.

    Returns the sums of the scores times the dual probabilities and times the differences, and the
    squared norm of the features of the differences, as if rows shared none.
    """
    features, at, values, _vectors, norms = rows
    expected = moved = squares = 0.0
    for t in range(n):
        squared = 0.0
        for k in range(scores.shape[1]):
            p = duals[begin + t, k]
            difference = out[t, k] - p
            out[t, k] = difference
            if p > 0.0:
                expected += p * scores[t, k]
            if difference != 0.0:
                moved += difference * scores[t, k]
            squared += difference * difference
        norm = values[-1] * values[-1]
        for a in range(at[begin + t], at[begin + t + 1]):
            norm += values[features[a]] * values[features[a]]
        squares += (norm + norms[begin + t]) * squared
    return expected, moved, squares


@compiled(**INSIDE)
def _mix(
    begin: int, n: int, beta: float, factor: float, duals: FloatArray, change: FloatArray
) -> None:
    """Add ``beta`` times a change to the dual probabilities, and multiply it by ``factor``."""
    for t in range(n):
        for k in range(duals.shape[1]):
            duals[begin + t, k] += beta * change[t, k]
            change[t, k] *= factor


@compiled(**INSIDE)
def _scatter(
    begin: int, n: int, rows: Any, change: FloatArray, weights: FloatArray, met: FloatArray
) -> float:
    """Add a row to the weights of all active features.

    Returns by how much half the squared norm of the weights rises.  ``met`` is space for a sum for
    each channel, so that channels are added up side by side.
    """
    features, at, values, vectors, _norms = rows
    n_channels, bias = weights.shape[1], len(weights) - 1
    first = bias - vectors.shape[1]
    for k in range(n_channels):
        met[k] = 0.0
    for t in range(n):
        n_active = at[begin + t + 1] - at[begin + t]
        for a in range(n_active + vectors.shape[1] + 1):
            if a < n_active:
                f = features[at[begin + t] + a]
                value = values[f]
            elif a < n_active + vectors.shape[1]:
                f = first + a - n_active
                value = vectors[begin + t, a - n_active]
            else:
                f, value = bias, values[bias]
            for k in range(n_channels):
                old = weights[f, k]
                new = old + value * change[t, k]
                weights[f, k] = new
                met[k] += (new - old) * (new + old)
    total = 0.0
    for k in range(n_channels):
        total += met[k]
    return 0.5 * total


def space_of_pass(starts: IntArray, n_tags: int) -> Any:
    """Allocate what :func:`dual_pass` and :func:`slopes_of` work in.

    Emissions and probabilities of the longest sequence, changes of pairs, a sum for each pair, and
    the result of :func:`structboost.inference.chain.space_of_sums`.
    """
    sums = space_of_sums(starts, n_tags)
    shape = sums[0].shape
    return np.empty(shape), np.empty(shape), np.empty((1, n_tags**2)), np.empty(n_tags**2), sums


@compiled
def slopes_of(
    scores: FloatArray,
    transitions: FloatArray,
    sequences: Any,
    penalties: Any,
    space: Any,
    out: FloatArray,
) -> tuple[float, float]:
    """Replace the scores of tags by the slopes of the likelihood, and return its loss and entropy.

    Parameters
    ----------
    scores : ndarray, shape (n_tokens, n_tags)
        Filled with the weight of the sequence times (truth - probability) of each tag.
    transitions, sequences, penalties, space
        As for the other functions of this module.
    out : ndarray of the shape of ``transitions``
        Starts at zero; gains the slopes.

    Returns
    -------
    loss, entropy : float
        Weighted sums over the sequences.
    """
    starts, tags, example_weights, ends = sequences
    n_tags, n_pairs = scores.shape[1], transitions.shape[1]
    emissions, probabilities, of_pairs, _met, sums = space
    shift = exponentials(transitions, ONE_ROW, penalties[0], sums[3], sums[4], sums[8])
    # Probabilities of pairs, summed over sequences of the same weight.
    of_pairs[0] = 0.0
    loss, entropy = 0.0, 0.0
    for i in range(len(example_weights)):
        begin, n, weight = starts[i], starts[i + 1] - starts[i], example_weights[i]
        if n > 0:
            for t in range(n):
                for k in range(n_tags):
                    emissions[t, k] = scores[begin + t, k]
            add_ends(emissions, n, ends[i], penalties)
            log_sum = sum_product(
                emissions, ONE_ROW, n, (transitions, penalties[0], ONE_ROW), sums, shift,
                probabilities, of_pairs,
            )  # fmt: skip
            true = expected = 0.0
            for t in range(n):
                tag = tags[begin + t]
                true += scores[begin + t, tag]
                if t:
                    pair = tags[begin + t - 1] * n_tags + tag
                    true += transitions[0, pair]
                    out[0, pair] += weight
                for k in range(n_tags):
                    expected += probabilities[t, k] * scores[begin + t, k]
                    scores[begin + t, k] = -weight * probabilities[t, k]
                scores[begin + t, tag] += weight
            loss += weight * (log_sum - true)
            entropy += weight * (log_sum - expected)
        if i + 1 == len(example_weights) or example_weights[i + 1] != weight:
            for k in range(n_pairs):
                out[0, k] -= weight * of_pairs[0, k]
                entropy -= weight * of_pairs[0, k] * transitions[0, k]
                of_pairs[0, k] = 0.0
    return loss, entropy
