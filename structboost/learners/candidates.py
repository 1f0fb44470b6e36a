"""Choice of weak learners by their edges, with ties in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.learners.base import Candidate

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
