"""Linear functions of the features with small standardised coefficients.

The family on a channel is the ball ``|u| <= R`` of functions ``u'z(x)``, where z holds the
standardised features and a constant.  The largest edge for the signed weights D of a channel is
then ``R |Z'D|``, reached in the direction of ``Z'D``, so pricing is exact and costs one product of
matrices.  The weights of the columns on a channel add up to the norm of their sum at the optimum:
the sum of the Euclidean norms of the channels' linear functions is added to the l1 norm
of other weak learners (docs/decisions.md).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from structboost._typing import (
    AnyArray,
    ByteArray,
    FloatArray,
    IntArray,
    Range,
    RowArray,
    SingleArray,
    override,
)
from structboost.files.archive import Array, DamagedFileError
from structboost.learners.base import (
    Candidate,
    ListedFamily,
    TrainingFeatures,
    WeakLearnerFamily,
    best_first,
)
from structboost.learners.responses import (
    BlockMeasure,
    DualsInShards,
    FeaturesOfRows,
    ResponsesInShard,
    entry_values,
)
from structboost.learners.standardisation import Standardisation
from structboost.learners.table import LearnerTable, LookupTable, shares_of_coefficients
from structboost.learners.terms import Terms
from structboost.runtime.blocks import tree_sum
from structboost.runtime.compiled import compiled
from structboost.runtime.memory import GrowingMatrix

# Norm of a linear function of weight 1, next to stumps of responses -1, 1: at most the first, and
# the second divided by the dimension of the features, as more of them fit more noise.
_LARGEST_RADIUS = 3.0
_RADIUS_TIMES_DIMENSION = 10.0
# Share by which the norm of a learner in a checkpoint may be larger: rounding.
_ROUNDING = 1e-9
# Standard deviations around the mean that diagrams show.
_SPAN = 2.0
# Standard deviation of a given function, where a stump responds with -1 or 1: its weight is hardly
# regularised.
_GIVEN_SPREAD = 10.0


class LinearFunction(NamedTuple):
    """Linear function ``coefficients'z`` of the standardised features z.

    ``packed`` holds the coefficients in hexadecimal digits.  Learners are keys of dictionaries in
    every round: text keeps its hash, and a tuple of thousands of numbers is hashed each time.
    """

    packed: str

    @classmethod
    def of(cls, coefficients: FloatArray) -> LinearFunction:
        """Make the function with these coefficients."""
        return cls(coefficients.astype("<f8").tobytes().hex())

    @property
    def coefficients(self) -> FloatArray:
        """Coefficients, shape (width,)."""
        return np.frombuffer(bytes.fromhex(self.packed), "<f8")


@dataclass(frozen=True)
class LinearFunctionTable(LearnerTable):
    """Table of linear functions ``coefficients'x + intercept``.

    ``centers`` and ``scales`` are the means and standard deviations of the features in training, 0
    for the scale of a constant.
    """

    schema = {
        "coefficients": Array("float64", ("n_learners", "n_features")),
        "intercept": Array("float64", ("n_learners",)),
        "centers": Array("float64", ("n_features",)),
        "scales": Array("float64", ("n_features",), low=0),
    }

    coefficients: FloatArray
    intercept: FloatArray
    centers: FloatArray
    scales: FloatArray

    @classmethod
    def unscaled(
        cls, z: Standardisation, standardised: FloatArray, std: float = 1.0
    ) -> LinearFunctionTable:
        """Make the functions of features from those of standardised ones, of this deviation.

        ``standardised`` has a row for each function, with the constant last if there is one.
        """
        coefficients = std * standardised[:, : len(z.scales)] / z.scales
        intercept = -(coefficients @ z.centers)
        if z.bias:
            intercept += standardised[:, -1]
        scales = np.where(np.isfinite(z.scales), z.scales, 0.0)
        return cls(coefficients, intercept, z.centers, scales)

    @override
    def responses(self, features: Any) -> FloatArray:
        if sparse.issparse(features):
            linear = np.asarray(features @ self.coefficients.T).T
        else:
            linear = self.coefficients @ np.asarray(features, np.float64).T
        return np.asarray(linear + self.intercept[:, None])

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        return shares_of_coefficients(self.coefficients * self.scales)

    @override
    def feature_sizes(self, weights: FloatArray, n_features: int) -> FloatArray:
        return np.asarray(np.abs(self.coefficients.T @ weights).sum(axis=1) * self.scales)

    @override
    def as_linear(self, weights: FloatArray, n_features: int) -> tuple[FloatArray, FloatArray]:
        return self.coefficients.T @ weights, self.intercept @ weights

    @override
    def scorer(self, weights: FloatArray, n_features: int) -> LookupTable:
        constant = LookupTable.constant(self.intercept @ weights, n_features)
        half = _SPAN * self.scales
        span = np.array([self.centers - half, self.centers + half])
        return replace(constant, coefficients=self.coefficients.T @ weights, span=span)


class LinearFunctionSearch(WeakLearnerFamily):
    """Search over all linear functions in a ball of standardised coefficients, on each channel.

    If responses must not be negative, nor are features and coefficients, and there is no bias.

    Parameters
    ----------
    standardisation : Standardisation

    Attributes
    ----------
    radius : float
        Radius of the ball (docs/decisions.md).
    """

    name = "linear"
    exact_pricing = True
    can_resume = True

    def __init__(self, standardisation: Standardisation) -> None:
        self.standardisation = standardisation
        self.n_features = len(standardisation.scales)
        radius = min(_LARGEST_RADIUS, _RADIUS_TIMES_DIMENSION / standardisation.dimension)
        # Two digits: the order in which a library adds does not decide on the last ones.
        self.radius = float(f"{radius:.2g}")

    @abstractmethod
    def _sums(self, duals: Any) -> FloatArray:
        """Sum the standardised features times the duals, shape (width, n_channels)."""

    @override
    def price(self, duals: Any, per_channel: int) -> list[Candidate]:
        candidates = [
            self._steepest(channel, sums) for channel, sums in enumerate(self._sums(duals).T)
        ]
        return best_first(candidates)

    @override
    def ways(self, learner: LinearFunction) -> Sequence[LinearFunction]:
        turned = [LinearFunction.of(-learner.coefficients)] if self.standardisation.bias else []
        return [learner, *turned]

    @override
    def edges(self, learners: Sequence[LinearFunction], duals: Any) -> FloatArray:
        return _matrix(learners, self.standardisation.width) @ self._sums(duals)

    @override
    def table(self, learners: Sequence[LinearFunction]) -> LinearFunctionTable:
        z = self.standardisation
        return LinearFunctionTable.unscaled(z, _matrix(learners, z.width))

    @override
    def restored(self, values: Sequence[Any]) -> LinearFunction:
        try:
            function = LinearFunction(*values)
            coefficients = function.coefficients
        except (TypeError, ValueError) as error:
            raise DamagedFileError("the coefficients of a function are unreadable") from error
        least = -np.inf if self.standardisation.bias else 0.0
        is_within = np.linalg.norm(coefficients) <= self.radius * (1 + _ROUNDING)
        if len(coefficients) != self.standardisation.width or not is_within:
            raise DamagedFileError("a linear function is none of these features")
        if coefficients.min(initial=0.0) < least:
            raise DamagedFileError("a linear function has negative coefficients")
        return function

    def _steepest(self, channel: int, sums: FloatArray) -> Candidate:
        inside = sums if self.standardisation.bias else np.maximum(sums, 0.0)
        norm = float(np.linalg.norm(inside))
        if norm > 0:
            steepest = LinearFunction.of(inside * (self.radius / norm))
            return Candidate(steepest, channel, self.radius * norm)
        best = int(np.argmax(sums))
        steepest = LinearFunction.of(self.radius * (np.arange(len(sums)) == best))
        return Candidate(steepest, channel, self.radius * float(sums[best]))


class LinearFunctionFamily(LinearFunctionSearch):
    """Family of linear functions on features in memory.

    Sparse features are standardised without more memory.

    Parameters
    ----------
    features : ndarray or sparse array by rows, shape (n_parts, n_features)
        Features of the training parts.
    response : (float, float)
        The two responses (:class:`structboost.PartKind`).

    Raises
    ------
    TaskError
        If responses must not be negative, and a feature is.
    """

    takes_sparse = True

    def __init__(self, features: Any, response: Range = (-1.0, 1.0)) -> None:
        super().__init__(Standardisation.of(features, response))
        self._columns = None
        if sparse.issparse(features):
            self.standardisation.check_signs(features)
            self._rows = sparse.csr_array(features, dtype=np.float64)
            self._columns = self._rows.T.tocsr()
        else:
            self._rows = self.standardisation.rows(features)

    @override
    def responses(self, learners: Sequence[LinearFunction]) -> SingleArray:
        if self._columns is None:
            functions = _matrix(learners, self.standardisation.width)
            return np.asarray(functions @ self._rows.T, np.float32)
        return np.asarray(self.table(learners).responses(self._rows), np.float32)

    @override
    def _sums(self, duals: FloatArray) -> FloatArray:
        if self._columns is None:
            return np.asarray(self._rows.T @ duals)
        z, totals = self.standardisation, duals.sum(axis=0)
        shift = z.centers / z.scales
        sums = (self._columns @ duals) / z.scales[:, None] - shift[:, None] * totals
        return np.vstack((sums, totals)) if z.bias else np.asarray(sums)


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


class CrossFittedFunction(ListedFamily):
    """Family of one linear function that was learned on other examples.

    Stumps alone rebuild in steps what is linear, and over-fit where examples are few.  Beside this
    column they are chosen only where the score is not linear.  On the training parts the function
    has the weights of the part's fold.  Elsewhere it has the mean of the folds, scaled alike.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
        Features of the training parts.
    linear : CrossFittedWeights
        If responses must not be negative, neither may be weights and features.
    """

    name = "linear"
    exact_pricing = True
    cross_fitted = True

    def __init__(self, features: AnyArray, linear: CrossFittedWeights) -> None:
        self.n_features = features.shape[1]
        mean = linear.weights.mean(axis=0)
        rows = np.asarray(features, np.float64)
        spread = float((rows @ mean).std())
        scale = _GIVEN_SPREAD / spread if spread > 1e-12 else 0.0
        self._function = LinearFunction.of(scale * mean)
        self._centers, self._scales = rows.mean(axis=0), rows.std(axis=0)
        responses = np.empty(len(features))
        for fold, weights in enumerate(linear.weights):
            inside = linear.folds == fold
            responses[inside] = features[inside] @ (scale * weights)
        self._responses = responses.astype(np.float32)

    @override
    def listed(self, duals: FloatArray) -> tuple[Callable[[int], LinearFunction], FloatArray]:
        edges = self._responses.astype(np.float64) @ duals
        return lambda k: self._function, edges[None]

    @override
    def responses(self, learners: Sequence[LinearFunction]) -> SingleArray:
        return np.tile(self._responses, (len(learners), 1))

    @override
    def table(self, learners: Sequence[LinearFunction]) -> LinearFunctionTable:
        coefficients = _matrix(learners, self.n_features)
        intercept = np.zeros(len(learners))
        return LinearFunctionTable(coefficients, intercept, self._centers, self._scales)


class FunctionResponses(ResponsesInShard):
    """Responses of linear functions of standardised features, which stores only the functions."""

    def __init__(self, features: FloatArray, starts: IntArray) -> None:
        super().__init__(features, starts)
        self._functions = GrowingMatrix(features.shape[1], np.float64)

    @override
    def add(self, new: FloatArray) -> int:
        return self._functions.append(new)

    @override
    def sums(self, duals: FloatArray) -> FloatArray:
        blocks = pairwise(self.starts.tolist())
        return tree_sum(np.array([self.features[a:b].T @ duals[a:b] for a, b in blocks]))

    @override
    def add_scores(self, terms: Terms, first: int, out: FloatArray) -> None:
        if len(terms.learners):
            weights = np.zeros((len(out), self.features.shape[1]))
            functions = self._functions.rows[terms.learners] * terms.coefficients[:, None]
            np.add.at(weights, terms.channels, functions)
            out += weights @ self.features[first : first + out.shape[1]].T

    @override
    def add_products(
        self, terms: Terms, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        if len(terms.learners):
            n_channels, width = len(measure.indptr) - 1, self.features.shape[1]
            sums = np.zeros((n_channels, width))
            _add_measured_rows(self.features, *measure, first, sums)
            out += np.einsum("tf,tf->t", self._functions.rows[terms.learners], sums[terms.channels])


class StandardisedRows(NamedTuple):
    """Standardised features of a shard."""

    standardisation: Standardisation

    @property
    def identity(self) -> tuple[FloatArray, FloatArray]:
        """Centers and scales."""
        return self.standardisation.centers, self.standardisation.scales

    def in_shard(self, features: FeaturesOfRows, starts: IntArray) -> FunctionResponses:
        """Standardise the features of a shard."""
        return FunctionResponses(self.standardisation.rows(features.rows()), starts)


class ShardedLinearFunctions(LinearFunctionSearch):
    """Family of linear functions on features that only the shards hold.

    Parameters
    ----------
    standardisation : Standardisation
    """

    def __init__(self, standardisation: Standardisation) -> None:
        super().__init__(standardisation)
        self.shard_features = StandardisedRows(standardisation)

    @classmethod
    def of_kind(
        cls, features: TrainingFeatures, kind: str, response: Range, *, exact: bool | None
    ) -> ShardedLinearFunctions:
        """Make the family for the parts of a kind."""
        return cls(features.standardisation(kind, response))

    @override
    def responses(self, learners: Sequence[LinearFunction]) -> FloatArray:
        return _matrix(learners, self.standardisation.width)

    @override
    def _sums(self, duals: DualsInShards) -> FloatArray:
        return duals.sums()


def _matrix(functions: Sequence[LinearFunction], width: int) -> FloatArray:
    return np.array([f.coefficients for f in functions], np.float64).reshape(-1, width)


@compiled
def _add_measured_rows(
    features: FloatArray,
    parts: RowArray,
    codes: ByteArray,
    levels: FloatArray,
    indptr: IntArray,
    first: int,
    out: FloatArray,
) -> None:
    values = entry_values(codes, levels)
    for c in range(len(out)):
        for e in range(indptr[c], indptr[c + 1]):
            row = first + parts[e]
            for f in range(features.shape[1]):
                out[c, f] += values[e] * features[row, f]
