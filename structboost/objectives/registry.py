"""Formulations by name."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any

from structboost.objectives.base import Formulation
from structboost.runtime.registry import Registry
from structboost.validation import is_same, shown

FORMULATIONS = Registry(
    "formulation",
    {
        "auto": "structboost.objectives.m_slack:HingeBySize",
        "one_slack": "structboost.objectives.one_slack:OneSlack",
        "m_slack": "structboost.objectives.m_slack:MSlack",
        "exponential": "structboost.objectives.exponential:Exponential",
        "log": "structboost.objectives.likelihood:ConditionalLikelihood",
    },
)


def formulation_of(formulation: str | Formulation) -> Formulation:
    """Formulation of a name, or the formulation itself.

    Raises ValueError for a name that no formulation has.
    """
    if isinstance(formulation, Formulation):
        return formulation
    chosen: Formulation = FORMULATIONS[formulation]()
    return chosen


def without_objective(trainer: Any) -> Any:
    """Return a trainer that has the parameters of its objective as its own, if it has one.

    TypeError if no formulation minimises its objective.  ValueError if a parameter is given twice.
    """
    objective = trainer.objective
    if objective is None:
        return trainer
    names = objective.parameters() if hasattr(objective, "with_parameters") else ()
    if "formulation" not in names and not getattr(objective, "program", ""):
        raise TypeError(
            f"objective is {shown(objective)}; give Hinge(), ExponentialLoss() or L1LogLoss() of "
            "structboost.objectives, or another one as formulation."
        )
    default = partial(getattr, type(trainer))
    flat = {name: getattr(trainer, name) for name in names}
    flat = {name: value for name, value in flat.items() if not is_same(value, default(name))}
    copied = copy(trainer)
    vars(copied).update(objective.with_parameters(flat).get_params(deep=False), objective=None)
    copied.formulation = objective.program or copied.formulation
    return copied
