"""Plug-ins and limits of a fit, which are checked together before anything is set up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from structboost._typing import PathName
from structboost.contract.task import Task, checked_task
from structboost.files.atomic_write import checked_target
from structboost.learners.base import WeakLearnerFamily
from structboost.learners.pricing import CandidateRule, PricingRule, rule_of
from structboost.learners.registry import WeakLearners, checked_members, families_of
from structboost.objectives.base import Formulation
from structboost.validation import OrderedRows, check_declares, is_text, shown

if TYPE_CHECKING:
    from structboost.training.engines import Engine
    from structboost.training.examples import TrainingSet

_RESUMABLE = "take formulation='one_slack', or leave checkpoint=None"
_RESUMABLE_RULES = "take pricing='own', or leave checkpoint=None"
_RESUMABLE_LEARNERS = (
    "take stumps or trees, with a whole number as random_state, or leave checkpoint=None"
)
_SPREADING = "take formulation='one_slack', or leave spread=0"


@dataclass(frozen=True)
class Plan:
    """The plug-ins of a fit, when it stops, and how much it adds per round.

    Parameters are those of :class:`structboost.StructBoost`.
    """

    task: Task
    C: float
    tol: float
    max_rounds: int
    columns_per_channel: int
    spread: float
    formulation: Formulation
    weak_learner: WeakLearners
    pricing: str | PricingRule
    engine: Engine
    exact: bool | None
    random_state: Any
    checkpoint: PathName | None

    @property
    def rule(self) -> PricingRule:
        """The pricing rule itself."""
        return rule_of(self.pricing)

    def check(self, Cs: Sequence[float]) -> None:
        """Raise unless the plug-ins fit each other, and all values are in range."""
        formulation = self.formulation
        checked_task(self.task)
        formulation.check()
        for C in Cs:
            formulation.check_C(C)
        if self.spread:
            check_declares(formulation, "can_spread", "spread", _SPREADING)
            if self.spread <= self.tol:
                raise ValueError(
                    f"spread is {shown(self.spread)}, not above tol = {shown(self.tol)}, so "
                    "nothing is left to spread within; raise spread, lower tol, or set spread=0."
                )
        checked_members(self.weak_learner, self.task.kinds)
        rule = self.rule
        if self.checkpoint is not None:
            checked_target(self.checkpoint, "checkpoint")
            check_declares(formulation, "can_resume", "checkpoint", _RESUMABLE)
            check_declares(rule, "can_resume", "checkpoint", _RESUMABLE_RULES)
        if not (formulation.works_on_shards or self.engine.in_process):
            raise ValueError(
                f"engine is {self.engine.name!r}, but {type(formulation).__name__} supports "
                "threads only; take engine='threads' or formulation='one_slack'."
            )

    def suited(self, Cs: Sequence[float], X: Any) -> Plan:
        """Plan with the formulation that suits the examples and all C."""
        is_plain = (
            (isinstance(X, np.ndarray | OrderedRows) and X.ndim == 2 and self.engine.in_process)
            and (is_text(self.weak_learner, "stump") and is_text(self.pricing, "own"))
            and (self.checkpoint is None and not self.spread)
        )
        suited = self.formulation.suited(
            self.task, len(X) if is_plain else 0, max(map(float, Cs)), is_plain=is_plain
        )
        return replace(self, formulation=suited)

    def families(self, examples: TrainingSet) -> dict[str, WeakLearnerFamily]:
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

    def identity(self, families: Mapping[str, WeakLearnerFamily]) -> dict[str, Any]:
        """Plain JSON that a checkpoint and the run that resumes from it have in common."""
        names = {kind: family.name for kind, family in families.items()}
        is_named = isinstance(self.weak_learner, str), isinstance(self.pricing, str)
        return {
            **{name: getattr(self, name) for name in ("C", "tol", "columns_per_channel", "spread")},
            "weak_learner": self.weak_learner if is_named[0] else names,
            "exact": bool(self.exact),  # the thresholds are in the hash of the features
            "pricing": self.pricing if is_named[1] else type(self.rule).__name__,
            "task": type(self.task).__name__,
            "kinds": {
                kind: [of_kind.n_channels, *of_kind.response]
                for kind, of_kind in self.task.kinds.items()
            },
            "families": {kind: family.identity for kind, family in families.items()},
            "formulation": repr(self.formulation),
        }
