"""Formulations by name."""

from __future__ import annotations

from typing import Any

from structboost.objectives.base import Formulation
from structboost.runtime.registry import Registry
from structboost.validation import checked_flag

FORMULATIONS = Registry(
    "formulation",
    {
        "auto": "structboost.objectives.m_slack:HingeBySize",
        "one_slack": "structboost.objectives.one_slack:OneSlack",
        "m_slack": "structboost.objectives.m_slack:MSlack",
        "exponential": "structboost.objectives.exponential:Exponential",
        "log": "structboost.objectives.conditional_likelihood:ConditionalLikelihood",
    },
)


def formulation_of(formulation: str | Formulation, *, stabilize: bool = True) -> Formulation:
    """Formulation of a name, or the formulation itself.

    Raises ValueError for a name that no formulation has.
    """
    if isinstance(formulation, Formulation):
        chosen = formulation
    else:
        make: Any = FORMULATIONS[formulation]
        chosen = make(stabilize=stabilize) if hasattr(make, "stabilize") else make()
    if not checked_flag(stabilize, "stabilize") and getattr(chosen, "stabilize", True):
        raise ValueError(
            f"stabilize is {stabilize!r}, which formulation={formulation!r} does not read; leave "
            "stabilize=True, or give 'one_slack' or OneSlack(stabilize=False) if you mean "
            "Algorithm 2 as printed."
        )
    return chosen
