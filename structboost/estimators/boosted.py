"""scikit-learn faces of the trainer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from structboost.boosting import Callback, StructBoost
from structboost.early_stopping import EarlyStopping
from structboost.ensemble import Ensemble
from structboost.estimators.classes import classification_examples, classification_task, decision_of, labels_of
from structboost.exceptions import ModelFileError
from structboost.model_file import load_model
from structboost.task import Task
from structboost.tasks import RankingTask


class _StructBoostEstimator(BaseEstimator):
    """What the scikit-learn faces of :class:`StructBoost` share: parameters and the fitted model."""

    def __init__(
        self,
        *,
        C: float = 100.0,
        tol: float = 0.01,
        max_rounds: int = 200,
        weak_learner: str = "stump",
        formulation: str = "one_slack",
        stabilize: bool = True,
        exact: bool = False,
        pricing: str = "own",
        columns_per_channel: int = 5,
        spread: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        self.C = C
        self.tol = tol
        self.max_rounds = max_rounds
        self.weak_learner = weak_learner
        self.formulation = formulation
        self.stabilize = stabilize
        self.exact = exact
        self.pricing = pricing
        self.columns_per_channel = columns_per_channel
        self.spread = spread
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Share of the total weight that falls on stumps of each feature."""
        check_is_fitted(self)
        return self.model_.feature_importances()

    def _trainer(self, task: Task, callbacks: Sequence[Callback], *, early_stopping: bool) -> StructBoost:
        return StructBoost(
            task,
            C=self.C,
            tol=self.tol,
            max_rounds=self.max_rounds,
            weak_learner=self.weak_learner,
            formulation=self.formulation,
            stabilize=self.stabilize,
            exact=self.exact,
            pricing=self.pricing,
            columns_per_channel=self.columns_per_channel,
            spread=0.0 if early_stopping else self.spread,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            callbacks=callbacks,
        )

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


