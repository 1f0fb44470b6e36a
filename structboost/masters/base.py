"""What the boosting loop asks of a formulation, of its restricted master, and of a cut oracle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.contract.separation import KeptTruth
from structboost.contract.task import Task
from structboost.exceptions import TaskError
from structboost.files.schema import Schema
from structboost.masters.held_out import HeldOut, Temperature
from structboost.masters.softmax_link import SoftmaxLink
from structboost.validation import checked_positive, checked_regularisation
from structboost.weak.terms import Terms, TermsByKind


class Cut(NamedTuple):
    """A cut ``slack >= loss - <measure, scores>``.

    Parameters
    ----------
    number : int
        The oracle keeps the measure under this number.
    loss : float
        Mean loss of the outputs of the cut.
    """

    number: int
    loss: float


class ColumnOracle(ABC):
    """What a hinge master asks about the examples at the columns so far, whose terms it holds.

    Parameters
    ----------
    kinds : iterable of str
        Kinds of the parts.
    example_weights : ndarray, shape (n_examples,)
        Share of each example in the risk; they sum to 1.
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
            What :meth:`structboost.WeakLearnerFamily.responses` returned.

        Returns
        -------
        first : int
            Number of the first new learner of the kind.
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


class CutOracle(ColumnOracle):
    """Cutting planes of the risk over the columns so far (1-slack form).

    The training set stays where the engine put it; a master sees losses and products only.

    Parameters
    ----------
    kinds : iterable of str
        Kinds of the parts.
    example_weights : ndarray, shape (n_examples,)
        Share of each example in the risk; they sum to 1.
    exact : bool
        Whether the argmax claims to be exact.

    Attributes
    ----------
    columns : TermsByKind
        Terms of the columns so far.
    calls : int
        Passes of the loss-augmented argmax over all examples.
    """

    @abstractmethod
    def cut_at(self, weights: FloatArray) -> tuple[Cut, FloatArray, float]:
        """Cut of the risk at given weights.

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
        """Risk at given weights, without keeping a cut.

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
            Terms of the columns, by kind.  Default: those of all columns so far.
        n_columns : int, optional
            Number of columns that ``terms`` make.

        Returns
        -------
        products : ndarray, shape (n_cuts, n_columns)
            Sum of measure times response over parts and channels.
        """

    @abstractmethod
    def combine(self, cuts: Sequence[Cut], multipliers: FloatArray) -> dict[str, Any]:
        """Sum of multiplier times measure over cuts: the duals (mu of StructBoost, (11)).

        Parameters
        ----------
        cuts : sequence of Cut
            Cuts that the oracle keeps.
        multipliers : ndarray, shape (n_cuts,)
            A number >= 0 for each cut.

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
        """Arrays that :meth:`restored_cuts` makes the cuts of again.

        Parameters
        ----------
        cuts : sequence of Cut
            Cuts that the oracle keeps.

        Returns
        -------
        arrays : dict of str to ndarray
            What :meth:`schema` describes.
        """

    @abstractmethod
    def schema(self, n_learners: Mapping[str, int]) -> Schema:
        """What the arrays of :meth:`state` must be.

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
    """What a formulation makes a master of.

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
        Source of all that the master draws.
    new_cut_oracle : callable, optional
        Makes a :class:`CutOracle`.  Given to formulations that declare ``works_on_shards``.
    ridge : float
        Ridge that the families of weak learners ask for.
    """

    task: Task
    X: Sequence[Any]
    Y: Sequence[Any]
    offsets: Mapping[str, IntArray]
    example_weights: FloatArray
    random_state: np.random.RandomState
    new_cut_oracle: Callable[[], CutOracle] | None = None
    ridge: float = 0.0

    def cut_oracle(self) -> CutOracle:
        """Cuts of the task's loss-augmented argmax, made where the shards are.

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


