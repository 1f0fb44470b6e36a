"""Labels of the nodes of any graph, with scores for pairs of labels on its edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, Self

import numpy as np
from scipy.sparse import csr_array

from structboost._typing import AnyArray, BoolArray, Examples, FloatArray, IntArray, override
from structboost.contract.parts import Marginals, PartKind, SparseFeature, StackedParts, stack_parts
from structboost.contract.task import Decomposes, Lists, Validates
from structboost.errors import TaskError, TooManyOutputsError
from structboost.inference.arguments import (
    as_task_error,
    check_has,
    check_pairs_fit,
    checked_features,
    labels_of,
    node_pairs,
    passes,
)
from structboost.inference.graph import PairwiseScores, best_labels, label_sums
from structboost.solvers.milp import ProgramSolver
from structboost.tasks.base import BatchTask, alone, indicator
from structboost.validation import checked_choice, checked_flag, checked_whole_number, shown

Pairs = Literal["ordered", "unordered", "equal"]


@dataclass(frozen=True, eq=False)
class GraphInput:
    """Nodes and edges between them, the input of :class:`GraphTask`.

    Where the task has several kinds of edges, ``edges`` and ``edge_features`` are dicts by kind.

    Parameters
    ----------
    nodes : ndarray, shape (n_nodes, n_features)
        Features of the nodes.
    edges : ndarray of int64, shape (n_edges, 2)
        Ends of each edge, nodes counted from 0; there may be none.
    edge_features : ndarray, shape (n_edges, n_features), optional
        Default: one constant feature.
    """

    nodes: Any
    edges: Any
    edge_features: Any = None


class GraphTask(BatchTask, Decomposes, Lists, Validates):
    """Labels of the nodes of a graph, whose nodes and edges score labels and pairs of labels.

    The loss is the number of wrong labels.  An output is an array (n_nodes,) of labels.

    The argmax is :func:`~structboost.inference.map_labels`: exact on graphs without cycles.  On
    others :meth:`upper_bound` shows whether the labels are proved to be best.  Training is
    certified if no graph has a cycle.  With ``exact`` it is on all graphs: an integer program finds
    the labels that are not proved.  The marginals are those of
    :func:`~structboost.inference.graph_marginals`, on graphs without cycles; with ``pairs="equal"``
    they have the probability of equal labels of each edge.  Of equally good labels the argmax takes
    the same ones in every call, which depend on the order of nodes and edges.

    Parameters
    ----------
    n_labels : int
        Number of labels.
    edges : sequence of str
        Kinds of edges, such as right and down in a picture.
    pairs : {"ordered", "unordered", "equal"}
        Channels of an edge: each ordered pair of labels; each unordered pair; or one for equal
        labels, which never lowers the score of a boosted model.
    exact : bool
        Whether to solve an integer program where no other way proves that labels are best.  This
        may take long on large graphs.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range.

    Notes
    -----
    Taskar, Guestrin and Koller, Max-margin Markov networks, NIPS 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost import GraphTask
    >>> from structboost.tasks import GraphInput
    >>> task = GraphTask(2)
    >>> x = GraphInput(nodes=np.zeros((3, 1)), edges=[[0, 1], [1, 2]])
    >>> equal = np.array([[1.0, 0.0, 0.0, 1.0]] * 2)  # pairs of labels
    >>> nodes = np.array([[2.0, 0.0], [0.0, 0.5], [2.0, 0.0]])
    >>> task.argmax(x, {"node": nodes, "edge": equal})
    array([0, 0, 0])
    """

    labelled_kind = "node"

    def __init__(
        self,
        n_labels: int,
        edges: Sequence[str] = ("edge",),
        *,
        pairs: Pairs = "ordered",
        exact: bool = False,
    ) -> None:
        self.n_labels = checked_whole_number(n_labels, "n_labels", least=2)
        names = [] if isinstance(edges, str) else list(edges)
        if not names or len({"node", *names}) <= len(names):
            raise TaskError(
                f"edges is {shown(edges)}; give different names of kinds, such as ['right', "
                "'down'], and not 'node'."
            )
        self.edges = names
        self._channels = _pair_channels(self.n_labels, checked_choice(pairs, "pairs", Pairs))
        self.exact_argmax = checked_flag(exact, "exact")
        of_edges = PartKind(
            int(self._channels.max()) + 1, (0.0, 1.0) if pairs == "equal" else (-1.0, 1.0)
        )
        self.kinds = {"node": PartKind(self.n_labels), **dict.fromkeys(names, of_edges)}

    @override
    def parts(self, x: GraphInput) -> dict[str, AnyArray]:
        check_has(x, ("nodes", "edges", "edge_features"), "a GraphInput of nodes and edges")
        out = {"node": checked_features(x.nodes, "nodes (n, n_features)")}
        for kind, edges in self._edges(x).items():
            out[kind] = np.ones((len(edges), 1))
            if x.edge_features is not None:
                axes = f"edge_features (n_edges, n_features) of {kind!r}"
                out[kind] = checked_features(_of(x.edge_features, kind), axes)
            if len(out[kind]) != len(edges):
                raise TaskError(
                    f"An input has {len(edges)} edges of kind {kind!r} and features of "
                    f"{len(out[kind])}; give a row for each."
                )
        return out

    @override
    def joint_feature(self, x: GraphInput, y: Any) -> dict[str, SparseFeature]:
        labels = self._checked(y, x)
        out = {"node": indicator(np.arange(len(labels)), labels)}
        for kind, edges in self._edges(x).items():
            channels = self._channels[*labels[edges].T]
            rows = np.flatnonzero(channels >= 0)
            out[kind] = indicator(rows, channels[rows])
        return out

    @override
    def loss(self, y: Any, y_pred: Any) -> float:
        true = self._checked(y)
        return float(np.sum(true != labels_of(y_pred, "An output", len(true), self.n_labels - 1)))

    @override
    def loss_scores(self, x: GraphInput, y: Any) -> dict[str, BoolArray]:
        return {"node": np.arange(self.n_labels) != self._checked(y, x)[:, None]}

    @override
    def part_labels(self, x: GraphInput, y: Any) -> IntArray:
        return self._checked(y, x)

    @override
    def with_features(self, x: GraphInput, features: Any) -> GraphInput:
        return replace(x, nodes=features)

    @override
    def for_inputs(self, X: Sequence[GraphInput]) -> Self:
        # A subclass may search in another way.
        if type(self) is not GraphTask or self.exact_argmax:
            return self
        parts = stack_parts(self.kinds, [self.parts(x) for x in X])
        rows = {
            kind: np.zeros((len(of_kind), self.kinds[kind].n_channels))
            for kind, of_kind in parts.rows.items()
        }
        graphs = self._pairwise_scores(X, StackedParts(rows, parts.offsets))
        if not graphs.forests()[0].all():
            return self
        task = copy(self)
        task.exact_argmax = True
        return task

    @override
    def argmax_batch(
        self, X: Sequence[GraphInput], scores: StackedParts, Y: Examples | None = None
    ) -> list[Any]:
        return np.split(self._best(X, scores)[0], scores.offsets["node"][1:-1])

    def upper_bound(self, x: GraphInput, scores: Mapping[str, FloatArray]) -> float:
        """Bound the score of all labels, by the score of :meth:`argmax` if it is proved to be best.

        Parameters
        ----------
        x : GraphInput
            One input.
        scores : dict of str to ndarray, shape (n_parts, n_channels)
            Scores of its nodes and edges, by kind.

        Returns
        -------
        bound : float
            In the unit of the scores.
        """
        return float(self._best([x], alone(self.kinds, scores))[1][0])

    @override
    def marginals_batch(self, X: Sequence[GraphInput], scores: StackedParts) -> Marginals:
        graphs = self._pairwise_scores(X, scores)
        (of_nodes, of_edges, log_sums), wrong = label_sums(graphs)
        if wrong >= 0:
            raise TooManyOutputsError(
                "X[{sample}] has a cycle, and probabilities are known for graphs without cycles "
                "only; leave edges out, or take formulation='one_slack'.",
                wrong,
            )
        has_channel = self._channels.ravel() == np.arange(self._channels.max() + 1)[:, None]
        tables = np.empty((len(of_edges), len(has_channel)))
        tables[self._order(scores)] = of_edges.reshape(-1, self._channels.size) @ has_channel.T
        ends = np.cumsum([len(scores.rows[kind]) for kind in self.edges])
        by_kind = zip(self.edges, np.split(tables, ends[:-1]), strict=True)
        return Marginals({"node": of_nodes, **dict(by_kind)}, log_sums)

    @override
    def outputs(self, x: GraphInput) -> Iterator[Any]:
        for labels in product(range(self.n_labels), repeat=len(x.nodes)):
            yield np.array(labels, np.int64)

    @override
    def is_valid(self, x: GraphInput, y: Any) -> bool:
        return passes(self._checked, y, x)

    def _edges(self, x: GraphInput) -> dict[str, IntArray]:
        """Return the edges by kind, checked."""
        return {
            kind: as_task_error(
                node_pairs, _of(x.edges, kind), f"edges of kind {kind!r}", len(x.nodes)
            )
            for kind in self.edges
        }

    def _best(self, X: Sequence[GraphInput], scores: StackedParts) -> tuple[IntArray, FloatArray]:
        """Label the nodes of all graphs, and bound their scores."""
        graphs = self._pairwise_scores(X, scores)
        labels, bounds = best_labels(graphs)
        if self.exact_argmax:
            values = graphs.values(labels)
            for g in np.flatnonzero(bounds > values):
                nodes = slice(graphs.first_nodes[g], graphs.first_nodes[g + 1])
                labels[nodes] = _by_integer_program(graphs, int(g))
            bounds = np.where(bounds > values, graphs.values(labels), bounds)
        return labels, bounds

    def _pairwise_scores(self, X: Sequence[GraphInput], scores: StackedParts) -> PairwiseScores:
        """Return the scores of all nodes and edges in flat arrays, edges of a graph together."""
        first_nodes = scores.offsets["node"]
        checked = [self._edges(x) for x in X]
        edges = [
            by_kind[kind] + first
            for kind in self.edges
            for by_kind, first in zip(checked, first_nodes, strict=False)
        ]
        rows = np.concatenate([scores.rows[kind] for kind in self.edges])
        tables = np.column_stack((rows, np.zeros(len(rows))))[:, self._channels.ravel()]
        order = self._order(scores)
        return PairwiseScores(
            np.ascontiguousarray(scores.rows["node"], np.float64),
            np.concatenate(edges)[order],
            tables[order].reshape(-1, *self._channels.shape),
            first_nodes,
            np.sum([scores.offsets[kind] for kind in self.edges], axis=0),
        )

    def _order(self, scores: StackedParts) -> IntArray:
        """Return the order of the edges of all kinds, graph by graph."""
        owners = [
            np.repeat(np.arange(scores.n_examples), scores.sizes(kind)) for kind in self.edges
        ]
        return np.argsort(np.concatenate(owners), kind="stable")

    def _checked(self, y: Any, x: GraphInput | None = None) -> IntArray:
        """Return labels, after a check that there is one for each node."""
        n_nodes = None if x is None else len(x.nodes)
        return labels_of(y, "An output", n_nodes, self.n_labels - 1)


def _pair_channels(n_labels: int, pairs: str) -> IntArray:
    """Return the channel of each pair of labels on an edge, -1 for none."""
    check_pairs_fit(n_labels, "labels")
    cells = np.arange(n_labels**2).reshape(n_labels, n_labels)
    if pairs == "ordered":
        return cells
    if pairs == "equal":
        return np.where(np.eye(n_labels, dtype=bool), 0, -1)
    channels = np.unique(np.minimum(cells, cells.T), return_inverse=True)[1]
    return channels.reshape(cells.shape).astype(np.int64)


def _of(by_kind: Any, kind: str) -> Any:
    """Return the entry of a kind, where there is one for each kind."""
    if not isinstance(by_kind, Mapping):
        return by_kind
    if kind not in by_kind:
        raise TaskError(f"A graph has no entry for kind {kind!r}; it has {list(by_kind)}.")
    return by_kind[kind]


def _by_integer_program(graphs: PairwiseScores, g: int) -> IntArray:
    """Find the best labels by a variable for each label of a node and each pair of an edge."""
    first, last = graphs.first_nodes[g : g + 2]
    edges, n_labels = slice(*graphs.first_edges[g : g + 2]), graphs.unary.shape[1]
    n_nodes, n = last - first, (last - first) * n_labels
    tables = graphs.tables[edges]
    entries = [(k // n_labels, k, 1.0) for k in range(n)]
    n_rows = n_nodes
    for e, ends in enumerate(graphs.edges[edges] - first):
        pairs = n + n_labels**2 * e + np.arange(n_labels**2).reshape(n_labels, n_labels)
        for node, cells in zip(ends, (pairs, pairs.T), strict=True):
            # The pairs with a label are chosen just as often as the label is.
            for label, of_label in enumerate(cells.tolist()):
                entries += [(n_rows, pair, 1.0) for pair in of_label]
                entries.append((n_rows, node * n_labels + label, -1.0))
                n_rows += 1
    rows, columns, values = zip(*entries, strict=True)
    n_columns = n + tables.size
    program = ProgramSolver(
        A_eq=csr_array((values, (rows, columns)), (n_rows, n_columns)),
        b_eq=(np.arange(n_rows) < n_nodes).astype(np.float64),
        integrality=np.arange(n_columns) < n,
        maximize=True,
    )
    scores = np.concatenate((graphs.unary[first:last].ravel(), tables.ravel()))
    chosen = program.solve(scores)[:n]
    return np.asarray(chosen.reshape(n_nodes, n_labels).argmax(axis=1), np.int64)
