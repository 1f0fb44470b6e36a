"""What stage-wise masters share whose columns get one shrunken Newton step each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.columns import Terms, check_single_terms
from structboost.masters.base import Formulation, RestrictedMaster
from structboost.runtime.growing import GrowingMatrix
from structboost.validation import checked_positive


@dataclass(frozen=True)
class NewtonSteps(Formulation):
    """Parameters of the steps.

    Parameters
    ----------
    shrinkage : float
        Share of the Newton step that is taken.
    largest_step : float
        Largest change of a score by one step, before it is shrunk: where nothing is wrong any more,
        Newton steps have no bound.
    """

    takes_infinite_C: ClassVar[bool] = True
    shrinkage: float = 0.15
    largest_step: float = 1.0

    def check(self) -> None:
        """Raise if a parameter is out of its range."""
        checked_positive(self.shrinkage, "shrinkage")
        checked_positive(self.largest_step, "largest_step")


class NewtonStepsMaster(RestrictedMaster):
    """Scores of all parts; a column is one learner on one channel, and C is infinite.

    Parameters
    ----------
    formulation : NewtonSteps
    kind : str
    n_channels, n_parts : int
    """

    drops_idle_columns = False

    def __init__(self, formulation: NewtonSteps, kind: str, n_channels: int, n_parts: int) -> None:
        super().__init__(np.inf)
        self.formulation = formulation
        self._kind = kind
        self._scores = np.zeros((n_channels, n_parts))
        self._answers = GrowingMatrix(n_parts)
        self._terms = Terms.none()

    @property
    def primal(self) -> float:
        """The loss alone: C is infinite."""
        return self.risk

    @property
    def min_edge(self) -> float:
        """Any positive edge lowers the loss."""
        return 0.0

    def set_C(self, C: float) -> None:
        """Nothing depends on it."""

    def add_responses(self, kind: str, responses: NDArray[np.generic]) -> int:
        """Append learners."""
        return self._answers.append(responses)

    def add_columns(self, terms: Mapping[str, Terms], n_new: int) -> None:
        """Append columns of weight zero, each one learner."""
        check_single_terms(terms[self._kind], n_new, type(self.formulation).__name__)
        self._terms = self._terms.joined(terms[self._kind], len(self.weights))
        super().add_columns(terms, n_new)

    def solve(self, tolerance: float, selected: IntArray | None = None) -> None:
        """Add to the weights of the columns chosen last."""
        for j in () if selected is None else selected:
            self._calls += 1
            channel = self._terms.channels[j]
            answer = self._answers.rows[self._terms.learners[j]].astype(np.float64)
            slope, curvature = self._along(answer, channel)
            if slope <= 0:
                continue
            longest = self.formulation.largest_step / np.abs(answer).max()
            step = min(slope / curvature, longest) if curvature > 0 else longest
            step *= self.formulation.shrinkage
            self.weights[j] += step
            self._scores[channel] += step * answer
        self._measure()

    def bound(self, largest_edge: float) -> float | None:
        """None: the weights are not optimal over the columns."""
        return None

    @abstractmethod
    def _along(self, answer: FloatArray, channel: int) -> tuple[float, float]:
        """How much a unit of weight lowers the loss at first, and the second derivative."""

    @abstractmethod
    def _measure(self) -> None:
        """Compute the risk at the scores."""
