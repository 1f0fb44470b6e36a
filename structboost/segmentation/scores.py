"""Scores of segmentations by intersection over union, accuracies and break-even point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from structboost._typing import AnyArray, FloatArray, IntArray
from structboost.segmentation.image_files import VOID, mask_of
from structboost.validation import checked_array, checked_whole_number, shown


def confusion(truth: AnyArray, predicted: AnyArray, n_labels: int) -> IntArray:
    """Count pixels by true and predicted class, without void, shape (n_labels, n_labels).

    Parameters
    ----------
    truth, predicted : ndarray of uint8, of one shape
        Class indices; values of ``truth`` from ``n_labels`` on are void.

    Raises
    ------
    ValueError, TypeError
        If one is no mask, the shapes differ, or a predicted class is out of range.
    """
    n_labels = checked_whole_number(n_labels, "n_labels", VOID)
    truth, predicted = mask_of(truth, "truth"), mask_of(predicted, "predicted")
    if truth.shape != predicted.shape:
        raise ValueError(
            f"truth has shape {truth.shape} and predicted {predicted.shape}; they must be equal."
        )
    rows, columns = truth[truth < n_labels].astype(np.int64), predicted[truth < n_labels]
    if columns.max(initial=0) >= n_labels:
        raise ValueError(f"predicted has the class {columns.max()}; there are 0..{n_labels - 1}.")
    counts = np.bincount(rows * n_labels + columns, minlength=n_labels**2)
    return counts.reshape(n_labels, n_labels)


@dataclass(frozen=True)
class SegmentationScores:
    """Scores over all pixels of a set of images.

    Attributes
    ----------
    confusion : ndarray of int64, shape (n_labels, n_labels)
        Pixels by true and predicted class.
    """

    confusion: IntArray

    def __post_init__(self) -> None:
        matrix = checked_array(self.confusion, "confusion", 2)
        if matrix.shape[0] != matrix.shape[1] or not matrix.size or not (matrix >= 0).all():
            raise ValueError(
                f"confusion is {shown(matrix)}; give numbers of pixels from 0, with a row and a "
                "column for each class."
            )
        object.__setattr__(self, "confusion", matrix)

    @classmethod
    def of(cls, confusions: Sequence[IntArray]) -> SegmentationScores:
        """Sum up the scores of several images.

        Parameters
        ----------
        confusions : sequence of ndarray of int64, shape (n_labels, n_labels)
            Confusion matrix of each image (:func:`confusion`).

        Returns
        -------
        scores : SegmentationScores
            Scores over the pixels of all images.
        """
        return cls(np.sum(confusions, axis=0))

    @property
    def accuracy(self) -> float:
        """Fraction of the pixels with the right class."""
        return float(_fractions(np.trace(self.confusion), self.confusion.sum()))

    @property
    def iou(self) -> FloatArray:
        """Intersection over union of each class, NaN for a class that occurs nowhere."""
        right, true = np.diag(self.confusion), self.confusion.sum(axis=1)
        return _fractions(right, self.confusion.sum(axis=0) + true - right)

    @property
    def class_accuracies(self) -> FloatArray:
        """Fraction of each class's pixels with the right class, NaN for a missing class."""
        return _fractions(np.diag(self.confusion), self.confusion.sum(axis=1))

    @property
    def mean_iou(self) -> float:
        """Mean over the classes that occur."""
        return _mean(self.iou)

    @property
    def class_accuracy(self) -> float:
        """Mean over the classes that occur."""
        return _mean(self.class_accuracies)

    def as_record(self) -> dict[str, float | None]:
        """Return the usual scores of two classes or of more, with None for undefined ones."""
        if len(self.confusion) == 2:
            names = "iou_foreground", "iou_background", "accuracy"
            values = self.iou[1], self.iou[0], self.accuracy
        else:
            names = "mean_iou", "global_accuracy", "class_accuracy"
            values = self.mean_iou, self.accuracy, self.class_accuracy
        return _record(names, values)


def evaluation(counts: Mapping[str, IntArray], names: Sequence[str]) -> dict[str, Any]:
    """Return the record of ``structboost segment evaluate``, with None for undefined scores.

    ``counts`` has the confusion matrix of each image, and ``names`` are those of the classes.
    """

    def shared(scores: SegmentationScores) -> dict[str, Any]:
        return {**_record(["mean_iou"], [scores.mean_iou]), "iou": _record(names, scores.iou)}

    scores = SegmentationScores.of(list(counts.values()))
    return {
        **shared(scores),
        **scores.as_record(),
        "images": len(counts),
        "classes": list(names),
        "confusion": scores.confusion.tolist(),
        "by_image": {name: shared(SegmentationScores(counts[name])) for name in counts},
    }


def summary(record: Mapping[str, Any]) -> str:
    """Format a line with the scores of all images, and one with the IoU of each class."""

    def line(values: Mapping[str, Any]) -> str:
        shown = {k: f"{v:.4f}" if isinstance(v, float) else v for k, v in values.items()}
        return ", ".join(f"{name} {value}" for name, value in shown.items())

    whole = {k: v for k, v in record.items() if not isinstance(v, dict | list)}
    return f"{line(whole)}\nIoU by class: {line(record['iou'])}"


def break_even(truth: IntArray, margins: FloatArray, areas: FloatArray) -> float:
    """Compute the precision at which it equals recall.

    As many pixels are selected as are true foreground (Fulkerson et al., ICCV 2009; Table 6 of
    StructBoost).

    Parameters
    ----------
    truth : ndarray, shape (n, 2)
        Background and foreground pixels of each superpixel.
    margins : ndarray, shape (n,)
        Larger for foreground.
    areas : ndarray, shape (n,)
        Known pixels of each superpixel.

    Raises
    ------
    ValueError, TypeError
        If one is no array of finite numbers of this shape, or a number of pixels is negative.
    """
    n = len(margins)
    for name, values, shape, least in (
        ("truth", truth, (n, 2), 0), ("margins", margins, (n,), -np.inf), ("areas", areas, (n,), 0),
    ):  # fmt: skip
        array = checked_array(values, name, len(shape))
        if array.shape != shape or not (np.isfinite(array) & (array >= least)).all():
            raise ValueError(
                f"{name} is {shown(values)}; give {shape} finite numbers from {least}."
            )
    foreground = np.asarray(truth, np.float64)[:, 1]
    total = foreground.sum()
    if total == 0:
        return float("nan")
    order = np.argsort(-np.asarray(margins), kind="stable")
    sums = np.cumsum(np.column_stack((areas, foreground))[order], axis=0)
    taken, hit = np.vstack((np.zeros(2), sums)).T
    # Precision hit / taken equals recall hit / total at taken = total.
    return float(np.interp(total, taken, hit) / total)


def _record(names: Iterable[str], values: Iterable[Any]) -> dict[str, float | None]:
    """Return scores by name, with None for undefined ones."""
    pairs = zip(names, values, strict=True)
    return {name: None if np.isnan(value) else float(value) for name, value in pairs}


def _fractions(parts: Any, wholes: Any) -> FloatArray:
    """Divide, with NaN where there is nothing."""
    return np.asarray(np.where(wholes > 0, parts / np.maximum(wholes, 1), np.nan), np.float64)


def _mean(values: FloatArray) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
