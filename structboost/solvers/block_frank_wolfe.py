"""Block-coordinate Frank-Wolfe on cached cuts, for the dual of the linear structured SVM.

The primal, over weights W of which some are bounded, ``W >= 0``
(:mod:`structboost.solvers.linear_scores`), is ::

    min  1/2 |W|^2 + sum_i B_i max_y [Delta(y_i, y) - <W, dPsi_i(y)>]
         dPsi_i(y) = Psi(x_i, y_i) - Psi(x_i, y)

Its dual has a multiplier alpha_i(y) >= 0 for every output, those of example i summing to B_i, and,
beyond Lacoste-Julien et al. (ICML 2013), (4), a multiplier nu >= 0 for every bounded weight::

    max  sum alpha Delta - 1/2 |A + nu|^2,   A = sum alpha dPsi

Example i is a block, and so is nu.  The best nu for given alpha makes ``A + nu = max(A, 0)`` on
bounded weights, so ``W = max(A, 0)`` there, ``W = A`` elsewhere, and ``sum alpha Delta - 1/2
|W|^2`` is the dual value of any alpha.

A Frank-Wolfe step moves a block towards one output.  Here the outputs found so far are cached as
cuts, and a block makes pairwise steps, from a cut with weight to the most violated one, with exact
line search on the products <dPsi_i(y), dPsi_i(y')> of its cuts, nu held.  So most steps need no
argmax, and none needs more than the features of one example.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray
from structboost.contract.parts import starts_of
from structboost.runtime.compiled import compiled
from structboost.runtime.memory import check_memory
from structboost.solvers.linear_scores import FoundOutputs, Scores
from structboost.solvers.proximal_step import ORDERED, inner_product

# A block is solved to this fraction of its violation, in at most so many steps.
_BLOCK_ACCURACY = 0.1
_MAX_BLOCK_STEPS = 50
# Cost of a product of features in addition to its length.
_OVERHEAD = 8
# numba compiles once more for a literal.
_NO_BOUNDS: Any = np.bool_(False)
_NOTHING: Any = np.int64(0)


class Cuts(NamedTuple):
    """Cached cuts, by example, in flat arrays for compiled code.

    Example i owns the cuts ``first_cut[i]:first_cut[i + 1]``, the scores ``first_support[i]:...``
    that they touch, and the square matrix of products that begins at ``first_product[i]``; cut c
    owns the entries ``first_entry[c]:first_entry[c + 1]``.
    """

    first_cut: IntArray
    losses: FloatArray
    multipliers: FloatArray
    idle: IntArray
    first_entry: IntArray
    entry_score: IntArray
    entry_value: FloatArray
    first_product: IntArray
    products: FloatArray
    first_support: IntArray
    support_score: IntArray
    support_feature: IntArray
    support_weight: IntArray
    support_length: IntArray
    support_bounded: BoolArray
    support_is_sparse: BoolArray


# Cuts, as compiled code is given them from Python: see :mod:`structboost.runtime.compiled`.
CutFields = tuple[Any, ...]

# Values of features, and indices of sparse ones: see LinearScores.features.
Features = tuple[AnyArray, IntArray]


def no_cuts(n_examples: int) -> Cuts:
    """Make an empty cache."""
    none, no_numbers, zeros = np.zeros(0), np.zeros(0, np.int64), np.zeros(n_examples + 1, np.int64)
    return Cuts(
        zeros, none, none, no_numbers, np.zeros(1, np.int64), no_numbers, none, zeros, none,
        zeros, no_numbers, no_numbers, no_numbers, no_numbers, np.zeros(0, np.bool_),
        np.zeros(0, np.bool_),
    )  # fmt: skip


@compiled(inline="always")
def _cut_value(cuts: Cuts, cut: int, scores: FloatArray) -> float:
    total = 0.0
    for e in range(cuts.first_entry[cut], cuts.first_entry[cut + 1]):
        total += cuts.entry_value[e] * scores[cuts.entry_score[e]]
    return total


@compiled
def cached_violations(fields: CutFields, scores: FloatArray) -> FloatArray:
    """Largest violation of a cached cut of each example, at least 0."""
    cuts = Cuts(*fields)
    best = np.empty(len(cuts.first_cut) - 1)
    for i in range(len(best)):
        best[i] = 0.0
        for c in range(cuts.first_cut[i], cuts.first_cut[i + 1]):
            violation = cuts.losses[c] - _cut_value(cuts, c, scores)
            best[i] = max(best[i], violation)
    return best


@compiled
def gather_entries(
    starts: IntArray,
    first_entry: IntArray,
    scores: IntArray,
    values: FloatArray,
    entry_score: IntArray,
    entry_value: FloatArray,
    seen: IntArray,
    touched: IntArray,
) -> int:
    """Fill in the entries of cuts, which begin at ``starts`` in ``scores`` and ``values``.

    ``touched`` gets the first entry of each score; returns their number.  ``seen``, of the length
    of the flat scores, is less than 0 before and after.
    """
    n = 0
    for c in range(len(starts)):
        shift = starts[c] - first_entry[c]
        for e in range(first_entry[c], first_entry[c + 1]):
            score = scores[e + shift]
            entry_score[e] = score
            entry_value[e] = values[e + shift]
            if seen[score] < 0:
                seen[score] = 0
                touched[n] = e
                n += 1
    for t in touched[:n]:
        seen[entry_score[t]] = -1
    return n


@compiled
def _add_times(step: float, values: FloatArray, sums: FloatArray) -> None:
    for f in range(len(values)):
        sums[f] += step * values[f]


@compiled
def _score_support(
    cuts: Cuts, i: int, features: Features, sums: FloatArray, scores: FloatArray, has_bounds: bool
) -> None:
    """Scores of example i that its cuts touch, at the weights ``max(sums, 0)`` if bounded."""
    values, indices = features
    for s in range(cuts.first_support[i], cuts.first_support[i + 1]):
        x = cuts.support_feature[s]
        w = cuts.support_weight[s]
        n = cuts.support_length[s]
        bounded = has_bounds and cuts.support_bounded[s]
        total = 0.0
        if cuts.support_is_sparse[s] or bounded:
            for f in range(n):
                weight = sums[w + (indices[x + f] if cuts.support_is_sparse[s] else f)]
                total += values[x + f] * (max(weight, 0.0) if bounded else weight)
        else:
            total = inner_product(n, values[x : x + n], sums[w : w + n], ORDERED)
        scores[cuts.support_score[s]] = total


@compiled(inline="always")
def _add_cut(cuts: Cuts, cut: int, weight: float, steps: FloatArray) -> None:
    """Add ``weight`` times the joint-feature difference of a cut to ``steps``, one per score."""
    for e in range(cuts.first_entry[cut], cuts.first_entry[cut + 1]):
        steps[cuts.entry_score[e]] += weight * cuts.entry_value[e]


@compiled
def add_cuts(fields: CutFields, steps: FloatArray) -> None:
    """Add all cuts, each times its multiplier."""
    cuts = Cuts(*fields)
    for c in range(len(cuts.multipliers)):
        _add_cut(cuts, c, cuts.multipliers[c], steps)


@compiled
def _add_steps(cuts: Cuts, i: int, features: Features, steps: FloatArray, sums: FloatArray) -> None:
    """Add ``steps`` times features to ``sums`` for example i, and reset ``steps`` to zero."""
    values, indices = features
    for s in range(cuts.first_support[i], cuts.first_support[i + 1]):
        step = steps[cuts.support_score[s]]
        if step != 0.0:
            steps[cuts.support_score[s]] = 0.0
            x = cuts.support_feature[s]
            w = cuts.support_weight[s]
            if cuts.support_is_sparse[s]:
                for f in range(x, x + cuts.support_length[s]):
                    sums[w + indices[f]] += step * values[f]
            else:
                n = cuts.support_length[s]
                _add_times(step, values[x : x + n], sums[w : w + n])


@compiled
def add_up(fields: CutFields, features: Features, steps: FloatArray, sums: FloatArray) -> None:
    """Add ``sum alpha dPsi`` over all cuts to ``sums``."""
    cuts = Cuts(*fields)
    for i in range(len(cuts.first_cut) - 1):
        for c in range(cuts.first_cut[i], cuts.first_cut[i + 1]):
            if cuts.multipliers[c] != 0.0:
                _add_cut(cuts, c, cuts.multipliers[c], steps)
        _add_steps(cuts, i, features, steps, sums)


@compiled
def fill_products(
    fields: CutFields,
    old: IntArray,
    old_first_cut: IntArray,
    old_first_product: IntArray,
    old_products: FloatArray,
    features: Features,
    one_cut: FloatArray,
    scores: FloatArray,
    steps: FloatArray,
    places: IntArray,
) -> None:
    """Fill in the products <dPsi, dPsi'> of the cuts, with the known ones by the indices ``old``.

    The index of a new cut in ``old`` is -1.
    """
    cuts = Cuts(*fields)
    for i in range(len(cuts.first_cut) - 1):
        first = cuts.first_cut[i]
        n = cuts.first_cut[i + 1] - first
        products = cuts.products[cuts.first_product[i] : cuts.first_product[i + 1]].reshape((n, n))
        n_old = old_first_cut[i + 1] - old_first_cut[i]
        old_block = old_products[old_first_product[i] : old_first_product[i + 1]].reshape(
            (n_old, n_old)
        )
        n_new = _NOTHING
        for c in range(n):
            if old[first + c] < 0:
                n_new += 1
                continue
            a = old[first + c] - old_first_cut[i]
            for d in range(n):
                if old[first + d] >= 0:
                    products[c, d] = old_block[a, old[first + d] - old_first_cut[i]]
        if n_new > 1 and _has_few_pairs(cuts, i, n_new):
            _products_by_scores(cuts, i, old, features[0], places, products)
        elif n_new:
            _products_by_weights(cuts, i, old, features, one_cut, scores, steps, products)


@compiled(inline="always")
def _has_few_pairs(cuts: Cuts, i: int, n_new: int) -> bool:
    """Whether products by pairs of scores cost less than adding up ``n_new`` cuts."""
    first, last = cuts.first_support[i], cuts.first_support[i + 1]
    weight, length = cuts.support_weight[first:last], cuts.support_length[first:last]
    left = _OVERHEAD * len(length)
    for s in range(len(length)):
        left += length[s]
        if cuts.support_is_sparse[first + s]:
            return False
    left *= 2 * n_new
    if len(length) * len(length) > 2 * left:
        return False
    for s in range(len(length)):
        if length[s]:
            for t in range(s + 1):
                if weight[s] == weight[t]:
                    left -= length[t] + _OVERHEAD
    return bool(left > 0)


@compiled
def _products_by_scores(
    cuts: Cuts, i: int, old: IntArray, values: AnyArray, places: IntArray, products: FloatArray
) -> None:
    """Compute the products of the new cuts of example i by the features of its scores."""
    first, last = cuts.first_support[i], cuts.first_support[i + 1]
    score, length = cuts.support_score[first:last], cuts.support_length[first:last]
    feature, weight = cuts.support_feature[first:last], cuts.support_weight[first:last]
    # A channel without features begins where the next one does: its scores are left out.
    n = 0
    order = np.empty(len(score), np.int64)
    for s in range(len(score)):
        if length[s]:
            places[score[s]] = n
            order[n] = s
            n += 1
    of_scores = np.empty((n, n))
    for a in range(n):
        s = order[a]
        for b in range(a + 1):
            t = order[b]
            of_scores[a, b] = of_scores[b, a] = 0.0
            if weight[s] == weight[t]:
                of_s, of_t = values[feature[s] :], values[feature[t] :]
                total = inner_product(length[s], of_s, of_t, ORDERED)
                of_scores[a, b] = total
                of_scores[b, a] = total
    one_cut = np.empty(n)
    at, entry = cuts.first_entry[cuts.first_cut[i] : cuts.first_cut[i + 1] + 1], cuts.entry_score
    for c in range(len(products)):
        if old[cuts.first_cut[i] + c] >= 0:
            continue
        for b in range(n):
            one_cut[b] = 0.0
        for e in range(at[c], at[c + 1]):
            a, value = places[entry[e]], cuts.entry_value[e]
            if a >= 0:
                for b in range(n):
                    one_cut[b] += value * of_scores[a, b]
        for d in range(len(products)):
            if d < c and old[cuts.first_cut[i] + d] < 0:
                continue
            total = 0.0
            for e in range(at[d], at[d + 1]):
                if places[entry[e]] >= 0:
                    total += cuts.entry_value[e] * one_cut[places[entry[e]]]
            products[c, d] = total
            products[d, c] = total
    for a in range(n):
        places[score[order[a]]] = -1


@compiled(inline="always")
def _products_by_weights(
    cuts: Cuts,
    i: int,
    old: IntArray,
    features: Features,
    one_cut: FloatArray,
    scores: FloatArray,
    steps: FloatArray,
    products: FloatArray,
) -> None:
    """Compute the products of the new cuts of example i by the weights of each of them."""
    first, indices = cuts.first_cut[i], features[1]
    for c in range(len(products)):
        if old[first + c] >= 0:
            continue
        _add_cut(cuts, first + c, 1.0, steps)
        _add_steps(cuts, i, features, steps, one_cut)
        _score_support(cuts, i, features, one_cut, scores, _NO_BOUNDS)
        for d in range(len(products)):
            products[c, d] = _cut_value(cuts, first + d, scores)
            products[d, c] = products[c, d]
        for s in range(cuts.first_support[i], cuts.first_support[i + 1]):
            w = cuts.support_weight[s]
            for f in range(cuts.support_length[s]):
                x = cuts.support_feature[s] + f
                one_cut[w + indices[x] if cuts.support_is_sparse[s] else w + f] = 0.0


@compiled
def _pairwise_steps(
    products: FloatArray, gradient: FloatArray, multipliers: FloatArray, budget: float
) -> int:
    """Solve one block on its cuts, with the truth as the last entry of gradient and multipliers.

    Each step moves multiplier to the cut of largest gradient, from the one where that gains most.
    """
    n = len(gradient) - 1
    first = -1.0
    for n_done in range(_MAX_BLOCK_STEPS):
        up = 0
        for c in range(1, n + 1):
            if gradient[c] > gradient[up]:
                up = c
        down, step, most, width = -1, 0.0, 0.0, 0.0
        for c in range(n + 1):
            slope = gradient[up] - gradient[c]
            if multipliers[c] > 0.0 and slope > 0.0:
                width = max(width, slope)
                curvature = 0.0 if c == n else products[c, c]
                if up < n:
                    curvature += products[up, up] - (0.0 if c == n else 2.0 * products[up, c])
                t = multipliers[c] if multipliers[c] * curvature <= slope else slope / curvature
                gain = t * (slope - 0.5 * t * curvature)
                if gain > most:
                    down, step, most = c, t, gain
        if first < 0.0:
            first = width
        if down < 0 or (n_done > 0 and width <= _BLOCK_ACCURACY * first):
            return n_done
        multipliers[up] += step
        multipliers[down] -= step
        if multipliers[down] < 1e-14 * budget:
            multipliers[down] = 0.0
        for c in range(n):
            if up < n:
                gradient[c] -= step * products[up, c]
            if down < n:
                gradient[c] += step * products[down, c]
    return _MAX_BLOCK_STEPS


@compiled
def sweep(
    order: IntArray,
    fields: CutFields,
    loss_scale: float,
    budgets: FloatArray,
    features: Features,
    sums: FloatArray,
    scores: FloatArray,
    steps: FloatArray,
    gaps: FloatArray,
    has_bounds: bool,
) -> tuple[float, int]:
    """Visit examples in ``order``, and return the sum of their gaps and the number of steps."""
    cuts = Cuts(*fields)
    total = 0.0
    n_steps = 0
    for i in order:
        first = cuts.first_cut[i]
        n = cuts.first_cut[i + 1] - first
        if n == 0:
            gaps[i] = 0.0
            continue
        _score_support(cuts, i, features, sums, scores, has_bounds)
        gradient, multipliers = np.empty(n + 1), np.empty(n + 1)
        gradient[n], multipliers[n], largest = 0.0, budgets[i], 0.0
        for c in range(n):
            gradient[c] = loss_scale * cuts.losses[first + c]
            gradient[c] -= _cut_value(cuts, first + c, scores)
            multipliers[c] = cuts.multipliers[first + c]
            multipliers[n] -= multipliers[c]
            largest = max(largest, gradient[c])
        multipliers[n] = max(multipliers[n], 0.0)
        gap = budgets[i] * largest
        for c in range(n):
            gap -= multipliers[c] * gradient[c]
        products = cuts.products[cuts.first_product[i] : cuts.first_product[i + 1]]
        n_of_block = _pairwise_steps(products.reshape((n, n)), gradient, multipliers, budgets[i])
        if n_of_block:
            for c in range(n):
                change = multipliers[c] - cuts.multipliers[first + c]
                if change != 0.0:
                    cuts.multipliers[first + c] = multipliers[c]
                    _add_cut(cuts, first + c, change, steps)
            _add_steps(cuts, i, features, steps, sums)
        gaps[i] = gap
        total += gap
        n_steps += n_of_block
    return total, n_steps


# A cut without weight for so many exact passes is dropped.
_MAX_IDLE = 20
# Passes over the cached cuts between two exact passes, and how often one of them visits every
# example.
_MAX_PASSES = 1000
_FULL_PASS_EVERY = 50
# Other passes skip examples whose own gap is below this fraction of the target of the mean gap.
_SHRINKING_SHARE = 0.2
# A cut is new when it is violated by more than the cached ones, beyond rounding.
_NEW_CUT = 1e-9
# Sweeps after which the weights are added up anew: till then rounding is far below what a gap of
# 0.1 % shows.
_ADD_UP_EVERY = 10
# What :meth:`Scores.place` gives, as fields of the cuts.
_OF_SUPPORT = Cuts._fields[-5:]


class BlockFrankWolfe:
    """Solver of the dual over the cached cuts, by passes between which cuts are added.

    Parameters
    ----------
    parts : Scores
    budgets : ndarray, shape (n_examples,)
        B_i: C times the weight of the example in the risk.
    random : numpy RandomState
    max_idle : int
        Exact passes without a multiplier after which a cut is dropped.
    """

    def __init__(
        self,
        parts: Scores,
        budgets: FloatArray,
        random: np.random.RandomState,
        max_idle: int = _MAX_IDLE,
    ) -> None:
        self._max_idle = max_idle
        self._parts = parts
        self._budgets = budgets
        self._random = random
        self._cuts = no_cuts(parts.n_examples)
        self._gaps = np.zeros(parts.n_examples)
        self._loss_scale = 1.0
        check_memory(
            16 * parts.n_weights,
            f"The {parts.n_weights} weights of a linear function",
            "give fewer features, or a task of fewer channels",
        )
        self._offset = np.zeros(parts.n_weights)
        self._sums = np.zeros(parts.n_weights)
        self._score_scratch = np.zeros(parts.n_scores)
        self._step_scratch = np.zeros(parts.n_scores)
        self._n_rounded = 0
        self._places = np.full(parts.n_scores, -1)
        self.weights = self._sums
        self._project()

    @property
    def n_cuts(self) -> int:
        """Number of cached cuts."""
        return len(self._cuts.losses)

    @property
    def dual_value(self) -> float:
        """Lower bound ``sum alpha Delta - 1/2 |W|^2`` of the optimum at :attr:`weights`."""
        return self.loss - 0.5 * float(self.weights @ self.weights)

    def cached_violations(self, scores: FloatArray) -> FloatArray:
        """Largest violation, at least 0, of a cached cut of each example at the flat ``scores``."""
        best = cached_violations(tuple(self._cuts), scores)
        return best

    def add(self, outputs: FoundOutputs, scores: FloatArray) -> int:
        """Cache the outputs that are violated by more than the cached ones, and drop idle cuts.

        Reads the flat ``scores`` at :attr:`touched` only.  Returns the number of new cuts.
        """
        old = self._cuts
        best = self.cached_violations(scores)
        rounding = _NEW_CUT * (outputs.losses.max(initial=0.0) + np.abs(outputs.violations))
        new = np.flatnonzero(outputs.violations > best + rounding)
        new = new[self._budgets[new] > 0]
        in_use = np.flatnonzero(old.idle < self._max_idle)
        n = self._parts.n_examples
        owner = np.concatenate((np.repeat(np.arange(n), np.diff(old.first_cut))[in_use], new))
        order = np.argsort(owner, kind="stable")

        def merged(of_old: AnyArray, of_new: AnyArray) -> AnyArray:
            return np.concatenate((of_old[in_use], of_new))[order]

        lengths = merged(np.diff(old.first_entry), np.diff(outputs.first_entry)[new])
        starts = merged(old.first_entry, outputs.first_entry[new] + len(old.entry_score))
        first_entry = starts_of(lengths)
        n_entries = int(first_entry[-1])
        entry_score, entry_value = np.empty(n_entries, np.int64), np.empty(n_entries)
        # Scores that the cuts of each example touch, each once: no two examples share one.
        touched = np.empty(n_entries, np.int64)
        n_touched = gather_entries(
            starts, first_entry,
            np.concatenate((old.entry_score, outputs.entry_score)),
            np.concatenate((old.entry_value, outputs.entry_value)),
            entry_score, entry_value, self._places, touched,
        )  # fmt: skip
        touched = touched[:n_touched]
        support = entry_score[touched]
        counts = np.bincount(owner, minlength=n)
        first_cut, first_product = starts_of(counts), starts_of(counts**2)
        self._cuts = Cuts(
            first_cut,
            merged(old.losses, outputs.losses[new]),
            merged(old.multipliers, np.zeros(len(new))),
            merged(old.idle, np.zeros(len(new), np.int64)),
            first_entry,
            entry_score,
            entry_value,
            first_product,
            np.zeros(first_product[-1]),
            np.searchsorted(touched, first_entry[first_cut]),
            support,
            *self._parts.place(support),
        )
        old_indices = merged(np.arange(len(old.losses)), np.full(len(new), -1))
        self._fill_products(old_indices, old)
        return len(new)

    def recenter(self, offset: FloatArray, loss_scale: float) -> None:
        """Replace the regulariser by ``1/2 |W - offset|^2``, and multiply the losses.

        With bounded weights this is a proximal step of a program without squares
        (:mod:`structboost.objectives.m_slack`).
        """
        self._sums += offset - self._offset
        self._offset, self._loss_scale = offset, loss_scale
        self._project()

    def change_features(self, parts: Scores) -> None:
        """Exchange the features of the scores, with the same cuts and multipliers and offset 0."""
        products, places = np.zeros_like(self._cuts.products), parts.place(self.touched)
        fields: dict[str, Any] = dict(zip(_OF_SUPPORT, places, strict=True))
        self._parts, self._cuts = parts, self._cuts._replace(products=products, **fields)
        self._fill_products(np.full(self.n_cuts, -1), self._cuts)
        self._offset, self._sums = np.zeros(parts.n_weights), np.zeros(parts.n_weights)
        self._add_up()

    def scale_budgets(self, factor: float) -> None:
        """Multiply all budgets, and the multipliers with them."""
        self._budgets = self._budgets * factor
        self._cuts.multipliers[:] *= factor
        self._add_up()

    @property
    def touched(self) -> IntArray:
        """Indices of the flat scores that cached cuts touch."""
        return self._cuts.support_score

    @property
    def loss(self) -> float:
        """Weighted loss ``sum alpha Delta``."""
        return float(self._cuts.multipliers @ self._cuts.losses)

    @property
    def sums(self) -> FloatArray:
        """Weighted sum ``sum alpha dPsi``, shape (n_weights,)."""
        return self._sums - self._offset

    def measure(self) -> FloatArray:
        """Sum of multiplier times difference of joint features, in the shape of flat scores."""
        out = np.zeros(self._parts.n_scores)
        add_cuts(tuple(self._cuts), out)
        return out

    def sweep(self, n_passes: int) -> None:
        """Make passes over the cached cuts of all examples."""
        self.visit(np.arange(self._parts.n_examples))
        for _ in range(n_passes - 1):
            least_gap = _SHRINKING_SHARE * self._gaps.mean()
            self.visit(np.flatnonzero(self._gaps > least_gap))
        self._age()
        self._n_rounded += 1
        if self._n_rounded == _ADD_UP_EVERY:
            self._add_up()

    def visit(self, examples: IntArray) -> tuple[float, int]:
        """Step on the cuts of examples in random order, and return their gaps and a count."""
        gap, n_steps = sweep(
            self._random.permutation(examples), tuple(self._cuts), self._loss_scale, self._budgets,
            self._parts.features, self._sums, self._score_scratch, self._step_scratch, self._gaps,
            self._parts.has_bounds,
        )  # fmt: skip
        self._project()
        return gap, n_steps

    def improve(self, target: float) -> FloatArray:
        """Pass over the cached cuts until the gap restricted to them is about ``target``.

        Returns
        -------
        mean : ndarray, shape (n_weights,)
            Mean of the weights after each pass, pass t with weight t (Lacoste-Julien et al., 3.2).
        """
        n = self._parts.n_examples
        mean, full = np.zeros_like(self.weights), True
        least_gap = _SHRINKING_SHARE * target / n
        for index in range(1, _MAX_PASSES + 1):
            visited = np.arange(n) if full else np.flatnonzero(self._gaps > least_gap)
            gap, n_steps = self.visit(visited)
            mean += 2.0 / (index + 1) * (self.weights - mean)
            if full and (gap <= target or n_steps == 0):
                break
            full = index % _FULL_PASS_EVERY == 0 or self._gaps.sum() <= target
        self._age()
        # A visit adds to the weights by small steps; the bound wants them exact.
        self._add_up()
        return mean

    def _fill_products(self, old_indices: IntArray, old: Cuts) -> None:
        """Fill in the products of the cuts, with known ones by their ``numbers`` among ``old``.

        The number of a new cut is -1.
        """
        fill_products(
            tuple(self._cuts), old_indices, old.first_cut, old.first_product, old.products,
            self._parts.features,
            np.zeros(self._parts.n_weights), self._score_scratch, self._step_scratch,
            self._places,
        )  # fmt: skip

    def _age(self) -> None:
        self._cuts.idle[:] = np.where(self._cuts.multipliers > 0, 0, self._cuts.idle + 1)

    def _add_up(self) -> None:
        """Recompute the weights from the multipliers, so that passes carry no rounding on."""
        self._n_rounded = 0
        self._sums[:] = self._offset
        add_up(tuple(self._cuts), self._parts.features, self._step_scratch, self._sums)
        self._project()

    def _project(self) -> None:
        """Project the block of nu.

        With no bounded weights W is A, and both share one array.
        """
        if self._parts.has_bounds:
            self.weights = self._parts.project(self._sums)
