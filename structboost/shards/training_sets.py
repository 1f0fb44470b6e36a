"""Choice of the training set of X and Y, in memory, on disk, or in Dask collections."""

from __future__ import annotations

from typing import Any

from structboost.contract.task import Task
from structboost.shards.binned_table import BinnedTable
from structboost.shards.examples import ArrayTrainingSet, TableTrainingSet, TrainingSet
from structboost.validation import check_examples


def training_set(task: Task, X: Any, Y: Any) -> TrainingSet:
    """Return the training set of X and Y in memory, on disk, or in Dask collections."""
    if hasattr(X, "__dask_graph__"):
        from structboost.shards.dask_examples import dask_training_set  # needs Dask

        return dask_training_set(task, X, Y)
    check_examples(X, Y)
    return (TableTrainingSet if isinstance(X, BinnedTable) else ArrayTrainingSet)(task, X, Y)


def is_in_memory(X: Any) -> bool:
    """Whether X is in memory, neither on disk nor a Dask collection."""
    return not (hasattr(X, "__dask_graph__") or isinstance(X, BinnedTable))
