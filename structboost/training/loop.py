"""Rounds of pricing and solving, and their records (Algorithm 1).

::

    repeat
        D   = master.duals() or booster.gradient()     signed weight of every (part, channel)
        new = pricing(D)                               columns of largest edge <D, response>
        stop when no column is violated, the gap is small enough, or rounds are used up
        add the new columns;  master.solve() or booster.step()

:class:`Loop` has rounds, records, Ctrl-C and checkpoints; :class:`MasterLoop` and
:class:`BoosterLoop` are the two ways of a round.  They know their plug-ins (master or booster,
families of weak learners, pricing rule) by their contracts only.  What a round hands to the next is
one plain :class:`State`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from structboost._typing import override
from structboost.contract.task import Task
from structboost.exceptions import UncertifiedWarning, warn_user
from structboost.files.checkpoint import CheckpointFile
from structboost.files.schema import (
    DamagedFileError,
    Part,
    Schema,
    below,
    damaged_content,
    finite_number,
    prefixed,
    whole_number,
)
from structboost.masters.base import (
    Booster,
    Formulation,
    LearnsFromHeldOut,
    RestrictedMaster,
    Resumable,
    Spreadable,
    WeightedColumns,
)
from structboost.masters.held_out import Temperature
from structboost.model.ensemble import Ensemble
from structboost.runtime.interrupts import raise_if_interrupted
from structboost.training.columns import (
    STAGES_SCHEMA,
    ColumnRegistry,
    ColumnWeights,
    stage_arrays,
    stages_of,
)
from structboost.validation import (
    check_implements,
    checked_relative_gap,
    checked_whole_number,
    shown,
)
from structboost.weak.pricing import Priced, PricingRule

Record = dict[str, Any]
# Is told of every record; True, or a key of ENDINGS, ends training.
Observer = Callable[[Record], bool | str]

# A column of positive weight has edge exactly 1 at the optimum, so (8) as printed never holds.
_EDGE_TOLERANCE = 1e-6
# Solving a restricted master far below the gap that pricing leaves is wasted.
_INNER_SHARE = 0.5
# Without new columns the gap is the master's own: this share of tol is enough to end.
_LAST_SHARE = 0.9
# Finer than this a restricted master is not solved, whatever tol.
_FINEST = 1e-7
# Where pricing is a search: rounds that find no violated column, and rounds in which the primal
# must fall by tol.
_SEARCH_PATIENCE = 3
_STALL_ROUNDS = 20
# Relative difference between sums of the same numbers in another order.
_ROUNDING = 1e-9
# Fractions of the objective, and of the first one, by which a bound may exceed it by rounding.
_SLIP, _SLIP_OF_FIRST = 1e-6, 1e-9
# Edges are looked at that are below this share of C.  Where they are below the second share of the
# sizes of the duals that they add up, they are 0 but for rounding.
_SMALL_EDGE, _NO_EDGE = 1e-9, 1e-12


def record(
    round_: int, primal: float, bound: float | None, *, certified: bool, **others: Any
) -> Record:
    """One entry of a history.

    Parameters
    ----------
    round_ : int
        Number of the round, from 1.
    primal : float
        Objective of the model kept so far.  It never rises, except in a last record of spread
        weights.
    bound : float or None
        Lower bound of the optimum over the family trained on.  None without a bound: C infinite,
        pricing by search, or a rule that does not see all columns.  The relative ``gap`` follows.
    certified : bool
        Whether objective and bound are exact and those of the model.  Then the bound is at most the
        objective, but for rounding of a millionth (:func:`contradicts`).
    **others
        Further plain values:

        cross_fitted
            Whether objective and bound are those of the responses in training, which the saved
            learners do not give (the default of image segmentation).  Such a model has no
            certificate.
        held_out_loss
            Mean loss of held-out examples after this round, None where it was not measured: every
            20 rounds that of the examples that rounds left out, where they say when to end; with
            ``early_stopping`` of an estimator that of the part that was held out.
        bound_all, gap_all
            In the last record: over stumps on all distinct thresholds; None if not known.
        smallest_C
            Below this C the model is certainly empty.  If the model is empty, the last record has
            the C above which it is not.
        cuts, columns, oracle_calls
            Cuts held, columns with a weight, passes over the training set.
        seconds
            Since the fit began.
    """
    return {
        "round": round_,
        "primal": primal,
        "bound": bound,
        "gap": relative_gap(primal, bound),
        "certified": certified,
        **others,
    }


def relative_gap(primal: float, bound: float | None) -> float | None:
    """Gap ``(primal - bound) / primal`` from 0, or None without a bound."""
    if bound is None:
        return None
    return max(0.0, (primal - bound) / primal) if primal > 0 else 0.0


def contradicts(history: Sequence[Record], primal: float, bound: float | None) -> bool:
    """Whether a lower bound exceeds the objective of a model by more than rounding.

    That is by a millionth of the objective and a billionth of the first one.  Then it warns, once
    per history.
    """
    first = history[0]["primal"] if history else primal
    if bound is None or not bound - primal > _SLIP * abs(primal) + _SLIP_OF_FIRST * first:
        return False
    warn_user(
        f"The lower bound {bound:.9g} of the optimum exceeds the objective {primal:.9g} of a "
        "model, so nothing is certified: the argmax or the sums of the task are not exact.  Run "
        "check_task(task, X, Y), or scale losses and features if it finds nothing.",
        UncertifiedWarning,
    )
    return True


@dataclass(frozen=True)
class Settings:
    """When to stop, and how much to add per round, as in :class:`structboost.StructBoost`."""

    C: float
    tol: float = 0.01
    max_rounds: int = 200
    columns_per_channel: int = 5
    spread: float = 0.0

    def check(self, formulation: Formulation) -> None:
        """Raise unless all are in their range, and the formulation can do what they ask."""
        formulation.check_C(self.C)
        tol = checked_relative_gap(self.tol, "tol")
        spread = checked_relative_gap(self.spread, "spread")
        if spread:
            remedy = "take formulation='one_slack' with stabilize=True, or leave spread=0"
            check_implements(formulation.makes, formulation, Spreadable, "spread", remedy)
            if spread <= tol:
                raise ValueError(
                    f"spread is {shown(self.spread)}, not above tol = {shown(self.tol)}, so "
                    "nothing is left to spread within; raise spread, lower tol, or set spread=0."
                )
        checked_whole_number(self.max_rounds, "max_rounds")
        checked_whole_number(self.columns_per_channel, "columns_per_channel")


@dataclass
class State:
    """Data that a round hands to the next, beside the weights and the columns.

    Parameters
    ----------
    history : list of dict
        A record per round.
    stages : list of ColumnWeights
        The weights after each round.
    bound : float or None
        What the master and the edges found would prove if pricing saw every column.
    smallest_C : float or None
        Below this C the model is empty for certain.
    exhausted : int
        Rounds in a row without a violated column.
    done : bool
        Whether training came to its end before it ran out of rounds.
    interrupted : bool
        Whether Ctrl-C ended it.
    ending : str
        Why training ended, a key of :data:`ENDINGS`; masters of your own may have further ones.
    estimate : float or None
        Bound over a part of the families, where the last round priced no more.
    """

    history: list[Record] = field(default_factory=list)
    stages: list[ColumnWeights] = field(default_factory=list)
    bound: float | None = None
    smallest_C: float | None = None
    exhausted: int = 0
    done: bool = False
    interrupted: bool = False
    ending: str = "max_rounds"
    estimate: float | None = None

    def to_header(self) -> dict[str, Any]:
        """The plain values that a checkpoint holds."""
        names = ("history", "bound", "exhausted", "done", "ending", "estimate")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of_header(
        cls, header: Mapping[str, Any], stages: list[ColumnWeights], primal: float
    ) -> State:
        """Read what :meth:`to_header` returned, of weights with the objective ``primal``.

        DamagedFileError if its rounds, its bound and this objective do not fit together.
        """
        with damaged_content():
            history = list(header["history"])
            for number, entry in enumerate(history):
                if whole_number(entry["round"], "round") != number + 1:
                    raise DamagedFileError("its rounds are not numbered in order")
                for name in ("primal", "seconds"):
                    finite_number(entry[name], name, 0.0)
            bound = header["bound"]
            # Where pricing is a search the header has an estimate, the record none.
            if not history or history[-1]["bound"] not in (None, bound):
                raise DamagedFileError("its bound is not that of its last round")
            if bound is not None:
                finite_number(bound, "bound", high=primal * (1 + _ROUNDING))
            if abs(history[-1]["primal"] - primal) > _ROUNDING * primal:
                raise DamagedFileError("its objective is not that of its weights")
            exhausted = whole_number(header["exhausted"], "exhausted")
            smallest_C = history[-1].get("smallest_C")
            state = cls(history, stages, bound, smallest_C, exhausted, header["done"] is True)
            # Checkpoints of version 0.2 do not say why.
            state.ending = str(header.get("ending", state.ending))
            if (estimate := header.get("estimate")) is not None:
                state.estimate = finite_number(estimate, "estimate", 0.0)
            return state


class Loop(ABC):
    """One run of Algorithm 1 at one C, which ``began`` at a ``time.perf_counter``."""

    # What is proved of the columns, where the way of a round proves anything.
    certified = False

    def __init__(
        self,
        settings: Settings,
        task: Task,
        weighted: WeightedColumns,
        columns: ColumnRegistry,
        rule: PricingRule,
        began: float,
        checkpoint: CheckpointFile | None = None,
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
        self._checkpoint = checkpoint
        self._calls_before = weighted.oracle_calls
        self._is_search = not all(of.exact_pricing for of in columns.families.values())
        rule.bind(weighted)

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
        """Factor of the scores that the parts left out ask for, if they are looked at."""
        return None if self._learning is None else self._learning.temperature()

    @property
    def _held_out_loss(self) -> float | None:
        """Loss on the parts left out, in rounds in which it was measured."""
        return None if self._learning is None else self._learning.held_out_loss

    def run(self, observe: Observer) -> None:
        """Train, from the checkpoint on if there is one.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C before the first round has ended.  Later it ends training, and the state shows
            so.
        """
        try:
            priced = self._begin()
            while not self._terminated():
                priced = self._step(priced)
                self._observe(observe)
                self._write_checkpoint()
            self._end()
        except KeyboardInterrupt:
            # The round that was interrupted is incomplete; those before it are recorded.
            del self.state.stages[len(self.state.history) :]
            if not self.state.stages:
                raise
            self.state.interrupted, self.state.ending = True, "interrupted"

    def current_model(self) -> Ensemble:
        """The model kept so far, with the weights of the last round only."""
        final = self.columns.weights()
        return self.columns.ensemble(self.task.kinds, final, [final], {})

    def final_model(self, metadata: Mapping[str, Any]) -> Ensemble:
        """The model, with the weights of every round, and what files are to say of it."""
        stages, history = self.state.stages, self.state.history
        facts = {
            "C": float(self.settings.C),
            "objective": history[-1]["primal"],
            "history": history,
            "certified": self.certified,
        }
        return self.columns.ensemble(self.task.kinds, stages[-1], stages, {**facts, **metadata})

    # -- init, step, terminate, postprocess ---------------------------------------------------

    def _begin(self) -> Priced:
        """Go to the checkpoint, or solve without columns, and price."""
        self._restore()
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
        found = n_new or priced.largest_edge > self._min_edge or may_improve
        self.state.exhausted = 0 if found else self.state.exhausted + 1
        return priced

    def _observe(self, observe: Observer) -> None:
        """Tell of the last record, and see whether training is done."""
        last = self.state.history[-1]
        asked = observe(last)
        reached = last["gap"] is not None and last["gap"] <= self.settings.tol
        # Where no edge is large enough, another search finds nothing either.
        exhausted = self.state.exhausted >= self._patience or np.isinf(self._min_edge)
        reasons = {
            asked if isinstance(asked, str) else "callback": bool(asked),
            "gap": reached,
            "stalled": self._stalls(),
            self._exhaustion: exhausted,
        }
        found = [reason for reason, is_true in reasons.items() if is_true]
        self.state.done = bool(found)
        self.state.ending = found[0] if found else "max_rounds"

    def _end(self) -> None:
        """Leave the run as it is."""
        raise_if_interrupted()

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

    @property
    def _cross_fitted(self) -> bool:
        """Whether learners answered otherwise in training than those that are saved."""
        return any(family.cross_fitted for family in self.columns.families.values())

    @property
    def _patience(self) -> int:
        """Rounds without a violated column after which training stops."""
        return max(self.rule.patience, _SEARCH_PATIENCE if self._is_search else 1)

    def _record(self) -> None:
        """Keep the weights of the round, and its record."""
        state, master = self.state, self.weighted
        state.stages.append(self.columns.weights())
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
                columns=int(np.count_nonzero(master.weights)),
                oracle_calls=master.oracle_calls - self._calls_before,
                seconds=time.perf_counter() - self._began,
            )
        )

    @property
    def _resumable(self) -> Resumable:
        assert isinstance(self.weighted, Resumable)
        return self.weighted

    # -- checkpoints --------------------------------------------------------------------------

    def _write_checkpoint(self) -> None:
        """Write all that the next rounds depend on, if it is due."""
        if self._checkpoint is None or not (self._terminated() or self._checkpoint.is_due()):
            return
        numbers, of_master = self._resumable.state()
        learners, of_columns = self.columns.state()
        arrays = {
            **stage_arrays(self.state.stages),
            **prefixed("master/", of_master),
            **prefixed("columns/", of_columns),
        }
        header = {**self.state.to_header(), "master": numbers, **learners}
        self._checkpoint.write(header, arrays, self._schema)

    def _restore(self) -> None:
        """Go to the checkpoint, if any."""
        found = None if self._checkpoint is None else self._checkpoint.read(self._schema)
        if self._checkpoint is None or found is None:
            return
        header, arrays = found
        self._checkpoint.check_rounds(len(header["history"]), self.settings.max_rounds)
        with self._checkpoint.refusing():
            self.columns.restore(header, below("columns/", arrays), self.task.kinds)
            for family in self.columns.families.values():
                family.skip_rounds(len(header["history"]))
            self._resumable.restore(header["master"], below("master/", arrays))
            stages = stages_of(arrays, len(self.columns))
            self.state = State.of_header(header, stages, self.weighted.primal)
        self._began = time.perf_counter() - self.state.history[-1]["seconds"]

    def _schema(self, header: Mapping[str, Any], names: Collection[str]) -> Schema:
        """Names, types and shapes of the arrays of a checkpoint of this run."""
        n_learners = {kind: len(header["learners"][kind]) for kind in self.columns.families}
        of_master = dict(self._resumable.schema(n_learners))
        own = of_master.pop("", Part({}))
        arrays = {
            **STAGES_SCHEMA,
            **prefixed("columns/", self.columns.schema(header)),
            **prefixed("master/", own.arrays),
        }
        shared = Part(arrays, {"n_rounds": len(header["history"]), **own.sizes})
        return {"": shared, **prefixed("master/", of_master)}


class MasterLoop(Loop):
    """Rounds of a restricted master, which is solved anew each time and gives a lower bound."""

    @property
    def master(self) -> RestrictedMaster:
        """The master."""
        assert isinstance(self.weighted, RestrictedMaster)
        return self.weighted

    # Whether a bound exceeded the objective.
    _contradicts = False

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
        return tolerance > max(_LAST_SHARE * float(self.settings.tol), _FINEST)

    def _tolerance(self, n_new: int) -> float:
        """Relative gap to which the master is solved after so many new columns."""
        tol = float(self.settings.tol)
        if not n_new and self.bound is None:
            return max(_INNER_SHARE * tol, _FINEST)
        bound = self.state.bound
        if bound is not None and self.state.estimate is not None:
            bound = max(bound, self.state.estimate)
        left = relative_gap(self.master.primal, bound) or 0.0
        finest = (_INNER_SHARE if n_new else _LAST_SHARE) * tol
        return max(_INNER_SHARE * left, finest, _FINEST)

    @override
    def _end(self) -> None:
        bound_all = self._bound_over_all()
        self._spread()
        if self.state.history:
            last = self.state.history[-1]
            last |= {"bound_all": bound_all, "gap_all": relative_gap(last["primal"], bound_all)}
        super()._end()

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
        families = self.columns.families
        if self.bound is None or all(family.searches_all for family in families.values()):
            return self.bound
        duals = self.master.duals()
        largest = []
        for kind, family in families.items():
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
        # Edges give a lower bound, too (fact 5).
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
        arrays = (own if isinstance(own, np.ndarray) else own.gathered() for own in duals.values())
        return edge <= _NO_EDGE * sum(float(np.abs(own).sum()) for own in arrays)

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


# The loop of each contract.
_LOOPS: Mapping[Any, type[Loop]] = {
    RestrictedMaster: MasterLoop,
    Booster: BoosterLoop,
}


def loop_class(weighted: WeightedColumns) -> type[Loop]:
    """Loop for what a formulation made.

    Raises
    ------
    TypeError
        If it is neither a master nor a booster.
    """
    for contract, loop in _LOOPS.items():
        if isinstance(weighted, contract):
            return loop
    raise TypeError(
        f"formulation made {shown(weighted)}; it must return a RestrictedMaster or a Booster."
    )
