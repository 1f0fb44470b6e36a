"""Sets of labels and their marginals in ONNX graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.export.onnx_graph import Graph
from structboost.tasks.hierarchical import HierarchicalMultiLabelTask

# Most sets that are compared with each other for the least expected loss: 32 megabytes.
_MOST_SETS = 2048


def label_sets(
    graph: Graph, task: Any, scores: str, sharpness: float, *, by_likelihood: bool
) -> dict[str, str]:
    """Add ``labels``, rows of 0 and 1, and ``marginals``, probabilities of the labels.

    Raises
    ------
    TypeError
        If no closed form of either is known.
    """
    sharp = graph.add("Mul", scores, graph.constant(sharpness))
    if isinstance(task, HierarchicalMultiLabelTask):
        return _of_hierarchy(graph, task, scores, sharp)
    if task.sets is not None:
        return _of_listed_sets(graph, task, sharp, by_likelihood=by_likelihood)
    marginals = graph.add("Sigmoid", sharp)
    if by_likelihood and task.loss_name == "f1":
        raise TypeError(
            "loss is 'f1', and the sets of largest expected F1 have no form in ONNX; train with "
            "outputs='seen', or export model_ and call structboost.inference.best_expected_f1 "
            "on the probabilities of its scores."
        )
    threshold: Any = 0.0
    if by_likelihood and task._costs is not None:
        missing, excess = task._costs
        with np.errstate(divide="ignore"):
            threshold = np.log(excess) - np.log(missing)
    is_in = graph.add("Greater", sharp, graph.constant(threshold))
    return {"labels": graph.whole(is_in), "marginals": marginals}


def _of_listed_sets(graph: Graph, task: Any, scores: str, *, by_likelihood: bool) -> dict[str, str]:
    codes = task._codes(task.sets)
    by_set = graph.add("MatMul", scores, graph.constant(codes.T * 1.0))
    probabilities = graph.add("Softmax", by_set, axis=1)
    of_sets = graph.constant(task.sets * 1.0)
    index = graph.add("ArgMax", by_set, axis=1, keepdims=0)
    if by_likelihood and task.loss_name != "subset":
        if len(task.sets) > _MOST_SETS:
            raise TypeError(
                f"The model compares {len(task.sets)} sets of labels, and a graph at most "
                f"{_MOST_SETS}; train with outputs='all', or with loss='subset'."
            )
        losses = task._losses(task.sets[:, None], task.sets[None])
        expected = graph.add("MatMul", probabilities, graph.constant(losses))
        index = graph.add("ArgMin", expected, axis=1, keepdims=0)
    return {
        "labels": graph.add("Gather", graph.constant(task.sets), index),
        "marginals": graph.add("MatMul", probabilities, of_sets),
    }


def _of_hierarchy(
    graph: Graph, task: HierarchicalMultiLabelTask, scores: str, sharp: str
) -> dict[str, str]:
    parents, children = task.edges.T
    if len(np.unique(children)) < len(children):
        label = int(np.flatnonzero(np.bincount(children) > 1)[0])
        name = label if task.label_names is None else task.label_names[label]
        raise TypeError(
            f"Label {name!r} has several parents, for which the best set has no form in ONNX; "
            "export model_, and call structboost.inference.maximum_closure on its scores."
        )
    above = np.full(task.n_labels, -1)
    above[children] = parents
    levels = [np.flatnonzero(above < 0)]
    while len(below := np.flatnonzero(np.isin(above, levels[-1]))):
        levels.append(below)
    best = _tree_of_labels(graph, scores, above, levels, _positive)
    is_in = [graph.add("Greater", total, graph.constant(0.0)) for total in best]
    probable = _tree_of_labels(graph, sharp, above, levels, _softplus)
    given_parent = [graph.add("Sigmoid", total) for total in probable]
    return {
        "labels": graph.whole(_down(graph, is_in, above, levels, "And")),
        "marginals": _down(graph, given_parent, above, levels, "Mul"),
    }


def _tree_of_labels(
    graph: Graph,
    scores: str,
    above: NDArray[Any],
    levels: list[NDArray[Any]],
    gain: Callable[[Graph, str], str],
) -> list[str]:
    """Add, level by level, the score of each label and the gains of those below it."""
    totals: list[str] = []
    for depth in range(len(levels) - 1, -1, -1):
        total = graph.columns(scores, levels[depth])
        if totals:
            below = above[levels[depth + 1]][:, None] == levels[depth]
            gains = graph.add("MatMul", gain(graph, totals[0]), graph.constant(below * 1.0))
            total = graph.add("Add", total, gains)
        totals.insert(0, total)
    return totals


def _positive(graph: Graph, value: str) -> str:
    return graph.add("Relu", value)


def _softplus(graph: Graph, value: str) -> str:
    """Add ``log(1 + exp(value))``, for which onnxruntime has single precision only."""
    falling = graph.add("Exp", graph.add("Neg", graph.add("Abs", value)))
    rest = graph.add("Log", graph.add("Add", graph.constant(1.0), falling))
    return graph.add("Add", graph.add("Relu", value), rest)


def _down(
    graph: Graph,
    of_levels: list[str],
    above: NDArray[Any],
    levels: list[NDArray[Any]],
    operator: str,
) -> str:
    """Combine each label with those above it, and return the labels in their order."""
    combined = of_levels[:1]
    for depth in range(1, len(levels)):
        place = np.searchsorted(levels[depth - 1], above[levels[depth]])
        of_parents = graph.columns(combined[-1], place)
        combined.append(graph.add(operator, of_levels[depth], of_parents))
    stacked = graph.add("Concat", *combined, axis=1)
    return graph.columns(stacked, np.argsort(np.concatenate(levels)))
