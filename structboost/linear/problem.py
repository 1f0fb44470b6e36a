"""Contract of problems of linear functions, and their penalty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from structboost._typing import FloatArray
from structboost.contract.task import Task
from structboost.linear.designs import Design, linear_ensemble
from structboost.model.ensemble import Ensemble
from structboost.training.history import relative_gap


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
    def matrices(self) -> Mapping[str, FloatArray]:
        """Return the best weights so far, by kind, shape (width, n_channels)."""

    def model(self, facts: Mapping[str, Any]) -> Ensemble:
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


@dataclass(frozen=True)
class ElasticNet:
    """Penalty ``(1 - l1_ratio) / 2 |w|^2 + l1_ratio |w|_1`` of weights.

    The l1 norm may count some weights more than once: a merged column of m equal ones, of the
    value ``sqrt(m)``, has ``scale`` ``sqrt(m)``.

    Parameters
    ----------
    l1_ratio : float
        From 0, the squared norm alone, to below 1.

    Notes
    -----
    Zou and Hastie, Regularization and variable selection via the elastic net, JRSS B 2005.
    """

    l1_ratio: float = 0.0

    @property
    def ridge(self) -> float:
        """Weight of half the squared norm."""
        return 1.0 - self.l1_ratio

    def value(self, weights: FloatArray, scale: float | FloatArray = 1.0) -> float:
        """Return the penalty of weights."""
        half = 0.5 * float(np.vdot(weights, weights))
        return self.ridge * half + self.l1_ratio * float((scale * np.abs(weights)).sum())

    def best(self, slopes: FloatArray, scale: float | FloatArray = 1.0) -> FloatArray:
        """Return the weights w that maximise ``<slopes, w> - value(w)``, many of them zero."""
        beyond = np.maximum(np.abs(slopes) - self.l1_ratio * scale, 0.0)
        return np.copysign(beyond, slopes) / self.ridge

    def conjugate(self, slopes: FloatArray, scale: float | FloatArray = 1.0) -> float:
        """Return the maximum of ``<slopes, w> - value(w)``."""
        weights = self.best(slopes, scale)
        return 0.5 * self.ridge * float(np.vdot(weights, weights))


class FoldResult(NamedTuple):
    """Result of a problem, from which one with more examples starts.

    ``matrices`` are weights by kind, and ``duals`` the dual distributions, if it has these.
    """

    matrices: Mapping[str, FloatArray]
    duals: tuple[FloatArray, ...] = ()
