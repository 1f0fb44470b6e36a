"""Training examples as shards are made of them: here in memory, on disk, or spread over a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.binned_table import BinnedTable, StoredCodes
from structboost.exceptions import TaskError
from structboost.row_blocks import Blocks
from structboost.shards.shard import ShardSource, examples_between
from structboost.task import StackedParts, Task
from structboost.weak.binning import Thresholds, bin_thresholds

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class Examples(ABC):
    """All training examples of a task.

    Attributes
    ----------
    task : Task
    offsets : dict of str to ndarray of int64, shape (n_examples + 1,)
        First row of each example, by kind.
    n_features : dict of str to int
    """

    task: Task
    offsets: Mapping[str, IntArray]
    n_features: Mapping[str, int]

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(next(iter(self.offsets.values()))) - 1

    @abstractmethod
    def bins(self, kind: str, *, exact: bool) -> Thresholds:
        """Thresholds of the features of a kind (:func:`structboost.weak.binning.bin_thresholds`)."""

    @abstractmethod
    def source(
        self, blocks: Blocks, first_block: int, n_blocks: int, weights: FloatArray, bins: Mapping[str, Thresholds]
    ) -> Any:
        """What the shard of some blocks is made of: a :class:`ShardSource`, or what an engine knows to make one of.

        Parameters
        ----------
        blocks : Blocks
            Of all examples.
        first_block, n_blocks : int
        weights : ndarray, shape (n_examples,)
        bins : dict of str to Thresholds
            Of the kinds that are to be binned.
        """


class HomeExamples(Examples):
    """Examples in this process.

    Parameters
    ----------
    task : Task
    X, Y : sequence
    """

    def __init__(self, task: Task, X: Sequence[Any], Y: Sequence[Any]) -> None:
        self.task, self.X, self.Y = task, X, Y
        self.stack: StackedParts = task.stack(X)
        self.offsets = self.stack.offsets
        self.n_features = {kind: rows.shape[1] for kind, rows in self.stack.rows.items()}

    def bins(self, kind: str, *, exact: bool) -> Thresholds:
        """From the features."""
        return bin_thresholds(self.stack.rows[kind], exact=exact)

    def source(
        self, blocks: Blocks, first_block: int, n_blocks: int, weights: FloatArray, bins: Mapping[str, Thresholds]
    ) -> ShardSource:
        """Slices of what is here."""
        rows = {}
        for kind in bins:
            start, stop = _between(blocks.rows[kind], first_block, n_blocks)
            rows[kind] = self.stack.rows[kind][start:stop]
        X = self.X if self.task.reads_inputs else None
        return shard_source(self.task, X, self.Y, self.offsets, blocks, first_block, n_blocks, weights, bins, rows, {})


class TableExamples(Examples):
    """Rows of a table on disk, one an example.

    Raises
    ------
    TaskError
        If the task has several kinds of parts, or looks at its inputs.
    """

    def __init__(self, task: Task, X: BinnedTable, Y: Sequence[Any]) -> None:
        self._kind = kind_of_rows(task, "a BinnedTable")
        self.task, self.X, self.Y = task, X, Y
        self.offsets = {self._kind: np.arange(len(X) + 1)}
        self.n_features = {self._kind: X.shape[1]}

    def bins(self, kind: str, *, exact: bool) -> Thresholds:
        """Those of the table."""
        if exact:
            raise ValueError("X is a BinnedTable, binned already; leave exact=False.")
        return self.X.bins

    def source(
        self, blocks: Blocks, first_block: int, n_blocks: int, weights: FloatArray, bins: Mapping[str, Thresholds]
    ) -> ShardSource:
        """Where on disk the rows are."""
        codes = {self._kind: StoredCodes(self.X.path, *_between(blocks.rows[self._kind], first_block, n_blocks))}
        return shard_source(
            self.task, None, self.Y, self.offsets, blocks, first_block, n_blocks, weights, bins, {}, codes
        )


def shard_source(
    task: Task,
    X: Sequence[Any] | None,
    Y: Sequence[Any],
    offsets: Mapping[str, IntArray],
    blocks: Blocks,
    first_block: int,
    n_blocks: int,
    weights: FloatArray,
    bins: Mapping[str, Thresholds],
    rows: Mapping[str, NDArray[Any]],
    codes: Mapping[str, StoredCodes],
) -> ShardSource:
    """Source of the shard of some blocks, X, Y, weights and offsets being those of all examples."""
    first, last = _between(blocks.examples, first_block, n_blocks)
    whole = not blocks.splits_examples
    return ShardSource(
        task,
        examples_between(X, first, last) if X is not None and whole else None,
        examples_between(Y, first, last) if whole else [],
        weights[first:last],
        {kind: starts[first : last + 1] - starts[first] for kind, starts in offsets.items()},
        blocks.run(first_block, n_blocks),
        bins,
        rows,
        codes,
        first,
    )


def kind_of_rows(task: Task, what: str) -> str:
    """The kind of a task with one part an example, which does not look at its inputs.

    Raises
    ------
    TaskError
        If it is another task.
    """
    kinds = list(task.kinds)
    if len(kinds) != 1 or task.reads_inputs:
        raise TaskError(
            f"X is {what}, which is for tasks of one part an example that do not look at the inputs "
            f"(Task.reads_inputs); {type(task).__name__} has the kinds {kinds}."
        )
    return kinds[0]


def _between(starts: IntArray, first_block: int, n_blocks: int) -> tuple[int, int]:
    return int(starts[first_block]), int(starts[first_block + n_blocks])
