"""scikit-learn face of the linear structured SVM."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from structboost.estimators.classes import (
    classification_examples,
    classification_task,
    decision_of,
    labels_of,
    outputs_of,
)
from structboost.structured_svm import StructuredSVM


class StructuredSVMClassifier(ClassifierMixin, BaseEstimator):
    """Linear binary and multi-class SVM (Crammer and Singer) with a certified duality gap.

    The linear counterpart of :class:`StructBoostClassifier`: the same tasks, features in place of weak learners.
    Scale the features.

    Parameters
    ----------
    C, tol, max_epochs, average, random_state, verbose
        As in :class:`structboost.StructuredSVM`.
    class_weight : dict, "balanced" or None
        Weight of the classes in the mean loss.

    Attributes
    ----------
    classes_ : ndarray
    coef_ : ndarray, shape (n_classes, n_features), or (1, n_features) for two classes
    intercept_ : ndarray, shape (n_classes,) or (1,)
    history_ : list of dict
    objective_ : float
    n_iter_ : int
        Exact passes over the examples.
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        tol: float = 1e-3,
        max_epochs: int = 1000,
        average: bool = True,
        class_weight: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.tol = tol
        self.max_epochs = max_epochs
        self.average = average
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on a table and its labels.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
        y : array-like, shape (n_samples,)
        sample_weight : array-like, shape (n_samples,), optional
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_, X, labels, weights = classification_examples(X, y, sample_weight, self.class_weight)
        task = classification_task(self.classes_.tolist())
        outputs: Any = outputs_of(labels, task)
        svm = StructuredSVM(
            task,
            C=self.C,
            tol=self.tol,
            max_epochs=self.max_epochs,
            average=self.average,
            random_state=self.random_state,
            verbose=self.verbose,
        ).fit(X, outputs, sample_weight=weights)
        self.coef_ = svm.w_[:-1].T
        self.intercept_ = svm.w_[-1]
        self.history_ = svm.history_
        self.objective_ = svm.objective_
        self.n_iter_ = len(svm.history_)
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, shape (n_samples, n_classes); shape (n_samples,) for two classes."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return decision_of(X @ self.coef_.T + self.intercept_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Label of the highest score."""
        return labels_of(self.decision_function(X), self.classes_)
