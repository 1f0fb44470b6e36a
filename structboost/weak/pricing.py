"""Pricing rules: how channels share the weak learners that pricing finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost.weak.base import Candidate, WeakLearnerFamily

RULES = ("own", "best")


class Priced(NamedTuple):
    """Columns found by pricing, by kind, and the largest edge over the whole family (up to a tie of 1e-6)."""

    candidates: dict[str, list[Candidate]]
    largest_edge: float


def price(
    families: Mapping[str, WeakLearnerFamily],
    duals: Mapping[str, NDArray[np.float64]],
    rule: str,
    per_channel: int,
    min_edge: float,
) -> Priced:
    """Columns whose edge ``<duals, response>`` exceeds ``min_edge``.

    Parameters
    ----------
    families : dict of str to WeakLearnerFamily
        The weak learners of each kind of part.
    duals : dict of str to ndarray, shape (n_parts, n_channels)
    rule : {"own", "best"}
        ``own``: every channel has its own learners (MultiBoost^cw); ``best``: the learner that is best on its best
        channel is shared by all, one column for each channel (MultiBoost, (18)).
    per_channel : int
        Most columns of a channel; ``best`` shares as many learners.
    min_edge : float
        1 for a master in which every weight costs 1: the dual constraint (10b).
    """
    columns: dict[str, list[Candidate]] = {}
    largest = -np.inf
    for kind, family in families.items():
        found = family.price(duals[kind], per_channel)
        largest = max(largest, found[0].edge)
        violated = [candidate for candidate in found if candidate.edge > min_edge]
        if rule == "best":
            learners = list(dict.fromkeys(c.learner for c in violated))[:per_channel]
            violated = [c for learner in learners for c in family.refine(learner, duals[kind])]
        columns[kind] = violated
    return Priced(columns, largest)


def column_key(kind: str, candidate: Candidate) -> tuple[str, Any, int]:
    """What makes two columns the same."""
    return kind, candidate.learner, candidate.channel
