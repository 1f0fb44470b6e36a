"""Rounds of a booster, whose columns step once."""

from __future__ import annotations

import numpy as np

from structboost._typing import override
from structboost.masters.master import Booster
from structboost.training.loop import Loop
from structboost.weak.pricing import Priced


class BoosterLoop(Loop):
    """Rounds of a booster, whose columns step once and which has neither C nor a bound."""

    @property
    def booster(self) -> Booster:
        """The booster."""
        assert isinstance(self.weighted, Booster)
        return self.weighted

    @override
    def _first_solution(self) -> None:
        return

    @override
    def _advance(self, n_new: int) -> bool:
        self.booster.step(self.columns.selected)
        return False

    @override
    def _price(self) -> Priced:
        return self._priced(self.booster.gradient())

    @property
    @override
    def _min_edge(self) -> float:
        return 0.0 if self.booster.ending is None else np.inf

    @property
    @override
    def _exhaustion(self) -> str:
        return self.booster.ending or "columns"
