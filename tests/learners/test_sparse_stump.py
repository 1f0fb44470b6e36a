"""Stumps on sparse tables are those of the same table with its zeros."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from scipy import sparse

from structboost import (
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
)


def labelled(n=300):
    """Features of few values of both signs, one without zeros, one without entries."""
    rng = np.random.default_rng(4)
    X = np.round(2 * rng.normal(size=(n, 4)), 1) * (rng.random((n, 4)) < 0.4)
    X[:, 2] = rng.choice([-1.5, 0.5, 2.0], size=n)
    X[:, 3] = 0.0
    return X, ((X[:, 0] > 0.4) | (X[:, 2] + X[:, 1] > 1.5) ^ (rng.random(n) < 0.05)).astype(int)


def test_a_sparse_fit_reaches_the_objective_of_the_dense_one():
    X, y = labelled()
    rows, model = sparse.csr_array(X), StructBoostClassifier(objective="hinge", C=20.0, tol=1e-4)
    objective = model.set_params(exact=True).fit(X, y).objective_
    assert model.set_params(exact=None).fit(rows, y).objective_ == pytest.approx(
        objective, rel=2e-4
    )
    assert model.history_[-1]["certified"]
    np.testing.assert_array_equal(model.decision_function(rows), model.decision_function(X))


def test_frames_of_sparse_columns_without_zeros_between_are_named():
    X, y = labelled()
    frame = pandas.DataFrame(X, columns=list("abcd")).astype(pandas.SparseDtype(float, 0.0))
    model = StructBoostClassifier(objective="hinge", C=20.0, max_iter=2).fit(frame, y)
    with pytest.raises(ValueError, match=r"Column 'b'.*fill value nan.*sparse.to_dense"):
        model.predict(frame.assign(b=pandas.arrays.SparseArray(X[:, 1], fill_value=np.nan)))


@pytest.mark.slow
def test_faces_take_sparse_tables_with_held_out_parts():
    X, y = labelled()
    rows, sets, common = sparse.csr_array(X), np.column_stack((y, 1 - y)), {"random_state": 0}
    queries = {"qid": np.arange(len(y)) // 60}
    hinge = {"objective": "hinge", "C": 20.0, "max_iter": 20}
    for stopping in (False, True):
        for face, targets, fit in (
            (StructBoostClassifier, y, {}),
            (StructBoostRanker, y, queries),
            (StructBoostMultiLabelClassifier, sets, {}),
        ):
            model = face(early_stopping=stopping, **hinge, **common).fit(rows, targets, **fit)
            right = (model.predict(rows) == targets).mean()
            assert (model.score(rows, y, **fit) if face is StructBoostRanker else right) > 0.85
            assert model.feature_importances_.shape == (4,)


def test_what_a_sparse_table_cannot_have_is_named():
    X, y = labelled()
    rows = sparse.csr_array(X)
    with pytest.raises(ValueError, match="X is sparse, with which monotonic_cst"):
        StructBoostClassifier(monotonic_cst=[0] * 4).fit(rows, y)
    with pytest.raises(ValueError, match=r"X is sparse, and columns \[1\] of the training set"):
        StructBoostClassifier(max_iter=2, categorical_features=[1]).fit(X, y).predict(rows)
    row, column = np.argwhere(X)[3]
    for kind in (sparse.csr_array, sparse.csc_array):
        for bad, message in ((np.nan, "NaN"), (np.inf, "infinity")):
            rows.data[3] = bad
            where = f"contains {message}, first in sample {row}, feature {column}"
            with pytest.raises(ValueError, match=where):
                StructBoostClassifier().fit(kind(rows), y)
