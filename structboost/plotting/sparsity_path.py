"""Plot of the error against the number of weak learners, along the rounds of one fit."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import IntArray
from structboost.runtime.described import Described
from structboost.runtime.extras import pyplot
from structboost.validation import (
    check_axes,
    check_estimator,
    check_inputs,
    check_sequence,
    checked_array,
    checked_text_or_none,
    shown,
)


class SparsityPathDisplay(Described):
    """Error against sparsity, along the rounds of one fit.

    Create it by :meth:`from_estimator`, like scikit-learn's Displays.  The points are the models of
    ``staged_predict``.

    Parameters
    ----------
    n_learners : array-like of int, shape (n_stages,)
        Number of different weak learners in the model after each round, without constants.
    errors : array-like, shape (n_stages,)
        Error in 0..1.
    name : str, optional
        Label of the line.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import SparsityPathDisplay, ShareBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ShareBoostClassifier(max_rounds=3).fit(X, y)
    >>> SparsityPathDisplay.from_estimator(model, X, y).errors.shape
    (3,)
    """

    def __init__(
        self, n_learners: ArrayLike, errors: ArrayLike, *, name: str | None = None
    ) -> None:
        counts = checked_array(n_learners, "n_learners")
        if counts.size and not ((counts >= 0) & (counts < 1 << 62) & (counts % 1 == 0)).all():
            raise ValueError(f"n_learners is {shown(n_learners)}; give whole numbers from 0.")
        self.n_learners = counts.astype(np.int64)
        self.errors = checked_array(errors, "errors").astype(np.float64)
        self.name = checked_text_or_none(name, "name")
        shape = self.n_learners.shape
        if shape != self.errors.shape or len(shape) != 1 or not len(self.errors):
            raise ValueError(
                f"n_learners has shape {self.n_learners.shape} and errors {self.errors.shape}; "
                "give one value per stage."
            )

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, ax: Any = None
    ) -> Self:
        """Plot the errors of a fitted classifier on ``X`` and ``y``.

        Parameters
        ----------
        estimator : fitted classifier
            Fitted classifier with ``model_`` and ``staged_predict``.
        X : array-like, shape (n_samples, n_features)
            Test samples.
        y : array-like, shape (n_samples,)
            True labels.
        name : str, optional
            Label of the line.
        ax : matplotlib Axes, optional
            Axes to draw into.

        Raises
        ------
        ValueError
            If the estimator is not fitted, or ``X`` and ``y`` differ in length.
        """
        check_estimator(estimator, "model_")
        if not hasattr(estimator, "model_"):
            raise ValueError(f"This {type(estimator).__name__} is not fitted yet; call fit first.")
        check_inputs(X)
        check_sequence(y, "y", "give a list of labels")
        labels = np.asarray(y)
        if len(labels) != len(X):
            raise ValueError(
                f"X has {len(X)} samples and y {len(labels)}; they must be equally many."
            )
        errors = [float(np.mean(predicted != labels)) for predicted in estimator.staged_predict(X)]
        return cls(_sizes(estimator.model_), errors, name=name).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the curve, into ``ax`` if it is not None."""
        plt = pyplot("SparsityPathDisplay")

        check_axes(ax)
        if ax is None:
            _, ax = plt.subplots(figsize=(5.0, 3.4), layout="constrained")
        (self.line_,) = ax.plot(self.n_learners, 100 * self.errors, "o-", label=self.name)
        self.line_.set(markersize=3, linewidth=1.2)
        ax.set(xlabel="weak learners in the model", ylabel="error, %")
        ax.set_ylim(bottom=0)
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
        if self.name is not None:
            ax.legend(frameon=False)
        self.ax_ = ax
        self.figure_ = ax.figure
        return self


def _sizes(model: Any) -> IntArray:
    """Count the learners with a weight after each round, without constants."""
    looks = {
        kind: member.learners.feature_shares(member.n_features).any(axis=1)
        for kind, member in model.members.items()
    }
    return np.array(
        [
            sum(int((stage.matrix(kind).any(axis=1) & looks[kind]).sum()) for kind in looks)
            for stage in model.staged()
        ]
    )
