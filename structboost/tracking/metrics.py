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
    ours, theirs = checked_boxes(boxes, "boxes"), checked_boxes(truth, "truth")
    if len(ours) != len(theirs):
        raise ValueError(
            f"boxes has {len(ours)} frames and truth {len(theirs)}; give one box per frame in both."
        )
    labelled = ~np.isnan(theirs[:, 0])
    if not labelled.any():
        raise ValueError(f"truth is unknown in all {len(theirs)} frames; give at least one box.")
    gone = np.flatnonzero(np.isnan(ours[:, 0]) & labelled)
    if len(gone):
        raise ValueError(
            f"boxes[{gone[0]}] is unknown, but the truth of frame {gone[0]} is known; "
            "give the last box of an object that was lost."
        )
    # Sizes against the offset of the corners, so that equal boxes give 1 without rounding.
    offset = theirs[:, :2] - ours[:, :2]
    sides = np.minimum(ours[:, 2:], offset + theirs[:, 2:]) - np.maximum(0.0, offset)
    shared = np.maximum(sides, 0.0).prod(axis=1)
    union = ours[:, 2:].prod(axis=1) + theirs[:, 2:].prod(axis=1) - shared
    apart = offset + (theirs[:, 2:] - ours[:, 2:]) / 2
    overlap, centre_error = shared / union, np.hypot(apart[:, 0], apart[:, 1])
    success = (overlap[labelled] > SUCCESS_THRESHOLDS[:, None]).mean(axis=1)
    precision = (centre_error[labelled] <= PRECISION_THRESHOLDS[:, None]).mean(axis=1)
    return TrackingMeasures(
        overlap, centre_error, int(labelled.sum()), float(overlap[labelled].mean()),
        float(centre_error[labelled].mean()), success, float(success.mean()), precision,
        float(precision[20]),
    )  # fmt: skip


def checked_boxes(boxes: ArrayLike, name: str, *, need_area: bool = True) -> FloatArray:
    """Return boxes of shape (n_frames, 4), each of four finite numbers or of four NaN."""
    rows = checked_numbers(boxes, name)
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise ValueError(f"{name} has shape {rows.shape}; give (n_frames, 4).")
    is_good = np.isfinite(rows).all(axis=1)
    if need_area:
        is_good &= (rows[:, 2:] > 0).all(axis=1)
    bad = np.flatnonzero(~is_good & ~np.isnan(rows).all(axis=1))
    if len(bad):
        wanted = ", width and height above 0" if need_area else ""
        raise ValueError(
            f"{name}[{bad[0]}] is {rows[bad[0]].tolist()}; give four finite numbers{wanted} in "
            f"frame {bad[0]}, or four NaN where the box is unknown."
        )
    return rows
