"""Equal values give equal models, whatever type of table holds them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

from structboost import (
    MultiBoostMOClassifier,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructuredSVMClassifier,
)

RNG = np.random.default_rng(0)
X = np.abs(RNG.normal(size=(150, 4)) * 3).round() * (RNG.random((150, 4)) < 0.6)
Y = ((X[:, 0] - X[:, 1] + RNG.normal(size=150)) > 0) + (X[:, 2] > 2)
DENSE = {
    "single precision": np.float32(X),
    "bytes": np.uint8(X),
    "int64": np.int64(X),
    "big-endian": X.astype(">f8"),
    "Fortran": np.asfortranarray(X),
    "minus zero": np.where(X == 0, -0.0, X),
}
SPARSE = {"csr": sparse.csr_array(X), "csc": sparse.csc_array(np.float32(X))}


def fitted(face, table, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = face(random_state=0, **parameters)
        if face is StructBoostRanker:
            return model.fit(table, Y, qid=np.repeat(np.arange(15), 10))
        sets = np.column_stack((Y > 0, Y == 1, Y == 2))
        return model.fit(table, sets if face is StructBoostMultiLabelClassifier else Y)


# Sparse stumps and linear functions have searches of their own, which break ties otherwise.
TREES = (
    (StructBoostClassifier, {}),
    (StructBoostClassifier, {"early_stopping": True, "max_iter": 40}),
    (StructBoostClassifier, {"objective": "hinge", "weak_learner": "tree", "max_iter": 10}),
    (StructBoostRanker, {"max_iter": 20}),
    (StructBoostMultiLabelClassifier, {"max_iter": 20}),
)
OTHERS = (
    (StructBoostClassifier, {"objective": "hinge"}),
    (StructBoostClassifier, {"objective": "l1_log_loss", "max_iter": 20}),
    (StructBoostClassifier, {"objective": "exponential", "max_iter": 20}),
    (StructBoostClassifier, {"objective": "svm"}),
    (StructBoostClassifier, {"weak_learner": "linear"}),
    (StructBoostRanker, {"objective": "hinge", "max_iter": 20}),
    (StructBoostMultiLabelClassifier, {"objective": "hinge", "max_iter": 20}),
    (StructuredSVMClassifier, {}),
    (MultiBoostMOClassifier, {"max_rounds": 20}),
)


@pytest.mark.slow
@pytest.mark.parametrize(("face", "parameters"), [*TREES, *OTHERS])
def test_dense_tables_of_equal_values_give_equal_models(face, parameters):
    expected = fitted(face, X, **parameters).decision_function(X)
    for name, table in DENSE.items():
        found = fitted(face, table, **parameters).decision_function(X)
        np.testing.assert_array_equal(found, expected, name)


@pytest.mark.slow
@pytest.mark.parametrize(("face", "parameters"), TREES)
def test_trees_on_sparse_tables_are_those_on_dense_ones(face, parameters):
    expected = fitted(face, X, **parameters).decision_function(X)
    for name, table in SPARSE.items():
        found = fitted(face, table, **parameters).decision_function(X)
        np.testing.assert_array_equal(found, expected, name)
