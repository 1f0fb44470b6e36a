"""Contract of formulations, which make masters or boosters, of oracles of cuts, and the names.

Columns j have weights ``w_j >= 0``, and the score of a part on a channel is the sum over columns of
weight times response.  The weights come from one of two methods::

    master     min over w of  sum(w) + C risk(w)        solved anew, with duals and a lower bound
    booster    w_j += step_j  along minus the gradient  each column once, with no bound and no C

The loop (:mod:`structboost.training.loop`) calls them in this order::

    formulation.check(), formulation.check_C(C), formulation.prepare(families, random_state)
    columns = formulation.start(problem, C)
    repeat
        price by master.duals() or booster.gradient()
        columns.add_responses(...)  of new learners, and columns.add_columns(...) of new columns
        master.solve_loosely(...) after new columns, else master.solve(...);  or booster.step(...)
        master.bound(largest edge); weights, risk and primal go into the record of the round

Masters and boosters are in :mod:`structboost.objectives.master`.  A formulation declares what those
that it makes are able to do.

Scores become probabilities of classes by :class:`SoftmaxLink`.  Hinge masters see the training
examples by a :class:`CutOracle`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import softmax

from structboost._typing import AnyArray, BoolArray, Examples, FloatArray, IntArray
from structboost.contract.separation import KeptTruth
from structboost.contract.task import Task
from structboost.errors import TaskError
from structboost.files.archive import Schema
from structboost.learners.base import WeakLearnerFamily
from structboost.learners.terms import KindTerms, TermsByKind
from structboost.objectives.master import WeightedColumns
from structboost.runtime.called_class import Described
from structboost.runtime.registry import Registry
from structboost.validation import (
    check_parameters,
    checked_positive,
    checked_regularisation,
)


@dataclass(frozen=True)
class SoftmaxLink:
    """Link by a softmax of the scores, as plain data that exports also read.

    With q the softmax of ``sharpness`` times the scores, and ``b = exp(margin)``, the probabilities
    are proportional to ``q (b - (b - 1) q)``.

    Parameters
    ----------
    sharpness : float
        Factor of the scores.
    margin : float
        Number that the loss adds to the scores of wrong classes.  With 0, the probabilities are q.
    """

    sharpness: float = 1.0
    margin: float = 0.0

    def sharpened(self, factor: float) -> SoftmaxLink:
        """Link for scores that are ``factor`` times as large."""
        return replace(self, sharpness=self.sharpness * factor)

    def inverse(self, scores: FloatArray) -> FloatArray:
        """Compute the probabilities of the classes, shape (n_samples, n_classes), from scores."""
        probabilities = softmax(self.sharpness * scores, axis=1)
        if not self.margin:
            return np.asarray(probabilities)
        factor = math.exp(self.margin)
        out = probabilities * (factor - (factor - 1.0) * probabilities)
        return np.asarray(out / out.sum(axis=1, keepdims=True))


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
    oracle : CutOracle, optional
        Only for formulations that declare ``works_on_shards``.
    families : dict of str to WeakLearnerFamily
        Families of weak learners, by kind.
    """

    task: Task
    X: Examples
    Y: Examples
    offsets: Mapping[str, IntArray]
    example_weights: FloatArray
    random_state: np.random.RandomState = field(default_factory=lambda: np.random.RandomState(0))
    oracle: CutOracle | None = None
    families: Mapping[str, WeakLearnerFamily] = field(default_factory=dict)

    def cut_oracle(self) -> CutOracle:
        """Oracle of the cuts of the task's loss-augmented argmax, which runs where the shards are.

        Raises
        ------
        TypeError
            If the formulation does not declare ``works_on_shards``.
        """
        if self.oracle is None:
            raise TypeError("cut_oracle() needs a formulation with works_on_shards = True.")
        return self.oracle

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

    A subclass implements :meth:`start`.

    Attributes
    ----------
    works_on_shards : bool
        Whether the master sees the training set through :meth:`Problem.cut_oracle` only, so that
        any engine can train it.
    can_choose_C : bool
        Whether C weighs the loss against a price of weight.  The model is then empty below some C,
        from which ``C="auto"`` searches upwards.
    takes_infinite_C : bool
        Whether C may be infinite, where weight has no price.
    learns_from_held_out : bool
        Whether boosters are :class:`~structboost.objectives.LearnsFromHeldOut`.
    """

    works_on_shards: bool = False
    can_choose_C: bool = False
    takes_infinite_C: bool = False
    learns_from_held_out: bool = False

    @property
    def can_resume(self) -> bool:
        """Whether what it makes has ``state``, ``schema`` and ``restore``, as checkpoints need."""
        return False

    @property
    def can_spread(self) -> bool:
        """Whether its master has ``spread``."""
        return False

    @property
    def link(self) -> SoftmaxLink | None:
        """Map from scores that minimise the expected loss to class probabilities, if there are."""
        return None

    def check(self) -> None:
        """Raise ValueError or TypeError if a parameter is out of range."""
        check_parameters(self, vars(self))

    def suited(self, task: Task, n_examples: int, C: float, *, is_plain: bool) -> Formulation:
        """Return the formulation that trains in place of this one, by default this one itself.

        Parameters
        ----------
        task : Task
            The task that is trained.
        n_examples : int
            Number of examples.
        C : float
            Largest C of the fit.
        is_plain : bool
            Whether stumps are searched on a dense table in one process, no weights are spread, and
            no checkpoint is written.
        """
        return self

    def check_C(self, C: Any) -> None:
        """Raise if C is out of range, by default unless it is above 0, and finite if it must be.

        Parameters
        ----------
        C : float
            Value that the user passed.

        Raises
        ------
        ValueError, TypeError
            If it is out of range.
        """
        (checked_regularisation if self.takes_infinite_C else checked_positive)(C, "C")

    def prepare(self, families: Mapping[str, WeakLearnerFamily], random_state: Any) -> None:
        """Prepare the families for this objective, once, before :meth:`start`.

        Parameters
        ----------
        families : dict of str to WeakLearnerFamily
            Families of weak learners, by kind.
        random_state : int, RandomState or None
            Random state of the trainer.
        """
        return

    def start(self, problem: Problem, C: float) -> WeightedColumns:
        """Make the weighted columns for the loop to train.

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
        raise NotImplementedError(f"{type(self).__name__} does not implement start().")


