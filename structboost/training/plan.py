"""Set-up of a loop from parameters and examples, with its shards, families and master."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import joblib
import numpy as np
from sklearn.utils import check_random_state

from structboost._typing import FloatArray
from structboost.contract.exactness import probe_argmax
from structboost.contract.task import Task, check_is_task
from structboost.errors import SolverError
from structboost.files.checkpoint import Checkpoint, CheckpointFile, identity_of
from structboost.learners.base import WeakLearnerFamily
from structboost.learners.families import WeakLearners, checked_members, families_of
from structboost.learners.pricing import CandidateRule, PricingRule, rule_of
from structboost.objectives.base import Formulation, Problem
from structboost.training.columns import ColumnRegistry
from structboost.training.engines import Engine
from structboost.training.examples import ArrayTrainingSet, TableTrainingSet, TrainingSet
from structboost.training.loop import Loop, Settings
from structboost.training.oracle import ShardedOracle
from structboost.training.state import RunCheckpoint
from structboost.training.table_on_disk import BinnedTable
from structboost.validation import (
    OrderedRows,
    check_declares,
    check_examples,
    check_flag_or_none,
    checked_example_weights,
    is_text,
)

_RESUMABLE = "take formulation='one_slack' with stabilize=True, or leave checkpoint=None"
_RESUMABLE_RULES = "take pricing='own', or leave checkpoint=None"
_RESUMABLE_LEARNERS = (
    "take stumps or trees, with a whole number as random_state, or leave checkpoint=None"
)
# How the smallest C is searched for: coarsely, no further than what beats the empty model, and not
# for long: in so many passes, or so many times those of the fit that was empty.
_PROBE_ROUNDS = 20
_BEATEN = 0.99
_PROBE_PASSES, _PASSES_RATIO = 100, 10
_DOUBLINGS, _RATIOS = 30, 12
# Relative decrease of the ratio at which the search ends.
_ACCURACY = 0.01

# Sum of the weights and risk of the best model at some C.
Fit = Callable[[float], tuple[float, float]]


@dataclass(frozen=True)
class Plan:
    """The plug-ins of a fit, and what they are made of, as in :class:`structboost.StructBoost`.

    ``choice`` is what a checkpoint keeps of the choice of C.
    """

    task: Task
    formulation: Formulation
    weak_learner: WeakLearners
    pricing: str | PricingRule
    engine: Engine
    exact: bool | None
    random_state: Any
    checkpoint: Checkpoint | None
    choice: Mapping[str, Any] | None = None

    @property
    def rule(self) -> PricingRule:
        """The pricing rule itself."""
        return rule_of(self.pricing)

    def check(self, runs: Sequence[Settings]) -> None:
        """Raise unless the plug-ins fit each other, and the settings of all runs fit them."""
        check_is_task(self.task)
        self.formulation.check()
        for settings in runs:
            settings.check(self.formulation)
        check_flag_or_none(self.exact, "exact")
        checked_members(self.weak_learner, self.task.kinds)
        rule_of(self.pricing)
        if self.checkpoint is not None:
            check_declares(self.formulation, "can_resume", "checkpoint", _RESUMABLE)
            check_declares(self.rule, "can_resume", "checkpoint", _RESUMABLE_RULES)
        if not (self.formulation.works_on_shards or self.engine.in_process):
            raise ValueError(
                f"engine is {self.engine}, but {type(self.formulation).__name__} supports threads "
                "only; take engine='threads' or formulation='one_slack'."
            )

    def suited(self, runs: Sequence[Settings], X: Any) -> Plan:
        """Plan with the formulation that suits the examples and the settings of all runs."""
        is_plain = (
            (isinstance(X, np.ndarray | OrderedRows) and X.ndim == 2 and self.engine.in_process)
            and (is_text(self.weak_learner, "stump") and is_text(self.pricing, "own"))
            and (self.checkpoint is None and not any(settings.spread for settings in runs))
        )
        largest_C = max(float(settings.C) for settings in runs)
        suited = self.formulation.suited(
            self.task, len(X) if is_plain else 0, largest_C, is_plain=is_plain
        )
        return replace(self, formulation=suited)

    def loop(
        self,
        settings: Settings,
        X: Sequence[Any],
        Y: Sequence[Any],
        sample_weight: Any,
        resources: ExitStack,
    ) -> Loop:
        """Set up training on ``(X[i], Y[i])`` until ``resources`` are closed."""
        began = time.perf_counter()
        examples = training_set(self.task, X, Y)
        examples.check_engine(self.engine)
        weights = checked_example_weights(sample_weight, examples.n_examples)
        random_state = check_random_state(self.random_state)
        families = self._families(examples)
        in_shards = {
            kind: family.shard_features
            for kind, family in families.items()
            if family.shard_features is not None
        }
        shards, new_cut_oracle, file = None, None, None
        if self.formulation.works_on_shards:
            # Examples of a Dask collection are not in this process.
            if not (hasattr(X, "__dask_graph__") or hasattr(Y, "__dask_graph__")):
                probe_argmax(examples.task, X, Y, examples.offsets)
            shards = examples.shards(self.engine, weights, in_shards)
            resources.callback(shards.workers.close)
            new_cut_oracle = partial(ShardedOracle, examples, shards, weights)
        if self.checkpoint is not None:
            hashes = {
                "identity": self._identity(settings, examples, families, weights),
                "features": examples.features_identity(shards, in_shards),
            }
            if not hasattr(Y, "__dask_graph__"):
                hashes["outputs"] = joblib.hash(Y)
            file = CheckpointFile(self.checkpoint, hashes, self.choice)
        of_task = examples.task, X, Y, examples.offsets, weights, random_state
        problem = Problem(*of_task, new_cut_oracle, families)
        weighted = self.formulation.start(problem, float(settings.C))
        columns = ColumnRegistry(weighted, families)
        checkpoint = None if file is None else RunCheckpoint(file, columns, weighted)
        return Loop(settings, examples.task, weighted, columns, self.rule, began, checkpoint)

    def smallest_C(
        self, empty: Loop, X: Sequence[Any], Y: Sequence[Any], sample_weight: Any
    ) -> float | None:
        """C above which the model of ``empty`` is not empty, by fits of a few rounds.

        None where weight costs nothing, so that no C matters, or where none was found within
        the passes that the search may take.
        """
        if empty.price_of_weight <= 0:
            return None
        settings, last = empty.settings, empty.state.history[-1]
        start, empty_risk = float(settings.C), last["primal"] / float(settings.C)
        probing = replace(self, checkpoint=None)
        loop: Loop | None = None
        passes_left = max(_PROBE_PASSES, _PASSES_RATIO * last["oracle_calls"])

        def fit(C: float) -> tuple[float, float]:
            nonlocal loop, passes_left
            if passes_left <= 0:
                return 0.0, empty_risk
            per_channel = settings.columns_per_channel
            probe = Settings(C, max_rounds=_PROBE_ROUNDS, columns_per_channel=per_channel)
            try:
                if loop is None:
                    loop = probing.loop(probe, X, Y, sample_weight, resources)
                else:
                    loop = loop.repeat(probe)
                loop.run(lambda record: bool(record["primal"] < _BEATEN * C * empty_risk))
            except SolverError:
                # At a C this large the solver gives up, and so does the search.
                passes_left = 0
                return 0.0, empty_risk
            if loop.state.interrupted:
                raise KeyboardInterrupt
            passes_left -= loop.state.history[-1]["oracle_calls"]
            total = float(loop.weighted.weights.sum())
            return total, (loop.weighted.primal - total) / C

        with ExitStack() as resources:
            return smallest_C(fit, max(start, last["smallest_C"] or 0.0), empty_risk)

    def _families(self, examples: TrainingSet) -> dict[str, WeakLearnerFamily]:
        """Families of weak learners of each kind."""
        kinds = self.task.kinds
        families = families_of(
            checked_members(self.weak_learner, kinds),
            kinds,
            examples,
            in_shards=self.formulation.works_on_shards and isinstance(self.rule, CandidateRule),
            exact=self.exact,
            n_threads=self.engine.n_workers if self.engine.in_process else 1,
        )
        self.formulation.prepare(families, self.random_state)
        if self.checkpoint is not None:
            for family in families.values():
                check_declares(family, "can_resume", "checkpoint", _RESUMABLE_LEARNERS)
        return families

    def _identity(
        self,
        settings: Settings,
        examples: TrainingSet,
        families: Mapping[str, WeakLearnerFamily],
        weights: FloatArray,
    ) -> str:
        """Hash of what a checkpoint and the run that resumes from it must have in common."""
        by_name = isinstance(self.weak_learner, str)
        names = {kind: family.name for kind, family in families.items()}
        about = {
            **{name: value for name, value in vars(settings).items() if name != "max_rounds"},
            "weak_learner": self.weak_learner if by_name else names,
            "exact": bool(self.exact),  # the thresholds are in the hash of the features
            "pricing": self.pricing if isinstance(self.pricing, str) else type(self.rule).__name__,
            "task": type(self.task).__name__,
            "kinds": {
                kind: [of_kind.n_channels, *of_kind.response]
                for kind, of_kind in self.task.kinds.items()
            },
            "n_features": dict(examples.n_features),
            "families": {kind: family.identity for kind, family in families.items()},
            "formulation": repr(self.formulation),
        }
        return identity_of(about, [weights, *examples.offsets.values()])


def training_set(task: Task, X: Any, Y: Any) -> TrainingSet:
    """Return the training set of X and Y in memory, on disk, or in Dask collections."""
    if hasattr(X, "__dask_graph__"):
        from structboost.training.dask import dask_training_set  # needs Dask

        return dask_training_set(task, X, Y)
    check_examples(X, Y)
    return (TableTrainingSet if isinstance(X, BinnedTable) else ArrayTrainingSet)(task, X, Y)


def smallest_C(fit: Fit, start: float, empty_risk: float) -> float | None:
    """Return the C above which some weights beat the empty model, to a few percent, or None.

    With weights ``w`` the objective is ``sum(w) + C R(w)``, so they beat the empty model exactly if
    C is above ``sum(w) / (R(0) - R(w))``.  Repeated minimisation, with C set to the ratio of the
    last fit, ends at the smallest ratio after a few fits (Dinkelbach 1967).

    ``fit(C)`` lowers the objective at C, and returns ``sum(w)`` and ``R(w)``.  The weights may be
    zero if hardly any beat the empty model.  At ``start`` the model is empty, or nearly so, and
    ``empty_risk`` is R(0).  None means that the search failed.
    """
    C = start
    for _ in range(_DOUBLINGS):
        C *= 2.0
        total, risk = fit(C)
        if total > 0 and risk < empty_risk:
            break
    else:
        return None
    ratio = total / (empty_risk - risk)
    for _ in range(_RATIOS):
        total, risk = fit(ratio)
        if total <= 0 or risk >= empty_risk:
            break
        before, ratio = ratio, min(ratio, total / (empty_risk - risk))
        if ratio > (1.0 - _ACCURACY) * before:
            break
    return ratio
