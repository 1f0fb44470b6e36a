"""Optional abilities of masters and boosters, as protocols.

A class has the methods of a protocol or not: nothing else declares an ability.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.files.schema import Schema
from structboost.learners.base import Growth
from structboost.objectives.held_out import HeldOut, Temperature


@runtime_checkable
class TakesSparseResponses(Protocol):
    """Ability to take sparse responses, which are 0 on most parts."""

    def add_sparse_responses(self, kind: str, responses: Any) -> int:
        """Append learners as ``add_responses`` does, from a csr_array."""


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
            As for :meth:`~structboost.objectives.WeightedColumns.add_responses`.
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
class GivesLosses(Protocol):
    """Ability to give the losses of single examples, of weight zero, too."""

    @property
    def last_temperature(self) -> Temperature | None:
        """Temperature of the parts left out if the last round looked at them, else None."""

    def losses_of_examples(self, examples: IntArray) -> Callable[[float], FloatArray]:
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
    """Ability to run several rounds in compiled code, which also grows the learners.

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
        scalars : dict of str to object
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

    def restore(self, scalars: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
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
