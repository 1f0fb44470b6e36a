"""The graphs of all faces compute what the faces do, on missing values and categories, too."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline

from structboost import (
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostTagger,
)
from structboost.errors import ConstantPredictionWarning
from tests.helpers.table_faces import COLOUR, FACES, TABLE, THREE, TWO, fitted

pytest.importorskip("onnxruntime")

from tests.export.onnx_sessions import check_same, outputs, session_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
TOLERANCE = {"float32": 2e-6, "float64": 1e-12}
RNG = np.random.default_rng(0)
HOLED = np.where(RNG.random(TABLE.shape) < 0.2, np.nan, TABLE)
MIXED = pd.DataFrame({"width": HOLED[:, 0], "colour": pd.Categorical(COLOUR), "size": TABLE[:, 1]})
MIXED.loc[::7, "colour"] = None


@cache
def model_of(name, holes):
    """Face with a name, fitted to the table with or without missing values."""
    return fitted(name, HOLED if holes else TABLE)


def check(model, X, inputs, *arguments, dtype):
    """Check the graph of a model on all rows, on one, and on none."""
    session = session_of(model, *arguments, dtype=dtype)
    for n in (len(X), 1):
        part = {name: values[:n] for name, values in inputs.items()}
        check_same(outputs(session, part), model, X[:n], TOLERANCE[dtype])
    none = outputs(session, {name: values[:0] for name, values in inputs.items()})
    assert [len(values) for values in none.values()] == [0] * len(none)
    return list(none)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FACES)
def test_graphs_of_tables_compute_what_the_face_does(name, dtype):
    for table in (TABLE, HOLED):
        model = model_of(name, table is HOLED)
        names = check(model, table, {"X": table.astype(dtype)}, dtype=dtype)
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
        np.testing.assert_array_equal(scores, scores[:1].repeat(3, axis=0))
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


def test_features_of_tokens_that_are_dicts_are_columns_of_0_and_1():
    rng = np.random.default_rng(0)
    words = [rng.choice(list("abcdef"), rng.integers(1, 6)) for _ in range(40)]
    X = [[{"word": word, "is_a": bool(word == "a")} for word in sentence] for sentence in words]
    y = [["X" if word < "c" else "Y" for word in sentence] for sentence in words]
    tagger = StructBoostTagger(C=1.0).fit(X, y)
    places = {name: i for i, name in enumerate(tagger.feature_names_)}
    tables = []
    for sentence in words:
        table = np.zeros((len(sentence), len(places)), np.float32)
        for row, word in zip(table, sentence, strict=True):
            row[places[f"word={word}"]] = 1.0
            if word == "a":
                row[places["is_a"]] = 1.0
        tables.append(table)
    check_tags(tagger, X, tables, "float32")
    with pytest.raises(ValueError, match="the model was trained on 7 columns"):
        session_of(tagger, pd.DataFrame({"word": ["a"]}))


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
    np.testing.assert_allclose(found, of_f1.decision_function(rows), atol=1e-5)


def test_a_model_of_one_class_always_gives_it():
    for name in ("StructBoost", "StructBoost, hinge", "StructuredSVM"):
        with pytest.warns(ConstantPredictionWarning):
            model = fitted(name, TABLE, np.array(["only"] * len(TABLE)))
        check(model, TABLE, {"X": TABLE}, dtype="float64")


@pytest.mark.parametrize("weak_learner", ["lda", "svm", "perceptron", ["lda", "stump"]])
def test_hyperplanes(weak_learner):
    model = FACES["StructBoost, hinge"](weak_learner=weak_learner).fit(TABLE, THREE)
    check(model, TABLE, {"X": TABLE}, dtype="float64")


def test_what_has_no_form_is_refused_with_a_remedy():
    balls = FACES["ShareBoost"](weak_learner="piecewise").fit(TABLE, THREE)
    with pytest.raises(TypeError, match="PiecewiseTable have no form in ONNX; train with 'stump'"):
        session_of(balls)
    model = fitted("StructBoost", MIXED)
    for other in (RandomForestClassifier(2).fit(TABLE, THREE), make_pipeline(model)):
        with pytest.raises(TypeError, match="last step of a Pipeline, whose other steps you conv"):
            session_of(other)
    with pytest.raises(ValueError, match=r"X has the columns \['size'\]"):
        session_of(model, MIXED[["size"]])
    with pytest.raises(TypeError, match="text in the column 'width'"):
        session_of(model, MIXED.assign(width="wide"))
    named = fitted("StructBoost", MIXED.rename(columns={"size": "scores"}))
    with pytest.raises(ValueError, match="'scores', which is the name of an output"):
        session_of(named, MIXED.rename(columns={"size": "scores"}))
    with pytest.raises(ValueError, match="dtype"):
        session_of(model, dtype="float16")
    with pytest.raises(ValueError, match="kind is 'x'"):
        session_of(model, kind="x")


def test_a_sample_with_another_number_of_columns_is_refused():
    model = StructBoostClassifier(max_iter=3).fit(TABLE, THREE)
    n = TABLE.shape[1]
    with pytest.raises(ValueError, match=rf"X has shape \(5, 1\), .* trained on {n} columns"):
        session_of(model, TABLE[:5, :1])
    with pytest.raises(TypeError, match="X is an array of text"):
        session_of(model, np.full(TABLE.shape, "red"))
    objects = TABLE[:2].astype(object)
    check_same(outputs(session_of(model, objects), TABLE), model, TABLE, 1e-5)


def test_a_sample_with_a_column_that_training_lacks_is_refused():
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 1.0, 0.0]})
    model = StructBoostClassifier(max_iter=3).fit(frame, [0, 0, 1, 1])
    assert len(session_of(model, frame[["b", "a"]]).get_inputs()) == 2
    for other in (frame.assign(c=1.0), frame[["a"]], frame.rename(columns={"a": "c"})):
        with pytest.raises(ValueError, match=r"on 2 columns, \['a', 'b'\]; give a row"):
            session_of(model, other)


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
