"""Exponential master of MultiBoost^cw, by coordinate descent (FCD) or L-BFGS-B.

The weight of a pair (example i, wrong output y) is ``mu[y, i] = rho[y, i] exp(F_y(x_i) -
F_{y_i}(x_i))`` ((15) of MultiBoost^cw).  For FCD, examples are ordered by true output, so that a
column on channel c meets, for each pair of outputs (a, y) whose codes differ there, one slice of
``mu[y]``: an update reads and writes each pair that it changes once, in order.  With one channel a
class that is 2m (1 - 1/K) of the m (K - 1) pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import rel_entr

from structboost._typing import AnyArray, Facts, FloatArray, IntArray, SignArray, override
from structboost.errors import SolverError, TaskError
from structboost.files.archive import (
    Array,
    Arrays,
    Header,
    Part,
    Schema,
    damaged_content,
    finite_number,
    whole_number,
)
from structboost.learners.responses import StoredResponses
from structboost.objectives.base import Formulation, Problem
from structboost.objectives.master import SingleTermMaster
from structboost.objectives.pair_margins import PAIR_LINK
from structboost.runtime.compiled import compiled
from structboost.runtime.memory import check_memory
from structboost.validation import checked_choice

Solver = Literal["fcd", "lbfgs"]
# Words of the state of NumPy's RandomState.
_KEY_WORDS = 624
# Bound of the weights where C is infinite.
LARGEST_WEIGHT = 30.0
# Solves after which the pair weights are computed afresh from the scores.
_REFRESH = 10


@dataclass(frozen=True)
class Exponential(Formulation):
    """Exponential loss over all pairs of an example and a wrong output, (2) of MultiBoost^cw.

    Minimises ``sum(w) + C/p sum_i sum_{y != y_i} rho_(i,y) exp(-(F(x_i, y_i) - F(x_i, y)))`` over
    ``w >= 0``, with ``p = n_examples (n_outputs - 1)`` and ``rho = Delta(y_i, y)`` times the
    example's weight.  The task must give the codes of all outputs (:meth:`structboost.Task.codes`).

    Parameters
    ----------
    solver : {"fcd", "lbfgs"}
        Fast coordinate descent (Algorithm 2 of MultiBoost^cw), or SciPy's L-BFGS-B at its default
        tolerance, which also takes weak learners with other responses than -1, 0 and 1.
    tau_max : int
        Sweeps of FCD per round.  The first goes over the new columns in the order of their
        channels, the others over all that violate their KKT condition, in random order.  1 is the
        stage-wise method.
    epsilon : float
        Violation (16) that FCD leaves alone: tolerance of (17) and (18).

    Notes
    -----
    With ``C = inf`` the objective is the mean pair weight, the update is (13), and there is no
    lower bound.  Weights are then bounded: a weak learner without errors
    would get an infinite one.  CW-1 of the paper's tables is ``tau_max=1`` and ``C=inf``.
    """

    can_choose_C = takes_infinite_C = True
    can_resume = True
    link = PAIR_LINK
    solver: Solver = "fcd"
    tau_max: int = 2
    epsilon: float = 1e-3

    @override
    def check(self) -> None:
        super().check()
        checked_choice(self.solver, "solver", Solver)

    @override
    def start(self, problem: Problem, C: float) -> ExponentialMaster:
        """Master by coordinate descent or L-BFGS-B on all pairs.

        Raises
        ------
        TaskError
            If the task has no codes, or examples have several parts.
        """
        return ExponentialMaster(problem, C, self)


class ExponentialMaster(SingleTermMaster):
    """Master of the exponential loss, where a column is one weak learner on one channel."""

    def __init__(self, problem: Problem, C: float, formulation: Exponential) -> None:
        codes = problem.task.codes(problem.Y)
        super().__init__(problem.only_kind(), C)
        self.formulation = formulation
        self._random = problem.random_state
        n_outputs = len(codes.codes)
        self._order = np.argsort(codes.labels, kind="stable")
        labels = self._labels = codes.labels[self._order]
        self._starts = np.searchsorted(labels, np.arange(n_outputs + 1)).astype(np.int64)
        code = self._code = codes.codes.astype(np.int8)
        check_memory(
            code.shape[1] * n_outputs**2 + 2 * 8 * n_outputs * len(labels),
            "The signs of all pairs of outputs and the weights of all pairs, for the exponential "
            f"loss over {n_outputs} outputs and {len(labels)} examples,",
            "use formulation='one_slack' (StructBoostClassifier)",
        )
        self._signs = np.empty((code.shape[1], n_outputs, n_outputs), np.int8)
        for signs, column in zip(self._signs, code.T, strict=True):
            np.subtract.outer(column, column, out=signs)
        self._rho = codes.losses[labels].T * problem.example_weights[self._order] / (n_outputs - 1)
        self._pairs = self._rho.copy()
        self._log_scale = 0.0
        self._responses = StoredResponses(len(labels))
        self._solves = 0
        self.risk = float(self._rho.sum())

    @property
    @override
    def primal(self) -> float:
        return self.risk if np.isinf(self.C) else super().primal

    @property
    @override
    def min_edge(self) -> float:
        return 0.0 if np.isinf(self.C) else 1.0

    @override
    def add_responses(self, kind: str, responses: NDArray[np.generic]) -> int:
        if responses.dtype == np.float32 and np.isin(responses, (-1, 0, 1)).all():
            responses = responses.astype(np.int8)  # of unions of stumps
        in_closed_form = responses.dtype == np.int8 and np.abs(responses).max(initial=0) <= 1
        if self.formulation.solver == "fcd" and not in_closed_form:
            raise TaskError(
                "Coordinate descent on the exponential loss needs weak learners with responses in "
                "{-1, 0, 1}; for others take Exponential(solver='lbfgs') as formulation, or "
                "solver='lbfgs' of an estimator."
            )
        return self._responses.add(responses[:, self._order])

    @override
    def solve(self, tolerance: float, selected: IntArray | None = None) -> None:
        if self.formulation.solver == "lbfgs":
            self._solve_by_lbfgs()
        else:
            self._solve_by_coordinates(np.zeros(0, np.int64) if selected is None else selected)
        if not np.isfinite(self.primal):
            raise SolverError(f"The exponential objective is {self.primal!r}; choose a smaller C.")

    @override
    def duals(self) -> dict[str, FloatArray]:
        out = np.empty((len(self._order), self._code.shape[1]))
        out[self._order] = self._channel_duals().T
        return {self._kind: out}

    def violations(self) -> FloatArray:
        """Violation (16) of the KKT condition of every weight."""
        self._calls += 1
        excess = self._responses.edges(self._terms, self._channel_duals()) - self.min_edge
        excess = np.where(self.weights >= self._largest, np.minimum(excess, 0.0), excess)
        return np.where(self.weights > 0, np.abs(excess), np.maximum(excess, 0.0))

    @override
    def bound(self, largest_edge: float) -> float | None:
        if np.isinf(self.C):
            return None
        # The margin of a pair is minus the logarithm of its weight without rho.
        unit = self.C * np.exp(self._log_scale)
        mass = unit * self._pairs.sum()
        if mass <= 0:
            return 0.0
        margins = -unit * rel_entr(self._pairs, self._rho).sum() - self._log_scale * mass
        scale = min(1.0 / max(largest_edge, 1e-300), np.exp(min(margins / mass, 700.0)))
        return max(0.0, float(scale * (mass * (1.0 - np.log(scale)) + margins)))

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Objective and gradient at some weights.

        With C infinite, the logarithm of the risk: its gradient does not vanish with the risk.
        """
        self._calls += 1
        pairs = self._rho * np.exp(-self._margins(weights))
        duals = np.zeros((self._code.shape[1], len(self._order)))
        channel_weights(pairs, self._signs, self._starts, duals)
        edges = self._responses.edges(self._terms, duals)
        if np.isinf(self.C):
            risk = float(pairs.sum())
            return float(np.log(risk)), -edges / risk
        return float(weights.sum() + self.C * pairs.sum()), 1.0 - self.C * edges

    @override
    def state(self) -> tuple[Header, Arrays]:
        drawn = self._random.get_state(legacy=False)
        if drawn["bit_generator"] != "MT19937":
            raise ValueError(
                f"checkpoint cannot hold the state of random_state, whose bits are of "
                f"{drawn['bit_generator']}; give a whole number as random_state."
            )
        scalars = {
            "calls": self._calls,
            "solves": self._solves,
            "log_scale": self._log_scale,
            "random_position": drawn["state"]["pos"],
        }
        arrays = {
            "weights": self.weights,
            "pairs": self._pairs,
            "random_key": drawn["state"]["key"],
        }
        return scalars, arrays

    @override
    def schema(self, n_learners: Mapping[str, int]) -> Schema:
        arrays = {
            "weights": Array("float64", ("n_live",), low=0.0, high=self._largest),
            "pairs": Array("float64", self._rho.shape, low=0.0),
            "random_key": Array("uint32", (_KEY_WORDS,)),
        }
        return {"": Part(arrays)}

    @override
    def restore(self, scalars: Facts, arrays: Mapping[str, AnyArray]) -> None:
        with damaged_content():
            self._calls = whole_number(scalars["calls"], "number of calls", 0, 1 << 62)
            self._solves = whole_number(scalars["solves"], "number of solves", 0, 1 << 62)
            self._log_scale = finite_number(scalars["log_scale"], "scale")
            position = whole_number(scalars["random_position"], "position", 0, _KEY_WORDS)
        self.weights, self._pairs = arrays["weights"], arrays["pairs"]
        # A generator of its own: the user's may have gone on.
        self._random = np.random.RandomState()
        self._random.set_state(("MT19937", arrays["random_key"], position, 0, 0.0))
        self._measure()

    @property
    def _largest(self) -> float:
        return LARGEST_WEIGHT if np.isinf(self.C) else np.inf

    def _margins(self, weights: FloatArray) -> FloatArray:
        """Margins ``F_{y_i} - F_y`` of all pairs, shape (n_outputs, n_examples)."""
        scores = np.zeros((self._code.shape[1], len(self._order)))
        self._responses.add_scores(self._terms.weighted(weights), 0, scores)
        by_output = self._code.astype(np.float64) @ scores
        return np.asarray(by_output[self._labels, np.arange(len(self._labels))] - by_output)

    def _channel_duals(self) -> FloatArray:
        """Duals by channel and example, in the master's order of examples."""
        out = np.zeros((self._code.shape[1], len(self._order)))
        channel_weights(self._pairs, self._signs, self._starts, out)
        out *= (1.0 if np.isinf(self.C) else self.C) * np.exp(self._log_scale)
        return out

    def _refresh(self) -> None:
        """Recompute the pair weights, scaled to at most rho each so that exp stays in range."""
        margins = self._margins(self.weights)
        top = float(-margins[self._rho > 0].min(initial=np.inf))
        self._log_scale = top if np.isfinite(top) else 0.0
        self._pairs = self._rho * np.exp(-margins - self._log_scale)

    def _measure(self) -> None:
        self.risk = float(np.exp(self._log_scale) * self._pairs.sum())

    def _solve_by_coordinates(self, selected: IntArray) -> None:
        terms = self._terms
        order = selected[np.argsort(terms.channels[selected], kind="stable")]
        for left in reversed(range(self.formulation.tau_max)):
            self._calls += len(order)
            half_price = 0.0 if np.isinf(self.C) else 0.5 / self.C * np.exp(-self._log_scale)
            update_coordinates(
                order, self._responses.rows, terms.learners, terms.channels, self._signs,
                self._starts, half_price, self._largest, self._pairs, self.weights,
            )  # fmt: skip
            if left:
                order = np.flatnonzero(self.violations() > self.formulation.epsilon)
                if not len(order):
                    break
                order = self._random.permutation(order)
        self._solves += 1
        if self._solves % _REFRESH == 0:
            self._refresh()
        self._measure()

    def _solve_by_lbfgs(self) -> None:
        if not len(self.weights):
            return
        bounds = [(0.0, self._largest)] * len(self.weights)
        result = minimize(
            self.value_and_gradient, self.weights, jac=True, method="L-BFGS-B", bounds=bounds
        )
        self.weights = np.array(result.x, np.float64)
        self._refresh()
        self._measure()


