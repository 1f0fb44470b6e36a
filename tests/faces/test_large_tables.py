"""Large tables, whose rows are put in order without a copy, against copies."""

import tracemalloc

import numpy as np
import pytest
from numpy.random import default_rng

from structboost import StructBoostClassifier
from structboost.tasks import base


def _examples(n=240):
    rng = default_rng(0)
    X = rng.standard_normal((n, 4))
    X[:, 3] = rng.integers(3, size=n)
    X[1::7] = X[0]
    y = (X[:, 0] * X[:, 1] > 0) + (X[:, 3] > 1).astype(int)
    return X, y, rng.random(n)


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"early_stopping": True, "n_iter_no_change": 3},
        {"weak_learner": "stump", "max_iter": 10},
        {"weak_learner": ["tree", "linear"], "max_iter": 10},
        {"weak_learner": "linear"},
        {"objective": "hinge", "C": 100.0, "weak_learner": "tree", "max_iter": 5, "tol": 0.5},
        {"objective": "hinge", "C": 100.0, "engine": "processes", "tol": 0.5},
        {"objective": "svm", "C": 100.0},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_models_of_large_tables_are_the_same(parameters, monkeypatch):
    X, y, weights = _examples()
    if "linear" not in str(parameters) and parameters.get("objective") != "svm":
        X[::5, 1] = np.nan
    model = StructBoostClassifier(random_state=0, **parameters)
    expected = model.fit(X, y, weights).decision_function(X)
    monkeypatch.setattr(base, "_MOST_COPIED", 1)
    np.testing.assert_array_equal(model.fit(X, y, weights).decision_function(X), expected)


def test_a_run_on_a_large_table_resumes(tmp_path, monkeypatch):
    X, y, weights = _examples()
    path = tmp_path / "run.npz"
    expected = StructBoostClassifier(max_iter=20).fit(X, y, weights).decision_function(X)
    StructBoostClassifier(max_iter=10, checkpoint=path).fit(X, y, weights)
    monkeypatch.setattr(base, "_MOST_COPIED", 1)
    model = StructBoostClassifier(max_iter=20, checkpoint=path).fit(X, y, weights)
    np.testing.assert_array_equal(model.decision_function(X), expected)


def test_trees_on_a_large_table_take_less_memory_than_a_copy_of_it(monkeypatch):
    monkeypatch.setattr(base, "_MOST_COPIED", 1)
    X = default_rng(0).standard_normal((20_000, 100))
    y = X[:, 0] > 0
    model = StructBoostClassifier(max_iter=2, max_features=1.0)
    model.fit(X[:1000], y[:1000])
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes
