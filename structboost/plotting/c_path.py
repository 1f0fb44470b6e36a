"""Plot of the path over C of a fit with ``C="auto"``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Self

import numpy as np

from structboost.runtime.described import Described
from structboost.runtime.extras import pyplot
from structboost.validation import (
    check_axes,
    check_estimator,
    checked_records,
    checked_regularisation,
    checked_text_or_none,
)

# Measurements by which C is chosen, the first that a path has, and the names of those of the folds.
_CRITERIA = {"score": "scores", "surrogate": "surrogates", "loss": "losses"}


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

    def __init__(self, path: Sequence[Mapping[str, Any]], C: float) -> None:
        needed = "C", "weak_learner", "columns"
        if not len(checked_records(path, "path", "estimator.C_path_", needed)):
            raise ValueError("path is empty: no weak learner had an edge, so no C was tried.")
        self.path = path
        self.C = checked_regularisation(C, "C")

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, name: str | None = None) -> Self:
        """Plot the path of a trainer or estimator that was fitted with ``C="auto"``.

        Parameters
        ----------
        estimator : fitted trainer or estimator
            Anything with ``C_path_`` and ``C_``.
        ax : pair of matplotlib Axes, optional
            For the measurement and for the number of columns.
        name : str, optional
            Title.

        Raises
        ------
        ValueError
            If the estimator has no path, because it is not fitted or C is a number.
        """
        check_estimator(estimator, "C_path_")
        if not hasattr(estimator, "C_path_"):
            raise ValueError(
                f"This {type(estimator).__name__} has no C_path_; call fit with C='auto' first."
            )
        return cls(estimator.C_path_, estimator.C_).plot(ax=ax, name=name)

    def plot(self, *, ax: Any = None, name: str | None = None) -> Self:
        """Draw the path, into ``ax`` if it is not None."""
        plt = pyplot("CPathDisplay")

        checked_text_or_none(name, "name")
        check_axes(ax, 2)
        if ax is None:
            _, ax = plt.subplots(
                2, 1, sharex=True, figsize=(5.0, 4.4), layout="constrained", height_ratios=(2, 1)
            )
        above, below = ax
        criterion = next((name for name in _CRITERIA if name in self.path[0]), "loss")
        paths = [
            list(entries) for _, entries in groupby(self.path, lambda entry: entry["weak_learner"])
        ]
        for i, path in enumerate(paths):
            Cs = [entry["C"] for entry in path]
            folds = np.array([entry[_CRITERIA[criterion]] for entry in path])
            if folds.shape[1] > 1:
                above.plot(Cs, folds, color=f"C{i}", alpha=0.35, linewidth=0.8)
            label = "mean of the folds" if folds.shape[1] > 1 else "held-out part"
            if len(paths) > 1:
                label = f"{path[0]['weak_learner']}, {label}"
            marked = {"color": f"C{i}", "marker": "o", "markersize": 4}
            above.plot(Cs, [entry[criterion] for entry in path], label=label, **marked)
            below.plot(Cs, [entry["columns"] for entry in path], **marked)
        for axes in (above, below):
            axes.axvline(self.C, color="0.4", linestyle=":", label=f"chosen: C = {self.C:.3g}")
            axes.grid(alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
        above.set_xscale("log")
        below.set_xscale("log")
        if criterion == "loss":
            above.set_ylim(bottom=0)
        below.set_ylim(bottom=0)
        above.set_ylabel(f"held-out {criterion}")
        below.set_ylabel("columns")
        below.set_xlabel("C")
        above.legend(frameon=False)
        if name is not None:
            above.set_title(name)
        self.ax_ = above, below
        self.figure_ = above.figure
        return self
