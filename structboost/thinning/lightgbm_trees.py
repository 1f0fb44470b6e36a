"""Trees of LightGBM, read from and written to the text of the model."""

from __future__ import annotations

import itertools
import re
from copy import copy
from typing import Any

import numpy as np

from structboost._typing import FloatArray
from structboost.thinning.leaf_refit import LeafAdditions, of_leaves
from structboost.thinning.tree_model import (
    TreeResponses,
    class_of_name,
    in_turns,
    library_of,
    per_class,
    whole_probabilities,
)

_TREE = re.compile(r"^Tree=\d+\n", re.MULTILINE)
_LEAVES = re.compile(r"^leaf_value=(.*)$", re.MULTILINE)
# A tree of one leaf, as LightGBM writes it.
_CONSTANT = "num_leaves=1\nnum_cat=0\nleaf_value={}\nis_linear=0\nshrinkage=1\n\n\n"
_END = "end of trees"


class LightGBMTrees:
    """Trees of a LGBMClassifier or of a Booster whose objective is binary or multiclass."""

    def __init__(self, model: Any) -> None:
        self._model = model
        is_classifier = hasattr(model, "fit")
        # LightGBM raises its error where there is none yet.
        self._booster = model.booster_ if is_classifier else model
        best = self._booster.best_iteration
        self._iterations = best if best > 0 else self._booster.current_iteration()
        text = self._booster.model_to_string(num_iteration=self._iterations)
        starts = [match.start() for match in _TREE.finditer(text)]
        end = text.index(_END)
        self._head, self._tail = text[: starts[0] if starts else end], text[end:]
        bounds = [*starts, end]
        self._trees = [_TREE.sub("", text[a:b], count=1) for a, b in itertools.pairwise(bounds)]
        self._check()
        objective = self._line("objective").split()
        n_per_iteration = int(self._line("num_tree_per_iteration"))
        n_classes = max(2, n_per_iteration)
        self.classes = np.asarray(model.classes_ if is_classifier else np.arange(n_classes))
        self.n_trees = len(self._trees)
        self._n_per_iteration = n_per_iteration
        factors = [float(part[8:]) for part in objective if part.startswith("sigmoid:")]
        # Scores are log-odds once they are multiplied by this.
        self._sharpness = factors[0] if factors and n_per_iteration == 1 else 1.0

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether it is a Booster or an estimator of LightGBM."""
        return library_of(model) == "lightgbm" or (
            class_of_name(model, ("LGBMModel",)) and hasattr(model, "booster_")
        )

    def responses(self, X: Any) -> TreeResponses:
        """Responses as the values of the leaves that rows reach."""
        self._check_columns(X)
        leaves = np.asarray(
            self._model.predict(X, pred_leaf=True, num_iteration=self._iterations), np.int64
        ).reshape(len(X) if not hasattr(X, "shape") else X.shape[0], self.n_trees)
        values = np.empty(leaves.T.shape)
        for index, tree in enumerate(self._trees):
            values[index] = self._sharpness * _leaf_values(tree)[leaves[:, index]]
        per = self._n_per_iteration
        channels = np.arange(self.n_trees) % per if per > 1 else np.ones(self.n_trees, np.int64)
        return TreeResponses(values, channels, np.zeros(len(self.classes)), leaves.T)

    def probabilities(self, X: Any) -> FloatArray:
        """Probabilities by the link of the objective."""
        return whole_probabilities(self.responses(X))

    def rewritten(
        self, weights: FloatArray, offset: FloatArray, additions: LeafAdditions | None
    ) -> Any:
        """Make a model of scaled trees, of which the first of each class has its offset."""
        per = self._n_per_iteration
        channels = np.arange(self.n_trees) % per
        shifts = offset.copy() if per > 1 else np.array([offset[1] - offset[0]])
        shifts /= self._sharpness
        iterations = in_turns(per_class(weights, channels, per), shifts != 0)
        blocks: list[str] = []
        for turn, trees in enumerate(iterations):
            for channel, tree in enumerate(trees):
                shift = float(shifts[channel]) if turn == 0 else 0.0
                block = (
                    _CONSTANT.format(repr(shift))
                    if tree < 0
                    else self._changed(tree, float(weights[tree]), shift, additions)
                )
                blocks.append(f"Tree={len(blocks)}\n{block}")
        sizes = " ".join(str(len(block.encode())) for block in blocks)
        head = re.sub(r"^tree_sizes=.*$", f"tree_sizes={sizes}", self._head, flags=re.MULTILINE)
        text = head + "".join(blocks) + self._tail
        booster = type(self._booster)(model_str=text)
        if booster.__class__ is self._model.__class__:
            return booster
        model = copy(self._model)
        model._Booster, model._best_iteration = booster, 0
        return model

    def _changed(
        self, index: int, factor: float, shift: float, additions: LeafAdditions | None
    ) -> str:
        """Text of a tree whose leaves are multiplied, shifted and changed one by one."""
        tree = self._trees[index]
        before = _leaf_values(tree)
        leaves = factor * before + shift + of_leaves(additions, index, before) / self._sharpness
        values = " ".join(repr(float(value)) for value in leaves)
        return _LEAVES.sub(lambda match: f"leaf_value={values}", tree, count=1)

    def _line(self, name: str) -> str:
        match = re.search(rf"^{name}=(.*)$", self._head, re.MULTILINE)
        return match.group(1) if match else ""

    def _check_columns(self, X: Any) -> None:
        """Raise if a frame has other names than the model, which LightGBM itself ignores."""
        names = self._booster.feature_name()
        columns = [str(name).replace(" ", "_") for name in getattr(X, "columns", ())]
        unnamed = [f"Column_{index}" for index in range(len(names))]
        if columns and names not in (unnamed, columns) and len(columns) == len(names):
            index = next(k for k, name in enumerate(names) if columns[k] != name)
            raise ValueError(
                f"Column {index} of X is {columns[index]!r}, and the model was trained with "
                f"{names[index]!r} there; give the columns in the order of training."
            )

    def _check(self) -> None:
        objective = self._line("objective").split()
        if not objective or objective[0] not in ("binary", "multiclass"):
            raise ValueError(
                f"model has the LightGBM objective {self._line('objective')!r}; give a model of "
                "objective 'binary' or 'multiclass'."
            )
        if re.search(r"^average_output$", self._head, re.MULTILINE):
            raise ValueError(
                "model is a forest of LightGBM (boosting_type='rf'), whose trees are averaged; "
                "give a model of boosting_type 'gbdt', 'dart' or 'goss'."
            )
        if any(re.search(r"^is_linear=1$", tree, re.MULTILINE) for tree in self._trees):
            raise ValueError(
                "model has linear functions in its leaves; give a model without linear_tree=True."
            )


def _leaf_values(tree: str) -> FloatArray:
    match = _LEAVES.search(tree)
    return np.array(match.group(1).split() if match else [0.0], np.float64)
