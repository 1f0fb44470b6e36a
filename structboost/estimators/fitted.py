"""What all boosted estimators share: training, the fitted model, files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted, validate_data

from structboost.binned_table import BinnedTable
from structboost.boosting import Callback, StructBoost
from structboost.early_stopping import EarlyStopping
from structboost.ensemble import Ensemble
from structboost.estimators.classes import (
    classes_in_place,
    classification_examples,
    classification_task,
    decision_of,
    labels_of,
    outputs_of,
)
from structboost.exceptions import ModelFileError
from structboost.model_file import load_model
from structboost.task import Task
from structboost.tasks.coded import CodedTask
from structboost.tasks.multiclass import MulticlassTask
from structboost.tasks.taxonomy import TaxonomyTask


class BoostedEstimator(BaseEstimator):
    """A scikit-learn face of :class:`StructBoost`; subclasses hold the parameters and make the trainer.

    Attributes
    ----------
    model_ : Ensemble
    history_ : list of dict
        One record a round, with the certificate.
    objective_ : float
    n_iter_ : int
        Rounds in the model.
    """

    callbacks: Sequence[Callback] | None
    n_iter_no_change: int

    def _trainer(self, task: Task, callbacks: Sequence[Callback], *, early_stopping: bool) -> StructBoost:
        """The trainer that the parameters describe."""
        raise NotImplementedError

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Share of the total weight that falls on stumps of each feature."""
        check_is_fitted(self)
        return self.model_.feature_importances()

    def _train(
        self, task: Task, train: tuple[Any, Any], validation: tuple[Any, Any] | None, sample_weight: Any
    ) -> None:
        """Fit the trainer, keep its results as fitted attributes."""
        callbacks = list(self.callbacks or [])
        stopping = None
        if validation is not None:
            stopping = EarlyStopping(*validation, n_iter_no_change=self.n_iter_no_change)
            callbacks.append(stopping)
        trainer = self._trainer(task, callbacks, early_stopping=stopping is not None)
        trainer.fit(*train, sample_weight=sample_weight)
        self.task_ = task
        self.model_: Ensemble = trainer.model_
        self.history_ = trainer.history_
        self.objective_ = trainer.objective_
        if stopping is not None and trainer.history_:
            self.model_ = trainer.model_.at_stage(stopping.best_stage)
            self.objective_ = trainer.history_[stopping.best_stage]["primal"]
            self.validation_losses_ = stopping.losses
        self.n_iter_ = max(1, self.model_.n_stages)

    def _scores(self, X: Any, model: Ensemble | None = None) -> NDArray[np.float64]:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=(np.float64, np.float32, np.uint8))
        return (model or self.model_).scores(X)

    def _save(self, path: str | PathLike[str], **facts: Any) -> None:
        """Save the model with the estimator's name, its parameters of plain type and ``facts``."""
        check_is_fitted(self)
        parameters = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if isinstance(value, (bool, int, float, str, type(None)))
        }
        facts |= {"estimator": type(self).__name__, "parameters": parameters}
        if hasattr(self, "feature_names_in_"):
            facts["feature_names"] = self.feature_names_in_.tolist()
        metadata = {**self.model_.metadata, "objective": self.objective_, **facts}
        model = self.model_
        Ensemble(model.kinds, model.members, model.weights, model.stages, metadata).save(path)

    @classmethod
    def _load(cls, path: str | PathLike[str]) -> tuple[Self, Mapping[str, Any]]:
        model = load_model(path)
        metadata = model.metadata
        if metadata.get("estimator") != cls.__name__:
            raise ModelFileError(
                f"{path} holds a {metadata.get('estimator', 'StructBoost')} model; load it with that class."
            )
        estimator = cls(**metadata["parameters"])
        estimator.model_ = model
        estimator.history_ = list(metadata["history"])
        estimator.objective_ = float(metadata["objective"])
        estimator.n_iter_ = max(1, model.n_stages)
        estimator.n_features_in_ = model.members["x"].n_features
        if "feature_names" in metadata:
            estimator.feature_names_in_ = np.array(metadata["feature_names"], dtype=object)
        return estimator, metadata


class BoostedClassifier(ClassifierMixin, BoostedEstimator):
    """Classifiers of any labels: fitting, predictions round by round, files."""

    taxonomy: Any
    class_weight: Any
    early_stopping: bool
    validation_fraction: float
    random_state: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on a table and its labels.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Or a :class:`structboost.BinnedTable`, or a Dask array or data frame, which are trained on where they are.
        y : array-like, shape (n_samples,)
            Any labels; at least two different ones.  With a Dask X also a Dask array or series.
        sample_weight : array-like, shape (n_samples,), optional
            Weight of each sample in the mean loss; samples of weight zero are left out.
        """
        if isinstance(X, BinnedTable) or hasattr(X, "__dask_graph__"):
            return self._fit_in_place(X, y, sample_weight)
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32, np.uint8))
        self.classes_, X, labels, weights = classification_examples(X, y, sample_weight, self.class_weight)
        task = self._task()
        outputs = outputs_of(labels, task)
        validation = None
        if self.early_stopping:
            X, held_X, outputs, held, weights, _ = train_test_split(
                X, outputs, weights, test_size=self.validation_fraction, stratify=outputs,
                random_state=self.random_state,
            )  # fmt: skip
            validation = (held_X, held)
        self._train(task, (X, outputs), validation, weights)
        return self

    def _fit_in_place(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Train on a table on disk or on a Dask collection."""
        if self.early_stopping or self.class_weight is not None:
            raise ValueError(
                f"X is a {type(X).__name__}, with which early_stopping and class_weight are not to be had; leave them "
                "out, and give sample_weight."
            )
        self.classes_, number = classes_in_place(y)
        self.n_features_in_ = int(X.shape[1])
        task = self._task()
        self._train(task, (X, number(y, task)), None, sample_weight)
        return self

    def _task(self) -> Task:
        """The task for the classes found."""
        return classification_task(self.classes_.tolist(), self.taxonomy)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, shape (n_samples, n_classes); shape (n_samples,) for two classes."""
        return decision_of(self._scores(X), self.task_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Label of the highest score."""
        return labels_of(self.decision_function(X), self.classes_)

    def staged_decision_function(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Scores after each round, with the weights of that round."""
        check_is_fitted(self)
        return (decision_of(self._scores(X, model), self.task_) for model in self.model_.staged())

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Labels after each round."""
        return (labels_of(scores, self.classes_) for scores in self.staged_decision_function(X))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the classifier to a file, atomically and without pickle.

        Raises
        ------
        TypeError
            If the labels are not numbers or strings.
        """
        check_is_fitted(self)
        facts = {"classes": self.classes_.tolist(), "classes_dtype": self.classes_.dtype.str}
        if isinstance(self.task_, TaxonomyTask):
            facts["tree"] = self.task_.tree.parents.tolist()
        if isinstance(self.task_, CodedTask):
            facts["code"] = self.task_.code.tolist()
        self._save(path, **facts)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a classifier that :meth:`save` wrote."""
        estimator, metadata = cls._load(path)
        dtype = metadata["classes_dtype"]
        estimator.classes_ = np.array(metadata["classes"], dtype=object if dtype == "|O" else dtype)
        if "tree" in metadata:
            estimator.taxonomy = metadata["tree"]
        if "code" in metadata:
            estimator.task_ = CodedTask(metadata["code"])
        elif estimator.model_.kinds["x"].n_channels == len(estimator.classes_) == 2:
            estimator.task_ = MulticlassTask(2)
        else:
            estimator.task_ = classification_task(estimator.classes_.tolist(), metadata.get("tree"))
        return estimator
