"""Trees of CatBoost, read from and written to the JSON of the model."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from structboost._typing import FloatArray
from structboost.thinning.leaf_refit import LeafAdditions, of_leaves
from structboost.thinning.tree_model import TreeResponses, class_of_name, library_of

_LOSSES = ("Logloss", "CrossEntropy", "MultiClass")


class CatBoostTrees:
    """Trees of a CatBoostClassifier or a CatBoost, each of which scores all classes."""

    def __init__(self, model: Any) -> None:
        if not model.is_fitted():
            raise ValueError("model is not fitted; call its fit first.")
        self._model = model
        loss = str(model.get_all_params().get("loss_function", ""))
        if loss not in _LOSSES:
            raise ValueError(
                f"model has the CatBoost loss {loss!r}; give a model of loss 'Logloss' or "
                "'MultiClass'."
            )
        if len(model.get_cat_feature_indices()) or len(model.get_text_feature_indices()):
            raise ValueError(
                "model has columns of categories or text, which the JSON of CatBoost does not "
                "restore; give a model of numbers, or thin a list of callables."
            )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.json")
            model.save_model(str(path), format="json")
            self._json = json.loads(path.read_text())
        self._trees = self._json.get("oblivious_trees")
        if self._trees is None:
            raise ValueError(
                "model has trees of grow_policy 'Depthwise' or 'Lossguide'; give a model of "
                "symmetric trees."
            )
        self.classes = np.asarray(model.classes_)
        self.n_trees = len(self._trees)
        scale, bias = self._json["scale_and_bias"]
        self._scale, self._bias = float(scale), np.atleast_1d(np.asarray(bias, np.float64))
        self._per = len(self._bias)

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether it is a model of CatBoost."""
        return library_of(model) == "catboost" or class_of_name(model, ("CatBoost",))

    def responses(self, X: Any) -> TreeResponses:
        """Responses as the values of the leaves that rows reach."""
        leaves = np.asarray(self._model.calc_leaf_indexes(X), np.int64)
        tables = [
            self._scale * np.asarray(tree["leaf_values"], np.float64).reshape(-1, self._per)
            for tree in self._trees
        ]
        values = np.stack([table[leaves[:, index]] for index, table in enumerate(tables)])
        if self._per == 1:
            channels = np.ones(self.n_trees, np.int64)
            return TreeResponses(values[:, :, 0], channels, np.append(0.0, self._bias), leaves.T)
        return TreeResponses(values, None, self._bias, leaves.T)

    def probabilities(self, X: Any) -> FloatArray:
        """Probabilities that the model predicts."""
        # Unlike predict_proba, the base class has it, too.
        return np.asarray(self._model.predict(X, prediction_type="Probability"), np.float64)

    def rewritten(
        self, weights: FloatArray, offset: FloatArray, additions: LeafAdditions | None
    ) -> Any:
        """Make a model of the trees with scaled leaves, and the offset as the bias."""
        trees = []
        for index in np.flatnonzero(weights > 0).tolist():
            before = np.asarray(self._trees[index]["leaf_values"], np.float64)
            before = before.reshape(-1, self._per)
            added = of_leaves(additions, index, before) / self._scale
            leaves = (float(weights[index]) * before + added).ravel()
            trees.append({**self._trees[index], "leaf_values": leaves.tolist()})
        bias = offset if self._per > 1 else np.array([offset[1] - offset[0]])
        document = {
            **self._json,
            "oblivious_trees": trees,
            "scale_and_bias": [self._scale, bias.tolist()],
        }
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.json")
            path.write_text(json.dumps(document))
            model = type(self._model)()
            model.load_model(str(path), format="json")
        # A model that was read from a file has no importances until they are set.
        model._prediction_values_change = model.get_feature_importance()
        return model
