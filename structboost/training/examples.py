"""Training sets in memory, on disk, or on a cluster, from which shards are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.calls import stacked_in_order
from structboost.contract.parts import StackedParts
from structboost.contract.task import Task
from structboost.errors import TaskError
from structboost.learners.binning import Thresholds, bin_thresholds
from structboost.learners.responses import FeaturesOfRows
from structboost.learners.standardisation import Standardisation
from structboost.runtime.blocks import Blocks
from structboost.training.engines import Engine
from structboost.training.shards import FeaturesInShards, GivenRows, Shard, examples_between
from structboost.training.table_on_disk import BinnedTable, StoredCodes
from structboost.validation import copied_in_order


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
    rows: Mapping[str, NDArray[Any]] | None = None

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(next(iter(self.offsets.values()))) - 1

    def check_engine(self, engine: Engine) -> None:
        """Raise ValueError if an engine cannot make shards of these examples."""
        return

    @abstractmethod
    def bins(self, kind: str, *, exact: bool | None) -> Thresholds:
        """Compute the thresholds of a kind's features (:func:`.binning.bin_thresholds`)."""

    @abstractmethod
    def standardisation(self, kind: str, response: tuple[float, float]) -> Standardisation:
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
        ends = first_block, first_block + n_blocks
        first, last = (int(blocks.examples[b]) for b in ends)
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
            {
                kind: self._features(kind, *(int(blocks.rows[kind][b]) for b in ends))
                for kind in in_shards
            },
            first,
        )

    def _features(self, kind: str, start: int, stop: int) -> FeaturesOfRows:
        """Return the features of the rows ``start <= p < stop``, for a shard."""
        raise NotImplementedError(f"{type(self).__name__} has neither _features nor source.")


class ArrayTrainingSet(TrainingSet):
    """Training set in this process."""

    def __init__(self, task: Task, X: Sequence[Any], Y: Sequence[Any]) -> None:
        stack: StackedParts = stacked_in_order(task, X)
        self.task, self.X, self.Y = task.for_inputs(X), X, Y
        self.offsets, self.rows = stack.offsets, stack.rows

    @override
    def bins(self, kind: str, *, exact: bool | None) -> Thresholds:
        assert self.rows is not None
        return bin_thresholds(self.rows[kind], exact=exact)

    @override
    def standardisation(self, kind: str, response: tuple[float, float]) -> Standardisation:
        assert self.rows is not None
        return Standardisation.of(copied_in_order(self.rows[kind]), response)

    @override
    def _features(self, kind: str, start: int, stop: int) -> GivenRows:
        assert self.rows is not None
        return GivenRows(self.rows[kind][start:stop])


class TableTrainingSet(TrainingSet):
    """Training set of a table on disk, with one row per example, whose inputs are not read."""

    def __init__(self, task: Task, X: BinnedTable, Y: Sequence[Any]) -> None:
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
    def standardisation(self, kind: str, response: tuple[float, float]) -> Standardisation:
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
