"""Snakes: cells of a snake in their order, by a classifier and a search, or by one linear model."""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import KFold

from benchmarks.runner.protocol import best_fit, row
from structboost import CrossFitted, GraphTask, StructuredSVM
from structboost.contract import StackedParts
from structboost.tasks import GraphInput

DIRECTIONS, ENDS = "snakes, by direction only", "snakes, with features of the ends"
FILES = dict.fromkeys((DIRECTIONS, ENDS), ("structures/grids/snakes.npz",))
RIGHT, LINEAR, N_LABELS = "right pixels", "linear model of the grid", 11
CS = {DIRECTIONS: (2.0, 10.0, 50.0), ENDS: (10.0, 20.0, 50.0)}
PAIR_WEIGHTS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)
FOLDS = 4
# Pixels, joined to those right of them and below.
TASK = GraphTask(N_LABELS, ("right", "down"))


class Images(NamedTuple):
    """Graphs of a part, and their labels."""

    X: list[GraphInput]
    Y: list[np.ndarray]

    def of(self, rows):
        return Images([self.X[i] for i in rows], [self.Y[i] for i in rows])


def read(source):
    """Training and test images."""
    file = source.arrays()
    labels, offset, sizes = file["labels"], file["offset"], file["shape"].tolist()
    colours, index = np.unique(file["pixels"], axis=0, return_inverse=True)
    background = int(np.bincount(index.ravel()[labels == 0], minlength=len(colours)).argmax())
    pieces = np.split(index.ravel(), offset[1 : len(sizes)])
    X = [
        _graph(own.reshape(size), len(colours), background, ends=source.name == ENDS)
        for own, size in zip(pieces, sizes, strict=True)
    ]
    Y = np.split(labels.astype(np.int64), offset[1 : len(sizes)])
    images = Images(X, Y)
    return images.of(np.flatnonzero(file["train"])), images.of(np.flatnonzero(~file["train"]))


def _graph(colours, n_colours, background, *, ends):
    """The grid of an image: colours in a 3 x 3 window, and edges of both directions."""
    height, width = colours.shape
    windows = sliding_window_view(np.pad(colours, 1, constant_values=background), (3, 3))
    nodes = np.eye(n_colours)[windows].reshape(height * width, -1)
    index = np.arange(height * width).reshape(height, width)
    edges = {
        "right": np.column_stack((index[:, :-1].ravel(), index[:, 1:].ravel())),
        "down": np.column_stack((index[:-1].ravel(), index[1:].ravel())),
    }
    features = {kind: nodes[own].reshape(len(own), -1) for kind, own in edges.items()}
    return GraphInput(nodes, edges, features if ends else None)


def right(predicted, true):
    pairs = zip(predicted, true, strict=True)
    return float(np.mean(np.concatenate([z == y for z, y in pairs])))


def linear(source):
    """The linear model; its C is chosen on a quarter of the training images, or by folds."""
    train, test = read(source)
    n = len(train.X)
    splits = [np.split(np.arange(n), [3 * n // 4])]
    if source.name == ENDS:
        splits = list(KFold(FOLDS, shuffle=True, random_state=0).split(train.X))
    pieces = [(train.of(rest), train.of(held)) for rest, held in splits]

    def fit(C, part=train):
        svm = StructuredSVM(TASK, C=C, tol=0.02, max_epochs=200, random_state=0)
        return svm.fit(part.X, part.Y)

    def value(C):
        return np.mean([right(fit(C, rest).predict(held.X), held.Y) for rest, held in pieces])

    model, facts = best_fit(CS[source.name], value, fit)
    facts["gap"] = model.history_[-1]["gap"]
    return [row(LINEAR, RIGHT, right(model.predict(test.X), test.Y), **facts)]


def two_stages(source):
    """A classifier of pixels alone, and followed by the search with counted pairs of labels."""
    train, test = read(source)
    trees = ExtraTreesClassifier(200, min_samples_leaf=2, random_state=0)
    crossed = CrossFitted(trees, random_state=0)
    held = crossed.fit_transform([x.nodes for x in train.X], train.Y)
    at_test = crossed.transform([x.nodes for x in test.X])
    counts = {kind: np.ones((N_LABELS, N_LABELS)) for kind in ("right", "down")}
    for x, y in zip(train.X, train.Y, strict=True):
        for kind, own in counts.items():
            np.add.at(own, tuple(y[x.edges[kind]].T), 1)
    pairs = {kind: np.log(own / own.sum()).reshape(1, -1) for kind, own in counts.items()}
    trials = [right(_searched(train.X, held, pairs, w), train.Y) for w in PAIR_WEIGHTS]
    weight = PAIR_WEIGHTS[int(np.argmax(trials))]
    value, alone = (right(_searched(test.X, at_test, pairs, w), test.Y) for w in (weight, 0.0))
    return [
        row("extra trees, alone", RIGHT, alone),
        row("extra trees, two stages", RIGHT, value, pairs=weight),
    ]


def _searched(X, responses, pairs, weight):
    """Labels of the largest sum of responses and weighted pairs."""
    rows = {"node": np.concatenate(responses)}
    offsets = {"node": np.cumsum([0, *map(len, responses)])}
    for kind, table in pairs.items():
        sizes = [len(x.edges[kind]) for x in X]
        rows[kind] = np.repeat(weight * table, sum(sizes), axis=0)
        offsets[kind] = np.cumsum([0, *sizes])
    return TASK.argmax_batch(X, StackedParts(rows, offsets))


def learners(source):
    return {LINEAR: linear, **({} if source.name == ENDS else {"two stages": two_stages})}
