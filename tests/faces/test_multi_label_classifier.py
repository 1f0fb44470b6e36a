"""StructBoostMultiLabelClassifier: forms of y, losses, files."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multioutput import MultiOutputClassifier
from sklearn.tree import DecisionTreeClassifier

from structboost import StructBoostMultiLabelClassifier
from structboost.errors import EmptyModelWarning
from structboost.selection import structured_scorer
from structboost.tasks.hierarchy_forms import check_order
from tests.helpers.scikit_learn import check_battery

NAMES = np.array(["cat", "dog", "fish"])


def data(n=200, seed=0):
    """Three labels; the second excludes the first."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    first = X[:, 0] > 0.3
    Y = np.column_stack((first, ~first & (X[:, 1] > 0), X[:, 2] + X[:, 0] > 1)).astype(int)
    return X, Y


def names(Y):
    return [NAMES[row == 1].tolist() for row in Y]


def test_all_forms_of_y_give_one_model(tmp_path):
    X, Y = data()
    fits = [
        StructBoostMultiLabelClassifier(objective="hinge", C=50, max_iter=10).fit(X[:100], y)
        for y in (Y[:100], sparse.csr_array(Y[:100]), names(Y[:100]), Y[:100].tolist())
    ]
    found = fits[0].predict(X)
    assert found.shape == Y.shape
    assert np.array_equal(fits[1].predict(X), found)
    assert np.array_equal(fits[3].predict(X), found)
    assert fits[2].predict(X) == [tuple(labels) for labels in names(found)]
    assert fits[2].classes_.tolist() == NAMES.tolist()
    assert fits[0].score(X, Y) == fits[2].score(X, names(Y)) == np.mean((found == Y).all(axis=1))
    assert fits[0].score(X[100:], Y[100:]) > 0.8
    assert fits[0].history_[-1]["certified"]
    assert len(list(fits[0].staged_predict(X))) == fits[0].n_iter_
    for fit in fits[:3:2]:
        fit.save(tmp_path / "model")
        loaded = StructBoostMultiLabelClassifier.load(tmp_path / "model")
        assert list(map(tuple, loaded.predict(X))) == list(map(tuple, fit.predict(X)))


@pytest.mark.parametrize("options", [{}, {"objective": "l1_log_loss", "C": 30}])
def test_costs_of_labels_move_predictions(options, tmp_path):
    X, Y = data(300)
    rng = np.random.default_rng(1)
    Y = np.where(rng.random(Y.shape) < 0.2, 1 - Y, Y)  # so that no label is sure

    def mean_cost(found):
        missing, excess = (Y > found)[150:], (Y < found)[150:]
        return np.mean(missing[:, 1] * 8 + excess[:, 1] + (missing + excess)[:, [0, 2]].sum(axis=1))

    costs = {"dog": (8, 1)}
    plain, of_costs = (
        StructBoostMultiLabelClassifier(max_iter=15, random_state=0, label_costs=given, **options)
        for given in (None, costs)
    )
    found = [fit.fit(X[:150], names(Y[:150])).predict(X) for fit in (plain, of_costs)]
    plain_sets, sets = (np.array([[name in own for name in NAMES] for own in f]) for f in found)
    assert sets[:, 1].mean() > plain_sets[:, 1].mean() + 0.1
    assert mean_cost(sets) < mean_cost(plain_sets)
    of_costs.save(tmp_path / "model")
    loaded = StructBoostMultiLabelClassifier.load(tmp_path / "model")
    assert loaded.predict(X) == found[1]
    assert loaded.label_costs["dog"] == (8.0, 1.0)
    loaded.save(tmp_path / "again")
    assert StructBoostMultiLabelClassifier.load(tmp_path / "again").predict(X) == found[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"label_costs": {5: 2}},
            r"the label 5, which y does not have; give labels of \[0, 1, 2\]",
        ),
        ({"label_costs": {0: (1, 2, 3)}}, r"label_costs\[0\] is \(1, 2, 3\); give a number"),
        ({"label_costs": {0: "2"}}, r"label_costs\[0\] is '2'; give a number"),
        ({"label_costs": {0: -1}}, r"label_costs\[0\] is -1; give finite costs from 0"),
        (
            {"label_costs": [1, 2, 3]},
            r"is \[1, 2, 3\]; give a dict of labels to costs, such as \{0: 2.0\}",
        ),
        (
            {"label_costs": {0: 2}, "loss": "f1"},
            r"label_costs is \{0: 2\}, which loss='f1' does not read.*loss='hamming'",
        ),
        (
            {"label_costs": {0: 2}, "hierarchy": [(0, 1)]},
            "which hierarchy does not read.*leave label_costs or hierarchy out",
        ),
    ],
)
def test_wrong_costs_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        StructBoostMultiLabelClassifier(objective="hinge", C=1, **options).fit(*data(10))


