"""Linear weak learners ``sign(v'x + b)``.

They are the perceptron (31), the weighted linear SVM (section 4.3) and Fisher's discriminant.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from structboost._typing import AnyArray, FloatArray, Range, override
from structboost.files.archive import Array
from structboost.learners.base import (
    Candidate,
    WeakLearnerFamily,
    best_first,
    check_has_rows,
    response_type,
)
from structboost.learners.standardisation import check_sizes
from structboost.learners.stump import StumpFamily
from structboost.learners.table import LearnerTable, shares_of_coefficients

# Largest size of values, and of its inverse: their squares are numbers.
_LARGEST = 1e150
# Steps of the sigmoid: from smooth to nearly the sign.
_SHARPNESS = (1.0, 4.0)
_MAX_ITERATIONS = 50
# Share of the non-zero duals that the SVM leaves out, the smallest (section 4.3).
_TRIMMED = 0.1
# Added to the diagonal of the within-class scatter of standardised features.
_RIDGE = 1e-3


class Hyperplane(NamedTuple):
    """Hyperplane, ``right`` where ``coefficients'x + intercept`` is positive, else ``left``."""

    coefficients: tuple[float, ...]
    intercept: float
    left: float
    right: float


@dataclass(frozen=True)
class HyperplaneTable(LearnerTable):
    """Table of hyperplanes, with the response ``left`` on the negative side, else ``right``."""

    schema = {
        "coefficients": Array("float64", ("n_learners", "n_features")),
        "intercept": Array("float64", ("n_learners",)),
        "left": Array("float64", ("n_learners",)),
        "right": Array("float64", ("n_learners",)),
    }

    coefficients: FloatArray
    intercept: FloatArray
    left: FloatArray
    right: FloatArray

    @override
    def responses(self, features: AnyArray) -> FloatArray:
        side = self.coefficients @ np.asarray(features, np.float64).T + self.intercept[:, None]
        return np.where(side > 0, self.right[:, None], self.left[:, None])

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        return shares_of_coefficients(self.coefficients)


class LinearFamily(WeakLearnerFamily):
    """Family of hyperplanes on standardised features, found by :meth:`direction`.

    The best one may be missed, so nothing is certified.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
        Features of the training parts, finite.
    response : (float, float)
        The two responses.

    Raises
    ------
    TaskError
        If there is no training part, or squares of a feature overflow or vanish.
    """

    exact_pricing = False

    def __init__(self, features: AnyArray, response: Range) -> None:
        check_has_rows(features, self.name)
        rows = np.asarray(features, np.float64)
        check_sizes(np.abs(rows).max(axis=0), self.name, _LARGEST)
        self.low, self.high = response
        self.n_features = rows.shape[1]
        self._means = rows.mean(axis=0)
        spread = rows.std(axis=0)
        self._spreads = np.where(spread > 0, spread, 1.0)
        self._scaled = (rows - self._means) / self._spreads

    @abstractmethod
    def direction(self, duals: FloatArray) -> FloatArray:
        """Find coefficients on the standardised features, followed by the intercept.

        Parameters
        ----------
        duals : ndarray, shape (n_parts,)
            Signed weights of one channel, not all zero.

        Returns
        -------
        direction : ndarray, shape (n_features + 1,)
            The hyperplane is where its product with (features, 1) is 0.
        """

    @override
    def price(self, duals: FloatArray, per_channel: int) -> list[Candidate]:
        candidates = []
        for channel, weights in enumerate(np.ascontiguousarray(duals.T)):
            direction = np.zeros(self.n_features + 1)
            if weights.any():
                direction = self.direction(weights)
            coefficients = direction[:-1] / self._spreads
            intercept = float(direction[-1] - coefficients @ self._means)
            plane = Hyperplane(tuple(coefficients.tolist()), intercept, self.low, self.high)
            (best,) = self.refine(plane, weights[:, None])
            candidates.append(best._replace(channel=channel))
        return best_first(candidates)

    @override
    def ways(self, learner: Hyperplane) -> Sequence[Hyperplane]:
        return [learner, learner._replace(left=learner.right, right=learner.left)]

    @override
    def responses(self, learners: Sequence[Hyperplane]) -> AnyArray:
        raw = self._scaled * self._spreads + self._means
        return self.table(learners).responses(raw).astype(response_type(self.low, self.high))

    @override
    def table(self, learners: Sequence[Hyperplane]) -> HyperplaneTable:
        coefficients = np.array([h.coefficients for h in learners], np.float64)
        shape = (-1, self.n_features)
        return HyperplaneTable.of(learners, coefficients=coefficients.reshape(shape))


