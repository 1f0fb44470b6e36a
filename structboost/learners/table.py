"""Tables of trained weak learners, and scorers of parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.files.schema import Array
from structboost.runtime.described import Described
from structboost.validation import checked_features


class Scorer(Protocol):
    """Form of weak learners and their weights that predicts fastest."""

    def raw_scores(self, rows: NDArray[Any]) -> FloatArray:
        """Scores of finite rows of the right width, shape (n_parts, n_channels).

        Parameters
        ----------
        rows : ndarray, shape (n_parts, n_features)
            Features of the parts.
        """


class LearnerTable(Described, ABC):
    """Table of trained weak learners of one family, a frozen dataclass of arrays.

    Its ``schema`` describes the arrays that a model file holds, over the dimensions
    ``n_learners`` and ``n_features``.  A field that is None is left out of the file.
    """

    schema: ClassVar[Mapping[str, Array]]
    # Whether features may be missing (NaN).
    takes_missing: ClassVar[bool] = False

    @classmethod
    def of(cls, learners: Sequence[Any], **arrays: Any) -> Self:
        """Make a table of the fields of learners, by the names of the schema, and of other arrays.

        Parameters
        ----------
        learners : sequence
            Named tuples with a field per array of the schema.
        **arrays : ndarray
            Arrays of the schema that are not fields of the learners.

        Returns
        -------
        table : LearnerTable
            One entry per learner, in their order.
        """
        stacked = {
            name: np.array([getattr(learner, name) for learner in learners], array.dtype)
            for name, array in cls.schema.items()
            if name not in arrays and not array.optional
        }
        return cls(**stacked, **arrays)

    def __len__(self) -> int:
        return len(next(array for name, array in vars(self).items() if self._by_learner(name)))

    @abstractmethod
    def responses(self, features: NDArray[Any]) -> NDArray[Any]:
        """Responses of all learners.

        Parameters
        ----------
        features : ndarray, shape (n_parts, n_features)
            Features of any parts; NaN only if the table declares ``takes_missing``.

        Returns
        -------
        responses : ndarray, shape (n_learners, n_parts)
            On the training parts equal to :meth:`structboost.WeakLearnerFamily.responses`,
            unless the family declares ``cross_fitted``.
        """

    def checked_rows(self, features: Any, n_features: int) -> NDArray[Any]:
        """Check and convert the features of parts.

        Parameters
        ----------
        features : array-like or sparse array, shape (n_parts, n_features)
            Features of the parts, as the user passed them.
        n_features : int
            Number of features in training.

        Returns
        -------
        rows : ndarray or sparse array, shape (n_parts, n_features)
            Features that :meth:`responses` takes.

        Raises
        ------
        ValueError
            If they have another width, or are infinite, or are NaN where the table does not
            declare ``takes_missing``.
        """
        return checked_features(features, n_features, missing=self.takes_missing)

    @abstractmethod
    def feature_shares(self, n_features: int) -> FloatArray:
        """Weight of each feature in each learner, as a fraction.

        Parameters
        ----------
        n_features : int
            Number of features of a part.

        Returns
        -------
        fractions : ndarray, shape (n_learners, n_features)
            Not negative; each row sums to 1, or to 0 for a learner that uses no feature.
        """

    def feature_sizes(self, weights: FloatArray, n_features: int) -> FloatArray:
        """Return the absolute weight on each feature of a part.

        Parameters
        ----------
        weights : ndarray, shape (n_learners, n_channels)
            Weight of each learner on each channel.
        n_features : int
            Number of features.

        Returns
        -------
        sizes : ndarray, shape (n_features,)
            Those of linear functions are for one standard deviation of the feature.
        """
        return np.asarray(np.abs(weights).sum(axis=1) @ self.feature_shares(n_features))

    def select(self, index: NDArray[Any]) -> Self:
        """Select the learners at an index.

        Parameters
        ----------
        index : ndarray of int, shape (n_selected,), or of bool, shape (n_learners,)
            Indices or mask of the learners.

        Returns
        -------
        table : LearnerTable
            These learners, in this order.
        """
        chosen: dict[str, Any] = {
            name: array[index] for name, array in self.to_arrays().items() if self._by_learner(name)
        }
        return replace(self, **chosen)  # type: ignore[type-var]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Convert the table to the arrays of a model file.

        Returns
        -------
        arrays : dict of str to ndarray
            By the names of the schema, without optional ones that are None.
        """
        return {name: array for name, array in vars(self).items() if array is not None}

    def as_linear(
        self, weights: FloatArray, n_features: int
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return the weighted sum of the learners as a linear function, if it is one.

        Parameters
        ----------
        weights : ndarray, shape (n_learners, n_channels)
            Weight of each learner on each channel.
        n_features : int
            Number of features.

        Returns
        -------
        coefficients : ndarray, shape (n_features, n_channels)
        intercepts : ndarray, shape (n_channels,)
            Or None in place of both, if learners of this family do not add up to a linear function.
        """
        return None

    def scorer(self, weights: FloatArray, n_features: int) -> Scorer:
        """Make the scorer of parts by these learners.

        Parameters
        ----------
        weights : ndarray, shape (n_learners, n_channels)
            Weight of each learner on each channel.
        n_features : int
            Features of a part.

        Returns
        -------
        scorer : Scorer
            Its scores are ``responses(features).T @ weights``.
        """
        used = np.flatnonzero(weights.any(axis=1))
        return WeightedLearners(self.select(used), weights[used])

    def _by_learner(self, name: str) -> bool:
        """Whether an array has an entry or a row for each learner."""
        return self.schema[name].shape[:1] == ("n_learners",)


@dataclass(frozen=True)
class WeightedLearners:
    """Scorer of learners for which no faster form is known.

    Parameters
    ----------
    learners : LearnerTable
        The weak learners.
    weights : ndarray, shape (n_learners, n_channels)
        Weight of each learner on each channel.
    """

    learners: LearnerTable
    weights: FloatArray

    def raw_scores(self, rows: NDArray[Any]) -> FloatArray:
        """Scores, shape (n_parts, n_channels)."""
        if not len(self.weights):
            return np.zeros((len(rows), self.weights.shape[1]))
        return np.asarray(self.learners.responses(rows).T @ self.weights, np.float64)


def shares_of_one(features: IntArray, n_features: int) -> FloatArray:
    """Weight 1 for the feature of each learner, and none where its index is negative."""
    out = np.zeros((len(features), n_features))
    used = np.flatnonzero(features >= 0)
    out[used, features[used]] = 1.0
    return out


def shares_of_coefficients(coefficients: FloatArray) -> FloatArray:
    """Weights of features in linear functions, proportional to the absolute coefficients."""
    sizes = np.abs(coefficients)
    return np.asarray(sizes / np.maximum(sizes.sum(axis=1, keepdims=True), 1e-300))


def comparable(rows: NDArray[Any]) -> NDArray[Any]:
    """Convert rows to a contiguous float32, float64 or uint8 array for compiled scorers."""
    is_native = rows.dtype in (np.float32, np.float64, np.uint8)
    return np.ascontiguousarray(rows, rows.dtype if is_native else np.float64)
