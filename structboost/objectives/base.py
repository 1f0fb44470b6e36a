"""Contract of formulations, which make masters or boosters.

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

Scores become probabilities of classes by :class:`SoftmaxLink`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from structboost._typing import FloatArray, IntArray
from structboost.contract.task import Task
from structboost.errors import TaskError
from structboost.learners.base import WeakLearnerFamily
from structboost.objectives.cut_oracle import CutOracle
from structboost.objectives.master import WeightedColumns
from structboost.runtime.called_class import Described
from structboost.validation import checked_positive, checked_regularisation


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
    X: Sequence[Any]
    Y: Sequence[Any]
    offsets: Mapping[str, IntArray]
    example_weights: FloatArray
    random_state: np.random.RandomState
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

    works_on_shards: ClassVar[bool] = False
    can_choose_C: ClassVar[bool] = False
    takes_infinite_C: ClassVar[bool] = False
    learns_from_held_out: ClassVar[bool] = False

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
        return

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
