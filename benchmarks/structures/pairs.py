"""One-to-one matchings: points of the CMU house, and records of febrl4."""

import csv
import gzip
from collections import Counter
from functools import partial
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from benchmarks.peers.boosters import peer
from benchmarks.runner.protocol import best_fit, row
from structboost import MatchingTask, StructBoost, StructuredSVM
from structboost.tasks import CandidatePairs

# The frames of a part are three apart, so no pair of them is 40 apart.
NEAR, FAR, RECORDS = "house, 39 frames apart", "house, 90 frames apart", "febrl4"
APART = {NEAR: 39, FAR: 90}
FOLDER = "structures/matching"
FILES = {
    **dict.fromkeys(APART, (f"{FOLDER}/house.npz",)),
    RECORDS: (f"{FOLDER}/febrl4a.csv.gz", f"{FOLDER}/febrl4b.csv.gz"),
}
# All points are matched: then this is the percentage of wrong points.
ERROR = "1 - F1, %"
FIELDS = (
    "given_name", "surname", "street_number", "address_1", "address_2", "suburb", "postcode",
    "state", "date_of_birth", "soc_sec_id",
)  # fmt: skip
KEYS = (
    *(itemgetter(name) for name in ("soc_sec_id", "date_of_birth", "postcode")),
    lambda row: row["given_name"][:2] + row["surname"][:2],
)
FIXED = {"n_estimators": 100, "n_jobs": 1, "verbose": -1}
FIT_ON, CHOOSE_ON = 800, 200  # records; the others are for the test


class Pairs(NamedTuple):
    """Inputs and matchings."""

    X: list[Any]
    Y: list[np.ndarray]


def read(source):
    """Parts to fit on, to choose settings on, and to measure on."""
    if source.name == RECORDS:
        return _records(*(source.folder / file for file in source.files))
    file, rng = source.arrays(), np.random.default_rng(0)
    contexts, apart = file["shape_context"].astype(np.float32), APART[source.name]
    parts = [Pairs([], []) for _ in range(3)]
    for part, own in enumerate(parts):
        frames = np.flatnonzero(file["split"] == part)
        for first in frames[frames < len(contexts) - apart]:
            order = rng.permutation(contexts.shape[1])
            # Squared differences of shape contexts.
            own.X.append((contexts[first][:, None] - contexts[first + apart][order]) ** 2)
            own.Y.append(np.argsort(order))
    return parts


def _records(*paths):
    """Records of both tables; each has its partner in the same part of the other table."""
    tables = []
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines, skipinitialspace=True))
        tables.append({int(row["rec_id"].split("-")[1]): row for row in rows})
    rng = np.random.default_rng(0)
    parts = []
    for own in np.split(rng.permutation(sorted(tables[0])), [FIT_ON, FIT_ON + CHOOSE_ON]):
        order = rng.permutation(len(own))
        x = candidates([tables[0][k] for k in own], [tables[1][k] for k in own[order]])
        parts.append(Pairs([x], [among_candidates(x, np.argsort(order))]))
    return parts


def candidates(left, right):
    """Records that agree in a key, with how alike their fields are."""
    agreeing = set()
    for key in KEYS:
        members = {}
        for j, one in enumerate(right):
            members.setdefault(key(one), []).append(j)
        keys = map(key, left)
        agreeing.update((i, j) for i, own in enumerate(keys) if own for j in members.get(own, []))
    pairs, sides = np.array(sorted(agreeing)), (left, right)
    texts = [[[f" {row[n]} " if row[n] else "" for n in FIELDS] for row in s] for s in sides]
    grams = [[[Counter(pairwise(t)) for t in row] for row in side] for side in texts]
    rows = [list(chain.from_iterable(map(_compared, grams[0][i], grams[1][j]))) for i, j in pairs]
    return CandidatePairs(len(left), len(right), pairs, np.array(rows))


def _compared(a, b):
    """Dice coefficient of two fields, and whether one is empty."""
    return (2.0 * (a & b).total() / (a.total() + b.total()), 0.0) if a and b else (0.0, 1.0)


def among_candidates(x, y):
    """The matching without the pairs that are no candidates."""
    there = x.rows_of(np.arange(len(y)) * x.n_right + y)[1]
    return np.where(there, y, -1)


def measured(label, candidates, fit, source):
    """The first of the best settings on the part to choose on, fitted on the part to fit on.

    ``fit(task, setting, part)`` gives the prediction of an input: an array of 0 and 1, one for each
    of its pairs.
    """
    of_fit, choose, test = read(source)
    task = MatchingTask(unmatched=source.name == RECORDS)
    own = partial(fit, task, part=of_fit)
    predict, facts = best_fit(candidates, lambda one: -error(task, own(one), choose), own)
    value = error(task, predict, test)
    return [row(label, ERROR, value, C=str(facts["C"]), seconds=facts["seconds"])]


def error(task, predict, part):
    """1 - F1 of the pairs, in percent; each member of the left sides has a partner."""
    right = n_predicted = 0
    for x, y in zip(*part, strict=True):
        predicted = predict(x)
        right += int(predicted @ task.part_labels(x, y))
        n_predicted += int(predicted.sum())
    return 100.0 - 200.0 * right / (n_predicted + sum(map(len, part.Y)))


def _structured(make, task, setting, part):
    """A model of whole matchings."""
    model = make(task, C=setting, tol=0.05, random_state=0).fit(part.X, part.Y)
    return lambda x: task.part_labels(x, model.predict([x])[0])


def _alone(task, classifier, part):
    """Every pair that a classifier takes for one, be they one-to-one or not."""
    model = _fitted(task, classifier, part)
    return lambda x: model.predict(task.parts(x))


def _two_stages(task, classifier, part):
    """A classifier of pairs, then the matching of the highest sum of log-odds."""
    model = _fitted(task, classifier, part)

    def predict(x):
        p = np.clip(model.predict_proba(task.parts(x))[:, 1:], 1e-9, 1 - 1e-9)
        return task.part_labels(x, task.argmax(x, np.log(p) - np.log1p(-p)))

    return predict


def _fitted(task, classifier, part):
    labels = [task.part_labels(x, y) for x, y in zip(*part, strict=True)]
    rows = [task.parts(x) for x in part.X]
    return clone(classifier).fit(np.concatenate(rows), np.concatenate(labels))


LOGISTIC = "logistic regression, as recordlinkage"


def learners(source):
    lightgbm = [
        peer("lightgbm", "LGBMClassifier", num_leaves=n, learning_rate=r, random_state=0, **FIXED)
        for n, r in ((15, 0.1), (4, 0.1), (15, 0.03))
    ]
    linear = partial(StructuredSVM, max_epochs=60)
    trees = partial(StructBoost, weak_learner="tree", max_rounds=60, spread=0.1)
    ways = {
        # recordlinkage's own classifier; its releases exclude the pandas that others need.
        LOGISTIC: ([LogisticRegression(C=C, max_iter=1000) for C in (1.0, 10.0, 100.0)], _alone),
        "lightgbm, two stages": (lightgbm, _two_stages),
        "linear": ((1.0, 10.0, 100.0), partial(_structured, linear)),
        "trees": ((10.0, 100.0), partial(_structured, trees)),
    }
    if source.name != RECORDS:
        del ways[LOGISTIC]
    return {label: partial(measured, label, *way) for label, way in ways.items()}
