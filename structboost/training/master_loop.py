"""Rounds of a restricted master, which proves how near its weights are to the optimum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from structboost._typing import override
from structboost.learners.pricing import Priced
from structboost.objectives.abilities import Spreadable
from structboost.objectives.master import RestrictedMaster
from structboost.training.history import contradicts, relative_gap
from structboost.training.loop import Loop
from structboost.training.settings import Settings

# A column of positive weight has edge exactly 1 at the optimum, so (8) as printed never holds.
_EDGE_TOLERANCE = 1e-6
# Solving a restricted master far below the gap that pricing leaves is wasted.
_INNER_FRACTION = 0.5
# Without new columns the gap is that of the master alone: this fraction of tol is enough to end.
_LAST_FRACTION = 0.9
# Finer than this a restricted master is not solved, whatever tol.
_FINEST = 1e-7
# Where pricing is a search: rounds in which the primal must fall by tol.
_STALL_ROUNDS = 20
# Only edges below this fraction of C are compared with their duals.  If an edge is also below the
# second fraction of the sum of the sizes of these duals, it is 0 up to rounding.
_SMALL_EDGE, _NO_EDGE = 1e-9, 1e-12


class MasterLoop(Loop):
    """Rounds of a restricted master, which is solved anew each time and gives a lower bound."""

    # Whether a bound exceeded the objective.
    _contradicts = False

    @property
    def master(self) -> RestrictedMaster:
        """The master."""
        assert isinstance(self.weighted, RestrictedMaster)
        return self.weighted

    @override
    def repeat(self, settings: Settings) -> Self:
        self.master.set_C(float(settings.C))
        return super().repeat(settings)

    @override
    def _record(self) -> None:
        if self.certified:
            self._contradicts = contradicts(self.state.history, self.master.primal, self.bound)
        super()._record()

    @property
    @override
    def bound(self) -> float | None:
        return None if self._is_search or not self.rule.covers_family else self.state.bound

    @property
    def certified(self) -> bool:  # type: ignore[override]
        """Whether the primal is exact and that of the model, and the bound holds."""
        is_exact = self.master.is_exact(self.task)
        is_proved = self.bound is not None and not self._contradicts
        return is_proved and not self._cross_fitted and is_exact

    @property
    @override
    def price_of_weight(self) -> float:
        return self.master.min_edge

    @override
    def _first_solution(self) -> None:
        if np.isinf(self.master.risk):
            self.master.solve(max(float(self.settings.tol), _FINEST))

    @override
    def _advance(self, n_new: int) -> bool:
        tolerance = self._tolerance(n_new)
        solve = self.master.solve_loosely if n_new else self.master.solve
        solve(tolerance, self.columns.selected)
        if np.isfinite(self.master.max_idle_rounds):
            self.columns.drop_idle(int(self.master.max_idle_rounds))
        # A master that was solved loosely may be solved better, and then find columns again.
        return tolerance > max(_LAST_FRACTION * float(self.settings.tol), _FINEST)

    def _tolerance(self, n_new: int) -> float:
        """Relative gap to which the master is solved after so many new columns."""
        tol = float(self.settings.tol)
        if not n_new and self.bound is None:
            return max(_INNER_FRACTION * tol, _FINEST)
        bound = self.state.bound
        if bound is not None and self.state.estimate is not None:
            bound = max(bound, self.state.estimate)
        left = relative_gap(self.master.primal, bound) or 0.0
        finest = (_INNER_FRACTION if n_new else _LAST_FRACTION) * tol
        return max(_INNER_FRACTION * left, finest, _FINEST)

    @override
    def _end(self) -> None:
        bound_all = self._bound_over_all()
        self._spread()
        for of_round in self.state.history if self._searches_all else self.state.history[-1:]:
            bound = of_round["bound"] if self._searches_all else bound_all
            of_round |= {"bound_all": bound, "gap_all": relative_gap(of_round["primal"], bound)}
        super()._end()

    @property
    def _searches_all(self) -> bool:
        """Whether each bound is one over all weak learners, not over a part of them."""
        return all(family.searches_all for family in self.columns.families.values())

    def _spread(self) -> None:
        """Exchange the weights for ones of small norm, within the gap that is allowed."""
        spread = float(self.settings.spread)
        gap = relative_gap(self.master.primal, self.bound)
        if not spread or (gap is not None and gap >= spread):
            return
        limit = (self.master.primal if self.bound is None else self.bound) / (1.0 - spread)
        if limit > 0:
            assert isinstance(self.master, Spreadable)
            self.master.spread(limit)
            self._record()

    def _bound_over_all(self) -> float | None:
        """Return the bound over all weak learners where training searched a part, or None."""
        if self.bound is None or self._searches_all:
            return self.bound
        duals = self.master.duals()
        largest = []
        for kind, family in self.columns.families.items():
            of_channels = family.widest_edges(duals[kind])
            edge = None if of_channels is None else self.rule.largest_edge(of_channels)
            if edge is None:
                return None
            largest.append(edge)
        bound = self.master.bound(max(largest))
        return None if bound is None else min(bound, self.bound)

    @override
    def _priced(self, duals: Mapping[str, Any]) -> Priced:
        whole = self.columns.families
        parts = {kind: family.part() for kind, family in whole.items()}
        # An edge above this leaves a gap above tol, whatever edges the other learners have.
        enough = self._min_edge / (1.0 - float(self.settings.tol))
        if self.state.bound is not None and any(part is not None for part in parts.values()):
            searched = {kind: parts[kind] or family for kind, family in whole.items()}
            per_channel = self.settings.columns_per_channel
            priced = self.rule.price(searched, duals, per_channel, self._min_edge)
            if priced.largest_edge > enough:
                self.state.estimate = self.master.bound(priced.largest_edge)
                return priced._replace(largest_edge=np.inf)
        self.state.estimate = None
        return super()._priced(duals)

    @override
    def _price(self) -> Priced:
        # Edges give a lower bound, too (docs/method.md).
        state, duals = self.state, self.master.duals()
        priced = self._priced(duals)
        bound = self.master.bound(priced.largest_edge)
        if bound is not None:
            price = self.master.min_edge
            is_first = state.bound is None and not self.master.weights.any()
            has_edge = min(price, priced.largest_edge) > 0
            if is_first and has_edge and not self._is_rounding(priced.largest_edge, duals):
                state.smallest_C = float(self.settings.C) * price / priced.largest_edge
            # What is proved over fewer columns than may come does not outlive them.
            renewed = state.bound is None or not self.rule.covers_family
            state.bound = bound if renewed else max(state.bound or 0.0, bound)
        return priced

    def _is_rounding(self, edge: float, duals: Mapping[str, Any]) -> bool:
        """Whether an edge is the rounding of duals that cancel out, as within a query."""
        if edge > _SMALL_EDGE * float(self.settings.C):
            return False
        arrays = (
            of_kind if isinstance(of_kind, np.ndarray) else of_kind.gathered()
            for of_kind in duals.values()
        )
        return edge <= _NO_EDGE * sum(float(np.abs(of_kind).sum()) for of_kind in arrays)

    @property
    @override
    def _min_edge(self) -> float:
        return self.master.min_edge * (1 + _EDGE_TOLERANCE)

    @override
    def _stalls(self) -> bool:
        history, tol = self.state.history, self.settings.tol
        without_bound = self._is_search and self.state.bound is not None
        if not without_bound or len(history) <= _STALL_ROUNDS or not tol:
            return False
        before, now = history[-1 - _STALL_ROUNDS]["primal"], history[-1]["primal"]
        return bool(before - now <= tol * now)
