"""Rows that rounds leave out: they say how sure probabilities are, when to end, what to split."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_wine, make_classification
from sklearn.metrics import log_loss

from structboost import StructBoostClassifier, StructBoostMultiLabelClassifier, StructBoostTagger
from structboost.contract.parts import StackedParts
from structboost.faces import stage_wise
from structboost.model.ensemble import model_scores
from structboost.objectives import StageWiseLikelihood
from structboost.objectives.base import SoftmaxLink

X, Y = make_classification(
    400, 8, n_informative=4, n_classes=3, flip_y=0.3, random_state=1, shuffle=True
)
TRAIN, TEST = slice(0, 200), slice(200, None)
LABELS = np.column_stack((Y == 0, Y > 0, X[:, 0] > 0)).astype(int)


def fitted(**parameters):
    return StructBoostClassifier(random_state=0, **parameters).fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def default():
    return fitted()


@pytest.mark.slow
def test_default_probabilities_are_less_extreme_with_wrong_labels(default, reloaded):
    assert 0.1 < default.temperature_ < 0.9
    assert default.link_.sharpness == pytest.approx(2 * default.temperature_)
    scores = default.decision_function(X[TEST])
    too_sure = SoftmaxLink(sharpness=2.0).inverse(scores)
    found = default.predict_proba(X[TEST])
    assert log_loss(Y[TEST], found) < 0.95 * log_loss(Y[TEST], too_sure)
    # The best temperature on the test rows themselves is hardly better.
    factors = np.exp(np.linspace(-3, 1, 81))
    best = min(log_loss(Y[TEST], SoftmaxLink(2.0 * f).inverse(scores)) for f in factors)
    assert log_loss(Y[TEST], found) < 1.05 * best
    assert (found.argmax(axis=1) == too_sure.argmax(axis=1)).all()
    loaded = reloaded(default)
    assert (loaded.temperature_, loaded.ending_) == (default.temperature_, default.ending_)
    assert_array_equal(loaded.predict_proba(X[TEST]), found)


@pytest.mark.slow
def test_left_out_rows_end_the_default(default):
    assert default.ending_ == "held_out"
    # Noisy labels: held-out rows lose nothing by an end 40 rounds after the least loss.
    assert default.n_iter_ == len(default.history_) < 160
    assert fitted(max_iter=15).ending_ == "max_rounds"


def test_no_rows_are_left_out_of_few_and_the_temperature_is_that_of_folds():
    few = StructBoostClassifier(max_iter=5).fit(X[:40], Y[:40])
    assert few.link_ == StageWiseLikelihood().link.sharpened(few.temperature_)
    assert few.max_features_ == 1.0
    assert all(record["held_out_loss"] is None for record in few.history_)
    weights = np.arange(40) % 3 + 1.0
    repeated = np.repeat(np.arange(40), weights.astype(int))
    of_weights = StructBoostClassifier(max_iter=5).fit(X[:40], Y[:40], sample_weight=weights)
    of_rows = StructBoostClassifier(max_iter=5).fit(X[repeated], Y[repeated])
    assert of_rows.temperature_ == of_weights.temperature_


@pytest.mark.parametrize("n", [20, 30, 45])
def test_few_rows_give_no_probabilities_that_are_far_too_sure(n):
    random = default_rng(0)
    rows = random.normal(size=(n + 2000, 4))
    labels = ((rows[:, 0] > 0) ^ (random.random(len(rows)) < 0.3)).astype(int)
    model = StructBoostClassifier(random_state=0).fit(rows[:n], labels[:n])
    # The constant has .69, and scores without a temperature 1.5 to 2.5.
    assert log_loss(labels[n:], model.predict_proba(rows[n:])) < 0.8


def test_two_rows_have_no_folds():
    model = StructBoostClassifier().fit([[0.0], [1.0]], ["a", "b"])
    assert model.temperature_ is None
    assert model.predict([[0.0], [1.0]]).tolist() == ["a", "b"]


def test_early_stopping_refits_all_rows_for_the_best_number_of_rounds():
    stopped = fitted(early_stopping=True, max_features=0.5)
    best = int(np.argmin(stopped.validation_losses_))
    assert stopped.n_iter_ == best + 1
    assert stopped.ending_ == "held_out"
    whole = fitted(max_iter=best + 1, max_features=0.5)
    assert stopped.model_.weights.tobytes() == whole.model_.weights.tobytes()
    assert stopped.temperature_ == whole.temperature_


def test_marginals_of_taggers_and_label_sets_use_the_temperature():
    sequences, tags = np.split(X, 80), np.split(Y, 80)
    tagger = StructBoostTagger(max_iter=60, max_features=0.5).fit(sequences[:40], tags[:40])
    sets = StructBoostMultiLabelClassifier(max_iter=60, max_features=0.5)
    sets.fit(X[TRAIN], LABELS[TRAIN])
    assert 0.1 < tagger.temperature_ < 1.0
    assert 0.1 < sets.temperature_ < 1.0
    rows = sequences[40:]
    scores = model_scores(tagger.task_, tagger.model_, rows)
    scaled = {kind: tagger.temperature_ * each for kind, each in scores.rows.items()}
    scaled = StackedParts(scaled, scores.offsets)
    expected = tagger.task_.marginals_batch(rows, scaled).expected["token"]
    found = [list(token.values()) for x in tagger.predict_marginals(rows) for token in x]
    assert_allclose(found, expected)
    chances = expit(sets.temperature_ * sets.decision_function(X[TEST]))
    assert_allclose(sets.predict_marginals(X[TEST]), chances, atol=1e-9)


def test_all_features_are_split_if_they_matter_only_together():
    rng = default_rng(7)
    signs = rng.normal(size=(1500, 8))
    product = (np.prod(signs[:, :3], axis=1) > 0).astype(int)
    chosen = StructBoostClassifier(max_iter=2).fit(signs, product).max_features_
    assert chosen == 1.0
    few = StructBoostClassifier(max_iter=2).fit(*load_wine(return_X_y=True)).max_features_
    assert few == pytest.approx(1 / 3)
    # Where a trial has hardly learned anything, features may count together only.
    noise = StructBoostClassifier(max_iter=2).fit(signs, rng.permutation(product))
    assert noise.max_features_ == 1.0
    wide = np.hstack((signs, rng.normal(size=(1500, 30))))
    assert StructBoostClassifier(max_iter=2).fit(wide, product).max_features_ < 1.0
    assert StructBoostClassifier(max_iter=2, max_features=0.7).fit(X, Y).max_features_ == 0.7


@pytest.mark.slow
def test_large_tables_have_few_rounds_of_long_steps(monkeypatch):
    monkeypatch.setattr(stage_wise, "_LARGE", 100)
    rows = default_rng(0).normal(size=(2500, 20))
    for very_large, least, most in ((2500, 201, 500), (2499, 1, 200)):
        monkeypatch.setattr(stage_wise, "_VERY_LARGE", very_large)
        model = StructBoostClassifier(random_state=0).fit(rows, rows.sum(axis=1) > 0)
        assert model.learning_rate_ == 0.15
        assert least <= model.n_iter_ <= most
    given = StructBoostClassifier(learning_rate=0.3, max_iter=5).fit(X, Y)
    assert (given.learning_rate_, given.n_iter_) == (0.3, 5)


@pytest.mark.slow
def test_boosting_continues_while_held_out_scores_need_a_larger_scale():
    """The held-out loss of a product of three signs rises for long before it falls."""
    signs = default_rng(7).normal(size=(8000, 10))
    product = (np.prod(signs[:, :3], axis=1) > 0).astype(int)
    model = StructBoostClassifier(random_state=0).fit(signs[:4000], product[:4000])
    assert log_loss(product[4000:], model.predict_proba(signs[4000:])) < 0.05


def steps_and_labels():
    """Rows whose label changes at every step of each feature."""
    rows = default_rng(0).uniform(0, 3, size=(2500, 3))
    return rows, (np.floor(rows).sum(axis=1) % 2).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("is_smooth", [False, True])
def test_long_steps_are_taken_where_held_out_rows_are_predicted_better(is_smooth, reloaded):
    rows, labels = steps_and_labels()
    if is_smooth:
        rows = default_rng(0).normal(size=(2500, 20))
        labels = (rows.sum(axis=1) > 0).astype(int)
    model = StructBoostClassifier(random_state=0).fit(rows, labels)
    assert (model.max_depth_, model.learning_rate_) == ((5, 0.1) if is_smooth else (7, 0.2))
    assert model.l2_regularization_ == (0 if is_smooth else 20)
    assert reloaded(model).max_depth_ == model.max_depth_
    given = StructBoostClassifier(random_state=0, max_depth=5, max_iter=5).fit(rows, labels)
    assert (given.max_depth_, given.n_iter_, given.l2_regularization_) == (5, 5, 0)


@pytest.mark.slow
@pytest.mark.parametrize("are_many", [False, True])
def test_long_steps_are_tried_on_some_of_many_rows(are_many, monkeypatch):
    monkeypatch.setattr(stage_wise, "_MOST_FOLDED", 2000)
    monkeypatch.setattr(stage_wise, "_MOST_SOME", 2000)
    monkeypatch.setattr(stage_wise, "_LARGE", 2400 if are_many else 20_000)
    of_steps = StructBoostClassifier(random_state=0, l2_regularization=2.0)
    of_steps.fit(*steps_and_labels())
    assert (of_steps.max_depth_, of_steps.l2_regularization_) == (7, 2.0)
    rng = default_rng(0)
    # On noise neither is better: a tie goes to long steps only if some rows stand for many.
    noise = rng.normal(size=(2500, 20)), rng.integers(0, 2, 2500)
    tied = StructBoostClassifier(random_state=0).fit(*noise)
    assert tied.max_depth_ == (7 if are_many else 5)


@pytest.mark.slow
@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize(
    "limits", [{}, {"_MOST_FOLDED": 2000}, {"_MOST_FOLDED": 0, "_LARGE": 2000}]
)
def test_probabilities_suit_new_rows_at_every_size(limits, early_stopping, monkeypatch):
    """A fit alone, one on some of the rows, and rows set aside tell the temperature."""
    for name, value in limits.items():
        monkeypatch.setattr(stage_wise, name, value)
    rows = default_rng(0).normal(size=(6000, 20))
    labels = rows.sum(axis=1) + default_rng(1).normal(size=6000) > 0
    train, new = slice(0, 3000), slice(3000, None)
    model = StructBoostClassifier(early_stopping=early_stopping, random_state=0)
    found = model.fit(rows[train], labels[train]).predict_proba(rows[new])
    # Powers of probabilities are those at another temperature.
    powers = (found**factor for factor in np.exp(np.linspace(-2, 2, 81)))
    best = min(log_loss(labels[new], of / of.sum(axis=1, keepdims=True)) for of in powers)
    assert log_loss(labels[new], found) < 1.02 * best


def sides_and_quick_fit():
    rows = default_rng(0).normal(size=(2500, 5))
    labels = (rows.sum(axis=1) > 0).astype(int)
    return (
        rows,
        labels,
        StructBoostClassifier(max_iter=20, max_depth=3, max_features=1.0, random_state=0),
    )


@pytest.mark.slow
def test_rows_that_tell_the_temperature_have_no_weight_in_the_fit(monkeypatch):
    monkeypatch.setattr(stage_wise, "_MOST_FOLDED", 1000)
    monkeypatch.setattr(stage_wise, "_LARGE", 2000)
    found, set_aside = [], stage_wise.StageWise.set_aside

    def spied(self, problem):
        found.append((problem, *set_aside(self, problem)))
        return found[-1][1:]

    monkeypatch.setattr(stage_wise.StageWise, "set_aside", spied)
    rows, labels, quick = sides_and_quick_fit()
    rows[:, 0] = np.arange(2500)
    labels[:20] = 2
    weights = default_rng(1).uniform(0.5, 1.5, 2500)
    right = quick.fit(rows, labels, weights)
    aside = found[0][2].X[:, 0].astype(int)
    assert len(aside) > 60
    # Rare classes take part whole.
    assert aside.min() >= 20
    wrong = labels.copy()
    wrong[aside] = 1 - labels[aside]
    damaged = clone(quick).fit(rows, wrong, weights)
    assert damaged.model_.weights.tobytes() == right.model_.weights.tobytes()
    assert damaged.temperature_ < 0.5 * right.temperature_
    # One of several equal rows is set aside.
    twice = np.repeat(np.arange(2500), 2)
    found.clear()
    clone(quick).fit(rows[twice], labels[twice], weights[twice])
    before, after = (of.examples.weights for of in found[0][:2])
    assert set(np.round(after / before, 9)) == {0.5, 1.0}


@pytest.mark.slow
@pytest.mark.parametrize("n_held", [10, 40])
def test_few_rows_of_an_eval_set_do_not_decide_the_temperature(n_held, monkeypatch):
    monkeypatch.setattr(stage_wise, "_MOST_FOLDED", 2000)
    rows, labels, quick = sides_and_quick_fit()
    # All labels of the held-out rows are wrong.
    held = rows[:n_held], 1 - labels[:n_held]
    misled = clone(quick).fit(rows, labels, eval_set=held).temperature_
    assert misled > 0.5 * quick.fit(rows, labels).temperature_


@pytest.mark.slow
def test_rare_classes_leave_the_temperature_to_other_fits(monkeypatch):
    monkeypatch.setattr(stage_wise, "_MOST_FOLDED", 1000)
    monkeypatch.setattr(stage_wise, "_LARGE", 1500)
    rows = default_rng(0).normal(size=(2000, 3))
    model = StructBoostClassifier(max_iter=2, max_depth=1, max_features=1.0)
    assert model.fit(rows, np.arange(2000) % 100).temperature_ > 0