class Formulation(ABC):
    """What is minimised over the weights, and how: a parameter of the trainer, plain data.

    Attributes
    ----------
    shares_weight : bool
        Whether weight is shared out among many weak learners, where their families can vary them
        (:meth:`structboost.weak.base.WeakLearnerFamily.vary`).
    works_on_shards : bool
        Whether the master sees the training set through :meth:`Problem.cut_oracle` only, so that
        any engine can train it.
    takes_infinite_C : bool
        Whether C may be infinite.
    can_spread : bool
        Whether the master implements :meth:`RestrictedMaster.spread`.
    can_resume : bool
        Whether the master implements :meth:`RestrictedMaster.state`, ``schema`` and ``restore``,
        so that a run can be resumed from a checkpoint.
    can_choose_C : bool
        Whether a unit of weight has a price, and C is that of the loss: then the model is empty
        below some C, from which ``C="auto"`` searches upwards.
    ends_by_rounds : bool
        Whether the number of rounds is what keeps a fit from following its examples too far, so
        that it is what held-out examples choose.
    looks_at_rows_left_out : bool
        Whether the master has :meth:`RestrictedMaster.temperature` where families leave parts out.
    link : SoftmaxLink, optional
        How class probabilities follow from the scores that minimise the expected loss.  None where
        they do not, or where :meth:`probabilities` is overridden.
    """

    works_on_shards: ClassVar[bool] = False
    shares_weight: bool = False
    can_choose_C: ClassVar[bool] = False
    takes_infinite_C: ClassVar[bool] = False
    can_spread: bool = False
    can_resume: bool = False
    ends_by_rounds: ClassVar[bool] = False
    looks_at_rows_left_out: ClassVar[bool] = False
    link: ClassVar[SoftmaxLink | None] = None

    @classmethod
    def by_name(cls, name: str, *, stabilize: bool) -> Self:
        """The formulation that ``StructBoost(formulation=name, stabilize=stabilize)`` asks for.

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
        """Whether :meth:`probabilities` can be called: by default, whether there is a ``link``."""
        return self.link is not None

    @property
    def identity(self) -> str:
        """What tells checkpoints of different formulations apart."""
        return repr(self)

    def check(self) -> None:
        """Raise ValueError or TypeError if a parameter is out of its range; by default nothing."""
        return

    def check_C(self, C: Any) -> None:
        """Raise if C is out of its range: a number above 0, finite unless ``takes_infinite_C``.

        Parameters
        ----------
        C : float
            What the user gave.

        Raises
        ------
        ValueError, TypeError
            If it is out of its range.
        """
        (checked_regularisation if self.takes_infinite_C else checked_positive)(C, "C")

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Probabilities at which these scores minimise the expected loss, where it is 0/1.

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
            If they do not follow from the scores.
        """
        if self.link is None:
            raise NotImplementedError(f"{type(self).__name__} does not implement probabilities().")
        return self.link.inverse(scores)

    @abstractmethod
    def master(self, problem: Problem, C: float) -> RestrictedMaster:
        """The restricted master of a problem, without columns.

        Parameters
        ----------
        problem : Problem
            The examples and what the master draws from.
        C : float
            Weight of the risk.

        Returns
        -------
        master : RestrictedMaster
            A new one, with no weights yet.
        """


