"""Plot of what each feature, and each pair of features, adds to the score of each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from structboost._typing import FloatArray
from structboost.learners.binning import ABOVE_ALL
from structboost.learners.table import LookupTable
from structboost.learners.tree_table import Pair, PairTables
from structboost.plotting.curves import check_fitted, checked_names, plain
from structboost.runtime.called_class import Described
from structboost.runtime.registry import pyplot
from structboost.tasks.hierarchical import TaxonomyTask
from structboost.validation import checked_whole_number, shown

_MAX_FEATURES = 6
_MAX_PAIRS = 6
# Fraction of the drawn range that is added on either side of the outermost thresholds.
_MARGIN = 0.08


class ShapeDisplay(Described):
    """Shapes of an additive model, the contributions of each feature to the scores.

    Shapes of stumps are step functions; linear functions beside them give them a slope.  Trees of
    two levels add functions of two features, drawn as heat maps.  The score is the sum of the
    shapes and a constant, so they are the model and not an approximation of it.  A heat map has the
    mean 0 in each row and each column, counting all intervals between thresholds alike; the means
    belong to the shapes of the two features.
    Create it by :meth:`from_estimator` or from a compiled model
    (:meth:`structboost.Ensemble.compile`), like scikit-learn's Displays.

    Parameters
    ----------
    form : LookupTable or PairTables
        Result of :meth:`structboost.Ensemble.compile`.
    feature_names : sequence of str, optional
        Names of the features of training.
    channel_names : sequence of str, optional
        Names of the channels, which are the classes.
    categories : dict of int to sequence, optional
        Categories of the categorical features, to which missing values are appended.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        Axes of each drawn feature, the most important first, then of each drawn pair.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import ShapeDisplay, StructBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructBoostClassifier(objective="hinge", C=10.0).fit(X, y)
    >>> ShapeDisplay.from_estimator(model, features=2).figure_ is not None
    True
    """

    def __init__(
        self,
        form: LookupTable | PairTables,
        *,
        feature_names: Sequence[str] | None = None,
        channel_names: Sequence[str] | None = None,
        categories: Mapping[int, Sequence[Any]] | None = None,
    ) -> None:
        self.pairs = {}
        if not isinstance(form, LookupTable | PairTables):
            raise TypeError(
                f"form is {shown(form)}; give the result of Ensemble.compile(), or an estimator to "
                "ShapeDisplay.from_estimator."
            )
        if isinstance(form, PairTables):
            pure = form.purified()
            form, self.pairs = pure.steps, {k: _beside_mean(v) for k, v in pure.pairs.items()}
        slopes = form.coefficients
        if slopes is None:
            slopes = np.zeros((form.n_features, len(form.bias)))
        self.form, self._slopes = form, slopes
        self.feature_names = checked_names(
            feature_names, "feature_names", form.n_features, "feature "
        )
        self.channel_names = checked_names(channel_names, "channel_names", len(form.bias))
        self.categories = {f: [*map(str, names)] for f, names in (categories or {}).items()}

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, features: int = _MAX_FEATURES, pairs: int = _MAX_PAIRS
    ) -> Self:
        """Plot the shapes of a fitted classifier or ranker.

        Its weak learners are stumps, linear functions or both, or trees of two levels.

        Parameters
        ----------
        estimator : fitted estimator
            Fitted object with ``model_``; its ``feature_names_in_`` and ``classes_`` are the names.
        features, pairs : int
            Largest numbers of features and of pairs of them to draw, the most important ones.

        Raises
        ------
        ValueError
            If the estimator is not fitted.
        TypeError
            If its weak learners are others.
        """
        check_fitted(estimator, "model_")
        form = estimator.model_.compile()
        steps, tables = getattr(form, "steps", form), getattr(form, "pairs", {})
        if isinstance(getattr(estimator, "task_", None), TaxonomyTask):
            by_class = estimator.task_.class_scores
            arrays = ["bias", "values", "missing"]
            arrays += [] if steps.coefficients is None else ["coefficients"]
            steps = replace(steps, **{name: by_class(getattr(steps, name)) for name in arrays})
            tables = {pair: by_class(table) for pair, table in tables.items()}
        classes = [str(label) for label in getattr(estimator, "classes_", ())]
        names = getattr(estimator, "feature_names_in_", None)
        categories = getattr(estimator, "categories_", None)
        encoding = getattr(getattr(estimator, "_columns", None), "encoding", None)
        if encoding is not None and encoding.adds_columns:
            names, categories = estimator.encoded_feature_names_, None
        display = cls(
            PairTables(steps, tables),
            feature_names=None if names is None else [str(name) for name in names],
            channel_names=classes if len(classes) == len(steps.bias) else None,
            categories=categories,
        )
        return display.plot(features=features, pairs=pairs)

    def shape(self, feature: int) -> tuple[FloatArray, FloatArray]:
        """Return the steps of a feature, its contribution to the scores without its slope.

        Parameters
        ----------
        feature : int
            Index of the feature.

        Returns
        -------
        thresholds : ndarray, shape (n_thresholds,)
            Ascending.
        values : ndarray, shape (n_thresholds + 1, n_channels)
            Values between the thresholds.  With several channels their mean, which changes no
            decision, is subtracted.
        """
        steps = self.form
        checked_whole_number(feature, "feature", steps.n_features - 1, 0)
        for u in np.flatnonzero(steps.features == feature):
            start, stop = steps.indptr[u], steps.indptr[u + 1]
            thresholds = steps.thresholds[start:stop]
            # Only missing values lie above all numbers.
            finite = thresholds[thresholds < ABOVE_ALL]
            return finite, _beside_mean(steps.values[start + u :][: len(finite) + 1])
        return np.zeros(0), np.zeros((1, len(steps.bias)))

    def missing(self, feature: int) -> FloatArray | None:
        """Return the contribution of a missing value of a feature to the scores.

        Parameters
        ----------
        feature : int
            Index of the feature.

        Returns
        -------
        values : ndarray, shape (n_channels,), or None
            None where there is none.
        """
        is_used = self.form.features == feature
        return _beside_mean(self.form.missing[is_used]).ravel() if is_used.any() else None

    def slope(self, feature: int) -> FloatArray:
        """Return the slope of the scores by a feature, without its steps.

        Parameters
        ----------
        feature : int
            Index of the feature.

        Returns
        -------
        slope : ndarray, shape (n_channels,)
            With several channels their mean, which changes no decision, is subtracted.
        """
        return _beside_mean(self._slopes[feature])

    def curve(self, feature: int) -> tuple[FloatArray, FloatArray]:
        """Return the corners of the curve of a feature, from its steps and its slope.

        Parameters
        ----------
        feature : int
            Index of the feature.

        Returns
        -------
        at : ndarray, shape (n_corners,)
            Values of the feature; each threshold occurs twice.
        values : ndarray, shape (n_corners, n_channels)
            Values of the curve.
        """
        thresholds, values = self.shape(feature)
        slope, ends = self.slope(feature), _with_margin(thresholds)[[0, -1]]
        if slope.any():
            span = () if self.form.span is None else self.form.span[:, feature]
            inside = np.append(thresholds, span)
            ends = np.array([inside.min(), inside.max()]) if len(inside) else np.zeros(2)
        at = np.concatenate((ends[:1], np.repeat(thresholds, 2), ends[1:]))
        return at, np.repeat(values, 2, axis=0) + np.outer(at - ends.mean(), slope)

    def importances(self) -> FloatArray:
        """Return the largest span over the channels of each feature, shape (n_features,)."""
        out = np.zeros(self.form.n_features)
        for feature in self._used():
            out[feature] = np.ptp(self.curve(feature)[1], axis=0).max()
        return out

    def pair(self, pair: Pair) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the heat map of two features, without what each of them adds alone.

        Parameters
        ----------
        pair : (int, int)
            Indices of the features, the smaller one first.

        Returns
        -------
        first, second : ndarray
            Thresholds of the features, ascending.
        values : ndarray, shape (n_first + 1, n_second + 1, n_channels)
            Values between the thresholds.  With several channels their mean, which changes no
            decision, is subtracted.
        """
        first, second = (self.shape(feature)[0] for feature in pair)
        n_first, n_second = len(first) + 1, len(second) + 1
        nothing = np.zeros((n_first, n_second, len(self.form.bias)))
        return first, second, self.pairs.get(pair, nothing)[:n_first, :n_second]

    def plot(self, *, features: int = _MAX_FEATURES, pairs: int = _MAX_PAIRS) -> Self:
        """Draw the shapes.

        Parameters
        ----------
        features, pairs : int
            Largest numbers of features and of pairs, those with the largest span.  Each heat map
            shows the channel of the largest span.

        Raises
        ------
        ValueError
            If the model uses no feature.
        """
        plt = pyplot("ShapeDisplay")
        checked_whole_number(features, "features")
        checked_whole_number(pairs, "pairs", least=0)
        used = self._used()
        if not used:
            raise ValueError("The model uses no feature, since none of its stumps splits.")
        spans = self.importances()
        chosen = sorted(used, key=lambda feature: -spans[feature])[:features]
        of_all = {pair: np.ptp(self.pair(pair)[2], axis=(0, 1)).max() for pair in self.pairs}
        of_pairs = sorted(filter(of_all.get, of_all), key=lambda pair: -of_all[pair])[:pairs]
        n_columns = min(3, max(len(chosen), len(of_pairs)))
        n_rows, rows_of_pairs = (-(-len(drawn) // n_columns) for drawn in (chosen, of_pairs))
        grid, axes = (n_rows + rows_of_pairs, n_columns), list[Any]()
        figure = plt.figure(figsize=(3.4 * n_columns, 2.6 * grid[0]), layout="constrained")
        for i, feature in enumerate(chosen):
            axes.append(figure.add_subplot(*grid, i + 1, sharey=axes[0] if axes else None))
            self._draw(axes[i], feature)
            if i % n_columns:
                axes[i].tick_params(labelleft=False)
            else:
                axes[i].set_ylabel("added to the score")
        for i, pair in enumerate(of_pairs, n_rows * n_columns + 1):
            axes.append(figure.add_subplot(*grid, i))
            self._draw_pair(axes[-1], pair)
        if len(self.form.bias) > 1:
            legend = axes[0].get_legend_handles_labels()
            figure.legend(*legend, loc="outside right center", frameon=False)
        self.axes_, self.figure_ = np.array(axes, dtype=object), figure
        return self

    def _used(self) -> list[int]:
        """Return the features that the scores depend on, ascending."""
        sloping = np.flatnonzero(self._slopes.any(axis=1))
        return [int(f) for f in np.union1d(self.form.features, sloping)]

    def _draw_pair(self, axis: Any, pair: Pair) -> None:
        *thresholds, values = self.pair(pair)
        channel = int(np.ptp(values, axis=(0, 1)).argmax())
        largest = float(np.abs(values[..., channel]).max())
        mesh = axis.pcolormesh(
            *map(_with_margin, thresholds), values[..., channel].T,
            cmap="RdBu_r", vmin=-largest, vmax=largest,
        )  # fmt: skip
        axis.figure.colorbar(mesh, ax=axis)
        if values.shape[2] > 1:
            axis.set_title(self.channel_names[channel], fontsize="medium", parse_math=False)
        for feature, side in zip(pair, (axis.xaxis, axis.yaxis), strict=True):
            side.set_label_text(self.feature_names[feature], parse_math=False)
            if names := self.categories.get(feature):
                side.set_ticks(range(len(names)), names, parse_math=False)

    def _draw(self, axis: Any, feature: int) -> None:
        at, values = self.curve(feature)
        for channel, line in enumerate(values.T):
            axis.plot(at, line, linewidth=1.2, label=self.channel_names[channel])
        if names := self.categories.get(feature):
            missing = self.missing(feature)
            if missing is not None:
                for line, value in zip(list(axis.lines), missing, strict=True):
                    axis.plot(len(names), value, "_", color=line.get_color(), markersize=9)
                names = [*names, "missing"]
            axis.set_xlim(-0.5, len(names) - 0.5)
            axis.set_xticks(range(len(names)), names, rotation=45, ha="right", parse_math=False)
        axis.axhline(0.0, color="0.7", linewidth=0.6, zorder=0)
        axis.set_xlabel(self.feature_names[feature], parse_math=False)
        plain(axis)


def _with_margin(thresholds: FloatArray) -> FloatArray:
    """Add ends beyond the outermost thresholds."""
    low, high = (thresholds[0], thresholds[-1]) if len(thresholds) else (0.0, 0.0)
    margin = _MARGIN * (high - low) or 1.0
    return np.concatenate(([low - margin], thresholds, [high + margin]))


def _beside_mean(values: FloatArray) -> FloatArray:
    """Subtract the mean of several channels, which changes no decision."""
    return values - values.mean(axis=-1, keepdims=True) if values.shape[-1] > 1 else values
