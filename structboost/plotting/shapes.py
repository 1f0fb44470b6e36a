"""Plot of what each feature adds to the score of each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from structboost._typing import FloatArray
from structboost.tasks.taxonomy import TaxonomyTask
from structboost.weak.lookup_table import LookupTable

_MAX_FEATURES = 6
# Share of the drawn range that is added on either side of the outermost thresholds.
_MARGIN = 0.08


class ShapeDisplay:
    """Shapes of an additive model of stumps: one step function per feature and channel.

    The score is the sum of the shapes: they are the model, not an approximation of it.  Made by
    :meth:`from_estimator` or from a compiled model (:meth:`structboost.Ensemble.compile`), as
    scikit-learn's Displays.

    Parameters
    ----------
    table : LookupTable
    feature_names : sequence of str, optional
        One for each feature the model was trained on.
    channel_names : sequence of str, optional
        One for each channel: the classes.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        One for each feature drawn, the most important first.
    figure_ : matplotlib Figure
    """

    def __init__(
        self,
        table: LookupTable,
        *,
        feature_names: Sequence[str] | None = None,
        channel_names: Sequence[str] | None = None,
    ) -> None:
        self.table = table
        self.feature_names = feature_names
        self.channel_names = channel_names

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, features: Sequence[int] | int = _MAX_FEATURES
    ) -> Self:
        """Display of a fitted classifier or ranker of stumps.

        Parameters
        ----------
        estimator : fitted estimator
            Anything with ``model_``; ``feature_names_in_`` and ``classes_`` give the names.
        features : sequence of int or int
            Which features to draw, or how many of the most important ones.

        Raises
        ------
        ValueError
            If the estimator is not fitted.
        TypeError
            If its weak learners are not stumps.
        """
        if not hasattr(estimator, "model_"):
            raise ValueError(f"This {type(estimator).__name__} is not fitted yet; call fit first.")
        table = estimator.model_.compile()
        if isinstance(getattr(estimator, "task_", None), TaxonomyTask):
            by_class = estimator.task_.class_scores
            table = replace(
                table, bias=by_class(table.bias[None])[0], values=by_class(table.values)
            )
        classes = [str(label) for label in getattr(estimator, "classes_", ())]
        names = getattr(estimator, "feature_names_in_", None)
        display = cls(
            table,
            feature_names=None if names is None else [str(name) for name in names],
            channel_names=classes if len(classes) == len(table.bias) else None,
        )
        return display.plot(features=features)

    def shape(self, feature: int) -> tuple[FloatArray, FloatArray]:
        """Contribution of a feature to the scores.

        Returns
        -------
        thresholds : ndarray, shape (n_thresholds,)
            Ascending.
        values : ndarray, shape (n_thresholds + 1, n_channels)
            Values between the thresholds.  With several channels their mean, which moves no
            decision, is subtracted.
        """
        used = np.flatnonzero(self.table.features == feature)
        if not len(used):
            return np.zeros(0), np.zeros((1, len(self.table.bias)))
        u = int(used[0])
        start, stop = self.table.indptr[u], self.table.indptr[u + 1]
        values = self.table.values[start + u : stop + u + 1]
        if values.shape[1] > 1:
            values = values - values.mean(axis=1, keepdims=True)
        return self.table.thresholds[start:stop], values

    def importances(self) -> FloatArray:
        """Span of the values of each feature, the largest of the channels, shape (n_features,)."""
        out = np.zeros(self.table.n_features)
        for feature in self.table.features:
            out[feature] = np.ptp(self.shape(int(feature))[1], axis=0).max()
        return out

    def plot(self, *, features: Sequence[int] | int = _MAX_FEATURES) -> Self:
        """Draw.

        Parameters
        ----------
        features : sequence of int or int
            Which features, or how many of those with the largest span.

        Raises
        ------
        ValueError
            If the model uses no feature, or one is out of range.
        """
        import matplotlib.pyplot as plt

        chosen = self._chosen(features)
        n_columns = min(3, len(chosen))
        n_rows = -(-len(chosen) // n_columns)
        figure, axes = plt.subplots(
            n_rows,
            n_columns,
            figsize=(3.4 * n_columns, 2.6 * n_rows),
            layout="constrained",
            squeeze=False,
            sharey=True,
        )
        for axis, feature in zip(axes.flat, chosen, strict=False):
            self._draw(axis, feature)
        for axis in list(axes.flat)[len(chosen) :]:
            axis.remove()
        for row in axes:
            row[0].set_ylabel("added to the score")
        n_channels = len(self.table.bias)
        if n_channels > 1:
            handles, labels = axes[0, 0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside right center", frameon=False)
        self.axes_ = np.array(list(axes.flat)[: len(chosen)], dtype=object)
        self.figure_ = figure
        return self

    def _chosen(self, features: Sequence[int] | int) -> list[int]:
        if not len(self.table.features):
            raise ValueError("The model uses no feature: it has no stumps that split.")
        if isinstance(features, (int, np.integer)):
            order = np.argsort(-self.importances(), kind="stable")[: max(1, int(features))]
            return [int(f) for f in order if f in self.table.features]
        bad = [f for f in features if not 0 <= f < self.table.n_features]
        if bad or not len(features):
            raise ValueError(
                f"features is {features!r}; name some of 0..{self.table.n_features - 1}."
            )
        return [int(f) for f in features]

    def _draw(self, axis: Any, feature: int) -> None:
        """Step functions of one feature, one line per channel."""
        thresholds, values = self.shape(feature)
        span = float(np.ptp(thresholds)) if len(thresholds) else 0.0
        margin = _MARGIN * span or 1.0
        low, high = (thresholds[0], thresholds[-1]) if len(thresholds) else (0.0, 0.0)
        at = np.concatenate(([low - margin], thresholds, [high + margin]))
        for channel in range(values.shape[1]):
            label = str(channel) if self.channel_names is None else self.channel_names[channel]
            steps = np.concatenate((values[:, channel], values[-1:, channel]))
            axis.step(at, steps, where="post", linewidth=1.2, label=label)
        axis.axhline(0.0, color="0.7", linewidth=0.6, zorder=0)
        name = f"feature {feature}" if self.feature_names is None else self.feature_names[feature]
        axis.set_xlabel(name)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
