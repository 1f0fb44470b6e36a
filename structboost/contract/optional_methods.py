"""Protocols of optional methods of a task, of which formulations list those that they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from structboost._typing import FloatArray
from structboost.contract.listed_outputs import OutputCodes
from structboost.contract.parts import StackedParts
from structboost.contract.separation import Separation
from structboost.errors import TaskError


@runtime_checkable
class HasCodes(Protocol):
    """Task whose outputs are few and have label codes, as exponential formulations need."""

    def codes(self, Y: Sequence[Any]) -> OutputCodes:
        """Return the codes of all outputs, and the indices of the true ones.

        Parameters
        ----------
        Y : sequence, shape (n_examples,)
            True outputs.

        Returns
        -------
        codes : OutputCodes
            Codes, true outputs and losses; all examples share one list of outputs.
        """


@runtime_checkable
class HasGains(Protocol):
    """Task whose outputs are orders of the parts, as stage-wise ranking needs."""

    def gains(self, Y: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
        """Return the gain of each part at the first rank, and its weight.

        Parameters
        ----------
        Y : sequence
            True outputs.

        Returns
        -------
        gains, weights : ndarray, shape (n_parts,)
            Values of the parts of all examples, one after the other, without a unit.
        """


@runtime_checkable
class HasSlacks(Protocol):
    """Task whose loss is a sum of independent hinges, such as one for each pair of a ranking.

    The m-slack form (StructBoost, (14)) then has one slack per hinge; that of other tasks has one
    per example.
    """

    def separate_slacks(
        self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts, limit: int
    ) -> Separation:
        """Find violated outputs with a slack for each.

        Parameters
        ----------
        X, Y, scores
            As for :meth:`structboost.Task.separate`.
        limit : int
            Approximate maximum number of outputs.

        Returns
        -------
        separation : Separation
            Its ``slacks`` and ``weights`` are set where an example has several slacks.
        """


def codes_of(task: Any, Y: Sequence[Any]) -> OutputCodes:
    """Return the codes of a task that has them.

    TaskError if it has none.
    """
    if not isinstance(task, HasCodes):
        raise _lacks(task, "codes(Y)")
    return task.codes(Y)


def gains_of(task: Any, Y: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
    """Return the gains and weights of the parts of a task that has them.

    TaskError if it has none.
    """
    if not isinstance(task, HasGains):
        raise _lacks(task, "gains(Y)")
    return task.gains(Y)


def _lacks(task: Any, method: str) -> TaskError:
    return TaskError(
        f"{type(task).__name__} has no {method}, which this formulation needs; define it, or use "
        "formulation='one_slack'."
    )
