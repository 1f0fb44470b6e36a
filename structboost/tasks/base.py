"""Base of tasks that search and sum over all examples at once, and joint features of ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from structboost._typing import IntArray, override
from structboost.contract.measures import SparseFeature
from structboost.contract.parts import PartKind, StackedParts
from structboost.contract.task import Task


class BatchTask(Task):
    """Base of tasks whose batch forms do the work, and whose other forms call them."""

    @override
    def argmax(self, x: Any, scores: Any, y: Any = None) -> Any:
        truths = None if y is None else [y]
        return self.argmax_batch([x], alone(self.kinds, scores), truths)[0]

    @override
    def marginals(self, x: Any, scores: Any) -> Any:
        expected = self.marginals_batch([x], alone(self.kinds, scores)).expected
        return expected if len(self.kinds) > 1 else next(iter(expected.values()))

    @override
    def log_sum(self, x: Any, scores: Any) -> float:
        return float(self.marginals_batch([x], alone(self.kinds, scores)).log_sums[0])


def alone(kinds: Mapping[str, PartKind], scores: Any) -> StackedParts:
    """Stack the scores of one example, an array or a dict by kind."""
    rows = scores if isinstance(scores, Mapping) else {next(iter(kinds)): scores}
    return StackedParts(
        rows, {kind: np.array([0, len(of_kind)], np.int64) for kind, of_kind in rows.items()}
    )


def indicator(
    parts: IntArray, channels: IntArray | None = None, value: float = 1.0
) -> SparseFeature:
    """Make a joint feature of ``value`` on each part, on its channel or on channel 0."""
    n = len(parts)
    at = np.zeros(n, np.int64) if channels is None else channels
    return SparseFeature(parts, at, np.full(n, value))


def exchange(
    parts: tuple[IntArray, IntArray],
    channels: tuple[IntArray, IntArray] | None = None,
    value: float = 1.0,
) -> SparseFeature:
    """Make the difference of two indicators, ``value`` and minus ``value`` in turns.

    ``parts`` are those that only the first one has, and those that only the second one has.
    Without ``channels`` of these parts all are 0.
    """
    n = len(parts[0])
    at = np.zeros(2 * n, np.int64) if channels is None else np.column_stack(channels).ravel()
    return SparseFeature(np.column_stack(parts).ravel(), at, np.tile([value, -value], n))
