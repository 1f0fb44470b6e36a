"""Linear weak learners ``sign(v'x + b)``: perceptron (31), weighted linear SVM (section 4.3), Fisher's discriminant."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from structboost.weak.base import Candidate, WeakLearnerFamily
from structboost.weak.stump import StumpFamily

# Steps of the sigmoid: from smooth to nearly the sign.
_SHARPNESS = (1.0, 4.0)
_MAX_ITERATIONS = 50
# Share of the non-zero duals that the SVM leaves out, the smallest (section 4.3).
_TRIMMED = 0.1
# Added to the diagonal of the within-class scatter of standardised features.
_RIDGE = 1e-3


class Hyperplane(NamedTuple):
    """``right`` where ``coefficients'x + intercept`` is positive, else ``left``."""

    coefficients: tuple[float, ...]
    intercept: float
    left: float
    right: float


@dataclass(frozen=True)
class HyperplaneTable:
    """Hyperplanes as arrays.

    Parameters
    ----------
    coefficients : ndarray, shape (n_learners, n_features)
    intercept, left, right : ndarray, shape (n_learners,)
    """

    coefficients: NDArray[np.float64]
    intercept: NDArray[np.float64]
    left: NDArray[np.float64]
    right: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.intercept)

    def responses(self, features: NDArray[Any]) -> NDArray[np.float64]:
        """Answers of all learners on ``features``, shape (n_learners, n_parts)."""
        side = self.coefficients @ np.asarray(features, np.float64).T + self.intercept[:, None]
        return np.where(side > 0, self.right[:, None], self.left[:, None])

    def select(self, index: NDArray[np.int64]) -> HyperplaneTable:
        """The learners at ``index``."""
        return HyperplaneTable(self.coefficients[index], self.intercept[index], self.left[index], self.right[index])

    def feature_shares(self, n_features: int) -> NDArray[np.float64]:
        """Each feature's share of the absolute coefficients."""
        sizes = np.abs(self.coefficients)
        return np.asarray(sizes / np.maximum(sizes.sum(axis=1, keepdims=True), 1e-300))

    def to_arrays(self) -> Mapping[str, NDArray[Any]]:
        """The arrays a model file holds."""
        return {
            "coefficients": self.coefficients,
            "intercept": self.intercept,
            "left": self.left,
            "right": self.right,
        }


