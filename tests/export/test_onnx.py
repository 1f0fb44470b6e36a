"""Exported models decide as ours do, at thresholds, on missing values and by categories."""

import json
import sys
from functools import partial

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy.special import softmax
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline

from structboost import (
    ChainTask,
    Ensemble,
    MulticlassTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostTagger,
    to_onnx,
)
from structboost.errors import ConstantPredictionWarning
from structboost.learners import PatchFamily
from structboost.objectives import Exponential, SoftmaxLink
from tests.helpers.refusals import refused
from tests.helpers.table_faces import COLOUR, FACES, TABLE, THREE, fitted, targets


def session_of(model, **options):
    """Session of a model that is exported."""
    exported = to_onnx(model, **options).SerializeToString()
    return onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])


def outputs(session, table):
    """Outputs of a session by name."""
    dtype = np.float64 if "double" in session.get_inputs()[0].type else np.float32
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": table.astype(dtype)}), strict=True))


def run(model, table, **options):
    """Outputs of a model that is exported, by name."""
    return outputs(session_of(model, **options), table)


METHODS = {"label": "predict", "scores": "decision_function", "probabilities": "predict_proba"}


def check_same(found, model, X, tolerance):
    """Check that outputs are those of the methods of a model."""
    for name, values in found.items():
        expected = np.asarray(getattr(model, METHODS[name])(X))
        assert values.shape == expected.shape
        if name == "label":
            assert not is_clear(found, tolerance)[values != expected].any()
        else:
            size = max(1.0, np.abs(expected).max(initial=0.0))
            assert_allclose(values, expected, rtol=0, atol=tolerance * size)


def is_clear(found, tolerance):
    """Whether the two best scores of each row differ by more than rounding."""
    scores = found["scores"]
    scores = np.column_stack((np.zeros(len(scores)), scores)) if scores.ndim == 1 else scores
    ordered = np.sort(scores, axis=1)
    return ordered[:, -1] - ordered[:, -2] > 2 * tolerance * max(1.0, np.abs(scores).max(initial=0))


X, Y = load_wine(return_X_y=True)


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
        if feature < rows.shape[1] and abs(threshold) < 1e30:  # missing values lie above all
            near = np.float32(threshold)
            for value in (
                near,
                np.nextafter(near, np.float32(-np.inf)),
                np.nextafter(near, np.float32(np.inf)),
            ):
                rows[place % len(rows), feature] = value
                place += 1
    return rows


def test_formulations_say_how_probabilities_follow_from_scores():
    class Cautious(Exponential):
        link = SoftmaxLink(sharpness=0.5, margin=0.7)

    model = StructBoostClassifier(Cautious(), C=30, max_iter=5).fit(X, Y)
    rows = X.astype(np.float32)
    found = model.predict_proba(rows)
    share = softmax(0.5 * model.decision_function(rows), axis=1)
    expected = share * (np.exp(0.7) - (np.exp(0.7) - 1) * share)
    assert_allclose(found, expected / expected.sum(axis=1)[:, None])
    assert_allclose(run(model, rows)["probabilities"], found, atol=1e-5)


def test_scores_of_an_ensemble_and_names_of_features():
    model = StructBoost(MulticlassTask(3), C=30, max_rounds=10, tol=0.1).fit(X, Y).model_
    assert isinstance(model, Ensemble)
    rows = X.astype(np.float32)
    assert_allclose(run(model, rows)["scores"], model.scores(rows), atol=1e-4)
    frame = pd.DataFrame(X[:, :3], columns=["alcohol", "malic", "ash"])
    made = to_onnx(StructBoostClassifier("hinge", C=30).fit(frame, Y))
    assert json.loads(made.metadata_props[0].value) == ["alcohol", "malic", "ash"]
    assert made.producer_name == "structboost"


def test_an_ensemble_of_several_kinds_of_parts_is_exported_one_kind_at_a_time():
    rng = default_rng(0)
    tokens = [rng.normal(size=(5, 3)) for _ in range(20)]
    tags = [(rows[:, 0] > 0).astype(int) for rows in tokens]
    model = StructBoost(ChainTask(2), C=10, max_rounds=5, tol=0.5).fit(tokens, tags).model_
    rows = np.concatenate(tokens).astype(np.float32)
    scores = run(model, rows, kind="token")["scores"]
    assert_allclose(scores, model.scores(rows, "token"), atol=1e-4)
    refused("kind", to_onnx, model)


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
TOLERANCE = {"float32": 2e-6, "float64": 1e-12}
RNG = default_rng(0)
HOLED = np.where(RNG.random(TABLE.shape) < 0.2, np.nan, TABLE)
MIXED = pd.DataFrame({"width": HOLED[:, 0], "colour": pd.Categorical(COLOUR), "size": TABLE[:, 1]})
MIXED.loc[::7, "colour"] = None


