"""Scores measure what was asked for: the ranker's loss, and metrics of label sets and tags."""

import pickle

import numpy as np
import pytest
from numpy.random import default_rng
from sklearn.metrics import accuracy_score, f1_score, get_scorer, jaccard_score

from structboost import (
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
)
from structboost.selection import structured_scorer
from tests.helpers.refusals import refused
from tests.tasks.test_ranking import value

RNG = default_rng(0)
X = RNG.normal(size=(90, 3))
MATRIX = ((X + 0.5 * RNG.normal(size=X.shape)) > 0.3).astype(int)
LISTS = [[name for name, is_on in zip("xyz", row, strict=True) if is_on] for row in MATRIX]
SEQUENCES = [
    X[i : i + n] for i, n in zip(range(0, 90, 9), (9, 3, 7, 9, 5, 9, 4, 9, 8, 9), strict=True)
]
TAGS = [np.where(x[:, 0] + x[:, 1] > 0, "B", "O").tolist() for x in SEQUENCES]
SETS = StructBoostMultiLabelClassifier(max_iter=3)
TAGGER = StructBoostTagger(max_iter=3)
MEASURES = {
    "accuracy": accuracy_score,
    "f1_micro": lambda y, z: f1_score(y, z, average="micro"),
    "f1_macro": lambda y, z: f1_score(y, z, average="macro"),
    "jaccard_weighted": lambda y, z: jaccard_score(y, z, average="weighted"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURES)
def test_lists_of_labels_score_as_their_matrix(name):
    by_lists = SETS.fit(X, LISTS)
    expected = get_scorer(name)(
        StructBoostMultiLabelClassifier(max_iter=3).fit(X, MATRIX), X, MATRIX
    )
    assert structured_scorer(name)(by_lists, X, LISTS) == expected
    assert structured_scorer(MEASURES[name])(by_lists, X, LISTS) == expected


@pytest.mark.parametrize("name", MEASURES)
def test_tags_score_as_those_of_all_tokens_without_unknown_ones(name):
    tagger = TAGGER.fit(SEQUENCES, TAGS)
    wrong = [["B" if i % 3 else tag for i, tag in enumerate(tags)] for tags in TAGS]
    with_none = [[None, *tags[1:]] for tags in wrong]
    pairs = [
        (true, predicted)
        for truth, tags in zip(with_none, tagger.predict(SEQUENCES), strict=True)
        for true, predicted in zip(truth, tags, strict=True)
        if true is not None
    ]
    expected = MEASURES[name](*zip(*pairs, strict=True))
    assert structured_scorer(name)(tagger, SEQUENCES, with_none) == pytest.approx(expected)
    assert 0 < expected < 1


def test_weights_of_sequences_count_for_their_tokens():
    tagger = TAGGER.fit(SEQUENCES, TAGS)
    wrong = [["B"] * len(tags) for tags in TAGS]
    first = [1.0] + [0.0] * (len(TAGS) - 1)
    score = structured_scorer("accuracy")
    assert score(tagger, SEQUENCES, wrong, sample_weight=first) == pytest.approx(
        tagger.score(SEQUENCES[:1], wrong[:1])
    )


def test_labels_that_were_not_in_training_are_errors():
    fit = SETS.fit(X, LISTS)
    with_new = [[*labels, "new"] for labels in LISTS]
    assert structured_scorer("accuracy")(fit, X, with_new) == fit.score(X, with_new) == 0.0
    recall = structured_scorer("recall_micro")
    assert 0 < recall(fit, X, with_new) < recall(fit, X, LISTS)


def test_other_estimators_are_scored_as_scikit_learn_does():
    y = MATRIX[:, 0]
    fit = StructBoostClassifier(max_iter=3).fit(X, y)
    assert structured_scorer("roc_auc")(fit, X, y) == get_scorer("roc_auc")(fit, X, y)
    single = StructBoostMultiLabelClassifier(max_iter=3).fit(X, y)
    assert structured_scorer("accuracy")(single, X, y) == single.score(X, y)


def test_scorers_are_pickled_and_named():
    scorer = structured_scorer(f1_score)
    assert pickle.loads(pickle.dumps(scorer)) == scorer
    refused("not a scorer of scikit-learn", structured_scorer, "no such")
    refused("score is 3; give the name", structured_scorer, 3)


@pytest.mark.parametrize("loss", ["ndcg", "ndcg@3", "map", "capped_recall@4"])
@pytest.mark.parametrize("objective", ["hinge", "svm"])
def test_the_ranker_scores_by_the_measure_of_its_loss(loss, objective, reloaded):
    rng = default_rng(1)
    items = rng.normal(size=(120, 2))
    grades = (items[:, 0] + rng.normal(size=120) > 0.4).astype(int)
    if loss.startswith("ndcg"):
        grades = grades * rng.integers(1, 4, 120)
    qid = np.repeat(np.arange(8), 15)
    ranker = StructBoostRanker(objective, loss=loss, C=10, weak_learner="linear")
    ranker.fit(items, grades, qid=qid)
    scores, weights = ranker.predict(items), np.arange(1.0, 9.0)
    # Distinct scores, since the measures of ties differ.
    assert len(np.unique(scores)) == 120
    expected = [value(loss, grades[qid == q], scores[qid == q]) for q in range(8)]
    weighted = np.average(expected, weights=weights)
    for model in (ranker, reloaded(ranker)):
        assert model.score(items, grades, qid=qid) == pytest.approx(np.mean(expected))
        found = model.score(items, grades, qid=qid, sample_weight=weights)
        assert found == pytest.approx(weighted)


def test_the_ranker_of_pairs_scores_by_pairs_and_measures_name_what_they_do_not_take():
    grades = np.digitize(X[:, 0], [-0.5, 0.5])
    pairs = StructBoostRanker(max_iter=3).fit(X, grades)
    scores = pairs.predict(X)
    better, worse = np.nonzero(grades[:, None] > grades)
    right = (scores[better] > scores[worse]) + 0.5 * (scores[better] == scores[worse])
    assert pairs.score(X, grades) == pytest.approx(right.mean())
    ranker = StructBoostRanker("hinge", C=10, loss="map", max_iter=2)
    ranker.fit(X, grades > 0)
    refused("has 3 levels; loss='map' takes two", ranker.score, X, grades)
    refused(
        "same sample_weight, or take loss='pairs'",
        ranker.score,
        X,
        grades > 0,
        sample_weight=np.arange(1.0, 91.0),
    )


def test_an_ndcg_of_long_lists_is_scored_though_it_is_not_trained():
    ranker = StructBoostRanker("hinge", C=10, loss="ndcg@5", max_iter=2)
    ranker.fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    long = RNG.normal(size=(3200, 3))
    assert 0 < ranker.score(long, np.digitize(long[:, 0], [-0.5, 0.5])) <= 1
