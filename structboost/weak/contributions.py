"""Contributions of the features to the scores of an additive model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.weak.lookup_table import LinearAndSteps, LookupTable, SumOfScorers
from structboost.weak.table import Scorer


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


def contributions_of(scorer: Scorer, rows: NDArray[Any]) -> Contributions:
    """Contributions to the scores of rows that were checked.

    Parameters
    ----------
    scorer : Scorer
    rows : ndarray, shape (n_parts, n_features)

    Returns
    -------
    contributions : Contributions
        Values of shape (n_parts, n_features, n_channels).

    Raises
    ------
    TypeError
        If the scores are not a sum of functions of single features.
    """
    if isinstance(scorer, SumOfScorers):
        terms = [contributions_of(term, rows) for term in scorer.terms]
        values = np.sum([term.values for term in terms], axis=0)
        return Contributions(values, np.sum([term.base for term in terms], axis=0))
    form = LinearAndSteps.of(scorer)
    if form is None:
        raise TypeError(
            "Scores of these weak learners are no sum of functions of single features. "
            "Contributions are exact for 'stump', 'linear', 'feature' and lists of these; train "
            "with weak_learner='stump', for example."
        )
    # What is missing is left to the tables: linear functions do not take it.
    known = np.where(np.isnan(rows), 0.0, rows)
    values = known[:, :, None] * form.coefficients
    for u, feature in enumerate(form.steps.features):
        values[:, feature] += _of_one_feature(form.steps, u).raw_scores(rows)
    return Contributions(values, form.steps.bias.copy())


def _of_one_feature(table: LookupTable, u: int) -> LookupTable:
    """Table of the used feature with index ``u`` alone, without the bias."""
    begin, end = table.indptr[u : u + 2]
    return replace(
        table,
        bias=np.zeros_like(table.bias),
        features=table.features[u : u + 1],
        thresholds=table.thresholds[begin:end],
        indptr=np.array([0, end - begin], np.int64),
        values=table.values[begin + u : end + u + 1],
        missing=None if table.missing is None else table.missing[u : u + 1],
    )
