"""Contributions of the features to the scores of an additive model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from structboost._typing import AnyArray, FloatArray
from structboost.learners.table import LookupTable, Scorer, SumOfScorers
from structboost.learners.tree_table import PairTables


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

    A function of two features is divided between them.  With a background these are its
    interventional Shapley values (Lundberg and Lee, NIPS 2017): each feature gets the mean of what
    it changes alone and what it changes last, and has the mean 0 over the background.  Otherwise
    each feature gets a half.  TypeError if the scores are not a sum of functions of one or two
    features.
    """
    rows, background = (of.toarray() if issparse(of) else of for of in (rows, background))
    if isinstance(scorer, SumOfScorers):
        terms = [contributions_of(term, rows, background) for term in scorer.terms]
        values = np.sum([term.values for term in terms], axis=0)
        return Contributions(values, np.sum([term.base for term in terms], axis=0))
    if not isinstance(scorer, LookupTable):
        tables = PairTables.of(scorer, rows.shape[1])
        if tables is None:
            raise TypeError(
                "Scores of these weak learners are no sum of functions of one or two features. "
                "Contributions are exact for 'stump', 'pair_tree', 'linear', 'feature' and lists "
                "of these; train with weak_learner='stump', for example."
            )
        return _pair_contributions(tables, rows, background)
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


def _pair_contributions(
    tables: PairTables, rows: AnyArray, background: AnyArray | None
) -> Contributions:
    """Contributions of tables of pairs."""
    values, base = contributions_of(tables.steps, rows, background)
    bins = tables.bins(rows)
    of_background = None if background is None else tables.bins(background)
    for (a, b), table in tables.pairs.items():
        of_pair = table[bins[a], bins[b]]
        if of_background is None:
            values[:, a] += 0.5 * of_pair
            values[:, b] += 0.5 * of_pair
            continue
        first, second = (
            np.bincount(of_background[f], minlength=n) / len(of_background[f])
            for f, n in ((a, len(table)), (b, table.shape[1]))
        )
        mean = table[of_background[a], of_background[b]].mean(axis=0)
        a_alone = np.tensordot(table, second, (1, 0))[bins[a]]
        b_alone = np.tensordot(first, table, (0, 0))[bins[b]]
        values[:, a] += 0.5 * (a_alone - mean + of_pair - b_alone)
        values[:, b] += 0.5 * (b_alone - mean + of_pair - a_alone)
        base = base + mean
    return Contributions(values, base)
