"""The 1-slack ranker of the AUC table: fitted well below the gap asked for, then spread within it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.methods import structboost
from benchmarks.methods.structboost import Ranking

# The more columns a fit has, the more there is to spread the weights over; a fit takes well under a second.
FIT_SHARE = 0.1


class TightRanking(Ranking):
    """A tenth of the gap is fitted to, the whole of it spent on spreading."""

    def trainer(self, task: Any, C: float, callbacks: Any = None) -> Any:
        """Not yet fitted."""
        made = super().trainer(task, C, callbacks)
        made.tol = FIT_SHARE * self.gap
        return made

    def sources(self) -> list[Path]:
        """Also the file of the method it is made from."""
        return [*super().sources(), Path(structboost.__file__)]
