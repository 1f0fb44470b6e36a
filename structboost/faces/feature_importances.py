"""Contributions of features to the scores of an estimator."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray
from structboost.learners.contributions import Contributions, contributions_of
from structboost.learners.table import Scorer


class FeatureImportanceMixin:
    """Mixin for estimators of a table that explains scores by features."""

    def _scorer(self) -> Scorer:
        """Return the scorer of the rows of a table."""
        model: Any = self.model_  # type: ignore[attr-defined]
        scorer: Scorer = model.scorer()
        return scorer

    def _decision(self, scores: FloatArray) -> FloatArray:
        """Convert scores of the model to those of ``decision_function`` by a linear function."""
        return scores

    def contributions(self, X: Any, background: Any = None) -> Contributions:
        """Return the contribution of each feature to each score of an additive model.

        Models of stumps, linear functions and single features are sums of functions of one feature
        each.  The values are those functions at the samples, so ``base + values.sum(axis=1)``
        equals ``decision_function(X)`` up to rounding.  Trees of two levels add functions of two
        features, each of which gets a half, or its Shapley value with a background.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.
        background : array-like, shape (n_background, n_features), optional
            Samples, such as the training set, over which the values of each feature have the mean
            0.  The base is then the mean score of these samples, and the values are the
            interventional SHAP values with this background (Lundberg and Lee, NIPS 2017): for an
            additive model, the Shapley value of a feature is its function at the sample minus the
            mean over the background.  By default nothing is subtracted, so that only differences
            between samples have a meaning.

        Returns
        -------
        contributions : Contributions
            ``values``, shape (n_samples, n_features, n_scores), or (n_samples, n_features) if the
            decision function has one score for each sample, and ``base``.

        Raises
        ------
        TypeError
            If the weak learners depend on more than two features, as deeper trees do.
        """
        check_is_fitted(self)
        estimator: Any = self
        rows = estimator._table(X, reset=False)
        if background is not None:
            background = estimator._table(background, reset=False)
        values, base = contributions_of(self._scorer(), rows, background)
        if (encoding := estimator._columns.encoding) is not None:
            values = encoding.summed(values, axis=1)
        n, n_features, n_channels = values.shape
        flat = self._decision(values.reshape(n * n_features, n_channels))
        return Contributions(
            flat.reshape(n, n_features, *flat.shape[1:]), self._decision(base[None])[0]
        )
