"""Contracts of formulations, masters, boosters and the oracle of cuts.

Columns j have weights ``w_j >= 0``, and the score of a part on a channel is the sum over columns of
weight times response.  The weights come from one of two methods::

    master     min over w of  sum(w) + C risk(w)        solved anew, with duals and a lower bound
    booster    w_j += step_j  along minus the gradient  each column once, with no bound and no C

The loop (:mod:`structboost.training.loop`) calls them in this order::

    formulation.check(), formulation.check_C(C), formulation.prepare(families, random_state)
    columns = formulation.columns(problem, C)
    repeat
        price by master.duals() or booster.gradient()
        columns.add_responses(...)  of new learners, and columns.add_columns(...) of new columns
        master.solve_loosely(...) after new columns, else master.solve(...);  or booster.step(...)
        master.bound(largest edge); weights, risk and primal go into the record of the round

Optional abilities are protocols (:class:`Resumable`, :class:`Spreadable`,
:class:`RecallsResponses`, :class:`LearnsFromHeldOut`, :class:`TakesSparseResponses`): a class
has its methods or not.  :attr:`Formulation.makes` names the class before one is made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.separation import KeptTruth
from structboost.contract.task import Task
from structboost.exceptions import TaskError
from structboost.files.schema import Schema
from structboost.masters.held_out import HeldOut, Temperature
from structboost.masters.softmax_link import SoftmaxLink
from structboost.runtime.described import Described
from structboost.validation import checked_positive, checked_regularisation, tell_of_old_flags
from structboost.weak.base import WeakLearnerFamily
from structboost.weak.terms import Terms, TermsByKind

# Flags that plug-ins of version 0.2 declared.
_MAKES = "return the class of the master, which has the methods, by the property makes"
_OLD_FLAGS_OF_FORMULATIONS = {
    "can_spread": _MAKES,
    "can_resume": _MAKES,
    "takes_infinite_C": "override check_C, or make it a Boosting",
    "shares_weight": "override prepare, and call resample of the families",
    "ends_by_rounds": "leave it out",
    "looks_at_rows_left_out": "leave it out",
}
_OLD_FLAGS_OF_MASTERS = {
    "drops_idle_columns": "set max_idle_rounds, infinite for False",
    "takes_sparse_answers": "define add_sparse_responses",
    "takes_held_out": "leave it out: add_held_out is called where it is defined",
    "keeps_answers": "leave it out: hold_responses is called where it is defined",
    "searches_outputs": "override is_exact",
}


class Cut(NamedTuple):
    """A cut ``slack >= loss - <measure, scores>``.

    Parameters
    ----------
    number : int
        Key under which the oracle stores the measure.
    loss : float
        Mean loss of the outputs of the cut.
    """

    number: int
    loss: float


class ColumnOracle(ABC):
    """Training examples as a hinge master sees them, through the terms of the columns so far.

    Learners come before the columns that refer to them: :meth:`add_responses`, then
    :meth:`add_columns`.

    Parameters
    ----------
    kinds : iterable of str
        Kinds of the parts.
    example_weights : ndarray, shape (n_examples,)
        Weights of the examples in the risk, with sum 1.
    exact : bool
        Whether the argmax claims to be exact.

    Attributes
    ----------
    columns : TermsByKind
        Terms of the columns so far.
    calls : int
        Passes of the loss-augmented argmax over all examples.
    """

    def __init__(self, kinds: Iterable[str], example_weights: FloatArray, exact: bool) -> None:
        self.columns = TermsByKind(kinds)
        self.example_weights = example_weights
        self.exact = exact
        self.calls = 0
        self._truth = KeptTruth()

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.columns.n_columns

    @abstractmethod
    def add_responses(self, kind: str, responses: Any) -> int:
        """Append learners of a kind.

        Parameters
        ----------
        kind : str
            Kind of the parts.
        responses : ndarray or scipy.sparse.csr_array, shape (n_learners, n_parts)
            The return value of :meth:`structboost.weak.WeakLearnerFamily.responses`.

        Returns
        -------
        first : int
            Index of the first new learner of the kind: how many there were before.
        """

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns.

        Parameters
        ----------
        terms : dict of str to Terms
            Their terms by kind, which number the new columns from 0.
        n_new : int
            Number of new columns.
        """
        self.columns.add(terms, n_new)

    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop columns and renumber the others.

        Parameters
        ----------
        kept : ndarray of bool, shape (n_columns,)
            Which columns to keep.
        """
        self.columns.keep(kept)


class CutOracle(Described, ColumnOracle):
    """Cutting planes of the risk over the columns so far (1-slack form).

    A cut at weights w is a loss L and a measure V on all parts and channels.  With the products
    ``a_j = <V, response of column j>``, all weights v satisfy::

        risk(v) >= L - sum_j a_j v_j,   with equality at v = w

    Order of calls: :meth:`cut_at` makes a cut, :meth:`products` and :meth:`combine` take cuts that
    are stored, :meth:`forget` drops them for good.  The training set stays where the engine put it.

    Parameters and attributes are those of :class:`ColumnOracle`.
    """

    @abstractmethod
    def cut_at(self, weights: FloatArray) -> tuple[Cut, FloatArray, float]:
        """Compute the cut of the risk at given weights.

        Parameters
        ----------
        weights : ndarray, shape (n_columns,)
            Weights of the columns.

        Returns
        -------
        cut : Cut
            The oracle keeps its measure until :meth:`forget`.
        products : ndarray, shape (n_columns,)
            Products of the measure with the columns.
        risk : float
            The risk at ``weights``.
        """

    @abstractmethod
    def risk_at(self, weights: FloatArray) -> float:
        """Risk at given weights, without storing a cut.

        Parameters
        ----------
        weights : ndarray, shape (n_columns,)
            Weights of the columns.

        Returns
        -------
        risk : float
            Weighted mean of the structured hinge losses of the examples.
        """

    @abstractmethod
    def products(
        self,
        cuts: Sequence[Cut],
        terms: Mapping[str, Terms] | None = None,
        n_columns: int | None = None,
    ) -> FloatArray:
        """Products of cuts with columns.

        Parameters
        ----------
        cuts : sequence of Cut
            Cuts that the oracle keeps.
        terms : dict of str to Terms, optional
            Terms of the columns, by kind.  Default: all columns so far.
        n_columns : int, optional
            Number of columns that ``terms`` make.

        Returns
        -------
        products : ndarray, shape (n_cuts, n_columns)
            Sum of measure times response over parts and channels.
        """

    @abstractmethod
    def combine(self, cuts: Sequence[Cut], multipliers: FloatArray) -> dict[str, Any]:
        """Sum of multiplier times measure over cuts, the duals (mu of StructBoost, (11)).

        Parameters
        ----------
        cuts : sequence of Cut
            Cuts that the oracle keeps.
        multipliers : ndarray, shape (n_cuts,)
            One for each cut, at least 0.

        Returns
        -------
        duals : dict of str to ndarray, shape (n_parts, n_channels)
            By kind; an object of this shape for kinds that stay in shards.
        """

    @abstractmethod
    def forget(self, cuts: Sequence[Cut]) -> None:
        """Drop cuts for good.

        Parameters
        ----------
        cuts : sequence of Cut
            Cuts that the oracle keeps.
        """

    @abstractmethod
    def state(self, cuts: Sequence[Cut]) -> dict[str, NDArray[Any]]:
        """Arrays from which :meth:`restored_cuts` restores the cuts.

        Parameters
        ----------
        cuts : sequence of Cut
            Cuts that the oracle keeps.

        Returns
        -------
        arrays : dict of str to ndarray
            They fit :meth:`schema`.
        """

    @abstractmethod
    def schema(self, n_learners: Mapping[str, int]) -> Schema:
        """Names, types and shapes that the arrays of :meth:`state` must have.

        Parameters
        ----------
        n_learners : dict of str to int
            Number of learners of each kind.

        Returns
        -------
        schema : Schema
            Their names, types and shapes.
        """

    @abstractmethod
    def restored_cuts(
        self, arrays: Mapping[str, NDArray[Any]], n_cuts: int
    ) -> list[tuple[Cut, FloatArray]]:
        """Cuts of a state, each with its products with the columns.

        Parameters
        ----------
        arrays : dict of str to ndarray
            A state that :meth:`schema` accepted.
        n_cuts : int
            Number of its cuts.

        Returns
        -------
        cuts : list of (Cut, ndarray of shape (n_columns,))
            In the order of the state.

        Raises
        ------
        DamagedFileError
            If the arrays do not hold ``n_cuts`` cuts.
        """


@dataclass(frozen=True)
class Problem:
    """Examples for which a formulation makes a master or a booster.

    Parameters
    ----------
    task : Task
        The task that is trained.
    X, Y : sequence
        Inputs and true outputs.
    offsets : dict of str to ndarray of int64, shape (n_examples + 1,)
        First part of each example, by kind.
    example_weights : ndarray, shape (n_examples,)
        They sum to 1.
    random_state : RandomState
        Source of all random draws of the master.
    new_cut_oracle : callable, optional
        Factory of a :class:`CutOracle`, only for formulations that declare ``works_on_shards``.
    families : dict of str to WeakLearnerFamily
        Families of weak learners, by kind.
    """

    task: Task
    X: Sequence[Any]
    Y: Sequence[Any]
    offsets: Mapping[str, IntArray]
    example_weights: FloatArray
    random_state: np.random.RandomState
    new_cut_oracle: Callable[[], CutOracle] | None = None
    families: Mapping[str, WeakLearnerFamily] = field(default_factory=dict)

    def cut_oracle(self) -> CutOracle:
        """Oracle of the cuts of the task's loss-augmented argmax, which runs where the shards are.

        Raises
        ------
        TypeError
            If the formulation does not declare ``works_on_shards``.
        """
        if self.new_cut_oracle is None:
            raise TypeError("cut_oracle() needs a formulation with works_on_shards = True.")
        return self.new_cut_oracle()

    def only_kind(self) -> str:
        """Kind of the parts of a task with one part per example.

        Raises
        ------
        TaskError
            If there are several kinds, or an example has several parts.
        """
        kind, starts = next(iter(self.offsets.items()))
        if len(self.offsets) > 1 or (np.diff(starts) != 1).any():
            raise TaskError(
                "This formulation needs a task with one kind of parts and one part per example."
            )
        return kind


class Formulation(Described):
    """Objective of the weights and method to find them, a parameter of the trainer.

    A subclass implements :meth:`master`, or is a :class:`Boosting`.

    Attributes
    ----------
    works_on_shards : bool
        Whether the master sees the training set through :meth:`Problem.cut_oracle` only, so that
        any engine can train it.
    can_choose_C : bool
        Whether C weighs the loss against a price of weight.  The model is then empty below some C,
        from which ``C="auto"`` searches upwards.
    link : SoftmaxLink, optional
        Maps the scores that minimise the expected loss to class probabilities.  None if there are
        no probabilities, or if :meth:`probabilities` is overridden.
    """

    works_on_shards: ClassVar[bool] = False
    can_choose_C: ClassVar[bool] = False
    link: ClassVar[SoftmaxLink | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        tell_of_old_flags(cls, _OLD_FLAGS_OF_FORMULATIONS)

    @classmethod
    def by_name(cls, name: str, *, stabilize: bool) -> Self:
        """Make the formulation of ``StructBoost(formulation=name, stabilize=stabilize)``.

        Parameters
        ----------
        name : str
            A name that the formulation is registered under.
        stabilize : bool
            Whether the master is stabilised.

        Returns
        -------
        formulation : Formulation
            A new one, with default parameters.

        Raises
        ------
        ValueError
            If ``stabilize`` is False and the formulation is never stabilised.
        """
        if not stabilize:
            raise ValueError(
                f"stabilize is {stabilize!r}, but formulation={name!r} is never stabilised; leave "
                "stabilize=True, or take formulation='one_slack'."
            )
        return cls()

    @property
    def has_probabilities(self) -> bool:
        """Whether :meth:`probabilities` is available, by default if there is a ``link``."""
        return self.link is not None

    @property
    def identity(self) -> str:
        """Text by which checkpoints tell formulations apart."""
        return repr(self)

    @property
    def makes(self) -> type[WeightedColumns]:
        """Class of the return value of :meth:`columns`, which shows its abilities.

        A formulation that can be resumed, or whose weights can be spread, returns the class of its
        master.  The default promises neither.
        """
        return RestrictedMaster

    def check(self) -> None:
        """Raise ValueError or TypeError if a parameter is out of range."""
        return

    def check_C(self, C: Any) -> None:
        """Raise if C is out of range, by default unless it is finite and above 0.

        Parameters
        ----------
        C : float
            Value that the user passed.

        Raises
        ------
        ValueError, TypeError
            If it is out of range.
        """
        checked_positive(C, "C")

    def prepare(self, families: Mapping[str, WeakLearnerFamily], random_state: Any) -> None:
        """Prepare the families for this objective, once, before :meth:`columns`.

        Parameters
        ----------
        families : dict of str to WeakLearnerFamily
            Families of weak learners, by kind.
        random_state : int, RandomState or None
            Random state of the trainer.
        """
        return

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Probabilities for which the scores minimise the expected 0/1 loss.

        Parameters
        ----------
        scores : ndarray, shape (n_samples, n_classes)
            Scores of the classes.

        Returns
        -------
        probabilities : ndarray, shape (n_samples, n_classes)
            Rows sum to 1.

        Raises
        ------
        NotImplementedError
            If the scores imply no probabilities.
        """
        if self.link is None:
            raise NotImplementedError(f"{type(self).__name__} does not implement probabilities().")
        return self.link.inverse(scores)

    def columns(self, problem: Problem, C: float) -> WeightedColumns:
        """Make the weighted columns for the loop to train, by default the master.

        Parameters
        ----------
        problem : Problem
            The examples and the source of random draws.
        C : float
            Weight of the risk, which :meth:`check_C` accepted.

        Returns
        -------
        columns : RestrictedMaster or Booster
            A new one, without columns.
        """
        return self.master(problem, C)

    def master(self, problem: Problem, C: float) -> RestrictedMaster:
        """Make the restricted master of a problem.

        Parameters
        ----------
        problem : Problem
            The examples and the source of random draws.
        C : float
            Weight of the risk.

        Returns
        -------
        master : RestrictedMaster
            A new one, without columns.
        """
        raise NotImplementedError(
            f"{type(self).__name__} implements neither master() nor, as a Boosting, booster()."
        )