def test_an_unfitted_classifier_raises_an_error():
    X, Y = data(10)
    for call in ("predict", "predict_marginals"):
        with pytest.raises(NotFittedError):
            getattr(StructBoostMultiLabelClassifier(), call)(X)
    with pytest.raises(NotFittedError):
        StructBoostMultiLabelClassifier().score(X, Y)


@pytest.mark.parametrize("loss", ["hamming", "subset", "f1"])
def test_seen_sets_and_pairs_work_with_early_stopping(loss, tmp_path):
    X, Y = data(240)
    classifier = StructBoostMultiLabelClassifier(
        objective="hinge", C=30, loss=loss, outputs="seen", pairs=True, max_iter=8,
        early_stopping=True, random_state=0,
    ).fit(X[:160], Y[:160])  # fmt: skip
    found = classifier.predict(X)
    assert not (found[:, 0] & found[:, 1]).any()
    assert f1_score(Y[160:], found[160:], average="samples", zero_division=1.0) > 0.8
    assert classifier.decision_function(X).shape == (240, 6)
    classifier.save(tmp_path / "model")
    loaded = StructBoostMultiLabelClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(X), found)


def test_unlikely_sets_are_learned_as_wholes():
    X, Y = make_multilabel_classification(600, 12, n_classes=5, n_labels=2, random_state=3)
    classifier = StructBoostMultiLabelClassifier(
        objective="l1_log_loss", C=100, loss="subset", max_iter=10
    )
    assert classifier.fit(X[:300], Y[:300]).score(X[300:], Y[300:]) > 0.22
    # The empty model, which the hinge of this loss may have for its optimum, predicts no label.
    assert (Y[300:] == 0).all(axis=1).mean() < 0.18


def test_one_label_for_each_sample_gives_one_of_the_labels(tmp_path):
    X, Y = data()
    single = NAMES[np.where(Y[:, 0] == 1, 0, np.where(Y[:, 1] == 1, 1, 2))]
    for y in (single, single == "cat"):
        fit = StructBoostMultiLabelClassifier(objective="hinge", C=50, max_iter=10).fit(
            X[:100], y[:100]
        )
        assert fit.predict(X).dtype == y.dtype
        assert np.mean(fit.predict(X[100:]) == y[100:]) == fit.score(X[100:], y[100:]) > 0.85
        fit.save(tmp_path / "model")
        loaded = StructBoostMultiLabelClassifier.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predict(X), fit.predict(X))
        *_, last = fit.staged_predict(X)
        np.testing.assert_array_equal(last, fit.predict(X))
    lists = StructBoostMultiLabelClassifier(objective="hinge", C=50, max_iter=10, outputs="seen")
    lists.fit(X[:100], [[label] for label in single[:100]])
    of_labels = StructBoostMultiLabelClassifier(objective="hinge", C=50, max_iter=10).fit(
        X[:100], single[:100]
    )
    assert [labels for (labels,) in lists.predict(X)] == of_labels.predict(X).tolist()
    with pytest.raises(ValueError, match="hierarchy gives a sample several"):
        of_labels.set_params(hierarchy=[("animal", "cat")]).fit(X, single)


