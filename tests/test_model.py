"""The learned model: look-up tables, files, importances."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris

from structboost import ConvergenceDisplay, StructBoostClassifier, StructBoostRanker, load_model
from structboost.exceptions import ModelFileError

X, y = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def classifier():
    return StructBoostClassifier(C=50).fit(X, np.array(["a", "b", "c"])[y])


def test_look_up_tables_score_the_same(classifier):
    table = classifier.model_.compile()
    points = np.vstack((X, X + 0.05, np.full((1, 4), -1e9), np.full((1, 4), 1e9)))
    assert np.allclose(table.scores(points), classifier.model_.scores(points), atol=1e-12, rtol=1e-12)
    on_threshold = np.tile(X.mean(axis=0), (len(table.thresholds), 1))
    feature = np.repeat(table.features, np.diff(table.indptr))
    on_threshold[np.arange(len(feature)), feature] = table.thresholds
    assert np.allclose(table.scores(on_threshold), classifier.model_.scores(on_threshold), atol=1e-12)


def test_files_give_equal_predictions(classifier, tmp_path):
    classifier.save(tmp_path / "iris.model")
    loaded = StructBoostClassifier.load(tmp_path / "iris.model")
    assert np.array_equal(loaded.decision_function(X), classifier.decision_function(X))
    assert np.array_equal(loaded.predict(X), classifier.predict(X))
    assert loaded.get_params() == classifier.get_params()
    for a, b in zip(loaded.staged_predict(X), classifier.staged_predict(X), strict=True):
        assert np.array_equal(a, b)
    ranker = StructBoostRanker(C=5).fit(X, y)
    ranker.save(tmp_path / "ranker.model")
    assert np.array_equal(StructBoostRanker.load(tmp_path / "ranker.model").predict(X), ranker.predict(X))
    with pytest.raises(ModelFileError, match="StructBoostRanker"):
        StructBoostClassifier.load(tmp_path / "ranker.model")


def test_foreign_and_damaged_files_are_refused(classifier, tmp_path):
    path = tmp_path / "m"
    with pytest.raises(FileNotFoundError, match="no model file"):
        load_model(path)
    classifier.save(path)
    whole = path.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(ModelFileError):
            load_model(path)
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ModelFileError):
        load_model(path)
    with open(path, "wb") as file:
        np.savez(file, weights=np.zeros(3))
    with pytest.raises(ModelFileError):
        load_model(path)


def test_newer_versions_are_refused(classifier, tmp_path, monkeypatch):
    monkeypatch.setattr("structboost.model_file._VERSION", 2)
    classifier.save(tmp_path / "m")
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="version 2"):
        load_model(tmp_path / "m")


def test_saving_is_all_or_nothing(classifier, tmp_path, monkeypatch):
    path = tmp_path / "m"
    classifier.save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr("structboost.plain_file.np.savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        classifier.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_importances_find_the_feature_that_matters():
    rng = np.random.default_rng(0)
    made = rng.normal(size=(200, 5))
    importances = StructBoostClassifier(C=10).fit(made, made[:, 3] > 0).feature_importances_
    assert importances.sum() == pytest.approx(1)
    assert importances.argmax() == 3
    assert importances[3] > 0.8


def test_wrong_width_and_nan_are_named(classifier):
    with pytest.raises(ValueError, match="4 features"):
        classifier.model_.scores(X[:, :3])
    with pytest.raises(ValueError, match=r"features\[1\] has NaN"):
        classifier.model_.compile().scores([[1, 2, 3, 4], [1, np.nan, 3, 4]])


def test_convergence_display(classifier):
    pytest.importorskip("matplotlib").use("Agg")
    display = ConvergenceDisplay.from_estimator(classifier, x="seconds", name="iris")
    primal, bound = (line.get_ydata() for line in display.ax_[0].get_lines()[:2])
    assert (np.asarray(primal) >= np.asarray(bound)).all()
    with pytest.raises(ValueError, match="not fitted"):
        ConvergenceDisplay.from_estimator(StructBoostClassifier())
