"""Sets that have, with each label, all labels above it: the best one, and probabilities."""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.inference.graph_cut import least_energy_labels
from structboost.runtime.compiled import compiled

_OUT, _IN, _OPEN = 0, 1, 2


def best_closed_sets(
    scores: FloatArray, order: IntArray, starts: IntArray, parents: IntArray
) -> IntArray:
    """For each row the set of highest total score that is closed upwards.

    Dynamic programming decides all labels of a tree.  Where labels have several parents, it gives
    two bounds on what a label and those below it add.  Labels that the bounds leave open are
    decided by one minimum cut for all rows: a set of highest score is a minimum closure (Picard,
    Management Science 1976).

    Parameters
    ----------
    scores : ndarray, shape (n_sets, n_labels)
        Score of each label; a row for each problem.
    order : ndarray of int64, shape (n_labels,)
        All labels, parents before their children.
    starts : ndarray of int64, shape (n_labels + 1,)
        First of the parents of each label.
    parents : ndarray of int64, shape (n_edges,)
        Label v has the parents ``parents[starts[v]:starts[v + 1]]``.

    Returns
    -------
    found : ndarray of int64, shape (n_sets, n_labels)
        1 on the labels of each set.  A label is left out where it makes no difference.

    Raises
    ------
    ImportError
        If a cut is needed and PyMaxflow is not installed.
    """
    scores = np.ascontiguousarray(scores, np.float64)
    found = np.empty(scores.shape, np.int64)
    _decide(scores, order, starts, parents, found)
    rows, labels = np.nonzero(found == _OPEN)
    if len(rows):
        number = np.full(scores.shape, -1, np.int64)
        number[rows, labels] = np.arange(len(rows))
        own = scores[rows, labels]
        # More than any cut costs: these edges stay whole.
        most = 1.0 + float(np.abs(own).sum())
        counts = np.diff(starts)[labels]
        children = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(children)) - np.repeat(np.cumsum(counts) - counts, counts)
        above = number[rows[children], parents[starts[labels[children]] + within]]
        edges = np.column_stack((children, above))[above >= 0]
        energies = np.column_stack((np.zeros(len(own)), -own))
        whole = np.full(len(edges), most)
        found[rows, labels] = least_energy_labels(energies, edges, np.zeros(len(edges)), whole)
    return found


@compiled
def closed_set_probabilities(
    scores: FloatArray,
    order: IntArray,
    starts: IntArray,
    parents: IntArray,
    found: FloatArray,
    log_sums: FloatArray,
) -> None:
    """Probabilities of labels of a tree where a set has probability ``exp(score) / sum``.

    Parameters
    ----------
    scores, order, starts, parents
        As :func:`best_closed_sets` takes them; no label has two parents.
    found : ndarray, shape (n_sets, n_labels)
        Is filled with the probability of each label.
    log_sums : ndarray, shape (n_sets,)
        Is filled with the logarithms of the sums.
    """
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
            found[i, v] = 1.0 / (1.0 + np.exp(-odds[v]))
            if starts[v + 1] > starts[v]:
                found[i, v] *= found[i, parents[starts[v]]]


@compiled
def _decide(
    scores: FloatArray, order: IntArray, starts: IntArray, parents: IntArray, found: IntArray
) -> None:
    """Labels that are in or out of a best set, and those that this leaves open."""
    n_labels = scores.shape[1]
    # What a label and those below it add at most, and at least, if all above it are there.
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
                if found[i, parents[e]] == _OUT:
                    state = _OUT
                elif found[i, parents[e]] == _OPEN and state == _IN:
                    state = _OPEN
            found[i, v] = state
