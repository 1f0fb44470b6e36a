"""Small examples of the four boosted faces, from the same rows and classes, and the others."""

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
    StructBoostTagger,
)

CODED = [
    AdaBoostMOClassifier, AdaBoostMHClassifier, AdaBoostECCClassifier, MultiBoostMOClassifier,
    MultiBoostECCClassifier, MultiBoostClassifier, MultiBoostCWClassifier, ShareBoostClassifier,
]  # fmt: skip
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(150, 3))
Y = ((X[:, 0] > 0) + (X[:, 1] + _RNG.normal(size=150) > X[:, 2])).astype(int)


def examples(face, classes=Y):
    """Arguments of ``fit``, from a class for each row."""
    if face is StructBoostMultiLabelClassifier:
        return X, np.column_stack((classes == 0, classes > 0, X[:, 0] + X[:, 2] > 1)).astype(int)
    if face is StructBoostTagger:
        return np.split(X, 30), [tags.tolist() for tags in np.split(classes, 30)]
    return (X, classes, np.arange(150) // 10) if face is StructBoostRanker else (X, classes)


FOUR = (
    StructBoostClassifier, StructBoostRanker, StructBoostTagger, StructBoostMultiLabelClassifier,
)  # fmt: skip
DATA = {face: examples(face) for face in FOUR}
