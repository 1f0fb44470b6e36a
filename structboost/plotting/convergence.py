"""Plot of a fit's primal value, lower bound and gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from structboost.runtime.described import Described
from structboost.runtime.extras import pyplot
from structboost.validation import (
    check_axes,
    check_estimator,
    checked_choice,
    checked_records,
    checked_text_or_none,
)


class ConvergenceDisplay(Described):
    """Primal objective, lower bound and relative gap of a fit, by round or by time.

    Create it by :meth:`from_estimator` or :meth:`from_history`, like scikit-learn's Displays.

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

    def __init__(self, history: Sequence[Mapping[str, Any]]) -> None:
        self.history = checked_records(
            history, "history", "trainer.history_", ("primal", "bound", "gap", "certified")
        )

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, x: str = "round", name: str | None = None
    ) -> Self:
        """Plot the convergence of a fitted trainer or estimator.

        Parameters
        ----------
        estimator : object
            Fitted object with ``history_``.
        ax, x, name
            As for :meth:`plot`.

        Returns
        -------
        display : ConvergenceDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the estimator is not fitted yet.
        """
        check_estimator(estimator, "history_")
        if not hasattr(estimator, "history_"):
            raise ValueError(f"This {type(estimator).__name__} is not fitted yet; call fit first.")
        return cls.from_history(estimator.history_, ax=ax, x=x, name=name)

    @classmethod
    def from_history(
        cls,
        history: Sequence[Mapping[str, Any]],
        *,
        ax: Any = None,
        x: str = "round",
        name: str | None = None,
    ) -> Self:
        """Plot the records of a fit.

        Parameters
        ----------
        history : sequence of dict
            Records as in ``history_``.
        ax, x, name
            As for :meth:`plot`.

        Returns
        -------
        display : ConvergenceDisplay
            The display, drawn.
        """
        return cls(history).plot(ax=ax, x=x, name=name)

    def plot(self, *, ax: Any = None, x: str = "round", name: str | None = None) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : pair of matplotlib Axes, optional
            For the objective and for the gap.
        x : {"round", "seconds"}
            Unit of the horizontal axis.
        name : str, optional
            Title.
        """
        plt = pyplot("ConvergenceDisplay")
        from matplotlib.ticker import MaxNLocator

        if not self.history:
            raise ValueError("history is empty; fit for at least one round.")
        checked_records(
            self.history, "history", "trainer.history_",
            (checked_choice(x, "x", ("round", "seconds")),),
        )  # fmt: skip
        checked_text_or_none(name, "name")
        check_axes(ax, 2)
        if ax is None:
            _, ax = plt.subplots(2, 1, sharex=True, figsize=(6.4, 5.6), layout="constrained")
        above, below = ax
        at = [record[x] for record in self.history]
        primal = [r["primal"] for r in self.history]
        above.plot(at, primal, color="tab:blue", label="objective of the model")
        certified = self.history[-1]["certified"]
        records = [r for r in self.history if r["bound"] is not None]
        if records:
            bounded, bound = [r[x] for r in records], [r["bound"] for r in records]
            above.plot(
                bounded, bound, color="tab:orange", linestyle="-" if certified else ":",
                label="lower bound" if certified else "lower bound (not certified)",
            )  # fmt: skip
            above.fill_between(
                bounded, bound, [r["primal"] for r in records], color="tab:blue", alpha=0.08
            )
            below.plot(bounded, [100 * r["gap"] for r in records], color="tab:red")
            if any(r["gap"] > 0 for r in records):
                below.set_yscale("log")
        else:
            below.text(0.5, 0.5, "no bound", transform=below.transAxes, ha="center", va="center")
        above.set(yscale="log", ylabel="objective")
        above.legend(frameon=False)
        below.set(ylabel="relative gap (%)", xlabel=x)
        if x == "round":
            below.xaxis.set_major_locator(MaxNLocator(integer=True))
        for axis in (above, below):
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
        if name:
            above.set_title(name)
        self.ax_ = (above, below)
        self.figure_ = above.figure
        return self
