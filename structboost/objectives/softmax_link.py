"""Link from scores to class probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from structboost._typing import FloatArray
from structboost.validation import checked_number


@dataclass(frozen=True)
class SoftmaxLink:
    """Link by a softmax of the scores, as plain data that exports also read.

    With q the softmax of ``sharpness`` times the scores, and ``b = exp(margin)``, the probabilities
    are proportional to ``q (b - (b - 1) q)``.

    Parameters
    ----------
    sharpness : float
        Factor of the scores.
    margin : float
        Number that the loss adds to the scores of wrong classes.  With 0, the probabilities are q.
    """

    sharpness: float = 1.0
    margin: float = 0.0

    def __post_init__(self) -> None:
        checked_number(self.sharpness, "sharpness")
        checked_number(self.margin, "margin")

    def sharpened(self, factor: float) -> SoftmaxLink:
        """Link for scores that are ``factor`` times as large."""
        return replace(self, sharpness=self.sharpness * factor)

    def inverse(self, scores: FloatArray) -> FloatArray:
        """Compute the probabilities of the classes, shape (n_samples, n_classes), from scores."""
        probabilities = softmax(self.sharpness * scores, axis=1)
        if not self.margin:
            return np.asarray(probabilities)
        factor = math.exp(self.margin)
        out = probabilities * (factor - (factor - 1.0) * probabilities)
        return np.asarray(out / out.sum(axis=1, keepdims=True))
