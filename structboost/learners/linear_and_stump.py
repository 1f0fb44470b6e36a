"""Linear function that was learned on other examples, together with stumps.

Stumps alone rebuild in steps what is linear, and over-fit where examples are few.  After a linear
column, which costs next to nothing, they are chosen only where the score is not linear
(docs/decisions/superpixel-crf.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.files.schema import Array
from structboost.learners.base import Candidate, WeakLearnerFamily
from structboost.learners.candidates import best_first
from structboost.learners.lookup_table import LinearAndSteps
from structboost.learners.stump import Stump, StumpFamily, StumpTable
from structboost.learners.table import LearnerTable, shares_of_coefficients

# Standard deviation of the linear column, where a stump responds with -1 or 1: its weight is hardly
# regularised.
_LINEAR_SPREAD = 10.0


class CrossFittedWeights(NamedTuple):
    """Linear weights that were learned without the rows they are used on.

    Attributes
    ----------
    weights : ndarray, shape (n_folds, n_features)
    folds : ndarray of int64, shape (n_parts,)
        Row of ``weights`` for each training part, learned on other examples than its own.
    """

    weights: FloatArray
    folds: IntArray


class Linear(NamedTuple):
    """Linear function ``coefficients'x``."""

    coefficients: tuple[float, ...]


@dataclass(frozen=True)
class LinearAndStumpTable(LearnerTable):
    """Table of linear functions and stumps, where each learner is zero as the other type.

    A stump is ``left`` where the feature is at most the threshold, else ``right``.  Both are 0 for
    a linear function.
    """

    schema: ClassVar[Mapping[str, Array]] = {
        "coefficients": Array("float64", ("n_learners", "n_features")),
        **StumpTable.schema,
    }

    coefficients: FloatArray
    feature: IntArray
    threshold: FloatArray
    left: FloatArray
    right: FloatArray

    @property
    def stumps(self) -> StumpTable:
        """Table of the stumps, with responses 0 in place of linear functions."""
        return StumpTable(self.feature, self.threshold, self.left, self.right)

    @override
    def responses(self, features: NDArray[Any]) -> FloatArray:
        linear = self.coefficients @ np.asarray(features, np.float64).T
        return linear + self.stumps.responses(features)

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        is_stump = np.asarray(~self.coefficients.any(axis=1))
        stumps = self.stumps.feature_shares(n_features) * is_stump[:, None]
        return np.asarray(shares_of_coefficients(self.coefficients) + stumps)

    @override
    def scorer(self, weights: FloatArray, n_features: int) -> LinearAndSteps:
        return LinearAndSteps(
            self.coefficients.T @ weights, self.stumps.scorer(weights, n_features)
        )


class LinearAndStumpFamily(WeakLearnerFamily):
    """Family of one linear function and all stumps.

    On the training parts the linear function has the weights of the part's fold.
    Elsewhere it has the mean of the folds, scaled alike.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
    response : (float, float)
        The two responses of a stump.  If neither is negative, weights and features must not be.
    linear : CrossFittedWeights
    exact, n_threads
        As in :class:`structboost.learners.stump.StumpFamily`.

    Raises
    ------
    ValueError
        If the weights do not fit the features.
    """

    name = "linear_and_stump"
    exact_pricing = True
    cross_fitted = True
    in_threads = True

    def __init__(
        self,
        features: NDArray[Any],
        response: tuple[float, float],
        *,
        linear: CrossFittedWeights,
        exact: bool | None = None,
        n_threads: int = 1,
    ) -> None:
        self._stumps = StumpFamily(features, response, exact=exact, n_threads=n_threads)
        self.n_features = self._stumps.n_features
        if linear.weights.shape[1:] != (self.n_features,) or linear.folds.shape != (len(features),):
            raise ValueError(
                f"weights have shape {linear.weights.shape} and folds {linear.folds.shape}; "
                f"the features have {features.shape}."
            )
        mean = linear.weights.mean(axis=0)
        spread = float((np.asarray(features, np.float64) @ mean).std())
        scale = _LINEAR_SPREAD / spread if spread > 1e-12 else 0.0
        self._linear = Linear(tuple((scale * mean).tolist()))
        responses = np.empty(len(features))
        for fold, weights in enumerate(linear.weights):
            inside = linear.folds == fold
            responses[inside] = features[inside] @ (scale * weights)
        self._responses = responses.astype(np.float32)

    @property
    @override
    def searches_all(self) -> bool:
        return self._stumps.searches_all

    @override
    def price(self, duals: FloatArray, per_channel: int) -> Sequence[Candidate]:
        candidates = [*self._linear_candidates(duals), *self._stumps.price(duals, per_channel)]
        return best_first(candidates)

    @override
    def refine(self, learner: Any, duals: FloatArray) -> Sequence[Candidate]:
        if isinstance(learner, Stump):
            return self._stumps.refine(learner, duals)
        return self._linear_candidates(duals)

    @override
    def responses(self, learners: Sequence[Any]) -> NDArray[Any]:
        out = np.empty((len(learners), len(self._responses)), np.float32)
        for row, learner in zip(out, learners, strict=True):
            is_stump = isinstance(learner, Stump)
            row[:] = self._stumps.responses([learner])[0] if is_stump else self._responses
        return out

    @override
    def table(self, learners: Sequence[Any]) -> LinearAndStumpTable:
        no_stump, no_linear = Stump(0, -np.inf, 0.0, 0.0, -1), (0.0,) * self.n_features
        stumps = [s if isinstance(s, Stump) else no_stump for s in learners]
        linear = [no_linear if isinstance(s, Stump) else s.coefficients for s in learners]
        coefficients = np.array(linear, np.float64).reshape(len(learners), self.n_features)
        return LinearAndStumpTable(coefficients, **self._stumps.table(stumps).to_arrays())

    def _linear_candidates(self, duals: FloatArray) -> list[Candidate]:
        edges = self._responses.astype(np.float64) @ duals
        return [Candidate(self._linear, channel, float(edge)) for channel, edge in enumerate(edges)]
