"""Trainers by the names that their models store."""

from __future__ import annotations

from structboost.contract.task import Task
from structboost.files.schema import DamagedFileError
from structboost.linear.structured_svm import StructuredSVM
from structboost.model.ensemble import Ensemble
from structboost.training.boosting import StructBoost
from structboost.training.trainer import Trainer

_BY_NAME: dict[str, type[Trainer]] = {of.__name__: of for of in (StructBoost, StructuredSVM)}


def trainer_of(model: Ensemble, task: Task) -> Trainer:
    """Make a fitted trainer of a model, of the class that trained it.

    That the task has the same kinds of
    parts as in training is not checked.  DamagedFileError if there is no trainer of the name in the
    model.
    """
    name = model.metadata["trainer"]
    if name not in _BY_NAME:
        raise DamagedFileError(f"its trainer is {name!r:.60}")
    return _BY_NAME[name].from_model(model, task)
