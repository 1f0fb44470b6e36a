"""Searches and probabilities of sets that have, with each label, all labels above it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import node_pairs
from structboost.inference.paths import topological_order
from structboost.inference.superpixel_crf import least_energy_labels
from structboost.runtime.compiled import compiled

_OUT, _IN, _OPEN = 0, 1, 2

# Labels, parents before their children; where the parents of each label begin; and these parents.
Hierarchy = tuple[IntArray, IntArray, IntArray]


def checked_hierarchy(edges: ArrayLike, n_labels: int) -> tuple[IntArray, Hierarchy]:
    """Check a hierarchy, and return its different edges and its form for the searches.

    TypeError or ValueError if the edges are no pairs of labels, or form a cycle.
    """
    pairs = np.unique(node_pairs(edges, "edges", n_labels), axis=0)
    order = topological_order(pairs, n_labels)
    if len(order) < n_labels:
        label = int(np.argmin(np.isin(np.arange(n_labels), order)))
        raise ValueError(f"edges form a cycle at label {label} or above it; take one away.")
    above = csr_array((np.ones(len(pairs)), pairs.T[::-1]), (n_labels, n_labels))
    return pairs, (order, above.indptr.astype(np.int64), above.indices.astype(np.int64))


def best_closed_sets(scores: FloatArray, hierarchy: Hierarchy) -> IntArray:
    """Find the sets of labels of highest score that are closed upwards in a hierarchy, row by row.

    A set scores the sum of its labels, and has, with each label, all its parents.  A label is left
    out where it makes no difference.  Exact: dynamic programming decides all labels of a tree, in
    ``O(n_labels)``.  Where labels have several parents, it gives two bounds on the gain of a label
    and those below it.  Labels that the bounds leave open are decided by one minimum cut for all
    rows (Picard, Maximal closure of a graph and applications to combinatorial problems, Management
    Science 1976).
    """
    scores = np.ascontiguousarray(scores, np.float64)
    _, starts, parents = hierarchy
    states = np.empty(scores.shape, np.int64)
    _decide(scores, hierarchy, states)
    sets, labels = np.nonzero(states == _OPEN)
    if len(sets):
        places = np.full(scores.shape, -1, np.int64)
        places[sets, labels] = np.arange(len(sets))
        gains = scores[sets, labels]
        # More than any cut costs: these edges stay whole.
        most = 1.0 + float(np.abs(gains).sum())
        counts = np.diff(starts)[labels]
        children = np.repeat(np.arange(len(sets)), counts)
        within = np.arange(len(children)) - np.repeat(np.cumsum(counts) - counts, counts)
        above = places[sets[children], parents[starts[labels[children]] + within]]
        edges = np.column_stack((children, above))[above >= 0]
        energies = np.column_stack((np.zeros(len(gains)), -gains))
        whole = np.full(len(edges), most)
        states[sets, labels] = least_energy_labels(energies, edges, np.zeros(len(edges)), whole)
    return states


@compiled
def closed_set_probabilities(
    scores: FloatArray, hierarchy: Hierarchy, of_labels: FloatArray, log_sums: FloatArray
) -> None:
    """Fill in probabilities of labels and logarithms of sums, row by row, in a tree.

    A closed set has a probability ``~ exp(score)``.  Exact, in ``O(n_labels)`` for each row, by
    sums over the sets below each label.
    """
    order, starts, parents = hierarchy
    n_labels = scores.shape[1]
    odds = np.empty(n_labels)
    for i in range(len(scores)):
        log_sums[i] = 0.0
        odds[:] = scores[i]
        for k in range(n_labels - 1, -1, -1):
            v = order[k]
            # Without the label, or with it and those below it.
            both = max(0.0, odds[v]) + np.log1p(np.exp(-abs(odds[v])))
            if starts[v + 1] > starts[v]:
                odds[parents[starts[v]]] += both
            else:
                log_sums[i] += both
        for k in range(n_labels):
            v = order[k]
            of_labels[i, v] = 1.0 / (1.0 + np.exp(-odds[v]))
            if starts[v + 1] > starts[v]:
                of_labels[i, v] *= of_labels[i, parents[starts[v]]]


@compiled
def _decide(scores: FloatArray, hierarchy: Hierarchy, states: IntArray) -> None:
    """Decide which labels are in or out of a best set, and which are open."""
    order, starts, parents = hierarchy
    n_labels = scores.shape[1]
    # Most and least gain of a label and those below it, if all above it are there.
    most, least = np.empty(n_labels), np.empty(n_labels)
    for i in range(len(scores)):
        for v in range(n_labels):
            most[v] = least[v] = scores[i, v]
        for k in range(n_labels - 1, -1, -1):
            v = order[k]
            for e in range(starts[v], starts[v + 1]):
                most[parents[e]] += max(0.0, most[v])
            if starts[v + 1] == starts[v] + 1:
                least[parents[starts[v]]] += max(0.0, least[v])
        for k in range(n_labels):
            v = order[k]
            state = _IN if least[v] > 0 else _OPEN
            if most[v] <= 0:
                state = _OUT
            for e in range(starts[v], starts[v + 1]):
                if states[i, parents[e]] == _OUT:
                    state = _OUT
                elif states[i, parents[e]] == _OPEN and state == _IN:
                    state = _OPEN
            states[i, v] = state
