"""What each feature adds to the scores of an estimator."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray
from structboost.weak.contributions import Contributions, contributions_of
from structboost.weak.table import Scorer


class FeatureImportanceMixin:
    """Estimators of a table whose scores are explained by its features."""

    def _scorer(self) -> Scorer:
        """What scores the rows of a table."""
        model: Any = self.model_  # type: ignore[attr-defined]
        scorer: Scorer = model.scorer()
        return scorer

    def _decision(self, scores: FloatArray) -> FloatArray:
        """Scores of the model as :meth:`decision_function` gives them: a linear function."""
        return scores

    def contributions(self, X: Any, background: Any = None) -> Contributions:
        """What each feature adds to each score: exact where the model is additive.

        Models of stumps, linear functions and single features are sums of functions of one feature
        each.  The values are those functions at the samples, so ``base + values.sum(axis=1)``
        equals ``decision_function(X)`` up to rounding.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
        background : array-like, shape (n_background, n_features), optional
            Samples, such as the training set, over which the values of each feature have the mean
            0; the base is then the mean score of these samples.  The values are then equal to the
            interventional SHAP values with this background (Lundberg and Lee, NIPS 2017): for an
            additive model the Shapley value of a feature is its function at the sample beside the
            function's mean over the background.  By default nothing is subtracted: values are the
            functions as they were trained, and only their differences between samples have a
            meaning.

        Returns
        -------
        contributions : Contributions
            ``values``, shape (n_samples, n_features, n_scores), or (n_samples, n_features) where
            the decision function has one score for each sample, and ``base``.

        Raises
        ------
        TypeError
            If the weak learners depend on several features, as trees do.
        """
        check_is_fitted(self)
        found = self._contributions(X)
        return found if background is None else found.centred(self._contributions(background))

    def _contributions(self, X: Any) -> Contributions:
        estimator: Any = self
        rows = estimator._table(X, reset=False)
        values, base = contributions_of(self._scorer(), rows)
        n, n_features, n_channels = values.shape
        flat = self._decision(values.reshape(n * n_features, n_channels))
        return Contributions(
            flat.reshape(n, n_features, *flat.shape[1:]), self._decision(base[None])[0]
        )
