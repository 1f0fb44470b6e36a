"""Features of parts as matrices for linear functions, and linear functions as models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import FloatArray
from structboost.ensemble import Ensemble, KindEnsemble
from structboost.linear.linear_scores import active_matrix, is_bounded, sparse_matrix
from structboost.task import PartKind, StackedParts
from structboost.weak.active_feature import ActiveFeatureFamily, ActiveFeatureTable
from structboost.weak.linear_function import LinearFunctionTable
from structboost.weak.standardisation import Standardisation


class Design(ABC):
    """Matrix of the features of one kind of parts, with the constant as its last column.

    A kind whose scores must not be negative has no constant.

    Attributes
    ----------
    width : int
        Number of columns.
    """

    width: int

    @abstractmethod
    def matrix(self, rows: Any) -> Any:
        """Return the matrix of some parts, dense or sparse, shape (n_parts, width)."""

    @abstractmethod
    def member(self, weights: FloatArray, part: PartKind, first: int) -> KindEnsemble:
        """Return linear functions as weak learners; their columns begin at ``first``.

        ``weights`` has the shape (width, n_channels).
        """


@dataclass(frozen=True)
class StandardisedDesign(Design):
    """Dense features of mean 0 and standard deviation 1."""

    scale: Standardisation

    @property
    def width(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return self.scale.width

    def matrix(self, rows: Any) -> FloatArray:
        """Standardise the rows."""
        return self.scale.rows(rows)

    def member(self, weights: FloatArray, part: PartKind, first: int) -> KindEnsemble:
        """Return functions of features that are not standardised."""
        z = self.scale
        if z.bias and not np.isfinite(z.scales).any():
            return self._constant(weights[-1], first)
        coefficients = weights[: len(z.scales)].T / z.scales
        intercept = -coefficients @ z.centers + (weights[-1] if z.bias else 0.0)
        deviations = np.where(np.isfinite(z.scales), z.scales, 0.0)
        table = LinearFunctionTable(coefficients, intercept, z.centers, deviations)
        return _one_each(table, part, len(z.scales), first)

    def _constant(self, values: FloatArray, first: int) -> KindEnsemble:
        """Return one constant function for all channels: pairs of many tags are very many."""
        numbers: NDArray[np.int64] = np.arange(len(values))
        zeros = np.zeros(len(self.scale.scales))
        return KindEnsemble(
            family="linear",
            learners=LinearFunctionTable(zeros[None], np.ones(1), self.scale.centers, zeros),
            columns=first + numbers,
            term_learners=np.zeros(len(numbers), np.int64),
            channels=numbers,
            coefficients=values,
            n_features=len(zeros),
        )


@dataclass(frozen=True)
class SparseDesign(Design):
    """Columns of a sparse table as they are: zeros stay zeros.

    Parameters
    ----------
    n_features : int
    bias : bool
    """

    n_features: int
    bias: bool

    @property
    def width(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return self.n_features + self.bias

    def matrix(self, rows: Any) -> Any:
        """Add the constant."""
        return sparse_matrix(rows, with_bias=self.bias)

    def member(self, weights: FloatArray, part: PartKind, first: int) -> KindEnsemble:
        """Return functions of all columns."""
        coefficients = np.ascontiguousarray(weights[: self.n_features].T)
        intercept = weights[-1].copy() if self.bias else np.zeros(part.n_channels)
        zeros, ones = np.zeros(self.n_features), np.ones(self.n_features)
        table = LinearFunctionTable(coefficients, intercept, zeros, ones)
        return _one_each(table, part, self.n_features, first)


@dataclass(frozen=True)
class ActiveDesign(Design):
    """Numbers of active features, each of value 1.

    Parameters
    ----------
    n_known : int
        Numbers from here on are left out.
    n_slots : int
        Most active features of a part in training.
    bias : bool
    """

    n_known: int
    n_slots: int
    bias: bool

    @property
    def width(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return self.n_known + self.bias

    def matrix(self, rows: Any) -> sparse.csr_array:
        """Return zeros and ones."""
        return active_matrix(rows, self.n_known, with_bias=self.bias)

    def member(self, weights: FloatArray, part: PartKind, first: int) -> KindEnsemble:
        """Return single features: a column per channel."""
        used = np.flatnonzero(weights.any(axis=1))
        feature = np.where(used < self.n_known, used, -1).astype(np.int64)
        place, channel = np.nonzero(weights[used])
        ones = np.ones(len(used))
        return KindEnsemble(
            family=ActiveFeatureFamily.name,
            learners=ActiveFeatureTable(feature, np.where(feature < 0, 1.0, 0.0), ones),
            columns=first + channel.astype(np.int64),
            term_learners=place.astype(np.int64),
            channels=channel.astype(np.int64),
            coefficients=weights[used][place, channel],
            n_features=self.n_slots,
        )


def design_of(rows: Any, part: PartKind, *, active: bool) -> Design:
    """Return the design that suits the features of the parts of training.

    Parameters
    ----------
    rows : ndarray or sparse array, shape (n_parts, n_features)
    part : PartKind
    active : bool
        Whether rows are numbers of active features.
    """
    with_bias = not is_bounded(part)
    if active:
        return ActiveDesign(int(rows.max(initial=-1)) + 1, rows.shape[1], with_bias)
    if sparse.issparse(rows):
        return SparseDesign(rows.shape[1], with_bias)
    return StandardisedDesign(Standardisation.of(rows, part.response))


def designs_of(
    kinds: Mapping[str, PartKind],
    stack: StackedParts,
    active: Collection[str],
) -> dict[str, Design]:
    """Return the designs of all kinds."""
    return {
        kind: design_of(stack.rows[kind], part, active=kind in active)
        for kind, part in kinds.items()
    }


def linear_scores(
    designs: Mapping[str, Design], weights: Mapping[str, FloatArray], stack: StackedParts
) -> StackedParts:
    """Return the scores of parts by linear functions."""
    rows = {
        kind: np.asarray(own.matrix(stack.rows[kind]) @ weights[kind])
        for kind, own in designs.items()
    }
    return StackedParts(rows, stack.offsets)


def linear_ensemble(
    kinds: Mapping[str, PartKind],
    designs: Mapping[str, Design],
    weights: Mapping[str, FloatArray],
    facts: Mapping[str, Any],
) -> Ensemble:
    """Return linear functions as a model: one of weight 1 for each channel of each kind.

    Parameters
    ----------
    kinds : dict of str to PartKind
    designs : dict of str to Design
    weights : dict of str to ndarray, shape (width, n_channels)
    facts : dict
        Plain values that are saved with the model.
    """
    members, n_columns = {}, 0
    for kind, part in kinds.items():
        members[kind] = designs[kind].member(weights[kind], part, n_columns)
        n_columns += part.n_channels
    ones = np.ones(n_columns)
    return Ensemble(kinds, members, ones, ones[None], facts)


def _one_each(
    table: LinearFunctionTable, part: PartKind, n_features: int, first: int
) -> KindEnsemble:
    numbers: NDArray[np.int64] = np.arange(part.n_channels)
    return KindEnsemble(
        family="linear",
        learners=table,
        columns=first + numbers,
        term_learners=numbers,
        channels=numbers,
        coefficients=np.ones(len(numbers)),
        n_features=n_features,
    )