class Boosting(Formulation, ABC):
    """Formulation in which weight has no price, columns step once per round, and C is infinite.

    A subclass implements :meth:`booster`.
    """

    @property
    @override
    def makes(self) -> type[WeightedColumns]:
        return Booster

    @override
    def check_C(self, C: Any) -> None:
        checked_regularisation(C, "C")

    @override
    def columns(self, problem: Problem, C: float) -> WeightedColumns:
        return self.booster(problem)

    @abstractmethod
    def booster(self, problem: Problem) -> Booster:
        """Make the booster of a problem.

        Parameters
        ----------
        problem : Problem
            The examples and the source of random draws.

        Returns
        -------
        booster : Booster
            A new one, without columns.
        """


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
            The return value of :meth:`structboost.weak.WeakLearnerFamily.responses`; sparse ones go
            to :class:`TakesSparseResponses`.

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

    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop columns and renumber the others.

        Parameters
        ----------
        kept : ndarray of bool, shape (n_columns,)
            Which columns to keep; the weights of the others must be zero.
        """
        self.weights = self.weights[kept]


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

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        tell_of_old_flags(cls, _OLD_FLAGS_OF_MASTERS)

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
            By kind.  For parts in shards, the return value of :meth:`CutOracle.combine`.
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
class TakesSparseResponses(Protocol):
    """Ability to take sparse responses, which are 0 on most parts."""

    def add_sparse_responses(self, kind: str, responses: Any) -> int:
        """Append learners as :meth:`WeightedColumns.add_responses` does, from a csr_array."""


@runtime_checkable
class RecallsResponses(Protocol):
    """Ability to store responses for the columns of one round only."""

    def hold_responses(self, kind: str, learners: NDArray[np.int64], responses: Any) -> None:
        """Store the responses of learners that were added before, for the next solution or step.

        Parameters
        ----------
        kind : str
            Kind of the parts.
        learners : ndarray of int64, shape (n_learners,)
            Their indices.
        responses
            As for :meth:`WeightedColumns.add_responses`.
        """


@runtime_checkable
class LearnsFromHeldOut(Protocol):
    """Ability to use the parts that families leave out of a round."""

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

    @property
    def held_out_loss(self) -> float | None:
        """Mean loss of the left-out parts after the last round, or None if it was not measured."""


@runtime_checkable
class Spreadable(Protocol):
    """Ability to replace the weights by more even ones."""

    def spread(self, limit: float) -> None:
        """Replace the weights by weights of small Euclidean norm.

        Parameters
        ----------
        limit : float
            Largest primal that they may have.
        """


@runtime_checkable
class Resumable(Protocol):
    """Ability to be saved between two rounds, as a checkpoint needs."""

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Values and arrays that the next solves or steps depend on, apart from the columns.

        Returns
        -------
        numbers : dict of str to object
            Plain JSON.
        arrays : dict of str to ndarray
            They fit :meth:`schema`.
        """

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

    def restore(self, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore a state that :meth:`schema` accepted.

        The master or booster already has the columns of the state, and has solved nothing.

        Parameters
        ----------
        numbers : dict of str to object
            The plain values of the state.
        arrays : dict of str to ndarray
            Its arrays.

        Raises
        ------
        DamagedFileError
            If it is no state of a run on these data.
        """
