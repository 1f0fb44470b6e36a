"""A small right problem of every task, with truths and inputs that are wrong for it."""

from __future__ import annotations

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


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _table(task: Task, outputs: list[Any], wrong: dict[str, Any], n: int = 40) -> TaskProblem:
    rng = _rng()
    X = rng.normal(size=(n, 3))
    places = (X[:, 0] + rng.normal(size=n) > 0).astype(int) + (X[:, 1] > 1)
    return TaskProblem(task, list(X), [outputs[k % len(outputs)] for k in places], wrong)


def _chain(n: int) -> TaskProblem:
    rng = _rng()
    X = [rng.normal(size=(4, 2)) for _ in range(n)]
    Y = [(x[:, 0] + rng.normal(size=4) > 0).astype(int) for x in X]
    return TaskProblem(ChainTask(2), X, Y, {**_VECTORS, "out of range": [0, 1, 2, 0]})


def _segments(n: int) -> TaskProblem:
    rng = _rng()
    X = [rng.normal(size=(4, 2)) for _ in range(n)]
    Y = [np.array([(0, 2, int(x[0, 0] > 0)), (2, 4, int(x[2, 0] > 0))]) for x in X]
    wrong = {
        "a gap": [(0, 1, 0), (2, 4, 0)],
        "too short": [(0, 2, 0)],
        "too long": [(0, 2, 0), (2, 4, 0), (4, 5, 0)],
        "out of range": [(0, 2, 0), (2, 4, 2)],
        "fractions": [(0.0, 2.0, 0.5), (2.0, 4.0, 0.0)],
    }
    return TaskProblem(SegmentTask(2, 3), X, Y, wrong)


def _graph(n: int, **parameters: Any) -> TaskProblem:
    rng = _rng()
    X = [GraphInput(rng.normal(size=(4, 2)), np.array([[0, 1], [1, 2], [2, 3]])) for _ in range(n)]
    Y = [(x.nodes[:, 0] + rng.normal(size=4) > 0).astype(int) for x in X]
    wrong = {**_VECTORS, "out of range": [0, 1, 2, 0]}
    return TaskProblem(GraphTask(2, **parameters), X, Y, wrong)


def _superpixels(n: int, *, areas: bool = False, pairwise: bool = True) -> TaskProblem:
    rng = _rng()
    X = [
        SuperpixelGraph(rng.normal(size=(4, 2, 2)), np.array([[0, 1], [1, 2]]), np.ones((2, 1)))
        for _ in range(n)
    ]
    Y: list[Any] = [(x.potentials[:, 0, 0] + rng.normal(size=4) > 0).astype(int) for x in X]
    if areas:
        Y = [TrueLabels(y, np.full(4, 0.25)) for y in Y]
    wrong = {**_VECTORS, "out of range": [0, 1, 2, 0]}
    return TaskProblem(SuperpixelCRFTask(2, pairwise=pairwise), X, Y, wrong)


def _matching(n: int, *, unmatched: bool = False) -> TaskProblem:
    rng = _rng()
    X = [rng.normal(size=(4, 4, 2)) for _ in range(n)]
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


def _candidates(n: int) -> TaskProblem:
    rng = _rng()
    pairs = np.array([(0, 0), (0, 1), (1, 1), (2, 2)])
    X = [CandidatePairs(3, 3, pairs, rng.normal(size=(4, 2))) for _ in range(n)]
    Y = [np.array([0, 1, 2 if rng.random() > 0.5 else -1]) for _ in X]
    wrong = {"no candidate": [2, 1, 0], "too long": [0, 1, 2, 3], "repeated": [1, 1, 2]}
    return TaskProblem(MatchingTask(unmatched=True), X, Y, wrong)


def _trees(n: int) -> TaskProblem:
    rng = _rng()
    X = [rng.normal(size=(4, 4, 2)) for _ in range(n)]
    Y = [np.array([-1, 0, int(rng.integers(0, 2)), int(rng.integers(0, 3))]) for _ in X]
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


def _ranking(n: int, loss: str = "pairs") -> TaskProblem:
    rng = _rng()
    X = [rng.normal(size=(4, 2)) for _ in range(n)]
    Y = [np.array([1, 0, 0, int(x[3, 0] > 0)]) for x in X]
    wrong = {"too long": [0, 1, 0, 1, 0], "too short": [0], "NaN inside": [0.0, np.nan, 1.0, 0.0]}
    return TaskProblem(RankingTask(loss), X, Y, wrong)


def _boxes(n: int) -> TaskProblem:
    rng = _rng()
    boxes = np.array([(0, 0, 2, 2), (1, 0, 2, 2), (5, 5, 2, 2), (1, 1, 3, 3)], float)
    X = [BoxTable(boxes, rng.normal(size=(4, 2))) for _ in range(n)]
    Y = [chosen(x, int(np.argmax(x.table[:, 0] + rng.normal(size=4)))) for x in X]
    wrong = {
        "out of range": Y[0]._replace(place=9),
        "below": Y[0]._replace(place=-1),
        "another box": Y[0]._replace(box=(9.0, 9.0, 1.0, 1.0)),
        "a fraction": Y[0]._replace(place=0.5),
        "a tuple": (0, 1),
    }
    return TaskProblem(BoxOverlapTask(), X, Y, wrong)


def task_problems(n: int = 40) -> dict[str, TaskProblem]:
    """Make a problem of ``n`` examples of every task, by name."""
    word = np.array([[1, -1], [-1, 1], [1, 1]])
    labels = {
        "out of range": 3, "below": -1, "a fraction": 0.5, "too long": [0, 1], "infinite": np.inf
    }  # fmt: skip
    sets = {
        **{name: value for name, value in _VECTORS.items() if name != "too short"},
        "too short": [0, 1],
        "out of range": [0, 1, 2],
    }
    of_three = [np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([1, 0, 0])]
    closed = [np.array([1, 0, 0]), np.array([1, 1, 0]), np.array([1, 1, 1])]
    return {
        "binary": _table(BinaryTask(), [-1, 1], {**labels, "below": -2, "zero": 0}, n),
        "multiclass": _table(MulticlassTask(3), [0, 1, 2], labels, n),
        "coded": _table(CodedTask(word), [0, 1, 2], labels, n),
        "taxonomy": _table(TaxonomyTask({"a": [0, 1], 2: None}), [0, 1, 2], labels, n),
        "enumerated": _table(
            EnumeratedTask(["p", "q"], [[1], [-1]]), ["p", "q"], {"unknown": "r", "list": [1]}, n
        ),
        "label sets": _table(MultiLabelTask(3), of_three, sets, n),
        "label pairs": _table(MultiLabelTask(3, "f1", pairs=True), of_three, sets, n),
        "hierarchy": _table(
            HierarchicalMultiLabelTask(3, [(0, 1), (1, 2)]), closed, {**sets, "open": [0, 1, 0]}, n
        ),
        "ranking": _ranking(n),
        "ndcg": _ranking(n, "ndcg"),
        "boxes": _boxes(n),
        "chain": _chain(n),
        "segments": _segments(n),
        "graph": _graph(n),
        "exact graph": _graph(n, exact=True),
        "superpixels": _superpixels(n),
        "areas": _superpixels(n, areas=True),
        "lone superpixels": _superpixels(n, pairwise=False),
        "matching": _matching(n),
        "unmatched": _matching(n, unmatched=True),
        "candidates": _candidates(n),
        "trees": _trees(n),
    }
