"""Classifier that trains a linear structured SVM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from structboost._typing import AnyArray, FloatArray, PathName, override
from structboost.faces.base import estimator, load_estimator, save_estimator
from structboost.faces.columns import FROM_DTYPE
from structboost.faces.labels import (
    classification_examples,
    classification_task,
    decision_of,
    label_vector,
    labels_of,
    outputs_of,
    saved_classes,
    score,
    zero_function,
)
from structboost.faces.tables import (
    later_table,
    restore_columns,
    table_contributions,
    training_table,
)
from structboost.files.archive import DamagedFileError, LoadedFromFile
from structboost.learners.contributions import Contributions
from structboost.linear.designs import weights_of
from structboost.linear.structured_svm import StructuredSVM
from structboost.model.ensemble import Ensemble
from structboost.runtime.fitted_state import committed


@estimator()
class StructuredSVMClassifier(LoadedFromFile, ClassifierMixin, BaseEstimator):
    """Linear binary and multi-class SVM (Crammer and Singer) with a certified duality gap.

    It is the linear counterpart of :class:`StructBoostClassifier`, with features instead of weak
    learners.  Features should be on a common scale.

    Parameters
    ----------
    C : float
        Weight of the mean loss against the regulariser.
    tol : float
        Relative gap ``(primal - bound) / primal`` at which training stops.
    max_epochs : int
        Maximum number of exact passes, each of which visits every example once.
    class_weight : dict, "balanced" or None
        Weight of the classes in the mean loss.
    categorical_features : "from_dtype", None, or array-like of bool, int or str
        Columns that hold categories, as in :class:`StructBoostClassifier`.  Each category gets a
        column of 0 and 1.
    random_state : int, RandomState or None
        Seed for the order of the examples in the passes over cached cuts.
    verbose : int
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    model_ : Ensemble
        The fitted model.
    coef_ : ndarray, shape (n_classes, n_columns), or (1, n_columns) for two classes
        Weights of the columns that ``encoded_feature_names_`` names, which are the features unless
        categories or missing values became columns of 0 and 1.
    intercept_ : ndarray, shape (n_classes,) or (1,)
        Weights of the constant feature.
    history_ : list of dict
        One record per exact pass, with the certificate.
    objective_ : float
        Primal objective of the weights.
    n_iter_ : int
        Exact passes over the examples.

    See Also
    --------
    structboost.StructuredSVM : The same solver for any task.
    structboost.StructBoostClassifier : Classifier by boosted trees.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import StructuredSVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructuredSVMClassifier(C=100.0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    C: float = 1.0
    tol: float = 1e-3
    max_epochs: int = 1000
    class_weight: Any = None
    categorical_features: Any = FROM_DTYPE
    random_state: Any = None
    verbose: int = 0

    @committed
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on a table and its labels.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Features, on a common scale.
        y : array-like, shape (n_samples,)
            Labels of any type.
        sample_weight : array-like, shape (n_samples,), optional
            Weight of each sample in the mean loss.

        Raises
        ------
        ValueError, TypeError
            If a parameter or an argument is out of its range, or weights leave one of several
            classes.

        Warns
        -----
        ConstantPredictionWarning
            If ``y`` has one class, which the model then always predicts.
        ConvergenceWarning
            If ``max_epochs`` are used up before the gap is ``tol``.
        """
        y = label_vector(y)
        table = training_table(self, X, y, "linear", dtype=np.float64)
        classes, X, labels, weights, _ = classification_examples(
            table.X, table.y, sample_weight, self.class_weight
        )
        task = classification_task(classes.tolist())
        if len(classes) == 1:
            model = zero_function(task.kinds["x"], X.shape[1], {"history": [], "objective": 0.0})
            self._keep(model, classes)
            return self
        outputs: Any = outputs_of(labels, task)
        svm = StructuredSVM(
            task,
            C=self.C,
            tol=self.tol,
            max_epochs=self.max_epochs,
            random_state=self.random_state,
            verbose=self.verbose,
        ).fit(X, outputs, sample_weight=weights)
        self._keep(svm.model_, classes)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    @property
    def encoded_feature_names_(self) -> list[str]:
        """Names of the columns that the model has."""
        check_is_fitted(self)
        names: list[str] = self._columns.encoded_names
        return names

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def decision_function(self, X: Any) -> FloatArray:
        """Return the scores of the classes.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        scores : ndarray, shape (n_samples, n_classes)
            In the order of ``classes_``.  For two classes, the score of the second one, shape
            (n_samples,).
        """
        check_is_fitted(self)
        X = later_table(self, X, dtype=np.float64)
        return self._decision(X @ self.coef_.T + self.intercept_)

    def _decision(self, scores: FloatArray) -> FloatArray:
        return decision_of(scores)

    def predict(self, X: Any) -> AnyArray:
        """Return the label with the highest score.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        labels : ndarray, shape (n_samples,)
            Entries of ``classes_``.
        """
        return labels_of(self.decision_function(X), self.classes_)

    def contributions(self, X: Any, background: Any = None) -> Contributions:
        """Return the contribution of each feature to each score.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.
        background : array-like, shape (n_background, n_features), optional
            Samples over which the values of each feature have the mean 0, as in
            :meth:`StructBoostClassifier.contributions`.

        Returns
        -------
        contributions : Contributions
            ``values``, shape (n_samples, n_features, n_classes), or (n_samples, n_features) for two
            classes, and ``base``.
        """
        check_is_fitted(self)
        return table_contributions(self, X, background)

    score = score

    @override
    def save(self, path: PathName) -> None:
        save_estimator(self, path)

    @override
    @classmethod
    def load(cls, path: PathName) -> Self:
        loaded: Self = load_estimator(cls, path)
        return loaded

    def _facts(self) -> dict[str, Any]:
        return {"columns": self._columns.to_plain()}

    def _restore(self, facts: Mapping[str, Any]) -> None:
        if dict(classification_task(facts["classes"]).kinds) != dict(self.model_.kinds):
            raise DamagedFileError("its model is of other classes")
        restore_columns(self, facts)
        self._keep(self.model_, saved_classes(facts))

    def _keep(self, model: Ensemble, classes: AnyArray) -> None:
        """Set the fitted attributes."""
        self.classes_ = classes
        ((kind, member),) = model.members.items()
        weights = weights_of(member, model.kinds[kind])
        self.model_ = model
        self.coef_ = weights[:-1].T
        self.intercept_ = weights[-1]
        self.history_ = list(model.metadata["history"])
        self.objective_ = float(model.metadata["objective"])
        self.n_iter_ = len(self.history_)