class Boosting(Formulation):
    """Formulation in which weight has no price, columns step once per round, and C is infinite."""

    takes_infinite_C = True


class Cut(NamedTuple):
    """A cut ``slack >= loss - <measure, scores>``.

    Parameters
    ----------
    key : int
        Key under which the oracle stores the measure.
    loss : float
        Mean loss of the outputs of the cut.
    """

    key: int
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
        """Append learners of a kind, as :meth:`WeightedColumns.add_responses`, dense or sparse."""

    def add_columns(self, terms: KindTerms, n_new: int) -> None:
        """Append columns, as :meth:`WeightedColumns.add_columns`."""
        self.columns.add(terms, n_new)

    def keep_columns(self, mask: BoolArray) -> None:
        """Drop the columns outside of the mask, and renumber the others."""
        self.columns.keep(mask)


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
    def products(self, cuts: Sequence[Cut], terms: KindTerms, n_columns: int) -> FloatArray:
        """Products of cuts with columns.

        Parameters
        ----------
        cuts : sequence of Cut
            Cuts that the oracle keeps.
        terms : dict of str to Terms
            Terms of the columns, by kind.
        n_columns : int
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
    def state(self, cuts: Sequence[Cut]) -> dict[str, AnyArray]:
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
    def restored_cuts(self, arrays: Mapping[str, AnyArray], n_cuts: int) -> list[Cut]:
        """Cuts of a state.

        Parameters
        ----------
        arrays : dict of str to ndarray
            A state that :meth:`schema` accepted.
        n_cuts : int
            Number of its cuts.

        Returns
        -------
        cuts : list of Cut
            In the order of the state.

        Raises
        ------
        DamagedFileError
            If the arrays do not hold ``n_cuts`` cuts.
        """


Program = Literal["auto", "one_slack", "m_slack"]
FormulationName = Literal[Program, "exponential", "log"]
FORMULATIONS = Registry(
    "formulation",
    {
        "auto": "structboost.objectives.m_slack:HingeBySize",
        "one_slack": "structboost.objectives.hinge:OneSlack",
        "m_slack": "structboost.objectives.m_slack:MSlack",
        "exponential": "structboost.objectives.exponential:Exponential",
        "log": "structboost.objectives.likelihood:ConditionalLikelihood",
    },
)


def formulation_of(formulation: str | Formulation) -> Formulation:
    """Formulation of a name, or the formulation itself.

    Raises ValueError for a name that no formulation has.
    """
    if isinstance(formulation, Formulation):
        return formulation
    chosen: Formulation = FORMULATIONS[formulation]()
    return chosen
