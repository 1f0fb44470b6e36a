"""Probabilities follow from the loss, where it has them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.datasets import load_iris

from structboost import (
    AdaBoostECCClassifier,
    AdaBoostMHClassifier,
    AdaBoostMOClassifier,
    MultiBoostClassifier,
    MultiBoostCWClassifier,
    MultiBoostECCClassifier,
    MultiBoostMOClassifier,
    ShareBoostClassifier,
    StructBoostClassifier,
)
from structboost.learners import StumpFamily
from structboost.learners.pricing import BestChannel
from structboost.objectives import Exponential, Logistic, NormBounded, StageWise

X, y = load_iris(return_X_y=True)


def expected_exponential(scores, probabilities):
    pairs = np.exp(scores[None, :] - scores[:, None])
    return probabilities @ (pairs.sum(axis=1) - 1.0)


def expected_logistic(scores, probabilities):
    margins = 1.0 - np.eye(len(scores))
    return probabilities @ np.log(np.exp(margins + scores[None, :] - scores[:, None]).sum(axis=1))


@pytest.mark.parametrize(
    ("formulation", "expected"),
    [
        (Exponential(), expected_exponential),
        (StageWise(), expected_exponential),
        (NormBounded(), expected_exponential),
        (Logistic(), expected_logistic),
    ],
    ids=lambda value: type(value).__name__,
)
@given(shares=st.lists(st.floats(0.05, 1.0), min_size=2, max_size=5))
def test_the_scores_that_minimise_the_expected_loss_give_the_probabilities(
    formulation, expected, shares
):
    true = np.array(shares) / sum(shares)
    best = minimize(expected, np.zeros(len(true)), args=(true,), options={"gtol": 1e-9})
    np.testing.assert_allclose(formulation.link.inverse(best.x[None])[0], true, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "classifier",
    [
        StructBoostClassifier(C=1e7, tol=1e-6, objective=Exponential(tau_max=50, epsilon=1e-7)),
        ShareBoostClassifier(C=1e7, weak_learner="stump"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_unregularised_fit_gives_the_class_frequencies(classifier, n_classes):
    random = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], 60)
    label = random.integers(0, n_classes, 180) * (random.random(180) < 0.4 + 0.2 * group)
    model = classifier.fit(group[:, None].astype(float), label)
    shares = [np.bincount(label[group == g], minlength=n_classes) / 60 for g in range(3)]
    np.testing.assert_allclose(model.predict_proba([[0.0], [1.0], [2.0]]), shares, atol=0.01)


def test_losses_without_probabilities_have_no_such_method():
    for model in (
        MultiBoostCWClassifier(), MultiBoostClassifier(), AdaBoostECCClassifier(),
        MultiBoostECCClassifier(), ShareBoostClassifier(),
        StructBoostClassifier("exponential"), StructBoostClassifier(),
    ):  # fmt: skip
        assert hasattr(model, "predict_proba")
    for model in (
        StructBoostClassifier("hinge", C=1.0), StructBoostClassifier("svm"),
        StructBoostClassifier("hinge", formulation="m_slack"),
        MultiBoostClassifier(loss="hinge"), MultiBoostECCClassifier(loss="hinge"),
        AdaBoostMHClassifier(), AdaBoostMOClassifier(), MultiBoostMOClassifier(),
        MultiBoostCWClassifier(taxonomy={0: None, "a": [1, 2]}),
        StructBoostClassifier("hinge", formulation="none"),
    ):  # fmt: skip
        with pytest.raises(AttributeError) as caught:
            _ = model.predict_proba
        assert "CalibratedClassifierCV" in str(caught.value.__cause__)


@pytest.mark.parametrize("own", [{"weak_learner": StumpFamily}, {"pricing": BestChannel()}])
def test_a_hinge_of_plug_ins_has_no_probabilities_after_a_file(own, reloaded):
    model = StructBoostClassifier("hinge", max_iter=5, **own).fit(X, y)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(reloaded(model), "predict_proba")
