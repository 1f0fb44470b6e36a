"""Choice of weak learners by their edges, with ties in order, and families that list theirs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from structboost._typing import FloatArray, IntArray, override
from structboost.learners.base import Candidate, WeakLearnerFamily

# Relative difference of edges up to which a constant learner is as good as a split.
TIE = 1e-6
# Part of the largest edge by which equal edges may differ, since processors add in other orders.
ROUNDING = 1e-9


def ranked(values: FloatArray, most: int | None = None) -> IntArray:
    """Rank the largest values, or all, by index where they differ by rounding only."""
    rounding = ROUNDING * (float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) or 1.0)
    index = np.arange(len(values))
    if most is not None and most < len(values):
        # Sorting all would cost more than the search that found the values.
        least = np.partition(values, len(values) - most)[len(values) - most]
        index = np.flatnonzero(values >= least - rounding)
    order: IntArray = np.argsort(-np.round(values[index] / rounding), kind="stable")[:most]
    return index[order]


def best_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates in the order of :func:`ranked` edges."""
    return [candidates[int(k)] for k in ranked(np.array([c.edge for c in candidates]))]


def best_on_channels(
    edges: FloatArray, per_channel: int, learner: Callable[[int, int], Any]
) -> list[Candidate]:
    """Candidates of largest edge on each channel, best first.

    ``learner(k, channel)`` is the learner of edge ``edges[k, channel]``.
    """
    candidates = [
        Candidate(learner(int(k), channel), channel, float(edges[k, channel]))
        for channel in range(edges.shape[1])
        for k in ranked(edges[:, channel], per_channel)
    ]
    return best_first(candidates)


def largest_norms(
    learners: Sequence[Any], edges: FloatArray, n_learners: int
) -> list[tuple[Any, FloatArray]]:
    """Learners of largest l1 norm of edges over the channels, with their edges, best first."""
    order = ranked(np.abs(edges).sum(axis=1), n_learners)
    return [(learners[int(k)], edges[k]) for k in order]


def best_ways(ways: Sequence[Any], edges: FloatArray) -> list[Candidate]:
    """Orientation of largest edge on each channel, for ``edges`` of shape (n_ways, n_channels)."""
    return [
        Candidate(ways[int(way)], channel, float(edges[way, channel]))
        for channel, way in enumerate(np.argmax(edges, axis=0))
    ]


def with_constant(
    splits: Sequence[Candidate], constant: Candidate, per_channel: int
) -> list[Candidate]:
    """Best splits of a channel, best first, and the constant learner, or the constant alone.

    The simplest learner enters alone if it is as good as any split.  Its edge then stands for
    theirs, so that the bound holds for the whole family.
    """
    best_split = max((split.edge for split in splits), default=-np.inf)
    if constant.edge > 0 and constant.edge >= (1 - TIE) * best_split:
        return [constant._replace(edge=max(constant.edge, best_split))]
    return [*splits] if per_channel == 1 and splits else [*splits, constant]


def response_type(low: float, high: float) -> type[np.signedinteger[Any] | np.floating[Any]]:
    """Smallest type for two responses, int8 if both are small integers."""
    return np.int8 if float(low).is_integer() and float(high).is_integer() else np.float32


class Listed(NamedTuple):
    """Learners that a family compares.

    Parameters
    ----------
    learner : callable
        ``learner(k, turned)`` makes learner k, or the same turned around.
    edges : ndarray, shape (n_learners, n_channels)
    turned : ndarray or float
        Edges of the learners turned around, -inf for what is no learner of the family.
    groups : ndarray of int, shape (n_learners,), optional
        Group of each learner, from 0 without gaps.  By default each is one.
    """

    learner: Callable[[int, bool], Any]
    edges: FloatArray
    turned: FloatArray | float = -np.inf
    groups: IntArray | None = None


class ListedFamily(WeakLearnerFamily):
    """Family whose search compares a list of learners, each as it is and turned around."""

    @abstractmethod
    def listed(self, duals: FloatArray) -> Listed:
        """List the learners to compare under given duals, shape (n_parts, n_channels)."""

    @abstractmethod
    def ways(self, learner: Any) -> Sequence[Any]:
        """List the orientations of a learner that the family holds."""

    @override
    def price(self, duals: FloatArray, per_channel: int) -> list[Candidate]:
        learner, edges, turned, _ = self.listed(duals)
        is_turned = turned > edges
        return best_on_channels(
            np.maximum(edges, turned), per_channel, lambda k, c: learner(k, bool(is_turned[k, c]))
        )

    @override
    def price_shared(self, duals: FloatArray, n_learners: int) -> list[tuple[Any, FloatArray]]:
        learner, edges, *_ = self.listed(duals)
        learners = [learner(k, False) for k in range(len(edges))]
        return largest_norms(learners, edges, n_learners)

    @override
    def price_groups(
        self, duals: FloatArray, n_groups: int
    ) -> Sequence[Sequence[tuple[Any, FloatArray]]]:
        learner, edges, _, groups = self.listed(duals)
        if groups is None:
            groups = np.arange(len(edges))
        norms = np.bincount(groups, np.abs(edges).sum(axis=1))
        return [
            [(learner(k, False), edges[k]) for k in np.flatnonzero(groups == group).tolist()]
            for group in np.argsort(-norms, kind="stable")[:n_groups]
        ]

    @override
    def refine(self, learner: Any, duals: FloatArray) -> list[Candidate]:
        ways = self.ways(learner)
        return best_ways(ways, self.responses(ways) @ duals)
