"""Tables, read from ``tabular/NAME.npz``, and their random splits."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

MNIST_PER_CLASS = 1000
# They come with scikit-learn.
BUNDLED = {
    "iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}  # fmt: skip


class Table(NamedTuple):
    """Rows, float32, and labels 0..n_classes-1, of a data set or of a part of it."""

    X: np.ndarray
    y: np.ndarray

    @property
    def n_classes(self):
        return int(self.y.max()) + 1

    def part(self, rows):
        return Table(self.X[rows], self.y[rows])


class Split(NamedTuple):
    """Sorted row numbers, or tables, of the three parts."""

    train: Any
    validation: Any
    test: Any


def tabular(*names):
    """Files of tables by their names."""
    return {name: () if name in BUNDLED else (f"tabular/{name}.npz",) for name in names}


@lru_cache(maxsize=2)
def load(name, data_dir, *, whole=False):
    """Read a data set; ``mnist`` is 1,000 rows of each class (Table 2) unless ``whole``."""
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
    else:
        with np.load(data_dir / "tabular" / f"{name}.npz") as file:
            X, y = file["X"], file["y"]
    table = Table(X.astype(np.float32, copy=False), y.astype(np.int64))
    if name != "mnist" or whole:
        return table
    rng, each = np.random.default_rng(0), MNIST_PER_CLASS
    rows = [rng.choice(np.flatnonzero(y == c), each, replace=False) for c in np.unique(y)]
    return table.part(np.sort(np.concatenate(rows)))


def split(y, seed):
    """Training, validation and test rows (50/25/25, as in section 4 of StructBoost).

    Stratified; a class of fewer than three rows goes to the training part.
    """
    rng = np.random.default_rng(seed)
    pieces = []
    for c in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == c))
        n_held_out = max(1, round(len(rows) / 4)) if len(rows) >= 3 else 0
        n_train = len(rows) - 2 * n_held_out
        pieces.append(np.split(rows, [n_train, n_train + n_held_out]))
    return Split(*(np.sort(np.concatenate(part)) for part in zip(*pieces, strict=True)))


def parts(table, repeat, strata=None):
    """Tables of one repeat, stratified by their labels or by ``strata``."""
    return Split(*map(table.part, split(table.y if strata is None else strata, repeat)))
