"""Ranker that trains StructBoost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any, Self

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import column_or_1d

from structboost._typing import AnyArray, FloatArray, IntArray, override
from structboost.contract.task import Task
from structboost.errors import TaskError, on_example, warn_user
from structboost.faces.base import estimator, facts_of_fit, fit_of_facts
from structboost.faces.labels import check_lengths, label_vector
from structboost.faces.objectives import (
    Objectives,
    checked_parameters,
    named_learners,
    recipe_of,
)
from structboost.faces.recipe import Examples, Problem, Recipe
from structboost.faces.tables import TableFace, read_as_training, restore_columns
from structboost.objectives.stage_wise import StageWiseRanking
from structboost.runtime.fitted_state import committed
from structboost.selection.folds import Fold, random_folds, split_rows
from structboost.selection.held_out import Score
from structboost.tasks.ranking import RankingTask, WeightedRelevance
from structboost.validation import (
    array_of,
    check_finite,
    check_relevance,
    checked_weights,
    group_indices_by_name,
    is_same,
    numeric_weights,
    shown,
)

# Stumps learn less per round than trees.
_SHRINKAGE_OF_STUMPS = 0.3


@estimator(Objectives)
class StructBoostRanker(TableFace):
    """Ranker that optimises the fraction of pairs in the right order (section 3.2).

    With two levels of relevance, this fraction is the AUC.

    By default it boosts trees stage-wise on the exponential loss of the pairs of a query
    (:class:`structboost.objectives.StageWiseRanking`), each round on half of the items, which needs
    no C and has no certificate (docs/decisions.md).  The weight of a pair is the
    difference of its gains ``2^y - 1``, if all relevances are whole numbers from 0 to 30.
    ``objective="hinge"`` minimises the hinge of ``loss`` over stumps, to a certified gap.  Engines
    of several processes need it.

    Parameters
    ----------
    objective : {"pairwise", "hinge", "svm"} or Formulation
        Function that is minimised.  ``"pairwise"``: the exponential loss of the pairs, by
        stage-wise boosting, without a certificate.  ``"hinge"``: C times the mean hinge of ``loss``
        plus the l1 norm of the weights, to a certified gap.  ``"svm"``: C times the same plus half
        the squared norm of one linear function.
    loss : {"pairs", "map", "ndcg"} or str
        Loss whose hinge is minimised.  ``"pairs"``: the fraction of pairs in the wrong order.
        ``"ndcg"``: 1 minus the mean normalised discounted gain, with ``"ndcg@10"`` of the first 10
        places.  With two levels of relevance, ``"map"``: 1 minus the mean average precision, and
        ``"capped_recall@10"``: 1 minus the number of relevant items among the first 10 over its
        largest possible value.  Not read by ``objective="pairwise"``.
    early_stopping : bool
        Whether to hold out whole queries, or samples if there is one query, stop when their error
        has not improved for ``n_iter_no_change`` rounds, and keep the best round.  The certificate
        then refers to the last round trained.

    See Also
    --------
    structboost.RankingTask : The task whose loss it takes.
    structboost.StructBoostClassifier : Classifier with the same parameters.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from structboost import StructBoostRanker
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ranker = StructBoostRanker(max_iter=20).fit(X, y)
    >>> ranker.predict(X).shape
    (569,)
    >>> ranker.score(X, y) > 0.9
    True
    """

    objective: Any = field(default="pairwise", kw_only=False)
    loss: str = "pairs"
    monotonic_cst: Any = None

    _objectives = ("pairwise", "hinge", "svm")

    @override
    def _recipe(self) -> Recipe:
        objective = checked_parameters(self)
        if objective.name == "pairwise" and not is_same(self.loss, "pairs"):
            raise ValueError(
                f"loss is {shown(self.loss)}, which objective='pairwise' does not read; leave it "
                f"out, or write objective='hinge', loss={shown(self.loss)}."
            )
        steps = StageWiseRanking()
        if is_same(named_learners(self, objective), "stump"):
            steps = StageWiseRanking(shrinkage=_SHRINKAGE_OF_STUMPS)
        return recipe_of(self, objective, steps)

    @committed
    def fit(
        self,
        X: Any,
        y: Any,
        qid: Any = None,
        sample_weight: Any = None,
        *,
        group: Any = None,
        eval_set: Any = None,
    ) -> Self:
        """Train on items, their relevance and their queries.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Features of the items: array, data frame or sparse matrix.
        y : array-like, shape (n_samples,)
            Relevance as numbers or bool, where larger is better.  Two levels give the AUC.
        qid : array-like, shape (n_samples,), optional
            Query of each item.  Only items of one query are compared.  By default, there is one
            query.
        sample_weight : array-like, shape (n_queries,) or (n_samples,), optional
            Weight of each query in the mean loss, in ascending order of ``qid``.  With one weight
            per item, the weight of a query is the mean over its items, and that of a pair the
            product.
        group : array-like of int, shape (n_queries,), optional
            Number of items of each query, instead of ``qid``, if the items of a query are
            consecutive.
        eval_set : (X, y, qid) or (X, y), optional
            Held-out items, their relevance and their queries, if training has several, which take
            the place of those that ``early_stopping`` draws, and of folds on which C is chosen.

        Raises
        ------
        ValueError, TypeError
            If a parameter or an argument is out of its range, or no query has two levels of
            relevance.
        SolverError
            If a restricted master cannot be solved.
        """
        recipe = self._recipe()
        self._check_held_parameters(eval_set, recipe)
        y = label_vector(y, wanted="a finite number")
        check_relevance(y)
        X, y, recipe = self._read(X, y, recipe, y_numeric=True)
        ids = _query_ids(len(y), qid, group)
        if ids is None:
            warn_user(
                f"qid is None, so the {len(y)} samples are one query, whose pairs all count; give "
                f"the query of each sample, or group=[{len(y)}] if they are one.",
                UserWarning,
            )
        queries = _split_queries(y, ids)
        of_queries, of_items = _ranking_weights(sample_weight, queries, len(y))
        counted = np.flatnonzero(of_queries > 0)
        queries = [queries[q][of_items[queries[q]] > 0] for q in counted]
        of_queries = of_queries[counted]
        if not any(len(np.unique(y[rows])) > 1 for rows in queries):
            raise ValueError(
                f"y has one level of relevance in every query (n_samples = {len(y)}); ranking "
                "needs at least two."
            )
        whole, held, task = None, None, RankingTask(self.loss)
        if eval_set is not None:
            wanted = "(X, y)" if ids is None else "(X, y, qid)"
            with self._held_table(eval_set, recipe, wanted) as (held_X, held_y, *rest):
                held_y = _relevances(held_y, held_X.shape[0])
                held_ids, of_held = (*rest, None)[0], np.ones(len(held_y))
                held_queries = _split_queries(held_y, held_ids)
                held = Examples(*_ranking_examples(held_X, held_y, held_queries, of_held))
                if not _has_pairs(held.Y):
                    raise ValueError("y has one level of relevance in every query.")
                if recipe.objective != "pairwise":
                    _losses(task, held_ids, held_y, held_y, held_queries, of_held)
        elif self.early_stopping:
            whole = Examples(*_ranking_examples(X, y, queries, of_items), of_queries)
            queries, held_queries, of_queries, of_held = self._hold_out(y, queries, of_queries)
            held = Examples(*_ranking_examples(X, y, held_queries, of_items), of_held)
            if recipe.objective != "pairwise":
                # It names a query that the measure does not take.
                _losses(task, ids, y, y, held_queries, of_items)
        with _queries_named(ids, queries):
            examples = Examples(*_ranking_examples(X, y, queries, of_items), of_queries)
            problem = Problem(
                task,
                examples,
                self._folds,
                held,
                whole or examples,
                self._score_of_queries(task),
                self._columns.n_features,
            )
            fitted = recipe.train(problem)
        self._keep(task, fitted)
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """Return the scores of items.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Items with the columns of training.

        Returns
        -------
        scores : ndarray, shape (n_samples,)
            Higher is better.  Only scores within one query are comparable.
        """
        return self._decision(self._scores(X))

    @override
    def _decision(self, scores: FloatArray) -> FloatArray:
        return scores[:, 0]

    def predict(self, X: Any) -> FloatArray:
        """Return the scores of :meth:`decision_function`.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Items with the columns of training.

        Returns
        -------
        scores : ndarray, shape (n_samples,)
            Higher is better.  Only scores within one query are comparable.
        """
        return self.decision_function(X)

    def staged_predict(self, X: Any) -> Iterator[FloatArray]:
        """Iterate over the scores after each round, with the weights of that round.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Items with the columns of training.

        Returns
        -------
        stages : iterator of ndarray, shape (n_samples,)
            One array per round.
        """
        return map(self._decision, self._staged_scores(X))

    def score(
        self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None, *, group: Any = None
    ) -> float:
        """Return the mean over the queries of the measure that ``loss`` names.

        It is 1 minus the loss.  For ``loss="pairs"``, the default, it is the fraction of pairs in
        the right order.  Ties count half, so two levels of relevance give the AUC.  For ``"ndcg"``,
        ``"ndcg@10"``, ``"map"`` and ``"capped_recall@10"`` it is that measure.  Queries of one
        level have no pairs and do not count.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Items with the columns of training.
        y : array-like, shape (n_samples,)
            Relevance of each item, where larger is better.
        qid, sample_weight, group
            As for :meth:`fit`.

        Returns
        -------
        score : float
            From 0 to 1.

        Raises
        ------
        ValueError
            If an argument is out of its range, every query that counts has one level of relevance,
            or a query has relevances or weights that the measure does not take.
        """
        scores = self.decision_function(X)
        y = _relevances(y, len(scores))
        ids = _query_ids(len(y), qid, group)
        queries = _split_queries(y, ids)
        of_queries, of_items = _ranking_weights(sample_weight, queries, len(y))
        queries = [rows[of_items[rows] > 0] for rows in queries]
        has_pairs = np.array([len(np.unique(y[rows])) > 1 for rows in queries])
        counted = np.flatnonzero(has_pairs & (of_queries > 0))
        if not len(counted):
            raise ValueError(
                "y has one level of relevance in every query; there are no pairs to score."
            )
        queries = [queries[q] for q in counted]
        losses = _losses(self.task_, ids, scores, y, queries, of_items)
        return 1.0 - float(np.average(losses, weights=of_queries[counted]))

    @override
    def _facts(self) -> dict[str, Any]:
        return {**facts_of_fit(self), "columns": self._columns.to_plain()}

    def _restore(self, facts: Mapping[str, Any]) -> None:
        restore_columns(self, facts)
        task = RankingTask(self.loss)
        self._keep(task, fit_of_facts(self.model_, facts, task))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _score_of_queries(self, task: Task) -> Score | None:
        """Return a function that applies the user's scorer, if any, to held-out queries."""
        of_query = self._held_out_score(task, _relevance, read_as_training)
        if of_query is None:
            return None

        def score(model: Any, fold: Fold) -> float:
            """Return the mean over the queries."""
            weights = fold.held_weight
            values = [
                of_query(model, replace(fold, held_X=x, held_Y=y, held_weight=None))
                for x, y in zip(fold.held_X, fold.held_Y, strict=True)
            ]
            return float(np.average(values, weights=weights))

        return score

    def _folds(self, examples: Examples) -> list[Fold]:
        X, Y = examples.X, examples.Y
        if len(X) > 1:
            folds = random_folds(X, Y, examples.weights, random_state=self.random_state)
        else:
            folds = self._folds_of_items(X[0], Y[0])
        folds = [fold for fold in folds if _has_pairs(fold.Y) and _has_pairs(fold.held_Y)]
        if not folds:
            raise ValueError(
                "C is 'auto', which holds out queries, or items of the only query, and too few "
                "have two levels of relevance; give C as a number."
            )
        return folds

    def _folds_of_items(self, items: AnyArray, relevance: Any) -> list[Fold]:
        """Return folds of the items of one query."""
        of_items = np.ones(len(items))
        if isinstance(relevance, WeightedRelevance):
            relevance, of_items = relevance
        levels, strata = np.unique(relevance, return_inverse=True)
        if 2 * len(levels) > len(items):
            strata = np.zeros_like(strata)  # grades that hardly repeat
        return [
            Fold(
                *_ranking_examples(items, relevance, [train], of_items), None,
                *_ranking_examples(items, relevance, [held], of_items),
            )
            for train, held in split_rows(strata, self.random_state)
        ]  # fmt: skip

    def _hold_out(
        self, y: AnyArray, queries: list[IntArray], weights: FloatArray
    ) -> tuple[list[IntArray], list[IntArray], FloatArray, FloatArray]:
        """Return training and validation queries, and their weights.

        A single query is split by items.
        """
        if len(queries) > 1:
            train, held, of_train, of_held = train_test_split(
                queries, weights, test_size=self.validation_fraction, random_state=self.random_state
            )
            return train, held, of_train, of_held
        levels, counts = np.unique(y[queries[0]], return_counts=True)
        n_held = math.ceil(self.validation_fraction * len(queries[0]))
        fits = counts.min() > 1 and len(levels) <= n_held <= len(queries[0]) - len(levels)
        stratify = y[queries[0]] if len(levels) < len(y) // 2 and fits else None
        rows, held_rows = train_test_split(
            queries[0],
            test_size=self.validation_fraction,
            random_state=self.random_state,
            stratify=stratify,
        )
        return [rows], [held_rows], weights, weights


