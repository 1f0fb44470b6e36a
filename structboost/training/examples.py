"""Training sets in memory, on disk, or on a cluster, from which shards are made."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from structboost._typing import AnyArray, Examples, FloatArray, IntArray, PathName, Range, override
from structboost.contract.calls import stacked_in_order
from structboost.contract.task import Task
from structboost.errors import BinnedTableError, TaskError
from structboost.files.archive import ArchiveFormat, Array, DamagedFileError, Part
from structboost.files.atomic_write import checked_folder, checked_path, whole_folder
from structboost.learners.binning import (
    SAMPLED_ROWS,
    Thresholds,
    bin_codes,
    bin_thresholds,
    code_dtype,
)
from structboost.learners.responses import FeaturesOfRows
from structboost.learners.standardisation import Standardisation
from structboost.runtime.blocks import Blocks
from structboost.training.shards import FeaturesInShards, GivenRows, Shard, examples_between
from structboost.validation import checked_table, copied_in_order

_BINS, _CODES = "bins.npz", "codes.npy"
# Rows that are binned at a time.
_ROWS_AT_A_TIME = 1 << 16


@dataclass(frozen=True)
class BinnedTable:
    """Bins of a feature table on disk with one part per example, as in classification.

    Create it by :meth:`from_array` or :meth:`from_batches`, and pass it to
    :meth:`structboost.StructBoost.fit` in place of X.  Training reads it from disk step by step.

    Parameters
    ----------
    path : str
        Folder of the table.
    n_rows : int
        Number of rows of the table.
    bins : Thresholds
        Thresholds of each feature.
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
    def open(cls, path: PathName) -> BinnedTable:
        """Open an existing table.

        Parameters
        ----------
        path : str or path
            Folder of the table.

        Returns
        -------
        table : BinnedTable
            Table whose codes stay on disk.

        Raises
        ------
        FileNotFoundError
            If there is no such folder.
        BinnedTableError
            If the folder is not a table, or is damaged.
        """
        folder = checked_path(path)
        if not folder.is_dir():
            raise FileNotFoundError(f"There is no binned table {path}.")
        with _FORMAT.damage(path):
            _, arrays = _FORMAT.read(folder / _BINS)
            bins = Thresholds(arrays["thresholds"], arrays["indptr"], arrays["feature"])
            if not np.isin(np.diff(bins.feature, prepend=-1), (0, 1)).all():
                raise DamagedFileError("its columns are not in the order of their features")
            n_rows = int(_mapped_codes(folder, bins).shape[1])
        return cls(str(folder.resolve()), n_rows, bins)

    @classmethod
    def from_array(cls, path: PathName, features: AnyArray) -> BinnedTable:
        """Bin an array, which may be a memory map, as training in memory would.

        Parameters
        ----------
        path : str or path
            Folder to create; it must not exist.
        features : array-like, shape (n_rows, n_features)
            Numbers; NaN where they are missing.

        Raises
        ------
        FileExistsError
            If ``path`` exists.
        TaskError
            If a feature is infinite.
        """
        features = checked_table(features, "features")
        n_rows = len(features)
        stretches = (features[a : a + _ROWS_AT_A_TIME] for a in range(0, n_rows, _ROWS_AT_A_TIME))
        return _write(checked_folder(path), stretches, n_rows, bin_thresholds(features, exact=None))

    @classmethod
    def from_batches(cls, path: PathName, batches: Iterable[AnyArray], n_rows: int) -> BinnedTable:
        """Bin batches of rows in one pass over them.

        Parameters
        ----------
        path : str or path
            Folder to create; it must not exist.
        batches : iterable
            Arrays of shape (n, n_features). The thresholds come from the first 262,144 rows, which
            should be representative.
        n_rows : int
            Total number of rows.

        Raises
        ------
        FileExistsError
            If ``path`` exists.
        BinnedTableError
            If the batches have another number of rows, or differ in their number of features.
        TaskError
            If a feature is infinite.
        """
        arrays = (checked_table(batch, "batches") for batch in batches)
        first = []
        for array in arrays:
            first.append(array)
            if sum(map(len, first)) >= SAMPLED_ROWS:
                break
        if not first:
            raise BinnedTableError("batches is empty; give at least one batch.")
        bins = bin_thresholds(np.concatenate(first)[:SAMPLED_ROWS], exact=None)
        return _write(checked_folder(path), chain(first, arrays), n_rows, bins)


