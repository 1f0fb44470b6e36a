"""Stage-wise masters: AdaBoost.MO, .MH and .ECC set the weight of a column once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.masters.base import Formulation, Problem
from structboost.masters.exponential import LARGEST_WEIGHT
from structboost.masters.pair_margins import PAIRS, PairMargins, PairMaster, pair_probabilities
from structboost.validation import checked_choice, checked_regularisation


@dataclass(frozen=True)
class StageWise(Formulation):
    """Exponential loss over pairs, one column at a time: Algorithms 1, 2 of MultiBoost.MO and .ECC.

    There is no regularisation: give the trainer ``C=float("inf")``.  There is no bound.

    Parameters
    ----------
    pairs : {"bits", "outputs"}
        ``bits``: AdaBoost.MO, and AdaBoost.MH with the one-vs-all code; ``outputs``: AdaBoost.ECC.
    """

    pairs: str = "outputs"

    @property
    def has_probabilities(self) -> bool:  # type: ignore[override]
        """Whether the pairs are the wrong outputs."""
        return self.pairs == "outputs"

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Softmax of twice the scores."""
        return pair_probabilities(scores)

    def check(self) -> None:
        """Raise if a parameter is out of its range."""
        checked_choice(self.pairs, "pairs", PAIRS)

    def check_C(self, C: Any) -> None:
        """Raise unless C is a number above 0; it is not used."""
        checked_regularisation(C, "C")

    def master(self, problem: Problem, C: float) -> StageWiseMaster:
        """Closed-form weights."""
        kind = problem.only_kind()
        pairs = PairMargins(
            problem.task.codes(problem.Y), kind, problem.example_weights, self.pairs
        )
        return StageWiseMaster(pairs, np.inf)


class StageWiseMaster(PairMaster):
    """``sum_p rho_p exp(-margin_p(w))``; a column chosen again has its weight added to.

    With the margins of a column in {-a, 0, a} its step is ``log(V+ / V-) / (2a)``, at most 30
    (``LARGEST_WEIGHT``).
    """

    @property
    def min_edge(self) -> float:
        """Any positive edge lowers the loss."""
        return 0.0

    def set_C(self, C: float) -> None:
        """Nothing depends on it."""

    def solve(self, tolerance: float, selected: IntArray | None = None) -> None:
        """Set the weights of the columns chosen last, in turn."""
        for j in () if selected is None else selected:
            self._calls += 1
            margins = self._pairs.matrix[j]
            step = float(np.abs(margins).max(initial=0.0))
            if step == 0.0:
                continue
            u = np.exp(self._logs - self._logs.max())
            right, wrong = float(u @ np.maximum(margins, 0.0)), float(u @ np.maximum(-margins, 0.0))
            change = (
                LARGEST_WEIGHT
                if wrong == 0
                else 0.5 / step * float(np.log(right / wrong))
                if right > 0
                else 0.0
            )
            change = min(max(change, 0.0), LARGEST_WEIGHT)
            self.weights[j] += change
            self._logs -= change * margins
        self.risk = float(np.exp(self._logs).sum())

    def duals(self) -> dict[str, FloatArray]:
        """Pair weights, normalised to sum 1, with their signs."""
        u = np.exp(self._logs - self._logs.max())
        return self._pairs.duals(u / u.sum())

    def bound(self, largest_edge: float) -> float | None:
        """None: the weights are not optimal over the columns."""
        return None
