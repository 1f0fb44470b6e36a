"""Weak learners of a CRF: the linear energy that structured SVMs learned on other images, and stumps.

Stumps alone have to rebuild in steps what is linear in the potentials, and over-fit where images are few; beside a
linear column, which costs next to nothing, they are taken only where the energy is better not linear
(docs/decisions/superpixel-crf.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost.weak.base import Candidate, WeakLearnerFamily
from structboost.weak.stump import Stump, StumpFamily, StumpTable

# Standard deviation of the linear column, where a stump answers in {-1, 1}: its weight is hardly regularised.
_LINEAR_SPREAD = 10.0

Floats = NDArray[np.float64]


class CrossFittedWeights(NamedTuple):
    """Linear weights that were learned without the rows they are used on.

    Attributes
    ----------
    weights : ndarray, shape (n_folds, n_features)
    folds : ndarray of int64, shape (n_parts,)
        Which weights a training part gets: those of images other than its own.
    """

    weights: Floats
    folds: NDArray[np.int64]


class Linear(NamedTuple):
    """``coefficients'x``."""

    coefficients: tuple[float, ...]


@dataclass(frozen=True)
class LinearAndStumpTable:
    """Learners as arrays: each is a linear function or a stump, and zero as the other.

    Parameters
    ----------
    coefficients : ndarray, shape (n_learners, n_features)
    feature : ndarray of int64, shape (n_learners,)
    threshold, left, right : ndarray of float64, shape (n_learners,)
        ``left`` where the feature is at most the threshold, else ``right``; both 0 for a linear function.
    """

    coefficients: Floats
    feature: NDArray[np.int64]
    threshold: Floats
    left: Floats
    right: Floats

    def __len__(self) -> int:
        return len(self.feature)

    @property
    def stumps(self) -> StumpTable:
        """The stumps, with answers 0 in the place of linear functions."""
        return StumpTable(self.feature, self.threshold, self.left, self.right)

    def responses(self, features: NDArray[Any]) -> Floats:
        """Answers of all learners on ``features``, shape (n_learners, n_parts)."""
        return self.coefficients @ np.asarray(features, np.float64).T + self.stumps.responses(features)

    def select(self, index: NDArray[np.int64]) -> LinearAndStumpTable:
        """The learners at ``index``."""
        return LinearAndStumpTable(*(array[index] for array in self.to_arrays().values()))

    def feature_shares(self, n_features: int) -> Floats:
        """One for the feature a stump splits; shares of the absolute coefficients of a linear function."""
        sizes = np.abs(self.coefficients)
        linear = sizes / np.maximum(sizes.sum(axis=1, keepdims=True), 1e-300)
        is_stump = np.asarray(~self.coefficients.any(axis=1))
        return np.asarray(linear + self.stumps.feature_shares(n_features) * is_stump[:, None])

    def to_arrays(self) -> Mapping[str, NDArray[Any]]:
        """The arrays, in the order of the parameters."""
        return vars(self)


class LinearAndStumpFamily(WeakLearnerFamily):
    """One linear function, and all stumps.

    On the training parts the linear function answers with the weights of the part's fold; elsewhere with the folds'
    mean, scaled alike.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
    response : (float, float)
        The two answers of a stump.  Where none is negative, the weights must not be, nor the features.
    linear : CrossFittedWeights
    exact, n_threads
        As :class:`structboost.weak.stump.StumpFamily` takes them.

    Raises
    ------
    ValueError
        If the weights do not fit the features.
    """

    name = "linear_and_stump"
    exact_pricing = True

    def __init__(
        self,
        features: NDArray[Any],
        response: tuple[float, float],
        *,
        linear: CrossFittedWeights,
        exact: bool = False,
        n_threads: int = 1,
    ) -> None:
        self._stumps = StumpFamily(features, response, exact=exact, n_threads=n_threads)
        self.n_features = self._stumps.n_features
        if linear.weights.shape[1:] != (self.n_features,) or linear.folds.shape != (len(features),):
            raise ValueError(
                f"weights have shape {linear.weights.shape} and folds {linear.folds.shape}; the features have "
                f"{features.shape}."
            )
        mean = linear.weights.mean(axis=0)
        spread = float((np.asarray(features, np.float64) @ mean).std())
        scale = _LINEAR_SPREAD / spread if spread > 1e-12 else 0.0
        self._linear = Linear(tuple((scale * mean).tolist()))
        answers = np.empty(len(features))
        for fold, weights in enumerate(linear.weights):
            inside = linear.folds == fold
            answers[inside] = features[inside] @ (scale * weights)
        self._answers = answers.astype(np.float32)

    def price(self, duals: NDArray[np.float64], per_channel: int) -> Sequence[Candidate]:
        """The linear function on every channel, and the best stumps."""
        edges = self._answers.astype(np.float64) @ duals
        linear = [Candidate(self._linear, channel, float(edge)) for channel, edge in enumerate(edges)]
        return sorted([*linear, *self._stumps.price(duals, per_channel)], key=lambda candidate: -candidate.edge)

    def refine(self, learner: Any, duals: NDArray[np.float64]) -> Sequence[Candidate]:
        """The learner on every channel; a linear function cannot be turned."""
        if isinstance(learner, Stump):
            return self._stumps.refine(learner, duals)
        edges = self._answers.astype(np.float64) @ duals
        return [Candidate(learner, channel, float(edge)) for channel, edge in enumerate(edges)]

    def responses(self, learners: Sequence[Any]) -> NDArray[Any]:
        """Answers on the training parts."""
        out = np.empty((len(learners), len(self._answers)), np.float32)
        for row, learner in zip(out, learners, strict=True):
            row[:] = self._stumps.responses([learner])[0] if isinstance(learner, Stump) else self._answers
        return out

    def table(self, learners: Sequence[Any]) -> LinearAndStumpTable:
        """The learners as arrays."""
        nothing = (0.0,) * self.n_features
        stumps = [s if isinstance(s, Stump) else Stump(0, -np.inf, 0.0, 0.0, -1) for s in learners]
        table = self._stumps.table(stumps)
        coefficients = [nothing if isinstance(learner, Stump) else learner.coefficients for learner in learners]
        shape = (len(learners), self.n_features)
        return LinearAndStumpTable(
            np.array(coefficients, np.float64).reshape(shape), table.feature, table.threshold, table.left, table.right
        )
