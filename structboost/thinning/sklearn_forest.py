"""Trees of the random forests and extremely randomised trees of scikit-learn."""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray
from structboost.thinning.leaf_refit import LeafAdditions
from structboost.thinning.tree_model import TreeResponses, class_of_name

_NAMES = ("RandomForestClassifier", "ExtraTreesClassifier")


class ForestTrees:
    """Trees of a forest, whose scores are its averaged probabilities.

    The forest that is written averages the trees with their weights.  Its probabilities are these
    averages, and its labels those of the largest weighted sum.
    """

    def __init__(self, model: Any) -> None:
        check_is_fitted(model)
        if model.n_outputs_ > 1:
            raise ValueError(
                f"model predicts {model.n_outputs_} outputs at once; give a forest of one output."
            )
        self._model = model
        self.classes = np.asarray(model.classes_)
        self.n_trees = len(model.estimators_)

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether it is a forest of scikit-learn."""
        return class_of_name(model, _NAMES)

    def responses(self, X: Any) -> TreeResponses:
        """Responses as the probabilities of each tree, over the number of trees."""
        rows = self._model._validate_X_predict(X)
        values = [tree.predict_proba(rows, check_input=False) for tree in self._model.estimators_]
        return TreeResponses(np.stack(values) / self.n_trees, None, None, None)

    def probabilities(self, X: Any) -> FloatArray:
        """Probabilities that the forest predicts."""
        return np.asarray(self._model.predict_proba(X), np.float64)

    def rewritten(
        self, weights: FloatArray, offset: FloatArray, additions: LeafAdditions | None
    ) -> Any:
        """Make a forest of the trees, whose leaves hold weighted probabilities."""
        model = copy(self._model)
        chosen = np.flatnonzero(weights > 0)
        factors = weights[chosen] / weights[chosen].mean()
        # Averages of such probabilities may exceed 1 by rounding.
        factors *= 1.0 - 2.0 * len(chosen) * np.finfo(np.float64).eps
        model.estimators_ = [
            _scaled(self._model.estimators_[index], factor)
            for index, factor in zip(chosen.tolist(), factors.tolist(), strict=True)
        ]
        model.n_estimators = len(chosen)
        return model


def _scaled(tree: Any, factor: float) -> Any:
    copied = deepcopy(tree)
    # A view of the values that the compiled tree reads.
    copied.tree_.value[:] *= factor
    return copied
