"""StructBoostMultiLabelClassifier: forms of y, losses, files."""

import re
import warnings
from operator import ne

import networkx
import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import accuracy_score, f1_score

from structboost import StructBoostMultiLabelClassifier
from structboost.selection import structured_scorer
from tests.helpers.refusals import refused

NAMES = np.array(["cat", "dog", "fish"])


def data(n=200):
    """Three labels; the second excludes the first."""
    X = default_rng(0).normal(size=(n, 3))
    first = X[:, 0] > 0.3
    Y = np.column_stack((first, ~first & (X[:, 1] > 0), X[:, 2] + X[:, 0] > 1)).astype(int)
    return X, Y


def names(Y):
    return [NAMES[row == 1].tolist() for row in Y]


def test_all_forms_of_y_give_one_model():
    X, Y = data()
    fits = [
        StructBoostMultiLabelClassifier("hinge", C=50, max_iter=10).fit(X[:100], y)
        for y in (Y[:100], names(Y[:100]))
    ]
    found = fits[0].predict(X)
    assert found.shape == Y.shape
    assert fits[1].predict(X) == [tuple(labels) for labels in names(found)]
    assert fits[1].classes_.tolist() == NAMES.tolist()
    assert fits[0].score(X, Y) == fits[1].score(X, names(Y)) == np.mean((found == Y).all(axis=1))
    assert fits[0].score(X[100:], Y[100:]) > 0.8
    # A set with a new label counts as wrong.
    for new in ([(*labels, "zebra") for labels in names(found)], ["zebra"] * 200):
        assert fits[1].score(X, new) == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hierarchy": [(0, 3)]}, "hierarchy has the label 3, and y has the columns [0, 1, 2]"),
        ({"hierarchy": [(0, 1)], "loss": "f1"}, "loss is 'f1', which "),
        ({"hierarchy": [(0, 1)], "outputs": "seen"}, "or write outputs='all'"),
        ({"hierarchy": [(0, 1)], "pairs": True}, "pairs is True, "),
        ({"hierarchy": [("0", "1")]}, "hierarchy has '0', and y has 0; give only strings"),
        ({"hierarchy": (0, 1)}, "hierarchy[0] is 0; give"),
    ],
)
def test_wrong_hierarchies_are_named(options, message):
    refused(
        re.escape(message),
        StructBoostMultiLabelClassifier("hinge", C=1, **options).fit,
        *data(10),
    )


@pytest.mark.parametrize("loss", ["hamming", "subset", "f1"])
def test_seen_sets_and_pairs_work_with_early_stopping(loss):
    X, Y = data(240)
    classifier = StructBoostMultiLabelClassifier(
        objective="hinge", C=30, loss=loss, outputs="seen", pairs=True, max_iter=8,
        early_stopping=True, random_state=0,
    ).fit(X[:160], Y[:160])  # fmt: skip
    found = classifier.predict(X)
    assert not (found[:, 0] & found[:, 1]).any()
    assert f1_score(Y[160:], found[160:], average="samples", zero_division=1.0) > 0.8
    assert classifier.decision_function(X).shape == (240, 6)


