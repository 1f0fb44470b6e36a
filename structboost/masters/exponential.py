"""The exponential master of MultiBoost^cw: coordinate descent (FCD) or L-BFGS-B."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import rel_entr

from structboost.exceptions import SolverError, TaskError
from structboost.masters.base import Formulation, Problem, RestrictedMaster, only_kind
from structboost.masters.coordinate_descent import (
    channel_weights,
    column_edges,
    column_scores,
    update_coordinates,
)
from structboost.masters.kind_columns import KindColumns, Terms
from structboost.task import OutputCodes
from structboost.validation import checked_regularisation

SOLVERS = ("fcd", "lbfgs")
LARGEST_WEIGHT = 30.0
# Solves after which the pair weights are computed afresh from the scores.
_REFRESH = 10


@dataclass(frozen=True)
class Exponential(Formulation):
    """Exponential loss over all pairs (example, wrong output): (2) of MultiBoost^cw.

    Minimises ``sum(w) + C/p sum_i sum_{y != y_i} rho_(i,y) exp(-(F(x_i, y_i) - F(x_i, y)))`` over ``w >= 0``, with
    ``p = n_examples (n_outputs - 1)`` and ``rho = Delta(y_i, y)`` times the example's weight.  The task must give
    the codes of all outputs (:meth:`structboost.Task.codes`).

    Parameters
    ----------
    solver : {"fcd", "lbfgs"}
        Fast coordinate descent (Algorithm 2 of MultiBoost^cw), or SciPy's L-BFGS-B at its default tolerance.
    tau_max : int
        Sweeps of FCD in a round: the first over the new columns in the order of their channels, the
        others over all that violate their KKT condition, in random order.  1 is the stage-wise method.
    epsilon : float
        Violation (16) that FCD leaves alone: tolerance of (17) and (18).

    Notes
    -----
    With ``C = inf`` the objective is the mean pair weight alone and the update is (13); CW-1 of the paper's tables is
    ``tau_max=1`` and ``C=inf``.  All weights are then at most 30 (``LARGEST_WEIGHT``), by either solver: a
    weak learner without errors would get an infinite one.  There is no lower bound then.
    """

    solver: str = "fcd"
    tau_max: int = 2
    epsilon: float = 1e-3

    def check(self) -> None:
        """Raise if a parameter is out of its range."""
        if self.solver not in SOLVERS:
            raise ValueError(f"solver is {self.solver!r}; choose one of {', '.join(map(repr, SOLVERS))}.")
        if isinstance(self.tau_max, bool) or int(self.tau_max) != self.tau_max or self.tau_max < 1:
            raise ValueError(f"tau_max is {self.tau_max!r}; give a whole number of sweeps from 1.")
        if not 0 <= self.epsilon < np.inf:
            raise ValueError(f"epsilon is {self.epsilon!r}; give a violation from 0.")

    def check_C(self, C: Any) -> None:
        """Raise if C is out of its range, which includes infinity."""
        checked_regularisation(C, "C")

    def master(self, problem: Problem, C: float) -> ExponentialMaster:
        """Coordinate descent or L-BFGS-B on all pairs.

        Raises
        ------
        TaskError
            If the task has no codes, or examples have several parts.
        """
        codes = problem.task.codes(problem.Y)
        return ExponentialMaster(
            codes, only_kind(problem.stack), problem.example_weights, C, self, problem.random_state
        )


class ExponentialMaster(RestrictedMaster):
    """Exponential loss over all pairs, one weak learner on one channel a column.

    Parameters
    ----------
    codes : OutputCodes
    kind : str
        The kind of the parts, one part an example.
    example_weights : ndarray, shape (n_examples,)
        They sum to 1.
    C : float
        May be infinite.
    formulation : Exponential
    random_state : RandomState
        Draws the order of the later sweeps.
    """

    def __init__(
        self,
        codes: OutputCodes,
        kind: str,
        example_weights: NDArray[np.float64],
        C: float,
        formulation: Exponential,
        random_state: np.random.RandomState,
    ) -> None:
        super().__init__(C)
        self.formulation = formulation
        self._random = random_state
        n_outputs = len(codes.codes)
        self._kind = kind
        self._order = np.argsort(codes.labels, kind="stable")
        labels = codes.labels[self._order]
        self._labels = labels
        self._starts = np.searchsorted(labels, np.arange(n_outputs + 1)).astype(np.int64)
        code = codes.codes.astype(np.int8)
        self._code = code
        self._signs = np.ascontiguousarray((code[:, None, :] - code[None, :, :]).transpose(2, 0, 1))
        self._rho = codes.losses[labels].T * example_weights[self._order] / (n_outputs - 1)
        self._pairs = self._rho.copy()
        self._log_scale = 0.0
        self._columns = KindColumns(len(labels), code.shape[1])
        self._solves = 0
        self._calls = 0
        self.risk = float(self._rho.sum())

    @property
    def primal(self) -> float:
        """Objective (2); with C infinite the mean pair weight alone."""
        return self.risk if np.isinf(self.C) else super().primal

    @property
    def min_edge(self) -> float:
        """A unit of weight costs 1, and nothing where C is infinite."""
        return 0.0 if np.isinf(self.C) else 1.0

    @property
    def oracle_calls(self) -> int:
        """Coordinate updates and evaluations of the whole gradient."""
        return self._calls

    def set_C(self, C: float) -> None:
        """Go on with another C."""
        self.C = C

    def start_at(self, weights: NDArray[np.float64]) -> None:
        """Go on from other weights of the columns."""
        self.weights = weights.copy()
        self._refresh()
        self._measure()

    def add_responses(self, kind: str, responses: NDArray[np.generic]) -> int:
        """Append learners; their answers must be -1, 0 or 1, for the closed form."""
        if responses.dtype != np.int8 or np.abs(responses).max(initial=0) > 1:
            raise TaskError("The exponential master needs weak learners with answers in {-1, 0, 1}.")
        return self._columns.add_responses(responses[:, self._order])

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns of weight zero, each one learner on one channel."""
        columns, learners, channels, coefficients = terms[self._kind]
        if len(columns) != n_new or not (coefficients == 1.0).all():
            raise TaskError("The exponential master takes columns of one weak learner on one channel.")
        self._columns.add_terms((columns + len(self.weights), learners, channels, coefficients))
        self.weights = np.concatenate((self.weights, np.zeros(n_new)))

    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop the columns that are not ``kept``."""
        columns = self._columns
        columns.columns = np.arange(int(kept.sum()))
        columns.learners, columns.channels = columns.learners[kept], columns.channels[kept]
        columns.coefficients = columns.coefficients[kept]
        self.weights = self.weights[kept]

    def solve(self, tolerance: float, selected: NDArray[np.int64] | None = None) -> None:
        """A round of FCD from ``selected``, or L-BFGS-B to its own tolerance; the gap asked for is not used."""
        if self.formulation.solver == "lbfgs":
            self._solve_by_lbfgs()
        else:
            self._solve_by_coordinates(np.zeros(0, np.int64) if selected is None else selected)
        if not np.isfinite(self.primal):
            raise SolverError(f"The exponential objective is {self.primal!r}; choose a smaller C.")

    def duals(self) -> dict[str, NDArray[np.float64]]:
        """Lambda of (5), summed over outputs with the sign of their codes; C = 1 where it is infinite."""
        out = np.empty((len(self._order), self._columns.n_channels))
        out[self._order] = self._channel_duals().T
        return {self._kind: out}

    def violations(self) -> NDArray[np.float64]:
        """Violation (16) of the KKT condition of every weight."""
        edges = np.empty(len(self.weights))
        self._calls += 1
        column_edges(
            self._columns.responses, self._columns.learners, self._columns.channels, self._channel_duals(), edges
        )
        excess = edges - self.min_edge
        excess[self.weights >= self._largest] = np.minimum(excess[self.weights >= self._largest], 0.0)
        return np.where(self.weights > 0, np.abs(excess), np.maximum(excess, 0.0))

    def bound(self, largest_edge: float) -> float | None:
        """The best multiple ``0 <= s <= 1 / largest_edge`` of the duals in (3a): fact 5 of the design."""
        if np.isinf(self.C):
            return None
        # The margin of a pair is minus the logarithm of its weight without rho.
        unit = self.C * np.exp(self._log_scale)
        mass = unit * float(self._pairs.sum())
        if mass <= 0:
            return 0.0
        margins = -unit * float(rel_entr(self._pairs, self._rho).sum()) - self._log_scale * mass
        scale = min(1.0 / max(largest_edge, 1e-300), float(np.exp(min(margins / mass, 700.0))))
        return max(0.0, float(scale * (mass * (1.0 - np.log(scale)) + margins)))

    def value_and_gradient(self, weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Objective and its gradient: one product of the learners with the scores, one with the duals.

        With C infinite it is the logarithm of the risk, whose gradient does not vanish with the risk.
        """
        self._calls += 1
        columns = self._columns
        by_output = self._code.astype(np.float64) @ self._scores(weights)
        pairs = self._rho * np.exp(by_output - by_output[self._labels, np.arange(len(self._labels))])
        duals = np.zeros((columns.n_channels, columns.n_parts))
        channel_weights(pairs, self._signs, self._starts, duals)
        edges = np.empty(len(weights))
        column_edges(columns.responses, columns.learners, columns.channels, duals, edges)
        if np.isinf(self.C):
            risk = float(pairs.sum())
            return float(np.log(risk)), -edges / risk
        return float(weights.sum() + self.C * pairs.sum()), 1.0 - self.C * edges

    @property
    def _largest(self) -> float:
        return LARGEST_WEIGHT if np.isinf(self.C) else np.inf

    def _margins(self) -> NDArray[np.float64]:
        """F_{y_i} - F_y of every pair, shape (n_outputs, n_examples)."""
        scores = self._scores(self.weights)
        by_output = self._code.astype(np.float64) @ scores
        return np.asarray(by_output[self._labels, np.arange(len(self._labels))] - by_output)

    def _scores(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores, shape (n_channels, n_examples)."""
        columns = self._columns
        out = np.zeros((columns.n_channels, columns.n_parts))
        column_scores(columns.responses, columns.learners, columns.channels, weights, out)
        return out

    def _channel_duals(self) -> NDArray[np.float64]:
        """Duals by channel and example, in the master's order of examples."""
        out = np.zeros((self._columns.n_channels, len(self._order)))
        channel_weights(self._pairs, self._signs, self._starts, out)
        out *= (1.0 if np.isinf(self.C) else self.C) * np.exp(self._log_scale)
        return out

    def _refresh(self) -> None:
        """Pair weights from the scores: no drift, and none larger than its rho, which keeps exp in range."""
        margins = self._margins()
        top = float(-margins[self._rho > 0].min(initial=np.inf))
        self._log_scale = top if np.isfinite(top) else 0.0
        self._pairs = self._rho * np.exp(-margins - self._log_scale)

    def _measure(self) -> None:
        self.risk = float(np.exp(self._log_scale) * self._pairs.sum())

    def _solve_by_coordinates(self, selected: NDArray[np.int64]) -> None:
        """Algorithm 2."""
        columns = self._columns
        order = selected[np.argsort(columns.channels[selected], kind="stable")]
        for sweep in range(1, self.formulation.tau_max + 1):
            self._calls += len(order)
            half_price = 0.0 if np.isinf(self.C) else 0.5 / self.C * np.exp(-self._log_scale)
            update_coordinates(
                order, columns.responses, columns.learners, columns.channels, self._signs, self._starts,
                half_price, self._largest, self._pairs, self.weights,
            )  # fmt: skip
            if sweep == self.formulation.tau_max:
                break
            order = np.flatnonzero(self.violations() > self.formulation.epsilon)
            if not len(order):
                break
            order = self._random.permutation(order)
        self._solves += 1
        if self._solves % _REFRESH == 0:
            self._refresh()
        self._measure()

    def _solve_by_lbfgs(self) -> None:
        """The same problem by a quasi-Newton method with bounds."""
        bounds = [(0.0, self._largest)] * len(self.weights)
        answer = minimize(self.value_and_gradient, self.weights, jac=True, method="L-BFGS-B", bounds=bounds)
        self.start_at(np.asarray(answer.x, np.float64))
