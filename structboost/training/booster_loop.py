"""Rounds of a booster, whose columns step once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structboost._typing import IntArray, override
from structboost.learners.base import Growth
from structboost.learners.pricing import Priced, single
from structboost.objectives.abilities import GrowsRounds
from structboost.objectives.master import Booster
from structboost.runtime.interrupts import raise_if_interrupted
from structboost.training.loop import Loop

_UNPRICED = Priced({}, 0.0)


class BoosterLoop(Loop):
    """Rounds of a booster, whose columns step once and which has neither C nor a bound.

    Where booster, family and rule can, compiled code runs as many rounds as nobody watches.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._growing = self.weighted if isinstance(self.weighted, GrowsRounds) else None

    @property
    def booster(self) -> Booster:
        """The booster."""
        assert isinstance(self.weighted, Booster)
        return self.weighted

    @override
    def _first_solution(self) -> None:
        return

    @override
    def _step(self, priced: Priced) -> Priced:
        if self._growing is not None:
            if self._grow_rounds(self._growing):
                return _UNPRICED
            self._growing = None
            priced = self._price()
        return super()._step(priced)

    def _grow_rounds(self, booster: GrowsRounds) -> int:
        """Run rounds ahead, record them, and return how many."""
        raise_if_interrupted()
        (kind, family), *others = self.columns.families.items()
        n_rounds = 1
        if self._checkpoint is None and self._observer is None:
            n_left = self.settings.max_rounds - len(self.state.history)
            n_rounds = min(booster.rounds_ahead, n_left)
        n_channels = self.task.kinds[kind].n_channels
        per_channel = self.settings.columns_per_channel
        growth = self.rule.growth(family, n_rounds, n_channels, per_channel)
        if growth is None or others or not (n_rounds := booster.grow_rounds(kind, growth)):
            return 0
        family.skip_drawn(n_rounds)
        for selected in self._columns_of(kind, growth, n_rounds, booster):
            booster.take_round(selected)
            self._record()
        return n_rounds

    def _columns_of(
        self, kind: str, growth: Growth, n_rounds: int, booster: GrowsRounds
    ) -> Sequence[IntArray]:
        """Add the columns of rounds that ran ahead, and return the places of each."""
        if self.is_trial:
            return [np.zeros(0, np.int64)] * n_rounds
        columns = [
            [single(candidate) for candidate in candidates if candidate.edge > 0.0]
            for candidates in self.columns.families[kind].grown(growth, n_rounds)
        ]
        return self.columns.add_grown(kind, columns, booster)

    @override
    def _advance(self, n_new: int) -> bool:
        selected = self.columns.selected
        self.booster.step(selected)
        # A round along columns of before steps, as one along new ones does.
        return bool(len(selected))

    @override
    def _price(self) -> Priced:
        if self._growing is not None:
            return _UNPRICED
        return self._priced(self.booster.gradient())

    @property
    @override
    def _min_edge(self) -> float:
        return 0.0 if self.booster.ending is None else np.inf

    @property
    @override
    def _exhaustion(self) -> str:
        return self.booster.ending or "columns"
