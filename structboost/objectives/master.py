"""Contracts of masters and boosters, which find the weights of columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import IntArray, override
from structboost.contract.task import Task
from structboost.learners.terms import Terms, check_single_terms
from structboost.runtime.described import Described


class WeightedColumns(Described, ABC):
    """Columns with weights, the base of masters and boosters.

    Attributes
    ----------
    weights : ndarray, shape (n_columns,)
        Weights of the current model.  New columns have weight 0.
    risk : float
        True risk of these weights on all examples, infinite until it is first computed.
    """

    def __init__(self) -> None:
        self.weights = np.zeros(0)
        self.risk = np.inf
        self._calls = 0

    @property
    @abstractmethod
    def primal(self) -> float:
        """Objective of the weights, in the paper's units."""

    @property
    def n_cuts(self) -> int:
        """Number of cuts in memory."""
        return 0

    @property
    def oracle_calls(self) -> int:
        """Number of passes that searched or summed over the outputs of all examples."""
        return self._calls

    @abstractmethod
    def add_responses(self, kind: str, responses: Any) -> int:
        """Append learners of a kind, which later columns refer to.

        Parameters
        ----------
        kind : str
            Kind of the parts.
        responses : ndarray, shape (n_learners, n_parts)
            The return value of :meth:`structboost.learners.WeakLearnerFamily.responses`; sparse
            ones go to :class:`~structboost.objectives.TakesSparseResponses`.

        Returns
        -------
        first : int
            Index of the first new learner of the kind: how many there were before.
        """

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns of weight zero.

        Parameters
        ----------
        terms : dict of str to Terms
            Their terms by kind, which number the new columns from 0.  Their learners have been
            added before.
        n_new : int
            Number of new columns.
        """
        self.weights = np.concatenate((self.weights, np.zeros(n_new)))

    def keep_columns(self, mask: NDArray[np.bool_]) -> None:
        """Drop columns and renumber the others.

        Parameters
        ----------
        mask : ndarray of bool, shape (n_columns,)
            Which columns to keep; the weights of the others must be zero.
        """
        self.weights = self.weights[mask]


class RestrictedMaster(WeightedColumns, ABC):
    """``min sum(w) + C risk(w)`` over the columns so far, ``w >= 0``.

    Parameters
    ----------
    C : float
        Weight of the risk against the l1 norm of the weights.

    Attributes
    ----------
    max_idle_rounds : float
        Rounds without a weight after which the loop drops a column: pricing brings it back if it
        matters.  Infinite disables this.
    """

    max_idle_rounds: float = 30

    def __init__(self, C: float) -> None:
        super().__init__()
        self.C = C

    @property
    @override
    def primal(self) -> float:
        return float(self.weights.sum()) + self.C * self.risk

    @property
    def min_edge(self) -> float:
        """Edge that a column must exceed to be worth adding, the price of a unit of weight."""
        return 1.0

    def is_exact(self, task: Task) -> bool:
        """Whether the objective of the weights is exact, by default if the task's argmax is.

        Parameters
        ----------
        task : Task
            The task that is trained.
        """
        return task.exact_argmax

    def set_C(self, C: float) -> None:
        """Continue with another C, from the same columns and weights.

        Parameters
        ----------
        C : float
            The other C.
        """
        self.C = C

    @abstractmethod
    def solve(self, tolerance: float, selected: NDArray[np.int64] | None = None) -> None:
        """Solve over the columns so far, without raising ``primal``, and set a finite ``risk``.

        Parameters
        ----------
        tolerance : float
            Relative gap to reach, if the master computes its gap.
        selected : ndarray of int64, optional
            The columns that pricing chose last, new or not, where a coordinate method begins.
        """

    def solve_loosely(self, tolerance: float, selected: NDArray[np.int64] | None = None) -> None:
        """Solve after new columns, without having to reach the gap.

        Wherever it stops, :meth:`bound` must hold for the duals.  The default is
        :meth:`solve`.

        Parameters
        ----------
        tolerance, selected
            As for :meth:`solve`.
        """
        self.solve(tolerance, selected)

    @abstractmethod
    def duals(self) -> dict[str, Any]:
        """Signed weights of all (part, channel), which pricing maximises against.

        Called after the first :meth:`solve`.

        Returns
        -------
        duals : dict of str to ndarray, shape (n_parts, n_channels)
            By kind.  For parts in shards, the return value of
            :meth:`~structboost.objectives.CutOracle.combine`.
        """

    @abstractmethod
    def bound(self, largest_edge: float) -> float | None:
        """Lower bound of the optimum over all weak learners.

        Parameters
        ----------
        largest_edge : float
            Largest edge of any column against :meth:`duals`.

        Returns
        -------
        bound : float or None
            At most ``primal``, or None if the master has no bound.
        """


class SingleTermMaster(RestrictedMaster):
    """Master of parts of one kind, where a column is one weak learner on one channel.

    Parameters
    ----------
    kind : str
        Kind of the parts.
    C : float
        Weight of the risk against the l1 norm of the weights.
    """

    def __init__(self, kind: str, C: float) -> None:
        super().__init__(C)
        self._kind = kind
        self._terms = Terms.none()

    @override
    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        check_single_terms(terms[self._kind], n_new, type(self).__name__)
        self._terms = self._terms.joined(terms[self._kind], len(self.weights))
        super().add_columns(terms, n_new)

    @override
    def keep_columns(self, mask: NDArray[np.bool_]) -> None:
        self._terms = self._terms.of_columns(mask)
        super().keep_columns(mask)


class Booster(WeightedColumns, ABC):
    """Weighted columns that step along the gradient, ``w_j += step_j`` for the columns of a round.

    There are neither duals nor a bound, and weight costs nothing: a column is worth adding if its
    edge is above 0.
    """

    @property
    @override
    def primal(self) -> float:
        return self.risk

    @property
    def ending(self) -> str | None:
        """Reason why no further column is worth adding, or None."""
        return None

    @abstractmethod
    def gradient(self) -> dict[str, Any]:
        """Signed weights of all (part, channel), minus the slope of the risk by the score.

        Returns
        -------
        gradient : dict of str to ndarray, shape (n_parts, n_channels)
            By kind, up to a factor.  Pricing maximises against it.
        """

    @abstractmethod
    def step(self, selected: IntArray) -> None:
        """Add to the weights of columns, and compute the risk of the new weights.

        Parameters
        ----------
        selected : ndarray of int64
            The columns that pricing chose last, new or not, most promising first.  Empty if
            pricing found none.
        """
