"""Routed arguments, group splits, joblib, pickles, frames out: the faces within scikit-learn."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, cross_validate

from structboost import (
    CrossFitted,
    RankingTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostRanker,
    StructBoostTagger,
    StructuredSVM,
)
from tests.helpers.refusals import refused

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
def test_queries_and_weights_are_routed_through_group_splits():
    folds, split = list(GroupKFold(3).split(X, groups=QID)), {"cv": GroupKFold(3)}
    few = (QID < 6).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = StructBoostRanker(max_iter=3).set_fit_request(qid=True)
        ranker.set_score_request(qid=True)
        found = cross_validate(ranker, X, Y, **split, params={"qid": QID, "groups": QID})
        weighted = StructBoostClassifier(max_iter=3).set_fit_request(sample_weight=True)
        weighted.set_score_request(sample_weight=True)
        params = {"sample_weight": few, "groups": QID}
        of_few = cross_validate(weighted, X, Y, **split, params=params)
    by_hand = fold_scores(ranker, folds)
    assert_array_equal(found["test_score"], by_hand)
    # Without queries the scores are others: they did arrive.
    assert by_hand != [clone(ranker).fit(X[a], Y[a]).score(X[b], Y[b]) for a, b in folds]
    kept = [(a[QID[a] < 6], b[QID[b] < 6]) for a, b in folds]
    expected = [clone(weighted).fit(X[a], Y[a]).score(X[b], Y[b]) for a, b in kept]
    assert_allclose(of_few["test_score"], expected)


OF_STRUCTURES = pytest.mark.parametrize(
    "trainer",
    [
        StructBoost(RankingTask(), C=50, max_rounds=3),
        StructuredSVM(RankingTask(), tol=0.3, random_state=0),
        StructBoostTagger("hinge", C=50, max_iter=3),
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
    refused(
        "sample_weight has 2 entries for 12 examples",
        model.score,
        inputs,
        outputs,
        sample_weight=[1.0, 1.0],
    )
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
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(d=np.where(Y, "x", "y"))
    labels = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.4, 0.4])]
    face = StructBoostClassifier(max_iter=2)
    crossed = CrossFitted(face, folds=2, random_state=0).set_output(transform="pandas")
    found = crossed.fit_transform(frame, labels)
    names = [f"structboostclassifier_{label}" for label in ("high", "low", "mid")]
    assert list(found.columns) == names
    turned = crossed.transform(frame[["b", "d", "a", "c"]])
    assert_array_equal(turned, crossed.transform(frame))
    refused("feature names should match", crossed.transform, frame[["b", "a"]])
    refused(
        r"passthrough is True, and columns \['d'\]",
        CrossFitted(face, folds=2, passthrough=True).fit_transform,
        frame,
        labels,
    )
    refused(
        r"categorical columns \['d'\].*LogisticRegression",
        CrossFitted(LogisticRegression(), folds=2).fit,
        frame,
        labels,
    )
    binary = CrossFitted(LogisticRegression(), folds=2, passthrough=True).fit(X, Y)
    named = binary.get_feature_names_out(["p", "q", "r"])
    assert named.tolist() == ["logisticregression_1", "p", "q", "r"]
    inputs, outputs = map(list, zip(*QUERIES, strict=True))
    of_tokens = CrossFitted(LogisticRegression(), folds=2).fit(inputs, outputs)
    with pytest.raises(AttributeError, match="get_feature_names_out"):
        of_tokens.get_feature_names_out()
