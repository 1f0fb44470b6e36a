"""Routed arguments, group splits, joblib, pickles, frames out: the faces within scikit-learn."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_validate,
)
from sklearn.pipeline import make_pipeline

from structboost import (
    CrossFitted,
    RankingTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostRanker,
    StructBoostTagger,
    StructuredSVM,
)

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
    folds, split = list(GroupKFold(3).split(X, groups=QID)), {"cv": GroupKFold(3)}
    few = (QID < 6).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = StructBoostRanker(max_iter=3).set_fit_request(qid=True)
        ranker.set_score_request(qid=True)
        found = cross_validate(ranker, X, Y, **split, params={"qid": QID, "groups": QID})
        search = GridSearchCV(ranker, {"max_iter": [1, 3]}, **split)
        search.fit(X, Y, qid=QID, groups=QID)
        weighted = StructBoostClassifier(max_iter=3).set_fit_request(sample_weight=True)
        weighted.set_score_request(sample_weight=True)
        params = {"sample_weight": few, "groups": QID}
        of_few = cross_validate(weighted, X, Y, **split, params=params)
    by_hand = fold_scores(ranker, folds)
    np.testing.assert_array_equal(found["test_score"], by_hand)
    # Without queries the scores are others: they did arrive.
    assert by_hand != [clone(ranker).fit(X[a], Y[a]).score(X[b], Y[b]) for a, b in folds]
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(np.mean(by_hand))
    kept = [(a[QID[a] < 6], b[QID[b] < 6]) for a, b in folds]
    expected = [clone(weighted).fit(X[a], Y[a]).score(X[b], Y[b]) for a, b in kept]
    np.testing.assert_allclose(of_few["test_score"], expected)


OF_STRUCTURES = pytest.mark.parametrize(
    "trainer",
    [
        StructBoost(RankingTask(), C=50, max_rounds=3),
        StructuredSVM(RankingTask(), tol=0.3, random_state=0),
        StructBoostTagger(objective="hinge", C=50, max_iter=3),
    ],
    ids=lambda trainer: type(trainer).__name__,
)


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
