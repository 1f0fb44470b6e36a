"""CrossFitted: answers that have not seen the part, of rows, tokens, sets of labels and pairs."""

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier

from structboost import (
    ChainTask,
    CrossFitted,
    MatchingTask,
    MultiLabelTask,
    StructBoostMultiLabelClassifier,
    StructuredSVM,
)
from structboost.tasks import CandidatePairs, labelled_stretches
from tests.helpers.refusals import refused
from tests.helpers.scikit_learn import check_battery

CROSS_FITTED = "answers for the training set are those of classifiers that have not seen it"
UNLIKE_OTHERS = {
    "check_transformer_general": CROSS_FITTED,
    "check_transformer_data_not_an_array": "inputs may be sequences: an object must have a length",
}


def numbers_of_rows(X):
    return (X.toarray() if sparse.issparse(X) else np.asarray(X))[:, 0].tolist()


class Recalling(ClassifierMixin, BaseEstimator):
    """Sure of the rows it was trained on, by their number; knows nothing of others."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.known_ = dict(zip(numbers_of_rows(X), y.tolist(), strict=True))
        return self

    def predict_proba(self, X):
        unknown = np.full(len(self.classes_), 1 / len(self.classes_))
        known = [self.known_.get(number) for number in numbers_of_rows(X)]
        return np.array([unknown if k is None else self.classes_ == k for k in known], float)


def numbered(n, n_classes=3):
    y = default_rng(0).integers(n_classes, size=n)
    y[:n_classes] = np.arange(n_classes)
    return np.arange(n, dtype=float)[:, None], y


def test_training_responses_are_out_of_fold_and_new_ones_are_means():
    X, y = numbered(30)
    crossed = CrossFitted(Recalling(), folds=3)
    answers = crossed.fit_transform(X, y)
    assert answers == pytest.approx(np.log(np.full((30, 3), 1 / 3)))
    # Two of three classifiers were trained on a row, the third has never seen it.
    low, even = np.log(1e-5), np.log(1 / 3)
    expected = np.where(np.arange(3) == y[:, None], even / 3, (2 * low + even) / 3)
    assert crossed.transform(X) == pytest.approx(expected)
    seen = np.array(
        [[number in model.known_ for number in range(30)] for model in crossed.estimators_]
    )
    assert (seen.sum(axis=0) == 2).all()


@pytest.mark.parametrize(
    "form", [np.asarray, sparse.csr_array, lambda x: [{"number": float(v)} for v in x[:, 0]]]
)
def test_tokens_of_a_sequence_share_a_fold(form):
    lengths = [4, 1, 3, 2, 5, 3]
    rows, tags = numbered(sum(lengths))
    ends = np.cumsum(lengths)[:-1]
    y = [[f"tag {t}" for t in part] for part in np.split(tags, ends)]
    y[0][1] = None  # unknown, yet answered
    crossed = CrossFitted(Recalling(), folds=3)
    responses = crossed.fit_transform([form(x) for x in np.split(rows, ends)], y)
    assert [part.shape for part in responses] == [(n, 3) for n in lengths]
    assert np.concatenate(responses) == pytest.approx(np.log(1 / 3))
    assert crossed.classes_.tolist() == ["tag 0", "tag 1", "tag 2"]
    for model in crossed.estimators_:
        whole = [{v in model.known_ for v in part} for part in np.split(rows[:, 0], ends)[1:]]
        assert all(len(facts) == 1 for facts in whole)
        assert 1.0 not in model.known_


def test_groups_stay_together():
    X, y = numbered(24)
    groups = np.repeat(np.arange(6), 4)
    crossed = CrossFitted(Recalling(), folds=3).fit(X, y, groups=groups)
    for model in crossed.estimators_:
        inside = np.isin(X[:, 0], list(model.known_)).reshape(6, 4)
        assert (inside.all(axis=1) | ~inside.any(axis=1)).all()


def test_responses_of_sets_are_log_odds_of_each_label():
    X = default_rng(1).normal(size=(120, 2))
    Y = np.column_stack((X[:, 0] > 0, X[:, 1] > 0.3, np.zeros(120))).astype(int)
    one_each = CrossFitted(LogisticRegression(), folds=3).fit_transform(X, Y)
    all_at_once = CrossFitted(KNeighborsClassifier(9), folds=3).fit_transform(X, Y)
    for answers in (one_each, all_at_once):
        assert answers.shape == (120, 3)
        assert np.mean((answers > 0) == Y) > 0.9
        assert answers[:, 2] == pytest.approx(np.log(1e-5 / (1 - 1e-5)))
    lists = [np.flatnonzero(row).tolist() for row in Y[:, :2]]
    assert CrossFitted(LogisticRegression(), folds=3).fit_transform(X, lists) == pytest.approx(
        one_each[:, :2]
    )


def test_scores_replace_missing_probabilities_and_features_may_follow():
    X, y = default_rng(2).normal(size=(60, 2)), np.tile(list("abc"), 20)
    crossed = CrossFitted(RidgeClassifier(), folds=3, passthrough=True)
    table = crossed.fit_transform(X, y)
    assert np.array_equal(table[:, 3:], X)
    mean = np.mean([model.decision_function(X) for model in crossed.estimators_], axis=0)
    assert crossed.transform(X)[:, :3] == pytest.approx(mean)


def test_a_class_that_a_fold_lacks_is_unlikely_there():
    X, y = numbered(12)
    y[:] = np.arange(12) % 2
    y[0] = 2
    crossed = CrossFitted(Recalling(), folds=3)
    answers = crossed.fit_transform(X, y)
    assert answers[0] == pytest.approx(np.log([0.5, 0.5, 1e-5]))
    # By scores, it is not even one of two that are the best.
    assert CrossFitted(RidgeClassifier(), folds=3).fit_transform(X, y)[0, ::-1].argmax() > 0


def chains(n=40):
    rng = default_rng(3)
    Y = [np.cumsum(rng.integers(0, 2, size=5)) % 3 for _ in range(n)]
    return [np.eye(3)[y] + rng.normal(scale=0.7, size=(5, 3)) for y in Y], Y


def test_a_linear_estimator_equals_the_structured_svm_on_standardised_features():
    X, Y = chains()
    rows, sets = np.concatenate(X), np.eye(3, dtype=int)[np.concatenate(Y)]
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    settings = {"C": 10, "tol": 1e-3, "random_state": 0}
    svm = StructuredSVM(MultiLabelTask(3), **settings).fit(scaled, sets)
    face = StructBoostMultiLabelClassifier("svm", **settings).fit(rows, sets)
    assert face.objective_ == pytest.approx(svm.objective_)
    assert face.decision_function(rows) == pytest.approx(svm.scores(scaled).rows["x"])


def test_a_task_defines_the_labels_of_its_parts():
    rng = default_rng(4)
    X = [rng.normal(size=(4, 4, 2)) for _ in range(12)]
    Y = [rng.permutation(4) for _ in range(12)]
    for x, y in zip(X, Y, strict=True):
        x[np.arange(4), y, 0] += 3
    crossed = CrossFitted(LogisticRegression(), task=MatchingTask(), folds=3)
    answers = crossed.fit_transform(X, Y)
    assert [own.shape for own in answers] == [(4, 4, 1)] * 12
    pairs = np.argwhere(np.ones((4, 4)))
    listed = [CandidatePairs(4, 4, pairs, x.reshape(16, 2)) for x in X]
    alike = CrossFitted(
        LogisticRegression(), task=MatchingTask(unmatched=True), folds=3
    ).fit_transform(listed, Y)
    assert alike[3].features == pytest.approx(answers[3].reshape(16, 1))
    # Pieces of sequences stay pieces.
    X, Y = chains(8)
    vectors = [np.arange(5.0)[:, None] for _ in X]
    Y[0] = np.array([0, -1, 1, 2, 0])
    task = ChainTask(3, vectors=True)
    cut, own = labelled_stretches(list(zip(X, vectors, strict=True)), Y)
    made = CrossFitted(LogisticRegression(), task=task, folds=3).fit_transform(cut, own)
    assert (made[1].begins, made[1].ends) == (False, True)
    assert made[1].x[0].shape == (3, 3)
    assert np.array_equal(made[1].x[1], [[2.0], [3.0], [4.0]])


@pytest.mark.parametrize(
    ("estimator", "groups", "message"),
    [
        (Recalling(), [1], "groups has shape"),
        (Recalling(), [1, None, 2, 2, 2, 2], r"groups\[1\] is None; give every entry"),
        (None, None, "neither predict_proba nor decision_function"),
        (Recalling, None, "estimator is the class Recalling"),
    ],
)
def test_refusals_name_the_argument(estimator, groups, message):
    refused(message, CrossFitted(estimator, folds=2).fit, *numbered(6), groups=groups)


def test_a_task_without_labels_of_parts_is_refused():
    class Other(MatchingTask):
        labelled_kind = None

    refused(
        "Other names no labelled_kind",
        CrossFitted(Recalling(), task=Other(), folds=2).fit,
        [np.ones((2, 2, 1))],
        [[0, 1]],
    )


@pytest.mark.slow
def test_the_scikit_learn_battery():
    check_battery(CrossFitted(LogisticRegression(), folds=2), 43, UNLIKE_OTHERS)


# -- the same values in any form ------------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_as_output_leave_sequences_alone(library):
    X, y = chains(10)
    expected = CrossFitted(LogisticRegression()).fit(X, y).transform(X)
    with config_context(transform_output=library):
        output = CrossFitted(LogisticRegression()).fit(X, y).transform(X)
    np.testing.assert_array_equal(output, expected)
