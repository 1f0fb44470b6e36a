"""How good segmentations are: intersection over union, accuracies, and the point where precision equals recall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


def confusion(truth: NDArray[Any], predicted: NDArray[Any], n_labels: int) -> NDArray[np.int64]:
    """Pixels by true and by predicted class, shape (n_labels, n_labels); void pixels of the truth do not count.

    Parameters
    ----------
    truth, predicted : ndarray of uint8, of one shape
        Class indices; in ``truth`` what is not below ``n_labels`` is void.

    Raises
    ------
    ValueError
        If the shapes differ, or a predicted class is out of range where the truth is not void.
    """
    if truth.shape != predicted.shape:
        raise ValueError(f"truth has shape {truth.shape} and predicted {predicted.shape}; they must be equal.")
    known = truth < n_labels
    found = predicted[known].astype(np.int64)
    if len(found) and found.max() >= n_labels:
        raise ValueError(f"predicted has the class {found.max()}; there are 0..{n_labels - 1}.")
    keys = truth[known].astype(np.int64) * n_labels + found
    return np.asarray(np.bincount(keys, minlength=n_labels**2).reshape(n_labels, n_labels), np.int64)


@dataclass(frozen=True)
class SegmentationScores:
    """Scores over all pixels of a set of images.

    Attributes
    ----------
    confusion : ndarray of int64, shape (n_labels, n_labels)
        Pixels by true and predicted class.
    """

    confusion: NDArray[np.int64]

    @classmethod
    def of(cls, confusions: Sequence[NDArray[np.int64]]) -> SegmentationScores:
        """Scores of several images together."""
        return cls(np.sum(confusions, axis=0))

    @property
    def accuracy(self) -> float:
        """Share of the pixels with the right class."""
        return _share(np.trace(self.confusion), self.confusion.sum())

    @property
    def iou(self) -> NDArray[np.float64]:
        """Intersection over union of each class; NaN for one that is neither true nor predicted anywhere."""
        right = np.diag(self.confusion).astype(np.float64)
        union = self.confusion.sum(axis=0) + self.confusion.sum(axis=1) - right
        return np.asarray(np.divide(right, union, out=np.full(len(right), np.nan), where=union > 0))

    @property
    def class_accuracies(self) -> NDArray[np.float64]:
        """Share of each class's pixels with the right class; NaN for one that does not occur."""
        right = np.diag(self.confusion).astype(np.float64)
        total = self.confusion.sum(axis=1)
        return np.asarray(np.divide(right, total, out=np.full(len(right), np.nan), where=total > 0))

    @property
    def mean_iou(self) -> float:
        """Mean over the classes that occur."""
        return _mean(self.iou)

    @property
    def class_accuracy(self) -> float:
        """Mean over the classes that occur."""
        return _mean(self.class_accuracies)

    def as_record(self) -> dict[str, float | None]:
        """What ``structboost segment evaluate`` writes; null where a class does not occur."""
        if len(self.confusion) == 2:
            background, foreground = (None if np.isnan(v) else float(v) for v in self.iou)
            return {"iou_foreground": foreground, "iou_background": background, "accuracy": self.accuracy}
        return {
            "mean_iou": self.mean_iou,
            "global_accuracy": self.accuracy,
            "class_accuracy": self.class_accuracy,
        }


def break_even(truth: NDArray[np.int64], margins: NDArray[np.float64], areas: NDArray[np.float64]) -> float:
    """Precision where it equals recall: of the foreground as many pixels are taken as there are true ones.

    Fulkerson et al., ICCV 2009; Table 6 of StructBoost.

    Parameters
    ----------
    truth : ndarray, shape (n, 2)
        Background and foreground pixels of each superpixel.
    margins : ndarray, shape (n,)
        Larger for foreground.
    areas : ndarray, shape (n,)
        Known pixels of each superpixel.
    """
    foreground = truth[:, 1].astype(np.float64)
    total = foreground.sum()
    if total == 0:
        return float("nan")
    order = np.argsort(-margins, kind="stable")
    taken = np.concatenate(([0.0], np.cumsum(areas[order])))
    hit = np.concatenate(([0.0], np.cumsum(foreground[order])))
    # Precision hit / taken equals recall hit / total where as much is taken as there is.
    return float(np.interp(total, taken, hit) / total)


def _share(part: Any, whole: Any) -> float:
    return float(part) / float(whole) if whole else float("nan")


def _mean(values: NDArray[np.float64]) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
