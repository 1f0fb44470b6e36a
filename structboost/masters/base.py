"""What the boosting loop asks of a restricted master."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from structboost.engines.shard_group import ShardGroup
from structboost.exceptions import TaskError
from structboost.masters.kind_columns import Terms
from structboost.masters.sharded_oracle import ShardedOracle
from structboost.masters.slack_oracle import SlackOracle
from structboost.task import StackedParts, Task
from structboost.validation import checked_positive


@dataclass(frozen=True)
class Problem:
    """What a formulation makes a master of.

    Parameters
    ----------
    task : Task
    X, Y : sequence
        Inputs and true outputs.
    stack : StackedParts
        The parts of the inputs.
    example_weights : ndarray, shape (n_examples,)
        They sum to 1.
    random_state : RandomState
    group : ShardGroup, optional
        The same training set in shards, for the formulations that work on them.
    """

    task: Task
    X: Sequence[Any]
    Y: Sequence[Any]
    stack: StackedParts
    example_weights: NDArray[np.float64]
    random_state: np.random.RandomState
    group: ShardGroup | None = None

    def sharded_oracle(self) -> ShardedOracle:
        """Cuts of the task's loss-augmented argmax, made where the shards are."""
        if self.group is None:
            raise TypeError("This formulation works on shards; set Formulation.works_on_shards.")
        return ShardedOracle(self.group, self.task, self.X, self.Y, self.stack.offsets, self.example_weights)

    def slack_oracle(self) -> SlackOracle:
        """Violated outputs of the task, slack by slack."""
        return SlackOracle(self.task, self.X, self.Y, self.stack.offsets, self.example_weights)


class Formulation(ABC):
    """What is minimised over the weights, and how: a parameter of the trainer, plain data.

    Attributes
    ----------
    can_spread : bool
        Whether its master can spread weights.
    works_on_shards : bool
        Whether its master leaves the training set in shards, so that any engine can train it.
    """

    can_spread: bool = False
    works_on_shards: ClassVar[bool] = False

    def check(self) -> None:
        """Raise if a parameter is out of its range."""
        return

    def check_C(self, C: Any) -> None:
        """Raise if C is out of its range: by default a finite number above 0."""
        checked_positive(C, "C")

    @abstractmethod
    def master(self, problem: Problem, C: float) -> RestrictedMaster:
        """The restricted master of a problem, without columns."""


class RestrictedMaster(ABC):
    """``min sum(w) + C risk(w)`` over the columns so far, ``w >= 0``.

    Attributes
    ----------
    weights : ndarray, shape (n_columns,)
        The best weights found: the model kept so far.
    risk : float
        Their true risk on all examples; infinite before it was first computed.
    drops_idle_columns : bool
        Whether columns that had no weight for many rounds may go: pricing brings them back if they matter.
    """

    drops_idle_columns = True

    def __init__(self, C: float) -> None:
        self.C = C
        self.weights = np.zeros(0)
        self.risk = np.inf

    @property
    def primal(self) -> float:
        """Objective of the model kept so far, in the paper's units."""
        return float(self.weights.sum()) + self.C * self.risk

    @property
    def min_edge(self) -> float:
        """Edge that a column must exceed to be worth adding: what a unit of its weight costs."""
        return 1.0

    @property
    def n_cuts(self) -> int:
        """Number of cuts held; 0 for a master without."""
        return 0

    @property
    @abstractmethod
    def oracle_calls(self) -> int:
        """How often the outputs of all examples were searched or summed over."""

    @abstractmethod
    def set_C(self, C: float) -> None:
        """Go on with another C; columns and weights stay."""

    @abstractmethod
    def add_responses(self, kind: str, responses: Any) -> int:
        """Append learners by what their family says of them: answers, shape (n_new, n_parts), or stumps by their bins.

        Returns
        -------
        first : int
            Number of the first.
        """

    @abstractmethod
    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns of weight zero."""

    @abstractmethod
    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop the columns that are not ``kept``; their weights must be zero."""

    @abstractmethod
    def solve(self, tolerance: float, selected: NDArray[np.int64] | None = None) -> None:
        """Solve over the columns so far.

        Parameters
        ----------
        tolerance : float
            Relative gap to reach, where the master knows its gap.
        selected : ndarray of int64, optional
            The columns that pricing chose last, new or not: where a coordinate method begins.
        """

    @abstractmethod
    def duals(self) -> dict[str, Any]:
        """Signed weight of every (part, channel), by kind: what pricing maximises against.

        Arrays, or :class:`structboost.masters.sharded_oracle.ShardedDuals` where the parts are in shards.
        """

    @abstractmethod
    def bound(self, largest_edge: float) -> float | None:
        """Lower bound of the optimum over all weak learners, given the largest edge of any against the duals."""

    def spread(self, limit: float) -> None:
        """Exchange the weights for ones of smaller Euclidean norm with a primal of at most ``limit``, if it can."""
        raise NotImplementedError(f"{type(self).__name__} cannot spread weights.")


class Oracle(Protocol):
    """What every hinge master asks of its oracle."""

    n_columns: int
    calls: int

    def add_responses(self, kind: str, responses: Any) -> int:
        """Append learners of a kind; returns the number of the first."""


OracleType = TypeVar("OracleType", bound=Oracle)


class HingeMaster(RestrictedMaster, Generic[OracleType]):
    """Masters of the hinge loss, which know the training set by its cuts.

    Attributes
    ----------
    dual_value : float
        Objective of dual multipliers that are feasible up to the edges of columns: divided by
        max(1, largest edge) it bounds the optimum from below (fact 5 of the design; Farley 1990).
    """

    def __init__(self, oracle: OracleType, C: float) -> None:
        super().__init__(C)
        self.oracle = oracle
        self.weights = np.zeros(oracle.n_columns)
        self.dual_value = 0.0

    @property
    def oracle_calls(self) -> int:
        """Passes of the loss-augmented argmax over the examples."""
        return self.oracle.calls

    def add_responses(self, kind: str, responses: Any) -> int:
        """Append learners of a kind; returns the number of the first."""
        return self.oracle.add_responses(kind, responses)

    def bound(self, largest_edge: float) -> float | None:
        """Dual multipliers divided by the largest edge are feasible."""
        return self.dual_value / max(1.0, largest_edge)


def only_kind(stack: StackedParts) -> str:
    """Kind of the parts of a task with one part an example.

    Raises
    ------
    TaskError
        If there are several kinds, or an example has several parts.
    """
    kind, offsets = next(iter(stack.offsets.items()))
    if len(stack.offsets) > 1 or (np.diff(offsets) != 1).any():
        raise TaskError("This formulation needs a task with one kind of parts and one part an example.")
    return kind
