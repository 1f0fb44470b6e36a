"""Minimum cuts: the labelling of two labels of least energy.

The only module that imports PyMaxflow.  It checks what PyMaxflow does not: a NaN among the
capacities hangs it, a negative one gives a wrong answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray


def least_energy_labels(
    node_energies: FloatArray, edges: IntArray, forward: FloatArray, backward: FloatArray
) -> NDArray[np.bool_]:
    """Labels y in {0, 1} of least energy.

    The energy is ``sum_p E_p(y_p) + sum_pq [f_pq (1 - y_p) y_q + b_pq y_p (1 - y_q)]``.

    A minimum cut (Kolmogorov and Zabih, PAMI 2004): exact, as the energy is submodular when no
    capacity is negative (StructBoost, (24)).  Where several labellings are minimal, the one that
    the solver leaves is returned; it depends on nothing but the arguments.

    Parameters
    ----------
    node_energies : ndarray, shape (n_nodes, 2)
        Energy of each label.
    edges : ndarray of int64, shape (n_edges, 2)
        Pairs (p, q); the same pair may come again, its capacities add up.
    forward, backward : ndarray, shape (n_edges,)
        Energy where p has label 0 and q label 1, and the other way round; not negative.

    Returns
    -------
    labels : ndarray of bool, shape (n_nodes,)
        Whether each node has label 1.

    Raises
    ------
    ValueError
        If an energy is not finite, a capacity is negative, or an edge names a node that is not
        there.
    ImportError
        If PyMaxflow is not installed.
    """
    energies = np.asarray(node_energies, np.float64)
    edges = np.asarray(edges, np.int64).reshape(-1, 2)
    forward, backward = np.asarray(forward, np.float64), np.asarray(backward, np.float64)
    _check(energies, edges, forward, backward)
    n = len(energies)
    if n == 0:
        return np.zeros(0, np.bool_)
    graph = _maxflow().Graph[float](n, max(len(edges), 1))
    nodes = graph.add_nodes(n)
    # Only the difference counts, and capacities must not be negative: the smaller energy is taken
    # off both.
    lower = np.minimum(energies[:, 0], energies[:, 1])
    # A node in the sink's part has label 1: then the edge from the source, of capacity E(1), is
    # cut.
    graph.add_grid_tedges(nodes, energies[:, 1] - lower, energies[:, 0] - lower)
    if len(edges):
        graph.add_edges(nodes[edges[:, 0]], nodes[edges[:, 1]], forward, backward)
    graph.maxflow()
    return np.asarray(graph.get_grid_segments(nodes), np.bool_)


def _maxflow() -> Any:
    """The module, imported when the first cut is made: where it has no wheel, all else works."""
    try:
        import maxflow
    except ImportError as error:
        raise ImportError(
            "Minimum cuts need PyMaxflow, which is not installed (it has wheels up to Python "
            "3.13); pip install PyMaxflow. SuperpixelCRFTask(pairwise=False) needs none."
        ) from error
    return maxflow


def _check(
    energies: FloatArray, edges: IntArray, forward: FloatArray, backward: FloatArray
) -> None:
    if energies.ndim != 2 or energies.shape[1] != 2:
        raise ValueError(f"node_energies has shape {energies.shape}; give (n_nodes, 2).")
    if not np.isfinite(energies).all():
        bad = int(np.flatnonzero(~np.isfinite(energies).all(axis=1))[0])
        raise ValueError(
            f"node_energies[{bad}] is {energies[bad].tolist()}; energies must be finite."
        )
    if len(edges) and not (0 <= edges.min() and edges.max() < len(energies)):
        raise ValueError(
            f"edges go from {edges.min()} to {edges.max()}; there are {len(energies)} nodes."
        )
    for name, capacities in (("forward", forward), ("backward", backward)):
        if capacities.shape != (len(edges),):
            raise ValueError(
                f"{name} has shape {capacities.shape}; give one capacity for each of {len(edges)} "
                "edges."
            )
        wrong = np.flatnonzero(~(np.isfinite(capacities) & (capacities >= 0)))
        if len(wrong):
            raise ValueError(
                f"{name}[{wrong[0]}] is {capacities[wrong[0]]}; capacities must be finite and not "
                "negative "
                "(the energy would not be submodular)."
            )
