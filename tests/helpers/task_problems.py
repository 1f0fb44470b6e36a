"""A small right problem of every task, with truths and inputs that are wrong for it."""

from typing import Any, NamedTuple

import numpy as np

from structboost import (
    BinaryTask,
    ChainTask,
    EnumeratedTask,
    GraphTask,
    HierarchicalMultiLabelTask,
    MatchingTask,
    MulticlassTask,
    MultiLabelTask,
    RankingTask,
    SegmentTask,
    SpanningTreeTask,
    Task,
    TaxonomyTask,
)
from structboost.tasks import (
    BoxOverlapTask,
    CandidatePairs,
    CodedTask,
    GraphInput,
    SuperpixelCRFTask,
)
from structboost.tasks.boxes import BoxTable, chosen
from structboost.tasks.superpixel_crf import SuperpixelGraph, TrueLabels


def grid_edges(side):
    """Pairs of neighbours in a square grid of nodes."""
    place = np.arange(side * side).reshape(side, side)
    across = np.column_stack((place[:, :-1].ravel(), place[:, 1:].ravel()))
    return np.vstack((across, np.column_stack((place[:-1].ravel(), place[1:].ravel()))))


class TaskProblem(NamedTuple):
    """Examples of a task that no model separates, and truths that are wrong for any of them."""

    task: Task
    X: list[Any]
    Y: list[Any]
    wrong: dict[str, Any]


# Objects that are no output of any task.
NO_OUTPUTS = {
    "None": None,
    "text": "abc",
    "NaN": np.nan,
    "dict": {"a": 1},
    "object": object(),
    "complex": 1j,
    "ragged": [[0], [0, 1]],
    "texts": np.array(["a", "b", "c", "d"]),
    "many axes": np.zeros((2, 2, 2, 2)),
    "huge": [2**70] * 4,
}
# Objects that are no input of any task.
NO_INPUTS = {
    "None": None,
    "text": "abc",
    "dict": {"a": 1},
    "object": object(),
    "complex": np.ones((4, 4, 2)) * 1j,
    "ragged": [[1.0], [1.0, 2.0]],
    "texts": np.array([["a", "b"]] * 4),
    "many axes": np.zeros((2, 2, 2, 2)),
    "infinite": np.full((4, 4, 2), np.inf),
}

_VECTORS = {"too long": [0, 1, 0, 1, 0], "too short": [0], "fractions": [0.5, 1.0, 0.0, 1.0]}


def _drawn(n, *shape):
    """A generator and ``n`` arrays of it."""
    rng = np.random.default_rng(0)
    return rng, [rng.normal(size=shape) for _ in range(n)]


def _table(n, task, outputs, wrong):
    rng, X = _drawn(n, 3)
    places = [int(x[0] + rng.normal() > 0) + int(x[1] > 1) for x in X]
    return TaskProblem(task, X, [outputs[k % len(outputs)] for k in places], wrong)


def _four_labels(n, task, form=np.asarray, truth=np.asarray):
    """Labels of the tokens, nodes or superpixels that are made of a table of four rows."""
    rng, tables = _drawn(n, 4, 2)
    Y = [truth((rows[:, 0] + rng.normal(size=4) > 0).astype(int)) for rows in tables]
    wrong = {**_VECTORS, "out of range": [0, 1, 2, 0]}
    return TaskProblem(task, [form(rows) for rows in tables], Y, wrong)


def _graph(rows):
    return GraphInput(rows, np.array([[0, 1], [1, 2], [2, 3]]))


def _superpixels(rows):
    potentials = np.stack((rows, rows[::-1]), axis=1)
    return SuperpixelGraph(potentials, np.array([[0, 1], [1, 2]]), np.ones((2, 1)))


def _areas(labels):
    return TrueLabels(labels, np.full(4, 0.25))


def _segments(n):
    _, X = _drawn(n, 4, 2)
    Y = [np.array([(0, 2, int(x[0, 0] > 0)), (2, 4, int(x[2, 0] > 0))]) for x in X]
    wrong = {
        "a gap": [(0, 1, 0), (2, 4, 0)],
        "too short": [(0, 2, 0)],
        "too long": [(0, 2, 0), (2, 4, 0), (4, 5, 0)],
        "out of range": [(0, 2, 0), (2, 4, 2)],
        "fractions": [(0.0, 2.0, 0.5), (2.0, 4.0, 0.0)],
    }
    return TaskProblem(SegmentTask(2, 3), X, Y, wrong)


def _matching(n, *, unmatched):
    rng, X = _drawn(n, 4, 4, 2)
    Y = [rng.permutation(4) for _ in X]
    for x, y in zip(X, Y, strict=True):
        x[np.arange(4), y, 0] += 1.0
    wrong = {
        **_VECTORS,
        "repeated": [0, 0, 1, 2],
        "out of range": [0, 1, 2, 4],
        "below": [0, 1, 2, -2],
    }
    return TaskProblem(MatchingTask(unmatched=unmatched), X, Y, wrong)


