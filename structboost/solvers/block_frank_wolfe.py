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

from typing import Any

import numpy as np

from structboost._typing import AnyArray, FloatArray, IntArray
from structboost.runtime.memory import check_memory
from structboost.solvers.cut_cache import (
    Cuts,
    add_cuts,
    add_up,
    cached_violations,
    fill_products,
    gather_entries,
    no_cuts,
    sweep,
)
from structboost.solvers.linear_scores import FoundOutputs, Scores, starts_of

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
        best: FloatArray = cached_violations(tuple(self._cuts), scores)
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
