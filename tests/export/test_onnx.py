"""Exported models decide as ours do, at thresholds, on missing values and by categories."""

from __future__ import annotations

import json
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline

from structboost import (
    ChainTask,
    Ensemble,
    MulticlassTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostTagger,
    to_onnx,
)
from structboost.errors import ConstantPredictionWarning
from structboost.objectives import Exponential, SoftmaxLink
from tests.helpers.table_faces import COLOUR, FACES, TABLE, THREE, TWO, fitted, targets

onnxruntime = pytest.importorskip("onnxruntime")


def session_of(model, *arguments, **options):
    """Session of a model that is exported."""
    exported = to_onnx(model, *arguments, **options).SerializeToString()
    return onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])


def outputs(session, inputs):
    """Outputs of a session by name, for the input X or a dict of inputs."""
    if not isinstance(inputs, dict):
        dtype = np.float64 if "double" in session.get_inputs()[0].type else np.float32
        inputs = {"X": np.asarray(inputs, dtype)}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def run(model, inputs, *arguments, **options):
    """Outputs of a model that is exported, by name."""
    return outputs(session_of(model, *arguments, **options), inputs)


METHODS = {
    "label": "predict",
    "labels": "predict",
    "scores": "decision_function",
    "probabilities": "predict_proba",
    "marginals": "predict_marginals",
}


def check_same(found, model, X, tolerance):
    """Check that outputs are those of the methods of a model."""
    for name, values in found.items():
        expected = getattr(model, METHODS[name])(X)
        if name == "labels" and isinstance(expected, list):
            expected = [[int(label in labels) for label in model.classes_] for labels in expected]
        expected = np.asarray(expected)
        assert values.shape == expected.shape
        if expected.dtype.kind == "f":
            size = max(1.0, np.abs(expected).max(initial=0.0))
            assert_allclose(values, expected, rtol=0, atol=tolerance * size)
        elif name == "label":
            assert not is_clear(found, tolerance)[values != expected].any()
        else:
            assert values.tolist() == expected.tolist()


def is_clear(found, tolerance):
    """Whether the two best scores of each row differ by more than rounding."""
    scores = found.get("scores", found.get("probabilities"))
    scores = np.column_stack((np.zeros(len(scores)), scores)) if scores.ndim == 1 else scores
    ordered = np.sort(scores, axis=1)
    return ordered[:, -1] - ordered[:, -2] > 2 * tolerance * max(1.0, np.abs(scores).max(initial=0))


pytest.importorskip("onnxruntime")


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


def test_thresholds_between_numbers_of_single_precision_split_them_alike():
    # The threshold is the middle of two neighbours in single precision: rounding to the nearest
    # would send one of them to the other side.
    low = np.float32(0.1)
    for _ in range(4):
        high = np.nextafter(low, np.float32(1))
        x = np.repeat([[float(low)], [float(high)]], 20, axis=0)
        model = StructBoostClassifier(objective="hinge", C=30).fit(x, np.repeat([0, 1], 20))
        assert run(model, [[low], [high]])["label"].tolist() == [0, 1]
        low = high


def test_formulations_say_how_probabilities_follow_from_scores():
    class Cautious(Exponential):
        link = SoftmaxLink(sharpness=0.5, margin=0.7)

    model = StructBoostClassifier(objective=Cautious(), C=30, max_iter=5).fit(X, Y)
    rows = X.astype(np.float32)
    found = model.predict_proba(rows)
    share = softmax(0.5 * model.decision_function(rows), axis=1)
    expected = share * (np.exp(0.7) - (np.exp(0.7) - 1) * share)
    assert_allclose(found, expected / expected.sum(axis=1)[:, None])
    assert_allclose(run(model, rows)["probabilities"], found, atol=1e-5)


def test_scores_of_an_ensemble_and_names_of_features():
    pd = pytest.importorskip("pandas")
    model = StructBoost(MulticlassTask(3), C=30, max_rounds=10, tol=0.1).fit(X, Y).model_
    assert isinstance(model, Ensemble)
    rows = X.astype(np.float32)
    assert_allclose(run(model, rows)["scores"], model.scores(rows), atol=1e-4)
    frame = pd.DataFrame(X[:, :3], columns=["alcohol", "malic", "ash"])
    made = to_onnx(StructBoostClassifier(objective="hinge", C=30).fit(frame, Y))
    assert json.loads(made.metadata_props[0].value) == ["alcohol", "malic", "ash"]
    assert made.producer_name == "structboost"