class StructBoostClassifier(ClassifierMixin, _StructBoostEstimator):
    """Binary and multi-class classifier trained by StructBoost (sections 3.1 and 3.3).

    Parameters
    ----------
    C, tol, max_rounds, weak_learner, formulation, stabilize, exact, pricing, columns_per_channel, spread
        As in :class:`structboost.StructBoost`.
    class_weight : dict, "balanced" or None
        Weight of the classes in the mean loss.
    early_stopping : bool
        Whether to hold out a part of the training set, stop when its error has not improved for
        ``n_iter_no_change`` rounds, and keep the best round, without ``spread``.  The certificate then speaks of
        the last round trained.
    validation_fraction : float
        Share that is held out.
    n_iter_no_change : int
    random_state, n_jobs, verbose, callbacks
        As in :class:`structboost.StructBoost`; ``random_state`` also draws the held-out part.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in the order of the columns of :meth:`decision_function`.
    model_ : Ensemble
    history_ : list of dict
        One record a round, with the certificate.
    objective_ : float
    n_iter_ : int
        Rounds in the model.
    feature_importances_ : ndarray, shape (n_features,)
    """

    def __init__(
        self,
        *,
        C: float = 100.0,
        tol: float = 0.01,
        max_rounds: int = 200,
        weak_learner: str = "stump",
        formulation: str = "one_slack",
        stabilize: bool = True,
        exact: bool = False,
        pricing: str = "own",
        columns_per_channel: int = 5,
        spread: float = 0.0,
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        super().__init__(
            C=C,
            tol=tol,
            max_rounds=max_rounds,
            weak_learner=weak_learner,
            formulation=formulation,
            stabilize=stabilize,
            exact=exact,
            pricing=pricing,
            columns_per_channel=columns_per_channel,
            spread=spread,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            callbacks=callbacks,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on a table and its labels.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
        y : array-like, shape (n_samples,)
            Any labels; at least two different ones.
        sample_weight : array-like, shape (n_samples,), optional
            Weight of each sample in the mean loss; samples of weight zero are left out.
        """
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32, np.uint8))
        self.classes_, X, outputs, weights = classification_examples(X, y, sample_weight, self.class_weight)
        task = classification_task(len(self.classes_))
        validation = None
        if self.early_stopping:
            X, held_X, outputs, held, weights, _ = train_test_split(
                X, outputs, weights, test_size=self.validation_fraction, stratify=outputs,
                random_state=self.random_state,
            )  # fmt: skip
            validation = (held_X, held)
        self._train(task, (X, outputs), validation, weights)
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, shape (n_samples, n_classes); shape (n_samples,) for two classes."""
        return decision_of(self._scores(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Label of the highest score."""
        return labels_of(self.decision_function(X), self.classes_)

    def staged_decision_function(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Scores after each round, with the weights of that round."""
        check_is_fitted(self)
        return (decision_of(self._scores(X, model)) for model in self.model_.staged())

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
        self._save(path, classes=self.classes_.tolist(), classes_dtype=self.classes_.dtype.str)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a classifier that :meth:`save` wrote."""
        estimator, metadata = cls._load(path)
        dtype = metadata["classes_dtype"]
        estimator.classes_ = np.array(metadata["classes"], dtype=object if dtype == "|O" else dtype)
        estimator.task_ = classification_task(len(estimator.classes_))
        return estimator


class StructBoostRanker(_StructBoostEstimator):
    """Ranker that optimises the share of pairs in the right order: AUC and ordinal ranking (section 3.2).

    Parameters
    ----------
    C, tol, max_rounds, weak_learner, formulation, stabilize, exact, pricing, columns_per_channel, spread
        As in :class:`structboost.StructBoost`.
    early_stopping, validation_fraction, n_iter_no_change
        As in :class:`StructBoostClassifier`; held out are samples of one query, or whole queries.
    random_state, n_jobs, verbose, callbacks
        As in :class:`structboost.StructBoost`.

    Attributes
    ----------
    model_, history_, objective_, n_iter_, feature_importances_
        As in :class:`StructBoostClassifier`.
    """

    def fit(self, X: Any, y: Any, qid: Any = None) -> Self:
        """Train on items, their relevance and their queries.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
        y : array-like, shape (n_samples,)
            Relevance: larger is better; two levels give the AUC.
        qid : array-like, shape (n_samples,), optional
            Query of each item; only items of one query are compared.  Default: one query.
        """
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32, np.uint8), y_numeric=True)
        queries = _split_queries(y, qid)
        if not any(len(np.unique(y[rows])) > 1 for rows in queries):
            raise ValueError(
                f"y has one level of relevance in every query (n_samples = {len(y)}); ranking needs at least two."
            )
        validation = None
        if self.early_stopping:
            queries, held = self._hold_out(y, queries)
            validation = ([X[rows] for rows in held], [y[rows] for rows in held])
        train = ([X[rows] for rows in queries], [y[rows] for rows in queries])
        self._train(RankingTask(), train, validation, None)
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of items, shape (n_samples,); higher is better."""
        return self._scores(X)[:, 0]

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The same scores."""
        return self.decision_function(X)

    def staged_predict(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Scores after each round, with the weights of that round."""
        check_is_fitted(self)
        return (self._scores(X, model)[:, 0] for model in self.model_.staged())

    def score(self, X: Any, y: Any, qid: Any = None) -> float:
        """Mean share of pairs in the right order, ties counting half: the AUC where y has two levels.

        Queries of one level have no pairs and do not count.
        """
        scores = self.decision_function(X)
        y = column_or_1d(y)
        shares = [
            1.0 - 0.5 * (RankingTask().loss(y[rows], scores[rows]) + _swapped_or_tied(y[rows], scores[rows]))
            for rows in _split_queries(y, qid)
            if len(np.unique(y[rows])) > 1
        ]
        if not shares:
            raise ValueError("y has one level of relevance in every query; there are no pairs to score.")
        return float(np.mean(shares))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the ranker to a file, atomically and without pickle."""
        self._save(path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a ranker that :meth:`save` wrote."""
        estimator, _ = cls._load(path)
        estimator.task_ = RankingTask()
        return estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _hold_out(
        self, y: NDArray[Any], queries: list[NDArray[np.int64]]
    ) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
        """Training and validation queries; a single query is split by items."""
        if len(queries) > 1:
            train, held = train_test_split(queries, test_size=self.validation_fraction, random_state=self.random_state)
            return train, held
        levels, counts = np.unique(y, return_counts=True)
        stratify = y[queries[0]] if len(levels) < len(y) // 2 and counts.min() > 1 else None
        rows, held_rows = train_test_split(
            queries[0], test_size=self.validation_fraction, random_state=self.random_state, stratify=stratify
        )
        return [rows], [held_rows]


def _split_queries(y: NDArray[Any], qid: Any) -> list[NDArray[np.int64]]:
    """Rows of each query, queries in the order of their ids."""
    if qid is None:
        return [np.arange(len(y))]
    ids = column_or_1d(qid)
    if len(ids) != len(y):
        raise ValueError(f"qid has {len(ids)} entries for {len(y)} samples; give one for each.")
    order = np.argsort(ids, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(np.unique(ids, return_inverse=True)[1][order])) + 1)


def _swapped_or_tied(y: NDArray[Any], scores: NDArray[np.float64]) -> float:
    """Share of pairs that are not strictly in the right order."""
    return 1.0 - RankingTask().loss(y, -scores)
