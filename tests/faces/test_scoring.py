"""Scorers of the user choose C and stop training, for every face, on inputs as its own."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score, make_scorer, ndcg_score

from structboost import (
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
)
from tests.helpers.refusals import refused

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 4))
Y = (X[:, 0] + 0.3 * RNG.normal(size=240) > 1.2).astype(int)
NAMES = np.array(["no", "yes"])[Y]
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(e=np.where(X[:, 1] > 0, "u", "v"))
SEQUENCES = [X[i : i + 6] for i in range(0, 240, 6)]
DICTS = [[{"high": bool(row[0] > 1), "sign": str(row[1] > 0)} for row in x] for x in SEQUENCES]
TAGS = [NAMES[i : i + 6].tolist() for i in range(0, 240, 6)]
SETS = np.column_stack((Y, X[:, 1] > 0, X[:, 2] > 0)).astype(int)
LISTS = [[n for n, k in zip("xyz", row, strict=True) if k] for row in SETS]
GRADES = np.digitize(X[:, 0], [-0.5, 0.7])
SMALL = {"max_iter": 10, "tol": 0.1, "random_state": 0}

LABELS_OF_YES = make_scorer(f1_score, pos_label="yes", zero_division=0.0)


def of_tags(estimator, X, y):
    found = estimator.predict(X)
    assert all(len(a) == len(b) for a, b in zip(found, y, strict=True))
    assert set(np.concatenate(y)) <= {"no", "yes"}
    return f1_score(np.concatenate(y), np.concatenate(found), pos_label="yes", zero_division=0.0)


def of_sets(estimator, X, y):
    return float(np.mean([set(a) == set(b) for a, b in zip(estimator.predict(X), y, strict=True)]))


def of_query(estimator, X, y):
    return ndcg_score([y], [estimator.predict(X)], k=3)


FACES = {
    "classifier": (StructBoostClassifier, X, Y, "f1"),
    "names": (StructBoostClassifier, X, NAMES, LABELS_OF_YES),
    "categories": (StructBoostClassifier, FRAME, NAMES, "accuracy"),
    "tagger": (StructBoostTagger, SEQUENCES, TAGS, of_tags),
    "dicts": (StructBoostTagger, DICTS, TAGS, of_tags),
    "name for tags": (StructBoostTagger, SEQUENCES, TAGS, "f1_macro"),
    "name for lists": (StructBoostMultiLabelClassifier, X, LISTS, "f1_macro"),
    "sets": (StructBoostMultiLabelClassifier, X, SETS, "f1_samples"),
    "lists": (StructBoostMultiLabelClassifier, X, LISTS, of_sets),
    "labels": (StructBoostMultiLabelClassifier, X, NAMES, "accuracy"),
    "ranker": (StructBoostRanker, X, GRADES, of_query),
}


def fit(name, **parameters):
    face, inputs, outputs, scoring = FACES[name]
    model = face(scoring=scoring, **parameters)
    more = {"group": [12] * 20} if face is StructBoostRanker else {}
    return model.fit(inputs, outputs, **more)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "objective"),
    [
        *((name, "hinge") for name in FACES),
        ("classifier", "svm"),
        ("tagger", "svm"),
        ("sets", "svm"),
    ],
)
def test_c_has_the_largest_held_out_score(name, objective):
    path = (model := fit(name, objective=objective, **SMALL)).C_path_
    scores = [record["score"] for record in path]
    assert all(np.isfinite(scores))
    best = path[scores.index(max(scores))]
    # Equal scores are told apart by the surrogate.
    assert model.C_ == best["C"] or best["is_empty"] or scores.count(max(scores)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FACES if name != "dicts"])
def test_the_score_stops_training_early(name):
    model = fit(name, early_stopping=True, max_iter=12, n_iter_no_change=3, random_state=0)
    losses = model.validation_losses_
    assert max(losses) <= 0.0
    # Equal scores are told apart by the surrogate.
    assert losses[model.n_iter_ - 1] == min(losses)


@pytest.mark.parametrize(
    "parameters", [{}, {"objective": "hinge", "C": 10.0}], ids=["nothing chosen", "C given"]
)
def test_scoring_is_refused_where_nothing_is_chosen(parameters):
    refused(
        "scoring is 'f1', and nothing is chosen by it",
        StructBoostClassifier(scoring="f1", **parameters).fit,
        X,
        Y,
    )


@pytest.mark.parametrize("objective", ["hinge", "svm"])
def test_an_invalid_scorer_is_named(objective):
    for scoring, message in (
        ("chunks", "scoring is 'chunks', which is not a scorer"),
        (lambda e, X, y: 1 / 0, "scoring failed"),
        (lambda e, X, y: np.nan, "scoring returned nan"),
    ):
        refused(message, StructBoostClassifier(objective, scoring=scoring).fit, X, Y)
