"""Metrics of boxes against the truth, with the success and precision curves of OTB.

Overlap, centre error and the curves follow Wu, Lim and Yang, "Online Object Tracking: A Benchmark"
(CVPR 2013).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray
from structboost.validation import checked_numbers

# By division, so that each threshold is the float nearest to its decimal value.
SUCCESS_THRESHOLDS: FloatArray = np.arange(21) / 20
PRECISION_THRESHOLDS: FloatArray = np.arange(51.0)
_PRECISION_AT = 20


@dataclass(frozen=True, eq=False)
class TrackingMeasures:
    """Measures of one tracker on one sequence, over the frames whose truth is known.

    Attributes
    ----------
    overlap : ndarray, shape (n_frames,)
        Intersection over union in 0..1; NaN where the truth is unknown.
    centre_error : ndarray, shape (n_frames,)
        Distance of the centres, pixels; NaN where the truth is unknown.
    n_known : int
        Number of frames whose truth is known.
    mean_overlap, mean_centre_error : float
        Means over the known frames.
    success : ndarray, shape (21,)
        Fraction of known frames with an overlap above 0, .05, ..., 1 (``SUCCESS_THRESHOLDS``).
    success_auc : float
        Mean of ``success``, as in OTB.
    precision : ndarray, shape (51,)
        Fraction of known frames with a centre error of at most 0, 1, ..., 50 pixels
        (``PRECISION_THRESHOLDS``).
    precision_at_20 : float
        ``precision`` at 20 pixels.
    """

    overlap: FloatArray
    centre_error: FloatArray
    n_known: int
    mean_overlap: float
    mean_centre_error: float
    success: FloatArray
    success_auc: float
    precision: FloatArray
    precision_at_20: float


def evaluate(boxes: ArrayLike, truth: ArrayLike) -> TrackingMeasures:
    """Compute all measures of a tracker's boxes.

    Overlap is 1 minus the loss (21) of StructBoost: 0 for boxes apart or only touching, 1 for
    equal boxes.

    Parameters
    ----------
    boxes : array-like, shape (n_frames, 4)
        Left, top, width and height, pixels.
    truth : array-like, shape (n_frames, 4)
        The true boxes; NaN where unknown.  To leave out the first frame, pass ``boxes[1:]`` and
        ``truth[1:]``.

    Raises
    ------
    ValueError
        If the two differ in length, a box has no area, a box is unknown where the truth is known,
        or the truth is unknown everywhere; the message names the frame, counted from 0.
    """
    ours, theirs = _checked_pair(boxes, truth)
    # Sizes against the offset of the corners, so that equal boxes give 1 without rounding.
    offset = theirs[:, :2] - ours[:, :2]
    sides = np.minimum(ours[:, 2:], offset + theirs[:, 2:]) - np.maximum(0.0, offset)
    shared = np.maximum(sides, 0.0).prod(axis=1)
    union = ours[:, 2:].prod(axis=1) + theirs[:, 2:].prod(axis=1) - shared
    apart = offset + (theirs[:, 2:] - ours[:, 2:]) / 2
    return summarised(shared / union, np.hypot(apart[:, 0], apart[:, 1]))


def summarised(overlap: FloatArray, centre_error: FloatArray) -> TrackingMeasures:
    """Summarise the overlap and centre error of all frames, NaN where the truth is unknown."""
    labelled = ~np.isnan(overlap)
    if not labelled.any():
        raise ValueError(f"truth is unknown in all {len(labelled)} frames; give at least one box.")
    success = (overlap[labelled] > SUCCESS_THRESHOLDS[:, None]).mean(axis=1)
    precision = (centre_error[labelled] <= PRECISION_THRESHOLDS[:, None]).mean(axis=1)
    return TrackingMeasures(
        overlap=overlap,
        centre_error=centre_error,
        n_known=int(labelled.sum()),
        mean_overlap=float(overlap[labelled].mean()),
        mean_centre_error=float(centre_error[labelled].mean()),
        success=success,
        success_auc=float(success.mean()),
        precision=precision,
        precision_at_20=float(precision[_PRECISION_AT]),
    )


def _checked_pair(boxes: ArrayLike, truth: ArrayLike) -> tuple[FloatArray, FloatArray]:
    ours, theirs = _checked_boxes(boxes, "boxes"), _checked_boxes(truth, "truth")
    if len(ours) != len(theirs):
        raise ValueError(
            f"boxes has {len(ours)} frames and truth {len(theirs)}; give one box per frame in both."
        )
    lost = np.flatnonzero(np.isnan(ours[:, 0]) & ~np.isnan(theirs[:, 0]))
    if len(lost):
        raise ValueError(
            f"boxes[{lost[0]}] is unknown, but the truth of frame {lost[0]} is known; "
            "give the last box of an object that was lost."
        )
    return ours, theirs


def _checked_boxes(boxes: ArrayLike, name: str) -> FloatArray:
    rows = checked_numbers(boxes, name)
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise ValueError(f"{name} has shape {rows.shape}; give (n_frames, 4).")
    unknown = np.isnan(rows).all(axis=1)
    for good, what in (
        (np.isfinite(rows).all(axis=1), "give four finite numbers"),
        ((rows[:, 2:] > 0).all(axis=1), "give width and height above 0, not a box without area"),
    ):
        bad = np.flatnonzero(~unknown & ~good)
        if len(bad):
            raise ValueError(
                f"{name}[{bad[0]}] is {rows[bad[0]]}; {what} in frame {bad[0]}, "
                "or four NaN where the box is unknown."
            )
    return rows
