"""Every face that takes a table, by a short name, and a small problem."""

from functools import partial

import numpy as np
from sklearn.base import clone

from tests.battery import table_of_faces
from tests.battery.examples_of_tables import Costs, Tables


def _made(estimator, **parameters):
    return clone(estimator).set_params(random_state=0, **parameters)


FACES = {
    name.replace("Classifier", "")
    .replace("StructBoostM", "M")
    .replace("StructBoostR", "R"): partial(_made, estimator)
    for name, (estimator, kind, *_) in table_of_faces.FACES.items()
    if isinstance(kind, Tables)
    and not isinstance(kind, Costs)
    and not {"Cross", "frames"} & {name[:5], name[-6:]}
}
for name, parameters in {
    "StructBoost, hinge": {"weak_learner": ["linear", "stump"]},
    "MultiBoost": {"loss": "hinge", "C": 5.0},
    "MultiBoostECC": {"codes": "best"},
    "ShareBoost": {"weak_learner": "stump"},
    "Ranker": {"objective": "svm", "C": 1.0},
}.items():
    FACES[f"{name}, variant"] = partial(FACES[name], **parameters)
CLASSIFIERS = {
    name: face for name, face in FACES.items() if not name.startswith(("Ranker", "MultiLabel"))
}
# Faces whose weak learners are linear functions, or have columns of 0 and 1 for categories.
ENCODING = (
    "StructBoost, svm", "StructBoost, linear", "StructBoost, hinge, variant",
    "MultiBoostECC, variant", "ShareBoost", "ShareBoost, variant", "StructuredSVM",
    "Ranker, variant",
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
