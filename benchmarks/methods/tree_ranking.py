"""The 1-slack ranker over trees: what the comparison with boosted trees costs an additive model of stumps."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.imports import imported_sources
from benchmarks.methods import structboost
from benchmarks.methods.structboost import Ranking

DEPTH = 3
# Trees have no bound to stop by.
ROUNDS = 100


class TreeRanking(Ranking):
    """As the ranker of stumps, with trees of depth 3 for a given number of rounds; nothing is certified."""

    def __init__(self) -> None:
        super().__init__("one_slack", spreads=False)
        self.name = "structboost_trees"

    def trainer(self, task: Any, C: float, callbacks: Any = None) -> Any:
        """Not yet fitted."""
        from structboost.weak.tree import TreeFamily

        made = super().trainer(task, C, callbacks)
        made.weak_learner = partial(TreeFamily, depth=DEPTH)
        made.max_rounds = ROUNDS
        made.columns_per_channel = 1
        return made

    def sources(self) -> list[Path]:
        """Also the file of the method it is made from, and the trees."""
        return [*super().sources(), Path(structboost.__file__), *imported_sources("structboost.weak.tree")]
