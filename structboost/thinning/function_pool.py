"""Functions of the user as a model, for which no format is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from structboost._typing import FloatArray
from structboost.learners.pool import repeatable_responses_of
from structboost.thinning.leaf_refit import LeafAdditions
from structboost.thinning.tree_model import TreeResponses, whole_probabilities


class FunctionPool:
    """Callables that score two classes 0 and 1, each by the log-odds of the second."""

    def __init__(self, functions: Any) -> None:
        self._functions = list(functions)
        self.classes = np.array([0, 1])
        self.n_trees = len(self._functions)

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether it is a list of callables."""
        return isinstance(model, list | tuple) and bool(model) and all(map(callable, model))

    def responses(self, X: Any) -> TreeResponses:
        """Responses of the functions."""
        values = repeatable_responses_of(self._functions, X)
        return TreeResponses(values, np.ones(self.n_trees, np.int64), np.zeros(2), None)

    def probabilities(self, X: Any) -> FloatArray:
        """Probabilities by a softmax of the summed responses."""
        return whole_probabilities(self.responses(X))

    def rewritten(
        self, weights: FloatArray, offset: FloatArray, additions: LeafAdditions | None
    ) -> Any:
        """Return None, because functions have no format."""
        return None
