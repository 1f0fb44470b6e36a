"""Trees of trained classifiers, read by the methods of the libraries that trained them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray
from structboost.solvers.priced_cross_entropy import ScoreBlock, scores_of
from structboost.validation import shown

# Difference of probabilities that is rounding in single precision.
_CLOSE = 1e-4
_XGBOOST_LEAF = re.compile(r"(\d+):leaf=(\S+)")


class TreeResponses(NamedTuple):
    """Scores that each tree gives to the classes.

    Parameters
    ----------
    blocks : list of ScoreBlock
        Trees that score a class, with their responses to the rows.
    offset : ndarray, shape (n_classes,)
        Scores without any tree.
    leaves : ndarray of int, shape (n_trees, n_rows), or None
        Index of the leaf that each row reaches.  None if the scores are averaged probabilities, not
        log-odds, so that leaves cannot be changed one by one.
    """

    blocks: list[ScoreBlock]
    offset: FloatArray
    leaves: IntArray | None

    @property
    def scored(self) -> BoolArray:
        """Flags of the classes that each tree scores, shape (n_trees, n_classes)."""
        n_trees = 1 + max(int(block.functions.max()) for block in self.blocks)
        out = np.zeros((n_trees, len(self.offset)), np.bool_)
        for block in self.blocks:
            out[block.functions, block.channel] = True
        return out

    @property
    def probabilities(self) -> FloatArray:
        """Probabilities of the whole model, whose scores are log-odds."""
        return softmax_of(scores_of(self.blocks, np.ones(len(self.scored)), self.offset))


def _responses_of_leaves(
    leaves: IntArray,
    tables: Sequence[AnyArray],
    offset: Any,
    repeats: int = 1,
    averages: bool = False,
) -> TreeResponses:
    """Responses of trees by the values of their leaves, shape (n_leaves, n_classes) or (n_leaves,).

    In the latter case the trees score the classes in turn.  A single score is that of the second of
    two classes.  Leaves of averaged trees cannot be changed.
    """
    offset, blocks = np.asarray(offset, np.float64).ravel(), []
    for score in range(len(offset)):
        of_score = [
            (t, table if table.ndim == 1 else table[:, score])
            for t, table in enumerate(tables)
            if table.ndim > 1 or t // repeats % len(offset) == score
        ]
        values = np.stack([table[leaves[t]] for t, table in of_score]).astype(np.float64)
        trees = np.array([t for t, _ in of_score])
        blocks.append(ScoreBlock(trees, score + (len(offset) == 1), values))
    offset = np.append(0.0, offset) if len(offset) == 1 else offset
    return TreeResponses(blocks, offset, None if averages else leaves)


class LibraryTrees:
    """Trees of a trained classifier whose scores are a sum over trees.

    With the weights 1, offset and responses add up to the scores of the model.  Two classes whose
    trees score only the second have the scores 0 and those.

    Parameters
    ----------
    model : object
        As :func:`structboost.thin` takes it.

    Raises
    ------
    TypeError
        If it is of another kind.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        names = [(cls.__module__.partition(".")[0], cls.__name__) for cls in type(model).__mro__]
        readers = [_READERS[name] for name in sum(names, ()) if name in _READERS]
        if not readers or not hasattr(model, "predict_proba"):
            raise TypeError(
                f"model is {shown(model)}; give a fitted classifier of LightGBM, XGBoost, CatBoost "
                "or scikit-learn (RandomForest, ExtraTrees, HistGradientBoosting), such as the "
                "last step of a Pipeline."
            )
        check_is_fitted(model)
        self._read = readers[0]

    def responses(self, X: Any) -> TreeResponses:
        """Responses of all trees to rows in a form that the model takes."""
        return self._read(self._model, X)

    def probabilities(self, X: Any) -> FloatArray:
        """Probabilities that the model itself gives to the classes, shape (n_rows, n_classes)."""
        return np.asarray(self._model.predict_proba(X), np.float64)

    def check(self, responses: TreeResponses, probabilities: FloatArray) -> None:
        """Raise ValueError if probabilities of the model are no softmax of its summed trees."""
        expected = probabilities if responses.leaves is None else responses.probabilities
        if expected.shape != probabilities.shape or (
            np.abs(expected - probabilities).max(initial=0.0) > _CLOSE
        ):
            raise ValueError(
                f"model is {shown(self._model)}, whose probabilities are no softmax of the sum of "
                "its trees; give one that was trained by the log-loss of two or more classes, "
                "without linear leaves, or averaged or weighted trees."
            )


