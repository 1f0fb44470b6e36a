"""Sparse tables: every face reads them, as arrays where weak learners need arrays."""

from functools import partial

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import structboost
from structboost import (
    MulticlassTask,
    ShareBoostClassifier,
    StructBoost,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructuredSVM,
    StructuredSVMClassifier,
)
from structboost.learners.linear_function import LinearFunctionFamily
from structboost.learners.standardisation import Standardisation
from tests.helpers.refusals import refused

LEARNERS = ("perceptron", "feature", "svm", "lda", ["stump", "lda"])


def problem(n=120, d=10, seed=0):
    """A sparse table, three classes that a linear function tells apart, and sets of labels."""
    rng = default_rng(seed)
    X = sparse.random_array((n, d), density=0.4, format="csr", rng=rng)
    scores = X @ rng.normal(size=(d, 3))
    return X, scores.argmax(axis=1), (scores > 0).astype(int)


def fitted(face, X, **parameters):
    """A face, fitted to the targets of its kind."""
    _, y, sets = problem()
    if face is StructBoostMultiLabelClassifier:
        return face(**parameters).fit(X, sets)
    if face is StructBoostRanker:
        return face(**parameters).fit(X, y, qid=np.repeat(np.arange(12), 10))
    return face(**parameters).fit(X, y)


FACES = (StructBoostClassifier, StructBoostRanker, StructBoostMultiLabelClassifier)


def check_sparse_and_dense(model, X):
    """Sparse rows have the scores of the same rows as an array."""
    dense = model.decision_function(X.toarray())
    assert_allclose(model.decision_function(X), dense, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weak_learner", ["stump", "tree", "linear", ["linear", "stump"]])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("objective", ["default", "hinge", "l1_log_loss"])
def test_estimators_learn_the_same_from_sparse_rows_and_arrays(face, objective, weak_learner):
    if objective == "l1_log_loss" and face is StructBoostRanker:
        pytest.skip("rankers have no such objective")
    X, y, sets = problem()
    parameters = {"weak_learner": weak_learner, "max_iter": 20}
    if objective != "default":
        parameters |= {"objective": objective, "C": 20.0, "tol": 1e-3}
    model, dense = (fitted(face, table, **parameters) for table in (X, X.toarray()))
    check_sparse_and_dense(model, X)
    if objective != "default" and weak_learner == "linear":
        assert model.objective_ == pytest.approx(dense.objective_, rel=2e-3)
    truth = sets if face is StructBoostMultiLabelClassifier else y
    assert model.score(X, truth) == pytest.approx(dense.score(X.toarray(), truth), abs=0.1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("weak_learner", LEARNERS)
@pytest.mark.parametrize(
    "face", [StructBoostClassifier, ShareBoostClassifier, "AdaBoostMHClassifier"]
)
def test_learners_that_need_arrays_learn_the_same_from_sparse_rows(face, weak_learner):
    if face is ShareBoostClassifier and weak_learner != "feature":
        pytest.skip("no search for learners that classes share")
    X, _, _ = problem()
    face = getattr(structboost, face) if isinstance(face, str) else face
    rounds = "max_iter" if face is StructBoostClassifier else "max_rounds"
    options = {"weak_learner": weak_learner, rounds: 3, "random_state": 0}
    if face is StructBoostClassifier:
        options |= {"objective": "hinge", "C": 5.0}
    model, dense = (fitted(face, table, **options) for table in (X, X.toarray()))
    assert_array_equal(model.decision_function(X.toarray()), dense.decision_function(X.toarray()))


def test_a_sparse_table_too_large_for_an_array_is_refused_with_the_learners_that_take_it():
    wide = sparse.csr_array((3, 1 << 27))
    refused(
        r"3 x 134217728 entries.*'tree', 'stump' or 'linear'",
        ShareBoostClassifier().fit,
        wide,
        [0, 1, 0],
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_trainers_accept_every_sparse_format(form):
    X, y, _ = problem()
    table, dense = X.asformat(form), X.toarray()
    for face in (partial(StructuredSVM, MulticlassTask(3)), StructuredSVMClassifier):
        svm, other = (face(C=20.0, tol=1e-5).fit(x, y) for x in (table, dense))
        assert svm.objective_ == pytest.approx(other.objective_, rel=2e-5)
        assert_array_equal(svm.predict(table), svm.predict(dense))
    boosted = StructBoost(MulticlassTask(3), C=20.0, weak_learner=["linear", "stump"])
    assert boosted.fit(table, y).predict(table) == boosted.predict(dense)
    refused("weak_learner='lda' cannot take", boosted.set_params(weak_learner="lda").fit, table, y)


@pytest.mark.parametrize("shape", [(30, 90), (700, 900), (300, 12)])
@pytest.mark.parametrize("response", [(-1.0, 1.0), (0.0, 1.0)])
def test_sparse_columns_are_standardised_as_arrays_are(shape, response):
    rng = default_rng(0)
    X = sparse.random_array(shape, density=0.1, format="csr", rng=rng)
    if response[0] < 0:
        X.data -= 0.2
    found, expected = Standardisation.of(X, response), Standardisation.of(X.toarray(), response)
    for name in ("centers", "scales", "dimension"):
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)
    families = LinearFunctionFamily(X, response), LinearFunctionFamily(X.toarray(), response)
    duals = rng.normal(size=(shape[0], 2))
    for own, other in zip(*(family.price(duals, 1) for family in families), strict=True):
        assert own.edge == pytest.approx(other.edge)
        answers = [family.responses([other.learner]) for family in families]
        assert_allclose(*answers, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
def test_svm_does_not_standardise_sparse_columns(face):
    X, y, sets = problem()
    model = fitted(face, X, objective="svm", C=30.0, tol=1e-4)
    assert model.learner_ == "linear"
    check_sparse_and_dense(model, X)
    truth = sets if face is StructBoostMultiLabelClassifier else y
    chance = 0.5 if face is StructBoostRanker else 0.4
    assert model.score(X, truth) > chance
    assert fitted(face, X, objective="svm").C_path_
