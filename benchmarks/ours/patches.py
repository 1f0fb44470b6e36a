"""ShareBoost over patch templates on images: errors by round, and the cost of a prediction."""

from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.runner.datasets import Table
from structboost import ShareBoostClassifier
from structboost.weak.patch import PatchFamily, Pooling

CHECKPOINTS = (1, 2, 5, 10, 20, 30, 40, 50, 75, 100, 125, 150, 175, 200, 225, 250, 266)
# Compared on held-out training images with 60 random templates; the tolerance lets a new template
# always move.
SETTINGS = {"C": 3000.0, "gradient_tolerance": 1e-4}
IMAGE_SHAPE = (28, 28)
TRAIN_ROWS = 10_000  # of which the training error is taken


def path(train: Table, test: Table, rounds: int) -> dict[str, Any]:
    """Training and test error at the checkpoints; training error on the first 10,000 images."""
    family = partial(PatchFamily, image_shape=IMAGE_SHAPE)
    with threadpool_limits(1):
        fitted = ShareBoostClassifier(max_rounds=rounds, weak_learner=family, **SETTINGS)
        fitted.fit(train.X, train.y)
        reached = [c for c in CHECKPOINTS if c <= len(fitted.history_)]
        stages = {c: fitted.model_.at_stage(c - 1) for c in reached}
        errors = {c: _error(stage, test.X, test.y) for c, stage in stages.items()}
        first = Table(train.X[:TRAIN_ROWS], train.y[:TRAIN_ROWS])
        train_errors = {c: _error(stage, *first) for c, stage in stages.items()}
    records = {c: fitted.history_[c - 1] for c in reached}
    table = fitted.model_.members["x"].learners
    pooling = Pooling(*table.pooling.tolist())
    positions = (pooling.height - pooling.side + 1) * (pooling.width - pooling.side + 1)
    per_template = positions * pooling.side**2
    return {
        "test": errors,
        "train": train_errors,
        "loss": {c: r["primal"] for c, r in records.items()},
        "seconds": {c: r["seconds"] for c, r in records.items()},
        "value": errors[max(errors)],
        "templates": len(table.templates),
        "scalars": len(table),
        "multiply_adds": len(table.templates) * per_template + len(table) * len(fitted.classes_),
    }


def _error(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(model.scores(X).argmax(axis=1) != y))
