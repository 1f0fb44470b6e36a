"""Plots of several trackers: overlap and centre error by frame, success and precision curves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from structboost.tracking.drawing import tracker_colours
from structboost.tracking.measures import (
    PRECISION_THRESHOLDS,
    SUCCESS_THRESHOLDS,
    Floats,
    TrackingMeasures,
    evaluate,
)


class _TrackersDisplay(ABC):
    """Measures of several trackers, by name; what is drawn of them is the subclasses' affair."""

    def __init__(self, measures: Mapping[str, TrackingMeasures]) -> None:
        if not measures:
            raise ValueError("there is no tracker to draw; give at least one.")
        self.measures = dict(measures)

    @classmethod
    def from_boxes(
        cls, boxes: Mapping[str, ArrayLike], truth: ArrayLike, *, ax: Any = None, name: str | None = None
    ) -> Self:
        """Display of the boxes of several trackers on one sequence.

        Parameters
        ----------
        boxes : mapping of str to array-like, shape (n_frames, 4)
            By the tracker's name: x, y, width, height in pixels.
        truth : array-like, shape (n_frames, 4)
            NaN where unknown.
        ax : pair of matplotlib Axes, optional
            As :meth:`plot` takes them.
        name : str, optional
            Title: the sequence.

        Raises
        ------
        ValueError
            If there is no tracker, or its boxes do not fit the truth.
        """
        return cls({tracker: evaluate(each, truth) for tracker, each in boxes.items()}).plot(ax=ax, name=name)

    @abstractmethod
    def plot(self, *, ax: Any = None, name: str | None = None) -> Self:
        """Draw into a pair of axes."""


class FrameCurvesDisplay(_TrackersDisplay):
    """Overlap and centre error of several trackers, frame by frame (fig. 5 of StructBoost).

    Made by :meth:`from_boxes`, as scikit-learn's Displays.  A line has a hole where the truth is unknown.

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

    def plot(self, *, ax: Any = None, name: str | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : pair of matplotlib Axes, optional
            For the overlap and for the centre error.
        name : str, optional
            Title: the sequence.
        """
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(2, 1, sharex=True, figsize=(6.4, 5.2), layout="constrained")
        above, below = ax
        for tracker, colour in _plot_colours(self.measures).items():
            each = self.measures[tracker]
            label = f"{tracker} ({each.mean_overlap:.2f}; {each.mean_centre_error:.0f} px)"
            above.plot(*_joined(each.overlap), color=colour, linewidth=1.2, label=label)
            below.plot(*_joined(each.centre_error), color=colour, linewidth=1.2)
        above.set_ylim(0, 1.02)
        above.set_ylabel("overlap")
        below.set_ylim(bottom=0)
        below.set_ylabel("centre error (pixels)")
        below.set_xlabel("frame")
        # Above the axes: inside, it would cover a line wherever it is.
        columns = min(len(self.measures), 3)
        above.legend(
            frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2, fontsize=8
        )
        for axis in (above, below):
            _tidy(axis)
        if name:
            above.figure.suptitle(name)
        self.ax_ = (above, below)
        self.figure_ = above.figure
        return self


class SuccessDisplay(_TrackersDisplay):
    """Success and precision curves of several trackers, in the manner of OTB.

    Made by :meth:`from_boxes`, as scikit-learn's Displays.  The legends give the area under the success curve and the
    precision at 20 pixels, the best tracker first.

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

    def plot(self, *, ax: Any = None, name: str | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : pair of matplotlib Axes, optional
            For the success and for the precision.
        name : str, optional
            Title: the sequence.
        """
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(1, 2, sharey=True, figsize=(8.4, 3.6), layout="constrained")
        success, precision = ax
        colours = _plot_colours(self.measures)
        for tracker in sorted(colours, key=lambda tracker: -self.measures[tracker].success_auc):
            each = self.measures[tracker]
            label = f"{tracker} [{each.success_auc:.3f}]"
            success.plot(SUCCESS_THRESHOLDS, each.success, color=colours[tracker], label=label)
        for tracker in sorted(colours, key=lambda tracker: -self.measures[tracker].precision_at_20):
            each = self.measures[tracker]
            label = f"{tracker} [{each.precision_at_20:.3f}]"
            precision.plot(PRECISION_THRESHOLDS, each.precision, color=colours[tracker], label=label)
        precision.axvline(20, color="0.7", linewidth=0.8, linestyle=":", zorder=0)
        success.set_xlabel("overlap threshold")
        success.set_ylabel("share of frames")
        success.set_xlim(0, 1)
        precision.set_xlabel("centre error threshold (pixels)")
        precision.set_xlim(0, 50)
        for axis, place in ((success, "lower left"), (precision, "lower right")):
            axis.set_ylim(0, 1.02)
            axis.legend(frameon=True, framealpha=0.85, edgecolor="none", loc=place, fontsize=8)
            _tidy(axis)
        if name:
            success.figure.suptitle(name)
        self.ax_ = (success, precision)
        self.figure_ = success.figure
        return self


def _plot_colours(names: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """The colours of the contact sheet, as matplotlib has them."""
    colours = tracker_colours(names)
    return {name: tuple(part / 255 for part in reversed(colours[name])) for name in names}


def _joined(values: Floats) -> tuple[Floats, Floats]:
    """Known frames and their values, with a NaN in holes longer than the usual step.

    Truth that is given in every fifth frame only still makes a line.
    """
    at = np.flatnonzero(~np.isnan(values))
    steps = np.diff(at)
    holes = 1 + np.flatnonzero(steps > np.median(steps)) if len(steps) else np.empty(0, np.int64)
    return np.insert(at.astype(np.float64), holes, np.nan), np.insert(values[at], holes, np.nan)


def _tidy(axis: Any) -> None:
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
