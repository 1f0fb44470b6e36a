"""Alpha-expansion: labellings of low energy for more than two labels, each move a minimum cut.

Boykov, Veksler and Zabih, PAMI 2001, for the Potts model with a weight for each edge:
``E(y) = sum_p E_p(y_p) + sum_pq w_pq [y_p != y_q]``, which is a metric when no weight is negative.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from structboost.inference.graph_cut import least_energy_labels

# A move is taken if it saves more than this, relatively: rounding must not make it go round in circles.
_SAVING = 1e-10
_MAX_SWEEPS = 20


def expanded_labels(
    node_energies: NDArray[np.float64],
    edges: NDArray[np.int64],
    weights: NDArray[np.float64],
    graphs: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Labels that no expansion of one label improves, and no single label for the whole graph beats.

    The best of four descents, from the best single label and from the cheapest label of each node, with the labels
    expanded in either order: one alone ends more than 2 % above the least energy on some small graphs.

    Parameters
    ----------
    node_energies : ndarray, shape (n_nodes, n_labels)
    edges : ndarray of int64, shape (n_edges, 2)
    weights : ndarray, shape (n_edges,)
        Energy of an edge whose ends have different labels; not negative.
    graphs : ndarray of int64, shape (n_nodes,), optional
        Number (0, 1, ...) of the graph of each node, where ``edges`` join several graphs that are not connected: all
        are done at once.

    Returns
    -------
    labels : ndarray of int64, shape (n_nodes,)

    Raises
    ------
    ValueError
        If an energy is not finite, a weight is negative, or an edge names a node that is not there.
    """
    energies = np.asarray(node_energies, np.float64)
    edges = np.asarray(edges, np.int64).reshape(-1, 2)
    weights = np.asarray(weights, np.float64)
    _check(energies, edges, weights)
    n, n_labels = energies.shape
    if n == 0:
        return np.zeros(0, np.int64)
    if n_labels == 2:
        return least_energy_labels(energies, edges, weights, weights).astype(np.int64)
    numbers = np.zeros(n, np.int64) if graphs is None else np.asarray(graphs, np.int64)
    moves = _Moves(energies, edges, weights, numbers)
    best = moves.best_single_labels()
    least = moves.by_graph(best)
    for start in (best, np.argmin(energies, axis=1)):
        for order in (range(n_labels), range(n_labels - 1, -1, -1)):
            labels = _expanded(moves, start, order)
            reached = moves.by_graph(labels)
            best = np.where((reached < least)[numbers], labels, best)
            least = np.minimum(least, reached)
    return best


def _expanded(moves: _Moves, start: NDArray[np.int64], order: Sequence[int]) -> NDArray[np.int64]:
    """Labels that no move improves, the labels expanded in turn."""
    labels = start.copy()
    unchanged = 0
    for move in range(_MAX_SWEEPS * len(order)):
        unchanged = 0 if moves.expand(labels, order[move % len(order)]) else unchanged + 1
        if unchanged == len(order):
            break
    return labels


