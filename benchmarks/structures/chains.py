"""OCR letters: the chain on pixels, two stages, and the chain on cross-fitted responses."""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import KFold
from sklearn.svm import SVC

from benchmarks.peers.boosters import peer
from benchmarks.runner.experiment import Experiment, Learner
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.records import lookup
from benchmarks.runner.targets import reach
from benchmarks.structures.rows import Row, rows_of, tuned
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
    with np.load(source.folder / FILES[source.name][0]) as file:
        X, y, word, fold = (file[name] for name in ("X", "y", "word", "fold"))
    starts = np.flatnonzero(np.diff(word)) + 1
    tables = np.split(X.astype(np.float32), starts), np.split(y.astype(np.int64), starts)
    is_first = fold[np.concatenate(([0], starts))] == 1
    parts = (~is_first, is_first) if source.name == MANY else (is_first, ~is_first)
    rows = [np.flatnonzero(part) for part in parts]
    return [Words(*([table[i] for i in own] for table in tables)) for own in rows]


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
    return [Row("pixels, linear chain", RIGHT, right(model.predict(test.X), test.Y), facts)]


def trees_on_blurred(source):
    """The tagger without parameters, trees and pairs trained together, on blurred letters."""
    train, test = (Words(_blurred(part.X), part.Y) for part in read(source))
    tagger = StructBoostTagger(max_iter=200)
    model, seconds = cpu_timed(tagger.fit, *train)
    return [Row(TREES, RIGHT, right(model.predict(test.X), test.Y), {"seconds": seconds})]


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
    of_folds, of_whole = crossed.transform(test.X), responses_of(whole, test.X)
    weight, pairs = best_pairs(held, train.Y)
    settings = {"tol": 0.05, "max_iter": 40, "random_state": 0}
    chain = partial(StructBoostTagger, objective="svm", **settings)
    model, facts = _tuned_chain(Words(held, train.Y), chain)
    predictions = {
        "alone": ([own.argmax(axis=1) for own in of_whole], {}),
        f"{TWO_STAGES}, mean of folds": (viterbi(of_folds, pairs), {"pairs": weight}),
        TWO_STAGES: (viterbi(of_whole, pairs), {"pairs": weight}),
        CROSS_FITTED: (model.predict(of_folds), facts),
        f"{CROSS_FITTED}, refitted": (model.predict(of_whole), facts),
    }
    return [
        Row(f"{label}, {how}", RIGHT, right(predicted, test.Y), more)
        for how, (predicted, more) in predictions.items()
    ]


def responses_of(model, X):
    """Log-probabilities of the letters of each word."""
    return split(np.log(np.maximum(model.predict_proba(np.concatenate(X)), 1e-5)), X)


def pair_scores(Y):
    """Log-probabilities of the next letter, by counts plus one."""
    counts = np.ones((N_LETTERS, N_LETTERS))
    for y in Y:
        np.add.at(counts, (y[:-1], y[1:]), 1)
    return np.log(counts / counts.sum(axis=1, keepdims=True))


def best_pairs(responses, Y):
    """Weight of the scores of pairs by which most letters are right, and the weighted scores."""
    pairs = pair_scores(Y)
    values = [right(viterbi(responses, w * pairs), Y) for w in PAIR_WEIGHTS]
    best = PAIR_WEIGHTS[int(np.argmax(values))]
    return best, best * pairs


def viterbi(responses, pairs):
    """Letters of the largest sum of responses and pairs."""
    n = len(responses)
    starts = np.concatenate(([0], np.cumsum([len(own) for own in responses])))
    rows = {"token": np.concatenate(responses), "step": np.tile(pairs.reshape(1, -1), (n, 1))}
    stack = StackedParts(rows, {"token": starts, "step": np.arange(n + 1)})
    return ChainTask(N_LETTERS).argmax_batch(responses, stack)


def _tuned_chain(train, make):
    """The linear chain at the C of the most right letters in parts of the training words."""
    X, Y = train
    folds = list(KFold(PARTS, shuffle=True, random_state=0).split(X))

    def value(C):
        of_parts = []
        for rows, held in folds:
            model = make(C=C).fit([X[i] for i in rows], [Y[i] for i in rows])
            of_parts.append(right(model.predict([X[i] for i in held]), [Y[i] for i in held]))
        return np.mean(of_parts)

    model, facts = tuned(CS, value, lambda C: make(C=C).fit(X, Y))
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
    own = {"pixels": Learner(on_pixels), "joint trees": Learner(trees_on_blurred)}
    if source.name == FEW:
        for name, make in CLASSIFIERS.items():
            packages = ("lightgbm",) if name == "lightgbm" else ()
            own[name] = Learner(partial(with_classifier, name, make), packages)
    return own


EXPERIMENT = Experiment(FILES, learners, rows_of)


def targets(made):
    at = lookup(made, "dataset", "method")
    both = [at(FEW, f"{label}, {CROSS_FITTED}") for label in ("extra trees", "lightgbm")]
    best = None if None in both else max(both)
    pixels = at(FEW, "pixels, linear chain")
    crossed = [
        reach(
            f"letters, {label}: cross-fitted above its two stages",
            at(FEW, f"{label}, {CROSS_FITTED}"),
            *(">", at(FEW, f"{label}, {TWO_STAGES}")),
        )
        for label in CLASSIFIERS
    ]
    return [
        reach("letters, fold 1 against the rest, with trees", best, ">=", 0.885),
        reach("the same, trees and pairs together", at(FEW, TREES), ">=", 0.885),
        reach("the same, linear on pixels", pixels, ">=", 0.805),
        reach("letters, nine folds, trees and pairs", at(MANY, TREES), ">=", 0.95),
        *crossed,
    ]
