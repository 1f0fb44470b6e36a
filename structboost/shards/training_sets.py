"""Which training set X and Y are: in memory, on disk, or in Dask collections."""

from __future__ import annotations

from typing import Any

from structboost.contract.task import Task
from structboost.shards.binned_table import BinnedTable
from structboost.shards.examples import ArrayTrainingSet, TableTrainingSet, TrainingSet
from structboost.validation import check_examples


def training_set(task: Task, X: Any, Y: Any) -> TrainingSet:
    """The training set that X and Y are, by where X is; an error if the task does not fit them."""
    if hasattr(X, "__dask_graph__"):
        from structboost.shards.dask_examples import dask_training_set  # needs Dask

        return dask_training_set(task, X, Y)
    check_examples(X, Y)
    return (TableTrainingSet if isinstance(X, BinnedTable) else ArrayTrainingSet)(task, X, Y)


def is_in_memory(X: Any) -> bool:
    """Whether examples can be picked from X, which is neither on disk nor a Dask collection."""
    return not (hasattr(X, "__dask_graph__") or isinstance(X, BinnedTable))
