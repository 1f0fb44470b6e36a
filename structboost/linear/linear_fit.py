"""Rounds of a linear problem, which all trainers of linear functions share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from structboost._typing import FloatArray
from structboost.contract.task import check_is_task
from structboost.linear.designs import Design
from structboost.progress import ProgressBar
from structboost.runtime.interrupts import raise_if_interrupted
from structboost.training.history import (
    contradicts,
    ending_in_words,
    ending_of_passes,
    record,
    relative_gap,
    warn_of_interruption,
    warn_of_open_gap,
)
from structboost.training.trainer import Trainer
from structboost.validation import checked_positive, checked_relative_gap, checked_whole_number


class LinearProblem(Protocol):
    """Interface of a solver on one training set, as the trainers need it.

    ``begin(C)`` comes before ``improve()``, which makes a round and sets ``primal`` and ``bound``.
    Ctrl-C may be raised inside it, and leaves the matrices of the round before.
    """

    designs: Mapping[str, Design]
    primal: float
    bound: float

    def begin(self, C: float) -> None:
        """Continue with another C, from the result of the previous one."""

    def improve(self) -> None:
        """Make a round."""

    def matrices(self) -> Mapping[str, FloatArray]:
        """Return the best weights so far, by kind, shape (width, n_channels)."""


class LinearFit(Trainer):
    """Base of trainers whose problem makes rounds until its gap is small."""

    verbose: int

    def _check_numbers(self, C: Any, most: Any, limit: str) -> None:
        """Check the task, C, the gap, and the largest number of rounds, whose name is ``limit``."""
        check_is_task(self.task)
        checked_positive(C, "C")
        checked_positive(self.tol, "tol")
        checked_relative_gap(self.tol, "tol")
        checked_whole_number(most, limit)

    def _follow(
        self,
        problem: LinearProblem,
        C: float,
        *,
        tol: float,
        most: int,
        began: float,
        certified: bool = True,
        facts: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        """Make rounds until an end, and set the attributes of the fit other than the model.

        ``facts()`` returns further values of the record of a round, the number of columns if it is
        None.
        """
        label = f"{self._objective} over linear, C {C:.4g}  "
        bar = ProgressBar(tol, most, label) if self.verbose else None
        self.history_, self.interrupted_ = [], False
        try:
            for round_ in range(1, int(most) + 1):
                problem.improve()
                certified = certified and not contradicts(
                    self.history_, problem.primal, problem.bound
                )
                self.history_.append(
                    record(
                        round_,
                        problem.primal,
                        problem.bound,
                        certified=certified,
                        **(facts() if facts is not None else {"columns": n_columns(problem)}),
                        seconds=time.perf_counter() - began,
                    )
                )
                if bar is not None:
                    bar(self.history_[-1], self)
                if self.history_[-1]["gap"] <= tol:
                    break
            raise_if_interrupted()
        except KeyboardInterrupt:
            if not self.history_:
                raise
            self.interrupted_ = True
        self.objective_, self.C_ = self.history_[-1]["primal"], C
        self.ending_ = ending_of_passes(self.history_, tol, interrupted=self.interrupted_)
        if bar is not None:
            bar.end(ending_in_words(self.ending_))

    def _warn(
        self, tol: float, *, unit: str = "round", limit: str = "max_rounds", remedy: str = ""
    ) -> None:
        """Warn of a fit that Ctrl-C ended, or the ``limit`` of rounds."""
        if self.interrupted_:
            warn_of_interruption(len(self.history_), unit)
        elif self.history_[-1]["gap"] > tol:
            remedy += ", or lower C"
            warn_of_open_gap(self.history_[-1]["gap"], tol, len(self.history_), limit, remedy)


def approached(problem: LinearProblem, tol: float, most: int) -> int:
    """Make rounds until the gap is small or a limit is reached, and return their number."""
    for n in range(1, most + 1):
        problem.improve()
        if (relative_gap(problem.primal, problem.bound) or 0.0) <= tol:
            return n
    return most


def n_columns(problem: LinearProblem) -> int:
    """Return the number of features of all kinds, with the constants."""
    return sum(design.width for design in problem.designs.values())
