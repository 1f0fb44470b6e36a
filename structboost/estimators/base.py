"""What all boosted estimators share: training, the fitted model, files."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray, IntArray
from structboost.boosting import AUTO, Callback, StructBoost
from structboost.ensemble import FORMAT as MODEL_FORMAT
from structboost.ensemble import Ensemble, load_model
from structboost.estimators.early_stopping import EarlyStopping
from structboost.estimators.explained import Explained
from structboost.estimators.labels import (
    classes_in_place,
    classification_examples,
    classification_task,
    decision_of,
    labels_of,
    outputs_of,
)
from structboost.estimators.parameters import estimator
from structboost.estimators.validated_table import validated_table
from structboost.exceptions import ModelFileError
from structboost.files.schema import DamagedFileError
from structboost.masters.base import Formulation
from structboost.masters.registry import formulation_of
from structboost.selection.folds import Fold, random_folds
from structboost.shards.binned_table import BinnedTable
from structboost.shards.training_sets import is_in_memory
from structboost.task import Task
from structboost.tasks.coded import CodedTask
from structboost.tasks.multiclass import MulticlassTask
from structboost.tasks.taxonomy import TaxonomyTask
from structboost.validation import (
    check_labels,
    checked_callbacks,
    checked_share,
    checked_whole_number,
)
from structboost.weak.families import WeakLearners, takes_missing

_MOST_BYTES_OF_CLASSES = 1 << 26


# Parameters that an estimator passes on as they are, if it has them.
_OF_TRAINER = frozenset(inspect.signature(StructBoost).parameters)


@estimator
class BoostedEstimator(BaseEstimator):
    """A scikit-learn face of :class:`structboost.StructBoost`.

    Parameters
    ----------
    max_rounds : int
        Most rounds of column generation.
    weak_learner : str, callable or list of these
        Family of weak learners, or the union of several, as ``["linear", "stump"]``
        (:class:`structboost.StructBoost`).
    exact : bool
        Whether stumps are priced over all distinct thresholds, or over at most 255 per feature.
    early_stopping : bool
        Whether to hold out a part of the training set, stop when its error has not improved for
        ``n_iter_no_change`` rounds, and keep the best round.  The certificate then speaks of the
        last round trained.
    validation_fraction : float
        Share of the training set that is held out.
    n_iter_no_change : int
        Rounds without improvement after which training stops early.
    random_state : int, RandomState or None
        Seed for all that is drawn: held-out parts, and randomised weak learners.
    n_jobs : int or None
        Threads or processes (None: 1, or what ``joblib.parallel_config`` says; -1: all cores).
    verbose : int
        1 shows a progress bar.
    callbacks : sequence of callables, optional
        Each is called as ``callback(record, trainer)`` after every round; one that returns True
        stops training.

    Attributes
    ----------
    model_ : Ensemble
        The fitted model.
    history_ : list of dict
        One record per round, with the certificate.
    objective_ : float
        Primal objective of the model.
    n_iter_ : int
        Rounds in the model.
    feature_importances_ : ndarray, shape (n_features,)
        Share of the total weight on stumps of each feature.
    C_ : float
        The C of the model: the one given, or the one chosen.
    """

    max_rounds: int = 200
    weak_learner: WeakLearners = "stump"
    exact: bool = False
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0
    callbacks: Sequence[Callback] | None = None

    def _settings(self, task: Task) -> dict[str, Any]:
        """Parameters of the trainer that are not the estimator's own."""
        return {}

    def _weak_learners(self) -> WeakLearners:
        """The weak learners that the parameters describe."""
        return self.weak_learner

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = takes_missing(self._weak_learners())
        return tags

    def _formulation(self) -> str | Formulation:
        """The formulation that the parameters describe, or its name."""
        raise NotImplementedError

    def _trainer(self, task: Task, **settings: Any) -> StructBoost:
        """The trainer that the parameters describe, but for ``settings``."""
        own = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name in _OF_TRAINER
        }
        return StructBoost(task, **own | self._settings(task) | settings)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @property
    def feature_importances_(self) -> FloatArray:
        """Share of the total weight that falls on stumps of each feature."""
        check_is_fitted(self)
        return self.model_.feature_importances()

    def _check_early_stopping(self) -> None:
        checked_share(self.validation_fraction, "validation_fraction")
        checked_whole_number(self.n_iter_no_change, "n_iter_no_change")

    def _train(
        self,
        task: Task,
        train: tuple[Any, Any],
        validation: tuple[Any, Any] | None,
        sample_weight: Any,
    ) -> None:
        """Fit the trainer, keep its results as fitted attributes."""
        # Where this fit ends early, no model of the last one is left.
        for name in ("model_", "C_path_"):
            if hasattr(self, name):
                delattr(self, name)
        callbacks = checked_callbacks(self.callbacks)
        stopping = None
        if validation is not None:
            stopping = EarlyStopping(*validation, n_iter_no_change=self.n_iter_no_change)
            callbacks.append(stopping)
        trainer = self._trainer(task, callbacks=callbacks)
        folds = None
        if trainer.C == AUTO and is_in_memory(train[0]):
            # One held-out part does for C and for the round.
            folds = (
                self._folds(*train, sample_weight)
                if validation is None
                else [Fold(*train, sample_weight, *validation)]
            )
        trainer.fit(*train, sample_weight=sample_weight, folds=folds)
        self.task_ = task
        self.model_: Ensemble = trainer.model_
        self.history_ = trainer.history_
        self.objective_ = trainer.objective_
        self.C_ = trainer.C_
        if folds is not None:
            self.C_path_ = trainer.C_path_
        # A fit that Ctrl-C ended while C was chosen has none of the rounds that were watched.
        is_watched = folds is None or not trainer.interrupted_
        if stopping is not None and stopping.losses and is_watched:
            self.model_ = trainer.model_.at_stage(stopping.best_stage)
            self.objective_ = trainer.history_[stopping.best_stage]["primal"]
            self.validation_losses_ = stopping.losses
        self.n_iter_ = max(1, self.model_.n_stages)

    def _folds(self, X: Any, Y: Any, sample_weight: Any) -> list[Fold]:
        """Parts of the training set that C is chosen on."""
        return random_folds(X, Y, sample_weight, random_state=self.random_state)

    def _table(self, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        """The table, and ``y``, checked and as numbers."""
        return validated_table(self, X, y, **options)

    def _scores(self, X: Any, model: Ensemble | None = None) -> FloatArray:
        check_is_fitted(self)
        X = self._table(X, reset=False)
        return (model or self.model_).scores(X)

    def _save(self, path: str | PathLike[str], **facts: Any) -> None:
        """Save the model with the estimator's name, its parameters of plain type and ``facts``."""
        check_is_fitted(self)
        facts |= facts_of(self)
        metadata = {**self.model_.metadata, "objective": self.objective_, **facts}
        model = self.model_
        Ensemble(model.kinds, model.members, model.weights, model.stages, metadata).save(path)

    @classmethod
    def _load(cls, path: str | PathLike[str]) -> tuple[Self, Mapping[str, Any]]:
        model = load_model(path)
        metadata = model.metadata
        if metadata.get("estimator") != cls.__name__:
            raise ModelFileError(
                f"{path} holds a {metadata.get('estimator', 'StructBoost')} model; load it with "
                "that class."
            )
        with MODEL_FORMAT.damage(path):
            made = cls(**metadata["parameters"])
            made.model_ = model
            made.history_ = list(metadata["history"])
            made.objective_ = float(metadata["objective"])
            made.C_ = float(metadata["C"])
            made.n_iter_ = max(1, model.n_stages)
            made.n_features_in_ = next(iter(model.members.values())).n_features
            if "feature_names" in metadata:
                made.feature_names_in_ = np.array(metadata["feature_names"], dtype=object)
        return made, metadata


@estimator
class BoostedClassifier(ClassifierMixin, Explained, BoostedEstimator):
    """Classifiers of any labels: fitting, predictions round by round, files.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Weight of the classes in the mean loss.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in the order of the columns of :meth:`decision_function`.
    """

    class_weight: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on a table and its labels.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Or a :class:`structboost.BinnedTable`, or a Dask array or data frame, which are trained
            on in place.
        y : array-like, shape (n_samples,)
            Any labels; at least two different ones.  With a Dask X also a Dask array or series.
        sample_weight : array-like, shape (n_samples,), optional
            Weight of each sample in the mean loss; samples of weight zero are left out.
        """
        self._check_early_stopping()
        if isinstance(X, BinnedTable) or hasattr(X, "__dask_graph__"):
            for name in ("categories_", "_directions", "_is_sparse"):
                self.__dict__.pop(name, None)
            return self._fit_in_place(X, y, sample_weight)
        check_labels(y)
        X, y = self._table(X, y)
        self.classes_, X, labels, weights = classification_examples(
            X, y, sample_weight, self.class_weight
        )
        task = self._task()
        outputs = outputs_of(labels, task)
        validation = None
        if self.early_stopping:
            self._check_held_out(labels)
            X, held_X, outputs, held, weights, _ = train_test_split(
                X, outputs, weights, test_size=self.validation_fraction, stratify=outputs,
                random_state=self.random_state,
            )  # fmt: skip
            validation = (held_X, held)
        self._train(task, (X, outputs), validation, weights)
        return self

    def _check_held_out(self, labels: IntArray) -> None:
        """Raise unless a sample of each class can be held out, and one be left."""
        found, counts = np.unique(labels, return_counts=True)
        if counts.min() < 2:
            label = self.classes_[found[np.argmin(counts)]].item()
            raise ValueError(
                f"y has only one distinct sample of class {label!r}, and early_stopping holds out "
                "samples of each "
                "class; give at least two, or set early_stopping=False."
            )
        n_held = math.ceil(self.validation_fraction * len(labels))
        if not len(found) <= n_held <= len(labels) - len(found):
            raise ValueError(
                f"validation_fraction is {self.validation_fraction!r}, which holds out {n_held} "
                f"of {len(labels)} "
                f"distinct samples; with {len(found)} classes hold out, and leave, at least "
                f"{len(found)}."
            )

    def _fit_in_place(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Train on a table on disk or on a Dask collection."""
        if self.early_stopping or self.class_weight is not None:
            raise ValueError(
                f"early_stopping and class_weight are not supported if X is a {type(X).__name__}; "
                "leave them out, and give sample_weight."
            )
        self.classes_, number = classes_in_place(y)
        self.n_features_in_ = int(X.shape[1])
        task = self._task()
        self._train(task, (X, number(y, task)), None, sample_weight)
        return self

    def _task(self) -> Task:
        """The task for the classes found."""
        return classification_task(self.classes_.tolist())

    def _folds(self, X: Any, Y: Any, sample_weight: Any) -> list[Fold]:
        return random_folds(X, Y, sample_weight, strata=Y, random_state=self.random_state)

    def decision_function(self, X: Any) -> FloatArray:
        """Scores, shape (n_samples, n_classes); shape (n_samples,) for two classes."""
        return self._decision(self._scores(X))

    def _decision(self, scores: FloatArray) -> FloatArray:
        return decision_of(scores, self.task_)

    def _has_probabilities(self) -> bool:
        """Whether probabilities follow from the scores."""
        try:
            return formulation_of(self._formulation()).has_probabilities
        except (TypeError, ValueError):  # fit names the parameter that is out of its range
            return False

    @available_if(lambda self: self._has_probabilities())
    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes, where the loss has them: exponential or logistic.

        They are those at which the scores minimise the expected loss
        (:meth:`structboost.Formulation.probabilities`).  The hinge loss has none, nor do losses
        over the bits of a code and taxonomies: there the method is missing.

        Returns
        -------
        probabilities : ndarray, shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.column_stack((np.zeros(len(scores)), scores))
        return formulation_of(self._formulation()).probabilities(scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """Label of the highest score."""
        return labels_of(self.decision_function(X), self.classes_)

    def staged_decision_function(self, X: Any) -> Iterator[FloatArray]:
        """Scores after each round, with the weights of that round."""
        check_is_fitted(self)
        return (self._decision(self._scores(X, model)) for model in self.model_.staged())

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
        classifier, metadata = cls._load(path)
        with MODEL_FORMAT.damage(path):
            classifier.classes_ = saved_classes(metadata)
            classifier.task_ = classifier._saved_task(metadata)
            if dict(classifier.task_.kinds) != dict(classifier.model_.kinds):
                raise DamagedFileError("its model is of other classes")
        if "tree" in metadata:
            classifier.set_params(taxonomy=metadata["tree"])
        return classifier

    def _saved_task(self, metadata: Mapping[str, Any]) -> Task:
        """The task that the model was trained on."""
        n_classes = len(self.classes_)
        if "code" in metadata:
            task = CodedTask(metadata["code"])
            if task.n_classes != n_classes:
                raise DamagedFileError("its code is of other classes")
            return task
        if self.model_.kinds["x"].n_channels == n_classes == 2:
            return MulticlassTask(2)
        return classification_task(self.classes_.tolist(), metadata.get("tree"))


@estimator
class TaxonomyClassifier(BoostedClassifier):
    """Classifiers whose labels may be the leaves of a tree.

    Parameters
    ----------
    taxonomy : nested lists, parent array or networkx.DiGraph, optional
        Tree whose leaves are the labels: classes share the weak learners of their ancestors, and a
        wrong class costs the height of the first common ancestor
        (:class:`structboost.TaxonomyTask`).
    """

    taxonomy: Any = None

    def _has_probabilities(self) -> bool:
        return self.taxonomy is None and super()._has_probabilities()

    def _task(self) -> Task:
        return classification_task(self.classes_.tolist(), self.taxonomy)


def facts_of(estimator: Any) -> dict[str, Any]:
    """What each model file says of an estimator: its class, plain parameters, names of features."""
    facts = {"estimator": type(estimator).__name__, "parameters": plain_parameters(estimator)}
    if hasattr(estimator, "feature_names_in_"):
        facts["feature_names"] = estimator.feature_names_in_.tolist()
    return facts


def plain_parameters(estimator: Any) -> dict[str, Any]:
    """Parameters that a file can hold."""
    parameters = estimator.get_params(deep=False)
    return {name: value for name, value in parameters.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    """Whether a parameter can be saved: a plain value, or names of weak learners in a list."""
    if isinstance(value, list | tuple):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, (bool, int, float, str, type(None)))


def saved_classes(metadata: Mapping[str, Any]) -> NDArray[Any]:
    """The labels of a saved classifier, of the type they had."""
    labels, dtype = metadata["classes"], np.dtype(metadata["classes_dtype"])
    if dtype.kind not in "biufSUO" or dtype.itemsize * len(labels) > _MOST_BYTES_OF_CLASSES:
        raise DamagedFileError(f"its classes are of type {dtype}")
    classes = np.array(labels, dtype=dtype)
    if classes.ndim != 1 or len(classes) < 2:
        raise DamagedFileError(f"its classes have shape {classes.shape}")
    return classes