@dataclass(frozen=True)
class StoredCodes:
    """Rows ``first <= p < last`` of a table on disk, opened where they are needed."""

    table: BinnedTable
    first: int
    last: int

    def codes(self, bins: Thresholds) -> AnyArray:
        """Return codes, shape (n_columns, n_rows), as a memory map that is read once and checked.

        Compiled code writes at addresses from codes, so none may be beyond the bins of its
        feature.  BinnedTableError if some are.
        """
        table = self.table
        with _FORMAT.damage(table.path):
            codes = _mapped_codes(Path(table.path), table.bins)
            if codes.shape[1] != table.n_rows:
                raise DamagedFileError("its codes have other rows than when it was opened")
            codes = codes[:, self.first : self.last]
            if codes.size and (codes.max(axis=1) >= table.bins.n_bins).any():
                raise DamagedFileError("it has codes beyond the bins of their feature")
        return codes

    def rows(self) -> AnyArray:
        """Raise an error, because a table holds bins only."""
        raise NotImplementedError("A BinnedTable holds bins only.")


def _write(path: Path, stretches: Iterable[AnyArray], n_rows: int, bins: Thresholds) -> BinnedTable:
    """Write thresholds and codes into a folder, whole or not at all."""
    dtype, first = np.dtype(code_dtype(bins)), 0
    with whole_folder(path) as building:
        # A memory map is not used, because on a full disk it ends Python with SIGBUS where writing
        # raises OSError.
        with (building / _CODES).open("xb") as file:
            layout = {"descr": dtype.str, "fortran_order": False, "shape": (bins.n_columns, n_rows)}
            np.lib.format.write_array_header_1_0(file, layout)
            start = file.tell()
            for stretch in map(np.asarray, stretches):
                if stretch.shape[1:] != (bins.n_features,):
                    raise BinnedTableError(
                        f"A batch has shape {stretch.shape}; the first had {bins.n_features} "
                        "features."
                    )
                if first + len(stretch) > n_rows:
                    raise BinnedTableError(
                        f"The batches have more than n_rows={n_rows} rows; give their number."
                    )
                for f, of_feature in enumerate(bin_codes(stretch, bins)):
                    file.seek(start + (f * n_rows + first) * dtype.itemsize)
                    file.write(of_feature.data)
                first += len(stretch)
            if first != n_rows:
                raise BinnedTableError(
                    f"The batches have {first} rows, n_rows is {n_rows}; give their number."
                )
            file.flush()
            os.fsync(file.fileno())
        arrays = {"thresholds": bins.values, "indptr": bins.indptr, "feature": bins.feature}
        _FORMAT.write(building / _BINS, {}, arrays)
    return BinnedTable(str(path.resolve()), n_rows, bins)


def _mapped_codes(folder: Path, bins: Thresholds) -> AnyArray:
    """Map the codes of a table, of the type and width of its thresholds."""
    codes = np.load(folder / _CODES, mmap_mode="r", allow_pickle=False)
    if not isinstance(codes, np.memmap) or codes.ndim != 2 or codes.dtype != code_dtype(bins):
        raise DamagedFileError("its codes are of another type than its thresholds need")
    whole = (folder / _CODES).stat().st_size == codes.offset + codes.nbytes
    if codes.shape[0] != bins.n_columns or not codes.flags.c_contiguous or not whole:
        raise DamagedFileError("its codes do not fit its thresholds")
    return codes


_ARRAYS = {
    "thresholds": Array("float64", ("n_thresholds",)),
    "indptr": Array("int64", ("n_pointers",), ends="n_thresholds"),
    "feature": Array("int64", ("n_pointers - 1",), low=0),
}
_FORMAT = ArchiveFormat(
    name="structboost-binned-table",
    what="binned table",
    error=BinnedTableError,
    remedy="make the table again",
    schema=lambda header, names: {"": Part(_ARRAYS)},
)