def _relevances(y: Any, n_items: int) -> AnyArray:
    """Return the relevance of items as an array, checked."""
    y = label_vector(y, wanted="a finite number")
    check_relevance(y)
    y = column_or_1d(y)
    check_lengths(n_items, len(y))
    check_finite(y)
    return np.asarray(y)


def _ranking_weights(
    sample_weight: Any, queries: list[IntArray], n_items: int
) -> tuple[FloatArray, FloatArray]:
    """Return the weights of the queries and of the items.

    ValueError if there is not one weight for each query or for each item, or a weight is negative
    or not finite.
    """
    if sample_weight is None:
        return np.ones(len(queries)), np.ones(n_items)
    weights = numeric_weights(sample_weight)
    if weights.shape not in ((len(queries),), (n_items,)):
        raise ValueError(
            f"sample_weight has shape {weights.shape}; give a weight for each of the "
            f"{len(queries)} queries, or for each of the {n_items} items."
        )
    weights = checked_weights(weights, len(weights))
    if len(weights) == len(queries):
        return weights, np.ones(n_items)
    return np.array([weights[rows].mean() for rows in queries]), weights


def _ranking_examples(
    X: AnyArray, y: AnyArray, queries: list[IntArray], of_items: FloatArray
) -> tuple[list[AnyArray], list[Any]]:
    """Return inputs and true outputs of queries, with weights if they differ within a query."""
    outputs = []
    for rows in queries:
        w = of_items[rows]
        outputs.append(y[rows] if (w == w[0]).all() else WeightedRelevance(y[rows], w / w.max()))
    return [X[rows] for rows in queries], outputs