@pytest.mark.slow
def test_the_whole_scikit_learn_battery():
    # Trees, because stumps with the hinge loss have several optima: rounding chooses among them.
    trees = StructBoostMultiLabelClassifier(
        objective="hinge", C=30, weak_learner="tree", max_iter=5
    )
    check_battery(trees, 64)


def test_weights_are_routed_through_a_grid_search():
    X, Y = data(120)
    few = np.r_[np.ones(60), np.zeros(60)]
    face = StructBoostMultiLabelClassifier(objective="hinge", C=20, max_iter=3)
    folds = KFold(2, shuffle=True, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        face.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = GridSearchCV(face, {"loss": ["hamming", "f1"]}, cv=folds, refit=False)
        search.fit(X, Y, sample_weight=few)
    expected = []
    for train, held in folds.split(X):
        train, held = train[train < 60], held[held < 60]
        model = StructBoostMultiLabelClassifier(objective="hinge", C=20, max_iter=3).fit(
            X[train], Y[train]
        )
        expected.append(model.score(X[held], Y[held]))
    found = [search.cv_results_[f"split{i}_test_score"][0] for i in range(2)]
    np.testing.assert_allclose(found, expected)


def test_c_is_chosen_and_weights_count():
    X, Y = data(120)
    weights = np.r_[np.ones(60), np.zeros(60)]
    classifier = StructBoostMultiLabelClassifier(max_iter=4, random_state=0)
    classifier.fit(X, Y, sample_weight=weights)
    half = StructBoostMultiLabelClassifier(max_iter=4, random_state=0).fit(X[:60], Y[:60])
    assert classifier.C_ == half.C_
    assert np.array_equal(classifier.predict(X), half.predict(X))
    peer = MultiOutputClassifier(DecisionTreeClassifier(max_depth=1)).fit(X[:60], Y[:60])
    assert classifier.score(X, Y) > peer.score(X, Y) - 0.05


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([[0, 2], [1, 0]]), r"y\[0, 1\] is 2; give an indicator matrix of 0 and 1"),
        (np.array([[0, 1], [1, np.nan]]), r"y\[1, 1\] is nan"),
        ([["cat"], ["dog", None]], r"y\[1\] has the label None; .* leave labels out"),
        ([["cat"], ["dog", np.nan]], r"y\[1\] has the label nan"),
        ([[("cat", "old")], [("dog", "old")]], r"y\[0\] has the label \('cat', 'old'\)"),
        ([["cat"], ["dog", 3]], r"y\[1\] has the label 3, and y has 'cat'; give only strings"),
        (["cat", ["dog"]], r"y\[0\] is 'cat'"),
        (["cat", "cat"], "y has 1 class only, .*'cat'"),
        ([0.5, 1.5], "continuous"),
        (None, "requires y to be passed"),
        ([["cat"], []], "y has 1 labels"),
        ([["cat"], ["dog"], []], "2 samples and y 3"),
        (np.zeros((2, 11)), "at most 10 labels"),
    ],
)
def test_wrong_labels_are_named(y, message):
    with pytest.raises(ValueError, match=message):
        StructBoostMultiLabelClassifier(objective="hinge", C=1, pairs=True).fit(np.zeros((2, 1)), y)


