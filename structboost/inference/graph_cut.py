"""Minimum cuts: the labelling of two labels of least energy.

The only module that imports PyMaxflow.  It checks its arguments, as PyMaxflow does not: a NaN among
the capacities hangs it, a negative one gives a wrong result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structboost.inference.arguments import node_pairs, not_negative, real_array


def min_cut_labels(
    node_energies: ArrayLike, edges: ArrayLike, forward: ArrayLike, backward: ArrayLike
) -> NDArray[np.bool_]:
    """Find the labels of least energy for two labels, by a minimum cut.

    Labels ``y`` have the energy ``sum_p E_p(y_p) + sum_pq [f_pq (1 - y_p) y_q + b_pq y_p (1 -
    y_q)]``.

    Parameters
    ----------
    node_energies : array-like, shape (n_nodes, 2)
        Energy of each label of each node.
    edges : array-like of int, shape (n_edges, 2)
        Pairs (p, q) of different nodes; the same pair may come again, its capacities add up.
    forward, backward : array-like, shape (n_edges,)
        Energy where p has label 0 and q label 1, and the other way round; not negative.

    Returns
    -------
    labels : ndarray of bool, shape (n_nodes,)
        Whether each node has label 1.  Among equally good labels always the same.

    Raises
    ------
    ImportError
        If PyMaxflow is not installed.

    Notes
    -----
    Exact, as the energy is submodular when no capacity is negative (StructBoost, (24)); the time is
    that of the maximum flow of Boykov and Kolmogorov, near linear on graphs of images.  Kolmogorov
    and Zabih, What energy functions can be minimized via graph cuts?, PAMI 2004.

    Examples
    --------
    >>> from structboost.inference import min_cut_labels
    >>> energies = [[0.0, 2.0], [1.0, 0.0], [1.5, 0.0]]
    >>> min_cut_labels(energies, [[0, 1], [1, 2]], [1.0, 1.0], [1.0, 1.0]).tolist()
    [False, True, True]
    """
    energies = real_array(node_energies, "node_energies", ("n_nodes", 2))
    n = len(energies)
    pairs = node_pairs(edges, "edges", n)
    capacities = [
        not_negative(value, name, (len(pairs),))
        for value, name in ((forward, "forward"), (backward, "backward"))
    ]
    if n == 0:
        return np.zeros(0, np.bool_)
    graph = _maxflow().Graph[float](n, max(len(pairs), 1))
    nodes = graph.add_nodes(n)
    # Only the difference counts, and capacities must not be negative: the smaller energy is taken
    # off both.
    lower = np.minimum(energies[:, 0], energies[:, 1])
    # A node in the sink's part has label 1: then the edge from the source, of capacity E(1), is
    # cut.
    graph.add_grid_tedges(nodes, energies[:, 1] - lower, energies[:, 0] - lower)
    if len(pairs):
        graph.add_edges(nodes[pairs[:, 0]], nodes[pairs[:, 1]], *capacities)
    graph.maxflow()
    return np.asarray(graph.get_grid_segments(nodes), np.bool_)


# The name that the segmentation imports.
least_energy_labels = min_cut_labels


def _maxflow() -> Any:
    """Import the module at the first cut: where it has no wheel, all else works."""
    try:
        import maxflow
    except ImportError as error:
        raise ImportError(
            "Minimum cuts need PyMaxflow, which is not installed (it has wheels up to Python "
            "3.13); pip install PyMaxflow. SuperpixelCRFTask(pairwise=False) needs none."
        ) from error
    return maxflow
