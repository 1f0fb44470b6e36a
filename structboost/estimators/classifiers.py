"""What the boosted classifiers share: labels, held-out samples, probabilities, files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray, IntArray
from structboost.contract.task import Task
from structboost.estimators.base import BoostedEstimator
from structboost.estimators.feature_importances import FeatureImportanceMixin
from structboost.estimators.labels import (
    classes_in_place,
    classification_examples,
    classification_task,
    decision_of,
    labels_of,
    outputs_of,
)
from structboost.estimators.parameters import estimator
from structboost.estimators.saved import saved_classes, saved_link
from structboost.files.schema import DamagedFileError
from structboost.masters.base import Formulation
from structboost.masters.registry import formulation_of
from structboost.masters.softmax_link import SoftmaxLink
from structboost.model.ensemble import FORMAT as MODEL_FORMAT
from structboost.selection.folds import Fold, random_folds
from structboost.shards.binned_table import BinnedTable
from structboost.tasks.binary import BinaryTask
from structboost.tasks.coded import CodedTask
from structboost.tasks.multiclass import MulticlassTask
from structboost.tasks.taxonomy import TaxonomyTask
from structboost.validation import check_labels


@estimator
class BoostedClassifier(ClassifierMixin, FeatureImportanceMixin, BoostedEstimator):
    """Classifiers of any labels: fitting, predictions round by round, files.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Weight of the classes in the mean loss.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in the order of the columns of :meth:`decision_function`.
    link_ : SoftmaxLink or None
        How probabilities follow from the scores; None where they do not.  Missing if the
        formulation has a method of its own for them.
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

        Raises
        ------
        ValueError, TypeError
            If a parameter or an argument is out of its range, or ``y`` has one class only.
        SolverError
            If a restricted master cannot be solved.
        """
        self._check_parameters()
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
        whole = X, outputs, weights
        if self.early_stopping:
            self._check_held_out(labels)
            X, held_X, outputs, held, weights, _ = train_test_split(
                X, outputs, weights, test_size=self.validation_fraction, stratify=outputs,
                random_state=self.random_state,
            )  # fmt: skip
            validation = (held_X, held)
        self._train(task, (X, outputs), validation, weights, whole)
        self._keep_link()
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
        self._keep_link()
        return self

    def _task(self) -> Task:
        """The task for the classes found."""
        return classification_task(self.classes_.tolist())

    def _as_given(self, Y: Any, task: Task) -> NDArray[Any]:
        indices = np.asarray(Y)
        if isinstance(task, BinaryTask):
            indices = (indices > 0).astype(int)
        return np.asarray(self.classes_[indices])

    def _folds(self, X: Any, Y: Any, sample_weight: Any) -> list[Fold]:
        return random_folds(X, Y, sample_weight, strata=Y, random_state=self.random_state)

    def decision_function(self, X: Any) -> FloatArray:
        """Scores of the classes.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        scores : ndarray, shape (n_samples, n_classes)
            In the order of ``classes_``.  For two classes: the score of the second one, shape
            (n_samples,).
        """
        return self._decision(self._scores(X))

    def _decision(self, scores: FloatArray) -> FloatArray:
        return decision_of(scores, self.task_)

    def _asks_for_probabilities(self) -> bool:
        """Whether probabilities follow from the scores of a fit with these parameters."""
        try:
            return formulation_of(self._formulation()).has_probabilities
        except (TypeError, ValueError):  # fit names the parameter that is out of its range
            return False

    def _has_probabilities(self) -> bool:
        """Whether probabilities follow from the scores of the fit, or of a fit if there is none."""
        if hasattr(self, "link_"):
            return self.link_ is not None
        return self._asks_for_probabilities()

    def _keep_link(self) -> None:
        """Note how probabilities follow from the scores of the fit: parameters may change."""
        self.__dict__.pop("link_", None)
        has_probabilities = self._asks_for_probabilities()
        formulation = formulation_of(self._formulation())
        # A formulation of one's own may have a method of its own for probabilities.
        if not has_probabilities or type(formulation).probabilities is Formulation.probabilities:
            self.link_ = formulation.link if has_probabilities else None
            if self.link_ is not None and self.temperature_ is not None:
                self.link_ = self.link_.sharpened(self.temperature_)

    @available_if(lambda self: self._has_probabilities())
    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes, where they follow from the loss.

        They are those at which the scores minimise the expected loss
        (:meth:`structboost.masters.Formulation.probabilities`): a likelihood, the exponential or
        the logistic loss.  With the hinge loss, losses over the bits of a code, and taxonomies
        without a likelihood the method is missing.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        probabilities : ndarray, shape (n_samples, n_classes)
            In the order of ``classes_``; rows sum to 1.
        """
        return self._probabilities(self.decision_function(X))

    def _probabilities(self, scores: FloatArray) -> FloatArray:
        """Probabilities from what :meth:`decision_function` returns."""
        if scores.ndim == 1:
            scores = np.column_stack((np.zeros(len(scores)), scores))
        link: SoftmaxLink | None = getattr(self, "link_", None)
        if link is None:
            return formulation_of(self._formulation()).probabilities(scores)
        return link.inverse(scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """Label of the highest score, or of the least expected cost in a taxonomy.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        labels : ndarray, shape (n_samples,)
            Entries of ``classes_``.
        """
        return self._labels(self.decision_function(X))

    def _class_costs(self) -> FloatArray | None:
        """Cost of each (true, predicted) pair of classes, or None where scores decide."""
        return None

    def _labels(self, decided: FloatArray) -> NDArray[Any]:
        """Labels from what :meth:`decision_function` returns."""
        costs = self._class_costs()
        if costs is None:
            return labels_of(decided, self.classes_)
        expected = self._probabilities(decided) @ costs
        return np.asarray(self.classes_[expected.argmin(axis=1)])

    def staged_decision_function(self, X: Any) -> Iterator[FloatArray]:
        """Scores after each round, with the weights of that round.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        stages : iterator of ndarray
            One array per round, as :meth:`decision_function` returns it.
        """
        check_is_fitted(self)
        return (self._decision(self._scores(X, model)) for model in self.model_.staged())

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Labels after each round, with the weights of that round.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        stages : iterator of ndarray, shape (n_samples,)
            One array per round, as :meth:`predict` returns it.
        """
        return map(self._labels, self.staged_decision_function(X))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the classifier to a file, atomically and without pickle.

        Parameters
        ----------
        path : str or path
            The file; an existing one is replaced.

        Raises
        ------
        TypeError
            If the labels are not numbers or strings.
        """
        check_is_fitted(self)
        facts: dict[str, Any] = {}
        if isinstance(self.task_, TaxonomyTask):
            facts["tree"] = self.task_.tree.parents.tolist()
        if isinstance(self.task_, CodedTask):
            facts["code"] = self.task_.code.tolist()
        if hasattr(self, "link_"):
            facts["link"] = self.link_ and [self.link_.sharpness, self.link_.margin]
        self._save(path, **facts)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a classifier that :meth:`save` wrote.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        classifier : BoostedClassifier
            The fitted classifier, of the class that :meth:`load` is called on.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ModelFileError
            If it is of another class, is damaged, or is of another version.
        """
        classifier, metadata = cls._load(path)
        with MODEL_FORMAT.damage(path):
            classifier.classes_ = saved_classes(metadata)
            classifier.task_ = classifier._saved_task(metadata)
            if dict(classifier.task_.kinds) != dict(classifier.model_.kinds):
                raise DamagedFileError("its model is of other classes")
            if "link" in metadata:  # files of 0.1 have none
                classifier.link_ = saved_link(metadata["link"])
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
        (:class:`structboost.TaxonomyTask`).  Where there are probabilities of the classes, the
        class of least expected cost is predicted.
    """

    taxonomy: Any = None

    def _asks_for_probabilities(self) -> bool:
        is_weighed = self.taxonomy is not None and not self._is_likelihood
        return not is_weighed and super()._asks_for_probabilities()

    @property
    def _is_likelihood(self) -> bool:
        """Whether a likelihood is maximised, which the costs of a taxonomy play no part in."""
        return False

    def _class_costs(self) -> FloatArray | None:
        if isinstance(self.task_, TaxonomyTask) and self._has_probabilities():
            return self.task_.losses
        return None

    def _task(self) -> Task:
        return classification_task(self.classes_.tolist(), self.taxonomy)
