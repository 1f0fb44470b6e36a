"""Exported models decide as ours do: also at the thresholds, and in single precision."""

import json
import sys

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_wine

from structboost import (
    AdaBoostMHClassifier,
    ChainTask,
    Ensemble,
    MulticlassTask,
    ShareBoostClassifier,
    StructBoost,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructuredSVMClassifier,
    to_onnx,
)
from structboost.objectives import Exponential, SoftmaxLink

pytest.importorskip("onnxruntime")

from tests.export.onnx_sessions import run

X, Y = load_wine(return_X_y=True)
NAMES = np.array(["barbera", "grignolino", "barolo"])[Y]
QUICK = {"objective": "hinge", "C": 30, "max_iter": 10, "tol": 0.1}
SETS = np.column_stack((Y > 0, Y > 1, Y == 1))


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
        if np.isfinite(threshold):
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
    "stumps": (StructBoostClassifier(**QUICK), NAMES),
    "two classes": (StructBoostClassifier(**QUICK), Y == 1),
    "trees": (StructBoostClassifier(max_iter=20), NAMES.astype(object)),
    "trees, two classes": (StructBoostClassifier(max_iter=20), (Y == 1).astype(float)),
    "trees of two levels": (StructBoostClassifier(weak_learner="pair_tree", **QUICK), Y),
    "deep trees and stumps": (
        StructBoostClassifier(weak_learner=["tree", "stump"], **QUICK),
        Y,
    ),
    "linear and stumps": (
        StructBoostClassifier(weak_learner=["linear", "stump"], **QUICK),
        Y,
    ),
    "log loss": (StructBoostClassifier(objective="l1_log_loss", C=30, max_iter=5), Y),
    "taxonomy": (StructBoostClassifier(taxonomy={"a": [0, 1], "b": [2]}, **QUICK), Y),
    "likelihood of a taxonomy": (
        StructBoostClassifier(taxonomy={"a": [0, 1], "b": [2]}, max_iter=10),
        Y,
    ),
    "codes": (AdaBoostMHClassifier(max_rounds=5), Y),
    "features": (ShareBoostClassifier(max_rounds=5), Y),
    "features, two classes": (ShareBoostClassifier(max_rounds=3), Y == 1),
    "empty": (StructBoostClassifier(objective="hinge", C=1e-3, max_iter=3), Y),
    "ranker": (StructBoostRanker(**QUICK), Y),
    "ranker of trees": (StructBoostRanker(max_iter=10), Y),
    "sets": (StructBoostMultiLabelClassifier(**QUICK), SETS),
    "svm": (StructuredSVMClassifier(tol=0.3), Y),
    "svm, two classes": (StructuredSVMClassifier(tol=0.3), Y == 1),
}


@pytest.mark.filterwarnings("ignore:The model is empty")
@pytest.mark.parametrize("name", MODELS)
def test_exported_models_agree_with_ours(name):
    model, y = MODELS[name]
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    table = scaled if "svm" in name else X
    model.fit(table[::2], y[::2])
    rows = rows_at_thresholds(model.model_, table) if hasattr(model, "model_") else table
    rows = rows.astype(np.float32)
    found = run(model, rows)
    scores = model.decision_function(rows)
    size = max(1.0, np.abs(scores).max())
    assert found["scores"].shape == scores.shape
    np.testing.assert_allclose(found["scores"], scores, rtol=0, atol=1e-5 * size)
    is_classifier = hasattr(model, "classes_") and name != "sets"
    wanted = {"scores"} | ({"label"} if is_classifier else set())
    wanted |= {"labels", "marginals"} if name == "sets" else set()
    if is_classifier:
        far = np.abs(scores) > 1e-4 * size if scores.ndim == 1 else gaps(scores) > 1e-4 * size
        far |= name == "empty"
        assert far.mean() > 0.8
        assert found["label"][far].tolist() == model.predict(rows)[far].tolist()
    if hasattr(model, "predict_proba"):
        wanted.add("probabilities")
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(rows), atol=1e-5)
    assert set(found) == wanted


def gaps(scores):
    """How far the best score is from the second."""
    ordered = np.sort(scores, axis=1)
    return ordered[:, -1] - ordered[:, -2]