# Sums may be taken in any order, which lets them be vectorised.
_FAST = {"reassoc", "nsz"}


@compiled(fastmath=_FAST)
def signed_sums(weights: FloatArray, response: AnyArray) -> tuple[float, float]:
    """Sum ``weights`` where the response is positive, and where it is negative."""
    positive = 0.0
    negative = 0.0
    for i in range(len(weights)):
        positive += weights[i] if response[i] > 0 else 0.0
        negative += weights[i] if response[i] < 0 else 0.0
    return positive, negative


@compiled
def scale_by_sign(
    weights: FloatArray, response: AnyArray, positive: float, negative: float
) -> None:
    """Multiply ``weights`` by ``positive`` or ``negative``, by the sign of the response."""
    for i in range(len(weights)):
        factor = positive if response[i] > 0 else (negative if response[i] < 0 else 1.0)
        weights[i] *= factor


@compiled
def closed_form(
    weight: float, v_plus: float, v_minus: float, half_price: float, largest: float
) -> float:
    """Minimiser (12) of one weight from the sums (21) at the current weight.

    ``half_price`` is p / (2C), 0 for C infinite, which gives (13).  V- = 0 gives log(C V+ / p),
    or ``largest``, the bound of all weights, if C is infinite too.
    """
    if v_plus <= 0.0:
        return 0.0
    below = np.sqrt(v_plus * v_minus + half_price * half_price) + half_price
    if below <= 0.0:
        return largest
    return float(min(max(weight + np.log(v_plus / below), 0.0), largest))


