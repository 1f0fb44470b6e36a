"""Bars of how much each feature adds to the scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from structboost.learners.contributions import Contributions
from structboost.plotting.curves import check_fitted, checked_names, new_axes
from structboost.runtime.called_class import Described
from structboost.validation import checked_whole_number


class ContributionsDisplay(Described):
    """Mean absolute contribution of each feature to the scores, stacked by class.

    Create it by :meth:`from_estimator`, like scikit-learn's Displays.

    Parameters
    ----------
    contributions : Contributions
        Result of ``contributions`` of an estimator of tables.
    feature_names, channel_names : sequence of str, optional
        Names of the features, and of the scores, which are the classes.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import ContributionsDisplay, StructBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructBoostClassifier(max_iter=10, random_state=0).fit(X, y)
    >>> len(ContributionsDisplay.from_estimator(model, X[::9], X).ax_.get_yticks())
    4
    """

    def __init__(
        self,
        contributions: Contributions,
        *,
        feature_names: Sequence[str] | None = None,
        channel_names: Sequence[str] | None = None,
    ) -> None:
        values = np.atleast_3d(contributions.values)
        self.sizes = np.abs(values).mean(axis=0)
        self.feature_names = checked_names(
            feature_names, "feature_names", len(self.sizes), "feature "
        )
        self.channel_names = checked_names(channel_names, "channel_names", values.shape[2])

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, background: Any = None, *, features: int = 10, ax: Any = None
    ) -> Self:
        """Plot what features add to the scores of samples.

        Parameters
        ----------
        estimator : fitted estimator
            Estimator of tables.
        X, background : array-like
            Samples, as for :meth:`structboost.StructBoostClassifier.contributions`.
        features : int
            Largest number of features to draw, those that add most.
        ax : matplotlib Axes, optional
            Where to draw.

        Raises
        ------
        ValueError
            If the estimator is not fitted.
        TypeError
            If its weak learners have no contributions.
        """
        check_fitted(estimator, "model_")
        contributions = estimator.contributions(X, background)
        names = getattr(estimator, "feature_names_in_", None)
        classes = [str(label) for label in getattr(estimator, "classes_", ())]
        display = cls(
            contributions,
            feature_names=None if names is None else [str(name) for name in names],
            channel_names=classes if contributions.values.shape[2:] == (len(classes),) else None,
        )
        return display.plot(features=features, ax=ax)

    def plot(self, *, features: int = 10, ax: Any = None) -> Self:
        """Draw the bars, into ``ax`` if it is not None."""
        features = checked_whole_number(features, "features")
        drawn = np.argsort(self.sizes.sum(axis=1), kind="stable")[-features:]
        size = 6.4, 1.2 + 0.3 * len(drawn)
        (self.ax_,) = new_axes("ContributionsDisplay", ax if ax is None else (ax,), size, (1,))
        left = np.zeros(len(drawn))
        for name, width in zip(self.channel_names, self.sizes[drawn].T, strict=True):
            self.ax_.barh(range(len(drawn)), width, left=left, label=name)
            left += width
        names = [self.feature_names[feature] for feature in drawn]
        self.ax_.set_yticks(range(len(drawn)), names, parse_math=False)
        self.ax_.set_xlabel("mean absolute contribution to the score")
        if len(self.channel_names) > 1:
            self.ax_.legend(frameon=False)
        self.figure_ = self.ax_.figure
        return self
