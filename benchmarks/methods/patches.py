"""ShareBoost over patch templates on images: errors round by round, and what a prediction costs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.methods.base import Table

CHECKPOINTS = (1, 2, 5, 10, 20, 30, 40, 50, 75, 100, 125, 150, 175, 200, 225, 250, 266)
# Compared on held-out training images with 60 random templates; the tolerance lets a new template always move.
SETTINGS = {"C": 3000.0, "gradient_tolerance": 1e-4}
IMAGE_SHAPE = (28, 28)


def path(train: Table, test: Table, rounds: int) -> dict[str, Any]:
    """Training and test error at the checkpoints; the training error on the first 10,000 images."""
    from structboost import ShareBoostClassifier
    from structboost.weak.patch import PatchFamily, Pooling

    seen: dict[str, dict[int, float]] = {"test": {}, "train": {}, "loss": {}, "seconds": {}}
    watched = {"test": test, "train": Table(train.X[:10_000], train.y[:10_000])}

    def watch(record: Mapping[str, Any], trainer: Any) -> None:
        if record["round"] not in CHECKPOINTS:
            return
        model = trainer._run.current_model()
        for name, part in watched.items():
            seen[name][record["round"]] = float(np.mean(model.scores(part.X).argmax(axis=1) != part.y))
        seen["loss"][record["round"]] = record["primal"]
        seen["seconds"][record["round"]] = record["seconds"]
        sys.stderr.write(f"  round {record['round']}: test error {seen['test'][record['round']]:.4f}\n")

    family = partial(PatchFamily, image_shape=IMAGE_SHAPE)
    with threadpool_limits(1):
        fitted = ShareBoostClassifier(max_rounds=rounds, weak_learner=family, callbacks=[watch], **SETTINGS)
        fitted.fit(train.X, train.y)
    table = fitted.model_.members["x"].learners
    pooling = Pooling(*table.pooling.tolist())
    positions = (pooling.height - pooling.side + 1) * (pooling.width - pooling.side + 1)
    n_classes = len(fitted.classes_)
    return {
        **seen,
        "value": seen["test"][max(seen["test"])],
        "templates": len(table.templates),
        "scalars": len(table),
        "multiply_adds": len(table.templates) * positions * pooling.side**2 + len(table) * n_classes,
    }