class _Moves:
    """Expansion moves on one or more graphs."""

    def __init__(
        self,
        energies: NDArray[np.float64],
        edges: NDArray[np.int64],
        weights: NDArray[np.float64],
        graphs: NDArray[np.int64],
    ) -> None:
        self.energies, self.edges, self.weights, self.graphs = energies, edges, weights, graphs
        self.n_graphs = int(graphs.max()) + 1
        self.ends = graphs[edges[:, 0]] if len(edges) else np.zeros(0, np.int64)
        n = len(energies)
        # All that a node could save by a change of its own label: every one of its edges.
        self.reach = np.bincount(edges[:, 0], weights, n) + np.bincount(edges[:, 1], weights, n)

    def best_single_labels(self) -> NDArray[np.int64]:
        """The best label for each graph as a whole."""
        totals = np.zeros((self.n_graphs, self.energies.shape[1]))
        np.add.at(totals, self.graphs, self.energies)
        return np.asarray(np.argmin(totals, axis=1)[self.graphs], np.int64)

    def by_graph(self, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """Energy of each graph."""
        own = self.energies[np.arange(len(labels)), labels]
        cut = labels[self.edges[:, 0]] != labels[self.edges[:, 1]]
        paid = np.bincount(self.ends[cut], self.weights[cut], self.n_graphs)
        return np.asarray(np.bincount(self.graphs, own, self.n_graphs) + paid, np.float64)

    def expand(self, labels: NDArray[np.int64], alpha: int) -> bool:
        """Change ``labels`` by the best expansion of ``alpha``; whether that saved energy."""
        own = self.energies[np.arange(len(labels)), labels]
        # A node for which alpha costs more than all its edges could save keeps its label in the best move.
        may_move = (labels != alpha) & (self.energies[:, alpha] - own < self.reach)
        nodes = np.flatnonzero(may_move)
        if not len(nodes):
            return False
        number = np.full(len(labels), -1)
        number[nodes] = np.arange(len(nodes))
        terminal = np.column_stack((own[nodes], self.energies[nodes, alpha]))
        inner, forward, backward = self._move_edges(labels, alpha, may_move, number, terminal)
        moved = least_energy_labels(terminal, inner, forward, backward)
        if not moved.any():
            return False
        changed = labels.copy()
        changed[nodes[moved]] = alpha
        before, after = self.by_graph(labels), self.by_graph(changed)
        gains = after < before - _SAVING * (1.0 + np.abs(before))
        labels[:] = np.where(gains[self.graphs], changed, labels)
        return bool(gains.any())

    def _move_edges(
        self,
        labels: NDArray[np.int64],
        alpha: int,
        may_move: NDArray[np.bool_],
        number: NDArray[np.int64],
        terminal: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Edges between nodes that may move, as capacities; what the others cost goes into ``terminal``.

        With x = 1 for a node that takes alpha, an edge pays [y_p != y_q] at (0, 0), nothing at (1, 1), its whole weight
        at (0, 1) and (1, 0).  Where y_p != y_q that is a cost w of (0, 0) and (0, 1), paid by p's terminal edge, and of
        (1, 0), which stays an edge.
        """
        p, q = self.edges[:, 0], self.edges[:, 1]
        both = may_move[p] & may_move[q]
        for a, b in ((p, q), (q, p)):
            one = may_move[a] & ~may_move[b]
            here, there, weight = number[a[one]], labels[b[one]], self.weights[one]
            terminal[:, 0] += np.bincount(here, weight * (labels[a[one]] != there), len(terminal))
            terminal[:, 1] += np.bincount(here, weight * (there != alpha), len(terminal))
        first, second, weight = number[p[both]], number[q[both]], self.weights[both]
        differ = labels[p[both]] != labels[q[both]]
        terminal[:, 0] += np.bincount(first, weight * differ, len(terminal))
        return np.column_stack((first, second)), np.where(differ, 0.0, weight), weight


def _check(energies: NDArray[np.float64], edges: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
    if energies.ndim != 2 or energies.shape[1] < 1:
        raise ValueError(f"node_energies has shape {energies.shape}; give (n_nodes, n_labels).")
    if not np.isfinite(energies).all():
        bad = int(np.flatnonzero(~np.isfinite(energies).all(axis=1))[0])
        raise ValueError(f"node_energies[{bad}] has an entry that is not finite.")
    if len(edges) and not (0 <= edges.min() and edges.max() < len(energies)):
        raise ValueError(f"edges go from {edges.min()} to {edges.max()}; there are {len(energies)} nodes.")
    if weights.shape != (len(edges),):
        raise ValueError(f"weights has shape {weights.shape}; give one for each of {len(edges)} edges.")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise ValueError(
            f"weights[{wrong[0]}] is {weights[wrong[0]]}; weights must be finite and not negative, or the Potts "
            "model is no metric."
        )
