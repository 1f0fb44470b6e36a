"""Scores of segmentations by intersection over union, accuracies and break-even point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.segmentation.image_files import VOID, mask_of
from structboost.validation import checked_array, checked_whole_number, shown


def confusion(truth: NDArray[Any], predicted: NDArray[Any], n_labels: int) -> IntArray:
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
    is_labelled = truth < n_labels
    classes = predicted[is_labelled].astype(np.int64)
    if len(classes) and classes.max() >= n_labels:
        raise ValueError(f"predicted has the class {classes.max()}; there are 0..{n_labels - 1}.")
    keys = truth[is_labelled].astype(np.int64) * n_labels + classes
    return np.asarray(
        np.bincount(keys, minlength=n_labels**2).reshape(n_labels, n_labels), np.int64
    )


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
            background, foreground = self.iou
            scores = {"iou_foreground": foreground, "iou_background": background}
            scores["accuracy"] = self.accuracy
        else:
            scores = {"mean_iou": self.mean_iou, "global_accuracy": self.accuracy}
            scores["class_accuracy"] = self.class_accuracy
        return {name: _value_or_none(value) for name, value in scores.items()}


def evaluation(counts: Mapping[str, IntArray], names: Sequence[str]) -> dict[str, Any]:
    """Return the record of ``structboost segment evaluate``, with None for undefined scores.

    ``counts`` has the confusion matrix of each image, and ``names`` are those of the classes.
    """
    scores = SegmentationScores.of(list(counts.values()))

    def by_class(iou: FloatArray) -> dict[str, float | None]:
        return {name: _value_or_none(value) for name, value in zip(names, iou, strict=True)}

    each = {name: SegmentationScores(matrix) for name, matrix in counts.items()}
    return {
        "mean_iou": _value_or_none(scores.mean_iou),
        **scores.as_record(),
        "images": len(counts),
        "iou": by_class(scores.iou),
        "classes": list(names),
        "confusion": scores.confusion.tolist(),
        "by_image": {
            name: {"mean_iou": _value_or_none(matrix.mean_iou), "iou": by_class(matrix.iou)}
            for name, matrix in each.items()
        },
    }


def summary(record: Mapping[str, Any]) -> str:
    """Format a line with the scores of all images, and one with the IoU of each class."""

    def shown(value: Any) -> str:
        return f"{value:.4f}" if isinstance(value, float) else str(value)

    whole = ("classes", "confusion", "by_image", "iou")
    first = ", ".join(f"{key} {shown(value)}" for key, value in record.items() if key not in whole)
    each = ", ".join(f"{name} {shown(value)}" for name, value in record["iou"].items())
    return f"{first}\nIoU by class: {each}"


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
    shapes = (len(margins), 2), (len(margins),), (len(margins),)
    named = {"truth": truth, "margins": margins, "areas": areas}
    for (name, values), shape in zip(named.items(), shapes, strict=True):
        values = checked_array(values, name, len(shape))
        least = -np.inf if name == "margins" else 0
        if values.shape != shape or not (np.isfinite(values) & (values >= least)).all():
            raise ValueError(
                f"{name} is {shown(values)}; give {shape} finite numbers from {least}."
            )
    foreground = np.asarray(truth)[:, 1].astype(np.float64)
    total = foreground.sum()
    if total == 0:
        return float("nan")
    order = np.argsort(-np.asarray(margins), kind="stable")
    taken, hit = (
        np.append(0.0, np.cumsum(np.asarray(part)[order])) for part in (areas, foreground)
    )
    # Precision hit / taken equals recall hit / total at taken = total.
    return float(np.interp(total, taken, hit) / total)


def _value_or_none(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _fractions(parts: Any, wholes: Any) -> FloatArray:
    """Divide, with NaN where there is nothing."""
    return np.asarray(np.where(wholes > 0, parts / np.maximum(wholes, 1), np.nan), np.float64)


def _mean(values: FloatArray) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
