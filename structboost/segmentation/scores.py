"""Scores of segmentations by intersection over union, and accuracies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from structboost._typing import AnyArray, FloatArray, IntArray
from structboost.validation import checked_whole_number
from structboost.vision.images import VOID, mask_of


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
    def mean_iou(self) -> float:
        """Mean over the classes that occur."""
        return _mean(self.iou)

    @property
    def class_accuracy(self) -> float:
        """Fraction of a class's pixels with the right class, mean over the classes that occur."""
        return _mean(_fractions(np.diag(self.confusion), self.confusion.sum(axis=1)))

    def as_record(self) -> dict[str, float | None]:
        """Return the usual scores of two classes or of more, with None for undefined ones."""
        if len(self.confusion) == 2:
            names = "iou_foreground", "iou_background", "accuracy"
            values = self.iou[1], self.iou[0], self.accuracy
        else:
            names = "mean_iou", "global_accuracy", "class_accuracy"
            values = self.mean_iou, self.accuracy, self.class_accuracy
        return named_scores(names, values)


def named_scores(names: Iterable[str], values: Iterable[Any]) -> dict[str, float | None]:
    """Return scores by name, with None for undefined ones."""
    pairs = zip(names, values, strict=True)
    return {name: None if np.isnan(value) else float(value) for name, value in pairs}


def _fractions(parts: Any, wholes: Any) -> FloatArray:
    """Divide, with NaN where there is nothing."""
    return np.where(wholes > 0, parts / np.maximum(wholes, 1), np.nan)


def _mean(values: FloatArray) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
