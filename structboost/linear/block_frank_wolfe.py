"""Block-coordinate Frank-Wolfe on cached cuts: the dual of the linear structured SVM.

The primal, over weights W of which some are bounded, ``W >= 0``
(:mod:`structboost.linear.linear_scores`), is ::

    min  1/2 |W|^2 + sum_i B_i max_y [Delta(y_i, y) - <W, dPsi_i(y)>]
         dPsi_i(y) = Psi(x_i, y_i) - Psi(x_i, y)

Its dual has a multiplier alpha_i(y) >= 0 for every output, those of example i summing to B_i, and,
beyond Lacoste-Julien et al. (ICML 2013), (4), a multiplier nu >= 0 for every bounded weight::

    max  sum alpha Delta - 1/2 |A + nu|^2,   A = sum alpha dPsi

Example i is a block, and so is nu.  The best nu for given alpha makes ``A + nu = max(A, 0)`` on
bounded weights, so ``W = max(A, 0)`` there, ``W = A`` elsewhere, and ``sum alpha Delta - 1/2
|W|^2`` is the dual value of any alpha.

A Frank-Wolfe step moves a block towards one output.  Here the outputs found so far are kept as
cuts, and a block makes pairwise steps, from a cut with weight to the most violated one, with exact
line search on the products <dPsi_i(y), dPsi_i(y')> of its cuts, nu held.  So most steps need no
argmax, and none needs more than the features of one example.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.exceptions import TaskError
from structboost.linear.linear_scores import FoundOutputs, Scores, starts_of
from structboost.runtime.compiled import compiled

# Lets dot products use vector registers; the order of additions is fixed when the code is compiled.
_FASTMATH = {"reassoc", "contract", "nsz"}
# A cut without weight for so many exact passes is dropped.
_MAX_IDLE = 20
# Passes over the cached cuts between two exact passes, and how often one of them visits every
# example.
_MAX_PASSES = 1000
_FULL_PASS_EVERY = 50
# Other passes skip examples whose own gap is below this share of the mean gap aimed at.
_SHRINKING_SHARE = 0.2
# A block is solved to this share of its violation, in at most so many steps.
_BLOCK_ACCURACY = 0.1
_MAX_BLOCK_STEPS = 50
# A cut is new when it is violated by more than the cached ones, beyond rounding.
_NEW_CUT = 1e-9
# An exact argmax may fall behind an earlier output by rounding, not by more.
_ARGMAX_SLIP = 1e-6


class _Cuts(NamedTuple):
    """Cached cuts, those of example 0 first, in flat arrays that compiled code reads.

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
    support_bounded: NDArray[np.bool_]
    support_active: NDArray[np.bool_]


# The same, as compiled code is given them from Python: see :mod:`structboost.runtime.compiled`.
_CutFields = tuple[Any, ...]

# Values of features, and numbers of active features: see LinearScores.features.
_Features = tuple[NDArray[Any], IntArray]


