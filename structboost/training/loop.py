"""Rounds of pricing and solving (Algorithm 1).

::

    repeat
        D   = master.duals() or booster.gradient()     signed weight of every (part, channel)
        new = pricing(D)                               columns of largest edge <D, response>
        stop when no column is violated, the gap is small enough, or rounds are used up
        add the new columns;  master.solve() or booster.step()

The loop sees its plug-ins (master or booster, families of weak learners, pricing rule) by their
contracts only.  A round hands to the next one plain :class:`~structboost.training.history.State`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from structboost._typing import Examples, Facts
from structboost.contract.parts import StackedParts
from structboost.contract.probes import probe_argmax
from structboost.contract.task import Task
from structboost.learners.pricing import Priced, single
from structboost.model.ensemble import Ensemble, scores_of_parts
from structboost.objectives.base import Problem
from structboost.objectives.master import (
    Booster,
    GrowsRounds,
    LearnsFromHeldOut,
    RestrictedMaster,
    Temperature,
    WeightedColumns,
)
from structboost.runtime.interrupts import raise_if_interrupted
from structboost.training.checkpoint import RunCheckpoint, identity_of
from structboost.training.columns import ColumnRegistry, ColumnWeights
from structboost.training.examples import (
    ArrayTrainingSet,
    BinnedTable,
    TableTrainingSet,
    TrainingSet,
)
from structboost.training.history import Record, State, contradicts, record, relative_gap
from structboost.training.oracle import ShardedOracle
from structboost.training.plan import Plan
from structboost.training.shards import FeaturesInShards
from structboost.validation import check_examples, checked_example_weights, shown

# Called with each record.  Training ends if it returns True or a key of ENDINGS.
Observer = Callable[[Record], bool | str]

# Rounds that find no violated column, where pricing is a search.
_SEARCH_PATIENCE = 3
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


class Loop:
    """One run of Algorithm 1 at the C of a plan, which ``began`` at a ``time.perf_counter``.

    A restricted master is solved anew in each round and gives a lower bound.  The columns of a
    booster step once, and it has neither C nor a bound.  Where booster, family and rule can,
    compiled code runs as many rounds as nobody watches.
    """

    # Whether only its loss is of interest, so that no columns need to be kept.
    is_trial = False

    def __init__(
        self,
        plan: Plan,
        weighted: WeightedColumns,
        columns: ColumnRegistry,
        began: float,
        checkpoint: RunCheckpoint | None = None,
    ) -> None:
        self.plan = plan
        self.task = plan.task
        self.weighted = weighted
        self.columns = columns
        self.rule = plan.rule
        self.state = State()
        # What callbacks hold for this run only.
        self.of_callbacks: dict[int, Any] = {}
        # Found once: protocols are slow to check.
        self._learning = weighted if isinstance(weighted, LearnsFromHeldOut) else None
        self._growing = weighted if isinstance(weighted, GrowsRounds) else None
        self._master = weighted if isinstance(weighted, RestrictedMaster) else None
        self._booster = weighted if isinstance(weighted, Booster) else None
        if self._master is None and self._booster is None:
            raise TypeError(
                f"formulation made {shown(weighted)}; it must return a RestrictedMaster or a "
                "Booster."
            )
        families = columns.families.values()
        self._is_search = not all(family.exact_pricing for family in families)
        # Whether learners had other responses in training than those that are saved.
        self._cross_fitted = any(family.cross_fitted for family in families)
        # Whether each bound is one over all weak learners, not over a part of them.
        self._searches_all = all(family.searches_all for family in families)
        # Whether a bound exceeded the objective.
        self._contradicts = False
        self._began = began
        self._checkpoint = checkpoint
        self._calls_before = weighted.oracle_calls
        self.rule.restart()

    @classmethod
    def start(
        cls, plan: Plan, X: Examples, Y: Examples, sample_weight: Any, resources: ExitStack
    ) -> Loop:
        """Set up training on ``(X[i], Y[i])`` until ``resources`` are closed."""
        began = time.perf_counter()
        plan.engine.check_takes(X)
        examples = training_set(plan.task, X, Y)
        weights = checked_example_weights(sample_weight, examples.n_examples)
        random_state = check_random_state(plan.random_state)
        families = plan.families(examples)
        in_shards = {
            kind: family.shard_features
            for kind, family in families.items()
            if family.shard_features is not None
        }
        oracle = None
        if plan.formulation.works_on_shards:
            # Examples of a Dask collection are not in this process.
            if not (hasattr(X, "__dask_graph__") or hasattr(Y, "__dask_graph__")):
                probe_argmax(examples.task, X, Y, examples.offsets)
            oracle = ShardedOracle(examples, plan.engine, weights, in_shards)
            resources.callback(oracle.workers.close)
        task, offsets = examples.task, examples.offsets
        problem = Problem(task, X, Y, offsets, weights, random_state, oracle, families)
        weighted = plan.formulation.start(problem, float(plan.C))
        columns = ColumnRegistry(weighted, families)
        checkpoint = None
        if plan.checkpoint is not None:
            arrays = [weights, *examples.offsets.values()]
            hashes = {
                "identity": identity_of(plan.identity(families), arrays),
                "features": _features_identity(examples, oracle, in_shards),
            }
            if not hasattr(Y, "__dask_graph__"):
                hashes["outputs"] = joblib.hash(Y)
            checkpoint = RunCheckpoint(plan.checkpoint, hashes, columns, weighted)
        # One rule serves the loops that repeat this one.
        plan = replace(plan, task=examples.task, pricing=plan.rule)
        return cls(plan, weighted, columns, began, checkpoint)

    def run(self, observe: Observer | None = None) -> None:
        """Train, from the checkpoint on if there is one.

        ``observe`` is called after every round; without it several may run at once.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C before the first round has ended.  Later it ends training, and the state shows
            so.
        """
        self._is_observed = observe is not None
        try:
            if self._checkpoint is not None:
                state = self._checkpoint.restored(self.plan.max_rounds, self.task.kinds)
                if state is not None:
                    self.state = state
                    self._began = time.perf_counter() - state.history[-1]["seconds"]
            if self._master is not None and np.isinf(self._master.risk):
                self._master.solve(max(float(self.plan.tol), _FINEST))
            priced = None if self._growing is not None else self._price()
            while not self._terminated():
                raise_if_interrupted()
                if self._growing is not None and not self._grow_rounds(self._growing):
                    self._growing, priced = None, self._price()
                if priced is not None:
                    priced = self._round(priced)
                self._judge("" if observe is None else observe(self.state.history[-1]))
                if self._checkpoint is not None:
                    self._checkpoint.write(self.state, is_last=self._terminated())
            self._end()
        except KeyboardInterrupt:
            # The round that was interrupted is incomplete; those before it are recorded.
            del self.state.stages[len(self.state.history) :]
            if not self.state.stages:
                raise
            self.state.interrupted, self.state.ending = True, "interrupted"

    def _terminated(self) -> bool:
        return self.state.done or len(self.state.history) >= self.plan.max_rounds

    def _round(self, priced: Priced) -> Priced:
        """Run one round, which adds the priced columns, solves and prices anew."""
        n_new = self.columns.add(priced.columns)
        selected = self.columns.selected
        if self._master is not None:
            tolerance = self._tolerance(n_new, self._master)
            solve = self._master.solve_loosely if n_new else self._master.solve
            solve(tolerance, selected)
            if np.isfinite(self._master.max_idle_rounds):
                self.columns.drop_idle(int(self._master.max_idle_rounds))
            # A master that was solved loosely may be solved better, and then find columns again.
            may_improve = tolerance > max(_LAST_FRACTION * float(self.plan.tol), _FINEST)
        else:
            assert self._booster is not None
            self._booster.step(selected)
            # A round along columns of before steps, as one along new ones does.
            may_improve = len(selected) > 0
        priced = self._price()
        self._record()
        has_found = n_new or priced.largest_edge > self._min_edge or may_improve
        self.state.exhausted = 0 if has_found else self.state.exhausted + 1
        return priced

    def _tolerance(self, n_new: int, master: RestrictedMaster) -> float:
        """Relative gap to which the master is solved after so many new columns."""
        tol = float(self.plan.tol)
        if not n_new and self.bound is None:
            return max(_INNER_FRACTION * tol, _FINEST)
        bound, estimate = self.state.bound, self.state.estimate
        if bound is not None and estimate is not None:
            bound = max(bound, estimate)
        left = relative_gap(master.primal, bound) or 0.0
        finest = (_INNER_FRACTION if n_new else _LAST_FRACTION) * tol
        return max(_INNER_FRACTION * left, finest, _FINEST)

    def _grow_rounds(self, booster: GrowsRounds) -> int:
        """Run rounds ahead, record them, and return how many."""
        (kind, family), *others = self.columns.families.items()
        n_rounds = 1
        if self._checkpoint is None and not self._is_observed:
            n_left = self.plan.max_rounds - len(self.state.history)
            n_rounds = min(booster.rounds_ahead, n_left)
        n_channels = self.task.kinds[kind].n_channels
        per_channel = self.plan.columns_per_channel
        growth = self.rule.growth(family, n_rounds, n_channels, per_channel)
        if growth is None or others or not (n_rounds := booster.grow_rounds(kind, growth)):
            return 0
        family.skip_rounds(n_rounds)
        selected = [np.zeros(0, np.int64)] * n_rounds
        if not self.is_trial:
            columns = [
                [single(candidate) for candidate in candidates if candidate.edge > 0.0]
                for candidates in family.grown(growth, n_rounds)
            ]
            selected = self.columns.add_grown(kind, columns, booster)
        for places in selected:
            booster.take_round(places)
            self._record()
        return n_rounds

    def _judge(self, is_ending: bool | str) -> None:
        """See whether training is done, after an observer looked at the last record."""
        last = self.state.history[-1]
        ending = None if self._booster is None else self._booster.ending
        patience = max(self.rule.patience, _SEARCH_PATIENCE if self._is_search else 1)
        # Where no edge is large enough, another search finds nothing either.
        exhausted = self.state.exhausted >= patience or np.isinf(self._min_edge)
        reasons = {
            is_ending if isinstance(is_ending, str) else "callback": bool(is_ending),
            "gap": last["gap"] is not None and last["gap"] <= self.plan.tol,
            "stalled": self._stalls(),
            ending or "columns": exhausted,
        }
        true_reasons = [reason for reason, is_true in reasons.items() if is_true]
        self.state.done = bool(true_reasons)
        self.state.ending = true_reasons[0] if true_reasons else "max_rounds"

    def _stalls(self) -> bool:
        """Whether the primal hardly falls any more, where there is no bound to stop by."""
        history, tol = self.state.history, self.plan.tol
        without_bound = self._is_search and self.state.bound is not None
        if not without_bound or len(history) <= _STALL_ROUNDS or not tol:
            return False
        before, now = history[-1 - _STALL_ROUNDS]["primal"], history[-1]["primal"]
        return bool(before - now <= tol * now)

    def _record(self) -> None:
        """Keep the weights of the round, and its record."""
        state, weighted = self.state, self.weighted
        if self.certified:
            self._contradicts = contradicts(state.history, weighted.primal, self.bound)
        stage = self.columns.weights()
        state.stages.append(stage)
        state.history.append(
            record(
                len(state.history) + 1,
                weighted.primal,
                self.bound,
                certified=self.certified,
                cross_fitted=self._cross_fitted,
                # Loss on the parts left out, in rounds in which it was measured.
                held_out_loss=None if self._learning is None else self._learning.held_out_loss,
                bound_all=None,
                gap_all=None,
                smallest_C=state.smallest_C,
                cuts=weighted.n_cuts,
                columns=len(stage.columns),
                oracle_calls=weighted.oracle_calls - self._calls_before,
                seconds=time.perf_counter() - self._began,
            )
        )

    # -- pricing ---------------------------------------------------------------------------------

    @property
    def _min_edge(self) -> float:
        """Edge from which a column is violated."""
        if self._master is not None:
            return self._master.min_edge * (1 + _EDGE_TOLERANCE)
        return 0.0 if self._booster is None or self._booster.ending is None else np.inf

    def _price(self) -> Priced:
        """Price the columns for the next round."""
        families, per_channel = self.columns.families, self.plan.columns_per_channel
        if self._booster is not None:
            duals = self._booster.gradient()
            return self.rule.price(families, duals, per_channel, self._min_edge)
        assert self._master is not None
        # Edges give a lower bound, too (docs/method.md).
        state, master, duals = self.state, self._master, self._master.duals()
        priced = self._priced_in_part(master, duals)
        if priced is None:
            priced = self.rule.price(families, duals, per_channel, self._min_edge)
        bound = master.bound(priced.largest_edge)
        if bound is not None:
            is_first = state.bound is None and not master.weights.any()
            has_edge = min(master.min_edge, priced.largest_edge) > 0
            if is_first and has_edge and not self._is_rounding(priced.largest_edge, duals):
                state.smallest_C = float(self.plan.C) * master.min_edge / priced.largest_edge
            # What is proved over fewer columns than may come does not outlive them.
            renewed = state.bound is None or not self.rule.covers_family
            state.bound = bound if renewed else max(state.bound or 0.0, bound)
        return priced

    def _priced_in_part(self, master: RestrictedMaster, duals: Mapping[str, Any]) -> Priced | None:
        """Price a part of the families, or return None if all of them must be priced."""
        whole = self.columns.families
        parts = {kind: family.part() for kind, family in whole.items()}
        self.state.estimate = None
        if self.state.bound is None or all(part is None for part in parts.values()):
            return None
        searched = {kind: parts[kind] or family for kind, family in whole.items()}
        per_channel = self.plan.columns_per_channel
        priced = self.rule.price(searched, duals, per_channel, self._min_edge)
        # An edge above this leaves a gap above tol, whatever edges the other learners have.
        if priced.largest_edge <= self._min_edge / (1.0 - float(self.plan.tol)):
            return None
        self.state.estimate = master.bound(priced.largest_edge)
        return priced._replace(largest_edge=np.inf)

    def _is_rounding(self, edge: float, duals: Mapping[str, Any]) -> bool:
        """Whether an edge is the rounding of duals that cancel out, as within a query."""
        if edge > _SMALL_EDGE * float(self.plan.C):
            return False
        size = 0.0
        for of_kind in duals.values():
            array = of_kind if isinstance(of_kind, np.ndarray) else of_kind.gathered()
            size += float(np.abs(array).sum())
        return edge <= _NO_EDGE * size

    # -- the end ---------------------------------------------------------------------------------

    def _end(self) -> None:
        """Leave the run as it is, after what only the end of a master may need."""
        if self._master is not None:
            bound_all = self._bound_over_all(self._master)
            self._spread(self._master)
            for entry in self.state.history[0 if self._searches_all else -1 :]:
                bound = entry["bound"] if self._searches_all else bound_all
                entry |= {"bound_all": bound, "gap_all": relative_gap(entry["primal"], bound)}
        raise_if_interrupted()

    def _spread(self, master: RestrictedMaster) -> None:
        """Exchange the weights for ones of small norm, within the gap that is allowed."""
        spread = float(self.plan.spread)
        gap = relative_gap(master.primal, self.bound)
        if not spread or (gap is not None and gap >= spread):
            return
        limit = (master.primal if self.bound is None else self.bound) / (1.0 - spread)
        if limit > 0:
            master.spread(limit)
            self._record()

    def _bound_over_all(self, master: RestrictedMaster) -> float | None:
        """Return the bound over all weak learners where training searched a part, or None."""
        if self.bound is None or self._searches_all:
            return self.bound
        duals, largest = master.duals(), []
        for kind, family in self.columns.families.items():
            of_channels = family.widest_edges(duals[kind])
            edge = None if of_channels is None else self.rule.largest_edge(of_channels)
            if edge is None:
                return None
            largest.append(edge)
        bound = master.bound(max(largest))
        return None if bound is None else min(bound, self.bound)

    # -- what the run shows ---------------------------------------------------------------------

    @property
    def bound(self) -> float | None:
        """Lower bound over the whole family, if there is one."""
        return None if self._is_search or not self.rule.covers_family else self.state.bound

    @property
    def certified(self) -> bool:
        """Whether the primal is exact and that of the model, and the bound holds."""
        is_proved = self.bound is not None and not (self._contradicts or self._cross_fitted)
        return is_proved and self._master is not None and self._master.is_exact(self.task)

    def repeat(self, **changes: Any) -> Loop:
        """Return a loop of a changed plan that starts from the same cuts and columns."""
        began = time.perf_counter()
        plan = replace(self.plan, **changes)
        if self._master is not None:
            self._master.set_C(float(plan.C))
        return Loop(plan, self.weighted, self.columns, began)

    @property
    def is_empty(self) -> bool:
        """Whether no weak learner is worth what a weight costs, however many rounds come."""
        state = self.state
        return state.done and state.bound is not None and not self.weighted.weights.any()

    def temperature(self) -> Temperature | None:
        """Temperature fitted on held-out parts, or None if none was fitted."""
        return None if self._learning is None else self._learning.temperature()

    def current_model(self) -> Ensemble:
        """The model kept so far, with the weights of the last round only."""
        return self.columns.ensemble(self.task.kinds, [self.columns.weights()], {})

    def scores_after(self, stack: StackedParts, before: Any) -> Any:
        """Weights of all columns and scores of stacked parts now.

        ``before`` are those of an earlier round, or None.  If few weights have changed since then,
        only what has is scored.
        """
        weights, now = np.zeros(len(self.columns)), self.columns.weights()
        weights[now.columns] = now.weights
        if before is not None:
            change = weights.copy()
            change[: len(before[0])] -= before[0]
            (at,) = change.nonzero()
            if 2 * len(at) < len(now.columns):
                part = self.columns.ensemble(
                    self.task.kinds, [ColumnWeights(at.astype(np.int32), change[at])], {}
                )
                added = scores_of_parts(part, stack).rows
                rows = {kind: of_kind + added[kind] for kind, of_kind in before[1].rows.items()}
                return weights, StackedParts(rows, stack.offsets)
        return weights, scores_of_parts(self.current_model(), stack)

    def final_model(self, metadata: Facts) -> Ensemble:
        """Build the final model, with the weights of each round and the metadata of its file."""
        history = self.state.history
        facts = {
            "C": float(self.plan.C),
            "objective": history[-1]["primal"],
            "history": history,
            "certified": self.certified,
            **metadata,
        }
        return self.columns.ensemble(self.task.kinds, self.state.stages, facts)


def _features_identity(
    examples: TrainingSet, oracle: ShardedOracle | None, in_shards: FeaturesInShards
) -> str:
    """Compute the hash of the features in training.

    Where shards bin or standardise them, they are hashed there, and otherwise by their rows.  The
    hash depends neither on the engine nor on the source of the features (array or table on disk),
    so that another engine can resume a run.
    """
    arrays: list[Any] = []
    for kind in examples.task.kinds:
        if oracle is not None and kind in in_shards:
            firsts = [rows.start for rows in oracle.rows(kind)]
            total = sum(oracle.workers.run("features_sum", kind, each=firsts)) % (1 << 64)
            arrays += [*in_shards[kind].identity, np.array([total], np.uint64)]
        else:
            assert examples.rows is not None
            rows: Any = examples.rows[kind]
            is_sparse = sparse.issparse(rows)
            arrays += [rows.indptr, rows.indices, rows.data] if is_sparse else [rows]
    return identity_of({}, arrays)


def training_set(task: Task, X: Any, Y: Any) -> TrainingSet:
    """Return the training set of X and Y in memory, on disk, or in Dask collections."""
    if hasattr(X, "__dask_graph__"):
        from structboost.training.dask import DaskTrainingSet  # needs Dask

        return DaskTrainingSet(task, X, Y)
    check_examples(X, Y)
    return (TableTrainingSet if isinstance(X, BinnedTable) else ArrayTrainingSet)(task, X, Y)
