"""Every face that takes a table, with parameters that make it fast, and a small problem."""

from __future__ import annotations

from functools import partial

import numpy as np

from structboost import (
    AdaBoostECCClassifier,
    AdaBoostMHClassifier,
    AdaBoostMOClassifier,
    MultiBoostClassifier,
    MultiBoostCWClassifier,
    MultiBoostECCClassifier,
    MultiBoostMOClassifier,
    ShareBoostClassifier,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructuredSVMClassifier,
)

ROUNDS = {"max_rounds": 3, "random_state": 0}
ITERATIONS = {"max_iter": 3, "random_state": 0}
HINGE = {**ITERATIONS, "objective": "hinge", "C": 5.0}
SVM = {**ITERATIONS, "objective": "svm", "C": 1.0}
CLASSIFIERS = {
    "StructBoost": partial(StructBoostClassifier, **ITERATIONS),
    "StructBoost, hinge": partial(StructBoostClassifier, **HINGE),
    "StructBoost, svm": partial(StructBoostClassifier, **SVM),
    "StructBoost, linear": partial(
        StructBoostClassifier, weak_learner="linear", C=1.0, random_state=0
    ),
    "StructBoost, linear and stump": partial(
        StructBoostClassifier, weak_learner=["linear", "stump"], **HINGE
    ),
    "MultiBoostCW": partial(MultiBoostCWClassifier, **ROUNDS),
    "MultiBoost": partial(MultiBoostClassifier, **ROUNDS),
    "MultiBoost, hinge": partial(MultiBoostClassifier, loss="hinge", C=5.0, **ROUNDS),
    "MultiBoostMO": partial(MultiBoostMOClassifier, **ROUNDS),
    "MultiBoostECC": partial(MultiBoostECCClassifier, **ROUNDS),
    "MultiBoostECC, best": partial(MultiBoostECCClassifier, codes="best", **ROUNDS),
    "AdaBoostMH": partial(AdaBoostMHClassifier, **ROUNDS),
    "AdaBoostMO": partial(AdaBoostMOClassifier, **ROUNDS),
    "AdaBoostECC": partial(AdaBoostECCClassifier, **ROUNDS),
    "ShareBoost": partial(ShareBoostClassifier, **ROUNDS),
    "ShareBoost, stump": partial(ShareBoostClassifier, weak_learner="stump", **ROUNDS),
    "StructuredSVM": partial(StructuredSVMClassifier, max_epochs=20, random_state=0),
}
OTHERS = {
    "Ranker": partial(StructBoostRanker, **ITERATIONS),
    "Ranker, svm": partial(StructBoostRanker, **SVM),
    "MultiLabel": partial(StructBoostMultiLabelClassifier, **ITERATIONS),
    "MultiLabel, hinge": partial(StructBoostMultiLabelClassifier, **HINGE),
}
FACES = {**CLASSIFIERS, **OTHERS}
# Faces whose weak learners are linear functions, or have columns of 0 and 1 for categories.
ENCODING = (
    "StructBoost, svm", "StructBoost, linear", "StructBoost, linear and stump",
    "MultiBoostECC, best", "ShareBoost", "ShareBoost, stump", "StructuredSVM", "Ranker, svm",
)  # fmt: skip

N = 60
_RNG = np.random.default_rng(0)
# Halves, exact in half precision, and small whole numbers.
WIDTH = _RNG.integers(0, 9, N) / 2.0
SIZE = _RNG.integers(0, 4, N).astype(float)
TABLE = np.column_stack((WIDTH, SIZE))
COLOUR = np.array(["red", "green", "blue"])[_RNG.integers(0, 3, N)]
THREE = (WIDTH > 2).astype(int) + (COLOUR == "red")
TWO = ((WIDTH > 2) ^ (COLOUR == "red")).astype(int)
QUERIES = np.repeat(np.arange(6), 10)


def targets(name, classes=THREE):
    """Outputs of the kind of a face."""
    if name.startswith("MultiLabel"):
        return np.column_stack((TWO, 1 - TWO, THREE == 1)).astype(int)
    return classes


def fitted(name, X, y=None, **parameters):
    """Face with a name, fitted to the problem, or to other outputs."""
    model = FACES[name](**parameters)
    y = targets(name) if y is None else y
    return model.fit(X, y, qid=QUERIES) if name.startswith("Ranker") else model.fit(X, y)