class BlockFrankWolfe:
    """The dual over the cuts found so far: add cuts, make passes over them.

    Parameters
    ----------
    parts : Scores
    budgets : ndarray, shape (n_examples,)
        B_i: C times the share of the example in the risk.
    exact : bool
        Whether the argmax claims to be exact.
    random : numpy RandomState
    max_idle : int
        Exact passes without a multiplier after which a cut goes.
    """

    def __init__(
        self,
        parts: Scores,
        budgets: FloatArray,
        exact: bool,
        random: np.random.RandomState,
        max_idle: int = _MAX_IDLE,
    ) -> None:
        self._max_idle = max_idle
        self._parts = parts
        self._budgets = budgets
        self._exact = exact
        self._random = random
        self._cuts = _no_cuts(parts.n_examples)
        self._gaps = np.zeros(parts.n_examples)
        self._loss_scale = 1.0
        self._offset = np.zeros(parts.n_weights)
        self._sums = np.zeros(parts.n_weights)
        self._score_scratch = np.zeros(parts.n_scores)
        self._step_scratch = np.zeros(parts.n_scores)
        self._first_entry = np.zeros(parts.n_scores, np.int64)
        self.weights = self._sums
        self._project()

    @property
    def n_cuts(self) -> int:
        """Number of cached cuts."""
        return len(self._cuts.losses)

    @property
    def dual_value(self) -> float:
        """``sum alpha Delta - 1/2 |W|^2`` at :attr:`weights`: a lower bound on the optimum."""
        return float(
            self._cuts.multipliers @ self._cuts.losses - 0.5 * (self.weights @ self.weights)
        )

    def hinges(self, found: FoundOutputs, scores: FloatArray) -> FloatArray:
        """Hinge losses at the flat ``scores``; TaskError if an exact argmax was not exact."""
        cached = _cached_violations(tuple(self._cuts), scores)
        hinges: FloatArray = np.maximum(found.violations, 0.0)
        slip = np.flatnonzero(
            cached > hinges + _ARGMAX_SLIP * (1.0 + np.abs(hinges) + found.losses)
        )
        if self._exact and len(slip):
            i = slip[0]
            raise TaskError(
                f"The loss-augmented argmax of X[{i}] is not exact: it found an output of value "
                f"{hinges[i]:.6g}, "
                f"an earlier output has {cached[i]:.6g}. Correct it, or set exact_argmax = False."
            )
        return np.maximum(hinges, cached)

    def add(self, found: FoundOutputs, scores: FloatArray) -> None:
        """Cache the outputs that are violated by more than the cached ones; drop idle cuts."""
        old = self._cuts
        best = _cached_violations(tuple(old), scores)
        new = np.flatnonzero(found.violations > best + _NEW_CUT * (1.0 + np.abs(found.violations)))
        new = new[self._budgets[new] > 0]
        kept = np.flatnonzero(old.idle < self._max_idle)
        n = self._parts.n_examples
        owner = np.concatenate((np.repeat(np.arange(n), np.diff(old.first_cut))[kept], new))
        order = np.argsort(owner, kind="stable")

        def merged(of_old: NDArray[Any], of_new: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate((of_old[kept], of_new))[order]

        lengths = merged(np.diff(old.first_entry), np.diff(found.first_entry)[new])
        starts = merged(old.first_entry, found.first_entry[new] + len(old.entry_score))
        first_entry = starts_of(lengths)
        entries = np.repeat(starts - first_entry[:-1], lengths) + np.arange(first_entry[-1])
        entry_score = np.concatenate((old.entry_score, found.entry_score))[entries]
        counts = np.bincount(owner, minlength=n)
        first_cut, first_product = starts_of(counts), starts_of(counts**2)
        # Scores that the cuts of each example touch, each once: no two examples share one.
        at = np.arange(len(entry_score))
        first = self._first_entry
        first[entry_score[::-1]] = at[::-1]
        touched = np.flatnonzero(first[entry_score] == at)
        support = entry_score[touched]
        self._cuts = _Cuts(
            first_cut,
            merged(old.losses, found.losses[new]),
            merged(old.multipliers, np.zeros(len(new))),
            merged(old.idle, np.zeros(len(new), np.int64)),
            first_entry,
            entry_score,
            np.concatenate((old.entry_value, found.entry_value))[entries],
            first_product,
            np.zeros(first_product[-1]),
            np.searchsorted(touched, first_entry[first_cut]),
            support,
            *self._parts.place(support),
        )
        numbers = merged(np.arange(len(old.losses)), np.full(len(new), -1))
        self._fill_products(numbers, old)
        self._add_up()

    def recenter(self, offset: FloatArray, loss_scale: float) -> None:
        """Ask for ``1/2 |W - offset|^2`` from now on, and multiply the losses.

        With bounded weights this is a proximal step of a program without squares
        (:mod:`structboost.masters.m_slack`).
        """
        self._sums += offset - self._offset
        self._offset, self._loss_scale = offset, loss_scale
        self._project()

    def change_features(self, parts: Scores, added: Scores | None = None) -> None:
        """Go to other features of the same scores; cuts and multipliers stay, the offset is 0.

        Where features were only added, ``added`` has these alone: products are sums over features.
        """
        old = self._cuts
        products = np.zeros_like(old.products) if added is None else old.products
        self._place(parts if added is None else added, np.zeros_like(old.products))
        self._fill_products(np.full(self.n_cuts, -1), self._cuts)
        products = products + self._cuts.products
        self._place(parts, products)
        self._offset, self._sums = np.zeros(parts.n_weights), np.zeros(parts.n_weights)
        self._add_up()

    def scale_budgets(self, factor: float) -> None:
        """Multiply all budgets, and the multipliers with them."""
        self._budgets = self._budgets * factor
        self._cuts.multipliers[:] *= factor
        self._add_up()

    @property
    def loss(self) -> float:
        """``sum alpha Delta``."""
        return float(self._cuts.multipliers @ self._cuts.losses)

    @property
    def sums(self) -> FloatArray:
        """``sum alpha dPsi``, shape (n_weights,)."""
        return self._sums - self._offset

    def measure(self) -> FloatArray:
        """Sum of multiplier times difference of joint features, of the shape of flat scores."""
        out = np.zeros(self._parts.n_scores)
        _add_cuts(tuple(self._cuts), out)
        return out

    def sweep(self, n_passes: int) -> None:
        """Passes over the cached cuts of all examples."""
        everyone = np.arange(self._parts.n_examples)
        self.visit(everyone)
        for _ in range(n_passes - 1):
            share = _SHRINKING_SHARE * float(self._gaps.mean())
            self.visit(np.flatnonzero(self._gaps > share))
        self._cuts.idle[:] = np.where(self._cuts.multipliers > 0, 0, self._cuts.idle + 1)
        self._add_up()

    def visit(self, examples: IntArray) -> tuple[float, int]:
        """Steps on the cuts of examples, in random order; their gaps before, number of steps."""
        return _sweep(
            self._random.permutation(examples), tuple(self._cuts), self._loss_scale, self._budgets,
            self._parts.features, self._sums, self.weights, self._score_scratch,
            self._step_scratch, self._gaps, self._parts.has_bounds,
        )  # fmt: skip

    def improve(self, target: float) -> FloatArray:
        """Pass over the cached cuts until the gap restricted to them is about ``target``.

        Returns
        -------
        mean : ndarray, shape (n_weights,)
            Mean of the weights after each pass, pass t with weight t (Lacoste-Julien et al., 3.2).
        """
        n = self._parts.n_examples
        mean = np.zeros_like(self.weights)
        share = _SHRINKING_SHARE * target / n
        full = True
        for number in range(1, _MAX_PASSES + 1):
            visited = np.arange(n) if full else np.flatnonzero(self._gaps > share)
            gap, n_steps = self.visit(visited)
            mean += 2.0 / (number + 1) * (self.weights - mean)
            if full and (gap <= target or n_steps == 0):
                break
            full = number % _FULL_PASS_EVERY == 0 or float(self._gaps.sum()) <= target
        self._cuts.idle[:] = np.where(self._cuts.multipliers > 0, 0, self._cuts.idle + 1)
        # A visit adds to the weights by small steps; the bound wants them exact.
        self._add_up()
        return mean

    def _place(self, parts: Scores, products: FloatArray) -> None:
        """Take the features of the cuts from ``parts``, and these products."""
        feature, weight, length, bounded, active = parts.place(self._cuts.support_score)
        self._cuts = self._cuts._replace(
            products=products,
            support_feature=feature,
            support_weight=weight,
            support_length=length,
            support_bounded=bounded,
            support_active=active,
        )
        self._parts = parts

    def _fill_products(self, numbers: IntArray, old: _Cuts) -> None:
        """Products of the cuts; ``numbers``: those that they had among the ``old`` ones, or -1."""
        _fill_products(
            tuple(self._cuts), numbers, old.first_cut, old.first_product, old.products,
            self._parts.features,
            np.zeros(self._parts.n_weights), self._score_scratch, self._step_scratch,
        )  # fmt: skip

    def _add_up(self) -> None:
        """The weights from the multipliers: no rounding is carried from pass to pass."""
        self._sums[:] = self._offset
        _add_up(tuple(self._cuts), self._parts.features, self._step_scratch, self._sums)
        self._project()

    def _project(self) -> None:
        """The block of nu.  With no bounded weights W is A, the same array."""
        if self._parts.has_bounds:
            self.weights = self._parts.project(self._sums)


def _no_cuts(n_examples: int) -> _Cuts:
    none, no_numbers, zeros = np.zeros(0), np.zeros(0, np.int64), np.zeros(n_examples + 1, np.int64)
    return _Cuts(
        zeros, none, none, no_numbers, np.zeros(1, np.int64), no_numbers, none, zeros, none,
        zeros, no_numbers, no_numbers, no_numbers, no_numbers, np.zeros(0, np.bool_),
        np.zeros(0, np.bool_),
    )  # fmt: skip


@compiled
def _cut_value(cuts: _Cuts, cut: int, scores: FloatArray) -> float:
    """``<dM, scores>`` of a cut."""
    total = 0.0
    for e in range(cuts.first_entry[cut], cuts.first_entry[cut + 1]):
        total += cuts.entry_value[e] * scores[cuts.entry_score[e]]
    return total


@compiled
def _cached_violations(fields: _CutFields, scores: FloatArray) -> FloatArray:
    """Largest violation of a cached cut of each example; at least 0, that of the truth."""
    cuts = _Cuts(*fields)
    best = np.zeros(len(cuts.first_cut) - 1)
    for i in range(len(best)):
        for c in range(cuts.first_cut[i], cuts.first_cut[i + 1]):
            best[i] = max(best[i], cuts.losses[c] - _cut_value(cuts, c, scores))
    return best


@compiled(fastmath=_FASTMATH)
def _score_support(
    cuts: _Cuts, i: int, features: _Features, weights: FloatArray, scores: FloatArray
) -> None:
    """Scores of example i that its cuts touch."""
    values, numbers = features
    for s in range(cuts.first_support[i], cuts.first_support[i + 1]):
        x = cuts.support_feature[s]
        w = cuts.support_weight[s]
        total = 0.0
        if cuts.support_active[s]:
            for f in range(x, x + cuts.support_length[s]):
                total += weights[w + numbers[f]]
        else:
            for f in range(cuts.support_length[s]):
                total += values[x + f] * weights[w + f]
        scores[cuts.support_score[s]] = total


@compiled
def _add_cut(cuts: _Cuts, cut: int, weight: float, steps: FloatArray) -> None:
    """Add ``weight`` times the joint-feature difference of a cut to ``steps``, one per score."""
    for e in range(cuts.first_entry[cut], cuts.first_entry[cut + 1]):
        steps[cuts.entry_score[e]] += weight * cuts.entry_value[e]


@compiled
def _add_cuts(fields: _CutFields, steps: FloatArray) -> None:
    """Add all cuts, each times its multiplier."""
    cuts = _Cuts(*fields)
    for c in range(len(cuts.multipliers)):
        _add_cut(cuts, c, cuts.multipliers[c], steps)


@compiled
def _add_steps(
    cuts: _Cuts, i: int, features: _Features, steps: FloatArray, sums: FloatArray
) -> None:
    """Add ``steps`` times features to ``sums`` for example i, and reset ``steps`` to zero."""
    values, numbers = features
    for s in range(cuts.first_support[i], cuts.first_support[i + 1]):
        step = steps[cuts.support_score[s]]
        if step != 0.0:
            steps[cuts.support_score[s]] = 0.0
            x = cuts.support_feature[s]
            w = cuts.support_weight[s]
            if cuts.support_active[s]:
                for f in range(x, x + cuts.support_length[s]):
                    sums[w + numbers[f]] += step
            else:
                for f in range(cuts.support_length[s]):
                    sums[w + f] += step * values[x + f]


@compiled
def _project_support(
    cuts: _Cuts,
    i: int,
    features: _Features,
    changed: NDArray[np.bool_],
    sums: FloatArray,
    weights: FloatArray,
) -> None:
    """The block of nu where example i changed sums: ``W = max(A, 0)`` if bounded, else ``A``."""
    numbers = features[1]
    first = cuts.first_support[i]
    for s in range(first, cuts.first_support[i + 1]):
        if not changed[s - first]:
            continue
        bounded = cuts.support_bounded[s]
        w = cuts.support_weight[s]
        for f in range(cuts.support_length[s]):
            at = w + numbers[cuts.support_feature[s] + f] if cuts.support_active[s] else w + f
            weights[at] = 0.0 if bounded and sums[at] < 0.0 else sums[at]


@compiled
def _add_up(fields: _CutFields, features: _Features, steps: FloatArray, sums: FloatArray) -> None:
    """Add ``sum alpha dPsi`` over all cuts to ``sums``."""
    cuts = _Cuts(*fields)
    for i in range(len(cuts.first_cut) - 1):
        for c in range(cuts.first_cut[i], cuts.first_cut[i + 1]):
            if cuts.multipliers[c] != 0.0:
                _add_cut(cuts, c, cuts.multipliers[c], steps)
        _add_steps(cuts, i, features, steps, sums)


@compiled
def _fill_products(
    fields: _CutFields,
    old: IntArray,
    old_first_cut: IntArray,
    old_first_product: IntArray,
    old_products: FloatArray,
    features: _Features,
    one_cut: FloatArray,
    scores: FloatArray,
    steps: FloatArray,
) -> None:
    """Products <dPsi, dPsi'> of the cuts; ``old``: their old numbers, -1 for new cuts."""
    cuts = _Cuts(*fields)
    numbers = features[1]
    for i in range(len(cuts.first_cut) - 1):
        first = cuts.first_cut[i]
        n = cuts.first_cut[i + 1] - first
        products = cuts.products[cuts.first_product[i] : cuts.first_product[i + 1]].reshape((n, n))
        n_old = old_first_cut[i + 1] - old_first_cut[i]
        known = old_products[old_first_product[i] : old_first_product[i + 1]].reshape(
            (n_old, n_old)
        )
        for c in range(n):
            a = old[first + c] - old_first_cut[i]
            if old[first + c] >= 0:
                for d in range(n):
                    if old[first + d] >= 0:
                        products[c, d] = known[a, old[first + d] - old_first_cut[i]]
                continue
            _add_cut(cuts, first + c, 1.0, steps)
            _add_steps(cuts, i, features, steps, one_cut)
            _score_support(cuts, i, features, one_cut, scores)
            for d in range(n):
                products[c, d] = _cut_value(cuts, first + d, scores)
                products[d, c] = products[c, d]
            for s in range(cuts.first_support[i], cuts.first_support[i + 1]):
                w = cuts.support_weight[s]
                for f in range(cuts.support_length[s]):
                    x = cuts.support_feature[s] + f
                    one_cut[w + numbers[x] if cuts.support_active[s] else w + f] = 0.0


@compiled
def _pairwise_steps(
    products: FloatArray, gradient: FloatArray, multipliers: FloatArray, budget: float
) -> int:
    """Solve one block on its cuts; the last entry of gradient and multipliers is the truth.

    Each step moves multiplier to the cut of largest gradient, from the one where that gains most.
    """
    n = len(gradient) - 1
    first = -1.0
    for number in range(_MAX_BLOCK_STEPS):
        up = np.argmax(gradient)
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
        if down < 0 or (number > 0 and width <= _BLOCK_ACCURACY * first):
            return number
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
def _visit(
    i: int,
    cuts: _Cuts,
    loss_scale: float,
    budget: float,
    features: _Features,
    sums: FloatArray,
    weights: FloatArray,
    scores: FloatArray,
    steps: FloatArray,
    has_bounds: bool,
) -> tuple[float, int]:
    """Steps on the block of example i; returns its gap before them, and their number."""
    first = cuts.first_cut[i]
    n = cuts.first_cut[i + 1] - first
    _score_support(cuts, i, features, weights, scores)
    gradient = np.zeros(n + 1)
    multipliers = np.empty(n + 1)
    multipliers[n] = budget
    for c in range(n):
        gradient[c] = loss_scale * cuts.losses[first + c]
        gradient[c] -= _cut_value(cuts, first + c, scores)
        multipliers[c] = cuts.multipliers[first + c]
        multipliers[n] -= multipliers[c]
    multipliers[n] = max(multipliers[n], 0.0)
    gap = budget * gradient.max()
    for c in range(n):
        gap -= multipliers[c] * gradient[c]
    products = cuts.products[cuts.first_product[i] : cuts.first_product[i + 1]].reshape((n, n))
    n_steps = _pairwise_steps(products, gradient, multipliers, budget)
    if n_steps:
        for c in range(n):
            change = multipliers[c] - cuts.multipliers[first + c]
            if change != 0.0:
                cuts.multipliers[first + c] = multipliers[c]
                _add_cut(cuts, first + c, change, steps)
        at = cuts.first_support[i]
        changed = np.empty(cuts.first_support[i + 1] - at, np.bool_)
        for s in range(len(changed)):
            changed[s] = steps[cuts.support_score[at + s]] != 0.0
        _add_steps(cuts, i, features, steps, sums)
        if has_bounds:
            _project_support(cuts, i, features, changed, sums, weights)
    return gap, n_steps


@compiled
def _sweep(
    order: IntArray,
    fields: _CutFields,
    loss_scale: float,
    budgets: FloatArray,
    features: _Features,
    sums: FloatArray,
    weights: FloatArray,
    scores: FloatArray,
    steps: FloatArray,
    gaps: FloatArray,
    has_bounds: bool,
) -> tuple[float, int]:
    """Visit examples in ``order``; returns the sum of their gaps and the number of steps."""
    cuts = _Cuts(*fields)
    total = 0.0
    n_steps = 0
    for i in order:
        if cuts.first_cut[i] == cuts.first_cut[i + 1]:
            gaps[i] = 0.0
            continue
        gaps[i], made = _visit(
            i, cuts, loss_scale, budgets[i], features, sums, weights, scores, steps, has_bounds
        )
        total += gaps[i]
        n_steps += made
    return total, n_steps
