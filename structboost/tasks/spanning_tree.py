"""Spanning trees directed away from a root, such as the dependencies of a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.contract.listed_outputs import Marginals
from structboost.contract.measures import Measure
from structboost.contract.parts import PartKind, StackedParts
from structboost.contract.task import Task
from structboost.exceptions import TaskError
from structboost.inference.arborescence_sums import sum_arborescences
from structboost.inference.arborescences import best_arborescences
from structboost.tasks.matching import CandidatePairs
from structboost.validation import shown


class SpanningTreeTask(Task):
    """Each node but the first gets a head, so that all hang together in a tree below the first.

    A part is an arc from a head to its dependent, with one channel.  A tree scores the sum of its
    arcs.  The loss is the number of wrong heads.  The argmax is exact, by contraction of cycles
    (Chu and Liu; Edmonds), compiled, for all inputs at once.

    An input is an array (n_nodes, n_nodes, n_features), where ``[h, d]`` describes the arc from h
    to d; or :class:`CandidatePairs` of heads and dependents, both of the size n_nodes, where only
    some arcs are possible.  Arcs to node 0, or from a node to itself, are never used.  An output is
    an array (n_nodes,) with the head of each node, -1 for node 0.
    """

    kinds = {"arc": PartKind(1)}
    labelled_kind = "arc"

    def parts(self, x: Any) -> NDArray[Any]:
        """Features of all arcs, head by head; of candidates as they are."""
        n = _n_nodes(x)
        return x.features if isinstance(x, CandidatePairs) else np.asarray(x).reshape(n * n, -1)

    def joint_feature(self, x: Any, y: Any) -> Measure:
        """One on each arc of the tree.

        Raises
        ------
        TaskError
            If ``y`` is no tree of ``x``.
        """
        heads = _checked(y)
        problem = _problem(x, heads)
        if problem is not None:
            raise TaskError(f"A tree {problem}.")
        rows = heads[1:] * len(heads) + np.arange(1, len(heads))
        if isinstance(x, CandidatePairs):
            rows = x.rows_of(rows)[0]
        return Measure(rows, np.zeros(len(rows), np.int64), np.ones(len(rows)))

    def loss(self, y: Any, y_pred: Any) -> float:
        """Number of nodes whose heads differ."""
        true, found = _checked(y), _checked(y_pred)
        if len(true) != len(found):
            raise TaskError(f"One tree has {len(true)} nodes, the other {len(found)}.")
        return float(np.sum(true != found))

    def loss_scores(self, x: Any, y: Any) -> FloatArray:
        """One on each arc from a wrong head."""
        arcs, heads = _arcs(x), _checked(y)
        wrong: FloatArray = (heads[arcs[:, 1]] != arcs[:, 0]).astype(np.float64)
        return wrong[:, None]

    def part_labels(self, x: Any, y: Any) -> IntArray:
        """1 on each arc of the tree, 0 on the others."""
        labels = np.zeros(len(_arcs(x)), np.int64)
        labels[self.joint_feature(x, y).parts] = 1
        return labels

    def with_features(self, x: Any, features: Any) -> Any:
        """The same nodes with other features of their arcs."""
        if isinstance(x, CandidatePairs):
            return replace(x, features=features)
        return np.reshape(features, (_n_nodes(x), _n_nodes(x), -1))

    def argmax(self, x: Any, scores: FloatArray) -> IntArray:
        """The tree of the highest score.

        Raises
        ------
        TaskError
            If no tree of candidates reaches all nodes.
        """
        return self.argmax_batch([x], StackedParts({"arc": scores}, {"arc": _ends([scores])}))[0]

    def argmax_batch(
        self, X: Sequence[Any], scores: StackedParts, Y: Sequence[Any] | None = None
    ) -> list[IntArray]:
        """The best tree of every input, in one compiled pass."""
        values, arcs, first_arcs, first_nodes = _graphs(X, scores)
        chosen = np.empty(first_nodes[-1], np.int64)
        _check_reached(best_arborescences(values, arcs, first_arcs, first_nodes, chosen), len(X))
        heads = np.full(len(chosen), -1)
        heads[chosen >= 0] = arcs[chosen[chosen >= 0], 0]
        return np.split(heads, first_nodes[1:-1])

    def marginals(self, x: Any, scores: FloatArray) -> FloatArray:
        """Probabilities of arcs where a tree has probability ``~ exp(score)``.

        Parameters
        ----------
        x : array or CandidatePairs
            One input.
        scores : ndarray, shape (n_arcs, 1)
            Scores of its arcs.

        Returns
        -------
        marginals : ndarray, shape (n_arcs, 1)

        Raises
        ------
        TaskError
            If no tree of candidates reaches all nodes.
        """
        return self._sums_of(x, scores).expected["arc"]

    def log_sum(self, x: Any, scores: FloatArray) -> float:
        """Logarithm of the sum of ``exp(score)`` over all trees."""
        return float(self._sums_of(x, scores).log_sums[0])

    def marginals_batch(self, X: Sequence[Any], scores: StackedParts) -> Marginals:
        """Marginals of every input, in one compiled pass."""
        values, arcs, first_arcs, first_nodes = _graphs(X, scores)
        chances, log_sums = np.empty(len(values)), np.empty(len(X))
        wrong = sum_arborescences(values, arcs, first_arcs, first_nodes, chances, log_sums)
        _check_reached(wrong, len(X))
        return Marginals({"arc": chances[:, None]}, log_sums)

    def _sums_of(self, x: Any, scores: FloatArray) -> Marginals:
        return self.marginals_batch([x], StackedParts({"arc": scores}, {"arc": _ends([scores])}))

    def outputs(self, x: Any) -> Iterator[IntArray]:
        """All trees."""
        arcs = _arcs(x)
        heads_of = [np.sort(arcs[arcs[:, 1] == node, 0]) for node in range(1, _n_nodes(x))]
        for heads in product(*heads_of):
            output = np.array((-1, *heads), np.int64)
            if _problem(x, output) is None:
                yield output

    def is_valid(self, x: Any, y: Any) -> bool:
        """Whether ``y`` is a tree of ``x``."""
        try:
            return _problem(x, _checked(y)) is None
        except TaskError:
            return False


def _n_nodes(x: Any) -> int:
    shape = x.shape if isinstance(x, CandidatePairs) else np.asarray(x).shape
    if len(shape) != (2 if isinstance(x, CandidatePairs) else 3) or not shape[0] == shape[1] > 0:
        raise TaskError(
            f"An input has shape {shape}; give (n_nodes, n_nodes, n_features), or CandidatePairs "
            "of as many heads as dependents."
        )
    return int(shape[0])


def _arcs(x: Any) -> IntArray:
    """Head and dependent of each part."""
    if isinstance(x, CandidatePairs):
        return x.pairs
    n = _n_nodes(x)
    return np.column_stack((np.repeat(np.arange(n), n), np.tile(np.arange(n), n)))


def _graphs(
    X: Sequence[Any], scores: StackedParts
) -> tuple[FloatArray, IntArray, IntArray, IntArray]:
    """Scores and ends of all arcs, and the first arc and the first node of each graph."""
    arcs = np.concatenate([_arcs(x) for x in X])
    first_nodes = np.concatenate(([0], np.cumsum([_n_nodes(x) for x in X])))
    values = np.ascontiguousarray(scores.rows["arc"][:, 0], np.float64)
    return values, arcs, np.asarray(scores.offsets["arc"], np.int64), first_nodes


def _check_reached(impossible: int, n_graphs: int) -> None:
    if impossible >= 0:
        raise TaskError(
            f"The candidates of {'this input' if n_graphs == 1 else f'X[{impossible}]'} leave "
            "nodes that node 0 does not reach; add arcs.",
            impossible,
        )


def _ends(blocks: Sequence[Any]) -> IntArray:
    return np.concatenate(([0], np.cumsum([len(block) for block in blocks]))).astype(np.int64)


def _checked(y: Any) -> IntArray:
    heads = np.asarray(y)
    if heads.ndim != 1 or not len(heads) or heads.dtype.kind not in "iu":
        raise TaskError(f"A tree is {shown(y)}; give an array of heads, -1 for node 0.")
    return heads.astype(np.int64, copy=False)


def _problem(x: Any, heads: IntArray) -> str | None:
    """What keeps an array from being a tree of ``x``."""
    n = _n_nodes(x)
    if len(heads) != n:
        return f"has {len(heads)} heads for {n} nodes; give one for each"
    if heads[0] != -1 or (n > 1 and not 0 <= heads[1:].min() <= heads[1:].max() < n):
        return f"has heads {shown(heads.tolist())}; give -1 for node 0, then 0 to {n - 1}"
    above = np.maximum(heads, 0)
    for _ in range(n.bit_length()):  # twice as far up each time
        above = above[above]
    if above.any():
        return f"does not lead from node {int(np.flatnonzero(above)[0])} to node 0; break the cycle"
    if isinstance(x, CandidatePairs):
        dependents = np.arange(1, n)
        known = x.rows_of(heads[1:] * n + dependents)[1]
        if not known.all():
            d = int(dependents[np.argmin(known)])
            return f"has the arc ({heads[d]}, {d}), which is no candidate; add it"
    return None