def _candidates(n):
    rng, tables = _drawn(n, 4, 2)
    pairs = np.array([(0, 0), (0, 1), (1, 1), (2, 2)])
    X = [CandidatePairs(3, 3, pairs, table) for table in tables]
    Y = [np.array([0, 1, 2 if rng.random() > 0.5 else -1]) for _ in X]
    wrong = {"no candidate": [2, 1, 0], "too long": [0, 1, 2, 3], "repeated": [1, 1, 2]}
    return TaskProblem(MatchingTask(unmatched=True), X, Y, wrong)


def _trees(n):
    rng, X = _drawn(n, 4, 4, 2)
    Y = [np.array([-1, 0, *rng.integers(0, (2, 3))]) for _ in X]
    wrong = {
        "a cycle": [-1, 2, 1, 0],
        "a loop": [-1, 0, 2, 0],
        "no root": [0, 0, 0, 0],
        "too long": [-1, 0, 0, 0, 0],
        "too short": [-1, 0],
        "out of range": [-1, 0, 0, 4],
        "fractions": [-1.0, 0.0, 0.5, 0.0],
        "empty": [],
    }
    return TaskProblem(SpanningTreeTask(), X, Y, wrong)


def _ranking(n, loss):
    _, X = _drawn(n, 4, 2)
    Y = [np.array([1, 0, 0, int(x[3, 0] > 0)]) for x in X]
    wrong = {"too long": [0, 1, 0, 1, 0], "too short": [0], "NaN inside": [0.0, np.nan, 1.0, 0.0]}
    return TaskProblem(RankingTask(loss), X, Y, wrong)


def _boxes(n):
    rng, tables = _drawn(n, 4, 2)
    boxes = np.array([(0, 0, 2, 2), (1, 0, 2, 2), (5, 5, 2, 2), (1, 1, 3, 3)], float)
    X = [BoxTable(boxes, table) for table in tables]
    Y = [chosen(x, int(np.argmax(x.table[:, 0] + rng.normal(size=4)))) for x in X]
    wrong = {
        "out of range": Y[0]._replace(place=9),
        "below": Y[0]._replace(place=-1),
        "another box": Y[0]._replace(box=(9.0, 9.0, 1.0, 1.0)),
        "a fraction": Y[0]._replace(place=0.5),
        "a tuple": (0, 1),
    }
    return TaskProblem(BoxOverlapTask(), X, Y, wrong)


def task_problems(n=40):
    """Make a problem of ``n`` examples of every task, by name."""
    word = np.array([[1, -1], [-1, 1], [1, 1]])
    labels = {
        "out of range": 3, "below": -1, "a fraction": 0.5, "too long": [0, 1], "infinite": np.inf
    }  # fmt: skip
    sets = {**_VECTORS, "too short": [0, 1], "out of range": [0, 1, 2]}
    of_three = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 0]])
    closed = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    three = [0, 1, 2]
    tables = {
        "binary": (BinaryTask(), [-1, 1], {**labels, "below": -2, "zero": 0}),
        "multiclass": (MulticlassTask(3), three, labels),
        "coded": (CodedTask(word), three, labels),
        "taxonomy": (TaxonomyTask({"a": [0, 1], 2: None}), three, labels),
        "enumerated": (
            EnumeratedTask(["p", "q"], [[1], [-1]]), ["p", "q"], {"unknown": "r", "list": [1]}
        ),
        "label sets": (MultiLabelTask(3), of_three, sets),
        "label pairs": (MultiLabelTask(3, "f1", pairs=True), of_three, sets),
        "hierarchy": (
            HierarchicalMultiLabelTask(3, [(0, 1), (1, 2)]), closed, {**sets, "open": [0, 1, 0]}
        ),
    }  # fmt: skip
    return {name: _table(n, *parts) for name, parts in tables.items()} | {
        "ranking": _ranking(n, "pairs"),
        "ndcg": _ranking(n, "ndcg"),
        "boxes": _boxes(n),
        "chain": _four_labels(n, ChainTask(2)),
        "segments": _segments(n),
        "graph": _four_labels(n, GraphTask(2), _graph),
        "exact graph": _four_labels(n, GraphTask(2, exact=True), _graph),
        "superpixels": _four_labels(n, SuperpixelCRFTask(2), _superpixels),
        "areas": _four_labels(n, SuperpixelCRFTask(2), _superpixels, _areas),
        "lone superpixels": _four_labels(n, SuperpixelCRFTask(2, pairwise=False), _superpixels),
        "matching": _matching(n, unmatched=False),
        "unmatched": _matching(n, unmatched=True),
        "candidates": _candidates(n),
        "trees": _trees(n),
    }
