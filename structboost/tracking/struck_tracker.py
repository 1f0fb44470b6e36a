"""Tracker by a kernel structured SVM with a budget, in the manner of Struck.

Hare, Saffari and Torr, "Struck: Structured Output Tracking with Kernels" (ICCV 2011).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.inference.box_search import overlaps
from structboost.runtime.compiled import compiled
from structboost.solvers.products import ordered_times_vector
from structboost.tracking.box_features import N_GRADIENT, N_GREY
from structboost.tracking.box_learner import BoxLearner
from structboost.tracking.box_tracker import BoxTracker
from structboost.validation import checked_positive, checked_whole_number

# Passes over old patterns after a new one, and steps in each, as in Struck.
_N_REPROCESS, _N_OPTIMIZE = 10, 10


@dataclass(eq=False)
class _Pattern:
    """Features and losses of the boxes of a frame, with the object first."""

    features: FloatArray
    losses: FloatArray


class StruckTracker(BoxTracker):
    """Tracker by LaRank on the overlap loss with a Gaussian kernel and a budget.

    The features are the grey values and oriented gradients of :class:`StructBoostTracker`, divided
    by their std in the first frame; Struck has Haar features.

    Parameters
    ----------
    budget : int
        Number of support vectors; the paper compares with 50.
    C : float
        Largest weight of an example; Struck has 100.
    width : float
        Inverse width of the kernel ``exp(-width * |x - x'|^2)``; features are scaled so that the
        mean of their squares is 1.
    n_boxes, every, lost_below, random_state
        As in :class:`structboost.tracking.BoxTracker`.

    Examples
    --------
    >>> from structboost.tracking import StruckTracker, make_synthetic_clip
    >>> clip = make_synthetic_clip(3)
    >>> tracker = StruckTracker(random_state=0).init(clip.frames[0], clip.boxes[0])
    >>> tracker.update(clip.frames[1]).shape
    (4,)
    >>> tracker.lost
    False
    """

    def __init__(
        self,
        *,
        budget: int = 50,
        C: float = 100.0,
        width: float = 1.0,
        n_boxes: int = 200,
        every: int = 2,
        lost_below: float = 0.1,
        random_state: int = 0,
    ) -> None:
        learner = StruckLearner(budget=budget, C=C, width=width)
        super().__init__(
            learner, n_boxes=n_boxes, every=every, lost_below=lost_below, random_state=random_state
        )


class StruckLearner(BoxLearner):
    """Learner of :class:`StruckTracker`."""

    def __init__(self, *, budget: int, C: float, width: float) -> None:
        self.budget = checked_whole_number(budget, "budget")
        self.C = checked_positive(C, "C")
        self.width = checked_positive(width, "width")
        if self.budget < 4:
            raise ValueError(f"budget is {budget!r}; give at least 4.")

    @override
    def begin(self, n_boxes: int, n_features: int, random: np.random.RandomState) -> None:
        self._random = random
        self._selected = np.arange(N_GREY + N_GRADIENT)
        self._scale = np.zeros(0)
        self._patterns: list[_Pattern] = []
        # For each support vector: pattern and box, features, coefficient and gradient.
        self._of: list[tuple[_Pattern, int]] = []
        self._vectors = np.zeros((0, len(self._selected)))
        self._coefficients = np.zeros(0)
        self._gradients = np.zeros(0)
        self._kernel = np.zeros((0, 0))

    @override
    def add(self, features: NDArray[np.float32], boxes: FloatArray, *, first: bool) -> None:
        used = features[:, self._selected].astype(np.float64)
        if not len(self._scale):
            self._scale = (used.std(axis=0) + 1e-3) * np.sqrt(len(self._selected))
        pattern = _Pattern(used / self._scale, 1.0 - overlaps(boxes[0], boxes))
        self._patterns.append(pattern)
        gradients = self._gradients_of(pattern)
        self._step(pattern, 0, int(np.argmin(gradients)), gradients)
        for _ in range(_N_REPROCESS):
            self._learn_from_old(all_boxes=True)
            for _ in range(_N_OPTIMIZE):
                self._learn_from_old(all_boxes=False)

    @override
    def train(self, *, initial: bool) -> Self:
        return self  # trained by `add`

    @property
    def selected(self) -> IntArray:
        """Grey values and gradients."""
        return self._selected

    def scores(self, features: NDArray[np.float32]) -> FloatArray:
        """Return ``sum_s beta_s k(x_s, x)`` of boxes, over the support vectors."""
        return self._scores(features / self._scale)

    def _scores(self, features: FloatArray) -> FloatArray:
        kernel = gaussian(features, self._vectors, self.width)
        return ordered_times_vector(kernel, self._coefficients)

    def _gradients_of(self, pattern: _Pattern) -> FloatArray:
        """Return the gradient of the dual for every box of a pattern, ``-loss - F``."""
        if not len(self._of):
            return -pattern.losses
        return -pattern.losses - self._scores(pattern.features)

    def _support(self, pattern: _Pattern) -> dict[int, int]:
        """Return the indices of a pattern's support vectors by their boxes."""
        return {box: s for s, (of, box) in enumerate(self._of) if of is pattern}

    def _learn_from_old(self, *, all_boxes: bool) -> None:
        """Take a step on a random pattern, from all boxes or from its support vectors only."""
        pattern = self._patterns[self._random.randint(len(self._patterns))]
        support = self._support(pattern)
        free = [
            box
            for box, s in support.items()
            if self._coefficients[s] < (self.C if box == 0 else 0.0) - 1e-12
        ]
        if not free:
            return
        up = max(free, key=lambda box: self._gradients[support[box]])
        if all_boxes:
            gradients = self._gradients_of(pattern)
            self._step(pattern, up, int(np.argmin(gradients)), gradients)
        else:
            down = min(support, key=lambda box: self._gradients[support[box]])
            self._step(pattern, up, down, None)

    def _step(self, pattern: _Pattern, up: int, down: int, gradients: FloatArray | None) -> None:
        """Move weight between two boxes of a pattern until the dual is largest."""
        if up == down:
            return
        a, b = (self._support_vector(pattern, box, gradients) for box in (up, down))
        rise = self._gradients[a] - self._gradients[b]
        if rise > 1e-5:
            curvature = self._kernel[a, a] + self._kernel[b, b] - 2.0 * self._kernel[a, b]
            most = (self.C if up == 0 else 0.0) - self._coefficients[a]
            length = min(rise / max(curvature, 1e-12), most)
            self._coefficients[a] += length
            self._coefficients[b] -= length
            self._gradients -= length * (self._kernel[:, a] - self._kernel[:, b])
        support = self._support(pattern).values()
        self._drop([s for s in support if abs(self._coefficients[s]) < 1e-8])
        while len(self._of) > self.budget:
            self._drop_cheapest()

    def _support_vector(self, pattern: _Pattern, box: int, gradients: FloatArray | None) -> int:
        """Return the index of the support vector of a box, which is added if missing."""
        n, support = len(self._of), self._support(pattern)
        if box not in support:
            assert gradients is not None
            vector = pattern.features[box]
            row = gaussian(vector[None], self._vectors, self.width)[0]
            kernel = np.ones((n + 1, n + 1))
            kernel[:n, :n], kernel[n, :n], kernel[:n, n] = self._kernel, row, row
            self._kernel = kernel
            self._vectors = np.vstack((self._vectors, vector))
            self._coefficients = np.append(self._coefficients, 0.0)
            self._gradients = np.append(self._gradients, gradients[box])
            self._of.append((pattern, box))
        return support.get(box, n)

    def _drop_cheapest(self) -> None:
        """Drop the cheapest negative support vector, whose weight goes to a positive one."""
        negative = [s for s, (_, box) in enumerate(self._of) if box != 0]
        positive = [self._support(self._of[s][0])[0] for s in negative]
        k = self._kernel
        distance = k[negative, negative] + k[positive, positive] - 2.0 * k[negative, positive]
        at = int(np.argmin(self._coefficients[negative] ** 2 * distance))
        gone, other = negative[at], positive[at]
        weight = self._coefficients[gone]
        self._coefficients[other] += weight
        self._gradients -= weight * (self._kernel[:, other] - self._kernel[:, gone])
        self._drop([gone] + ([other] if self._coefficients[other] < 1e-8 else []))

    def _drop(self, dropped: list[int]) -> None:
        if not dropped:
            return
        rest = np.setdiff1d(np.arange(len(self._of)), dropped)
        self._of = [self._of[s] for s in rest]
        self._vectors, self._coefficients = self._vectors[rest], self._coefficients[rest]
        self._gradients, self._kernel = self._gradients[rest], self._kernel[np.ix_(rest, rest)]
        used = {pattern for pattern, _ in self._of}
        self._patterns = [pattern for pattern in self._patterns if pattern in used]


def gaussian(a: FloatArray, b: FloatArray, width: float) -> FloatArray:
    """Return ``exp(-width |a_i - b_j|^2)``, shape (len(a), len(b))."""
    products = np.zeros((len(a), len(b)))
    _add_products(np.ascontiguousarray(a), np.ascontiguousarray(b.T), products)
    squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2.0 * products
    return np.asarray(np.exp(-width * np.maximum(squares, 0.0)))


@compiled
def _add_products(a: FloatArray, b: FloatArray, out: FloatArray) -> None:
    """Add ``a @ b`` to ``out``, in one order on every machine."""
    for i in range(len(a)):
        row = out[i]
        for k in range(len(b)):
            value, of_columns = a[i, k], b[k]
            for j in range(len(row)):
                row[j] += value * of_columns[j]
