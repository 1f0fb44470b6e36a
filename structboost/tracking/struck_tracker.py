"""A tracker in the manner of Struck (Hare, Saffari and Torr, ICCV 2011): a kernel structured SVM with a budget."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from structboost.tracking.box_features import N_GRADIENT, N_GREY
from structboost.tracking.box_sampling import Boxes
from structboost.tracking.box_tracker import BoxTracker
from structboost.validation import checked_positive

Floats = NDArray[np.float64]

# Of Struck: how often patterns are gone through again after a new one, and the steps in each.
_N_REPROCESS, _N_OPTIMIZE = 10, 10


@dataclass(eq=False)
class _Pattern:
    """A frame learned from: features of its boxes, the object first, and their losses; its support vectors by box."""

    features: Floats
    losses: Floats
    support: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _KernelScorer:
    """Scores by the support vectors."""

    selected: NDArray[np.int64]
    scale: Floats
    vectors: Floats
    coefficients: Floats
    width: float

    def scores(self, features: NDArray[np.float32]) -> Floats:
        """``sum_s beta_s k(x_s, x)`` of boxes."""
        kernel = gaussian(features / self.scale, self.vectors, self.width)
        return np.asarray(kernel @ self.coefficients, np.float64)


class StruckTracker(BoxTracker):
    """LaRank on the overlap loss with a Gaussian kernel and a budget of support vectors, in the same loop.

    The features are the grey values and oriented gradients of :class:`StructBoostTracker`, over their spread in the
    first frame, where Struck has Haar features.

    Parameters
    ----------
    budget : int
        Support vectors; the paper compares with 50.
    C : float
        Most weight of an example; Struck has 100.
    width : float
        Of the kernel: ``exp(-width * |x - x'|^2)``, the features scaled so that the mean of the squares is 1.
    n_boxes, every, lost_below, random_state
        As in :class:`structboost.tracking.box_tracker.BoxTracker`.
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
        super().__init__(n_boxes=n_boxes, every=every, lost_below=lost_below, random_state=random_state)
        self.budget = int(checked_positive(budget, "budget"))
        self.C = checked_positive(C, "C")
        self.width = checked_positive(width, "width")
        if self.budget < 4:
            raise ValueError(f"budget is {budget!r}; give at least 4.")

    def _begin(self, n_features: int) -> None:
        self._selected = np.arange(N_GREY + N_GRADIENT)
        self._scale = np.zeros(0)
        self._patterns: list[_Pattern] = []
        # Of each support vector: its pattern and box, features, coefficient and gradient.
        self._of: list[tuple[_Pattern, int]] = []
        self._vectors = np.zeros((0, len(self._selected)))
        self._coefficients = np.zeros(0)
        self._gradients = np.zeros(0)
        self._kernel = np.zeros((0, 0))

    def _take_in(self, features: NDArray[np.float32], boxes: Boxes, shares: Floats, first: bool) -> None:
        used = features[:, self._selected].astype(np.float64)
        if not len(self._scale):
            self._scale = (used.std(axis=0) + 1e-3) * np.sqrt(len(self._selected))
        pattern = _Pattern(used / self._scale, 1.0 - shares)
        self._patterns.append(pattern)
        self._process_new(pattern)
        for _ in range(_N_REPROCESS):
            self._process_old()
            for _ in range(_N_OPTIMIZE):
                self._optimize()

    def _train(self, *, initial: bool) -> None:
        """Everything was done when the frame was taken in."""

    def _learned(self) -> _KernelScorer:
        return _KernelScorer(self._selected, self._scale, self._vectors, self._coefficients, self.width)

    def _gradients_of(self, pattern: _Pattern) -> Floats:
        """Gradient of the dual for every box of a pattern: ``-loss - F``."""
        if not len(self._of):
            return -pattern.losses
        kernel = gaussian(pattern.features, self._vectors, self.width)
        return np.asarray(-pattern.losses - kernel @ self._coefficients, np.float64)

    def _process_new(self, pattern: _Pattern) -> None:
        gradients = self._gradients_of(pattern)
        self._step(pattern, 0, int(np.argmin(gradients)), gradients)

    def _process_old(self) -> None:
        """Another box of an old pattern, chosen among all of its boxes."""
        pattern = self._some_pattern()
        up = self._steepest(pattern)
        if up is not None:
            gradients = self._gradients_of(pattern)
            self._step(pattern, up, int(np.argmin(gradients)), gradients)

    def _optimize(self) -> None:
        """A step between support vectors of an old pattern."""
        pattern = self._some_pattern()
        up = self._steepest(pattern)
        if up is not None:
            down = min(pattern.support, key=lambda box: self._gradients[pattern.support[box]])
            self._step(pattern, up, down, None)

    def _some_pattern(self) -> _Pattern:
        return self._patterns[self._random.randint(len(self._patterns))]

    def _steepest(self, pattern: _Pattern) -> int | None:
        """The support box of largest gradient that may gain weight."""
        free = [
            box for box, s in pattern.support.items() if self._coefficients[s] < (self.C if box == 0 else 0.0) - 1e-12
        ]
        return max(free, key=lambda box: self._gradients[pattern.support[box]], default=None)

    def _step(self, pattern: _Pattern, up: int, down: int, gradients: Floats | None) -> None:
        """Move weight between two boxes of a pattern to where the dual is largest."""
        if up == down:
            return
        a = self._support(pattern, up, gradients)
        b = self._support(pattern, down, gradients)
        rise = self._gradients[a] - self._gradients[b]
        if rise > 1e-5:
            curvature = self._kernel[a, a] + self._kernel[b, b] - 2.0 * self._kernel[a, b]
            most = (self.C if up == 0 else 0.0) - self._coefficients[a]
            length = min(rise / max(curvature, 1e-12), most)
            self._coefficients[a] += length
            self._coefficients[b] -= length
            self._gradients -= length * (self._kernel[:, a] - self._kernel[:, b])
        self._drop_unused(pattern)
        while len(self._of) > self.budget:
            self._drop_cheapest()

    def _support(self, pattern: _Pattern, box: int, gradients: Floats | None) -> int:
        """Number of the support vector of a box, made if there is none."""
        if box not in pattern.support:
            assert gradients is not None
            vector = pattern.features[box]
            row = gaussian(vector[None], self._vectors, self.width)[0]
            n = len(self._of)
            kernel = np.ones((n + 1, n + 1))
            kernel[:n, :n], kernel[n, :n], kernel[:n, n] = self._kernel, row, row
            self._kernel = kernel
            self._vectors = np.vstack((self._vectors, vector))
            self._coefficients = np.append(self._coefficients, 0.0)
            self._gradients = np.append(self._gradients, gradients[box])
            self._of.append((pattern, box))
            pattern.support[box] = n
        return pattern.support[box]

    def _drop_unused(self, pattern: _Pattern) -> None:
        """Drop the pattern's support vectors without weight, and the pattern with its last one."""
        unused = [s for s in pattern.support.values() if abs(self._coefficients[s]) < 1e-8]
        self._drop(unused)

    def _drop_cheapest(self) -> None:
        """Drop the negative support vector that matters least; its pattern's positive one takes its weight."""
        negative = [s for s, (_, box) in enumerate(self._of) if box != 0]
        positive = [self._of[s][0].support[0] for s in negative]
        k = self._kernel
        distance = k[negative, negative] + k[positive, positive] - 2.0 * k[negative, positive]
        at = int(np.argmin(self._coefficients[negative] ** 2 * distance))
        gone, other = negative[at], positive[at]
        weight = self._coefficients[gone]
        self._coefficients[other] += weight
        self._gradients -= weight * (self._kernel[:, other] - self._kernel[:, gone])
        self._drop([gone] + ([other] if self._coefficients[other] < 1e-8 else []))

    def _drop(self, numbers: list[int]) -> None:
        if not numbers:
            return
        kept = np.setdiff1d(np.arange(len(self._of)), numbers)
        self._of = [self._of[s] for s in kept]
        self._vectors, self._coefficients = self._vectors[kept], self._coefficients[kept]
        self._gradients, self._kernel = self._gradients[kept], self._kernel[np.ix_(kept, kept)]
        for pattern in self._patterns:
            pattern.support = {}
        for s, (pattern, box) in enumerate(self._of):
            pattern.support[box] = s
        self._patterns = [pattern for pattern in self._patterns if pattern.support]


def gaussian(a: Floats, b: Floats, width: float) -> Floats:
    """``exp(-width |a_i - b_j|^2)``, shape (len(a), len(b))."""
    squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2.0 * a @ b.T
    return np.asarray(np.exp(-width * np.maximum(squares, 0.0)))
