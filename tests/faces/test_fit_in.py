"""Routed arguments, group splits, joblib, pickles, frames out: the faces within scikit-learn."""

import pickle

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_val_predict,
    cross_validate,
)
from sklearn.pipeline import make_pipeline

import structboost.faces
from structboost import (
    CrossFitted,
    PredictThenOptimize,
    RankingTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostRanker,
    StructBoostTagger,
    StructuredSVM,
)
from structboost.decisions import Choose

FACES = structboost.faces.__all__
RNG = np.random.default_rng(0)
QID = np.repeat(np.arange(12), 8)
X = RNG.normal(size=(96, 3))
Y = (X[:, 0] + 5 * (QID % 2) * X[:, 1] + 0.3 * RNG.normal(size=96) > 0).astype(int)
QUERIES = [(X[QID == q], Y[QID == q]) for q in range(12)]


def fold_scores(ranker, folds):
    """Scores of a ranker fitted and judged by hand with the queries of each fold."""
    return [
        clone(ranker).fit(X[a], Y[a], qid=QID[a]).score(X[b], Y[b], qid=QID[b]) for a, b in folds
    ]


@pytest.mark.slow
def test_queries_and_weights_are_routed_through_a_grid_search_with_group_splits():
    folds = list(GroupKFold(3).split(X, groups=QID))
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = StructBoostRanker(max_iter=3).set_fit_request(qid=True)
        ranker.set_score_request(qid=True)
        found = cross_validate(ranker, X, Y, cv=GroupKFold(3), params={"qid": QID, "groups": QID})[
            "test_score"
        ]
        search = GridSearchCV(ranker, {"max_iter": [1, 3]}, cv=GroupKFold(3))
        search.fit(X, Y, qid=QID, groups=QID)
        weighted = StructBoostClassifier(max_iter=3).set_fit_request(sample_weight=True)
        weighted.set_score_request(sample_weight=True)
        few = (QID < 6).astype(float)
        of_few = cross_validate(
            weighted, X, Y, cv=GroupKFold(3), params={"sample_weight": few, "groups": QID}
        )["test_score"]
    np.testing.assert_array_equal(found, fold_scores(ranker, folds))
    # Without queries the scores are others: they did arrive.
    assert found.tolist() != [clone(ranker).fit(X[a], Y[a]).score(X[b], Y[b]) for a, b in folds]
    by_hand = np.mean(fold_scores(clone(ranker).set_params(max_iter=3), folds))
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(by_hand)
    kept = [(a[QID[a] < 6], b[QID[b] < 6]) for a, b in folds]
    expected = [
        StructBoostClassifier(max_iter=3).fit(X[a], Y[a]).score(X[b], Y[b]) for a, b in kept
    ]
    np.testing.assert_allclose(of_few, expected)


OF_STRUCTURES = pytest.mark.parametrize(
    "trainer",
    [
        StructBoost(RankingTask(), C=50, max_rounds=3),
        StructuredSVM(RankingTask(), tol=0.3, random_state=0),
        StructBoostTagger(objective="hinge", C=50, max_iter=3),
    ],
    ids=lambda trainer: type(trainer).__name__,
)


@pytest.mark.slow
@OF_STRUCTURES
def test_structured_trainers_work_in_a_grid_search_with_group_splits(trainer):
    inputs, outputs = zip(*QUERIES, strict=True)
    inputs, outputs = list(inputs), [list(y) for y in outputs]
    if not isinstance(trainer, StructBoostTagger):
        outputs = [np.array(y) for y in outputs]
    groups = np.arange(12) // 2
    search = GridSearchCV(trainer, {"C": [20.0, 50.0]}, cv=GroupKFold(2), return_train_score=True)
    search.fit(inputs, outputs, groups=groups)
    a, b = next(GroupKFold(2).split(inputs, groups=groups))
    model = clone(trainer).set_params(C=50.0).fit([inputs[i] for i in a], [outputs[i] for i in a])
    by_hand = model.score([inputs[i] for i in b], [outputs[i] for i in b])
    assert search.cv_results_["split0_test_score"][1] == pytest.approx(by_hand)
    assert len(search.predict(inputs)) == 12