class TrainingSet(ABC):
    """All training examples of a task, in any place.

    Attributes
    ----------
    task : Task
    X, Y : sequence
        Inputs and outputs.
    offsets : dict of str to ndarray of int64, shape (n_examples + 1,)
        First row of each example, by kind.
    rows : dict of str to ndarray, shape (n_parts, n_features), or None
        Features of each kind, where they are in this process.
    """

    task: Task
    X: Any
    Y: Any
    offsets: Mapping[str, IntArray]
    rows: Mapping[str, AnyArray] | None = None

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(next(iter(self.offsets.values()))) - 1

    @abstractmethod
    def bins(self, kind: str, *, exact: bool | None) -> Thresholds:
        """Compute the thresholds of a kind's features (:func:`.binning.bin_thresholds`)."""

    @abstractmethod
    def standardisation(self, kind: str, response: Range) -> Standardisation:
        """Compute the means and scales of a kind's features for linear weak learners."""

    def source(
        self,
        blocks: Blocks,
        first_block: int,
        n_blocks: int,
        weights: FloatArray,
        in_shards: FeaturesInShards,
    ) -> Any:
        """Return the shard of some blocks as plain data, or a Dask value of it."""
        ends = [first_block, first_block + n_blocks]
        first, last = blocks.examples[ends].tolist()
        whole = not blocks.splits_examples
        reads_inputs = whole and self.task.reads_inputs
        return Shard(
            self.task,
            examples_between(self.X, first, last) if reads_inputs else None,
            examples_between(self.Y, first, last) if whole else [],
            weights[first:last],
            {kind: at[first : last + 1] - at[first] for kind, at in self.offsets.items()},
            blocks.run(first_block, n_blocks),
            in_shards,
            {kind: self._features(kind, *blocks.rows[kind][ends].tolist()) for kind in in_shards},
            first,
        )

    def _features(self, kind: str, start: int, stop: int) -> FeaturesOfRows:
        """Return the features of the rows ``start <= p < stop``, for a shard."""
        raise NotImplementedError(f"{type(self).__name__} has neither _features nor source.")


class ArrayTrainingSet(TrainingSet):
    """Training set in this process."""

    rows: Mapping[str, AnyArray]

    def __init__(self, task: Task, X: Examples, Y: Examples) -> None:
        stack = stacked_in_order(task, X)
        self.task, self.X, self.Y = task.for_inputs(X), X, Y
        self.offsets, self.rows = stack.offsets, stack.rows

    @override
    def bins(self, kind: str, *, exact: bool | None) -> Thresholds:
        return bin_thresholds(self.rows[kind], exact=exact)

    @override
    def standardisation(self, kind: str, response: Range) -> Standardisation:
        return Standardisation.of(copied_in_order(self.rows[kind]), response)

    @override
    def _features(self, kind: str, start: int, stop: int) -> GivenRows:
        return GivenRows(self.rows[kind][start:stop])


class TableTrainingSet(TrainingSet):
    """Training set of a table on disk, with one row per example, whose inputs are not read."""

    def __init__(self, task: Task, X: BinnedTable, Y: Examples) -> None:
        kind = kind_of_rows(task, "a BinnedTable")
        self.task, self.X, self.Y = task, X, Y
        self.offsets = {kind: np.arange(len(X) + 1)}

    @override
    def bins(self, kind: str, *, exact: bool | None) -> Thresholds:
        if exact:
            raise ValueError("X is a BinnedTable, already binned; leave exact=False.")
        bins: Thresholds = self.X.bins
        return bins

    @override
    def standardisation(self, kind: str, response: Range) -> Standardisation:
        raise ValueError(
            "X is a BinnedTable, which holds bins and not the features that "
            "weak_learner='linear' needs; give X as an array, or use 'stump'."
        )

    @override
    def _features(self, kind: str, start: int, stop: int) -> StoredCodes:
        return StoredCodes(self.X, start, stop)


def kind_of_rows(task: Task, what: str) -> str:
    """Return the kind of a task with one part per example, which does not read its inputs."""
    kinds = list(task.kinds)
    if len(kinds) != 1 or task.reads_inputs:
        raise TaskError(
            f"X is {what}, which is for tasks with one part per example that do not read the "
            f"inputs (Task.reads_inputs); {type(task).__name__} has the kinds {kinds}."
        )
    return kinds[0]


def is_in_memory(X: Any) -> bool:
    """Whether X is in memory, neither on disk nor a Dask collection."""
    return not (hasattr(X, "__dask_graph__") or isinstance(X, BinnedTable))
