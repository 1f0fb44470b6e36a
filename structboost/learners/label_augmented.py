"""Stumps on label-augmented data, with one weight each (StructBoost, end of section 3.4).

The paper augments an input with a label by ``x'_y = x (x) Gamma(y)``: a block of features for each
node of the taxonomy, which holds x where y is below the node and zeros elsewhere.  Weak learners
are trained on these vectors, and the score of y is ``sum_j w_j h_j(x'_y)`` with ``w >= 0``.  A
stump on feature j of the block of node n is

    h(x'_y) = phi(x)   where y is below n, phi(0) elsewhere      (phi: the same stump on x_j)
            = phi(0) + Gamma_n(y) (phi(x) - phi(0)).

The first term is the same for all outputs and cancels in ``h(x'_{y_i}) - h(x'_y)``.  The second is
a column of two terms on channel n of the joint feature ``Phi(x) (x) Gamma(y)``: phi times 1, the
constant times -phi(0).  So the augmented vectors are never made, and the task is that of the other
form.

``phi(x) - phi(0)`` is 0 where x_j is on the side of the threshold where 0 is, and ``+-(high -
low)`` on the far side. The edge of such a column is therefore ``(high - low) |sum of the duals of
channel n over the far side|``, with the orientation that makes it positive: a histogram and prefix
sums give the largest over all thresholds exactly.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from structboost._typing import FloatArray, IntArray, override
from structboost.learners.base import Column, WeakLearnerFamily
from structboost.learners.pricing import PricedColumns, PricingRule
from structboost.learners.stump import Stump, StumpFamily
from structboost.learners.terms import Term

# Edges nearer than this, relatively, count as equal.
_TIE = 1e-6


class LabelAugmented(PricingRule):
    """Rule of stumps on ``(1, x) (x) Gamma(y)``, each on one node (StructBoost, section 3.4).

    The family holds all stumps on the augmented vectors at the thresholds of
    :class:`structboost.learners.stump.StumpFamily`, in both orientations.  It also holds the
    constant, a stump on the feature 1, that is on ``Gamma(y)`` itself; a threshold between 0 and
    all values of a feature gives the same.  Where 0 lies strictly between two neighbouring training
    values, a threshold could be on either side of it; the family has one, in their middle.  The
    largest edge is exact over this family, so the bound covers all of it.

    Unlike stumps with responses -1 and 1 on each node, these depend on a shift of the features: a
    column is zero on the side of its threshold where 0 is.

    The rule is for tasks with label codes of 0 and 1, :class:`structboost.TaxonomyTask` and
    :class:`structboost.MulticlassTask`, in the hinge formulations.  The exponential formulation
    refuses columns of several terms.
    """

    @override
    def columns(
        self, family: WeakLearnerFamily, duals: FloatArray, per_channel: int, min_edge: float
    ) -> PricedColumns:
        """Make the best columns of each node, each on another feature.

        Raises
        ------
        TypeError
            If the weak learners are not stumps: others see several entries of an augmented vector
            at once.
        """
        if not isinstance(family, StumpFamily):
            raise TypeError(
                "Label-augmented pricing needs weak_learner='stump'; "
                f"the weak learner is {family.name!r}."
            )
        if family.bins.is_low.any():
            raise TypeError(
                "X has NaN features, which pricing='label_augmented' cannot take; impute or drop "
                "them, or take pricing='own'."
            )
        sums, bins = _best_far_sides(family, duals)
        step = family.high - family.low
        columns = []
        for node, total in enumerate(duals.sum(axis=0)):
            edge = step * abs(float(total))
            constant = Column((_constant(family, node, step if total > 0 else -step),), edge)
            order = np.argsort(-np.abs(sums[:, node]), kind="stable")[:per_channel]
            splits = [
                _split_column(family, node, f, int(bins[f, node]), float(sums[f, node]))
                for f in order.tolist()
                if bins[f, node] >= 0
            ]
            best_split = splits[0].edge if splits else 0.0
            if constant.edge >= (1 - _TIE) * best_split:
                # The constant enters alone.  Its edge stands for all, so that the bound covers the
                # whole family.
                columns.append(constant._replace(edge=max(constant.edge, best_split)))
            else:
                columns += [*splits, constant]
        columns.sort(key=lambda column: -column.edge)
        return [column for column in columns if column.edge > min_edge], columns[0].edge


def _split_column(
    family: StumpFamily, node: int, feature: int, bin_: int, far_sum: float
) -> Column:
    """Column ``phi - phi(0)`` on ``node``, oriented so that the edge is positive."""
    threshold = float(family.bins.values[family.bins.indptr[feature] + bin_])
    far, near = (family.high, family.low) if far_sum > 0 else (family.low, family.high)
    left, right = (near, far) if threshold >= 0 else (far, near)
    stump = Term(Stump(feature, threshold, left, right, bin_), node, 1.0)
    at_zero = _constant(family, node, -near)
    return Column(
        (stump, at_zero) if at_zero.coefficient else (stump,),
        (family.high - family.low) * abs(far_sum),
    )


def _constant(family: StumpFamily, node: int, value: float) -> Term:
    """Return a term that is ``value`` on ``node``, made of the constant stump that is not 0."""
    low, high = family.low, family.high
    left, right = (low, high) if high else (high, low)
    return Term(Stump(0, -np.inf, left, right, -1), node, value / right)


def _best_far_sides(family: StumpFamily, duals: FloatArray) -> tuple[FloatArray, IntArray]:
    """Find splits whose side away from 0 has the largest absolute sum of duals.

    Returns signed sums, and the bins after which to split, shape (n_features, n_channels), or 0 and
    -1 if all sums are 0.
    """
    bins = family.bins
    sums = np.zeros((bins.n_columns, duals.shape[1]))
    splits = np.full(sums.shape, -1)
    of_bins = np.split(family.sums(duals, 0, bins.n_columns)[:-1], np.cumsum(bins.n_bins)[:-1])
    for f, (first, last) in enumerate(pairwise(bins.indptr.tolist())):
        if first < last:
            # The thresholds below 0 from the first, then the others from the last.
            n, n_negative = last - first, int(np.searchsorted(bins.values[first:last], 0.0))
            left, right = np.cumsum(of_bins[f], axis=0), np.cumsum(of_bins[f][::-1], axis=0)
            far = np.concatenate((left[:n_negative], right[: n - n_negative]))
            best = np.abs(far).argmax(axis=0)
            sums[f] = np.take_along_axis(far, best[None], axis=0)[0]
            split = np.where(best < n_negative, best, n - 1 - (best - n_negative))
            splits[f] = np.where(sums[f] != 0, split, -1)
    return sums, splits
