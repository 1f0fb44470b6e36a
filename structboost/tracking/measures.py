"""How well boxes follow the truth: overlap, centre error, and the success and precision curves of OTB.

The curves are those of Wu, Lim and Yang, "Online Object Tracking: A Benchmark" (CVPR 2013).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

# Divided, not multiplied: each threshold is the float nearest to its decimal value.
SUCCESS_THRESHOLDS: Floats = np.arange(21) / 20
PRECISION_THRESHOLDS: Floats = np.arange(51.0)
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
        Frames whose truth is known.
    mean_overlap, mean_centre_error : float
        Over the known frames.
    success : ndarray, shape (21,)
        Share of known frames with an overlap above 0, .05, ..., 1 (``SUCCESS_THRESHOLDS``).
    success_auc : float
        Mean of ``success``, as OTB has it.
    precision : ndarray, shape (51,)
        Share of known frames with a centre error of at most 0, 1, ..., 50 pixels (``PRECISION_THRESHOLDS``).
    precision_at_20 : float
        ``precision`` at 20 pixels.
    """

    overlap: Floats
    centre_error: Floats
    n_known: int
    mean_overlap: float
    mean_centre_error: float
    success: Floats
    success_auc: float
    precision: Floats
    precision_at_20: float


def evaluate(boxes: ArrayLike, truth: ArrayLike) -> TrackingMeasures:
    """All measures of a tracker's boxes.

    Parameters
    ----------
    boxes : array-like, shape (n_frames, 4)
        Left, top, width and height, pixels.
    truth : array-like, shape (n_frames, 4)
        The same of the true boxes; NaN where unknown.  To leave the given first frame out, pass ``boxes[1:]`` and
        ``truth[1:]``.

    Raises
    ------
    ValueError
        As :func:`overlap`; also if the truth is unknown everywhere.
    """
    overlaps = overlap(boxes, truth)
    errors = centre_error(boxes, truth)
    known = ~np.isnan(overlaps)
    if not known.any():
        raise ValueError(f"truth is unknown in all {len(overlaps)} frames; at least one must be known.")
    success = success_curve(overlaps)
    precision = precision_curve(errors)
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


def overlap(boxes: ArrayLike, truth: ArrayLike) -> Floats:
    """Pascal overlap in each frame: intersection over union, eq. (21) of StructBoost without the ``1 -``.

    Parameters
    ----------
    boxes, truth : array-like, shape (n_frames, 4)
        Left, top, width and height, pixels; NaN where the truth is unknown.

    Returns
    -------
    ndarray, shape (n_frames,)
        In 0..1: 0 for boxes apart or only touching, 1 for equal boxes; NaN where the truth is unknown.

    Raises
    ------
    ValueError
        If the two differ in length, a box has no area, or a box is unknown where the truth is known; the message
        names the frame, counted from 0.
    """
    ours, theirs = _checked_pair(boxes, truth)
    # Sizes against the offset of the corners, not corners against corners: equal boxes give 1, without rounding.
    offset = theirs[:, :2] - ours[:, :2]
    sides = np.minimum(ours[:, 2:], offset + theirs[:, 2:]) - np.maximum(0.0, offset)
    shared = np.maximum(sides, 0.0).prod(axis=1)
    return np.asarray(shared / (ours[:, 2:].prod(axis=1) + theirs[:, 2:].prod(axis=1) - shared))


def centre_error(boxes: ArrayLike, truth: ArrayLike) -> Floats:
    """Distance between the centres in each frame.

    Parameters
    ----------
    boxes, truth : array-like, shape (n_frames, 4)
        Left, top, width and height, pixels; NaN where the truth is unknown.

    Returns
    -------
    ndarray, shape (n_frames,)
        Pixels; NaN where the truth is unknown.

    Raises
    ------
    ValueError
        As :func:`overlap`.
    """
    ours, theirs = _checked_pair(boxes, truth)
    apart = (theirs[:, :2] - ours[:, :2]) + (theirs[:, 2:] - ours[:, 2:]) / 2
    return np.hypot(apart[:, 0], apart[:, 1])


def success_curve(overlaps: ArrayLike) -> Floats:
    """Share of frames with an overlap above each of ``SUCCESS_THRESHOLDS``; frames with NaN do not count."""
    return np.asarray((_known(overlaps) > SUCCESS_THRESHOLDS[:, None]).mean(axis=1))


def precision_curve(errors: ArrayLike) -> Floats:
    """Share of frames with a centre error of at most each of ``PRECISION_THRESHOLDS``; frames with NaN do not count."""
    return np.asarray((_known(errors) <= PRECISION_THRESHOLDS[:, None]).mean(axis=1))


def _known(values: ArrayLike) -> Floats:
    each = np.asarray(values, np.float64).ravel()
    known = each[~np.isnan(each)]
    if not len(known):
        raise ValueError("every value is NaN; at least one frame must have a known truth.")
    return known


def _checked_pair(boxes: ArrayLike, truth: ArrayLike) -> tuple[Floats, Floats]:
    ours, theirs = _checked_boxes(boxes, "boxes"), _checked_boxes(truth, "truth")
    if len(ours) != len(theirs):
        raise ValueError(f"boxes has {len(ours)} frames and truth {len(theirs)}; give one box for each frame in both.")
    lost = np.flatnonzero(np.isnan(ours[:, 0]) & ~np.isnan(theirs[:, 0]))
    if len(lost):
        raise ValueError(
            f"boxes[{lost[0]}] is unknown, but the truth of frame {lost[0]} is known; "
            "give the last box of an object that was lost."
        )
    return ours, theirs


def _checked_boxes(boxes: ArrayLike, name: str) -> Floats:
    rows = np.asarray(boxes, np.float64)
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise ValueError(f"{name} has shape {rows.shape}; give (n_frames, 4).")
    unknown = np.isnan(rows).all(axis=1)
    bad = np.flatnonzero(~unknown & ~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise ValueError(
            f"{name}[{bad[0]}] is {rows[bad[0]]}; give four finite numbers in frame {bad[0]}, or four NaN."
        )
    flat = np.flatnonzero(~unknown & ~(rows[:, 2:] > 0).all(axis=1))
    if len(flat):
        raise ValueError(
            f"{name}[{flat[0]}] is {rows[flat[0]]}, a box without area in frame {flat[0]}; "
            "width and height must be above 0, or all four NaN where the box is unknown."
        )
    return rows