def check(model, X, table, *, dtype):
    """Check the graph of a model on all rows, on one, and on none."""
    session = session_of(model, dtype=dtype)
    for n in (len(X), 1):
        check_same(outputs(session, table[:n]), model, X[:n], TOLERANCE[dtype])
    none = outputs(session, table[:0])
    assert [len(values) for values in none.values()] == [0] * len(none)
    return list(none)


CODED = [name for name in FACES if not name.startswith("MultiLabel")]
MODELS = {name: partial(fitted, name) for name in CODED} | {
    f"hinge, {name}": FACES["StructBoost, hinge"](**parameters).fit
    for name, parameters in {
        "trees of two levels": {"weak_learner": "pair_tree"},
        "deep trees and stumps": {"weak_learner": ["tree", "stump"]},
        "taxonomy": {"taxonomy": {"a": [0, 1], "b": [2, 3]}},
        "likely": {"objective": "l1_log_loss", "taxonomy": {"a": [0, 1], "b": [2, 3]}},
        "empty": {"C": 1e-3},
    }.items()
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The model is empty")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MODELS)
def test_graphs_of_tables_compute_what_the_face_does_at_its_thresholds(name, dtype):
    for table in (TABLE, HOLED):
        model = MODELS[name](table, targets(name))
        rows = rows_at_thresholds(model.model_, table)
        names = check(model, rows, rows.astype(dtype), dtype=dtype)
        expected = ["scores"]
        if not name.startswith("Ranker"):
            expected = ["label", "scores"]
            expected += ["probabilities"] if hasattr(model, "predict_proba") else []
        assert names == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", CODED)
def test_graphs_read_categories_as_codes(name):
    model = fitted(name, MIXED)
    of_colour = model.categories_[1]
    codes = [of_colour.index(c) if isinstance(c, str) else np.nan for c in MIXED["colour"]]
    table = np.column_stack((MIXED["width"], codes, MIXED["size"]))
    check(model, MIXED, table, dtype="float64")
    facts = session_of(model).get_modelmeta().custom_metadata_map
    assert json.loads(facts["categories"]) == {"1": of_colour}
    if name == "StructBoost":  # its trees take numbers of no category as missing
        odd = np.array([[0.3, value, 0.1] for value in (np.nan, 1e9, -3.0, 0.5)])
        scores = outputs(session_of(model, dtype="float64"), odd)["scores"]
        assert (scores == scores[0]).all()


def test_a_model_of_one_class_always_gives_it():
    for name in ("StructBoost", "StructBoost, hinge", "StructuredSVM"):
        with pytest.warns(ConstantPredictionWarning):
            model = fitted(name, TABLE, np.array(["only"] * len(TABLE)))
        check(model, TABLE, TABLE, dtype="float64")


@pytest.mark.parametrize("weak_learner", ["lda", "svm", "perceptron", ["lda", "stump"]])
def test_hyperplanes(weak_learner):
    model = FACES["StructBoost, hinge"](weak_learner=weak_learner).fit(TABLE, THREE)
    check(model, TABLE, TABLE, dtype="float64")


def test_a_mean_that_single_precision_does_not_hold_is_filled_as_in_training():
    table = np.float32(2.0**20 + 100 * X)
    table[::5] = np.nan
    model = StructBoostClassifier("svm").fit(table, Y)
    check_same(run(model, table), model, table, 1e-6)


def test_what_has_no_form_is_refused_with_a_remedy(monkeypatch):
    family = partial(PatchFamily, image_shape=(2, 2), side=2, grid=1)
    refused(
        "PatchTable have no form in ONNX; train with 'stump'",
        to_onnx,
        FACES["ShareBoost"](weak_learner=family).fit(np.tile(TABLE, 2), THREE),
    )
    model = fitted("StructBoost", MIXED)
    trainer = StructBoost(MulticlassTask(3), C=1, max_rounds=1).fit(X, Y)
    of_sets = fitted("MultiLabel", TABLE)
    for other in (make_pipeline(model), trainer, of_sets, StructBoostTagger()):
        refused(r"last step of a Pipeline.*or the model_ of any other", to_onnx, other)
    scores = run(of_sets.model_, TABLE)["scores"]
    assert_allclose(scores, of_sets.decision_function(TABLE), atol=1e-5)
    refused("dtype", to_onnx, model, dtype="float16")
    refused(r"onnx\.save", to_onnx, model, "m.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "structboost-learn\[onnx\]"'):
        to_onnx(trainer.model_)
