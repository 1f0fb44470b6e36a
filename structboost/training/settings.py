"""When training stops, and how much a round adds."""

from __future__ import annotations

from dataclasses import dataclass

from structboost.objectives.abilities import Spreadable
from structboost.objectives.base import Formulation
from structboost.validation import (
    check_implements,
    checked_relative_gap,
    checked_whole_number,
    shown,
)


@dataclass(frozen=True)
class Settings:
    """When to stop, and how much to add per round, as in :class:`structboost.StructBoost`."""

    C: float
    tol: float = 0.01
    max_rounds: int = 200
    columns_per_channel: int = 5
    spread: float = 0.0

    def check(self, formulation: Formulation) -> None:
        """Raise unless all values are in range and the formulation supports them."""
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