def _relevance(Y: Any) -> AnyArray:
    """Return the relevance of the items of a query, without weights."""
    return np.asarray(Y.relevance if isinstance(Y, WeightedRelevance) else Y)


def _has_pairs(outputs: Sequence[Any]) -> bool:
    """Whether the items of any query differ in relevance."""
    return any(len(np.unique(_relevance(y))) > 1 for y in outputs)


def _query_ids(n_items: int, qid: Any, group: Any) -> Any:
    """Return the query of each item, from ``qid`` or ``group``."""
    if group is None:
        return qid
    if qid is not None:
        raise ValueError("qid and group are both set; give one of them.")
    sizes = array_of(group).ravel()
    if sizes.dtype.kind not in "iu" or (sizes < 0).any() or sizes.sum() != n_items:
        raise ValueError(
            f"group is {shown(group)}; give whole numbers that add up to the {n_items} samples."
        )
    return np.repeat(np.arange(len(sizes)), sizes)


@contextmanager
def _queries_named(ids: Any, queries: Sequence[IntArray]) -> Iterator[None]:
    """Name the query of an error by its id, where queries have ids."""
    try:
        yield
    except TaskError as error:
        if error.sample is not None and ids is not None:
            query = np.asarray(ids).ravel()[queries[error.sample][0]]
            error.rename(f"The query {shown(query)}")
        raise


def _losses(
    task: Task,
    ids: Any,
    scores: AnyArray,
    y: AnyArray,
    queries: list[IntArray],
    of_items: FloatArray,
) -> list[float]:
    """Return the loss of the scores of each query."""
    orders, outputs = _ranking_examples(scores, y, queries, of_items)
    with _queries_named(ids, queries):
        return [
            on_example("loss", i, task.loss, *pair)
            for i, pair in enumerate(zip(outputs, orders, strict=True))
        ]


def _split_queries(y: AnyArray, qid: Any) -> list[IntArray]:
    """Return the rows of each query, in the order of the queries' ids."""
    if qid is None:
        return [np.arange(len(y))]
    ids = array_of(qid)
    if ids.shape not in ((len(y),), (len(y), 1)):
        raise ValueError(
            f"qid is {shown(qid)}, of shape {ids.shape}; give one for each of {len(y)} samples."
        )
    ids = ids.ravel()
    indices = group_indices_by_name(ids, "qid")
    order = np.argsort(indices, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(indices[order])) + 1)
