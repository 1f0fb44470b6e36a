"""Pricing rules: how channels share the weak learners that pricing finds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost.weak.base import Candidate, Column, Term, WeakLearnerFamily


class Priced(NamedTuple):
    """Columns found by pricing, by kind, and the largest edge over the whole family (up to a tie of 1e-6)."""

    columns: dict[str, list[Column]]
    largest_edge: float


class PricingRule(ABC):
    """Makes columns of the weak learners of largest edge, separately for each kind of parts.

    Attributes
    ----------
    covers_family : bool
        Whether :meth:`columns` sees the largest edge of every column that the rule could ever make: only then is there
        a bound over all of them.
    patience : int
        Rounds without a violated column after which training stops.
    """

    covers_family: bool = True
    patience: int = 1

    def bind(self, master: Any) -> None:
        """Told before training which master the columns are for; most rules need no more than the duals."""
        return

    @abstractmethod
    def columns(
        self, family: WeakLearnerFamily, duals: NDArray[np.float64], per_channel: int, min_edge: float
    ) -> tuple[list[Column], float]:
        """Columns of edge above ``min_edge``, and the largest edge.

        Parameters
        ----------
        family : WeakLearnerFamily
        duals : ndarray, shape (n_parts, n_channels)
        per_channel : int
            Most columns of a channel, or learners shared by all.
        min_edge : float
            What a unit of weight costs: the dual constraint (10b).
        """

    def price(
        self,
        families: Mapping[str, WeakLearnerFamily],
        duals: Mapping[str, NDArray[np.float64]],
        per_channel: int,
        min_edge: float,
    ) -> Priced:
        """Columns of every kind."""
        found = {kind: self.columns(family, duals[kind], per_channel, min_edge) for kind, family in families.items()}
        return Priced(
            {kind: columns for kind, (columns, _) in found.items()}, max(largest for _, largest in found.values())
        )


class Own(PricingRule):
    """Every channel has its own learners (MultiBoost^cw)."""

    def columns(
        self, family: WeakLearnerFamily, duals: NDArray[np.float64], per_channel: int, min_edge: float
    ) -> tuple[list[Column], float]:
        """One column a learner and channel."""
        found = family.price(duals, per_channel)
        return [_single(c) for c in found if c.edge > min_edge], found[0].edge


class Best(PricingRule):
    """The learner that is best on its best channel is shared by all, one column for each channel (MultiBoost, (18))."""

    def columns(
        self, family: WeakLearnerFamily, duals: NDArray[np.float64], per_channel: int, min_edge: float
    ) -> tuple[list[Column], float]:
        """As many columns a learner as there are channels."""
        found = family.price(duals, per_channel)
        learners = list(dict.fromkeys(c.learner for c in found if c.edge > min_edge))[:per_channel]
        return [_single(c) for learner in learners for c in family.refine(learner, duals)], found[0].edge


class Tied(PricingRule):
    """The best learner of each channel, all under one weight (MultiBoost.MO, (14))."""

    def columns(
        self, family: WeakLearnerFamily, duals: NDArray[np.float64], per_channel: int, min_edge: float
    ) -> tuple[list[Column], float]:
        """One column, whose edge is the sum over the channels."""
        best: dict[int, Candidate] = {}
        for candidate in family.price(duals, 1):
            best.setdefault(candidate.channel, candidate)
        terms = tuple(Term(best[c].learner, c, 1.0) for c in sorted(best))
        column = Column(terms, sum(candidate.edge for candidate in best.values()))
        return ([column] if column.edge > min_edge else []), column.edge


class Code(PricingRule):
    """One learner under a given code: its answer, with the code's sign, on every channel (MultiBoost.ECC, (21)).

    Parameters
    ----------
    draw : callable
        ``draw()`` gives the code column of the next round, shape (n_channels,), of -1 and 1.
    """

    covers_family = False
    patience = 20

    def __init__(self, draw: Callable[[], NDArray[np.float64]]) -> None:
        self.draw = draw

    def columns(
        self, family: WeakLearnerFamily, duals: NDArray[np.float64], per_channel: int, min_edge: float
    ) -> tuple[list[Column], float]:
        """One column."""
        code = self.draw()
        best = family.price((duals @ code)[:, None], 1)[0]
        column = Column(tuple(Term(best.learner, c, float(a)) for c, a in enumerate(code)), best.edge)
        return ([column] if column.edge > min_edge else []), column.edge


class BestCode(PricingRule):
    """The learner of largest l1 norm of edges, under the code of their signs: the best over all codes."""

    def columns(
        self, family: WeakLearnerFamily, duals: NDArray[np.float64], per_channel: int, min_edge: float
    ) -> tuple[list[Column], float]:
        """One column a learner."""
        found = family.price_shared(duals, per_channel)
        made = [
            Column(
                tuple(Term(learner, c, 1.0 if edge >= 0 else -1.0) for c, edge in enumerate(edges)),
                float(np.abs(edges).sum()),
            )
            for learner, edges in found
        ]
        return [column for column in made if column.edge > min_edge], made[0].edge


RULES: dict[str, type[PricingRule]] = {"own": Own, "best": Best}


def _single(candidate: Candidate) -> Column:
    return Column((Term(candidate.learner, candidate.channel, 1.0),), candidate.edge)
