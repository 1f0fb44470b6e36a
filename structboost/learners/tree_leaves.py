"""Responses of the leaves of new trees, from the sums of the duals in them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.learners.leaf_sums import SURE, confident_leaves, sum_leaves
from structboost.learners.monotone_trees import Directions
from structboost.learners.row_draws import RowDraws

# Features, bins and sets of the nodes of trees, shape (n_trees, n_nodes) each.
Nodes = tuple[IntArray, IntArray, NDArray[np.uint64] | None]


class TreeLeaves:
    """Best leaves of trees whose splits are chosen.

    Parameters
    ----------
    response : (float, float)
        The two responses.
    confident : bool
        As in :class:`structboost.learners.tree.TreeFamily`.
    l2_regularization : float
    directions : Directions
    rows : RowDraws
    """

    def __init__(
        self,
        response: tuple[float, float],
        confident: bool,
        l2_regularization: float,
        directions: Directions,
        rows: RowDraws,
    ) -> None:
        self._response, self._confident = response, confident
        self._l2_regularization = l2_regularization
        self._directions, self._rows = directions, rows

    @property
    def fractions(self) -> tuple[float, float]:
        """Fractions of the mass of a tree that are added to that of a confident leaf."""
        fraction = (1.0 + self._l2_regularization) / self._rows.n_distinct
        return fraction, fraction / self._rows.fraction

    def of_new_trees(
        self,
        nodes: Nodes,
        leaf_indices: NDArray[np.int16],
        duals: FloatArray,
        is_drawn: NDArray[np.bool_] | None,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Leaves of new trees, their weights, and the leaves as only the drawn rows fill them.

        Weights are sums of the duals.
        """
        rows = self._rows.all_rows if is_drawn is None else is_drawn
        sums = np.empty((4, len(leaf_indices), nodes[0].shape[1] + 1))
        if not self._confident:
            if is_drawn is not None:
                duals = np.where(is_drawn, duals / self._rows.fraction, 0.0)
            sum_leaves(leaf_indices, duals, rows, sums)
            leaves = self.best(nodes, sums[0])
            return leaves, sums[0], leaves
        sum_leaves(leaf_indices, duals, rows, sums)
        responses = np.empty((2, *sums.shape[1:]))
        confident_leaves(sums, self.fractions, responses)
        leaves, of_drawn = responses
        if self._directions.any:
            leaves = np.array(
                [
                    self._directions.nearest_leaves(*of_tree, of_other, masses)
                    for of_tree, of_other, masses in zip(
                        _by_tree(nodes), leaves, sums[1], strict=True
                    )
                ]
            )
        return np.rint(SURE * leaves), sums[0], of_drawn

    def best(self, nodes: Nodes, weights: FloatArray) -> FloatArray:
        """Find the leaves of largest edge, either response each, shape (n_trees, n_leaves)."""
        low, high = self._response
        if not self._directions.any:
            return np.where(weights > 0, high, low)
        return np.array(
            [
                self._directions.best_leaves(*of_nodes, of_tree, self._response)
                for of_nodes, of_tree in zip(_by_tree(nodes), weights, strict=True)
            ]
        )


def _by_tree(nodes: Nodes) -> Iterator[tuple[IntArray, IntArray, NDArray[np.uint64]]]:
    """Features, bins and sets of each tree, for :class:`Directions`."""
    features, bins, sets = nodes
    words = np.zeros((*bins.shape, 0), np.uint64) if sets is None else sets
    return zip(features, bins, words, strict=True)
