"""Exported models decide as ours do: also at the thresholds, and in single precision."""

import json
import sys

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_wine

from structboost import (
    ChainTask,
    Ensemble,
    MulticlassTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostRanker,
    to_onnx,
)
from structboost.objectives import Exponential, SoftmaxLink

pytest.importorskip("onnxruntime")

from tests.export.onnx_sessions import run

X, Y = load_wine(return_X_y=True)
QUICK = {"objective": "hinge", "C": 30, "max_iter": 10, "tol": 0.1}


def thresholds_of(model):
    """Features and thresholds of all stumps or trees of a model."""
    tables = model.members["x"].learners
    for table in getattr(tables, "tables", (tables,)):
        if hasattr(table, "threshold"):
            yield from zip(table.feature.ravel(), table.threshold.ravel(), strict=True)


def rows_at_thresholds(model, table):
    """The table in single precision, with the numbers around each threshold put into it."""
    rows = np.concatenate([table.astype(np.float32)] * 3)
    place = 0
    for feature, threshold in thresholds_of(model):
        if abs(threshold) < 1e30:  # missing values lie above all numbers
            near = np.float32(threshold)
            for value in (
                near,
                np.nextafter(near, np.float32(-np.inf)),
                np.nextafter(near, np.float32(np.inf)),
            ):
                rows[place % len(rows), feature] = value
                place += 1
    return rows


MODELS = {
    "stumps": StructBoostClassifier(**QUICK),
    "trees": StructBoostClassifier(max_iter=20),
    "trees of two levels": StructBoostClassifier(weak_learner="pair_tree", **QUICK),
    "deep trees and stumps": StructBoostClassifier(weak_learner=["tree", "stump"], **QUICK),
    "linear and stumps": StructBoostClassifier(weak_learner=["linear", "stump"], **QUICK),
    "taxonomy": StructBoostClassifier(taxonomy={"a": [0, 1], "b": [2]}, **QUICK),
    "likelihood of a taxonomy": StructBoostClassifier(
        taxonomy={"a": [0, 1], "b": [2]}, max_iter=10
    ),
    "empty": StructBoostClassifier(objective="hinge", C=1e-3, max_iter=3),
    "ranker of trees": StructBoostRanker(max_iter=10),
}


@pytest.mark.filterwarnings("ignore:The model is empty")
@pytest.mark.parametrize("name", MODELS)
def test_exported_models_agree_with_ours_at_their_thresholds(name):
    rng = np.random.default_rng(0)
    holed = np.where(rng.random(X.shape) < 0.2, np.nan, X) if "linear" not in name else X
    for table in (X, holed):
        model = MODELS[name].fit(table[::2], Y[::2])
        rows = rows_at_thresholds(model.model_, table)
        found = run(model, rows)
        scores = model.decision_function(rows)
        size = max(1.0, np.abs(scores).max())
        assert found["scores"].shape == scores.shape
        np.testing.assert_allclose(found["scores"], scores, rtol=0, atol=1e-5 * size)
        if "ranker" not in name:
            ordered = np.sort(scores, axis=1)
            far = ordered[:, -1] - ordered[:, -2] > 1e-4 * size
            far |= name == "empty"
            assert far.mean() > 0.8
            assert found["label"][far].tolist() == model.predict(rows)[far].tolist()
        if hasattr(model, "predict_proba"):
            expected = model.predict_proba(rows)
            np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)


def test_thresholds_between_numbers_of_single_precision_split_them_alike():
    # The threshold is the middle of two neighbours in single precision: rounding to the nearest
    # would send one of them to the other side.
    low = np.float32(0.1)
    for _ in range(4):
        high = np.nextafter(low, np.float32(1))
        x = np.repeat([[float(low)], [float(high)]], 20, axis=0)
        model = StructBoostClassifier(**QUICK).fit(x, np.repeat([0, 1], 20))
        assert run(model, [[low], [high]])["label"].tolist() == [0, 1]
        low = high


def test_models_without_a_form_are_refused(monkeypatch):
    trainer = StructBoost(MulticlassTask(3), C=1, max_rounds=1).fit(X, Y)
    with pytest.raises(TypeError, match="or the model_ of a StructBoost"):
        to_onnx(trainer)
    with pytest.raises(ValueError, match="not fitted"):
        to_onnx(StructBoostClassifier())
    with pytest.raises(TypeError, match=r"onnx\.save\(to_onnx\(model\), 'wine.onnx'\)"):
        to_onnx(trainer, "wine.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "structboost-learn\[onnx\]"'):
        to_onnx(trainer.model_)


def test_formulations_say_how_probabilities_follow_from_scores():
    class Cautious(Exponential):
        link = SoftmaxLink(sharpness=0.5, margin=0.7)

    model = StructBoostClassifier(objective=Cautious(), C=30, max_iter=5).fit(X, Y)
    rows = X.astype(np.float32)
    found = model.predict_proba(rows)
    share = softmax(0.5 * model.decision_function(rows), axis=1)
    expected = share * (np.exp(0.7) - (np.exp(0.7) - 1) * share)
    np.testing.assert_allclose(found, expected / expected.sum(axis=1)[:, None])
    np.testing.assert_allclose(run(model, rows)["probabilities"], found, atol=1e-5)


def test_scores_of_an_ensemble_and_names_of_features():
    pd = pytest.importorskip("pandas")
    model = StructBoost(MulticlassTask(3), C=30, max_rounds=10, tol=0.1).fit(X, Y).model_
    assert isinstance(model, Ensemble)
    rows = X.astype(np.float32)
    np.testing.assert_allclose(run(model, rows)["scores"], model.scores(rows), atol=1e-4)
    frame = pd.DataFrame(X[:, :3], columns=["alcohol", "malic", "ash"])
    made = to_onnx(StructBoostClassifier(**QUICK).fit(frame, Y))
    assert json.loads(made.metadata_props[0].value) == ["alcohol", "malic", "ash"]
    assert made.producer_name == "structboost"


def test_an_ensemble_of_several_kinds_of_parts_is_exported_one_kind_at_a_time():
    rng = np.random.default_rng(0)
    tokens = [rng.normal(size=(5, 3)) for _ in range(20)]
    tags = [(rows[:, 0] > 0).astype(int) for rows in tokens]
    model = StructBoost(ChainTask(2), C=10, max_rounds=5, tol=0.5).fit(tokens, tags).model_
    rows = np.concatenate(tokens).astype(np.float32)
    scores = run(model, rows, kind="token")["scores"]
    np.testing.assert_allclose(scores, model.scores(rows, "token"), atol=1e-4)
    with pytest.raises(ValueError, match="kind"):
        to_onnx(model)