@pytest.mark.parametrize("is_name", [True, False])
def test_one_label_for_each_sample_gives_one_of_the_labels(is_name, reloaded):
    X, Y = data()
    y = NAMES[np.where(Y[:, 0] == 1, 0, np.where(Y[:, 1] == 1, 1, 2))]
    y = y if is_name else y == "cat"
    settings = {"objective": "hinge", "C": 50, "max_iter": 10}
    fit = StructBoostMultiLabelClassifier(**settings).fit(X[:100], y[:100])
    for model in (fit, reloaded(fit)):
        found = model.predict(X)
        assert found.dtype == y.dtype
        assert np.mean(found[100:] == y[100:]) == model.score(X[100:], y[100:]) > 0.85
        np.testing.assert_array_equal(list(model.staged_predict(X))[-1], found)
    refused(
        "hierarchy gives a sample several", fit.set_params(hierarchy=[("animal", "cat")]).fit, X, y
    )


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ma.array([[0, 1], [1, 0]], mask=[[0, 1]] * 2), r"y\[0, 1\] is masked"),
        ([["cat"], ["dog", None]], r"y\[1\] has the label None; .* leave labels out"),
        ([[("cat", "old")], [("dog", "old")]], r"y\[0\] has the label \('cat', 'old'\)"),
        ([["cat"], ["dog", 3]], r"y\[1\] has the label 3, and y has 'cat'; give only strings"),
        ([["cat"], [b"dog"]], r"has the label b'dog'; give strings or numbers"),
        (["cat", ["dog"]], r"y\[0\] is 'cat'"),
        ([["cat"], iter("b")], r"y\[1\] is .*give a list of labels"),
        ([{"cat": 1}, {"dog": 1}], r"y\[0\] is \{'cat': 1\}"),
        (["cat", "cat"], "y has 1 class or label, .*'cat'"),
        ([0.5, 1.5], "continuous"),
        ([["cat"], []], "y has 1 class or label"),
        (np.zeros((2, 11)), "at most 10 labels"),
    ],
)
def test_wrong_labels_are_named(y, message):
    refused(
        message,
        StructBoostMultiLabelClassifier("hinge", C=1, pairs=True).fit,
        np.zeros((2, 1)),
        y,
    )


def test_a_hierarchy_adds_implied_labels_to_truths_and_predictions(reloaded):
    X, Y = data()
    kinds = [("animal", "cat"), ("animal", "dog"), ("pet", "cat"), ("alive", "animal")]
    settings = {"objective": "hinge", "C": 50, "max_iter": 10}
    model = StructBoostMultiLabelClassifier(**settings, hierarchy=kinds)
    with pytest.warns(UserWarning, match=r"hierarchy adds labels to \d+ of 100 sets of y"):
        model.fit(X[:100], names(Y[:100]))
    loaded = reloaded(model)
    assert loaded.predict(X) == model.predict(X)
    assert set(loaded.hierarchy) == set(kinds)
    labels = ["alive", "animal", "cat", "dog", "fish", "pet"]
    assert model.classes_.tolist() == labels
    animal = Y[:, 0] | Y[:, 1]
    closed = np.column_stack((animal, animal, Y, Y[:, 0]))
    table = np.array([[label in row for label in labels] for row in model.predict(X)])
    assert (table[:, [0, 1, 5]] >= table[:, [1, 2, 2]]).all()
    assert (table == closed).all(axis=1).mean() > 0.7
    # Sets that lack labels above theirs are never predicted.
    bare = np.pad(Y, ((0, 0), (2, 1)))
    assert model.score(X, names(Y)) == np.mean((table == bare).all(axis=1)) < 0.5
    by_index = [(labels.index(a), labels.index(b)) for a, b in kinds]
    indexed = StructBoostMultiLabelClassifier(**settings, hierarchy=by_index)
    assert np.array_equal(indexed.fit(X[:100], bare[:100]).predict(X), table)


TREE = [("animal", "cat"), ("animal", "dog"), ("plant", "oak")]
TURNED = [(below, above) for above, below in TREE]
IMPLIED = dict(TURNED)


def sets_of_leaves():
    """Table, and sets of labels without those above them."""
    rows = default_rng(0).normal(size=(60, 2))
    flags = zip(rows[:, 0] > 0.4, rows[:, 0] < -0.4, rows[:, 1] > 0, strict=True)
    return rows, [[name for name, has in zip(IMPLIED, row, strict=True) if has] for row in flags]


def with_implied(sets, every=1):
    """Sets of labels, every so many with the labels above theirs."""
    return [
        sorted({*row, *(IMPLIED.get(name, name) for name in row)}) if i % every == 0 else row
        for i, row in enumerate(sets)
    ]


def as_frame(sets):
    """Indicator matrix of sets, with a column for each label."""
    labels = sorted({*IMPLIED, *IMPLIED.values()})
    return pd.DataFrame([[int(name in row) for name in labels] for row in sets], columns=labels)


