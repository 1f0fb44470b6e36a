"""Trees of the gradient boosting of scikit-learn, by histograms and without."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray, IntArray
from structboost.thinning.leaf_refit import LeafAdditions, of_leaves
from structboost.thinning.tree_model import TreeResponses, class_of_name, in_turns, per_class

_BY_HISTOGRAMS = "HistGradientBoostingClassifier"
_NAMES = (_BY_HISTOGRAMS, "GradientBoostingClassifier")
# Scores of the iterations in training, which the new iterations do not have.
_SCORES = ("train_score_", "validation_score_", "oob_improvement_", "oob_scores_", "oob_score_")


class BoostedTrees:
    """Trees of a boosted classifier of scikit-learn, one per class and iteration."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._by_histograms = class_of_name(model, (_BY_HISTOGRAMS,))
        check_is_fitted(model)
        if getattr(model, "loss", "log_loss") != "log_loss":
            raise ValueError(
                f"model has the loss {model.loss!r}; give a model of the loss 'log_loss'."
            )
        if getattr(model, "init", None) not in (None, "zero"):
            raise ValueError(
                "model starts from an estimator of its own, which has scores for each row; give a "
                "model of init=None or 'zero'."
            )
        self.classes = np.asarray(model.classes_)
        self._per = int(model.n_trees_per_iteration_)
        self._iterations = int(model.n_iter_ if self._by_histograms else model.n_estimators_)
        self.n_trees = self._per * self._iterations

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether it is a boosted classifier of scikit-learn."""
        return class_of_name(model, _NAMES)

    def responses(self, X: Any) -> TreeResponses:
        """Responses as the steps of the scores from iteration to iteration."""
        staged = [
            np.asarray(scores, np.float64).reshape(-1, self._per).T.copy()
            for scores in self._model.staged_decision_function(X)
        ]
        start = self._start()
        values = np.diff(
            np.stack([np.repeat(start[:, None], staged[0].shape[1], 1), *staged]), axis=0
        )
        values = values.reshape(self.n_trees, -1)
        leaves = self._leaves(X)
        if self._per == 1:
            channels = np.ones(self.n_trees, np.int64)
            return TreeResponses(values, channels, np.append(0.0, start), leaves)
        return TreeResponses(values, self._channels(), start, leaves)

    def probabilities(self, X: Any) -> FloatArray:
        """Probabilities that the model predicts."""
        return np.asarray(self._model.predict_proba(X), np.float64)

    def rewritten(
        self, weights: FloatArray, offset: FloatArray, additions: LeafAdditions | None
    ) -> Any:
        """Make a model of scaled trees, of which the first of each class has its offset."""
        shifts = offset if self._per > 1 else np.array([offset[1] - offset[0]])
        shifts = shifts - self._start()
        iterations = in_turns(per_class(weights, self._channels(), self._per), shifts != 0)
        model = copy(self._model)
        for name in _SCORES:
            vars(model).pop(name, None)
        trees = self._model._predictors if self._by_histograms else self._model.estimators_
        rate = 1.0 if self._by_histograms else float(self._model.learning_rate)
        changed = _changed_predictor if self._by_histograms else _changed_tree
        copies = [
            [
                changed(
                    trees[max(index, 0) // self._per][channel],
                    float(weights[index]) if index >= 0 else 0.0,
                    float(shifts[channel]) / rate if turn == 0 else 0.0,
                    partial(_over, rate, additions, index),
                )
                for channel, index in enumerate(row.tolist())
            ]
            for turn, row in enumerate(iterations)
        ]
        if self._by_histograms:
            model._predictors = copies
        else:
            model.estimators_ = np.array(copies, object).reshape(len(copies), self._per)
            model.n_estimators = model.n_estimators_ = len(copies)
        return model

    def _leaves(self, X: Any) -> IntArray:
        """Node that each row reaches in each tree, shape (n_trees, n_rows)."""
        if not self._by_histograms:
            # Its trees were trained without the names of columns, of which scikit-learn would warn.
            rows = np.asarray(X) if hasattr(X, "columns") else X
            reached = np.asarray(self._model.apply(rows), np.int64)
            return np.ascontiguousarray(reached.reshape(len(reached), -1).T)
        model = copy(self._model)
        # Nodes have their index as the value, which each iteration adds to the scores.
        model._predictors = [[_indexed(tree) for tree in row] for row in self._model._predictors]
        before = np.broadcast_to(self._start(), (1, self._per))
        out = []
        for scores in model.staged_decision_function(X):
            after = np.asarray(scores, np.float64).reshape(-1, self._per)
            out.append(np.rint(after - before).astype(np.int64).T)
            before = after
        return np.concatenate(out)

    def _channels(self) -> IntArray:
        return np.arange(self.n_trees) % self._per

    def _start(self) -> FloatArray:
        """Scores before the first tree, shape (n_trees_per_iteration,)."""
        if self._by_histograms:
            return np.asarray(self._model._baseline_prediction, np.float64).reshape(self._per)
        rows = np.zeros((1, self._model.n_features_in_), np.float32)
        return np.asarray(self._model._raw_predict_init(rows), np.float64).reshape(self._per)


def _over(rate: float, additions: LeafAdditions | None, index: int, like: FloatArray) -> FloatArray:
    """Additions to the nodes of a tree whose values are multiplied by the rate."""
    return of_leaves(additions, index, like) / rate


def _indexed(predictor: Any) -> Any:
    """Copy a tree of histograms with the indices of its nodes as their values."""
    copied = copy(predictor)
    copied.nodes = predictor.nodes.copy()
    copied.nodes["value"] = np.arange(len(copied.nodes))
    return copied


def _changed_predictor(
    predictor: Any, factor: float, shift: float, added: Callable[[FloatArray], FloatArray]
) -> Any:
    """Copy a tree of histograms with changed leaves, or its root as a leaf for the factor 0."""
    copied = copy(predictor)
    copied.nodes = predictor.nodes.copy() if factor else predictor.nodes[:1].copy()
    if not factor:
        copied.nodes["is_leaf"] = True
        copied.nodes["value"] = shift
        return copied
    values = copied.nodes["value"]
    copied.nodes["value"] = factor * values + shift + added(values)
    return copied


def _changed_tree(
    tree: Any, factor: float, shift: float, added: Callable[[FloatArray], FloatArray]
) -> Any:
    copied = deepcopy(tree)
    values = copied.tree_.value
    values[:] = factor * values + shift + (added(values) if factor else 0.0)
    return copied
