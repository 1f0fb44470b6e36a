"""Random splits into training, validation and test rows (50/25/25, as in section 4 of the paper)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Split(NamedTuple):
    """Sorted row numbers of the three parts."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def split(y: np.ndarray, seed: int) -> Split:
    """Seeded stratified split; a class of fewer than three rows goes to the training part."""
    rng = np.random.default_rng(seed)
    parts: tuple[list[np.ndarray], ...] = ([], [], [])
    for c in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == c))
        n_held_out = max(1, round(len(rows) / 4)) if len(rows) >= 3 else 0
        n_train = len(rows) - 2 * n_held_out
        for part, piece in zip(parts, np.split(rows, [n_train, n_train + n_held_out]), strict=True):
            part.append(piece)
    return Split(*(np.sort(np.concatenate(part)) for part in parts))
