"""Labels of the nodes of any graph, with scores for pairs of labels on its edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from structboost._typing import FloatArray, IntArray
from structboost.exceptions import TaskError, TooManyOutputsError
from structboost.inference.graph_sums import label_sums
from structboost.inference.linear_program import ProgramSolver
from structboost.inference.pairwise_graphs import PairwiseScores, best_labels
from structboost.task import Marginals, Measure, PartKind, StackedParts, Task
from structboost.validation import checked_choice, shown

PAIRS = ("ordered", "unordered", "equal")
# Labellings of the nodes that cut all cycles of a graph, over which its probabilities are summed.
_MOST_HELD = 1 << 12


@dataclass(frozen=True, eq=False)
class GraphInput:
    """An input of :class:`GraphTask`: nodes, and edges between them.

    Where the task has several kinds of nodes or edges, each argument is a dict by kind.

    Parameters
    ----------
    nodes : ndarray, shape (n_nodes, n_features)
        Features of the nodes.
    edges : ndarray of int64, shape (n_edges, 2)
        Numbers of the ends of each edge, in their kinds of nodes; there may be none.
    edge_features : ndarray, shape (n_edges, n_features), optional
        Default: one constant feature.
    """

    nodes: Any
    edges: Any
    edge_features: Any = None


class GraphTask(Task):
    """Labels of the nodes of a graph; nodes score their labels, and edges the labels of their ends.

    The loss is the number of wrong labels.  An output is an array (n_nodes,) of labels, a dict of
    arrays by kind if ``n_labels`` is a dict.

    The argmax is exact on trees, and on graphs of two labels whose edges favour equal labels more
    than different ones (by a minimum cut).  On other graphs it is message passing, which also
    bounds the score of the best labels, and alpha-expansion where edges favour equal labels only;
    :meth:`upper_bound` tells whether the labels were proved to be best.  With ``exact`` those that
    are not are found by an integer program, so that training is certified.

    Parameters
    ----------
    n_labels : int or dict of str to int
        Number of labels; with several kinds of nodes that of each kind.
    edges : dict of str to (str, str), optional
        Kinds of edges, and the kinds of nodes that they join.  Default: ``"edge"`` joins nodes of
        the one kind, ``"node"``.
    pairs : {"ordered", "unordered", "equal"} or dict of str to str
        What an edge scores: each ordered pair of labels; each unordered pair; or whether its ends
        have equal labels, which never lowers the score of a boosted model.  Or a dict of these by
        kind of edges.
    exact : bool
        Whether to solve an integer program where no other way proves that labels are best.  This
        may take long on large graphs.

    Raises
    ------
    TaskError, ValueError
        If a parameter is out of its range.

    Notes
    -----
    Taskar, Guestrin and Koller, Max-margin Markov networks, NIPS 2003.
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
        for kind, n in by_kind.items():
            if isinstance(n, bool) or int(n) != n or n < 2:
                raise TaskError(f"n_labels of {kind!r} is {n!r}; give a whole number from 2.")
        self.n_labels = {kind: int(n) for kind, n in by_kind.items()}
        if edges is None and self.several:
            raise TaskError("edges is None, but n_labels a dict; name the kinds of edges.")
        self.ends = dict(edges) if edges is not None else {"edge": ("node", "node")}
        of_pairs = pairs if isinstance(pairs, Mapping) else dict.fromkeys(self.ends, pairs)
        self.pairs, self._channels = {}, {}
        for kind, ends in self.ends.items():
            if len(ends) != 2 or any(end not in self.n_labels for end in ends):
                raise TaskError(
                    f"edges of {kind!r} join {shown(ends)}; give two of {sorted(self.n_labels)}."
                )
            if kind in self.n_labels or kind not in of_pairs:
                raise TaskError(
                    f"{kind!r} names a kind of nodes, too, or lacks an entry of pairs; correct it."
                )
            self.pairs[kind] = checked_choice(of_pairs[kind], f"pairs of {kind!r}", PAIRS)
            self._channels[kind] = self._pair_channels(kind)
        self.exact_argmax = exact  # type: ignore[misc]
        if len(self.n_labels) == 1:
            self.labelled_kind = next(iter(self.n_labels))  # type: ignore[misc]
        self.kinds = {kind: PartKind(n) for kind, n in self.n_labels.items()} | {
            kind: PartKind(1, (0.0, 1.0))
            if self.pairs[kind] == "equal"
            else PartKind(int(channels.max()) + 1)
            for kind, channels in self._channels.items()
        }

    def parts(self, x: GraphInput) -> dict[str, NDArray[Any]]:
        """Features of the nodes and of the edges, by kind.

        Raises
        ------
        TaskError
            If edges join a node to itself or nodes that are not there, are no whole numbers of
            shape (n_edges, 2), or have not one row of features each.
        """
        out = {kind: np.asarray(_of(x.nodes, kind)) for kind in self.n_labels}
        for kind, edges in self._edges(x).items():
            features = None if x.edge_features is None else _of(x.edge_features, kind)
            out[kind] = np.ones((len(edges), 1)) if features is None else np.asarray(features)
            if len(out[kind]) != len(edges):
                raise TaskError(
                    f"An input has {len(edges)} edges of kind {kind!r} and features of "
                    f"{len(out[kind])}; give a row for each."
                )
        return out

    def joint_feature(self, x: GraphInput, y: Any) -> dict[str, Measure]:
        """One on the label of each node, and on the pair of labels of each edge.

        Raises
        ------
        TaskError
            If ``y`` has not one label for each node.
        """
        labels = self._checked(y, x)
        out = {
            kind: Measure(np.arange(len(own)), own, np.ones(len(own)))
            for kind, own in labels.items()
        }
        for kind, edges in self._edges(x).items():
            first, second = self.ends[kind]
            cells = labels[first][edges[:, 0]], labels[second][edges[:, 1]]
            channels = self._channels[kind][cells]
            rows = np.flatnonzero(channels >= 0)
            out[kind] = Measure(rows, channels[rows], np.ones(len(rows)))
        return out

    def loss(self, y: Any, y_pred: Any) -> float:
        """Number of nodes whose labels differ.

        Raises
        ------
        TaskError
            If an output has no valid labels, or the two are of different length.
        """
        true, found = self._checked(y), self._checked(y_pred)
        for kind, labels in true.items():
            if len(labels) != len(found[kind]):
                raise TaskError(
                    f"One output has {len(labels)} labels of {kind!r}, the other "
                    f"{len(found[kind])}."
                )
        return float(sum(np.sum(labels != found[kind]) for kind, labels in true.items()))

    def loss_scores(self, x: GraphInput, y: Any) -> dict[str, NDArray[np.bool_]]:
        """One on each wrong label."""
        return {
            kind: np.arange(self.n_labels[kind]) != labels[:, None]
            for kind, labels in self._checked(y, x).items()
        }

    def part_labels(self, x: GraphInput, y: Any) -> IntArray:
        """The labels of the nodes, if they are of one kind."""
        (labels,) = self._checked(y, x).values()
        return labels

    def with_features(self, x: GraphInput, features: Any) -> GraphInput:
        """The same graph with other features of its nodes, which are of one kind."""
        is_by_kind = isinstance(x.nodes, Mapping)
        return replace(x, nodes={self.labelled_kind: features} if is_by_kind else features)

    def argmax(self, x: GraphInput, scores: Mapping[str, FloatArray]) -> Any:
        """Labels of high score, the highest if that is proved or ``exact``."""
        return self._output(self._best([x], _stacked(scores))[0], [x])[0]

    def argmax_batch(
        self, X: Sequence[GraphInput], scores: StackedParts, Y: Sequence[Any] | None = None
    ) -> list[Any]:
        """Labels of every graph, all searched in one pass."""
        return self._output(self._best(X, scores)[0], X)

    def upper_bound(self, x: GraphInput, scores: Mapping[str, FloatArray]) -> float:
        """What no labels of ``x`` exceed: the score of :meth:`argmax` where it is proved best.

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
        return float(self._best([x], _stacked(scores))[1][0])

    def marginals(self, x: GraphInput, scores: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        """Probabilities of labels where a labelling has probability ``~ exp(score)``.

        Exact, by sum-product on trees.  Cycles are cut at a few nodes, over whose labels it sums.

        Parameters
        ----------
        x : GraphInput
            One input.
        scores : dict of str to ndarray, shape (n_parts, n_channels)
            Scores of its nodes and edges, by kind.

        Returns
        -------
        marginals : dict of str to ndarray
            Of the shapes of the scores: the probability of each label of a node, and of each pair
            of labels of an edge; with ``pairs="equal"`` that of equal labels.

        Raises
        ------
        TooManyOutputsError
            If the nodes that cut all cycles have more than 4096 labellings.
        """
        return self.marginals_batch([x], _stacked(scores)).expected

    def log_sum(self, x: GraphInput, scores: Mapping[str, FloatArray]) -> float:
        """Logarithm of the sum of ``exp(score)`` over all labellings; as :meth:`marginals`."""
        return float(self.marginals_batch([x], _stacked(scores)).log_sums[0])

    def marginals_batch(self, X: Sequence[GraphInput], scores: StackedParts) -> Marginals:
        """Marginals of every graph, in one compiled pass.

        Raises
        ------
        TooManyOutputsError
            If the nodes that cut all cycles of a graph have more than 4096 labellings; the message
            names the example.
        """
        graphs = self._pairwise_scores(X, scores)
        sums, wrong = label_sums(graphs, _MOST_HELD)
        if wrong >= 0:
            raise TooManyOutputsError(
                "X[{sample}] has too many cycles for exact probabilities: the nodes that cut them "
                f"have more than {_MOST_HELD} labellings. Leave edges out, or take "
                "formulation='one_slack'.",
                wrong,
            )
        nodes = self._node_numbers(scores.offsets)
        expected = {
            kind: sums.nodes[graphs.starts[nodes[kind]][:, None] + np.arange(n)]
            for kind, n in self.n_labels.items()
        }
        first = 0
        for kind, channels in self._channels.items():
            n_edges = len(scores.rows[kind])
            tables = sums.edges[first : first + n_edges * channels.size]
            first += tables.size
            cells = channels.ravel()
            kept = np.flatnonzero(cells >= 0)
            shares = np.zeros((cells.size, self.kinds[kind].n_channels))
            shares[kept, cells[kept]] = 1.0
            expected[kind] = tables.reshape(n_edges, cells.size) @ shares
        return Marginals(expected, sums.log_sums)

    def outputs(self, x: GraphInput) -> Iterator[Any]:
        """All labellings."""
        sizes = {kind: len(_of(x.nodes, kind)) for kind in self.n_labels}
        ranges = [range(self.n_labels[kind]) for kind, n in sizes.items() for _ in range(n)]
        for labels in product(*ranges):
            yield self._output(np.array(labels, np.int64), [x])[0]

    def is_valid(self, x: GraphInput, y: Any) -> bool:
        """Whether ``y`` has a label for each node."""
        try:
            self._checked(y, x)
        except TaskError:
            return False
        return True

    def _pair_channels(self, kind: str) -> IntArray:
        """Channel of each pair of labels on an edge, -1 for none."""
        n, m = (self.n_labels[end] for end in self.ends[kind])
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
        numbers = np.unique(np.minimum(cells, cells.T), return_inverse=True)[1]
        return numbers.reshape(n, n).astype(np.int64)

    def _edges(self, x: GraphInput) -> dict[str, IntArray]:
        """Edges by kind, checked."""
        out = {}
        for kind, ends in self.ends.items():
            edges = np.asarray(_of(x.edges, kind))
            if not edges.size:
                edges = np.zeros((0, 2), np.int64)
            if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
                raise TaskError(
                    f"Edges of kind {kind!r} have shape {edges.shape} and type {edges.dtype}; give "
                    "whole numbers of shape (n_edges, 2), a row for each edge."
                )
            sizes = [len(_of(x.nodes, end)) for end in ends]
            inside = ((edges >= 0) & (edges < sizes)).all()
            if not inside or (ends[0] == ends[1] and (edges[:, 0] == edges[:, 1]).any()):
                raise TaskError(
                    f"Edges of kind {kind!r} join a node to itself, or nodes that are not there; "
                    f"there are {sizes[0]} and {sizes[1]}."
                )
            out[kind] = edges.astype(np.int64, copy=False)
        return out

    def _best(self, X: Sequence[GraphInput], scores: StackedParts) -> tuple[IntArray, FloatArray]:
        """Labels of the nodes of all graphs, kind by kind in each, and bounds on their scores."""
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
        """Scores of all nodes and edges in flat arrays, those of a graph together."""
        sizes = np.array([np.diff(scores.offsets[kind]) for kind in self.n_labels])
        firsts = self._first_numbers(scores.offsets)
        n_nodes = int(sizes.sum())
        numbers = self._node_numbers(scores.offsets)
        counts = np.zeros(n_nodes, np.int64)
        for kind, n in self.n_labels.items():
            counts[numbers[kind]] = n
        starts = np.concatenate(([0], np.cumsum(counts)))
        unary = np.empty(starts[-1])
        for kind, n in self.n_labels.items():
            unary[starts[numbers[kind]][:, None] + np.arange(n)] = scores.rows[kind]
        edges, tables, table_starts, owners, size = [], [], [], [], 0
        checked = [self._edges(x) for x in X]
        for kind, channels in self._channels.items():
            rows = np.column_stack((scores.rows[kind], np.zeros(len(scores.rows[kind]))))
            tables.append(rows[:, channels.ravel()].ravel())
            table_starts.append(size + channels.size * np.arange(len(rows)))
            size += tables[-1].size
            owner = np.repeat(np.arange(len(X)), np.diff(scores.offsets[kind]))
            own = np.concatenate([by_kind[kind] for by_kind in checked])
            edges.append(own + np.column_stack([firsts[end][owner] for end in self.ends[kind]]))
            owners.append(owner)
        order = np.argsort(np.concatenate(owners), kind="stable")
        return PairwiseScores(
            unary,
            starts,
            np.concatenate(edges)[order],
            np.concatenate(tables),
            np.concatenate(table_starts)[order],
            np.concatenate(([0], np.cumsum(sizes.sum(axis=0)))),
            np.searchsorted(np.concatenate(owners)[order], np.arange(len(X) + 1)),
        )

    def _first_numbers(self, offsets: Mapping[str, IntArray]) -> dict[str, IntArray]:
        """Number of the first node of each kind of each graph, graphs one after the other."""
        sizes = np.array([np.diff(offsets[kind]) for kind in self.n_labels])
        ends = np.cumsum(sizes.T).reshape(sizes.T.shape).T
        return dict(zip(self.n_labels, ends - sizes, strict=True))

    def _node_numbers(self, offsets: Mapping[str, IntArray]) -> dict[str, IntArray]:
        """Numbers of all nodes, by kind: node j of graph i has the first number of i, plus j."""
        return {
            kind: np.arange(offsets[kind][-1])
            + (firsts - offsets[kind][:-1]).repeat(np.diff(offsets[kind]))
            for kind, firsts in self._first_numbers(offsets).items()
        }

    def _output(self, labels: IntArray, X: Sequence[GraphInput]) -> list[Any]:
        """Outputs of graphs from the labels of all their nodes."""
        sizes = [[len(_of(x.nodes, kind)) for kind in self.n_labels] for x in X]
        pieces = iter(np.split(labels, np.cumsum(sizes)[:-1]))
        if not self.several:
            return list(pieces)
        return [{kind: next(pieces) for kind in self.n_labels} for _ in X]

    def _checked(self, y: Any, x: GraphInput | None = None) -> dict[str, IntArray]:
        """Labels by kind; TaskError unless they are labels, one for each node."""
        if self.several and not isinstance(y, Mapping):
            raise TaskError(f"An output is {shown(y)}; give a dict with {sorted(self.n_labels)}.")
        out = {}
        for kind, n in self.n_labels.items():
            labels = np.asarray(_of(y, kind))
            if labels.ndim != 1 or (len(labels) and labels.dtype.kind not in "iu"):
                raise TaskError(
                    f"An output has {shown(labels)} for {kind!r}; give an array of whole numbers."
                )
            if len(labels) and not 0 <= labels.min() <= labels.max() < n:
                raise TaskError(
                    f"An output has labels from {labels.min()} to {labels.max()} for {kind!r}; the "
                    f"task has 0..{n - 1}."
                )
            if x is not None and len(labels) != len(_of(x.nodes, kind)):
                raise TaskError(
                    f"An output has {len(labels)} labels for {len(_of(x.nodes, kind))} nodes of "
                    f"kind {kind!r}; give one for each."
                )
            out[kind] = labels.astype(np.int64, copy=False)
        return out


def _of(by_kind: Any, kind: str) -> Any:
    """The entry of a kind, where entries are given by kind."""
    if not isinstance(by_kind, Mapping):
        return by_kind
    if kind not in by_kind:
        raise TaskError(
            f"A graph or output has no entry for kind {kind!r}; it has {list(by_kind)}."
        )
    return by_kind[kind]


def _stacked(scores: Mapping[str, FloatArray]) -> StackedParts:
    """Scores of one graph as a stack of one."""
    return StackedParts(scores, {kind: np.array([0, len(rows)]) for kind, rows in scores.items()})


def _by_integer_program(graphs: PairwiseScores, g: int) -> IntArray:
    """The best labels of a graph: a variable for each label of a node, and pair of an edge."""
    nodes = np.arange(graphs.first_nodes[g], graphs.first_nodes[g + 1])
    edges = np.arange(graphs.first_edges[g], graphs.first_edges[g + 1])
    first = graphs.starts[nodes[0]]
    n = int(graphs.starts[nodes[-1] + 1] - first)
    widths = np.diff(graphs.starts)
    rows = np.repeat(nodes - nodes[0], widths[nodes])
    columns, values, sides = [np.arange(n)], [np.ones(n)], np.ones(len(nodes))
    all_rows, costs = [rows], [graphs.unary[first : first + n]]
    n_rows, n_columns = len(nodes), n
    for e in edges:
        p, q = graphs.edges[e]
        table = n_columns + np.arange(widths[p] * widths[q]).reshape(widths[p], widths[q])
        for v, cells in ((p, table), (q, table.T)):
            # The pairs with a label are chosen just as often as the label is.
            own = np.arange(widths[v])
            all_rows += [n_rows + np.repeat(own, cells.shape[1]), n_rows + own]
            columns += [cells.ravel(), graphs.starts[v] - first + own]
            values += [np.ones(cells.size), -np.ones(len(own))]
            n_rows += len(own)
        costs.append(graphs.tables[graphs.table_starts[e] :][: table.size])
        n_columns += table.size
    entries = np.concatenate(values), (np.concatenate(all_rows), np.concatenate(columns))
    program = ProgramSolver(
        A_eq=csr_array(entries, (n_rows, n_columns)),
        b_eq=np.concatenate((sides, np.zeros(n_rows - len(nodes)))),
        integrality=np.arange(n_columns) < n,
        maximize=True,
    )
    chosen = np.flatnonzero(program.solve(np.concatenate(costs))[:n] > 0.5)
    return np.asarray(chosen - (graphs.starts[nodes] - first), np.int64)
