"""Stage-wise boosters AdaBoost.MO, AdaBoost.MH and AdaBoost.ECC, which set a weight once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from structboost._typing import FloatArray, IntArray, override
from structboost.objectives.base import Boosting, Problem
from structboost.objectives.exponential import LARGEST_WEIGHT
from structboost.objectives.master import Booster
from structboost.objectives.pair_margins import PairColumns, PairFormulation


@dataclass(frozen=True)
class StageWise(Boosting, PairFormulation):
    """Stage-wise exponential loss over pairs (Algorithms 1, 2 of MultiBoost.MO and .ECC).

    There is no regularisation: give the trainer ``C=float("inf")``.  There is no bound.

    Parameters
    ----------
    pairs : {"bits", "outputs"}
        ``bits``: AdaBoost.MO, and AdaBoost.MH with the one-vs-all code; ``outputs``: AdaBoost.ECC.
    """

    @override
    def start(self, problem: Problem, C: float) -> StageWiseBooster:
        return StageWiseBooster(problem, self.pairs)


class StageWiseBooster(PairColumns, Booster):
    """Booster of ``sum_p rho_p exp(-margin_p(w))`` by steps in closed form.

    A column that is chosen again adds to its weight.

    With the margins of a column in {-a, 0, a} its step is ``log(V+ / V-) / (2a)``, at most 30
    (``LARGEST_WEIGHT``).
    """

    def __init__(self, problem: Problem, pairs: str) -> None:
        super().__init__()
        self._make_pairs(problem, pairs)

    @override
    def step(self, selected: IntArray) -> None:
        for j in selected:
            self._calls += 1
            margins = self.matrix[j]
            step = float(np.abs(margins).max(initial=0.0))
            if step == 0.0:
                continue
            u = np.exp(self._logs - self._logs.max())
            right, wrong = float(u @ np.maximum(margins, 0.0)), float(u @ np.maximum(-margins, 0.0))
            change = LARGEST_WEIGHT if wrong == 0 else 0.0
            if right > 0 and wrong > 0:
                change = 0.5 / step * float(np.log(right / wrong))
            change = min(max(change, 0.0), LARGEST_WEIGHT)
            self.weights[j] += change
            self._logs -= change * margins
        self.risk = float(np.exp(self._logs).sum())

    @override
    def gradient(self) -> dict[str, FloatArray]:
        u = np.exp(self._logs - self._logs.max())
        return self.duals_of(u / u.sum())
