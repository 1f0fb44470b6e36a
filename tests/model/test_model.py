"""The trained model: compiled forms, files, importances."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris

from structboost import (
    ConvergenceDisplay,
    MulticlassTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostRanker,
    load_model,
)
from structboost.errors import EmptyModelWarning
from structboost.learners.table import StumpTable
from structboost.model.ensemble import FORMAT
from tests.helpers.damaged_files.archives import put_together, taken_apart
from tests.helpers.refusals import refused

X, y = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def classifier():
    return StructBoostClassifier("hinge", C=50).fit(X, np.array(["a", "b", "c"])[y])


def summed_answers(model):
    """What scores are by definition: answers of all learners times their weights."""
    learners, weights = model.members["x"].learners, model.matrix("x")
    return lambda points: learners.responses(np.asarray(points, float)).T @ weights


def test_a_file_of_an_estimator_is_read_with_the_name_of_its_class(tmp_path):
    X = np.arange(8.0)[:, None]
    estimator = StructBoostClassifier(max_iter=2).fit(X, X[:, 0] > 3)
    estimator.save(tmp_path / "e")
    with pytest.warns(UserWarning, match=r"StructBoostClassifier\.load reads it with labels"):
        model = load_model(tmp_path / "e")
    assert_array_equal(model.scores(X, "x"), estimator.model_.scores(X, "x"))


@given(st.integers(0, 10**6), st.integers(0, 12), st.integers(1, 3))
def test_tables_of_any_stumps_are_their_sum(seed, n_stumps, n_channels):
    rng = default_rng(seed)
    stumps = StumpTable(
        rng.integers(0, 3, n_stumps),
        rng.choice([-np.inf, np.inf, -1.0, 0.0, 0.5, 2.0], n_stumps),
        rng.normal(size=n_stumps),
        rng.normal(size=n_stumps),
    )
    weights = rng.normal(size=(n_stumps, n_channels)) * (rng.random((n_stumps, 1)) < 0.7)
    rows = rng.choice([-3.0, -1.0, 0.0, 0.25, 0.5, 2.0, 9.0], (20, 3))
    assert_allclose(
        stumps.scorer(weights, 3).raw_scores(rows), stumps.responses(rows).T @ weights, atol=1e-12
    )
    # Sums of numbers that are not negative stay so despite rounding, as energies of edges must.
    kept = StumpTable(stumps.feature, stumps.threshold, *np.abs((stumps.left, stumps.right)))
    kept = replace(kept, right=np.where(rng.random(n_stumps) < 0.5, 0.0, kept.right))
    assert (kept.scorer(np.abs(weights), 3).raw_scores(rows) >= 0).all()


@pytest.mark.parametrize("family", ["stump", "tree", "perceptron", "feature"])
def test_predictions_and_stages_are_those_of_the_learners(family):
    fitted = StructBoostClassifier("hinge", C=20, max_iter=6, weak_learner=family).fit(X, y)
    stages = [*fitted.model_.staged(), fitted.model_]
    predicted = [*fitted.staged_predict(X), fitted.predict(X)]
    for model, labels in zip(stages, predicted, strict=True):
        expected = summed_answers(model)(X)
        assert_allclose(model.scores(X), expected, atol=1e-9)
        assert_array_equal(labels, expected.argmax(axis=1))
        assert_array_equal(model.stages[-1], model.weights)


@pytest.mark.parametrize("family", ["stump", "tree"])
def test_scores_do_not_depend_on_the_type_of_the_table(family):
    whole = np.round(10 * X).astype(np.uint8)
    fitted = StructBoostClassifier("hinge", C=20, max_iter=6, weak_learner=family).fit(whole, y)
    expected = fitted.model_.scores(whole.astype(float))
    for dtype in (np.uint8, np.int16, np.int64, np.float32):
        assert_array_equal(fitted.model_.scores(whole.astype(dtype)), expected)


def test_scores_do_not_depend_on_the_order_of_the_table_in_memory():
    # One channel: a matrix times a vector, for which kernels differ.
    rows = default_rng(0).normal(size=(60, 5))
    ranker = StructBoostRanker("svm", C=1.0)
    model = ranker.fit(rows, (rows[:, 0] > 0).astype(int), qid=np.arange(60) // 10).model_
    assert_array_equal(model.scores(np.asfortranarray(rows)), model.scores(rows))


def test_large_tables_are_scored_by_threads_to_the_same_bits(monkeypatch):
    pool = Mock(side_effect=ThreadPoolExecutor)
    monkeypatch.setattr("structboost.model.ensemble.ThreadPoolExecutor", pool)
    fitted = StructBoostClassifier(max_iter=2).fit(X, y).set_params(n_jobs=2)
    expected = fitted.predict_proba(X)
    monkeypatch.setattr("structboost.model.ensemble._ROWS_OF_THREAD", 7)
    assert_array_equal(fitted.predict_proba(X), expected)
    pool.assert_called_once_with(2)


def test_the_compiled_form_is_made_once_by_many_threads_and_never_pickled(classifier):
    model = pickle.loads(pickle.dumps(replace(classifier.model_)))
    size = len(pickle.dumps(model))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: model.scores(X), range(20)))
    assert_array_equal(found, [classifier.model_.scores(X)] * 20)
    assert model.compile() is model.scorer()
    assert len(pickle.dumps(model)) == size


def test_newer_versions_are_refused(classifier, tmp_path, monkeypatch):
    monkeypatch.setattr("structboost.model.ensemble.FORMAT", replace(FORMAT, version=2))
    classifier.save(tmp_path / "m")
    monkeypatch.undo()
    refused("version 2", load_model, tmp_path / "m")


@pytest.mark.parametrize("name", ["n_features", "n_channels"])
def test_a_file_of_no_features_or_channels_is_refused(name, tmp_path):
    path = tmp_path / "model"
    # Without learners no other entry is out of its range.
    with pytest.warns(EmptyModelWarning):
        StructBoost(MulticlassTask(3), C=1e-3).fit(X, y).model_.save(path)
    assert load_model(path).n_learners == 0
    header, arrays = taken_apart(path.read_bytes())
    header["kinds"]["x"][name] = 0
    path.write_bytes(put_together(header, arrays, sealed=True))
    refused(f"its {name} is 0", load_model, path)


def test_importances_are_shares_of_the_absolute_weights(classifier, monkeypatch):
    # A few learners at a time.
    monkeypatch.setattr("structboost.model.ensemble._MOST_SHARES", 12)
    model = replace(classifier.model_, weights=-classifier.model_.weights)
    stumps, sizes = model.members["x"].learners, np.abs(model.matrix("x")).sum(axis=1)
    split = np.isfinite(stumps.threshold)
    expected = np.bincount(stumps.feature[split], sizes[split], minlength=4)
    assert expected.sum() > 2  # as weights of sum 1 their shares would be no test
    assert_allclose(model.feature_importances(), expected / expected.sum())


def test_a_learner_on_several_channels_counts_once_and_one_without_weight_not_at_all(classifier):
    model = classifier.model_.at_stage(5)
    used = [bool(row.any()) for row in model.matrix("x")]
    assert model.matrix("x").shape[1] < sum(used) < len(used)
    assert model.n_learners == sum(used)


def test_wrong_width_and_infinity_are_named(classifier):
    refused("4 features", classifier.model_.scores, X[:, :3])
    refused(
        r"features\[1\] has infinite",
        classifier.model_.scores,
        [[1, np.nan, 3, 4], [1, np.inf, 3, 4]],
    )


def test_convergence_display(classifier):
    pytest.importorskip("matplotlib").use("Agg")
    display = ConvergenceDisplay.from_estimator(classifier)
    bound = display.ax_[0].get_lines()[1]
    assert bound.get_label() == "lower bound"
    assert_array_equal(bound.get_ydata(), [r["bound"] for r in classifier.history_])
    refused("not fitted", ConvergenceDisplay.from_estimator, StructBoostClassifier())
