"""Contributions of the features to the scores of additive models and of trees."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import comb

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray
from structboost.learners.table import LookupTable, Scorer, SumOfScorers
from structboost.learners.tree_table import PairTables, WeightedTrees
from structboost.runtime.compiled import compiled


class Contributions(NamedTuple):
    """Contribution of each feature to each score, where ``base + values.sum(axis=1)`` is the score.

    Parameters
    ----------
    values : ndarray, shape (n_samples, n_features, n_scores) or (n_samples, n_features)
        No last dimension if there is one score for each sample.
    base : ndarray, shape (n_scores,), or float
        Score that every sample gets.
    """

    values: FloatArray
    base: Any

    def __repr__(self) -> str:
        base = np.array2string(np.asarray(self.base), precision=4, threshold=6, separator=", ")
        return f"Contributions(values of shape {np.shape(self.values)}, base={base})"

    def centred(self, background: Contributions) -> Contributions:
        """Subtract from each feature's values their mean over other rows, and add it to the base.

        Parameters
        ----------
        background : Contributions
            Contributions of these rows, by the same model.

        Returns
        -------
        contributions : Contributions
            ``base`` is the mean score of the background.
        """
        means = background.values.mean(axis=0)
        return Contributions(self.values - means, self.base + means.sum(axis=0))


def contributions_of(scorer: Scorer, rows: Any, background: Any = None) -> Contributions:
    """Contributions to the scores of rows that were checked.

    With a background these are interventional Shapley values (Lundberg and Lee, NIPS 2017): each
    feature gets the mean of what it changes, over all orders of the features and all rows of the
    background, and has the mean 0 over the background.  Otherwise a function of two features is
    divided into halves.  TypeError if the scores are no sum of functions of one or two features, or
    of trees with a background.
    """
    rows, background = (of.toarray() if issparse(of) else of for of in (rows, background))
    if isinstance(scorer, SumOfScorers):
        terms = [contributions_of(term, rows, background) for term in scorer.terms]
        values = np.sum([term.values for term in terms], axis=0)
        return Contributions(values, np.sum([term.base for term in terms], axis=0))
    if isinstance(scorer, WeightedTrees):
        if background is not None:
            return _tree_contributions(scorer, rows, background)
        tables = PairTables.of(scorer, rows.shape[1])
        if tables is None:
            raise TypeError(
                "Contributions to scores of trees with more than two levels need other rows to "
                "compare with. Give background=X_train, for example."
            )
        values, base = contributions_of(tables.steps, rows)
        bins = tables.bins(rows)
        for (a, b), table in tables.pairs.items():
            half = 0.5 * table[bins[a], bins[b]]
            values[:, a] += half
            values[:, b] += half
        return Contributions(values, base)
    if not isinstance(scorer, LookupTable):
        raise TypeError(
            "Scores of these weak learners are no sum of functions of one or two features, and no "
            "trees. Contributions are exact for 'stump', 'tree', 'pair_tree', 'linear', 'feature' "
            "and lists of these; train with weak_learner='tree', for example."
        )
    if background is not None:
        return contributions_of(scorer, rows).centred(contributions_of(scorer, background))
    values = np.zeros((*rows.shape, len(scorer.bias)))
    if scorer.coefficients is not None:
        values += rows[:, :, None] * scorer.coefficients
    for u, feature in enumerate(scorer.features):
        begin, end = scorer.indptr[u : u + 2]
        of_bins = np.vstack((scorer.values[begin + u : end + u + 1], scorer.missing[u]))
        values[:, feature] += of_bins[scorer.bins(u, rows)]
    return Contributions(values, scorer.bias.copy())


def _tree_contributions(
    trees: WeightedTrees, rows: AnyArray, background: AnyArray
) -> Contributions:
    """Interventional Shapley values of trees."""
    levels = np.arange(trees.feature.shape[1].bit_length())
    orders = 1.0 / ((n := np.add.outer(levels, levels)) + 1) / comb(n, levels)
    values = np.zeros((*rows.shape, trees.n_channels))
    for t, features in enumerate(trees.feature):
        left, left_there = trees.is_left(t, rows), trees.is_left(t, background)
        terms = slice(*trees.indptr[t : t + 2])
        of_leaves, channels = trees.values[terms], trees.channels[terms]
        add_shapley_values(left, left_there, features, orders, of_leaves, channels, values)
    return Contributions(values, trees.raw_scores(background).mean(axis=0))


@compiled
def add_shapley_values(
    is_left: BoolArray,
    is_left_there: BoolArray,
    features: IntArray,
    orders: FloatArray,
    values: FloatArray,
    channels: IntArray,
    out: FloatArray,
) -> None:
    """Add the interventional Shapley values of a complete tree.

    A row that takes some features from the background gets to a leaf if, for each feature on the
    way, the side of the one that it is from leads there.  So the rows of the background count by
    the features, as bits, whose sides lead there.

    Parameters
    ----------
    is_left, is_left_there : ndarray of bool, shapes (n_rows, n_nodes), (n_background, n_nodes)
        Whether a node sends a row left, if it gets there.
    features : ndarray of int64, shape (n_nodes,)
    orders : ndarray, shape (n_levels, n_levels)
        ``s! n! / (s + n + 1)!``, the fraction of the orders of s + n + 1 features in which a given
        one comes after s given others and before the rest.
    values : ndarray, shape (n_terms, n_leaves)
    channels : ndarray of int64, shape (n_terms,)
    out : ndarray, shape (n_rows, n_features, n_channels)
    """
    n_nodes, n_levels = len(features), len(orders)
    node, bit, player = np.zeros((3, n_levels), np.int64)
    side = np.zeros(n_levels, np.bool_)
    for leaf in range(n_nodes + 1):
        if not values[:, leaf].any():
            continue
        k, n_players = leaf + n_nodes, 0
        for step in range(n_levels):
            parent = (k - 1) // 2
            p = 0
            while p < n_players and player[p] != features[parent]:
                p += 1
            player[p] = features[parent]
            n_players = p + 1 if p == n_players else n_players
            node[step], side[step], bit[step] = parent, k == 2 * parent + 1, 1 << p
            k = parent
        every = (1 << n_players) - 1
        counts = np.zeros(every + 1)
        for b in range(len(is_left_there)):
            counts[_leading(is_left_there[b], node, side, bit, every)] += 1.0 / len(is_left_there)
        in_background = np.flatnonzero(counts)
        is_known, changes = np.zeros(every + 1, np.bool_), np.empty((every + 1, n_players))
        for i in range(len(is_left)):
            here = _leading(is_left[i], node, side, bit, every)
            change = changes[here]
            if not is_known[here]:
                is_known[here], change[:] = True, 0.0
                for there in in_background:
                    if here | there != every:
                        continue
                    n_here = n_there = 0
                    for p in range(n_players):
                        n_here += int((here & ~there) >> p & 1)
                        n_there += int((there & ~here) >> p & 1)
                    for p in range(n_players):
                        if (here & ~there) >> p & 1:
                            change[p] += counts[there] * orders[n_here - 1, n_there]
                        elif (there & ~here) >> p & 1:
                            change[p] -= counts[there] * orders[n_here, n_there - 1]
            for p in range(n_players):
                for term in range(len(channels) if change[p] else 0):
                    out[i, player[p], channels[term]] += change[p] * values[term, leaf]


@compiled(no_cpython_wrapper=True)
def _leading(is_left: BoolArray, node: IntArray, side: BoolArray, bit: IntArray, every: int) -> int:
    """Return the bits of the features whose sides all lead to a leaf."""
    out = every
    for step in range(len(node)):
        if is_left[node[step]] != side[step]:
            out &= ~bit[step]
    return out