def test_a_hierarchy_adds_implied_labels_to_truths_and_predictions(tmp_path):
    X, Y = data()
    kinds = [("animal", "cat"), ("animal", "dog"), ("pet", "cat"), ("alive", "animal")]
    classifier = StructBoostMultiLabelClassifier(
        objective="hinge", C=50, max_iter=10, hierarchy=kinds
    )
    with pytest.warns(UserWarning, match=r"hierarchy adds labels to \d+ of 100 sets of y"):
        classifier.fit(X[:100], names(Y[:100]))
    labels = ["alive", "animal", "cat", "dog", "fish", "pet"]
    assert classifier.classes_.tolist() == labels
    assert classifier.history_[-1]["certified"]
    animal = Y[:, 0] | Y[:, 1]
    closed = np.column_stack((animal, animal, Y, Y[:, 0]))
    found = classifier.predict(X)
    table = np.array([[label in row for label in labels] for row in found])
    assert (table[:, 0] >= table[:, 1]).all()
    assert (table[:, [1, 5]] >= table[:, [2]]).all()
    implied = [tuple(np.array(labels)[row == 1]) for row in closed]
    assert classifier.score(X, implied) == np.mean((table == closed).all(axis=1)) > 0.7
    # Sets that lack labels above theirs are never predicted.
    given = np.column_stack((0 * animal, 0 * animal, Y, 0 * animal))
    assert classifier.score(X, names(Y)) == np.mean((table == given).all(axis=1)) < 0.5
    classifier.save(tmp_path / "model")
    loaded = StructBoostMultiLabelClassifier.load(tmp_path / "model")
    assert loaded.predict(X) == found
    assert set(loaded.hierarchy) == set(kinds)
    numbered = StructBoostMultiLabelClassifier(
        objective="hinge",
        C=50,
        max_iter=10,
        hierarchy=[(labels.index(a), labels.index(b)) for a, b in kinds],
    ).fit(X[:100], np.pad(Y[:100], ((0, 0), (2, 1))))
    assert np.array_equal(numbered.predict(X), table)


TREE = [("animal", "cat"), ("animal", "dog"), ("plant", "oak")]
TURNED = [(below, above) for above, below in TREE]
IMPLIED = dict(TURNED)


def sets_of_leaves(n=60):
    """Table, and sets of labels without those above them."""
    rows = np.random.default_rng(0).normal(size=(n, 2))
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
    "graph": lambda pairs: pytest.importorskip("networkx").DiGraph(pairs),
}
CLOSED = {"all": 1, "half": 2, "none": 1000}


@pytest.mark.parametrize("form", FORMS_OF_PAIRS)
@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("as_given", [list, as_frame], ids=["lists", "frame"])
def test_both_orders_of_pairs_are_told_apart_and_added_labels_are_counted(form, closed, as_given):
    X, leaves = sets_of_leaves()
    sets = with_implied(leaves, CLOSED[closed])[1:]
    X, n_open = (
        X[1:],
        sum(row != whole for row, whole in zip(sets, with_implied(sets), strict=True)),
    )
    turned = StructBoostMultiLabelClassifier(max_iter=2, hierarchy=FORMS_OF_PAIRS[form](TURNED))
    with pytest.raises(ValueError, match=r"hierarchy has pairs that seem to be \(child, parent\)"):
        turned.fit(X, as_given(sets))
    model = StructBoostMultiLabelClassifier(max_iter=20, hierarchy=FORMS_OF_PAIRS[form](TREE))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, as_given(sets))
    texts = [str(one.message) for one in caught if "hierarchy" in str(one.message)]
    assert len(texts) == (n_open > 0)
    assert all(f"to {n_open} of 59 sets" in text for text in texts)
    # Every metric compares with the sets as they are given.
    predicted = as_frame(model.predict(X)).to_numpy() if as_given is list else model.predict(X)
    right = (as_frame(sets).to_numpy() == predicted).all(axis=1).mean()
    scorer = structured_scorer(accuracy_score)
    assert model.score(X, as_given(sets)) == scorer(model, X, as_given(sets)) == right
    assert right <= 1.0 - n_open / 59
    assert model.score(X, as_given(with_implied(sets))) > 0.9


def test_pairs_that_imply_no_label_of_y_warn():
    X, leaves = sets_of_leaves()
    model = StructBoostMultiLabelClassifier(max_iter=2, hierarchy=[("cat", "animal")])
    with pytest.warns(UserWarning, match="hierarchy has no label above one of y"):
        model.fit(X, leaves)


