"""Trees of XGBoost, read from and written to the JSON of the model."""

from __future__ import annotations

import json
from copy import copy, deepcopy
from importlib import import_module
from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.thinning.leaf_refit import LeafAdditions, of_leaves
from structboost.thinning.tree_model import (
    TreeResponses,
    class_of_name,
    in_turns,
    library_of,
    per_class,
    whole_probabilities,
)

_OBJECTIVES = ("binary:logistic", "binary:logitraw", "multi:softprob", "multi:softmax")


class XGBoostTrees:
    """Trees of a XGBClassifier or of a Booster whose objective is binary or multiclass."""

    def __init__(self, model: Any) -> None:
        self._model = model
        is_classifier = hasattr(model, "get_booster")
        booster = model.get_booster() if is_classifier else model
        best = getattr(model, "best_iteration", None) if booster.attr("best_iteration") else None
        # Rounds after the best one take no part in predictions.
        self._booster = booster if best is None else booster[: int(best) + 1]
        self._json = json.loads(self._booster.save_raw("json").decode())
        learner = self._json["learner"]
        self._check(learner)
        self._trees = learner["gradient_booster"]["model"]["trees"]
        self._channels = np.array(learner["gradient_booster"]["model"]["tree_info"], np.int64)
        self._per = max(1, int(learner["learner_model_param"]["num_class"]))
        labels = model.classes_ if is_classifier else np.arange(max(2, self._per))
        self.classes = np.asarray(labels)
        self.n_trees = len(self._trees)
        self._base = self._base_scores()

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether it is a Booster or an estimator of XGBoost."""
        return library_of(model) == "xgboost" or class_of_name(model, ("XGBModel",))

    def responses(self, X: Any) -> TreeResponses:
        """Responses as the values of the leaves that rows reach."""
        leaves = self._leaves(self._matrix(X))
        values = self._leaf_values(leaves)
        if self._per == 1:
            channels = np.ones(self.n_trees, np.int64)
            return TreeResponses(values, channels, np.append(0.0, self._base), leaves)
        return TreeResponses(values, self._channels, self._base, leaves)

    def probabilities(self, X: Any) -> FloatArray:
        """Probabilities that the booster predicts."""
        return whole_probabilities(self.responses(X))

    def rewritten(
        self, weights: FloatArray, offset: FloatArray, additions: LeafAdditions | None
    ) -> Any:
        """Make a model of scaled trees, of which the first of each class has its offset."""
        per = self._per
        shifts = (offset if per > 1 else np.array([offset[1] - offset[0]])) - self._base
        iterations = in_turns(per_class(weights, self._channels, per), shifts != 0)
        trees: list[Any] = []
        for turn, row in enumerate(iterations):
            for channel, index in enumerate(row):
                factor = float(weights[index]) if index >= 0 else 0.0
                shift = float(shifts[channel]) if turn == 0 else 0.0
                trees.append(
                    _changed(self._trees[index], factor, shift, len(trees), index, additions)
                )
        document = {**self._json, "learner": deepcopy(self._json["learner"])}
        of_trees = document["learner"]["gradient_booster"]["model"]
        of_trees["trees"] = trees
        of_trees["tree_info"] = list(range(per)) * len(iterations)
        of_trees["iteration_indptr"] = list(range(0, len(trees) + 1, per))
        of_trees["gbtree_model_param"].update(num_trees=str(len(trees)), num_parallel_tree="1")
        document["learner"]["attributes"] = {
            name: value
            for name, value in document["learner"].get("attributes", {}).items()
            if name not in ("best_iteration", "best_score")
        }
        booster = type(self._booster)(model_file=bytearray(json.dumps(document).encode()))
        if booster.__class__ is self._model.__class__:
            return booster
        model = copy(self._model)
        model._Booster = booster
        return model

    def _matrix(self, X: Any) -> Any:
        """Make the matrix of rows that boosters take, with the class of the user's library."""
        xgboost = import_module(type(self._booster).__module__.partition(".")[0])
        is_frame = hasattr(X, "dtypes") and hasattr(X, "columns")
        members = (
            {}
            if is_frame
            else {
                "feature_names": self._booster.feature_names,
                "feature_types": self._booster.feature_types,
            }
        )
        missing = getattr(self._model, "missing", np.nan)
        return xgboost.DMatrix(X, missing=missing, enable_categorical=True, **members)

    def _leaves(self, matrix: Any) -> IntArray:
        leaves = self._booster.predict(matrix, pred_leaf=True)
        return np.asarray(leaves, np.int64).reshape(matrix.num_row(), self.n_trees).T

    def _leaf_values(self, leaves: IntArray) -> FloatArray:
        tables = [np.asarray(tree["split_conditions"], np.float64) for tree in self._trees]
        return np.stack([table[leaf] for table, leaf in zip(tables, leaves, strict=True)])

    def _base_scores(self) -> FloatArray:
        """Scores without any tree, which versions of XGBoost store in different ways."""
        matrix = self._matrix(np.zeros((1, self._booster.num_features())))
        values = self._leaf_values(self._leaves(matrix))[:, 0]
        margin = np.asarray(self._booster.predict(matrix, output_margin=True), np.float64).ravel()
        return margin - np.bincount(self._channels, values, self._per)

    def _check(self, learner: Any) -> None:
        self._objective = str(learner["objective"]["name"])
        if self._objective not in _OBJECTIVES:
            raise ValueError(
                f"model has the XGBoost objective {self._objective!r}; give a model of objective "
                "'binary:logistic' or 'multi:softprob'."
            )
        kind = learner["gradient_booster"]["name"]
        if kind != "gbtree":
            raise ValueError(f"model has booster={kind!r}; give a model of booster='gbtree'.")
        if any(
            int(tree["tree_param"].get("size_leaf_vector", 1)) > 1
            for tree in learner["gradient_booster"]["model"]["trees"]
        ):
            raise ValueError(
                "model has trees of several outputs; give one of "
                "multi_strategy='one_output_per_tree'."
            )


def _changed(
    tree: Any, factor: float, shift: float, index: int, before: int, additions: LeafAdditions | None
) -> Any:
    """Copy a tree with changed leaves, or its root as a leaf for the factor 0.

    ``index`` is that of the copy, and ``before`` that of the tree in the whole model.
    """
    copied = deepcopy(tree)
    copied["id"] = index
    if not factor:
        for name, value in copied.items():
            if name.startswith("categories"):
                copied[name] = []
            elif isinstance(value, list) and value:
                copied[name] = value[:1]
        copied["tree_param"]["num_nodes"] = "1"
        copied["left_children"], copied["right_children"] = [-1], [-1]
        copied["split_conditions"], copied["base_weights"] = [shift], [shift]
        copied["split_indices"], copied["split_type"], copied["default_left"] = [0], [0], [0]
        return copied
    is_leaf = np.array(copied["left_children"]) == -1
    values = np.array(copied["split_conditions"], np.float64)
    values = np.where(
        is_leaf, factor * values + shift + of_leaves(additions, before, values), values
    )
    copied["split_conditions"] = values.tolist()
    weights = np.array(copied["base_weights"], np.float64)
    weights[is_leaf] = values[is_leaf]
    copied["base_weights"] = weights.tolist()
    return copied
