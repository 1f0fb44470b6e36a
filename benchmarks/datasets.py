"""The data sets, read from a directory laid out as ``tabular/NAME.npz``."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine

MNIST_PER_CLASS = 1000


@dataclass(frozen=True, eq=False)
class Dataset:
    """A classification table.

    Parameters
    ----------
    name : str
    X : ndarray of float32, shape (n, d)
    y : ndarray of int64, shape (n,)
        Labels 0..n_classes-1.
    """

    name: str
    X: np.ndarray
    y: np.ndarray

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.y.max()) + 1

    @cached_property
    def content(self) -> str:
        """Hash of the values: kept units of other data are never taken for this one's."""
        digest = hashlib.sha256(repr((self.X.shape, self.X.dtype.str)).encode())
        digest.update(np.ascontiguousarray(self.X))
        digest.update(np.ascontiguousarray(self.y))
        return digest.hexdigest()[:16]


@lru_cache(maxsize=2)
def load(name: str, data_dir: Path, *, whole: bool = False) -> Dataset:
    """Read a data set; ``mnist`` is 1,000 rows of each class (Table 2) unless ``whole``.

    ``wine`` comes with scikit-learn.
    """
    if name == "wine":
        X, y = load_wine(return_X_y=True)
        return Dataset(name, X.astype(np.float32), y.astype(np.int64))
    path = Path(data_dir) / "tabular" / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; --data must name a directory that has tabular/{name}.npz.")
    with np.load(path) as file:
        X, y = file["X"], file["y"].astype(np.int64)
    if name == "mnist" and not whole:
        rows = some_of_each_class(y, MNIST_PER_CLASS, seed=0)
        X, y = X[rows], y[rows]
    return Dataset(name, X.astype(np.float32, copy=False), y)


def some_of_each_class(y: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Sorted row numbers of ``n`` random rows of each class."""
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(np.flatnonzero(y == c), n, replace=False) for c in np.unique(y)]
    return np.sort(np.concatenate(chosen))


def made_table(n_rows: int, n_features: int, n_classes: int, seed: int = 0) -> Dataset:
    """Overlapping Gaussian classes in float32, for the scaling runs: any size, no file."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    means = rng.normal(size=(n_classes, n_features)).astype(np.float32)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    X *= 3.0
    X += means[y]
    return Dataset("made", X, y)
