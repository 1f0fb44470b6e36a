"""Contracts of masters and boosters, which find the weights of columns.

Scores by the columns that were not fitted to the parts give the temperature.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from scipy.optimize import minimize_scalar

from structboost._typing import AnyArray, BoolArray, Facts, FloatArray, IntArray, override
from structboost.contract.task import Task
from structboost.files.archive import Arrays, DamagedFileError, Header, Schema
from structboost.learners.base import Growth
from structboost.learners.terms import KindTerms, Terms, check_single_terms
from structboost.runtime.called_class import Described

# Logarithms of the temperatures that are searched.
_LOWEST, _HIGHEST = math.log(0.02), math.log(20.0)
# How far logarithms of temperatures are from 0 before examples speak: the deviation of a prior that
# counts as one example would.
_DEVIATION = 1.0
_STEP = 0.5
# The factor of new parts is so many times this power of that of parts left out.
_SCALE, _EXPONENT = 1.2, 0.57


# Losses of examples at a factor of their scores.
LossesAt = Callable[[float], FloatArray]


class HeldOut(NamedTuple):
    """Responses of the columns of a round on the parts that they were not fitted to.

    Parameters
    ----------
    parts : ndarray of bool, shape (n_parts,)
        The parts that the round left out.
    columns, channels : sequence of int
        Index of each column in the master, and channel of each of its terms.
    responses : sequence of ndarray, shape (n_parts,)
        For each term its coefficient times the responses of its learner; 0 on all other parts.
    """

    parts: BoolArray
    columns: Sequence[int]
    channels: Sequence[int]
    responses: Sequence[FloatArray]


class Temperature(NamedTuple):
    """Factor of scores, and the mean loss of held-out examples with it.

    Parameters
    ----------
    factor : float
        Factor of the scores before they become probabilities.
    loss : float
        Mean of minus the logarithms of the probabilities of the true outputs.
    """

    factor: float
    loss: float

    def damped(self) -> Temperature:
        """Temperature of parts that no round has seen, estimated from the parts left out.

        All other rounds have seen a part that one round leaves out: they pull its neighbours
        towards its output, and rounds without it push them back.  So the factor of the parts left
        out is much too low, and early a little too high, for new parts
        (docs/decisions.md).
        """
        return self._replace(factor=damped(self.factor))


def damped(factor: float) -> float:
    """Factor of scores of parts that no round has seen, from the factor of parts left out."""
    return float(_SCALE * factor**_EXPONENT)


def fitted_temperature(
    loss: Callable[[float], float],
    n_examples: int,
    start: float | None = None,
    *,
    deviation: float = _DEVIATION,
) -> Temperature:
    """Fit the factor of scores that gives the least mean loss over ``n_examples``.

    The logarithm of the factor has a normal prior of mean 0 and std ``deviation``, which keeps it
    finite if all examples are right.  With ``start``, a nearby factor, three or four losses are
    computed, and the factor is the minimiser of the parabola through them.
    """

    def penalised(log_factor: float) -> float:
        prior = 0.5 * (log_factor / deviation) ** 2 / n_examples
        return loss(math.exp(log_factor)) + prior

    if start is None:
        minimum = minimize_scalar(
            penalised, bounds=(_LOWEST, _HIGHEST), method="bounded", options={"xatol": 1e-4}
        )
        best = float(minimum.x)
        return Temperature(math.exp(best), loss(math.exp(best)))
    at = min(max(math.log(start), _LOWEST), _HIGHEST)
    left, here, right = penalised(at - _STEP), penalised(at), penalised(at + _STEP)
    while min(left, right) < here and _LOWEST < at < _HIGHEST:
        step = _STEP if right < left else -_STEP
        at += step
        beyond = penalised(at + step)
        left, here, right = (here, right, beyond) if step > 0 else (beyond, left, here)
    curvature = left - 2.0 * here + right
    shift = 0.5 * (left - right) / curvature if curvature > 0 else 0.0
    return Temperature(math.exp(at + _STEP * shift), here - 0.25 * (left - right) * shift)


def saved_temperature(metadata: Facts) -> float | None:
    """Factor of scores stored in a model file, or None in files before 0.3.

    DamagedFileError if it is not a number above 0.
    """
    factor = metadata.get("temperature")
    if factor is None:
        return None
    if not isinstance(factor, float) or not 0 < factor < math.inf:
        raise DamagedFileError(f"its temperature is {factor!r}")
    return factor


class WeightedColumns(Described, ABC):
    """Columns with weights, the base of masters and boosters.

    Attributes
    ----------
    weights : ndarray, shape (n_columns,)
        Weights of the current model.  New columns have weight 0.
    risk : float
        True risk of these weights on all examples, infinite until it is first computed.
    takes_sparse_responses : bool
        Whether :meth:`add_responses` takes a csr_array, too.
    recalls_responses : bool
        Whether responses are stored for the next solution or step only, so that those of learners
        of before come again by :meth:`hold_responses`.
    """

    takes_sparse_responses: bool = False
    recalls_responses: bool = False

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
            The return value of :meth:`structboost.learners.WeakLearnerFamily.responses`.

        Returns
        -------
        first : int
            Index of the first new learner of the kind: how many there were before.
        """

    def add_columns(self, terms: KindTerms, n_new: int) -> None:
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

    def keep_columns(self, mask: BoolArray) -> None:
        """Drop columns and renumber the others.

        Parameters
        ----------
        mask : ndarray of bool, shape (n_columns,)
            Which columns to keep; the weights of the others must be zero.
        """
        self.weights = self.weights[mask]

    def hold_responses(self, kind: str, learners: IntArray, responses: Any) -> None:
        """Store the responses of learners that were added before, if the class declares it.

        Parameters
        ----------
        kind : str
            Kind of the parts.
        learners : ndarray of int64, shape (n_learners,)
            Their indices.
        responses
            As for :meth:`add_responses`.
        """

    def state(self) -> tuple[Header, Arrays]:
        """Values and arrays that the next solves or steps depend on, apart from the columns.

        Returns
        -------
        scalars : dict of str to object
            Plain JSON.
        arrays : dict of str to ndarray
            They fit :meth:`schema`.
        """
        raise NotImplementedError

    def schema(self, n_learners: Mapping[str, int]) -> Schema:
        """Names, types and shapes that the arrays of :meth:`state` must have.

        Parameters
        ----------
        n_learners : dict of str to int
            Learners of each kind in the file.  The dimension ``n_live`` is the number of columns.

        Returns
        -------
        schema : Schema
            Their names, types and shapes.
        """
        raise NotImplementedError

    def restore(self, scalars: Facts, arrays: Mapping[str, AnyArray]) -> None:
        """Restore a state that :meth:`schema` accepted.

        The master or booster already has the columns of the state, and has solved nothing.

        Parameters
        ----------
        scalars : dict of str to object
            The plain values of the state.
        arrays : dict of str to ndarray
            Its arrays.

        Raises
        ------
        DamagedFileError
            If it is no state of a run on these data.
        """
        raise NotImplementedError


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
    def solve(self, tolerance: float, selected: IntArray | None = None) -> None:
        """Solve over the columns so far, without raising ``primal``, and set a finite ``risk``.

        Parameters
        ----------
        tolerance : float
            Relative gap to reach, if the master computes its gap.
        selected : ndarray of int64, optional
            The columns that pricing chose last, new or not, where a coordinate method begins.
        """

    def solve_loosely(self, tolerance: float, selected: IntArray | None = None) -> None:
        """Solve after new columns, without having to reach the gap.

        Wherever it stops, :meth:`bound` must hold for the duals.  The default is
        :meth:`solve`.

        Parameters
        ----------
        tolerance, selected
            As for :meth:`solve`.
        """
        self.solve(tolerance, selected)

    def spread(self, limit: float) -> None:
        """Replace the weights by weights of small Euclidean norm, if the formulation declares it.

        Parameters
        ----------
        limit : float
            Largest primal that they may have.
        """
        raise NotImplementedError

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
    def add_columns(self, terms: KindTerms, n_new: int) -> None:
        check_single_terms(terms[self._kind], n_new, type(self).__name__)
        self._terms = self._terms.joined(terms[self._kind], len(self.weights))
        super().add_columns(terms, n_new)

    @override
    def keep_columns(self, mask: BoolArray) -> None:
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


