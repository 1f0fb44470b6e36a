"""Made rows of any number: some features tell the classes apart, the others are noise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

N_FEATURES, N_CLASSES = 50, 4
_BATCH_ROWS = 1 << 17


def batches(n_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Made rows and their classes, batch by batch: the same each time."""
    centres = np.random.RandomState(0).normal(scale=0.7, size=(N_CLASSES, 8))
    for number, first in enumerate(range(0, n_rows, _BATCH_ROWS)):
        rng = np.random.default_rng([1, number])
        n = min(_BATCH_ROWS, n_rows - first)
        X, y = rng.standard_normal((n, N_FEATURES), dtype=np.float32), rng.integers(N_CLASSES, size=n)
        X[:, :8] += centres[y]
        yield X, y


def made(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """All made rows at once."""
    parts = list(batches(n_rows))
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])