@OF_STRUCTURES
def test_weights_are_routed_to_the_scores_of_structures(trainer):
    inputs, outputs = (list(given) for given in zip(*QUERIES, strict=True))
    weights = np.tile([1.0, 0.0], 6)
    model = clone(trainer).fit(inputs, outputs)
    weighted = model.score(inputs, outputs, sample_weight=weights)
    assert weighted == pytest.approx(model.score(inputs[::2], outputs[::2]))
    assert weighted != model.score(inputs, outputs)
    with pytest.raises(ValueError, match="sample_weight has 2 entries for 12 examples"):
        model.score(inputs, outputs, sample_weight=[1.0, 1.0])
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(trainer).set_fit_request(sample_weight=False)
        routed.set_score_request(sample_weight=True)
        params = {"sample_weight": weights}
        found = cross_validate(routed, inputs, outputs, cv=KFold(2), params=params)["test_score"]
    halves = [
        clone(trainer).fit(inputs[6:], outputs[6:]).score(inputs[:6:2], outputs[:6:2]),
        clone(trainer).fit(inputs[:6], outputs[:6]).score(inputs[6::2], outputs[6::2]),
    ]
    assert found.tolist() == pytest.approx(halves)


def test_number_of_joblib_jobs_does_not_change_scores():
    model = StructBoostClassifier(objective="hinge", C=30, max_iter=4, n_jobs=2)
    alone = cross_val_predict(model, X, Y, cv=3, method="decision_function")
    with joblib.parallel_config("threading", n_jobs=2):
        both = cross_val_predict(model, X, Y, cv=3, method="decision_function", n_jobs=2)
    np.testing.assert_array_equal(alone, both)
    auc = make_scorer(roc_auc_score, response_method="decision_function")
    assert auc(model.fit(X, Y), X, Y) > 0.8


def fitted(name):
    """A fitted face, and what it predicts for."""
    face = getattr(structboost.faces, name)
    if name == "PredictThenOptimize":
        costs = 5 + X @ np.ones((3, 4)) + RNG.normal(size=(96, 4))
        return PredictThenOptimize(Choose(4, 2), C=1.0, tol=0.2).fit(X, costs), X
    if name == "CrossFitted":
        return CrossFitted(LogisticRegression(), folds=2).fit(X, Y), X
    if name == "StructBoostTagger":
        inputs, outputs = zip(*QUERIES, strict=True)
        return face(objective="hinge", C=50, max_iter=2).fit(
            list(inputs), [list(y) for y in outputs]
        ), list(inputs)
    names = [name for name in ("max_iter", "max_rounds") if name in face().get_params()]
    few = {names[0]: 2} if names else {"tol": 0.3}
    if name == "StructBoostMultiLabelClassifier":
        return face(objective="hinge", C=50, **few).fit(X, np.column_stack((Y, 1 - Y, Y))), X
    return face(**few).fit(X, Y), X


@pytest.mark.filterwarnings("ignore:The model is empty")
@pytest.mark.parametrize("name", FACES)
def test_every_estimator_survives_pickling_and_has_a_display(name):
    model, inputs = fitted(name)
    again = pickle.loads(pickle.dumps(model))
    for method in ("decision_function", "predict_costs", "transform", "predict"):
        if hasattr(model, method):
            np.testing.assert_array_equal(
                getattr(again, method)(inputs), getattr(model, method)(inputs)
            )
    assert name in again._repr_html_()
    assert again.get_params().keys() == clone(model).get_params().keys()


def test_responses_of_classifiers_are_frames_with_names():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    labels = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.4, 0.4])]
    crossed = CrossFitted(LogisticRegression(), folds=2, passthrough=True)
    crossed.set_output(transform="pandas")
    found = crossed.fit_transform(frame, labels)
    names = [f"logisticregression_{label}" for label in ("high", "low", "mid")]
    assert list(found.columns) == [*names, "a", "b", "c"]
    assert crossed.n_features_in_ == 3
    np.testing.assert_array_equal(found["b"], frame["b"])
    with pytest.raises(ValueError, match="feature names should match"):
        crossed.transform(frame[["b", "a"]])
    turned = crossed.transform(frame[["b", "a", "c"]])
    np.testing.assert_array_equal(turned, crossed.transform(frame))
    binary = CrossFitted(LogisticRegression(), folds=2).fit(X, Y)
    assert binary.get_feature_names_out().tolist() == ["logisticregression_1"]
    binary.set_params(passthrough=True).fit(X, Y)
    named = binary.get_feature_names_out(["p", "q", "r"])
    assert named.tolist() == ["logisticregression_1", "p", "q", "r"]
    piped = make_pipeline(crossed, StructBoostClassifier(max_iter=3)).fit(frame, labels)
    assert list(piped[-1].feature_names_in_) == list(found.columns)
    inputs, outputs = zip(*QUERIES, strict=True)
    of_tokens = CrossFitted(LogisticRegression(), folds=2)
    of_tokens.fit(list(inputs), [list(y) for y in outputs])
    with pytest.raises(AttributeError, match="get_feature_names_out"):
        of_tokens.get_feature_names_out()
