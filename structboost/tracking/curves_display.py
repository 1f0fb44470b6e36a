"""Plots of several trackers by frame, and as success and precision curves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray, override
from structboost.runtime.described import Described
from structboost.runtime.extras import pyplot
from structboost.tracking.drawing import tracker_colours
from structboost.tracking.metrics import (
    PRECISION_THRESHOLDS,
    SUCCESS_THRESHOLDS,
    TrackingMeasures,
    evaluate,
)
from structboost.validation import check_axes, checked_text_or_none, shown


class _TrackersDisplay(Described, ABC):
    """Plot of the measures of several trackers in a pair of axes."""

    _layout: ClassVar[dict[str, Any]]

    def __init__(self, measures: Mapping[str, TrackingMeasures]) -> None:
        values = measures.values() if isinstance(measures, Mapping) else [measures]
        if not all(isinstance(value, TrackingMeasures) for value in values):
            raise TypeError(
                f"measures is {shown(measures)}; give a dict of names to what evaluate returns."
            )
        if not measures:
            raise ValueError("there is no tracker to draw; give at least one in measures.")
        self.measures = dict(measures)

    @classmethod
    def from_boxes(
        cls,
        boxes: Mapping[str, ArrayLike],
        truth: ArrayLike,
        *,
        ax: Any = None,
        name: str | None = None,
    ) -> Self:
        """Plot the boxes of several trackers on one sequence.

        Parameters
        ----------
        boxes : mapping of str to array-like, shape (n_frames, 4)
            x, y, width, height in pixels, by the tracker's name.
        truth : array-like, shape (n_frames, 4)
            NaN where unknown.
        ax : pair of matplotlib Axes, optional
            Passed to :meth:`plot`.
        name : str, optional
            Title, such as the sequence.

        Raises
        ------
        ValueError
            If there is no tracker, or its boxes do not fit the truth.
        """
        if not isinstance(boxes, Mapping):
            raise TypeError(f"boxes is {shown(boxes)}; give a dict of names to boxes.")
        if not boxes:
            raise ValueError("there is no tracker to draw; give at least one in boxes.")
        return cls({tracker: evaluate(each, truth) for tracker, each in boxes.items()}).plot(
            ax=ax, name=name
        )

    def plot(self, *, ax: Any = None, name: str | None = None) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : pair of matplotlib Axes, optional
            New ones by default.
        name : str, optional
            Title, such as the sequence.
        """
        plt = pyplot("A diagram of tracks")

        check_axes(ax, 2)
        checked_text_or_none(name, "name")
        axes = plt.subplots(layout="constrained", **self._layout)[1] if ax is None else ax
        self.ax_ = tuple(axes)
        self.figure_ = self.ax_[0].figure
        colours = tracker_colours(self.measures)
        rgb = {name: tuple(part / 255 for part in colours[name]) for name in self.measures}
        self._draw(rgb, *self.ax_)
        for axis in self.ax_:
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
        if name:
            self.figure_.suptitle(name)
        return self

    @abstractmethod
    def _draw(self, colours: Mapping[str, Any], first: Any, second: Any) -> None:
        """Draw the trackers in their colours into the two axes."""


class FrameCurvesDisplay(_TrackersDisplay):
    """Overlap and centre error of several trackers, frame by frame (fig. 5 of StructBoost).

    Create it by :meth:`from_boxes`, like scikit-learn's Displays.  A line has a hole where the
    truth is unknown.

    Parameters
    ----------
    measures : mapping of str to TrackingMeasures
        By the tracker's name.

    Attributes
    ----------
    ax_ : tuple of matplotlib Axes
        Overlap above, centre error below.
    figure_ : matplotlib Figure
    """

    _layout = {"nrows": 2, "sharex": True, "figsize": (6.4, 5.2)}

    @override
    def _draw(self, colours: Mapping[str, Any], first: Any, second: Any) -> None:
        for tracker, colour in colours.items():
            each = self.measures[tracker]
            label = f"{tracker} ({each.mean_overlap:.2f}; {each.mean_centre_error:.0f} px)"
            first.plot(*_joined(each.overlap), color=colour, linewidth=1.2, label=label)
            second.plot(*_joined(each.centre_error), color=colour, linewidth=1.2)
        first.set(ylim=(0, 1.02), ylabel="overlap")
        second.set_ylim(bottom=0)
        second.set(xlabel="frame", ylabel="centre error (pixels)")
        # Above the axes, because inside it would cover a line.
        first.legend(
            frameon=False, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, fontsize=8,
            ncols=min(len(self.measures), 3),
        )  # fmt: skip


class SuccessDisplay(_TrackersDisplay):
    """Success and precision curves of several trackers, as in OTB.

    Create it by :meth:`from_boxes`, like scikit-learn's Displays.  The legends give the area under
    the success curve and the precision at 20 pixels, with the best tracker first.

    Parameters
    ----------
    measures : mapping of str to TrackingMeasures
        By the tracker's name.

    Attributes
    ----------
    ax_ : tuple of matplotlib Axes
        Success, precision.
    figure_ : matplotlib Figure
    """

    _layout = {"ncols": 2, "sharey": True, "figsize": (8.4, 3.6)}

    @override
    def _draw(self, colours: Mapping[str, Any], first: Any, second: Any) -> None:
        for axis, thresholds, curve, summary in (
            (first, SUCCESS_THRESHOLDS, "success", "success_auc"),
            (second, PRECISION_THRESHOLDS, "precision", "precision_at_20"),
        ):
            figures = {name: getattr(self.measures[name], summary) for name in colours}
            for name in sorted(figures, key=lambda name: -figures[name]):
                values = getattr(self.measures[name], curve)
                label = f"{name} [{figures[name]:.3f}]"
                axis.plot(thresholds, values, color=colours[name], label=label)
        second.axvline(20, color="0.7", linewidth=0.8, linestyle=":", zorder=0)
        first.set(xlabel="overlap threshold", ylabel="fraction of frames", xlim=(0, 1))
        second.set(xlabel="centre error threshold (pixels)", xlim=(0, 50))
        for axis, place in ((first, "lower left"), (second, "lower right")):
            axis.set_ylim(0, 1.02)
            axis.legend(frameon=True, framealpha=0.85, edgecolor="none", loc=place, fontsize=8)


def _joined(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return frames and their values, with a NaN in holes longer than the usual step.

    So truth in every fifth frame only still makes a line.
    """
    at = np.flatnonzero(~np.isnan(values))
    steps = np.diff(at)
    holes = 1 + np.flatnonzero(steps > np.median(steps)) if len(steps) else np.empty(0, np.int64)
    return np.insert(at.astype(np.float64), holes, np.nan), np.insert(values[at], holes, np.nan)