@runtime_checkable
class LearnsFromHeldOut(Protocol):
    """Booster that uses the parts that families leave out of a round."""

    def add_held_out(self, kind: str, held_out: HeldOut) -> None:
        """Take the responses of columns on the parts that they were not fitted to.

        Called before the next solution or step, in rounds that leave parts of the kind out.

        Parameters
        ----------
        kind : str
            Kind of the parts.
        held_out : HeldOut
            The parts, and the responses of all terms of the columns.
        """

    def temperature(self) -> Temperature | None:
        """Factor of the scores that makes the true outputs of left-out parts most probable.

        Returns
        -------
        temperature : Temperature or None
            None if no parts were left out, or none were used.
        """

    # Mean loss of the left-out parts after the last round, or None if it was not measured.
    held_out_loss: float | None

    @property
    def last_temperature(self) -> Temperature | None:
        """Temperature of the parts left out if the last round looked at them, else None."""

    def losses_of_examples(self, examples: IntArray) -> LossesAt:
        """Losses of examples at the current scores.

        Parameters
        ----------
        examples : ndarray of int64, shape (n,)
            Indices of the examples.

        Returns
        -------
        losses : callable
            ``losses(factor)`` returns the losses where the scores are multiplied by a factor, shape
            (n,).
        """


@runtime_checkable
class GrowsRounds(Protocol):
    """Booster that runs several rounds in compiled code, which also grows the learners.

    Calls, in this order::

        booster.grow_rounds(kind, growth)          as many rounds as it can
        booster.add_grown(kind, n_learners)        for the learners of all these rounds
        booster.add_columns(terms, n_new)
        booster.take_round(selected)               for each of these rounds
    """

    @property
    def rounds_ahead(self) -> int:
        """Largest number of rounds of the next :meth:`grow_rounds`."""

    def grow_rounds(self, kind: str, growth: Growth) -> int:
        """Grow the learners of rounds, and step along them.

        Ends early after a round that ends training, and before one that finds no column.

        Parameters
        ----------
        kind : str
            Kind of the parts.
        growth : Growth
            Data of a family, which is filled.

        Returns
        -------
        n_rounds : int
            Number of rounds that were run.
        """

    def add_grown(self, kind: str, n_learners: int) -> int:
        """Append learners without responses, as ``add_responses`` does with them."""

    def take_round(self, selected: IntArray) -> None:
        """Add the steps of the next of these rounds to the weights, and set the risk.

        Parameters
        ----------
        selected : ndarray of int64
            Columns of the round.
        """
