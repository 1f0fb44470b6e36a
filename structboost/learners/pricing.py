"""Contract of pricing rules, which make columns of the weak learners of largest edge.

A column is a sum of terms ``a_t h_t`` on channels ``c_t`` under one weight.  Adding it lowers the
objective if its edge is above the price of a unit of weight (10b)::

    edge = sum over t of a_t edge(h_t, c_t)  >  min_edge

Calls of a run, in this order::

    rule.restart()                                             once, before the first round
    repeat  rule.price(families, duals, per_channel, min_edge)
                rule.columns(family, duals, ...)               for each kind of parts
    rule.largest_edge(of_channels)                             at the end, for the bound over all
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from structboost._typing import FloatArray, override
from structboost.learners.base import Candidate, Column, Group, Growth, WeakLearnerFamily
from structboost.learners.terms import Term
from structboost.runtime.called_class import Described
from structboost.validation import checked_choice, shown


class Priced(NamedTuple):
    """Columns of each kind, and the largest edge over the family (ties within 1e-6)."""

    columns: dict[str, list[Column]]
    largest_edge: float


# Columns above the price, and the largest edge.
PricedColumns = tuple[list[Column], float]


class PricingRule(Described, ABC):
    """Rule that makes columns of the weak learners of largest edge, for each kind of parts.

    Attributes
    ----------
    covers_family : bool
        Whether :meth:`columns` finds the largest edge of all columns that the rule could ever
        make, which a bound over all of them needs.
    patience : int
        Rounds without a violated column after which training stops.
    can_resume : bool
        Whether the columns depend on the duals only, as a checkpoint requires.
    """

    covers_family: bool = True
    patience: int = 1
    can_resume: bool = True

    def restart(self) -> None:
        """Forget earlier runs, which most rules do not remember."""
        return

    @abstractmethod
    def columns(
        self, family: WeakLearnerFamily, duals: FloatArray, per_channel: int, min_edge: float
    ) -> PricedColumns:
        """Make columns of edge above ``min_edge``, and find the largest edge.

        Parameters
        ----------
        family : WeakLearnerFamily
            Weak learners of one kind of parts.
        duals : ndarray, shape (n_parts, n_channels)
            Signed weight of each part and channel.
        per_channel : int
            Largest number of columns per channel, or of learners shared by all.
        min_edge : float
            Price of a unit of weight, in the dual constraint (10b).

        Returns
        -------
        columns : list of Column
            Columns of edge above ``min_edge``, possibly none.
        largest_edge : float
            Largest edge of all columns that the rule could make, also if none is above
            ``min_edge``.
        """

    def growth(
        self, family: WeakLearnerFamily, n_rounds: int, n_channels: int, per_channel: int
    ) -> Growth | None:
        """Growth of a family, if each channel gets its own best learner, or None, as by default.

        Parameters
        ----------
        family : WeakLearnerFamily
            Family of one kind of parts.
        n_rounds, n_channels
            As for :meth:`WeakLearnerFamily.growth`.
        per_channel : int
            As for :meth:`columns`.
        """
        return None

    def largest_edge(self, of_channels: FloatArray) -> float | None:
        """Largest edge of a column, given the largest edge of a learner on each channel.

        Parameters
        ----------
        of_channels : ndarray, shape (n_channels,)
            Largest edges over the family.

        Returns
        -------
        edge : float or None
            None if it does not follow from them.
        """
        return None

    def price(
        self,
        families: Mapping[str, WeakLearnerFamily],
        duals: Mapping[str, FloatArray],
        per_channel: int,
        min_edge: float,
    ) -> Priced:
        """Make columns of every kind.

        Parameters
        ----------
        families : dict of str to WeakLearnerFamily
            The weak learners, by kind.
        duals : dict of str to ndarray, shape (n_parts, n_channels)
            Signed weight of each part and channel, by kind.
        per_channel, min_edge
            As for :meth:`columns`.

        Returns
        -------
        priced : Priced
            The columns by kind, and the largest edge over all kinds.
        """
        priced, largest = dict[str, list[Column]](), -np.inf
        for kind, family in families.items():
            priced[kind], edge = self.columns(family, duals[kind], per_channel, min_edge)
            largest = max(largest, edge)
        return Priced(priced, largest)


class CandidateRule(PricingRule, ABC):
    """Rule that only calls ``family.price`` and ``family.refine``, so duals may stay in shards."""

    @override
    def largest_edge(self, of_channels: FloatArray) -> float | None:
        return float(of_channels.max())


class PerChannel(CandidateRule):
    """Rule in which every channel has its own learners (MultiBoost^cw)."""

    @override
    def columns(
        self, family: WeakLearnerFamily, duals: FloatArray, per_channel: int, min_edge: float
    ) -> PricedColumns:
        candidates = family.price(duals, per_channel)
        return [single(c) for c in candidates if c.edge > min_edge], candidates[0].edge

    @override
    def growth(
        self, family: WeakLearnerFamily, n_rounds: int, n_channels: int, per_channel: int
    ) -> Growth | None:
        return family.growth(n_rounds, n_channels) if per_channel == 1 else None


class BestChannel(CandidateRule):
    """Rule in which all channels share the best learner, one column each (MultiBoost, (18))."""

    @override
    def columns(
        self, family: WeakLearnerFamily, duals: FloatArray, per_channel: int, min_edge: float
    ) -> PricedColumns:
        candidates = family.price(duals, per_channel)
        learners = list(dict.fromkeys(c.learner for c in candidates if c.edge > min_edge))[
            :per_channel
        ]
        return [
            single(c) for learner in learners for c in family.refine(learner, duals)
        ], candidates[0].edge


class SharedOverChannels(CandidateRule):
    """Rule that puts the best learners of all channels under one weight (MultiBoost.MO, (14))."""

    @override
    def columns(
        self, family: WeakLearnerFamily, duals: FloatArray, per_channel: int, min_edge: float
    ) -> PricedColumns:
        best: dict[int, Candidate] = {}
        for candidate in family.price(duals, 1):
            best.setdefault(candidate.channel, candidate)
        terms = tuple(Term(best[c].learner, c, 1.0) for c in sorted(best))
        column = Column(terms, sum(candidate.edge for candidate in best.values()))
        return ([column] if column.edge > min_edge else []), column.edge

    @override
    def largest_edge(self, of_channels: FloatArray) -> float | None:
        return float(of_channels.sum())


class CodeWord(PricingRule):
    """Rule of one learner on every channel, with signs by a fixed code (MultiBoost.ECC, (21)).

    Parameters
    ----------
    draw : callable
        ``draw()`` returns the code column of the next round, shape (n_channels,), of -1 and 1.
    """

    covers_family = False
    patience = 20
    can_resume = False

    def __init__(self, draw: Callable[[], FloatArray]) -> None:
        if not callable(draw):
            raise TypeError(f"draw is {shown(draw)}; give a callable that returns a code.")
        self.draw = draw

    @override
    def columns(
        self, family: WeakLearnerFamily, duals: FloatArray, per_channel: int, min_edge: float
    ) -> PricedColumns:
        code = self.draw()
        best = family.price((duals @ code)[:, None], 1)[0]
        column = Column(
            tuple(Term(best.learner, c, float(a)) for c, a in enumerate(code)), best.edge
        )
        return ([column] if column.edge > min_edge else []), column.edge


class BestCode(PricingRule):
    """Rule of the learner of largest l1 norm of edges, whose signs are the best code of all."""

    @override
    def columns(
        self, family: WeakLearnerFamily, duals: FloatArray, per_channel: int, min_edge: float
    ) -> PricedColumns:
        groups = family.price_groups(duals, per_channel)
        columns = [
            Column(
                tuple(Term(learner, c, 1.0 if edge >= 0 else -1.0) for c, edge in enumerate(edges)),
                float(np.abs(edges).sum()),
            )
            for group in groups
            for learner, edges in group
        ]
        violated = [column for column in columns if column.edge > min_edge]
        return violated, max(column.edge for column in columns)


class FreeSign(PricingRule):
    """Rule of the learner or group of largest l1 norm of edges (ShareBoost, (7)).

    Each learner gives a column of free sign on each channel.
    """

    def __init__(self) -> None:
        self.restart()

    @override
    def restart(self) -> None:
        self._chosen: set[Any] = set()

    @override
    def columns(
        self, family: WeakLearnerFamily, duals: FloatArray, per_channel: int, min_edge: float
    ) -> PricedColumns:
        # Earlier choices may still have a gradient, left by the regulariser or by the tolerance of
        # a re-fit.
        groups = [
            group
            for group in family.price_groups(duals, per_channel + len(self._chosen))
            if group[0][0] not in self._chosen
        ][:per_channel]
        added = [group for group in groups if _norm(group) > min_edge]
        self._chosen.update(learner for group in added for learner, _ in group)
        columns = [
            Column((Term(learner, c, 1.0),), float(edge))
            for group in added
            for learner, edges in group
            for c, edge in enumerate(edges)
        ]
        return columns, max(map(_norm, groups), default=0.0)


def _norm(group: Group) -> float:
    return float(sum(np.abs(edges).sum() for _, edges in group))


Pricing = Literal["own", "best"]
RULES: dict[str, type[PricingRule]] = {"own": PerChannel, "best": BestChannel}


def rule_of(pricing: str | PricingRule) -> PricingRule:
    """Rule of a name of ``Pricing``, or the rule itself."""
    if isinstance(pricing, PricingRule):
        return pricing
    return RULES[checked_choice(pricing, "pricing", Pricing)]()


def single(candidate: Candidate) -> Column:
    """Column of one learner on its channel."""
    return Column((Term(candidate.learner, candidate.channel, 1.0),), candidate.edge)