class PerceptronFamily(LinearFamily):
    """Family of perceptrons that maximise a smooth edge, by L-BFGS from the best stump.

    Other parameters and the errors are those of :class:`LinearFamily`.

    Parameters
    ----------
    exact : bool
        Whether the stump is searched over all distinct thresholds, or over at most 255 per feature.

    Notes
    -----
    StructBoost, section 4.2 and (31).
    """

    name = "perceptron"

    def __init__(self, features: AnyArray, response: Range, *, exact: bool | None = None) -> None:
        super().__init__(features, response)
        self._stumps = StumpFamily(self._scaled, (-1.0, 1.0), exact=bool(exact))

    @override
    def direction(self, duals: FloatArray) -> FloatArray:
        weights = duals / float(np.abs(duals).sum())
        best = at = self._start(weights)
        best_edge = self._edge(at, weights)
        for sharpness in _SHARPNESS:
            result = minimize(
                self._smooth_edge, at, args=(weights, sharpness), jac=True, method="L-BFGS-B",
                options={"maxiter": _MAX_ITERATIONS},
            )  # fmt: skip
            at = np.asarray(result.x, np.float64)
            edge = self._edge(at, weights)
            if edge > best_edge:
                best, best_edge = at, edge
        return best

    def _start(self, weights: FloatArray) -> FloatArray:
        stump = self._stumps.price(weights[:, None], 1)[0].learner
        out = np.zeros(self.n_features + 1)
        if np.isfinite(stump.threshold):
            out[stump.feature] = stump.right
            out[-1] = -stump.right * stump.threshold
        else:
            out[-1] = stump.right
        return out

    def _edge(self, at: FloatArray, weights: FloatArray) -> float:
        return float(weights @ np.where(self._scaled @ at[:-1] + at[-1] > 0, 1.0, -1.0))

    def _smooth_edge(
        self, at: FloatArray, weights: FloatArray, sharpness: float
    ) -> tuple[float, FloatArray]:
        """Negative edge with tanh in place of the sign, and its gradient."""
        responses = np.tanh(sharpness * (self._scaled @ at[:-1] + at[-1]))
        slopes = -sharpness * weights * (1.0 - responses**2)
        return -float(weights @ responses), np.append(slopes @ self._scaled, slopes.sum())


class SVMFamily(LinearFamily):
    """Family of linear SVMs weighted by absolute duals, without the smallest tenth.

    Parameters and errors are those of :class:`LinearFamily`.

    Notes
    -----
    StructBoost, section 4.3.
    """

    name = "svm"

    @override
    def direction(self, duals: FloatArray) -> FloatArray:
        rows = np.flatnonzero(duals)
        sizes = np.abs(duals[rows])
        rows = rows[sizes >= np.quantile(sizes, _TRIMMED)]
        labels = duals[rows] > 0
        if labels.all() or not labels.any():
            return np.append(np.zeros(self.n_features), 1.0)
        sizes = np.abs(duals[rows])
        machine = LinearSVC(dual=False, tol=1e-3).fit(
            self._scaled[rows], labels, sample_weight=sizes / sizes.mean()
        )
        return np.append(machine.coef_[0], machine.intercept_[0])


class LDAFamily(LinearFamily):
    """Family of Fisher's discriminants weighted by absolute duals, cut at the largest edge.

    Parameters and errors are those of :class:`LinearFamily`.

    Notes
    -----
    MultiBoost.MO and .ECC, second experiment (Table III): there LDA is the base learner.
    """

    name = "lda"

    @override
    def direction(self, duals: FloatArray) -> FloatArray:
        positive, negative = np.maximum(duals, 0.0), np.maximum(-duals, 0.0)
        if positive.sum() == 0 or negative.sum() == 0:
            return np.append(np.zeros(self.n_features), 1.0)
        scatter = _RIDGE * np.eye(self.n_features)
        means = []
        for side in (positive, negative):
            row_weights = side / side.sum()
            means.append(row_weights @ self._scaled)
            centred = self._scaled - means[-1]
            scatter += 0.5 * (centred * row_weights[:, None]).T @ centred
        coefficients = np.linalg.solve(scatter, means[0] - means[1])
        projected = self._scaled @ coefficients
        order = np.argsort(projected, kind="stable")
        sums = np.cumsum(duals[order])
        splits = np.flatnonzero(np.diff(projected[order]) > 0)
        if not len(splits):
            return np.append(np.zeros(self.n_features), 1.0)
        best = splits[int(np.argmin(sums[splits]))]
        return np.append(
            coefficients, -0.5 * float(projected[order[best]] + projected[order[best + 1]])
        )
