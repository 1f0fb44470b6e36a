"""Contract of the models that can be thinned, and the readers by the type of the model.

Calls of a run, in this order::

    reader = tree_model_of(model)         by the first reader that takes the model
    reader.responses(X)                   of the rows to weigh the trees on
    reader.rewritten(weights, offset, additions)  once, for the thinned model

A reader imports nothing of the library that trained the model: it uses the methods of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from structboost._typing import FloatArray, IntArray
from structboost.thinning.leaf_refit import LeafAdditions
from structboost.validation import shown


class TreeResponses(NamedTuple):
    """Scores that each tree gives to the classes.

    Parameters
    ----------
    values : ndarray, shape (n_trees, n_rows) or (n_trees, n_rows, n_classes)
        With two axes, a tree scores one class.
    channels : ndarray of int64, shape (n_trees,), or None
        Class that each tree scores; None where each scores all.
    offset : ndarray, shape (n_classes,), or None
        Scores without any tree; None if the format of the model has no place for it.
    leaves : ndarray of int, shape (n_trees, n_rows), or None
        Index of the leaf that each row reaches; None if leaves cannot be changed one by one.
    """

    values: FloatArray
    channels: IntArray | None
    offset: FloatArray | None
    leaves: IntArray | None


class TreeModel(Protocol):
    """Reader of a trained classifier whose scores are a sum over trees.

    With the weights 1, offset and responses add up to the scores of the model.  Two classes whose
    trees score only the second have the scores 0 and those.

    Attributes
    ----------
    classes : ndarray, shape (n_classes,)
        Labels, in the order of the scores.
    n_trees : int
        Trees that take part in predictions.
    """

    classes: NDArray[Any]
    n_trees: int

    def responses(self, X: Any) -> TreeResponses:
        """Responses of all trees to rows.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            Rows in a form that the model takes.
        """

    def probabilities(self, X: Any) -> FloatArray:
        """Probabilities that the model itself gives to the classes, shape (n_rows, n_classes)."""

    def rewritten(
        self, weights: FloatArray, offset: FloatArray, additions: LeafAdditions | None
    ) -> Any:
        """Make the model of the trees of positive weight, in the format of the model.

        Parameters
        ----------
        weights : ndarray, shape (n_trees,)
            Not negative.
        offset : ndarray, shape (n_classes,)
            Scores without any tree.
        additions : LeafAdditions or None
            Additions to the scores of single leaves; None where responses have no leaves.

        Returns
        -------
        model : object or None
            None if the format cannot hold it.  The model that was read stays as it is.
        """


# Readers, in the order in which they are asked; each has ``takes(model)`` and is made of the model.
_READERS = (
    "lightgbm_trees:LightGBMTrees",
    "xgboost_trees:XGBoostTrees",
    "catboost_trees:CatBoostTrees",
    "sklearn_forest:ForestTrees",
    "sklearn_boosting:BoostedTrees",
    "function_pool:FunctionPool",
)


def tree_model_of(model: Any) -> TreeModel:
    """Find the reader of a model.

    Raises
    ------
    TypeError
        If no reader takes it.
    ValueError
        If it is not fitted, or a kind of model whose trees cannot be weighed.
    """
    for name in _READERS:
        module, reader = name.split(":")
        class_ = getattr(import_module(f"structboost.thinning.{module}"), reader)
        if class_.takes(model):
            tree_model: TreeModel = class_(model)
            return tree_model
    if hasattr(model, "steps"):
        raise TypeError(
            f"model is {shown(model)}; give its last step, model[-1], and the rows that the steps "
            "before it make, model[:-1].transform(X)."
        )
    raise TypeError(
        f"model is {shown(model)}; give a fitted classifier of LightGBM, XGBoost, CatBoost or "
        "scikit-learn (RandomForest, ExtraTrees, GradientBoosting, HistGradientBoosting), a "
        "Booster, or a list of callables X -> scores."
    )


def check_is_table(X: Any, name: str, model: Any) -> None:
    """Raise TypeError if an argument is in the format of another library than the model's."""
    library = library_of(X)
    if library in ("lightgbm", "xgboost") or (
        library == "catboost" and library_of(model) != library
    ):
        raise TypeError(
            f"{name} is a {type(X).__name__} of {library}; give the table that it was made from, "
            "an array or a data frame."
        )


def library_of(model: Any) -> str:
    """Name of the package that defines the class of a model."""
    return next(
        (cls.__module__.partition(".")[0] for cls in type(model).__mro__ if cls is not object), ""
    )


def class_of_name(model: Any, names: Sequence[str]) -> bool:
    """Whether a class of one of these names is among the bases of a model's class."""
    return any(cls.__name__ in names for cls in type(model).__mro__)


def per_class(weights: FloatArray, channels: IntArray, n_channels: int) -> list[IntArray]:
    """Trees of positive weight of each class, in their order."""
    chosen = np.flatnonzero(weights > 0)
    return [chosen[channels[chosen] == channel] for channel in range(n_channels)]


def in_turns(trees: Sequence[IntArray], is_shifted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Deal out trees in iterations of one per class.

    Parameters
    ----------
    trees : sequence of ndarray of int
        Trees of each class.
    is_shifted : ndarray of bool, shape (n_classes,)
        Classes that need at least one tree, to hold their offset.

    Returns
    -------
    iterations : ndarray of int64, shape (n_iterations, n_classes)
        -1 stands for a tree of one leaf.
    """
    least = 1 if is_shifted.any() else 0
    out = np.full((max([least, *map(len, trees)]), len(trees)), -1)
    for channel, of_class in enumerate(trees):
        out[: len(of_class), channel] = of_class
    return out


def softmax_of(scores: FloatArray) -> FloatArray:
    """Probabilities by a softmax of the scores."""
    return np.asarray(softmax(scores, axis=1))


def scores_of(responses: TreeResponses, weights: FloatArray, offset: FloatArray) -> FloatArray:
    """Scores of the classes, shape (n_rows, n_classes), at weights of the trees."""
    values, channels = responses.values, responses.channels
    out = np.repeat(offset[None], values.shape[1], axis=0)
    if channels is None:
        return np.asarray(out + np.tensordot(weights, values, 1))
    for channel in np.unique(channels):
        members = channels == channel
        out[:, channel] += weights[members] @ values[members]
    return out


def whole_probabilities(responses: TreeResponses) -> FloatArray:
    """Probabilities of the whole model, whose scores are log-odds."""
    assert responses.offset is not None
    return softmax_of(scores_of(responses, np.ones(len(responses.values)), responses.offset))
