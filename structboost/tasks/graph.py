"""Labels of the nodes of any graph, with scores for pairs of labels on its edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray, override
from structboost.contract.listed_outputs import Marginals
from structboost.contract.parts import PartKind, SparseFeature, StackedParts, stack_parts
from structboost.errors import TaskError, TooManyOutputsError
from structboost.inference.arguments import whole_array
from structboost.inference.graph import (
    MOST_HELD,
    PairwiseScores,
    best_labels,
    label_sums,
    leaves_first,
)
from structboost.solvers.milp import ProgramSolver
from structboost.tasks.base import (
    BatchTask,
    alone,
    as_task_error,
    check_has,
    check_pairs_fit,
    checked_features,
    checked_labels,
    indicator,
    passes,
)
from structboost.validation import checked_choice, checked_flag, checked_whole_number, shown

PAIRS = ("ordered", "unordered", "equal")


@dataclass(frozen=True, eq=False)
class GraphInput:
    """Nodes and edges between them, the input of :class:`GraphTask`.

    Where the task has several kinds of nodes or edges, each argument is a dict by kind.

    Parameters
    ----------
    nodes : ndarray, shape (n_nodes, n_features)
        Features of the nodes.
    edges : ndarray of int64, shape (n_edges, 2)
        Ends of each edge, nodes of their kinds counted from 0; there may be none.
    edge_features : ndarray, shape (n_edges, n_features), optional
        Default: one constant feature.
    """

    nodes: Any
    edges: Any
    edge_features: Any = None


class GraphTask(BatchTask):
    """Labels of the nodes of a graph, whose nodes and edges score labels and pairs of labels.

    The loss is the number of wrong labels.  An output is an array (n_nodes,) of labels, a dict of
    arrays by kind if ``n_labels`` is a dict.

    The argmax is :func:`~structboost.inference.map_labels`: exact on trees, and on graphs of two
    labels whose edges favour equal labels more than different ones.  On other graphs
    :meth:`upper_bound` shows whether the labels are proved to be best.  Training is certified if no
    graph has a cycle.  With ``exact`` it is on all graphs: an integer program finds the labels that
    are not proved.  The marginals are those
    of :func:`~structboost.inference.graph_marginals`; with ``pairs="equal"`` they have the
    probability of equal labels of each edge.  Of equally good labels the argmax takes the same ones
    in every call, which depend on the order of nodes and edges.

    Parameters
    ----------
    n_labels : int or dict of str to int
        Number of labels, or a dict with the number for each kind of nodes.
    edges : dict of str to (str, str), optional
        Kinds of edges, and the kinds of nodes that they join.  Default: ``"edge"`` joins nodes of
        the one kind, ``"node"``.
    pairs : {"ordered", "unordered", "equal"} or dict of str to str
        Channels of an edge: each ordered pair of labels; each unordered pair; or one for equal
        labels, which never lowers the score of a boosted model.  Or a dict of these by kind of
        edges.
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
    >>> task.argmax(x, {"node": nodes, "edge": equal[:, [0, 1, 3]]})
    array([0, 0, 0])
    """

    def __init__(
        self,
        n_labels: int | Mapping[str, int],
        edges: Mapping[str, tuple[str, str]] | None = None,
        *,
        pairs: str | Mapping[str, str] = "ordered",
        exact: bool = False,
    ) -> None:
        self.several = isinstance(n_labels, Mapping)
        by_kind = n_labels if isinstance(n_labels, Mapping) else {"node": n_labels}
        self.n_labels = {
            kind: checked_whole_number(n, f"n_labels of {kind!r}", least=2)
            for kind, n in by_kind.items()
        }
        if edges is None and self.several:
            raise TaskError("edges is None, but n_labels a dict; name the kinds of edges.")
        if edges is not None and not isinstance(edges, Mapping):
            raise TaskError(
                f"edges is {shown(edges)}; give a dict of kinds, such as "
                "{'edge': ('node', 'node')}."
            )
        self.ends = dict(edges) if edges is not None else {"edge": ("node", "node")}
        of_pairs = pairs if isinstance(pairs, Mapping) else dict.fromkeys(self.ends, pairs)
        self.pairs, self._channels = {}, {}
        for kind, ends in self.ends.items():
            is_pair = isinstance(ends, list | tuple) and len(ends) == 2
            if not is_pair or not all(end in list(self.n_labels) for end in ends):
                raise TaskError(
                    f"edges of {kind!r} join {shown(ends)}; give two of {sorted(self.n_labels)}."
                )
            if kind in self.n_labels or kind not in of_pairs:
                raise TaskError(
                    f"{kind!r} names a kind of nodes, too, or lacks an entry of pairs; correct it."
                )
            self.pairs[kind] = checked_choice(of_pairs[kind], f"pairs of {kind!r}", PAIRS)
            self._channels[kind] = self._pair_channels(kind)
        self.exact_argmax = checked_flag(exact, "exact")  # type: ignore[misc]
        if len(self.n_labels) == 1:
            self.labelled_kind = next(iter(self.n_labels))  # type: ignore[misc]
        self.kinds = {kind: PartKind(n) for kind, n in self.n_labels.items()} | {
            kind: PartKind(1, (0.0, 1.0))
            if self.pairs[kind] == "equal"
            else PartKind(int(channels.max()) + 1)
            for kind, channels in self._channels.items()
        }

    @override
    def parts(self, x: GraphInput) -> dict[str, AnyArray]:
        check_has(x, ("nodes", "edges", "edge_features"), "a GraphInput of nodes and edges")
        out = {
            kind: checked_features(_of(x.nodes, kind), f"nodes (n, n_features) of {kind!r}")
            for kind in self.n_labels
        }
        for kind, edges in self._edges(x).items():
            features = None if x.edge_features is None else _of(x.edge_features, kind)
            axes = f"edge_features (n_edges, n_features) of {kind!r}"
            out[kind] = (
                np.ones((len(edges), 1)) if features is None else checked_features(features, axes)
            )
            if len(out[kind]) != len(edges):
                raise TaskError(
                    f"An input has {len(edges)} edges of kind {kind!r} and features of "
                    f"{len(out[kind])}; give a row for each."
                )
        return out

    @override
    def joint_feature(self, x: GraphInput, y: Any) -> dict[str, SparseFeature]:
        labels = self._checked(y, x)
        out = {
            kind: indicator(np.arange(len(of_kind)), of_kind) for kind, of_kind in labels.items()
        }
        for kind, edges in self._edges(x).items():
            first, second = self.ends[kind]
            cells = labels[first][edges[:, 0]], labels[second][edges[:, 1]]
            channels = self._channels[kind][cells]
            rows = np.flatnonzero(channels >= 0)
            out[kind] = indicator(rows, channels[rows])
        return out

    @override
    def loss(self, y: Any, y_pred: Any) -> float:
        true, predicted = self._checked(y), self._checked(y_pred)
        for kind, labels in true.items():
            if len(labels) != len(predicted[kind]):
                raise TaskError(
                    f"One output has {len(labels)} labels of {kind!r}, the other "
                    f"{len(predicted[kind])}; give one for each node."
                )
        return float(sum(np.sum(labels != predicted[kind]) for kind, labels in true.items()))

    @override
    def loss_scores(self, x: GraphInput, y: Any) -> dict[str, BoolArray]:
        return {
            kind: np.arange(self.n_labels[kind]) != labels[:, None]
            for kind, labels in self._checked(y, x).items()
        }

    @override
    def part_labels(self, x: GraphInput, y: Any) -> IntArray:
        (labels,) = self._checked(y, x).values()
        return labels

    @override
    def with_features(self, x: GraphInput, features: Any) -> GraphInput:
        is_by_kind = isinstance(x.nodes, Mapping)
        return replace(x, nodes={self.labelled_kind: features} if is_by_kind else features)

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
        if (leaves_first(graphs.arrays())[2] < np.diff(graphs.first_nodes)).any():
            return self
        task = copy(self)
        task.exact_argmax = True  # type: ignore[misc]
        return task

    @override
    def argmax_batch(
        self, X: Sequence[GraphInput], scores: StackedParts, Y: Sequence[Any] | None = None
    ) -> list[Any]:
        return self._output(self._best(X, scores)[0], X)

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
                "X[{sample}] has too many cycles for exact probabilities: the nodes that cut them "
                f"have more than {MOST_HELD} labellings. Leave edges out, or take "
                "formulation='one_slack'.",
                wrong,
            )
        nodes = self._places(scores.offsets)
        expected = {
            kind: of_nodes[graphs.starts[nodes[kind]][:, None] + np.arange(n)]
            for kind, n in self.n_labels.items()
        }
        first = 0
        for kind, channels in self._channels.items():
            n_edges = len(scores.rows[kind])
            tables = of_edges[first : first + n_edges * channels.size]
            first += tables.size
            cells = channels.ravel()
            scored = np.flatnonzero(cells >= 0)
            of_channels = np.zeros((cells.size, self.kinds[kind].n_channels))
            of_channels[scored, cells[scored]] = 1.0
            expected[kind] = tables.reshape(n_edges, cells.size) @ of_channels
        return Marginals(expected, log_sums)

    @override
    def outputs(self, x: GraphInput) -> Iterator[Any]:
        sizes = {kind: len(_of(x.nodes, kind)) for kind in self.n_labels}
        ranges = [range(self.n_labels[kind]) for kind, n in sizes.items() for _ in range(n)]
        for labels in product(*ranges):
            yield self._output(np.array(labels, np.int64), [x])[0]

    @override
    def is_valid(self, x: GraphInput, y: Any) -> bool:
        return passes(self._checked, y, x)

    def _pair_channels(self, kind: str) -> IntArray:
        """Return the channel of each pair of labels on an edge, -1 for none."""
        n, m = (self.n_labels[end] for end in self.ends[kind])
        check_pairs_fit(max(n, m), "labels")
        cells = np.arange(n * m).reshape(n, m)
        if self.pairs[kind] == "ordered":
            return cells
        if self.ends[kind][0] != self.ends[kind][1]:
            raise TaskError(
                f"pairs of {kind!r} is {self.pairs[kind]!r}, but it joins nodes of two kinds; take "
                "'ordered'."
            )
        if self.pairs[kind] == "equal":
            return np.where(np.eye(n, dtype=bool), 0, -1)
        channels = np.unique(np.minimum(cells, cells.T), return_inverse=True)[1]
        return channels.reshape(n, n).astype(np.int64)

    def _edges(self, x: GraphInput) -> dict[str, IntArray]:
        """Return the edges by kind, checked."""
        out = {}
        for kind, ends in self.ends.items():
            name = f"edges of kind {kind!r}"
            edges = as_task_error(whole_array, _of(x.edges, kind), name, ("n_edges", 2))
            sizes = [len(_of(x.nodes, end)) for end in ends]
            is_loop = (edges[:, 0] == edges[:, 1]) & (ends[0] == ends[1])
            if (edges >= sizes).any() or is_loop.any():
                raise TaskError(
                    f"Some {name} join a node to itself, or nodes that are not there; join two of "
                    f"the {sizes[0]} and {sizes[1]} nodes."
                )
            out[kind] = edges
        return out

    def _best(self, X: Sequence[GraphInput], scores: StackedParts) -> tuple[IntArray, FloatArray]:
        """Label the nodes of all graphs, kind by kind in each, and bound their scores."""
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
        """Return the scores of all nodes and edges in flat arrays, those of a graph together."""
        offsets, places = scores.offsets, self._places(scores.offsets)
        first_nodes, first_edges = (
            np.sum([offsets[kind] for kind in kinds], axis=0)
            for kinds in (self.n_labels, self.ends)
        )
        counts = np.zeros(first_nodes[-1], np.int64)
        for kind, n in self.n_labels.items():
            counts[places[kind]] = n
        starts = np.concatenate(([0], np.cumsum(counts)))
        unary = np.empty(starts[-1])
        for kind, n in self.n_labels.items():
            unary[starts[places[kind]][:, None] + np.arange(n)] = scores.rows[kind]
        edges, tables, table_starts, owners, size = [], [], [], [], 0
        checked = [self._edges(x) for x in X]
        for kind, channels in self._channels.items():
            rows = np.column_stack((scores.rows[kind], np.zeros(len(scores.rows[kind]))))
            tables.append(rows[:, channels.ravel()].ravel())
            table_starts.append(size + channels.size * np.arange(len(rows)))
            size += tables[-1].size
            owners.append(np.repeat(np.arange(len(X)), np.diff(offsets[kind])))
            ends = np.concatenate([by_kind[kind] for by_kind in checked]).T
            pairs = zip(self.ends[kind], ends, strict=True)
            edges.append(
                np.column_stack([places[at][offsets[at][owners[-1]] + end] for at, end in pairs])
            )
        order = np.argsort(np.concatenate(owners), kind="stable")
        return PairwiseScores(
            unary,
            starts,
            np.concatenate(edges)[order],
            np.concatenate(tables),
            np.concatenate(table_starts)[order],
            first_nodes,
            first_edges,
        )

    def _places(self, offsets: Mapping[str, IntArray]) -> dict[str, IntArray]:
        """Return the places of all nodes by kind, where those of a graph follow kind by kind."""
        kinds, out = list(self.n_labels), {}
        for k, kind in enumerate(kinds):
            # In front are the kinds before it of this graph, too, and all kinds of earlier graphs.
            firsts = np.sum(
                [
                    offsets[other][1:] if j < k else offsets[other][:-1]
                    for j, other in enumerate(kinds)
                ],
                axis=0,
            )
            shift = (firsts - offsets[kind][:-1]).repeat(np.diff(offsets[kind]))
            out[kind] = np.arange(offsets[kind][-1]) + shift
        return out

    def _output(self, labels: IntArray, X: Sequence[GraphInput]) -> list[Any]:
        """Make the outputs of graphs from the labels of all their nodes."""
        sizes = [[len(_of(x.nodes, kind)) for kind in self.n_labels] for x in X]
        pieces = iter(np.split(labels, np.cumsum(sizes)[:-1]))
        if not self.several:
            return list(pieces)
        return [{kind: next(pieces) for kind in self.n_labels} for _ in X]

    def _checked(self, y: Any, x: GraphInput | None = None) -> dict[str, IntArray]:
        """Return labels by kind, after a check that there is one for each node."""
        if self.several and not isinstance(y, Mapping):
            raise TaskError(f"An output is {shown(y)}; give a dict with {sorted(self.n_labels)}.")
        return {
            kind: checked_labels(
                _of(y, kind), n, kind, None if x is None else len(_of(x.nodes, kind))
            )
            for kind, n in self.n_labels.items()
        }


def _of(by_kind: Any, kind: str) -> Any:
    """Return the entry of a kind, where there is one for each kind."""
    if not isinstance(by_kind, Mapping):
        return by_kind
    if kind not in by_kind:
        raise TaskError(
            f"A graph or output has no entry for kind {kind!r}; it has {list(by_kind)}."
        )
    return by_kind[kind]


def _by_integer_program(graphs: PairwiseScores, g: int) -> IntArray:
    """Find the best labels by a variable for each label of a node and each pair of an edge."""
    nodes = np.arange(graphs.first_nodes[g], graphs.first_nodes[g + 1])
    starts, widths = graphs.starts - graphs.starts[nodes[0]], np.diff(graphs.starts)
    n = n_columns = int(starts[nodes[-1] + 1])
    costs = [graphs.unary[graphs.starts[nodes[0]] :][:n]]
    entries = [
        (v, starts[node] + a, 1.0) for v, node in enumerate(nodes) for a in range(widths[node])
    ]
    n_rows = len(nodes)
    for e in range(graphs.first_edges[g], graphs.first_edges[g + 1]):
        p, q = graphs.edges[e]
        table = n_columns + np.arange(widths[p] * widths[q]).reshape(widths[p], widths[q])
        for v, cells in ((p, table), (q, table.T)):
            # The pairs with a label are chosen just as often as the label is.
            for label, pairs in enumerate(cells.tolist()):
                entries += [(n_rows, pair, 1.0) for pair in pairs]
                entries.append((n_rows, starts[v] + label, -1.0))
                n_rows += 1
        costs.append(graphs.tables[graphs.table_starts[e] :][: table.size])
        n_columns += table.size
    rows, columns, values = zip(*entries, strict=True)
    program = ProgramSolver(
        A_eq=csr_array((values, (rows, columns)), (n_rows, n_columns)),
        b_eq=(np.arange(n_rows) < len(nodes)).astype(np.float64),
        integrality=np.arange(n_columns) < n,
        maximize=True,
    )
    chosen = np.flatnonzero(program.solve(np.concatenate(costs))[:n] > 0.5)
    return np.asarray(chosen - starts[nodes], np.int64)