def test_an_ensemble_of_several_kinds_of_parts_is_exported_one_kind_at_a_time():
    rng = np.random.default_rng(0)
    tokens = [rng.normal(size=(5, 3)) for _ in range(20)]
    tags = [(rows[:, 0] > 0).astype(int) for rows in tokens]
    model = StructBoost(ChainTask(2), C=10, max_rounds=5, tol=0.5).fit(tokens, tags).model_
    rows = np.concatenate(tokens).astype(np.float32)
    scores = run(model, rows, kind="token")["scores"]
    assert_allclose(scores, model.scores(rows, "token"), atol=1e-4)
    with pytest.raises(ValueError, match="kind"):
        to_onnx(model)


pytest.importorskip("onnxruntime")


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
TOLERANCE = {"float32": 2e-6, "float64": 1e-12}
RNG = np.random.default_rng(0)
HOLED = np.where(RNG.random(TABLE.shape) < 0.2, np.nan, TABLE)
MIXED = pd.DataFrame({"width": HOLED[:, 0], "colour": pd.Categorical(COLOUR), "size": TABLE[:, 1]})
MIXED.loc[::7, "colour"] = None


def check(model, X, inputs, *arguments, dtype):
    """Check the graph of a model on all rows, on one, and on none."""
    session = session_of(model, *arguments, dtype=dtype)
    for n in (len(X), 1):
        part = {name: values[:n] for name, values in inputs.items()}
        check_same(outputs(session, part), model, X[:n], TOLERANCE[dtype])
    none = outputs(session, {name: values[:0] for name, values in inputs.items()})
    assert [len(values) for values in none.values()] == [0] * len(none)
    return list(none)


MODELS = {name: partial(fitted, name) for name in FACES} | {
    f"hinge, {name}": FACES["StructBoost, hinge"](**parameters).fit
    for name, parameters in {
        "trees of two levels": {"weak_learner": "pair_tree"},
        "deep trees and stumps": {"weak_learner": ["tree", "stump"]},
        "taxonomy": {"taxonomy": {"a": [0, 1], "b": [2, 3]}},
        "empty": {"C": 1e-3},
    }.items()
}


@pytest.mark.filterwarnings("ignore:The model is empty")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MODELS)
def test_graphs_of_tables_compute_what_the_face_does_at_its_thresholds(name, dtype):
    for table in (TABLE, HOLED):
        model = MODELS[name](table, targets(name))
        rows = rows_at_thresholds(model.model_, table)
        names = check(model, rows, {"X": rows.astype(dtype)}, dtype=dtype)
        expected = ["scores"]
        if name.startswith("MultiLabel"):
            expected = ["labels", "scores", "marginals"]
        elif not name.startswith("Ranker"):
            expected = ["label", "scores"]
            expected += ["probabilities"] if hasattr(model, "predict_proba") else []
        assert names == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", FACES)
def test_graphs_read_categories_as_codes_or_by_name(name):
    model = fitted(name, MIXED)
    of_colour = model.categories_[1]
    codes = [of_colour.index(c) if isinstance(c, str) else np.nan for c in MIXED["colour"]]
    table = np.column_stack((MIXED["width"], codes, MIXED["size"]))
    check(model, MIXED, {"X": table}, dtype="float64")
    facts = session_of(model).get_modelmeta().custom_metadata_map
    assert json.loads(facts["categories"]) == {"1": of_colour}
    if name == "StructBoost":  # its trees take numbers of no category as missing
        odd = np.array([[0.3, value, 0.1] for value in (np.nan, 1e9, -3.0)])
        scores = outputs(session_of(model, dtype="float64"), odd)["scores"]
        assert_array_equal(scores, scores[:1].repeat(3, axis=0))
    columns = {
        "size": MIXED[["size"]].to_numpy(),
        "colour": MIXED[["colour"]].astype(object).fillna("").to_numpy(),
        "width": MIXED[["width"]].to_numpy(),
    }
    check(model, MIXED, columns, MIXED[["size", "colour", "width"]][:5], dtype="float64")


def sequences(seed=0, n=30):
    rng = np.random.default_rng(seed)
    X = [np.round(rng.normal(size=(length, 3)), 1) for length in rng.integers(1, 7, n)]
    y = [np.array(["O", "B-x", "I-x"])[(x[:, 0] > 0) * (1 + (x[:, 1] > 0))] for x in X]
    return X, y


def decoded(scores, transitions, first, last):
    """Tags of the highest total score, as the guide shows."""
    best, before = scores[0] + first, []
    for row in scores[1:]:
        paths = best[:, None] + transitions
        before.append(paths.argmax(axis=0))
        best = paths.max(axis=0) + row
    tags = [int((best + last).argmax())]
    for of_token in reversed(before):
        tags.append(int(of_token[tags[-1]]))
    return tags[::-1]


