"""Tables, read from ``tabular/NAME.npz``, and their random splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

MNIST_PER_CLASS = 1000
# They come with scikit-learn.
BUNDLED = {
    "iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}  # fmt: skip


class Table(NamedTuple):
    """Rows and labels of one part of a split."""

    X: np.ndarray
    y: np.ndarray


class Split(NamedTuple):
    """Sorted row numbers, or tables, of the three parts."""

    train: np.ndarray | Table
    validation: np.ndarray | Table
    test: np.ndarray | Table


@dataclass(frozen=True, eq=False)
class Dataset:
    """A classification table, with labels 0..n_classes-1."""

    name: str
    X: np.ndarray  # float32, shape (n, d)
    y: np.ndarray  # int64, shape (n,)

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    def one_against_rest(self, positive: int) -> np.ndarray:
        """Labels 0 and 1: whether a row is of one class."""
        return (self.y == positive).astype(np.int64)


def tabular(*names: str) -> dict[str, tuple[str, ...]]:
    """Files of tables by their names."""
    return {name: () if name in BUNDLED else (f"tabular/{name}.npz",) for name in names}


@lru_cache(maxsize=2)
def load(name: str, data_dir: Path, *, whole: bool = False) -> Dataset:
    """Read a data set; ``mnist`` is 1,000 rows of each class (Table 2) unless ``whole``."""
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
        return Dataset(name, X.astype(np.float32), y.astype(np.int64))
    with np.load(Path(data_dir) / "tabular" / f"{name}.npz") as file:
        X, y = file["X"], file["y"].astype(np.int64)
    if name == "mnist" and not whole:
        rows = some_of_each_class(y, MNIST_PER_CLASS, seed=0)
        X, y = X[rows], y[rows]
    return Dataset(name, X.astype(np.float32, copy=False), y)


def given_partition(name: str, data_dir: Path) -> tuple[Table, Table]:
    """Training and test rows as the file has them, with the file's own type."""
    with np.load(Path(data_dir) / "tabular" / f"{name}.npz") as file:
        X, y, train = file["X"], file["y"], file["train"]
    return Table(X[train], y[train]), Table(X[~train], y[~train])


def some_of_each_class(y: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Sorted row numbers of ``n`` random rows of each class."""
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(np.flatnonzero(y == c), n, replace=False) for c in np.unique(y)]
    return np.sort(np.concatenate(chosen))


def split(y: np.ndarray, seed: int) -> Split:
    """Training, validation and test rows (50/25/25, as in section 4 of StructBoost).

    Stratified; a class of fewer than three rows goes to the training part.
    """
    rng = np.random.default_rng(seed)
    parts: tuple[list[np.ndarray], ...] = ([], [], [])
    for c in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == c))
        n_held_out = max(1, round(len(rows) / 4)) if len(rows) >= 3 else 0
        n_train = len(rows) - 2 * n_held_out
        for part, piece in zip(parts, np.split(rows, [n_train, n_train + n_held_out]), strict=True):
            part.append(piece)
    return Split(*(np.sort(np.concatenate(part)) for part in parts))


def parts(X: np.ndarray, y: np.ndarray, strata: np.ndarray, repeat: int) -> Split:
    """Tables of one repeat, stratified by ``strata``."""
    return Split(*(Table(X[rows], y[rows]) for rows in split(strata, repeat)))


def halves(data: Dataset, repeat: int) -> tuple[Table, Table]:
    """Training rows, those for validation among them, and test rows of a repeat."""
    rows = split(data.y, repeat)
    train: Sequence[int] = np.concatenate((rows.train, rows.validation))
    return Table(data.X[train], data.y[train]), Table(data.X[rows.test], data.y[rows.test])
