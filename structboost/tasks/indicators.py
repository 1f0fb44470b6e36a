"""Joint features that are 1 on each chosen part, and differences of two of them."""

from __future__ import annotations

import numpy as np

from structboost._typing import IntArray
from structboost.contract.measures import SparseFeature


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
