"""OCR letters: the chain on pixels, two stages, and the chain on cross-fitted responses."""

from functools import partial
from itertools import compress
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import KFold
from sklearn.svm import SVC

from benchmarks.peers.boosters import peer
from benchmarks.runner.protocol import best_fit, cpu_timed, row
from structboost import ChainTask, CrossFitted, StructBoostTagger, StructuredSVM
from structboost.contract import StackedParts

FEW, MANY = "letters", "letters, nine folds"
FILES = dict.fromkeys((FEW, MANY), ("structures/chains/letters.npz",))
RIGHT, TWO_STAGES, CROSS_FITTED = "right letters", "two stages", "cross-fitted"
N_LETTERS, SHAPE = 26, (16, 8)
BLUR = 0.7  # pixels, by which most letters are right out of fold
TREES = "blurred pixels, trees by default"
PARTS = 3
CS = (30.0, 100.0, 300.0)
PAIR_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0)  # of the counted pairs of letters


class Words(NamedTuple):
    """Words of a part, as arrays of pixels and of letters."""

    X: list[np.ndarray]
    Y: list[np.ndarray]


def read(source):
    """Training and test words: fold 1 and the others, or the other way round."""
    file = source.arrays()
    starts = np.flatnonzero(np.diff(file["word"])) + 1
    tables = [np.split(file["X"].astype(np.float32), starts)]
    tables.append(np.split(file["y"].astype(np.int64), starts))
    is_first = file["fold"][np.concatenate(([0], starts))] == 1
    parts = (~is_first, is_first) if source.name == MANY else (is_first, ~is_first)
    return [Words(*(list(compress(table, part)) for table in tables)) for part in parts]


def right(predicted, true):
    return float(np.mean(np.concatenate(predicted) == np.concatenate(true)))


def split(rows, words):
    """Rows of letters as the words that they are of."""
    return np.split(rows, np.cumsum([len(word) for word in words])[:-1])


def on_pixels(source):
    """The linear chain on features as they are: a rare pixel shall not weigh more than others."""
    train, test = read(source)
    settings = {"tol": 0.05, "max_epochs": 40, "random_state": 0}
    make = partial(StructuredSVM, ChainTask(N_LETTERS), **settings)
    model, facts = _tuned_chain(train, make)
    return [row("pixels, linear chain", RIGHT, right(model.predict(test.X), test.Y), **facts)]


def trees_on_blurred(source):
    """The tagger without parameters, trees and pairs trained together, on blurred letters."""
    train, test = (Words(_blurred(part.X), part.Y) for part in read(source))
    model, seconds = cpu_timed(StructBoostTagger(max_iter=200).fit, *train)
    return [row(TREES, RIGHT, right(model.predict(test.X), test.Y), seconds=seconds)]


def _blurred(X):
    """Words of letters blurred by a Gaussian, each letter as long as it was."""
    rows = np.concatenate(X)
    soft = gaussian_filter(rows.reshape(len(rows), *SHAPE), (0, BLUR, BLUR)).reshape(rows.shape)
    lengths = np.linalg.norm(soft, axis=1, keepdims=True)
    soft = soft * (np.linalg.norm(rows, axis=1, keepdims=True) / np.maximum(lengths, 1e-9))
    return split(soft.astype(np.float32), X)


def with_classifier(label, make, source):
    """A classifier alone, followed by Viterbi, and cross-fitted before a linear chain."""
    train, test = read(source)
    crossed = CrossFitted(make(), random_state=0)
    held = crossed.fit_transform(train.X, train.Y)
    whole = make().fit(np.concatenate(train.X), np.concatenate(train.Y))
    p = np.maximum(whole.predict_proba(np.concatenate(test.X)), 1e-5)
    responses = split(np.log(p), test.X)
    counts = np.ones((N_LETTERS, N_LETTERS))
    for y in train.Y:
        np.add.at(counts, (y[:-1], y[1:]), 1)
    pairs = np.log(counts / counts.sum(axis=1, keepdims=True))  # of the next letter
    values = [right(viterbi(held, weight * pairs), train.Y) for weight in PAIR_WEIGHTS]
    weight = PAIR_WEIGHTS[int(np.argmax(values))]
    settings = {"tol": 0.05, "max_iter": 40, "random_state": 0}
    chain = partial(StructBoostTagger, objective="svm", **settings)
    model, facts = _tuned_chain(Words(held, train.Y), chain)
    predictions = {
        "alone": ([own.argmax(axis=1) for own in responses], {}),
        TWO_STAGES: (viterbi(responses, weight * pairs), {"pairs": weight}),
        CROSS_FITTED: (model.predict(crossed.transform(test.X)), facts),
    }
    return [
        row(f"{label}, {how}", RIGHT, right(predicted, test.Y), **more)
        for how, (predicted, more) in predictions.items()
    ]


def viterbi(responses, pairs):
    """Letters of the largest sum of responses and pairs."""
    n = len(responses)
    starts = np.concatenate(([0], np.cumsum([len(own) for own in responses])))
    rows = {"token": np.concatenate(responses), "step": np.tile(pairs.reshape(1, -1), (n, 1))}
    stack = StackedParts(rows, {"token": starts, "step": np.arange(n + 1)})
    return ChainTask(N_LETTERS).argmax_batch(responses, stack)


def _tuned_chain(train, make):
    """The linear chain at the C of the most right letters in parts of the training words."""
    X, Y = (np.array(part, dtype=object) for part in train)
    folds = list(KFold(PARTS, shuffle=True, random_state=0).split(X))

    def fit(C, rows=slice(None)):
        return make(C=C).fit([*X[rows]], [*Y[rows]])

    def value(C):
        return np.mean([right(fit(C, rows).predict([*X[held]]), Y[held]) for rows, held in folds])

    model, facts = best_fit(CS, value, fit)
    return model, {**facts, "gap": model.history_[-1]["gap"]}


_LIGHTGBM = {"n_estimators": 150, "num_leaves": 15, "min_child_samples": 5, "reg_lambda": 5.0}
CLASSIFIERS = {
    # Probabilities by pairs of classes: deprecated, but better here.
    "svc": partial(SVC, C=10.0, gamma=0.03, probability=True, random_state=0),
    "extra trees": partial(ExtraTreesClassifier, 300, max_features=0.2, random_state=0),
    "lightgbm": partial(
        *(peer, "lightgbm", "LGBMClassifier"), random_state=0, n_jobs=1, verbose=-1, **_LIGHTGBM
    ),
}


def learners(source):
    own = {"pixels": on_pixels, "joint trees": trees_on_blurred}
    if source.name == FEW:
        own |= {k: partial(with_classifier, k, make) for k, make in CLASSIFIERS.items()}
    return own
