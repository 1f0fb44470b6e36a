"""Rounds of pricing and solving (Algorithm 1).

::

    repeat
        D   = master.duals() or booster.gradient()     signed weight of every (part, channel)
        new = pricing(D)                               columns of largest edge <D, response>
        stop when no column is violated, the gap is small enough, or rounds are used up
        add the new columns;  master.solve() or booster.step()

:class:`Loop` has the rounds and Ctrl-C; :mod:`structboost.training.master_loop` and
:mod:`structboost.training.booster_loop` are the two ways of a round.  They know their plug-ins
(master or booster, families of weak learners, pricing rule) by their contracts only.  A round hands
to the next one plain :class:`~structboost.training.state.State`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np

from structboost.contract.task import Task
from structboost.learners.pricing import Priced, PricingRule
from structboost.model.ensemble import Ensemble
from structboost.objectives.abilities import LearnsFromHeldOut
from structboost.objectives.held_out import Temperature
from structboost.objectives.master import WeightedColumns
from structboost.runtime.interrupts import raise_if_interrupted
from structboost.training.columns import ColumnRegistry
from structboost.training.history import Record, record
from structboost.training.settings import Settings
from structboost.training.state import RunCheckpoint, State

# Called with each record.  Training ends if it returns True or a key of ENDINGS.
Observer = Callable[[Record], bool | str]

# Rounds that find no violated column, where pricing is a search.
_SEARCH_PATIENCE = 3


class Loop(ABC):
    """One run of Algorithm 1 at one C, which ``began`` at a ``time.perf_counter``."""

    # What is proved of the columns, where the way of a round proves anything.
    certified = False
    # Whether only its loss is of interest, so that no columns need to be kept.
    is_trial = False

    def __init__(
        self,
        settings: Settings,
        task: Task,
        weighted: WeightedColumns,
        columns: ColumnRegistry,
        rule: PricingRule,
        began: float,
        checkpoint: RunCheckpoint | None = None,
    ) -> None:
        self.settings = settings
        self.task = task
        self.weighted = weighted
        self.columns = columns
        self.rule = rule
        self.state = State()
        # Found once: protocols are slow to check.
        self._learning = weighted if isinstance(weighted, LearnsFromHeldOut) else None
        self._began = began
        self._observer: Observer | None = None
        self._checkpoint = checkpoint
        self._calls_before = weighted.oracle_calls
        self._is_search = not all(of.exact_pricing for of in columns.families.values())
        rule.bind(weighted)

    def run(self, observe: Observer | None = None) -> None:
        """Train, from the checkpoint on if there is one.

        ``observe`` is called after every round; without it several may run at once.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C before the first round has ended.  Later it ends training, and the state shows
            so.
        """
        self._observer = observe
        try:
            priced = self._begin()
            while not self._terminated():
                priced = self._step(priced)
                self._observe()
                if self._checkpoint is not None:
                    self._checkpoint.write(self.state, is_last=self._terminated())
            self._end()
        except KeyboardInterrupt:
            # The round that was interrupted is incomplete; those before it are recorded.
            del self.state.stages[len(self.state.history) :]
            if not self.state.stages:
                raise
            self.state.interrupted, self.state.ending = True, "interrupted"

    def _begin(self) -> Priced:
        """Go to the checkpoint, or solve without columns, and price."""
        if self._checkpoint is not None:
            kinds, max_rounds = self.task.kinds, self.settings.max_rounds
            if (state := self._checkpoint.restored(max_rounds, kinds)) is not None:
                self.state = state
                self._began = time.perf_counter() - state.history[-1]["seconds"]
        self._first_solution()
        return self._price()

    def _terminated(self) -> bool:
        return self.state.done or len(self.state.history) >= self.settings.max_rounds

    def _step(self, priced: Priced) -> Priced:
        """Run one round, which adds the priced columns, solves and prices anew."""
        raise_if_interrupted()
        n_new = self.columns.add(priced.columns)
        may_improve = self._advance(n_new)
        priced = self._price()
        self._record()
        has_found = n_new or priced.largest_edge > self._min_edge or may_improve
        self.state.exhausted = 0 if has_found else self.state.exhausted + 1
        return priced

    def _observe(self) -> None:
        """Tell of the last record, and see whether training is done."""
        last = self.state.history[-1]
        is_ending = "" if self._observer is None else self._observer(last)
        reached = last["gap"] is not None and last["gap"] <= self.settings.tol
        # Where no edge is large enough, another search finds nothing either.
        exhausted = self.state.exhausted >= self._patience or np.isinf(self._min_edge)
        reasons = {
            is_ending if isinstance(is_ending, str) else "callback": bool(is_ending),
            "gap": reached,
            "stalled": self._stalls(),
            self._exhaustion: exhausted,
        }
        true_reasons = [reason for reason, is_true in reasons.items() if is_true]
        self.state.done = bool(true_reasons)
        self.state.ending = true_reasons[0] if true_reasons else "max_rounds"

    def _end(self) -> None:
        """Leave the run as it is."""
        raise_if_interrupted()

    @cached_property
    def _cross_fitted(self) -> bool:
        """Whether learners had other responses in training than those that are saved."""
        return any(family.cross_fitted for family in self.columns.families.values())

    @property
    def _patience(self) -> int:
        """Rounds without a violated column after which training stops."""
        return max(self.rule.patience, _SEARCH_PATIENCE if self._is_search else 1)

    def _record(self) -> None:
        """Keep the weights of the round, and its record."""
        state, master = self.state, self.weighted
        stage = self.columns.weights()
        state.stages.append(stage)
        state.history.append(
            record(
                len(state.history) + 1,
                master.primal,
                self.bound,
                certified=self.certified,
                cross_fitted=self._cross_fitted,
                held_out_loss=self._held_out_loss,
                bound_all=None,
                gap_all=None,
                smallest_C=state.smallest_C,
                cuts=master.n_cuts,
                columns=len(stage.columns),
                oracle_calls=master.oracle_calls - self._calls_before,
                seconds=time.perf_counter() - self._began,
            )
        )

    # -- the way of a round ----------------------------------------------------------------------

    @abstractmethod
    def _first_solution(self) -> None:
        """Solve without columns, unless a checkpoint was gone to."""

    @abstractmethod
    def _advance(self, n_new: int) -> bool:
        """Change the weights after so many new columns.

        Returns whether pricing may find columns after the next advance without new ones.
        """

    @abstractmethod
    def _price(self) -> Priced:
        """Price the columns for the next round."""

    def _priced(self, duals: Mapping[str, Any]) -> Priced:
        per_channel = self.settings.columns_per_channel
        return self.rule.price(self.columns.families, duals, per_channel, self._min_edge)

    @property
    @abstractmethod
    def _min_edge(self) -> float:
        """Edge from which a column is violated."""

    @property
    def _exhaustion(self) -> str:
        """Ending of a run without further columns."""
        return "columns"

    @property
    def bound(self) -> float | None:
        """Lower bound over the whole family, if there is one."""
        return None

    def _stalls(self) -> bool:
        """Whether the primal hardly falls any more, where there is no bound to stop by."""
        return False

    # -- what the run shows ---------------------------------------------------------------------

    def repeat(self, settings: Settings) -> Self:
        """Return a loop at another C that starts from the same cuts and columns."""
        began = time.perf_counter()
        return type(self)(settings, self.task, self.weighted, self.columns, self.rule, began)

    @property
    def is_empty(self) -> bool:
        """Whether no weak learner is worth what a weight costs, however many rounds come."""
        state = self.state
        return state.done and state.bound is not None and not self.weighted.weights.any()

    @property
    def price_of_weight(self) -> float:
        """Cost of a unit of weight in the objective, or 0."""
        return 0.0

    def temperature(self) -> Temperature | None:
        """Temperature fitted on held-out parts, or None if none was fitted."""
        return None if self._learning is None else self._learning.temperature()

    @property
    def _held_out_loss(self) -> float | None:
        """Loss on the parts left out, in rounds in which it was measured."""
        return None if self._learning is None else self._learning.held_out_loss

    def current_model(self) -> Ensemble:
        """The model kept so far, with the weights of the last round only."""
        final = self.columns.weights()
        return self.columns.ensemble(self.task.kinds, final, [final], {})

    def final_model(self, metadata: Mapping[str, Any]) -> Ensemble:
        """Build the final model, with the weights of each round and the metadata of its file."""
        stages, history = self.state.stages, self.state.history
        facts = {
            "C": float(self.settings.C),
            "objective": history[-1]["primal"],
            "history": history,
            "certified": self.certified,
        }
        return self.columns.ensemble(self.task.kinds, stages[-1], stages, {**facts, **metadata})