FORMS_OF_PAIRS = {
    "pairs": list,
    "array": lambda pairs: np.array(pairs, object),
    "graph": networkx.DiGraph,
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS_OF_PAIRS)
@pytest.mark.parametrize("every", [1, 2, 1000])
@pytest.mark.parametrize("as_given", [list, as_frame], ids=["lists", "frame"])
def test_both_orders_of_pairs_are_told_apart_and_added_labels_are_counted(form, every, as_given):
    X, leaves = sets_of_leaves()
    X, sets = X[1:], with_implied(leaves, every)[1:]
    n_open = sum(map(ne, sets, with_implied(sets)))
    turned = StructBoostMultiLabelClassifier(max_iter=2, hierarchy=FORMS_OF_PAIRS[form](TURNED))
    refused(r"hierarchy has pairs that seem to be \(child, parent\)", turned.fit, X, as_given(sets))
    model = StructBoostMultiLabelClassifier(max_iter=5, hierarchy=FORMS_OF_PAIRS[form](TREE))
    with warnings.catch_warnings(record=True, action="always") as caught:
        model.fit(X, as_given(sets))
    texts = [str(told.message) for told in caught if "hierarchy" in str(told.message)]
    assert len(texts) == (n_open > 0)
    assert all(f"to {n_open} of 59 sets" in text for text in texts)
    # Every metric compares with the sets as they are given.
    scorer = structured_scorer(accuracy_score)
    right = model.score(X, as_given(sets))
    assert scorer(model, X, as_given(sets)) == right <= 1.0 - n_open / 59
    assert model.score(X, as_given(with_implied(sets))) > 0.8


def test_pairs_that_imply_no_label_of_y_warn():
    X, leaves = sets_of_leaves()
    model = StructBoostMultiLabelClassifier(max_iter=2, hierarchy=[("cat", "animal")])
    with pytest.warns(UserWarning, match="hierarchy has no label above one of y"):
        model.fit(X, leaves)


@pytest.mark.parametrize(
    "form", [{"hierarchy": [(0, 1), (0, 2)]}, {"outputs": "seen", "pairs": True}]
)
def test_marginals_are_probabilities_that_agree_with_the_sets(form):
    X, Y = data(400)
    Y = np.column_stack((Y[:, 0] | Y[:, 1], Y))
    model = StructBoostMultiLabelClassifier(
        objective="l1_log_loss", C=100, max_iter=15, random_state=0, **form
    )
    shares = model.fit(X[:200], Y[:200]).predict_marginals(X)
    assert shares.shape == Y.shape
    assert (shares[:, [0, 0]] >= shares[:, 1:3] - 1e-9).all()
    loss = -np.mean(np.log(np.where(Y, shares, 1 - shares)[200:]))
    assert loss < 0.6 * np.log(2)
    assert Y[200:][shares[200:] > 0.8].mean() > 0.8


@pytest.mark.parametrize(
    "parameters", [{}, {"objective": "hinge", "C": 10.0}, {"loss": "f1"}, {"loss": "subset"}]
)
@pytest.mark.filterwarnings("ignore")
def test_training_may_have_empty_sets_only(parameters):
    X = default_rng(0).normal(size=(30, 2))
    classifier = StructBoostMultiLabelClassifier(max_iter=30, **parameters)
    assert not classifier.fit(X, np.zeros((30, 3))).predict(X).any()


def test_unlikely_sets_are_learned_as_wholes():
    X, Y = make_multilabel_classification(600, 12, n_classes=5, n_labels=2, random_state=3)
    classifier = StructBoostMultiLabelClassifier(
        objective="l1_log_loss", C=100, loss="subset", max_iter=10
    )
    assert classifier.fit(X[:300], Y[:300]).score(X[300:], Y[300:]) > 0.22
    # The empty model, which the hinge of this loss may have for its optimum, predicts no label.
    assert (Y[300:] == 0).all(axis=1).mean() < 0.18