class RestrictedMaster(ABC):
    """``min sum(w) + C risk(w)`` over the columns so far, ``w >= 0``.

    Parameters
    ----------
    C : float
        Weight of the risk against the l1 norm of the weights.

    Attributes
    ----------
    weights : ndarray, shape (n_columns,)
        The best weights found: the model kept so far.
    risk : float
        Their true risk on all examples; infinite before it was first computed.
    drops_idle_columns : bool
        Whether the loop may drop columns that had no weight for many rounds: pricing brings them
        back if they matter.
    takes_sparse_answers : bool
        Whether :meth:`add_responses` takes sparse answers, too.
    takes_held_out : bool
        Whether :meth:`add_held_out` is called where families leave parts out of a round.
    keeps_answers : bool
        Whether it holds the answers of all learners.  Otherwise :meth:`hold_responses` is called
        with those of the columns that pricing chooses again.
    searches_outputs : bool
        Whether the objective is found by the argmax of the task, and so is as exact as that.
    """

    drops_idle_columns = True
    takes_sparse_answers: ClassVar[bool] = False
    takes_held_out: ClassVar[bool] = False
    keeps_answers: ClassVar[bool] = True
    searches_outputs: ClassVar[bool] = True

    def __init__(self, C: float) -> None:
        self.C = C
        self.weights = np.zeros(0)
        self.risk = np.inf
        self._calls = 0

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
    def oracle_calls(self) -> int:
        """How often the outputs of all examples were searched or summed over."""
        return self._calls

    def set_C(self, C: float) -> None:
        """Continue with another C; columns and weights stay.

        Parameters
        ----------
        C : float
            The other C.
        """
        self.C = C

    @abstractmethod
    def add_responses(self, kind: str, responses: Any) -> int:
        """Append learners of a kind.

        Parameters
        ----------
        kind : str
            Kind of the parts.
        responses : ndarray or scipy.sparse.csr_array, shape (n_learners, n_parts)
            What :meth:`structboost.WeakLearnerFamily.responses` returned.

        Returns
        -------
        first : int
            Number of the first new learner of the kind.
        """

    def hold_responses(self, kind: str, learners: NDArray[np.int64], responses: Any) -> None:
        """Hold the answers of learners that were added before, for the next solution.

        Parameters
        ----------
        kind : str
            Kind of the parts.
        learners : ndarray of int64, shape (n_learners,)
            Their numbers.
        responses
            As for :meth:`add_responses`.

        Raises
        ------
        NotImplementedError
            Where the master declares ``keeps_answers``.
        """
        raise _not_implemented(self, "hold_responses")

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns of weight zero.

        Parameters
        ----------
        terms : dict of str to Terms
            Their terms by kind, which number the new columns from 0.
        n_new : int
            Number of new columns.
        """
        self.weights = np.concatenate((self.weights, np.zeros(n_new)))

    def add_held_out(self, kind: str, held_out: HeldOut) -> None:
        """Take what the columns selected next answer on the parts that they were not fitted to.

        Called before :meth:`solve`, in rounds that leave parts of the kind out.  By default
        nothing is kept.

        Parameters
        ----------
        kind : str
            Kind of the parts.
        held_out : HeldOut
            The parts, and the answers of all terms of the columns.
        """
        return

    def temperature(self) -> Temperature | None:
        """Factor of the scores with which the true outputs of parts left out are most probable.

        Returns
        -------
        temperature : Temperature or None
            None where no parts were left out, or nothing was made of them.
        """
        return None

    @property
    def ending(self) -> str | None:
        """Why no further column is worth adding; None while any may be, or where edges say so."""
        return None

    def keep_columns(self, kept: NDArray[np.bool_]) -> None:
        """Drop columns and renumber the others.

        Parameters
        ----------
        kept : ndarray of bool, shape (n_columns,)
            Which columns to keep; the weights of the others must be zero.
        """
        self.weights = self.weights[kept]

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

    def solve_loosely(self, tolerance: float, selected: NDArray[np.int64] | None = None) -> None:
        """Take what :meth:`solve` takes, after new columns; may stop before the gap is reached.

        Wherever it stops, :meth:`bound` must hold for the duals.  By default the same as
        :meth:`solve`.

        Parameters
        ----------
        tolerance, selected
            As for :meth:`solve`.
        """
        self.solve(tolerance, selected)

    @abstractmethod
    def duals(self) -> dict[str, Any]:
        """Signed weight of every (part, channel): what pricing maximises against.

        Returns
        -------
        duals : dict of str to ndarray, shape (n_parts, n_channels)
            By kind; what :meth:`CutOracle.combine` returns where the parts are in shards.
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
            None where the master has no bound.
        """

    def spread(self, limit: float) -> None:
        """Exchange the weights for ones of small Euclidean norm.

        Parameters
        ----------
        limit : float
            Largest primal that they may have.

        Raises
        ------
        NotImplementedError
            Where the formulation does not declare ``can_spread``.
        """
        raise _not_implemented(self, "spread")

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """All that the next solves depend on, beside the columns.

        Returns
        -------
        numbers : dict of str to object
            Plain JSON.
        arrays : dict of str to ndarray
            What :meth:`schema` describes.

        Raises
        ------
        NotImplementedError
            Where the formulation does not declare ``can_resume``.
        """
        raise _not_implemented(self, "state")

    def schema(self, n_learners: Mapping[str, int]) -> Schema:
        """What the arrays of :meth:`state` must be.

        Parameters
        ----------
        n_learners : dict of str to int
            Learners of each kind in the file.  The dimension ``n_live`` is the number of columns.

        Returns
        -------
        schema : Schema
            Their names, types and shapes.

        Raises
        ------
        NotImplementedError
            Where the formulation does not declare ``can_resume``.
        """
        raise _not_implemented(self, "schema")

    def restore(self, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go to a state that :meth:`schema` accepted.

        The master has the columns of the state already, and has solved nothing.

        Parameters
        ----------
        numbers : dict of str to object
            The numbers of the state.
        arrays : dict of str to ndarray
            Its arrays.

        Raises
        ------
        DamagedFileError
            If it is no state of a run on these data.
        NotImplementedError
            Where the formulation does not declare ``can_resume``.
        """
        raise _not_implemented(self, "restore")


def _not_implemented(master: RestrictedMaster, method: str) -> NotImplementedError:
    return NotImplementedError(f"{type(master).__name__} does not implement {method}().")
