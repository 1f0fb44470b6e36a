"""Result of thinning a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.thinning.leaf_refit import LeafAdditions, added_scores
from structboost.thinning.library_trees import LibraryTrees, scores_of, softmax_of


@dataclass(frozen=True)
class ThinnedModel:
    """Result of :func:`structboost.thin`, which predicts by the trees that are left.

    Attributes
    ----------
    weights : ndarray, shape (n_trees_before,)
        Weight of each tree, before additions to its leaves; 0 for those that were dropped.
    offset : ndarray, shape (n_classes,)
        Scores without any tree.
    thinned : bool
        Whether trees were dropped.  If not, the weights are 1.
    ending : str
        Reason why the path ended where it did, as a sentence.
    objective, bound, gap : float
        Weighted cross-entropy of the weights, a lower bound over all weightings of all trees, and
        their relative gap; NaN if the model was not thinned.
    leaf_gap : float
        Relative gap of the additions to the leaves; NaN if leaves stayed as they were.
    classes_ : ndarray, shape (n_classes,)
        Labels in the order of the scores.
    additions : LeafAdditions or None
        Additions to the scores of the leaves: ``additions.trees[t]`` those of tree t, shape
        (n_leaves, n_classes).  None if leaves stayed as they were.
    C : float
        Weight of the mean cross-entropy against the prices.
    prices : ndarray, shape (n_trees_before,)
        Price of a unit of weight of each tree.
    label_weight : float
        Weight of the labels in the targets; the rest is that of the model's probabilities.
    leaf_label_weight : float
        The same where leaves are fitted anew; NaN if they stayed as they were.
    sharpness : float
        Factor of the scores of the whole model at which its log-loss on the rows is lowest, from
        exp(-4) to exp(4).
    loss_as_it_is : float
        Log-loss of the probabilities that the whole model predicts.
    loss_before : float
        Log-loss of the whole model at its best sharpness.
    loss_change, loss_change_error : float
        Mean over the rows of the log-loss after thinning less that before, where the weights were
        fitted on other rows, and its standard error.
    error_before, error_change, error_change_error : float
        The same for the fraction of wrong labels.
    path : list of dict
        A record for each C: C, trees, loss_change, loss_change_error, error_change,
        error_change_error, gap, leaf_gap.
    """

    weights: FloatArray
    offset: FloatArray
    thinned: bool
    ending: str
    objective: float
    bound: float
    gap: float
    leaf_gap: float
    C: float
    prices: FloatArray
    label_weight: float
    leaf_label_weight: float
    sharpness: float
    loss_as_it_is: float
    loss_before: float
    loss_change: float
    loss_change_error: float
    error_before: float
    error_change: float
    error_change_error: float
    path: list[dict[str, float]]
    additions: LeafAdditions | None = field(repr=False)
    classes_: NDArray[Any]
    _reader: LibraryTrees = field(repr=False)

    @property
    def trees(self) -> IntArray:
        """Indices of the trees that are left."""
        return np.flatnonzero(self.weights > 0)

    @property
    def n_trees(self) -> int:
        """Number of trees that are left."""
        return len(self.trees)

    @property
    def n_trees_before(self) -> int:
        """Number of trees of the whole model."""
        return len(self.weights)

    def decision_function(self, X: Any) -> FloatArray:
        """Scores of the classes, shape (n_rows, n_classes).

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            Rows in a form that the whole model takes.
        """
        responses = self._reader.responses(X)
        scores = scores_of(responses.blocks, self.weights, self.offset)
        if self.additions is None or responses.leaves is None:
            return scores
        return scores + added_scores(self.additions, responses.leaves)

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes by a softmax of the scores.

        If the model was not thinned, these are its own probabilities.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            Rows in a form that the whole model takes.
        """
        if not self.thinned:
            return self._reader.probabilities(X)
        return softmax_of(self.decision_function(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels of largest score, shape (n_rows,).

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            Rows in a form that the whole model takes.
        """
        return np.asarray(self.classes_[self.decision_function(X).argmax(axis=1)])

    def report(self) -> str:
        """Text with the trees, the losses, and what is proved."""
        ending = self.ending[:1].upper() + self.ending[1:]
        lines = [f"{self.n_trees} of {self.n_trees_before} trees. {ending}."]
        if self.thinned:
            lines += [
                f"Log-loss {self.loss_before:.4g} before, at the best sharpness "
                f"({self.loss_as_it_is:.4g} as the model is); change {self.loss_change:+.4f}, "
                f"standard error {self.loss_change_error:.4f}.",
                f"Error {self.error_before:.2%} before; change {self.error_change:+.2%}, standard "
                f"error {self.error_change_error:.2%}.",
                f"No weighting of the {self.n_trees_before} trees has an objective more than "
                f"{self.gap:.2%} below that of these weights, at C = {self.C:.4g} and these "
                "prices.",
            ]
        if self.additions is not None:
            lines.append(
                "Then the leaves of these trees were changed. No other additions to them have an "
                f"objective more than {self.leaf_gap:.2%} lower."
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"ThinnedModel({self.n_trees} of {self.n_trees_before} trees, gap={self.gap:.2g})"
