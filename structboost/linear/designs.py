"""Designs of joint features of linear models, and problems that are solved on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import (
    Examples,
    Facts,
    FloatArray,
    KindArrays,
    override,
)
from structboost.contract.calls import check_nothing_missing, stacked
from structboost.contract.parts import Kinds, PartKind, StackedParts, starts_of
from structboost.contract.task import Task
from structboost.errors import TaskError, warn_user
from structboost.learners.feature import ActiveFeatureFamily, ActiveFeatureTable
from structboost.learners.linear_function import LinearFunctionTable
from structboost.learners.standardisation import Standardisation
from structboost.model.ensemble import Ensemble, KindEnsemble
from structboost.training.history import relative_gap

# Sum of the variances of dense features beside active ones of the value 1.
_MOST_VARIANCE = 5.0
# Norm of the means of features over that of their standard deviations that is far from 0.
_FAR = 5.0
# A random number of 63 bits for each part: sums of equal size are of the same parts.
_LARGEST = 2**62


class Design(ABC):
    """Matrix of the features of one kind of parts, with the constant as last column.

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

    def scores(self, rows: Any, weights: FloatArray) -> FloatArray:
        """Return the scores of some parts, which may share memory."""
        return np.asarray(self.matrix(rows) @ weights)

    @abstractmethod
    def member(self, weights: FloatArray, part: PartKind, first: int) -> KindEnsemble:
        """Return linear functions as weak learners, with columns from ``first`` on.

        ``weights`` has the shape (width, n_channels).
        """