def check_tags(tagger, X, tables, dtype):
    session = session_of(tagger, dtype=dtype)
    assert [one.name for one in session.get_outputs()] == [
        "scores", "transitions", "first", "last",
    ]  # fmt: skip
    tags = [tagger.classes_[decoded(**outputs(session, table))].tolist() for table in tables]
    assert tags == tagger.predict(X)
    assert outputs(session, tables[0][:0])["scores"].shape == (0, len(tagger.classes_))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "parameters",
    [
        {"max_iter": 3},
        {"objective": "hinge", "C": 5.0, "max_iter": 3, "weak_learner": ["linear", "stump"]},
        {"weak_learner": "linear", "C": 2.0, "forbidden": [(None, "I-x"), ("O", "I-x")]},
        {"objective": "svm", "C": 1.0, "scheme": "iob2", "forbidden": [("B-x", None)]},
    ],
)  # fmt: skip
def test_scores_and_transitions_of_a_graph_decode_to_the_tags_of_the_tagger(parameters, dtype):
    X, y = sequences()
    if "forbidden" in parameters:
        y = [np.where(tags == "I-x", "O", tags) for tags in y]
        for tags in y[::2]:
            tags[1:][(tags[:-1] == "B-x") & (tags[1:] == "B-x")] = "I-x"
        if parameters.get("objective") == "svm":
            y = [np.append(tags[:-1], "O") for tags in y]
    tagger = StructBoostTagger(random_state=0, **parameters).fit(X, y)
    # It is 0 unless C is chosen.
    tagger.outside_offset_ += 0.8 * ("forbidden" in parameters)
    others, _ = sequences(1)
    check_tags(tagger, others, others, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("of_vectors", ["linear", ["linear", "tree"]], ids=str)
def test_vectors_beside_names_are_columns_of_the_table_of_a_tagger(of_vectors):
    rng = np.random.default_rng(0)
    X, y, tables = [], [], []
    for _ in range(30):
        words, points = rng.choice(list("abc"), 4), rng.normal(size=(4, 2)).round(2)
        X.append([{"w": w, "at": at} for w, at in zip(words, points, strict=True)])
        y.append(np.where((words == "a") | (points[:, 0] > 0.5), "X", "Y"))
        # at[0], at[1], w=a, w=b, w=c
        tables.append(np.hstack([points, words[:, None] == list("abc")]).astype(np.float32))
    learners = {"token": "linear", "vector": of_vectors}
    tagger = StructBoostTagger(weak_learner=learners, random_state=0, max_iter=10, C=20.0).fit(X, y)
    check_tags(tagger, X, tables, "float32")


SETS = {
    "all": {},
    "costs": {"label_costs": {0: 3.0, 1: (0.5, 2.0)}},
    "seen": {"outputs": "seen"},
    "subset": {"loss": "subset"},
    "f1": {"loss": "f1", "outputs": "seen"},
    "pairs": {"pairs": True},
    "linear": {"weak_learner": "linear", "C": 1.0, "pairs": True},
    "hinge": {"objective": "hinge", "C": 5.0},
    "hinge, seen": {"objective": "hinge", "C": 5.0, "outputs": "seen"},
    "tree": {"hierarchy": [(0, 1), (1, 2), (0, 3), (4, 5)]},
    "tree, hinge": {"objective": "hinge", "C": 5.0, "hierarchy": [(0, 1), (1, 2), (0, 3)]},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_graphs_of_label_sets_predict_the_sets_and_marginals(name):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(80, 3)), 1)
    Y = ((X @ rng.normal(size=(3, 6)) + rng.normal(size=(80, 6))) > 0).astype(int)
    model = StructBoostMultiLabelClassifier(max_iter=4, random_state=0, **SETS[name]).fit(X, Y)
    others = np.round(rng.normal(size=(200, 3)), 1)
    names = check(model, others, {"X": others}, dtype="float64")
    assert names == ["labels", "scores", "marginals"]
    assert 0 < model.predict(others).mean() < 1


def test_lists_of_labels_and_one_label_for_each_row():
    labels = [("a",) if three == 0 else ("a", "b") if three == 1 else () for three in THREE]
    model = StructBoostMultiLabelClassifier(max_iter=4, random_state=0).fit(TABLE, labels)
    check(model, TABLE, {"X": TABLE}, dtype="float64")
    for classes in (THREE, TWO):
        one = StructBoostMultiLabelClassifier(max_iter=4, random_state=0)
        one.fit(TABLE, np.array(["p", "q", "r"])[classes])
        assert check(one, TABLE, {"X": TABLE}, dtype="float64") == ["label", "scores"]


