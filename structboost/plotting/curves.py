"""Curves of one fit, its convergence, its path over C, and its error by sparsity."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_consistent_length

from structboost._typing import Facts
from structboost.runtime.called_class import Described
from structboost.runtime.registry import pyplot
from structboost.validation import shown


class ConvergenceDisplay(Described):
    """Primal objective, lower bound and relative gap of a fit, by round.

    Create it by :meth:`from_estimator`, like scikit-learn's Displays.

    Parameters
    ----------
    history : sequence of dict
        Records as in ``StructBoost.history_``.

    Attributes
    ----------
    ax_ : tuple of matplotlib Axes
        Objective above, gap below.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import ConvergenceDisplay, StructBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructBoostClassifier(objective="hinge", C=10.0).fit(X, y)
    >>> ConvergenceDisplay.from_estimator(model).ax_[0].get_ylabel()
    'objective'
    """

    def __init__(self, history: Sequence[Facts]) -> None:
        self.history = history

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Plot the convergence of a fitted trainer or estimator.

        Parameters
        ----------
        estimator : object
            Fitted object with ``history_``.
        ax : pair of matplotlib Axes, optional
            For the objective and for the gap.

        Returns
        -------
        display : ConvergenceDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the estimator is not fitted yet.
        """
        check_fitted(estimator, "history_")
        return cls(estimator.history_).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the curves, into ``ax`` if it is not None."""
        if not self.history:
            raise ValueError("history is empty; fit for at least one round.")
        above, below = self.ax_ = new_axes("ConvergenceDisplay", ax, (6.4, 5.6), (1, 1))
        self.figure_ = above.figure
        rounds = [(record["round"], record["primal"]) for record in self.history]
        above.plot(*zip(*rounds, strict=True), color="tab:blue", label="objective of the model")
        bounded = [record for record in self.history if record["bound"] is not None]
        if bounded:
            at, primal, bound, gaps = (
                np.array([record[key] for record in bounded])
                for key in ("round", "primal", "bound", "gap")
            )
            style, label = ":", "lower bound (not certified)"
            if self.history[-1]["certified"]:
                style, label = "-", "lower bound"
            above.plot(at, bound, color="tab:orange", linestyle=style, label=label)
            above.fill_between(at, bound, primal, color="tab:blue", alpha=0.08)
            below.plot(at, 100 * gaps, color="tab:red")
            if gaps.max() > 0:
                below.set_yscale("log")
        else:
            below.text(0.5, 0.5, "no bound", transform=below.transAxes, ha="center", va="center")
        above.set(yscale="log", ylabel="objective")
        above.legend(frameon=False)
        below.set(ylabel="relative gap (%)", xlabel="round")
        below.locator_params(axis="x", integer=True)
        return self


class CPathDisplay(Described):
    """Held-out measurement and number of columns against C, with the C that was chosen.

    The measurement is the one by which C was chosen: the score if ``scoring`` was given, otherwise
    the surrogate of the loss (docs/decisions.md).  A
    union of families has a line for itself and one for each family alone.

    Create it by :meth:`from_estimator`, like scikit-learn's Displays.

    Parameters
    ----------
    path : sequence of dict
        Records as in ``StructBoost.C_path_``.
    C : float
        The C that was chosen.

    Attributes
    ----------
    ax_ : tuple of matplotlib Axes
        Measurement above, columns below.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import CPathDisplay, StructBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructBoostClassifier(objective="hinge", random_state=0).fit(X, y)
    >>> len(CPathDisplay.from_estimator(model).ax_)
    2
    """

    def __init__(self, path: Sequence[Facts], C: float) -> None:
        if not path:
            raise ValueError("path is empty: no weak learner had an edge, so no C was tried.")
        self.path, self.C = path, C

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Plot the path of a trainer or estimator that was fitted with ``C="auto"``.

        Parameters
        ----------
        estimator : fitted trainer or estimator
            Anything with ``C_path_`` and ``C_``.
        ax : pair of matplotlib Axes, optional
            For the measurement and for the number of columns.

        Raises
        ------
        ValueError
            If the estimator has no path, because it is not fitted or C is a number.
        """
        check_fitted(estimator, "C_path_", "has no C_path_; call fit with C='auto' first")
        return cls(estimator.C_path_, estimator.C_).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the path, into ``ax`` if it is not None."""
        above, below = self.ax_ = new_axes("CPathDisplay", ax, (5.0, 4.4), (2, 1))
        self.figure_ = above.figure
        criterion = "score" if "score" in self.path[0] else "surrogate"
        paths = [list(records) for _, records in groupby(self.path, lambda r: r["weak_learner"])]
        for i, path in enumerate(paths):
            Cs, columns, means, folds = (
                np.array([record[key] for record in path])
                for key in ("C", "columns", criterion, f"{criterion}s")
            )
            label = "held-out part"
            if folds.shape[1] > 1:
                label = "mean of the folds"
                above.plot(Cs, folds, color=f"C{i}", alpha=0.35, linewidth=0.8)
            if len(paths) > 1:
                label = f"{path[0]['weak_learner']}, {label}"
            above.plot(Cs, means, "o-", color=f"C{i}", markersize=4, label=label)
            below.plot(Cs, columns, "o-", color=f"C{i}", markersize=4)
        for axis in (above, below):
            axis.axvline(self.C, color="0.4", linestyle=":", label=f"chosen: C = {self.C:.3g}")
            axis.set_xscale("log")
        below.set_ylim(bottom=0)
        above.set_ylabel(f"held-out {criterion}")
        below.set(ylabel="columns", xlabel="C")
        above.legend(frameon=False)
        return self


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
        self, n_learners: Sequence[int], errors: Sequence[float], *, name: str | None = None
    ) -> None:
        self.n_learners, self.errors, self.name = np.asarray(n_learners), np.asarray(errors), name
        check_consistent_length(self.n_learners, self.errors)

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
        check_fitted(estimator, "model_")
        check_consistent_length(X, y)
        labels = np.asarray(y)
        errors = [float(np.mean(predicted != labels)) for predicted in estimator.staged_predict(X)]
        model = estimator.model_
        looks = {
            kind: member.learners.feature_shares(member.n_features).any(axis=1)
            for kind, member in model.members.items()
        }
        sizes = [
            sum((stage.matrix(kind).any(axis=1) & looks[kind]).sum() for kind in looks)
            for stage in model.staged()
        ]
        return cls(sizes, errors, name=name).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the curve, into ``ax`` if it is not None."""
        (ax,) = new_axes("SparsityPathDisplay", ax and [ax], (5.0, 3.4), (1,))
        (self.line_,) = ax.plot(self.n_learners, 100 * self.errors, "o-", label=self.name)
        self.line_.set(markersize=3, linewidth=1.2)
        ax.set(xlabel="weak learners in the model", ylabel="error, %")
        ax.set_ylim(bottom=0)
        if self.name is not None:
            ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def checked_names(names: Any, argument: str, n: int, beginning: str = "") -> list[str]:
    """Return ``n`` names, by default their numbers, or raise ValueError if there are others."""
    listed = [f"{beginning}{k}" for k in range(n)] if names is None else list(names)
    if len(listed) != n:
        raise ValueError(f"{argument} is {shown(names)}; give {n} names.")
    return listed


def check_fitted(
    estimator: Any, attribute: str, remedy: str = "is not fitted yet; call fit first"
) -> None:
    """Raise TypeError or ValueError unless an estimator has an attribute of a fit."""
    if not hasattr(estimator, attribute):
        raise ValueError(f"This {type(estimator).__name__} {remedy}.")


def plain(axis: Any) -> None:
    """Draw a grid behind the curves of an axis, and no frame."""
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def new_axes(
    purpose: str, ax: Any, size: tuple[float, float], heights: Sequence[int]
) -> tuple[Any, ...]:
    """Return the user's axes, or new ones of a size, one below the other."""
    plt = pyplot(purpose)
    if ax is None:
        figure = plt.figure(figsize=size, layout="constrained")
        ax = figure.subplots(len(heights), sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    for axis in ax:
        plain(axis)
    return tuple(ax)
