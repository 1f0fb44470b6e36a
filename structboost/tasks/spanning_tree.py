"""Spanning trees directed away from a root, such as the dependencies of a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from structboost._typing import AnyArray, FloatArray, IntArray, override
from structboost.contract.listed_outputs import Marginals
from structboost.contract.parts import PartKind, StackedParts
from structboost.errors import TaskError
from structboost.inference.spanning_tree import best_arborescences, sum_arborescences
from structboost.tasks.base import BatchTask, checked_features, whole_vector
from structboost.tasks.matching import CandidatePairs, PairTask, shape_of
from structboost.validation import checked_flag, shown

_AXES = "(n_nodes, n_nodes, n_features)"


class SpanningTreeTask(PairTask, BatchTask):
    """A head for each node but the first, so that all nodes form a tree below the first.

    A part is an arc from a head to its dependent, with one channel.  A tree scores the sum of its
    arcs.  The loss is the number of wrong heads.  The argmax is exact:
    :func:`~structboost.inference.maximum_spanning_arborescence`, for all inputs at once.  The
    marginals are those of :func:`~structboost.inference.arborescence_marginals`.

    An input is an array (n_nodes, n_nodes, n_features), where ``[h, d]`` describes the arc from h
    to d; or :class:`CandidatePairs` of heads and dependents, both of the size n_nodes, where only
    some arcs are possible.  Arcs to node 0, or from a node to itself, are never used.  An output is
    an array (n_nodes,) with the head of each node, -1 for node 0.

    Of equally good arcs into a node, or into a cycle, the argmax takes the one of the first head,
    or the first of the candidates.

    Parameters
    ----------
    single_root : bool
        Whether node 0 has exactly one child, as the root of a sentence has.

    Examples
    --------
    >>> from structboost import SpanningTreeTask
    >>> task = SpanningTreeTask()
    >>> task.loss([-1, 0, 1], [-1, 0, 0])
    1.0
    """

    kinds = {"arc": PartKind(1)}
    labelled_kind = "arc"
    _output = "A tree"

    def __init__(self, *, single_root: bool = False) -> None:
        self.single_root = checked_flag(single_root, "single_root")

    @override
    def parts(self, x: Any) -> AnyArray:
        n = _n_nodes(x)
        return x.features if isinstance(x, CandidatePairs) else np.asarray(x).reshape(n * n, -1)

    @override
    def loss(self, y: Any, y_pred: Any) -> float:
        true, predicted = self._checked(y), self._checked(y_pred)
        if len(true) != len(predicted):
            raise TaskError(f"One tree has {len(true)} nodes, the other {len(predicted)}.")
        return float(np.sum(true != predicted))

    @override
    def loss_scores(self, x: Any, y: Any) -> FloatArray:
        arcs, heads = _arcs(x), self._checked(y)
        wrong: FloatArray = (heads[arcs[:, 1]] != arcs[:, 0]).astype(np.float64)
        return wrong[:, None]

    @override
    def argmax_batch(
        self, X: Sequence[Any], scores: StackedParts, Y: Sequence[Any] | None = None
    ) -> list[IntArray]:
        graphs = _graphs(X, scores)
        arcs, _, first_nodes = graphs[1:]
        chosen = np.empty(first_nodes[-1], np.int64)
        self._check_reached(best_arborescences(*graphs, self.single_root, chosen))
        heads = np.full(len(chosen), -1)
        heads[chosen >= 0] = arcs[chosen[chosen >= 0], 0]
        return np.split(heads, first_nodes[1:-1])

    @override
    def marginals_batch(self, X: Sequence[Any], scores: StackedParts) -> Marginals:
        graphs = _graphs(X, scores)
        of_arcs, log_sums = np.empty(len(graphs[0])), np.empty(len(X))
        self._check_reached(sum_arborescences(*graphs, self.single_root, of_arcs, log_sums))
        return Marginals({"arc": of_arcs[:, None]}, log_sums)

    @override
    def outputs(self, x: Any) -> Iterator[IntArray]:
        arcs = _arcs(x)
        heads_of = [np.sort(arcs[arcs[:, 1] == node, 0]) for node in range(1, _n_nodes(x))]
        for heads in product(*heads_of):
            output = np.array((-1, *heads), np.int64)
            if self._any_problem(x, output) is None:
                yield output

    @override
    def _checked(self, y: Any) -> IntArray:
        heads = whole_vector(y, self._output, "a head for each node and -1 for node 0")
        if not len(heads):
            raise TaskError("A tree has no nodes; give -1 for node 0.")
        return heads

    @override
    def _pairs(self, y: IntArray) -> tuple[IntArray, IntArray]:
        return y[1:], np.arange(1, len(y))

    @override
    def _problem(self, x: Any, y: IntArray) -> str | None:
        n = _n_nodes(x)
        if len(y) != n:
            return f"has {len(y)} heads for {n} nodes; give one for each"
        if y[0] != -1 or (n > 1 and not 0 <= y[1:].min() <= y[1:].max() < n):
            return f"has heads {shown(y.tolist())}; give -1 for node 0, then 0 to {n - 1}"
        above = np.maximum(y, 0)
        for _ in range(n.bit_length()):  # twice as far up each time
            above = above[above]
        if above.any():
            node = int(np.flatnonzero(above)[0])
            return f"does not lead from node {node} to node 0; break the cycle"
        n_children = int((y == 0).sum())
        if self.single_root and n_children > 1:
            return (
                f"has {n_children} children of node 0; give one, or take "
                "SpanningTreeTask(single_root=False)"
            )
        return None

    def _check_reached(self, impossible: int) -> None:
        if impossible >= 0:
            how = " with a single child" if self.single_root else ""
            raise TaskError(
                f"The candidates of X[{{sample}}] leave nodes that node 0 does not reach{how}; add "
                "arcs.",
                impossible,
            )


def _n_nodes(x: Any) -> int:
    is_sparse = isinstance(x, CandidatePairs)
    shape = x.shape if is_sparse else checked_features(x, _AXES, ", or CandidatePairs").shape
    if not shape[0] == shape[1] > 0:
        raise TaskError(
            f"An input has shape {shape}; give (n_nodes, n_nodes, n_features), or CandidatePairs "
            "of as many heads as dependents."
        )
    return shape_of(x)[0]


def _arcs(x: Any) -> IntArray:
    """Return head and dependent of each part."""
    if isinstance(x, CandidatePairs):
        return x.pairs
    n = _n_nodes(x)
    return np.column_stack((np.repeat(np.arange(n), n), np.tile(np.arange(n), n)))


def _graphs(
    X: Sequence[Any], scores: StackedParts
) -> tuple[FloatArray, IntArray, IntArray, IntArray]:
    """Return scores and ends of all arcs, and the first arc and the first node of each graph."""
    arcs = np.concatenate([_arcs(x) for x in X])
    first_nodes = np.concatenate(([0], np.cumsum([_n_nodes(x) for x in X])))
    values = np.ascontiguousarray(scores.rows["arc"][:, 0], np.float64)
    return values, arcs, np.asarray(scores.offsets["arc"], np.int64), first_nodes
