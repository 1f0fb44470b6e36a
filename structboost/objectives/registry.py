"""Formulations by name."""

from __future__ import annotations

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
    stabilize = checked_flag(stabilize, "stabilize")
    if not isinstance(formulation, Formulation):
        chosen: Formulation = FORMULATIONS[formulation].by_name(formulation, stabilize=stabilize)
        return chosen
    if not stabilize:
        raise ValueError(
            f"stabilize is {stabilize!r}, which a Formulation object does not read; leave "
            "stabilize=True, and give formulation=OneSlack(stabilize=False) if you mean "
            "Algorithm 2 as printed."
        )
    return formulation