def _lightgbm(model: Any, X: Any) -> TreeResponses:
    booster = model.booster_
    names = booster.feature_name()
    columns = [str(name).replace(" ", "_") for name in getattr(X, "columns", ())]
    if columns != names and sorted(columns) == sorted(names):
        raise ValueError(
            f"X has the columns {shown(columns)}, and the model was trained on {shown(names)}; "
            "give them in the order of training, which LightGBM takes for granted."
        )
    n_rounds = booster.best_iteration
    n_rounds = n_rounds if n_rounds > 0 else booster.current_iteration()
    per = booster.num_model_per_iteration()
    leaves = np.asarray(model.predict(X, pred_leaf=True, num_iteration=n_rounds), np.int64)
    leaves = leaves.reshape(-1, per * n_rounds).T
    # Scores of two classes are log-odds once they are multiplied by this.
    sigmoid = re.search(r"sigmoid:(\S+)", booster.dump_model(num_iteration=1)["objective"])
    factor = float(sigmoid[1]) if sigmoid and per == 1 else 1.0
    tables = [
        factor * np.array([booster.get_leaf_output(tree, k) for k in range(reached.max() + 1)])
        for tree, reached in enumerate(leaves)
    ]
    return _responses_of_leaves(leaves, tables, np.zeros(per))


def _xgboost(model: Any, X: Any) -> TreeResponses:
    booster = model.get_booster()
    if booster.attr("best_iteration"):
        # Rounds after the best one take no part in predictions of a classifier.
        booster = booster[: int(booster.attr("best_iteration")) + 1]
    margins = np.asarray(model.predict(X, output_margin=True), np.float64)
    margins = margins.reshape(len(margins), -1)
    leaves = np.asarray(model.apply(X), np.int64).reshape(len(margins), -1).T
    tables = []
    for reached, text in zip(leaves, booster.get_dump(), strict=True):
        values = dict(_XGBOOST_LEAF.findall(text))
        tables.append(np.array([float(values.get(str(k), 0)) for k in range(reached.max() + 1)]))
    n_scores = margins.shape[1]
    repeats = len(tables) // (n_scores * booster.num_boosted_rounds())
    of_trees = _responses_of_leaves(leaves[:, :1], tables, np.zeros(n_scores), repeats)
    base = margins[0] - [block.scores.sum() for block in of_trees.blocks]
    return _responses_of_leaves(leaves, tables, base, repeats)


def _catboost(model: Any, X: Any) -> TreeResponses:
    leaves = np.asarray(model.calc_leaf_indexes(X), np.int64).T
    scale, bias = model.get_scale_and_bias()
    ends = np.cumsum(model.get_tree_leaf_counts())
    table = scale * np.asarray(model.get_leaf_values(), np.float64).reshape(ends[-1], -1)
    offset = np.resize(bias, table.shape[1])
    table = table[:, 0] if len(offset) == 1 else table
    return _responses_of_leaves(leaves, np.split(table, ends[:-1]), offset)


def _forest(model: Any, X: Any) -> TreeResponses:
    if model.n_outputs_ > 1:
        raise ValueError(
            f"model predicts {model.n_outputs_} outputs at once; give a forest of one output."
        )
    tables = [tree.tree_.value[:, 0] / len(model.estimators_) for tree in model.estimators_]
    return _responses_of_leaves(model.apply(X).T, tables, np.zeros(model.n_classes_), averages=True)


def _histogram_boosting(model: Any, X: Any) -> TreeResponses:
    trees = [tree for of_round in model._predictors for tree in of_round]
    # Nodes have their index as the value, which each iteration adds to the scores.
    indexed = deepcopy(model)
    indexed._baseline_prediction[:] = 0.0
    for of_round in indexed._predictors:
        for tree in of_round:
            tree.nodes["value"] = np.arange(len(tree.nodes))
    shape = len(model._predictors), -1, len(trees) // len(model._predictors)
    stages = np.reshape([*indexed.staged_decision_function(X)], shape).swapaxes(1, 2)
    leaves = np.diff(stages, axis=0, prepend=0.0).astype(np.int64).reshape(len(trees), -1)
    tables = [tree.nodes["value"] for tree in trees]
    return _responses_of_leaves(leaves, tables, model._baseline_prediction)


_READERS = {
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
    "RandomForestClassifier": _forest,
    "ExtraTreesClassifier": _forest,
    "HistGradientBoostingClassifier": _histogram_boosting,
}


def softmax_of(scores: FloatArray) -> FloatArray:
    """Probabilities by a softmax of the scores."""
    return np.asarray(softmax(scores, axis=1))