class LinearFamily(WeakLearnerFamily):
    """Hyperplanes found one a channel by :meth:`direction`, on standardised features.

    The best one is not found for certain, so nothing is certified.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
    response : (float, float)
        The two answers.
    exact, n_threads
        Not used.
    """

    exact_pricing = False

    def __init__(
        self,
        features: NDArray[Any],
        response: tuple[float, float],
        *,
        exact: bool = False,
        n_threads: int = 1,
    ) -> None:
        rows = np.asarray(features, np.float64)
        self.low, self.high = response
        self.n_features = rows.shape[1]
        self._means = rows.mean(axis=0)
        spread = rows.std(axis=0)
        self._spreads = np.where(spread > 0, spread, 1.0)
        self._scaled = (rows - self._means) / self._spreads

    @abstractmethod
    def direction(self, duals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Coefficients on the standardised features, then the intercept, for the signed weights of one channel."""

    def price(self, duals: NDArray[np.float64], per_channel: int) -> list[Candidate]:
        """One hyperplane a channel, best first; its answers turned the way that has the larger edge."""
        found = []
        for channel in range(duals.shape[1]):
            own = np.ascontiguousarray(duals[:, channel])
            plane = self._plane(self.direction(own) if own.any() else np.zeros(self.n_features + 1))
            found.append(max(self._both_ways(plane, own, channel), key=lambda candidate: candidate.edge))
        return sorted(found, key=lambda candidate: -candidate.edge)

    def price_shared(self, duals: NDArray[np.float64], n_learners: int) -> list[tuple[Hyperplane, NDArray[np.float64]]]:
        """Of the best hyperplanes of the channels, those of largest l1 norm of edges."""
        planes = list(dict.fromkeys(candidate.learner for candidate in self.price(duals, 1)))
        edges = self.responses(planes) @ duals
        order = np.argsort(-np.abs(edges).sum(axis=1), kind="stable")[:n_learners]
        return [(planes[k], edges[k]) for k in order]

    def refine(self, learner: Hyperplane, duals: NDArray[np.float64]) -> list[Candidate]:
        """The hyperplane on every channel, turned the way the channel prefers."""
        return [
            max(self._both_ways(learner, duals[:, c], c), key=lambda candidate: candidate.edge)
            for c in range(duals.shape[1])
        ]

    def responses(self, learners: Sequence[Hyperplane]) -> NDArray[Any]:
        """Answers on the training parts, int8 where both answers are small integers."""
        whole = float(self.low).is_integer() and float(self.high).is_integer()
        raw = self._scaled * self._spreads + self._means
        return self.table(learners).responses(raw).astype(np.int8 if whole else np.float32)

    def table(self, learners: Sequence[Hyperplane]) -> HyperplaneTable:
        """The learners as arrays."""
        return HyperplaneTable(
            np.array([h.coefficients for h in learners], np.float64).reshape(-1, self.n_features),
            np.array([h.intercept for h in learners], np.float64),
            np.array([h.left for h in learners], np.float64),
            np.array([h.right for h in learners], np.float64),
        )

    def _plane(self, direction: NDArray[np.float64]) -> Hyperplane:
        """On the features as they come."""
        coefficients = direction[:-1] / self._spreads
        intercept = float(direction[-1] - coefficients @ self._means)
        return Hyperplane(tuple(coefficients.tolist()), intercept, self.low, self.high)

    def _both_ways(self, plane: Hyperplane, duals: NDArray[np.float64], channel: int) -> list[Candidate]:
        ways = [plane, plane._replace(left=plane.right, right=plane.left)]
        edges = self.responses(ways) @ duals
        return [Candidate(way, channel, float(edge)) for way, edge in zip(ways, edges, strict=True)]


class PerceptronFamily(LinearFamily):
    """Maximises the edge with a sigmoid for the sign, by L-BFGS from the best stump (section 4.2)."""

    name = "perceptron"

    def __init__(
        self,
        features: NDArray[Any],
        response: tuple[float, float],
        *,
        exact: bool = False,
        n_threads: int = 1,
    ) -> None:
        super().__init__(features, response, exact=exact, n_threads=n_threads)
        self._stumps = StumpFamily(self._scaled, (-1.0, 1.0), exact=exact)

    def direction(self, duals: NDArray[np.float64]) -> NDArray[np.float64]:
        """The best of the stump and of what each sharpness made of it."""
        scale = float(np.abs(duals).sum())
        weights = duals / scale
        best = at = self._start(weights)
        best_edge = self._edge(at, weights)
        for sharpness in _SHARPNESS:
            answer = minimize(
                self._smooth_edge, at, args=(weights, sharpness), jac=True, method="L-BFGS-B",
                options={"maxiter": _MAX_ITERATIONS},
            )  # fmt: skip
            at = np.asarray(answer.x, np.float64)
            edge = self._edge(at, weights)
            if edge > best_edge:
                best, best_edge = at, edge
        return best

    def _start(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The best stump as a hyperplane."""
        stump = self._stumps.price(weights[:, None], 1)[0].learner
        out = np.zeros(self.n_features + 1)
        if np.isfinite(stump.threshold):
            out[stump.feature] = stump.right
            out[-1] = -stump.right * stump.threshold
        else:
            out[-1] = stump.right
        return out

    def _edge(self, at: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
        return float(weights @ np.where(self._scaled @ at[:-1] + at[-1] > 0, 1.0, -1.0))

    def _smooth_edge(
        self, at: NDArray[np.float64], weights: NDArray[np.float64], sharpness: float
    ) -> tuple[float, NDArray[np.float64]]:
        """Minus the edge with tanh for the sign, and its gradient."""
        answers = np.tanh(sharpness * (self._scaled @ at[:-1] + at[-1]))
        slopes = -sharpness * weights * (1.0 - answers**2)
        return -float(weights @ answers), np.append(slopes @ self._scaled, slopes.sum())


class SVMFamily(LinearFamily):
    """Linear SVM with the sizes of the duals as weights, the smallest tenth of them left out (section 4.3)."""

    name = "svm"

    def direction(self, duals: NDArray[np.float64]) -> NDArray[np.float64]:
        """scikit-learn's LinearSVC."""
        rows = np.flatnonzero(duals)
        sizes = np.abs(duals[rows])
        rows = rows[sizes >= np.quantile(sizes, _TRIMMED)]
        labels = duals[rows] > 0
        if labels.all() or not labels.any():
            return np.append(np.zeros(self.n_features), 1.0)
        sizes = np.abs(duals[rows])
        machine = LinearSVC(dual=False, tol=1e-3).fit(self._scaled[rows], labels, sample_weight=sizes / sizes.mean())
        return np.append(machine.coef_[0], machine.intercept_[0])


class LDAFamily(LinearFamily):
    """Fisher's discriminant with the sizes of the duals as weights, cut where the edge is largest."""

    name = "lda"

    def direction(self, duals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Within-class scatter against the difference of the means; then the best threshold on it."""
        positive, negative = np.maximum(duals, 0.0), np.maximum(-duals, 0.0)
        if positive.sum() == 0 or negative.sum() == 0:
            return np.append(np.zeros(self.n_features), 1.0)
        scatter = _RIDGE * np.eye(self.n_features)
        means = []
        for side in (positive, negative):
            shares = side / side.sum()
            means.append(shares @ self._scaled)
            centred = self._scaled - means[-1]
            scatter += 0.5 * (centred * shares[:, None]).T @ centred
        coefficients = np.linalg.solve(scatter, means[0] - means[1])
        projected = self._scaled @ coefficients
        order = np.argsort(projected, kind="stable")
        sums = np.cumsum(duals[order])
        splits = np.flatnonzero(np.diff(projected[order]) > 0)
        if not len(splits):
            return np.append(np.zeros(self.n_features), 1.0)
        best = splits[int(np.argmin(sums[splits]))]
        return np.append(coefficients, -0.5 * float(projected[order[best]] + projected[order[best + 1]]))
