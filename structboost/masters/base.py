"""What the boosting loop asks of a hinge master."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from structboost.masters.cuts import Terms
from structboost.masters.oracle import HingeOracle


class HingeMaster(ABC):
    """``min sum(w) + C risk(w)`` over the columns so far.

    Attributes
    ----------
    weights : ndarray, shape (n_columns,)
        The best weights found: the model kept so far.
    risk : float
        Their true risk, by the task's argmax over all examples.
    dual_value : float
        Objective of dual multipliers that are feasible up to the edges of columns: divided by
        max(1, largest edge) it bounds the optimum from below (fact 5 of the design; Farley 1990).
    """

    def __init__(self, oracle: HingeOracle, C: float) -> None:
        self.oracle = oracle
        self.C = C
        self.weights = np.zeros(oracle.n_columns)
        self.risk = np.inf
        self.dual_value = 0.0

    @property
    def primal(self) -> float:
        """Objective of the model kept so far, in the paper's units (9a)."""
        return float(self.weights.sum()) + self.C * self.risk

    @property
    @abstractmethod
    def n_cuts(self) -> int:
        """Number of cuts held."""

    @abstractmethod
    def set_C(self, C: float) -> None:
        """Go on with another C; cuts, columns and weights stay."""

    @abstractmethod
    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns of weight zero."""

    @abstractmethod
    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop the columns that are not ``kept``; their weights must be zero."""

    @abstractmethod
    def solve(self, tolerance: float) -> None:
        """Solve until the relative gap over the columns so far is at most ``tolerance``."""

    def spread(self, limit: float) -> None:
        """Exchange the weights for ones of smaller Euclidean norm with a primal of at most ``limit``, if it can."""
        raise NotImplementedError(f"{type(self).__name__} cannot spread weights.")

    @abstractmethod
    def duals(self) -> dict[str, NDArray[np.float64]]:
        """Signed weight of every (part, channel), by kind: what pricing maximises against."""
