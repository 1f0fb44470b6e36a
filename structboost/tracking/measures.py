"""How well boxes follow the truth: overlap, centre error, and OTB's success and precision curves.

The curves are those of Wu, Lim and Yang, "Online Object Tracking: A Benchmark" (CVPR 2013).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray

# Divided, not multiplied: each threshold is the float nearest to its decimal value.
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
        Share of known frames with an overlap above 0, .05, ..., 1 (``SUCCESS_THRESHOLDS``).
    success_auc : float
        Mean of ``success``, as in OTB.
    precision : ndarray, shape (51,)
        Share of known frames with a centre error of at most 0, 1, ..., 50 pixels
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
    """All measures of a tracker's boxes.

    Parameters
    ----------
    boxes : array-like, shape (n_frames, 4)
        Left, top, width and height, pixels.
    truth : array-like, shape (n_frames, 4)
        The true boxes; NaN where unknown.  To leave out the given first frame, pass ``boxes[1:]``
        and ``truth[1:]``.

    Raises
    ------
    ValueError
        As :func:`overlap`; also if the truth is unknown everywhere.
    """
    overlaps, errors = overlap(boxes, truth), centre_error(boxes, truth)
    known = ~np.isnan(overlaps)
    if not known.any():
        raise ValueError(f"truth is unknown in all {len(known)} frames; give at least one box.")
    success, precision = success_curve(overlaps), precision_curve(errors)
    return TrackingMeasures(
        overlap=overlaps,
        centre_error=errors,
        n_known=int(known.sum()),
        mean_overlap=float(overlaps[known].mean()),
        mean_centre_error=float(errors[known].mean()),
        success=success,
        success_auc=float(success.mean()),
        precision=precision,
        precision_at_20=float(precision[_PRECISION_AT]),
    )


def overlap(boxes: ArrayLike, truth: ArrayLike) -> FloatArray:
    """Intersection over union in each frame: one less the loss (21) of StructBoost.

    Parameters
    ----------
    boxes, truth : array-like, shape (n_frames, 4)
        Left, top, width and height, pixels; NaN where the truth is unknown.

    Returns
    -------
    ndarray, shape (n_frames,)
        0 for boxes apart or only touching, 1 for equal boxes; NaN where the truth is unknown.

    Raises
    ------
    ValueError
        If the two differ in length, a box has no area, or a box is unknown where the truth is
        known; the message names the frame, counted from 0.
    """
    ours, theirs = _checked_pair(boxes, truth)
    # Sizes against the offset of the corners, so that equal boxes give 1 without rounding.
    offset = theirs[:, :2] - ours[:, :2]
    sides = np.minimum(ours[:, 2:], offset + theirs[:, 2:]) - np.maximum(0.0, offset)
    shared = np.maximum(sides, 0.0).prod(axis=1)
    return np.asarray(shared / (ours[:, 2:].prod(axis=1) + theirs[:, 2:].prod(axis=1) - shared))


def centre_error(boxes: ArrayLike, truth: ArrayLike) -> FloatArray:
    """Distance of the centres in each frame, pixels; arguments and errors as in :func:`overlap`."""
    ours, theirs = _checked_pair(boxes, truth)
    apart = (theirs[:, :2] - ours[:, :2]) + (theirs[:, 2:] - ours[:, 2:]) / 2
    return np.hypot(apart[:, 0], apart[:, 1])


def success_curve(overlaps: ArrayLike) -> FloatArray:
    """Share of frames with an overlap above each of ``SUCCESS_THRESHOLDS``, NaN left out."""
    return np.asarray((_known(overlaps) > SUCCESS_THRESHOLDS[:, None]).mean(axis=1))


def precision_curve(errors: ArrayLike) -> FloatArray:
    """Share of frames with an error of at most each of ``PRECISION_THRESHOLDS``, NaN left out."""
    return np.asarray((_known(errors) <= PRECISION_THRESHOLDS[:, None]).mean(axis=1))


def _known(values: ArrayLike) -> FloatArray:
    each = np.asarray(values, np.float64).ravel()
    known = each[~np.isnan(each)]
    if not len(known):
        raise ValueError("every value is NaN; at least one frame must have a known truth.")
    return known


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
    rows = np.asarray(boxes, np.float64)
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise ValueError(f"{name} has shape {rows.shape}; give (n_frames, 4).")
    unknown = np.isnan(rows).all(axis=1)
    for good, what in (
        (np.isfinite(rows).all(axis=1), "give four finite numbers in frame"),
        (
            (rows[:, 2:] > 0).all(axis=1),
            "give width and height above 0 instead of a box without area in frame",
        ),
    ):
        bad = np.flatnonzero(~unknown & ~good)
        if len(bad):
            raise ValueError(
                f"{name}[{bad[0]}] is {rows[bad[0]]}; {what} {bad[0]}, "
                "or four NaN where the box is unknown."
            )
    return rows
