"""Checkpoints."""

from __future__ import annotations

from functools import partial

import numpy as np

from structboost import (
    Checkpoint,
    MulticlassTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostTagger,
)
from structboost.objectives import Exponential
from tests.helpers.damaged_files.data import X, Y
from tests.helpers.damaged_files.kind import Kind
from tests.helpers.damaged_files.structures import sentences


def checkpoint(made=None, data=(X, Y), **parameters):
    if made is None:
        made = partial(StructBoost, MulticlassTask(3), C=50, tol=1e-6)

    def fit(folder, max_rounds):
        file = Checkpoint(folder / "file", rounds=1)
        rounds = {"max_iter" if hasattr(made, "max_iter") else "max_rounds": max_rounds}
        return made(checkpoint=file, **rounds, **parameters).fit(*data)

    def use(folder):
        fitted = fit(folder, 5)
        return [
            [{**record, "seconds": 0} for record in fitted.history_],
            fitted.model_.weights.tolist(),
            np.asarray(fitted.predict(data[0]), dtype=object).tolist(),
        ]

    return Kind(lambda folder: fit(folder, 4), "file", use)


KINDS = {
    "checkpoint": checkpoint(),
    "checkpoint of trees": checkpoint(weak_learner="tree"),
    "checkpoint of pairs": checkpoint(formulation=Exponential(), random_state=0),
    "checkpoint of the default": checkpoint(StructBoostClassifier),
    "checkpoint of the default tagger": checkpoint(StructBoostTagger, sentences(False)),
}