@compiled
def update_coordinates(
    order: IntArray,
    responses: AnyArray,
    learners: IntArray,
    channels: IntArray,
    signs: SignArray,
    starts: IntArray,
    half_price: float,
    largest: float,
    pair_weights: FloatArray,
    weights: FloatArray,
) -> None:
    """Minimise over each weight in turn, in a fixed order (lines 5-10 of Algorithm 2).

    Parameters
    ----------
    order : ndarray of int64
        Columns to update.
    responses : ndarray, shape (n_learners, n_examples)
        Responses in {-1, 0, 1}, examples ordered by true output.
    learners, channels : ndarray of int64, shape (n_columns,)
    signs : ndarray of int8, shape (n_channels, n_outputs, n_outputs)
        ``code[a, c] - code[y, c]`` for true output a and output y.
    starts : ndarray of int64, shape (n_outputs + 1,)
        First example of each true output.
    pair_weights : ndarray, shape (n_outputs, n_examples)
        mu, updated in place.
    weights : ndarray, shape (n_columns,)
        Updated in place.
    """
    n_outputs = len(starts) - 1
    for j in order:
        response = responses[learners[j]]
        sign = signs[channels[j]]
        v_plus = 0.0
        v_minus = 0.0
        for a in range(n_outputs):
            start, stop = starts[a], starts[a + 1]
            for y in range(n_outputs):
                if sign[a, y] != 0:
                    positive, negative = signed_sums(
                        pair_weights[y, start:stop], response[start:stop]
                    )
                    v_plus += positive if sign[a, y] > 0 else negative
                    v_minus += negative if sign[a, y] > 0 else positive
        new = closed_form(weights[j], v_plus, v_minus, half_price, largest)
        change = new - weights[j]
        if change == 0.0:
            continue
        weights[j] = new
        down, up = np.exp(-change), np.exp(change)
        for a in range(n_outputs):
            start, stop = starts[a], starts[a + 1]
            for y in range(n_outputs):
                if sign[a, y] > 0:
                    scale_by_sign(pair_weights[y, start:stop], response[start:stop], down, up)
                elif sign[a, y] < 0:
                    scale_by_sign(pair_weights[y, start:stop], response[start:stop], up, down)


@compiled
def channel_weights(
    pair_weights: FloatArray, signs: SignArray, starts: IntArray, out: FloatArray
) -> None:
    """Add to ``out`` the sum over outputs of sign times mu, for each channel and example."""
    n_channels, n_outputs, _ = signs.shape
    for c in range(n_channels):
        for a in range(n_outputs):
            start, stop = starts[a], starts[a + 1]
            for y in range(n_outputs):
                sign = signs[c, a, y]
                if sign != 0:
                    for i in range(start, stop):
                        out[c, i] += sign * pair_weights[y, i]
