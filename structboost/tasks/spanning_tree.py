"""Spanning trees directed away from a root, such as the dependencies of a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from structboost._typing import AnyArray, Examples, FloatArray, IntArray, override
from structboost.contract.parts import Marginals, PartKind, SparseFeature, StackedParts, starts_of
from structboost.contract.task import Decomposes, Lists, Validates
from structboost.errors import TaskError
from structboost.inference.arguments import checked_features, labels_of, passes
from structboost.inference.spanning_tree import best_arborescences, sum_arborescences
from structboost.tasks.base import BatchTask, indicator
from structboost.validation import shown


class SpanningTreeTask(BatchTask, Decomposes, Lists, Validates):
    """A head for each node but the first, so that all nodes form a tree below the first.

    A part is an arc from a head to its dependent, with one channel.  A tree scores the sum of its
    arcs.  The loss is the number of wrong heads.  The argmax is exact:
    :func:`~structboost.inference.maximum_spanning_arborescence`, for all inputs at once.  The
    marginals are those of :func:`~structboost.inference.arborescence_marginals`.

    An input is an array (n_nodes, n_nodes, n_features), where ``[h, d]`` describes the arc from h
    to d.  Arcs to node 0, or from a node to itself, are never used.  An output is an array
    (n_nodes,) with the head of each node, -1 for node 0.

    Of equally good arcs into a node, or into a cycle, the argmax takes the one of the first head.

    Examples
    --------
    >>> from structboost import SpanningTreeTask
    >>> task = SpanningTreeTask()
    >>> task.loss([-1, 0, 1], [-1, 0, 0])
    1.0
    """

    kinds = {"arc": PartKind(1)}
    labelled_kind = "arc"

    @override
    def parts(self, x: Any) -> AnyArray:
        table = checked_features(x, "(n_nodes, n_nodes, n_features)")
        n = len(table)
        if not n or table.shape[1] != n:
            raise TaskError(
                f"An input has shape {table.shape}; give (n_nodes, n_nodes, n_features)."
            )
        return table.reshape(n * n, -1)

    @override
    def joint_feature(self, x: Any, y: Any) -> SparseFeature:
        heads = _checked(y, len(x))
        return indicator(heads[1:] * len(heads) + np.arange(1, len(heads)))

    @override
    def loss(self, y: Any, y_pred: Any) -> float:
        true = _checked(y)
        return float(np.sum(true != _checked(y_pred, len(true))))

    @override
    def loss_scores(self, x: Any, y: Any) -> FloatArray:
        heads = _checked(y, len(x))
        wrong: FloatArray = (np.arange(len(heads))[:, None] != heads).astype(np.float64)
        return wrong.reshape(-1, 1)

    @override
    def argmax_batch(
        self, X: Examples, scores: StackedParts, Y: Examples | None = None
    ) -> list[IntArray]:
        graphs = _graphs(scores)
        arcs, first_nodes = graphs[1], graphs[3]
        chosen = np.empty(first_nodes[-1], np.int64)
        best_arborescences(*graphs, chosen)
        return np.split(np.where(chosen < 0, -1, arcs[chosen, 0]), first_nodes[1:-1])

    @override
    def marginals_batch(self, X: Examples, scores: StackedParts) -> Marginals:
        graphs = _graphs(scores)
        of_arcs, log_sums = np.empty(len(graphs[0])), np.empty(len(X))
        sum_arborescences(*graphs, of_arcs, log_sums)
        return Marginals({"arc": of_arcs[:, None]}, log_sums)

    @override
    def part_labels(self, x: Any, y: Any) -> IntArray:
        labels = np.zeros(len(x) ** 2, np.int64)
        labels[self.joint_feature(x, y).parts] = 1
        return labels

    @override
    def with_features(self, x: Any, features: Any) -> Any:
        return np.reshape(features, (len(x), len(x), -1))

    @override
    def outputs(self, x: Any) -> Iterator[IntArray]:
        for heads in product(range(len(x)), repeat=len(x) - 1):
            output = np.array((-1, *heads), np.int64)
            if self.is_valid(x, output):
                yield output

    @override
    def is_valid(self, x: Any, y: Any) -> bool:
        return passes(_checked, y, len(x))


def _checked(y: Any, n_nodes: int | None = None) -> IntArray:
    """Return heads as an array, after a check that they form a tree."""
    heads = labels_of(y, "A tree", n_nodes, low=-1, more=", a head for each node and -1 for node 0")
    n = len(heads)
    if not n or heads[0] != -1 or (heads[1:] < 0).any() or heads.max() >= n:
        raise TaskError(
            f"A tree has heads {shown(heads.tolist())}; give -1 for node 0, then 0 to {n - 1}."
        )
    above = np.maximum(heads, 0)
    for _ in range(n.bit_length()):  # twice as far up each time
        above = above[above]
    if above.any():
        node = int(np.flatnonzero(above)[0])
        raise TaskError(f"A tree does not lead from node {node} to node 0; break the cycle.")
    return heads


def _graphs(scores: StackedParts) -> tuple[FloatArray, IntArray, IntArray, IntArray]:
    """Return scores and ends of all arcs, and the first arc and the first node of each graph."""
    sizes = np.sqrt(scores.sizes("arc")).round().astype(np.int64)
    arcs = np.concatenate([np.indices((n, n)).reshape(2, -1).T for n in sizes.tolist()])
    values = np.ascontiguousarray(scores.rows["arc"][:, 0], np.float64)
    return values, arcs, np.asarray(scores.offsets["arc"], np.int64), starts_of(sizes)
