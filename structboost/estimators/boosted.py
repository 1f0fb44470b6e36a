"""scikit-learn faces of the trainer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from structboost.boosting import Callback, StructBoost
from structboost.checkpoint import Checkpoint
from structboost.engines.base import Engine
from structboost.estimators.fitted import BoostedClassifier, BoostedEstimator
from structboost.task import Task
from structboost.tasks.ranking import RankingTask
from structboost.tasks.taxonomy import TaxonomyTask
from structboost.validation import checked_choice
from structboost.weak.label_augmented import LabelAugmented
from structboost.weak.pricing import RULES, PricingRule


class _StructBoostEstimator(BoostedEstimator):
    """The parameters that the classifier and the ranker share."""

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
        engine: str | Engine = "threads",
        n_jobs: int | None = None,
        checkpoint: str | PathLike[str] | Checkpoint | None = None,
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
        self.engine = engine
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.callbacks = callbacks

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
            pricing=self._pricing(task),
            columns_per_channel=self.columns_per_channel,
            spread=0.0 if early_stopping else self.spread,
            random_state=self.random_state,
            engine=self.engine,
            n_jobs=self.n_jobs,
            checkpoint=self.checkpoint,
            verbose=self.verbose,
            callbacks=callbacks,
        )

    def _pricing(self, task: Task) -> str | PricingRule:
        """The pricing rule for ``task``, or its name."""
        return self.pricing


class StructBoostClassifier(BoostedClassifier, _StructBoostEstimator):
    """Binary and multi-class classifier trained by StructBoost (sections 3.1 and 3.3).

    Parameters
    ----------
    C, tol, max_rounds, weak_learner, formulation, stabilize, exact, pricing, columns_per_channel, spread
        As in :class:`structboost.StructBoost`.  With a taxonomy ``pricing`` may also be ``"label_augmented"``: stumps
        on the input augmented with the label code
        (:class:`structboost.weak.label_augmented.LabelAugmented`; StructBoost, end of section 3.4).
    taxonomy : nested lists, parent array or networkx.DiGraph, optional
        Tree whose leaves are the labels: classes share the weak learners of their ancestors, and a wrong class costs
        the height of the first common ancestor (:class:`structboost.TaxonomyTask`).
    class_weight : dict, "balanced" or None
        Weight of the classes in the mean loss.
    early_stopping : bool
        Whether to hold out a part of the training set, stop when its error has not improved for
        ``n_iter_no_change`` rounds, and keep the best round, without ``spread``.  The certificate then speaks of
        the last round trained.
    validation_fraction : float
        Share that is held out.
    n_iter_no_change : int
    random_state, engine, n_jobs, checkpoint, verbose, callbacks
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
        taxonomy: Any = None,
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        random_state: Any = None,
        engine: str | Engine = "threads",
        n_jobs: int | None = None,
        checkpoint: str | PathLike[str] | Checkpoint | None = None,
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
            engine=engine,
            n_jobs=n_jobs,
            checkpoint=checkpoint,
            verbose=verbose,
            callbacks=callbacks,
        )
        self.taxonomy = taxonomy
        self.class_weight = class_weight

    def _pricing(self, task: Task) -> str | PricingRule:
        """The rule for label-augmented data by its name too, which needs the label codes of a taxonomy."""
        if isinstance(self.pricing, PricingRule):
            return self.pricing
        name = checked_choice(self.pricing, "pricing", (*RULES, "label_augmented"))
        if name != "label_augmented":
            return name
        if not isinstance(task, TaxonomyTask):
            raise ValueError("pricing is 'label_augmented', which needs a taxonomy; give taxonomy=.")
        return LabelAugmented()


class StructBoostRanker(_StructBoostEstimator):
    """Ranker that optimises the share of pairs in the right order: AUC and ordinal ranking (section 3.2).

    Parameters
    ----------
    C, tol, max_rounds, weak_learner, formulation, stabilize, exact, pricing, columns_per_channel, spread
        As in :class:`structboost.StructBoost`.
    early_stopping, validation_fraction, n_iter_no_change
        As in :class:`StructBoostClassifier`; held out are samples of one query, or whole queries.
    random_state, engine, n_jobs, checkpoint, verbose, callbacks
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
