"""Greedy choices of learners or groups with weights of free sign (ShareBoost)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from structboost._typing import FloatArray, override
from structboost.learners.base import Column, WeakLearnerFamily
from structboost.learners.pricing import PricingRule
from structboost.learners.terms import Term
from structboost.validation import checked_choice, checked_whole_number

CHOICES = ("gradient", "line_search", "column_search", "refit")
Group = Sequence[tuple[Any, FloatArray]]


class TrialMaster(Protocol):
    """Master that can try a few more learners without adding them."""

    def objective_with(self, responses: FloatArray, edges: FloatArray, how: str) -> float:
        """Objective with new learners of such edges, found in one of the ways `CHOICES`."""


class FreeSign(PricingRule):
    """Rule of the learner or group of largest l1 norm of edges (ShareBoost, (7)).

    Each learner gives a column of free sign on each channel.

    Parameters
    ----------
    choice : {"gradient", "line_search", "column_search", "refit"}
        ``gradient`` takes the largest l1 norm of the gradient.  The others (section 2.1) compare a
        short list of the largest by the objective that they reach: along the gradient of the
        learner, ``min_a L(W + a grad_r)``; with any weights of the learner,
        ``min_w L(W + w e_r')``; with all weights re-fitted.
    short_list : int
        Length of the short list.
    """

    def __init__(self, choice: str = "gradient", short_list: int = 10) -> None:
        self.choice = checked_choice(choice, "choice", CHOICES)
        self.short_list = checked_whole_number(short_list, "short_list")
        self._master: TrialMaster | None = None
        self._chosen: set[Any] = set()

    @override
    def bind(self, master: Any) -> None:
        self._chosen = set()
        if self.choice == "gradient":
            return
        if not hasattr(master, "objective_with"):
            raise TypeError(
                f"choice is {self.choice!r}, but {type(master).__name__} cannot try learners; "
                "use 'gradient'."
            )
        self._master = master

    @override
    def columns(
        self, family: WeakLearnerFamily, duals: FloatArray, per_channel: int, min_edge: float
    ) -> tuple[list[Column], float]:
        n_priced = per_channel if self._master is None else max(per_channel, self.short_list)
        # Earlier choices may still have a gradient, left by the regulariser or by the tolerance of
        # a re-fit.
        groups = [
            group
            for group in family.price_groups(duals, n_priced + len(self._chosen))
            if group[0][0] not in self._chosen
        ][:n_priced]
        violated = [group for group in groups if _norm(group) > min_edge]
        added = self._ranked(family, violated)[:per_channel]
        self._chosen.update(learner for group in added for learner, _ in group)
        columns = [
            Column((Term(learner, c, 1.0),), float(edge))
            for group in added
            for learner, edges in group
            for c, edge in enumerate(edges)
        ]
        return columns, max(map(_norm, groups), default=0.0)

    def _ranked(self, family: WeakLearnerFamily, groups: Sequence[Group]) -> Sequence[Group]:
        """Sort groups by the objective they lead to, with ties in the order of pricing."""
        if self._master is None or len(groups) < 2:
            return groups
        reached = [
            self._master.objective_with(
                np.asarray(family.responses([learner for learner, _ in group]), np.float64),
                np.array([edges for _, edges in group]),
                self.choice,
            )
            for group in groups
        ]
        return [groups[k] for k in np.argsort(reached, kind="stable")]


def _norm(group: Group) -> float:
    return float(sum(np.abs(edges).sum() for _, edges in group))