@dataclass(frozen=True)
class StandardisedDesign(Design):
    """Dense features of mean 0 and one standard deviation.

    Parameters
    ----------
    scale : Standardisation
    std : float
        Standard deviation of each feature.
    """

    scale: Standardisation
    std: float = 1.0

    @property
    def width(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return self.scale.width

    @override
    def matrix(self, rows: Any) -> FloatArray:
        out = self.scale.rows(rows)
        if self.std != 1.0:
            out[:, : len(self.scale.scales)] *= self.std
        return out

    @override
    def scores(self, rows: Any, weights: FloatArray) -> FloatArray:
        if self._is_constant:
            return np.broadcast_to(weights[-1], (len(rows), weights.shape[1]))
        return super().scores(rows, weights)

    @property
    def _is_constant(self) -> bool:
        """Whether all parts have the same features, and so the same scores."""
        return bool(self.scale.bias) and not np.isfinite(self.scale.scales).any()

    @override
    def member(self, weights: FloatArray, part: PartKind, first: int) -> KindEnsemble:
        if self._is_constant:
            return self._constant(weights[-1], first)
        table = LinearFunctionTable.unscaled(self.scale, weights.T, self.std)
        return one_function_each(table, len(self.scale.scales), first)

    def _constant(self, values: FloatArray, first: int) -> KindEnsemble:
        """Return one constant function for all channels, since pairs of many tags are very many."""
        channels = np.arange(len(values))
        zeros = np.zeros(len(self.scale.scales))
        return KindEnsemble(
            family="linear",
            learners=LinearFunctionTable(zeros[None], np.ones(1), self.scale.centers, zeros),
            columns=first + channels,
            term_learners=np.zeros(len(channels), np.int64),
            channels=channels,
            coefficients=values,
            n_features=len(zeros),
        )


@dataclass(frozen=True)
class PlainDesign(Design):
    """Unscaled columns of a table, in which the zeros of a sparse one remain zeros.

    Or the columns are active features, of value 1, whose indices are the rows.

    Parameters
    ----------
    n_features : int
        Number of features.  Larger indices of active ones are left out.
    bias : bool
    spread : (ndarray, ndarray) of shape (n_features,), optional
        Means and stds of the features, if known.
    n_slots : int, optional
        Largest number of active features of a part in training.
    """

    n_features: int
    bias: bool
    spread: tuple[FloatArray, FloatArray] | None = None
    n_slots: int | None = None

    @property
    def width(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return self.n_features + self.bias

    @override
    def matrix(self, rows: Any) -> Any:
        constant = np.ones((rows.shape[0], int(self.bias)))
        if self.n_slots is not None:
            columns = np.where(rows < self.n_features, rows, -1).astype(np.int32)
            last = np.full(constant.shape, self.n_features, np.int32)
            columns = np.column_stack((columns, last))
            used = columns >= 0
            starts = starts_of(used.sum(axis=1))
            entries = np.ones(int(starts[-1])), columns[used], starts
            return sparse.csr_array(entries, (len(rows), self.width))
        if not sparse.issparse(rows):
            return np.column_stack((np.asarray(rows, np.float64), constant))
        table = sparse.csr_array(rows, dtype=np.float64)
        return sparse.hstack((table, sparse.csr_array(constant)), "csr") if self.bias else table

    @override
    def member(self, weights: FloatArray, part: PartKind, first: int) -> KindEnsemble:
        if self.n_slots is not None:
            return active_functions(weights, part, first, self.n_slots)
        return plain_functions(weights, part, first, self.spread)


def designs_of(
    kinds: Kinds, stack: StackedParts, active: Collection[str], *, standardise: bool = True
) -> dict[str, Design]:
    """Return the designs that suit the features of the training parts, by kind.

    The rows of ``active`` kinds are indices of features.  Columns of dense tables get mean 0 and
    std 1 if ``standardise``.  Beside active features, the variances of the standardised features of
    a kind sum to at most ``_MOST_VARIANCE``, so that many columns do not outweigh names
    (docs/decisions.md).
    """
    designs: dict[str, Design] = {}
    for kind, part in kinds.items():
        rows, bias = stack.rows[kind], part.has_bias
        if kind in active:
            n_features = int(rows.max(initial=-1)) + 1
            designs[kind] = PlainDesign(n_features, bias, n_slots=rows.shape[1])
        elif sparse.issparse(rows):
            designs[kind] = PlainDesign(rows.shape[1], bias)
        elif standardise:
            scale = Standardisation.of(rows, part.response)
            std = (_MOST_VARIANCE / max(1, len(scale.scales))) ** 0.5 if active else 1.0
            designs[kind] = StandardisedDesign(scale, min(1.0, std))
        else:
            table = np.asarray(rows, np.float64)
            none = np.zeros(table.shape[1])
            moments = (table.mean(axis=0), table.std(axis=0)) if len(table) else (none, none)
            if bias and np.linalg.norm(moments[0]) > _FAR * np.linalg.norm(moments[1]) > 0:
                warn_user(
                    "Features lie far from 0 for their standard deviations, and so the constant of "
                    "the linear function must be large, which is penalised like its other weights. "
                    "Subtract their means, as sklearn.preprocessing.StandardScaler does, or raise "
                    "C.",
                    UserWarning,
                )
            designs[kind] = PlainDesign(table.shape[1], bias, moments)
    return designs


def stacked_without_gaps(task: Task, X: Examples, active: Collection[str]) -> StackedParts:
    """Return the parts of all inputs, after a check that none of their features is missing."""
    stack = stacked(task, X)
    for kind in task.kinds:
        if kind not in active:
            check_nothing_missing(stack, kind, "a linear function")
    return stack


def check_sizes(designs: Mapping[str, Design], stack: StackedParts, largest: float) -> None:
    """Raise TaskError if unscaled features are beyond a size, or all of them below its inverse."""
    for kind, design in designs.items():
        if not isinstance(design, PlainDesign) or design.n_slots is not None:
            continue
        table: Any = stack.rows[kind]
        values: Any = table.data if sparse.issparse(table) else table
        size = float(max(values.max(initial=0), -values.min(initial=0)))
        if size > largest or 0 < size < 1 / largest:
            raise TaskError(
                f"X has features up to {size:.2g} for kind {kind!r}, and a linear function takes "
                f"from {1 / largest:g} to {largest:g} only; scale the features."
            )


def linear_scores(
    designs: Mapping[str, Design], weights: KindArrays, stack: StackedParts
) -> StackedParts:
    """Return the scores of parts by linear functions."""
    rows = {
        kind: design.scores(stack.rows[kind], weights[kind]) for kind, design in designs.items()
    }
    return StackedParts(rows, stack.offsets)


def linear_ensemble(
    kinds: Kinds, designs: Mapping[str, Design], weights: KindArrays, facts: Facts
) -> Ensemble:
    """Return linear functions as a model, one of weight 1 for each channel of each kind.

    ``weights`` have the shape (width, n_channels), and ``facts`` are saved with the model.
    """
    members, n_columns = {}, 0
    for kind, part in kinds.items():
        members[kind] = designs[kind].member(weights[kind], part, n_columns)
        n_columns += part.n_channels
    ones = np.ones(n_columns)
    return Ensemble(kinds, members, ones, ones[None], facts)


def plain_ensemble(kinds: Kinds, weights: KindArrays, facts: Facts) -> Ensemble:
    """Return linear functions of unscaled features as a model.

    ``weights`` have the shape (width, n_channels), with those of the constant in the last row if
    the kind has one, and ``facts`` are saved with the model.
    """
    designs = {
        kind: PlainDesign(len(weights[kind]) - part.has_bias, part.has_bias)
        for kind, part in kinds.items()
    }
    return linear_ensemble(kinds, designs, weights, facts)


class SameColumns:
    """Groups of equal columns of zeros and ones.

    A linear function with a Euclidean penalty gives equal columns equal weights.  So m equal
    columns become one of the value ``sqrt(m)``, whose weight has the norm of the m weights.

    Parameters
    ----------
    rows : ndarray of int, shape (n_parts, n_slots)
        Indices of active features, filled up with -1.
    n_features : int

    Attributes
    ----------
    entries : (ndarray of int32, ndarray of int64)
        Groups of all parts, each once per part, and the first entry of each part.
    values : ndarray, shape (n_groups,)
        Value of each group.
    """

    def __init__(self, rows: NDArray[np.integer], n_features: int) -> None:
        hashes = np.random.RandomState(0).randint(1, _LARGEST, len(rows))
        is_active, sums = rows >= 0, np.zeros(n_features, np.int64)
        np.add.at(sums, rows[is_active], np.repeat(hashes, is_active.sum(axis=1)))
        _, first, groups, sizes = np.unique(
            sums, return_index=True, return_inverse=True, return_counts=True
        )
        # Groups in the order of their first features, so that neighbours stay near.
        order = np.argsort(first)
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        self._groups = place[groups]
        self.values = np.sqrt(sizes[order].astype(np.float64))
        # Of each group one feature is looked at; the others stand at the same parts.
        of_first = np.full(n_features + 1, -1, np.int32)
        of_first[first] = self._groups[first]
        of_slots = of_first[rows]
        is_listed = of_slots >= 0
        starts = starts_of(is_listed.sum(axis=1))
        self.entries = of_slots[is_listed], starts

    def spread(self, weights: FloatArray) -> FloatArray:
        """Return the weights of all features from the weights of the groups, by rows."""
        return np.asarray((weights / self.values[:, None])[self._groups])


class LinearProblem(ABC):
    """Solver of one training set, as the trainers need it.

    ``begin(C)`` comes before ``improve()``, which makes a round and sets ``primal`` and ``bound``.
    Ctrl-C may be raised inside it, and leaves the matrices of the round before.
    """

    task: Task
    designs: Mapping[str, Design]
    primal: float
    bound: float
    # Whether searches of the task are exact, so that the bound holds.
    is_exact = True

    @abstractmethod
    def begin(self, C: float) -> None:
        """Continue with another C, from the result of the previous one."""

    @abstractmethod
    def improve(self) -> None:
        """Make a round."""

    @abstractmethod
    def matrices(self) -> KindArrays:
        """Return the best weights so far, by kind, shape (width, n_channels)."""

    def model(self, facts: Facts) -> Ensemble:
        """Return the best weights so far as a model, with which ``facts`` are saved."""
        return linear_ensemble(self.task.kinds, self.designs, self.matrices(), facts)

    def facts(self) -> dict[str, Any]:
        """Return further values of the record of a round."""
        return {"columns": sum(design.width for design in self.designs.values())}


def approached(problem: LinearProblem, tol: float, most: int) -> int:
    """Make rounds until the gap is small or a limit is reached, and return their number."""
    for n in range(1, most + 1):
        problem.improve()
        if (relative_gap(problem.primal, problem.bound) or 0.0) <= tol:
            return n
    return most


class FoldResult(NamedTuple):
    """Result of a problem, from which one with more examples starts.

    ``matrices`` are weights by kind, and ``duals`` the dual distributions, if it has these.
    """

    matrices: KindArrays
    duals: tuple[FloatArray, ...] = ()


def one_function_each(table: LinearFunctionTable, n_features: int, first: int) -> KindEnsemble:
    """Return one linear function for each channel, with columns from index ``first`` on."""
    index = np.arange(len(table.coefficients))
    return KindEnsemble(
        family="linear",
        learners=table,
        columns=first + index,
        term_learners=index,
        channels=index,
        coefficients=np.ones(len(index)),
        n_features=n_features,
    )


def plain_functions(
    weights: FloatArray,
    part: PartKind,
    first: int,
    spread: tuple[FloatArray, FloatArray] | None = None,
) -> KindEnsemble:
    """Return linear functions of unscaled features, from index ``first`` of the columns on.

    ``weights`` has the shape (width, n_channels), with those of the constant in the last row if the
    kind has one.  ``spread`` are the means and stds of the features in training, 0 and 1 if
    unknown.
    """
    n_features = len(weights) - part.has_bias
    coefficients = np.ascontiguousarray(weights[:n_features].T)
    intercept = weights[-1].copy() if part.has_bias else np.zeros(part.n_channels)
    statistics = spread if spread is not None else (np.zeros(n_features), np.ones(n_features))
    table = LinearFunctionTable(coefficients, intercept, *statistics)
    return one_function_each(table, n_features, first)


def active_functions(weights: FloatArray, part: PartKind, first: int, n_slots: int) -> KindEnsemble:
    """Return the single features whose weights on some channel are not zero.

    ``weights`` are as for :func:`plain_functions`, by the index of the active feature.  ``n_slots``
    is the largest number of active features of a part in training.
    """
    used = np.flatnonzero(weights.any(axis=1))
    feature = np.where(used < len(weights) - part.has_bias, used, -1).astype(np.int64)
    of_used = weights if len(used) == len(weights) else weights[used]
    place, channel = (index.astype(np.int64, copy=False) for index in np.nonzero(of_used))
    return KindEnsemble(
        family=ActiveFeatureFamily.name,
        learners=ActiveFeatureTable(feature, np.ones(len(used))),
        columns=first + channel,
        term_learners=place,
        channels=channel,
        coefficients=of_used[place, channel],
        n_features=n_slots,
    )


def weights_of(member: KindEnsemble, part: PartKind, n_known: int | None = None) -> FloatArray:
    """Return the weights that :func:`plain_functions` or :func:`active_functions` took.

    ``n_known`` is the number of active features, if rows are indices of these.
    """
    if n_known is None:
        functions = member.learners
        assert isinstance(functions, LinearFunctionTable)
        constant = [functions.intercept] if part.has_bias else []
        return np.vstack((functions.coefficients.T, *constant))
    features = member.learners
    assert isinstance(features, ActiveFeatureTable)
    weights = np.zeros((n_known + part.has_bias, part.n_channels))
    # The constant has the index -1, and so the last row.
    weights[features.feature[member.term_learners], member.channels] = member.coefficients
    return weights