def test_sets_without_a_closed_form_are_refused_with_a_remedy():
    X, Y = TABLE, np.column_stack((TWO, THREE > 0, THREE > 1)).astype(int)
    several = StructBoostMultiLabelClassifier(max_iter=2, hierarchy=[(0, 2), (1, 2)])
    with pytest.raises(TypeError, match="Label 2 has several parents"):
        session_of(several.fit(X, Y))
    of_f1 = StructBoostMultiLabelClassifier(max_iter=2, loss="f1").fit(X, Y)
    with pytest.raises(TypeError, match="outputs='seen'"):
        session_of(of_f1)
    rows = X.astype(np.float32)
    found = outputs(session_of(of_f1.model_), rows)["scores"]
    assert_allclose(found, of_f1.decision_function(rows), atol=1e-5)


def test_a_model_of_one_class_always_gives_it():
    for name in ("StructBoost", "StructBoost, hinge", "StructuredSVM"):
        with pytest.warns(ConstantPredictionWarning):
            model = fitted(name, TABLE, np.array(["only"] * len(TABLE)))
        check(model, TABLE, {"X": TABLE}, dtype="float64")


@pytest.mark.parametrize("weak_learner", ["lda", "svm", "perceptron", ["lda", "stump"]])
def test_hyperplanes(weak_learner):
    model = FACES["StructBoost, hinge"](weak_learner=weak_learner).fit(TABLE, THREE)
    check(model, TABLE, {"X": TABLE}, dtype="float64")


def test_what_has_no_form_is_refused_with_a_remedy(monkeypatch):
    balls = FACES["ShareBoost"](weak_learner="piecewise").fit(TABLE, THREE)
    with pytest.raises(TypeError, match="PiecewiseTable have no form in ONNX; train with 'stump'"):
        session_of(balls)
    model = fitted("StructBoost", MIXED)
    for other in (RandomForestClassifier(2).fit(TABLE, THREE), make_pipeline(model)):
        with pytest.raises(TypeError, match="last step of a Pipeline, whose other steps you conv"):
            session_of(other)
    by_number = fitted("StructBoost", TABLE)
    for other in (MIXED[["size"]], MIXED.assign(c=1.0), MIXED.rename(columns={"size": "c"})):
        with pytest.raises(ValueError, match=r"on 3 columns, \['width', 'colour', 'size'\]; give"):
            session_of(model, other)
    with pytest.raises(ValueError, match=r"X has shape \(5, 1\), .* trained on 2 columns"):
        session_of(by_number, TABLE[:5, :1])
    with pytest.raises(TypeError, match="X is an array of text"):
        session_of(by_number, np.full(TABLE.shape, "red"))
    objects = session_of(by_number, TABLE[:2].astype(object))
    check_same(outputs(objects, TABLE), by_number, TABLE, 1e-5)
    with pytest.raises(TypeError, match="text in the column 'width'"):
        session_of(model, MIXED.assign(width="wide"))
    named = fitted("StructBoost", MIXED.rename(columns={"size": "scores"}))
    with pytest.raises(ValueError, match="'scores', which is the name of an output"):
        session_of(named, MIXED.rename(columns={"size": "scores"}))
    with pytest.raises(ValueError, match="dtype"):
        session_of(model, dtype="float16")
    with pytest.raises(ValueError, match="kind is 'x'"):
        session_of(model, kind="x")
    trainer = StructBoost(MulticlassTask(3), C=1, max_rounds=1).fit(X, Y)
    with pytest.raises(TypeError, match="or the model_ of a StructBoost"):
        session_of(trainer)
    with pytest.raises(TypeError, match=r"onnx\.save\(to_onnx\(model\), 'wine.onnx'\)"):
        session_of(trainer, "wine.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "structboost-learn\[onnx\]"'):
        session_of(trainer.model_)


def test_nullable_columns_may_be_missing_in_other_rows_than_those_of_the_sample():
    whole = pd.array([k % 5 for k in range(60)], dtype="Int64")
    whole[50:] = pd.NA
    is_even = pd.array([k % 2 == 0 for k in range(60)], dtype="boolean")
    is_even[40:45] = pd.NA
    table = pd.DataFrame({"whole": whole, "is_even": is_even, "plain": np.arange(60) % 7})
    y = np.array([k % 5 > 2 or k > 50 for k in range(60)])
    model = StructBoostClassifier(max_iter=5).fit(table, y)
    session = session_of(model, table[:4], dtype="float64")
    assert [entry.type for entry in session.get_inputs()] == [
        "tensor(double)",
        "tensor(double)",
        "tensor(int64)",
    ]
    rows = {name: table[[name]].astype(float).to_numpy() for name in ("whole", "is_even")}
    rows["plain"] = table[["plain"]].to_numpy()
    check_same(outputs(session, rows), model, table, 1e-12)
