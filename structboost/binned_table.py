"""Tables larger than memory: features binned once, in one streaming pass, into a memory-mapped file."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import BinnedTableError
from structboost.plain_file import DamagedFileError, read_arrays, write_arrays
from structboost.weak.binning import SAMPLED_ROWS, Thresholds, bin_codes, bin_thresholds, code_dtype

_FORMAT = "structboost-binned-table"
_VERSION = 1
_BINS, _CODES = "bins.npz", "codes.npy"
_ROWS_AT_A_TIME = 1 << 17


@dataclass(frozen=True)
class BinnedTable:
    """Bins of a feature table on disk: one part an example, as in classification.

    :meth:`from_array` and :meth:`from_batches` make one; :meth:`structboost.StructBoost.fit` takes it in place of X,
    and reads it from disk as it goes.

    Parameters
    ----------
    path : str
        Folder of the table.
    n_rows : int
    bins : Thresholds
    """

    path: str
    n_rows: int
    bins: Thresholds

    def __len__(self) -> int:
        return self.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.n_rows, self.bins.n_features

    @classmethod
    def open(cls, path: str | PathLike[str]) -> BinnedTable:
        """A table that was made before.

        Raises
        ------
        FileNotFoundError
            If there is no such folder.
        BinnedTableError
            If it is no table, or is damaged.
        """
        folder = Path(path)
        if not folder.is_dir():
            raise FileNotFoundError(f"There is no binned table {path}.")
        try:
            header, arrays = read_arrays(folder / _BINS)
            if header["format"] != _FORMAT or header["version"] != _VERSION:
                raise DamagedFileError(f"it is of the format {header['format']!r}, version {header['version']}")
            bins = Thresholds(arrays["thresholds"], arrays["indptr"])
            codes = np.load(folder / _CODES, mmap_mode="r")
        except (DamagedFileError, KeyError, OSError, ValueError) as error:
            raise BinnedTableError(f"{path} is not a binned table, or is damaged ({error}); make it again.") from error
        if codes.shape[0] != bins.n_features or codes.dtype != code_dtype(bins):
            raise BinnedTableError(f"The codes of {path} do not fit its thresholds; make the table again.")
        return cls(str(folder.resolve()), int(codes.shape[1]), bins)

    @classmethod
    def from_array(cls, path: str | PathLike[str], features: NDArray[Any]) -> BinnedTable:
        """Bin an array, which may be a memory map, as training in memory would.

        Parameters
        ----------
        path : str or path
            Folder to make; it must not exist.
        features : ndarray, shape (n_rows, n_features)

        Raises
        ------
        FileExistsError
            If ``path`` exists.
        TaskError
            If a feature is NaN or infinite.
        """
        n_rows = len(features)
        stretches = (features[a : a + _ROWS_AT_A_TIME] for a in range(0, n_rows, _ROWS_AT_A_TIME))
        return _write(Path(path), stretches, n_rows, bin_thresholds(features))

    @classmethod
    def from_batches(cls, path: str | PathLike[str], batches: Iterable[Any], n_rows: int) -> BinnedTable:
        """Bin batches of rows as they come; each is looked at once.

        Parameters
        ----------
        path : str or path
            Folder to make; it must not exist.
        batches : iterable
            Arrays of shape (n, n_features), or Arrow record batches of numeric columns. The thresholds are those of the
            first 262,144 rows, which should be as good as any.
        n_rows : int
            Rows of all batches.

        Raises
        ------
        FileExistsError
            If ``path`` exists.
        BinnedTableError
            If the batches have another number of rows, or differ in their number of features.
        TaskError
            If a feature is NaN or infinite.
        """
        arrays = map(_as_array, batches)
        first: list[NDArray[Any]] = []
        for array in arrays:
            first.append(array)
            if sum(map(len, first)) >= SAMPLED_ROWS:
                break
        if not first:
            raise BinnedTableError("batches is empty; give at least one batch.")
        bins = bin_thresholds(np.concatenate(first)[:SAMPLED_ROWS])
        return _write(Path(path), chain(first, arrays), n_rows, bins)


@dataclass(frozen=True)
class StoredCodes:
    """Rows ``first <= p < last`` of a table on disk, opened where they are needed.

    Parameters
    ----------
    path : str
        Folder of the table.
    first, last : int
    """

    path: str
    first: int
    last: int

    def open(self) -> NDArray[Any]:
        """Codes, shape (n_features, n_rows), a memory map."""
        codes: NDArray[Any] = np.load(Path(self.path) / _CODES, mmap_mode="r")
        return codes[:, self.first : self.last]


def _write(path: Path, stretches: Iterable[NDArray[Any]], n_rows: int, bins: Thresholds) -> BinnedTable:
    """Write thresholds and codes into a folder that is there when all is."""
    if path.exists():
        raise FileExistsError(f"{path} exists already; remove it, or give another path.")
    building = Path(tempfile.mkdtemp(dir=path.resolve().parent, prefix=f".{path.name}."))
    try:
        shape = (bins.n_features, n_rows)
        codes = np.lib.format.open_memmap(building / _CODES, mode="w+", dtype=code_dtype(bins), shape=shape)
        for first, stretch in _numbered(stretches, n_rows, bins.n_features):
            codes[:, first : first + len(stretch)] = bin_codes(stretch, bins)
        codes.flush()
        del codes
        header = {"format": _FORMAT, "version": _VERSION}
        write_arrays(building / _BINS, header, {"thresholds": bins.values, "indptr": bins.indptr})
        building.rename(path)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return BinnedTable(str(path.resolve()), n_rows, bins)


def _numbered(stretches: Iterable[NDArray[Any]], n_rows: int, n_features: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """First row of each stretch, and the stretch."""
    first = 0
    for number, stretch in enumerate(stretches):
        if stretch.ndim != 2 or stretch.shape[1] != n_features:
            raise BinnedTableError(f"Batch {number} has shape {stretch.shape}; the first had {n_features} features.")
        if first + len(stretch) > n_rows:
            raise BinnedTableError(f"The batches have more than n_rows={n_rows} rows; give their number.")
        yield first, stretch
        first += len(stretch)
    if first != n_rows:
        raise BinnedTableError(f"The batches have {first} rows, n_rows is {n_rows}; give their number.")


def _as_array(batch: Any) -> NDArray[Any]:
    """A batch of rows as a matrix; an Arrow batch column by column."""
    if hasattr(batch, "num_columns"):
        return np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])
    return np.asarray(batch)
