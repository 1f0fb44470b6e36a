"""Rows that repeat are held out one by one, and held-out weights count, in every face."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import log_loss

from structboost import (
    MultiBoostECCClassifier,
    MultiBoostMOClassifier,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
)
from structboost.selection.folds import merged_copies, random_folds
from tests.helpers.four_faces import CODED

pytestmark = pytest.mark.slow

STOPPED = {"early_stopping": True, "random_state": 0}
HOLDS_OUT = {
    "early stopping": StructBoostClassifier(**STOPPED),
    "linear": StructBoostClassifier(weak_learner="linear", random_state=0),
    **{
        name: StructBoostClassifier(name, random_state=0)
        for name in ("svm", "hinge", "exponential")
    },
    **{
        face.__name__: face(**STOPPED) for face in CODED
    },
    "MultiBoostMOClassifier": MultiBoostMOClassifier(theta=5.0, max_rounds=30, **STOPPED),
    "theta": MultiBoostECCClassifier(theta="cv", random_state=0, max_rounds=30),
}  # fmt: skip
each_that_holds_out = pytest.mark.parametrize("model", HOLDS_OUT.values(), ids=HOLDS_OUT)


def noisy_cells(n, seed=0):
    """Rows of four columns of 0 and 1, labels that no cell determines, and their odds."""
    random = default_rng(seed)
    X = random.integers(0, 2, (n, 4)).astype(float)
    p = 1 / (1 + np.exp(-X @ [2.0, -2.0, 1.0, -1.0]))
    return X, (random.random(n) < p).astype(int), p


@each_that_holds_out
def test_a_classifier_of_few_distinct_rows_learns_what_its_cells_say(model):
    X, y, _ = noisy_cells(3000)
    X_test, y_test, p = noisy_cells(4000, seed=1)
    model.fit(X, y)
    if getattr(model, "early_stopping", False):
        assert 1 <= model.n_iter_ <= len(model.validation_losses_)
    assert model.score(X_test, y_test) > np.mean((p > 0.5) == y_test) - 0.02
    if hasattr(model, "predict_proba"):
        assert log_loss(y_test, model.predict_proba(X_test)) < 1.1 * log_loss(y_test, p)


@each_that_holds_out
def test_one_category_for_each_class_is_learned_by_every_objective(model):
    X, y = np.tile(np.eye(3), (40, 1)), np.tile(["no", "yes", "perhaps"], 40)
    assert model.fit(X, y).score(X, y) == 1.0
    # Without folds, theta would be that of a stage-wise run.
    assert getattr(model, "theta", None) != "cv" or model.theta_path_


def test_folds_of_merged_rows_are_folds_of_the_rows():
    counts, weights = np.array([1, 4, 30, 7]), np.array([1.0, 2.0, 3.0, 0.5])
    folds = random_folds(np.arange(4), np.arange(4), weights, counts=counts)
    assert len(folds) == 5
    held = np.zeros(4)
    for fold in folds:
        total = np.sum(fold.weights_of(4), axis=0)
        # Weights were scaled by a power of two.
        assert_allclose(total, total[0] * weights)
        held += fold.weights_of(4)[1]
    assert_allclose(held, held[0] * weights)
    assert all(2 in fold.held_rows for fold in folds)


def test_copies_are_merged_in_the_order_in_which_they_come():
    part = merged_copies(np.array([3, 0, 3, 1]), np.array([1.0, 2.0, 8.0, 6.0]), np.full(4, 3))
    assert part.rows.tolist() == [3, 0, 1]
    assert part.counts.tolist() == [2, 1, 1]
    assert_allclose(part.weights, [4.0, 1 / 3, 2 / 3])


def weighted_faces():
    """Faces, and examples of which the second half contradicts the first."""
    X = default_rng(0).normal(size=(400, 3))
    y = (X[:, 0] > 0).astype(int)
    y[200:] = 1 - y[200:]
    grades = np.digitize(np.where(np.arange(400) < 200, X[:, 0], -X[:, 0]), [-0.5, 0.5])
    hinge = StructBoostClassifier("hinge", C=10.0, **STOPPED)
    qid = {"qid": np.repeat(np.arange(40), 10)}
    return {
        "classifier": (StructBoostClassifier(**STOPPED), X, y, {}),
        "hinge": (hinge, X, y, {}),
        "label sets": (StructBoostMultiLabelClassifier(**STOPPED), X, np.stack([y, y], 1), {}),
        "tags": (StructBoostTagger(**STOPPED), np.split(X, 200), np.split(y, 200), {}),
        "ranker": (StructBoostRanker(**STOPPED), X, grades, qid),
    }


FACES = weighted_faces()


@pytest.mark.parametrize(("model", "X", "y", "more"), FACES.values(), ids=FACES)
def test_held_out_examples_of_hardly_any_weight_hardly_count(model, X, y, more):
    n = 40 if more else len(X)
    weights = np.where(np.arange(n) < n / 2, 1.0, 1e-9)
    model.fit(X, y, sample_weight=weights, **more)
    # The first half is easy.  With equal weights no loss is below .4.
    assert min(model.validation_losses_) < 0.25


def profiles(n, seed, n_profiles=60):
    """Rows of so many distinct profiles, each with a probability of its own for each label."""
    random = default_rng(0)
    rows, odds = random.normal(size=(n_profiles, 5)), random.beta(0.6, 0.6, (n_profiles, 2))
    random = default_rng(seed)
    at = random.integers(0, n_profiles, n)
    return rows[at], (random.random((n, 2)) < odds[at]).astype(int), odds[at]


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("Face", [StructBoostClassifier, StructBoostMultiLabelClassifier])
def test_probabilities_of_repeated_rows_are_those_of_their_profiles(Face, early_stopping):
    """Rows that a round leaves out have their twins in it, and suggest a temperature of .2."""
    labels = 0 if Face is StructBoostClassifier else slice(2)
    X, Y, _ = profiles(1200, 1)
    X_test, Y_test, true = profiles(4000, 2)
    model = Face(early_stopping=early_stopping, random_state=0).fit(X, Y[:, labels])
    if labels == 0:
        predicted = model.predict_proba(X_test)[:, 1]
    else:
        predicted = model.predict_marginals(X_test)
    loss, least = (
        log_loss(Y_test[:, labels].ravel(), p.ravel()) for p in (predicted, true[:, labels])
    )
    assert loss < 1.15 * least
    assert model.temperature_ > 0.5
    assert model.model_.metadata["temperature"] == model.temperature_


def test_the_path_of_a_linear_function_ends_by_rows_and_not_by_distinct_ones():
    random = default_rng(0)
    X = np.stack([random.integers(0, k, 6891) for k in (2, 3, 3)], axis=1).astype(float)
    p = 1 / (1 + np.exp(-1.2 - X @ [-2.5, -0.9, 0.2]))
    y = (random.random(6891) < p).astype(int)
    model = StructBoostClassifier(weak_learner="linear", random_state=0).fit(X[:891], y[:891])
    assert log_loss(y[891:], model.predict_proba(X[891:])) < 1.02 * log_loss(y[891:], p[891:])


@pytest.mark.parametrize("name", ["default", *list(HOLDS_OUT)[:3]])
def test_a_table_of_counts_gives_the_model_of_its_rows(name):
    model = HOLDS_OUT.get(name, StructBoostClassifier(random_state=0))
    cells = np.array([(i % 6, i // 6) for i in range(54)], float)
    counts = default_rng(0).integers(1, 30, (54, 2))
    X, y = np.repeat(cells, 2, axis=0), np.tile([0, 1], 54)
    of_counts = model.fit(X, y, sample_weight=2 * counts.ravel()).decision_function(cells)
    factor = getattr(model, "temperature_", None)
    rows = np.repeat(np.arange(108), counts.ravel())
    assert_array_equal(model.fit(X[rows], y[rows]).decision_function(cells), of_counts)
    assert getattr(model, "temperature_", None) == factor


def test_large_counts_take_no_more_memory_than_a_million_rows():
    X, y = np.repeat(np.arange(30.0)[:, None], 2, axis=0), np.tile([0, 1], 30)
    weights = default_rng(0).integers(1, 10**9, 60)
    model = StructBoostClassifier(random_state=0).fit(X, y, sample_weight=weights)
    fractions = weights[1::2] / weights.reshape(-1, 2).sum(axis=1)
    assert np.abs(model.predict_proba(X[::2])[:, 1] - fractions).max() < 0.2


def test_theta_is_chosen_on_folds_where_each_class_has_one_distinct_row():
    X, y = np.tile(np.eye(3), (10, 1)), np.tile([0, 1, 2], 10)
    model = MultiBoostECCClassifier(theta="cv", random_state=0, max_rounds=10).fit(X, y)
    assert model.theta_path_  # without folds, theta is that of a stage-wise run


def test_weights_that_are_no_numbers_of_rows_leave_rows_as_they_are():
    X, y, _ = profiles(400, 1)
    weights = default_rng(0).random(400)
    model = StructBoostClassifier(**STOPPED).fit(X, y[:, 0], sample_weight=weights)
    assert model.n_iter_ > 1