def test_thresholds_between_numbers_of_single_precision_split_them_alike():
    # The threshold is the middle of two neighbours in single precision: rounding to the nearest
    # would send one of them to the other side.
    low = np.float32(0.1)
    for _ in range(4):
        high = np.nextafter(low, np.float32(1))
        x = np.repeat([[float(low)], [float(high)]], 20, axis=0)
        y = np.repeat([0, 1], 20)
        model = StructBoostClassifier(**QUICK).fit(x, y)
        labels = run(model, [[low], [high]])["label"]
        assert labels.tolist() == [0, 1]
        low = high


@pytest.mark.slow
def test_many_rounds_on_breast_cancer():
    table, y = load_breast_cancer(return_X_y=True)
    rows = table.astype(np.float32)
    for model in (
        StructBoostClassifier(max_iter=100),
        StructBoostClassifier(
            objective="hinge", C=100, weak_learner=["linear", "stump"], max_iter=40
        ),
    ):
        model.fit(table, y)
        near = rows_at_thresholds(model.model_, rows)
        scores = model.decision_function(near)
        np.testing.assert_allclose(
            run(model, near)["scores"], scores, rtol=0, atol=1e-5 * np.abs(scores).max()
        )


def test_models_without_a_form_are_refused(monkeypatch):
    trainer = StructBoost(MulticlassTask(3), C=1, max_rounds=1).fit(X, Y)
    with pytest.raises(TypeError, match="or the model_ of a StructBoost"):
        to_onnx(trainer)
    with pytest.raises(ValueError, match="not fitted"):
        to_onnx(StructBoostClassifier())
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


@pytest.mark.parametrize("parameters", [{"max_iter": 20}, QUICK])
def test_missing_values_take_the_side_that_they_take_here(parameters):
    rng = np.random.default_rng(0)
    holed = np.where(rng.random(X.shape) < 0.3, np.nan, X).astype(np.float32)
    model = StructBoostClassifier(**parameters).fit(holed, Y)
    assert model.model_.members["x"].learners.missing_left.any()
    rows = np.concatenate((holed, np.where(rng.random(X.shape) < 0.5, np.nan, X)))
    found = run(model, rows)
    expected = model.decision_function(rows.astype(np.float32))
    np.testing.assert_allclose(found["scores"], expected, atol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [{"max_iter": 15}, {"weak_learner": "stump", **QUICK}, {"weak_learner": ["tree"], **QUICK}],
)
def test_categories_stand_as_their_places_and_unknown_ones_as_missing(settings):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    kinds = rng.choice(["p", "q", "r", "s", None], 300)
    frame = pd.DataFrame({"size": rng.normal(size=300), "kind": pd.Categorical(kinds)})
    y = (frame["kind"].isin(["p", "s"]) & (frame["size"] > 0)) | (frame["kind"] == "q")
    y = np.where(frame["kind"].isna(), rng.integers(0, 3, 300), y)
    model = StructBoostClassifier(**settings).fit(frame, y)
    made = to_onnx(model)
    facts = {fact.key: json.loads(fact.value) for fact in made.metadata_props}
    places = facts["categories"]["1"]
    assert places == ["p", "q", "r", "s"]
    frame.loc[:4, "kind"] = None
    codes = [places.index(kind) if kind in places else np.nan for kind in frame["kind"]]
    found = run(model, np.column_stack((frame["size"].astype(np.float32), codes)))
    frame["size"] = frame["size"].astype(np.float32)
    size = np.abs(model.decision_function(frame)).max()
    np.testing.assert_allclose(
        found["scores"], model.decision_function(frame), rtol=0, atol=1e-5 * size
    )
    # Trees take numbers of no category as missing.
    odd = [[0.3, value] for value in (np.nan, 1e9, -3.0)]
    if settings.get("weak_learner") != "stump":
        scores = run(model, odd)["scores"]
        np.testing.assert_array_equal(scores[0], scores[1])
        np.testing.assert_array_equal(scores[0], scores[2])


def test_a_path_in_place_of_rows_is_refused_with_what_to_write():
    model = StructBoostClassifier(**QUICK).fit(X, Y)
    with pytest.raises(TypeError, match=r"onnx\.save\(to_onnx\(model\), 'wine.onnx'\)"):
        to_onnx(model, "wine.onnx")