@pytest.mark.parametrize("seed", range(10))
def test_an_order_of_pairs_that_sets_do_not_tell_is_taken_as_it_is_given(seed):
    random = np.random.default_rng(seed)
    sets = random.integers(0, 2, (80, 4))
    check_order([(0, 1), (1, 2), (0, 3)], sets, range(4), "hierarchy")
    check_order([(1, 0), (2, 1), (3, 0)], np.zeros_like(sets) + 1, range(4), "hierarchy")


def test_marginals_are_probabilities_that_agree_with_the_hierarchy():
    X, Y = data(400)
    settings = {"objective": "l1_log_loss", "C": 100, "max_iter": 15, "random_state": 0}
    Y = np.column_stack((Y[:, 0] | Y[:, 1], Y))
    kinds = [(0, 1), (0, 2)]
    closed = StructBoostMultiLabelClassifier(hierarchy=kinds, **settings).fit(X[:200], Y[:200])
    found = closed.predict_marginals(X)
    assert (found[:, [0, 0]] >= found[:, 1:3]).all()
    seen = StructBoostMultiLabelClassifier(outputs="seen", pairs=True, **settings)
    for shares in (found, seen.fit(X[:200], Y[:200]).predict_marginals(X)):
        assert shares.shape == Y.shape
        loss = -np.mean(np.log(np.where(Y, shares, 1 - shares)[200:]))
        assert loss < 0.6 * np.log(2)
        sure = shares[200:] > 0.8
        assert Y[200:][sure].mean() > 0.8


def test_a_set_with_a_new_label_counts_as_wrong():
    X, Y = data(100)
    classifier = StructBoostMultiLabelClassifier(objective="hinge", C=50, max_iter=10).fit(
        X, names(Y)
    )
    found = classifier.predict(X)
    assert classifier.score(X, found) == 1.0
    assert classifier.score(X, [(*labels, "zebra") for labels in found]) == 0.0
    assert classifier.score(X, ["zebra"] * 100) == 0.0
    with pytest.raises(ValueError, match="give one label for each"):
        classifier.score(X, found[:1])


@pytest.mark.parametrize(
    "parameters", [{}, {"objective": "hinge", "C": 10.0}, {"loss": "f1"}, {"loss": "subset"}]
)
def test_training_may_have_empty_sets_only(parameters):
    X = np.random.default_rng(0).normal(size=(30, 2))
    classifier = StructBoostMultiLabelClassifier(max_iter=30, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyModelWarning)
        assert not classifier.fit(X, np.zeros((30, 3))).predict(X).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"hierarchy": [(0, 3)]},
            r"hierarchy has the label 3, and y has the columns \[0, 1, 2\]; give labels of these",
        ),
        ({"hierarchy": [(0, 1)], "loss": "f1"}, "loss is 'f1', which .* hierarchy does not read"),
        ({"hierarchy": [(0, 1)], "outputs": "seen"}, "or write outputs='all'"),
        ({"hierarchy": [(0, 1)], "pairs": True}, "pairs is True, .*or write pairs=False"),
        ({"hierarchy": [(0, 1), (1, 0)]}, "a label is above itself: 0 > 1 > 0; take one pair"),
        ({"hierarchy": [("0", "1")]}, "hierarchy has '0', and y has 0; give only strings"),
        ({"hierarchy": []}, "hierarchy is empty; give a dict"),
        ({"hierarchy": [(0, 1), (0, 1, 2)]}, r"hierarchy\[1\] is \(0, 1, 2\); give"),
        ({"hierarchy": (0, 1)}, r"hierarchy\[0\] is 0; give"),
        ({"hierarchy": 3}, r"hierarchy is 3; give .*pairs \(parent, child\)"),
    ],
)
def test_wrong_hierarchies_are_named(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        StructBoostMultiLabelClassifier(objective="hinge", C=1, **options).fit(*data(10))
