"""Sets of labels that are closed upwards in a hierarchy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from structboost._typing import FloatArray, IntArray
from structboost.contract.listed_outputs import ListedOutputs, Marginals
from structboost.contract.parts import StackedParts
from structboost.exceptions import TaskError, TooManyOutputsError
from structboost.inference.closures import best_closed_sets, closed_set_probabilities
from structboost.tasks.multi_label import MultiLabelTask

# With several parents all sets are tried for probabilities: there are up to 2^n of them.
_MOST_LISTED = 12


class HierarchicalMultiLabelTask(MultiLabelTask):
    """An input has any of ``n_labels`` labels, and with a label all labels above it.

    An input is a feature vector; its one part is the input itself.  A channel is a label, and a set
    scores the sum of its labels.  An output is an array (n_labels,) of 0 and 1 that is closed
    upwards: where a label is 1, all its parents are.

    The loss is the weight of the labels that are wrong, in all 1.  The argmax is exact: dynamic
    programming, and a minimum cut where labels have several parents.

    Parameters
    ----------
    n_labels : int
        At least 2.
    edges : array-like of int, shape (n_edges, 2)
        Pairs (parent, child) of labels.  A label may have several parents, but none is above
        itself.
    decay : float
        Weight of a label over the mean weight of its parents (Vens and others, Machine Learning
        2008, section 4.1); 1 weighs all labels the same.

    Raises
    ------
    TaskError
        If a parameter is out of its range, or the edges form a cycle.
    """

    def __init__(self, n_labels: int, edges: Any, *, decay: float = 0.75) -> None:
        super().__init__(n_labels)
        if not 0 < decay <= 1:
            raise TaskError(f"decay is {decay!r}; give a number above 0, up to 1.")
        self.decay = float(decay)
        pairs = np.asarray(edges)
        if not pairs.size:
            pairs = np.zeros((0, 2), np.int64)
        is_table = pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.dtype.kind in "iu"
        if not is_table:
            raise TaskError(
                f"edges has shape {pairs.shape} and type {pairs.dtype}; give whole numbers of "
                "shape (n_edges, 2), a pair (parent, child) for each edge."
            )
        if len(pairs) and not 0 <= pairs.min() <= pairs.max() < self.n_labels:
            raise TaskError(
                f"edges has labels outside 0..{self.n_labels - 1}; give pairs (parent, child)."
            )
        self.edges = np.unique(pairs.astype(np.int64), axis=0)
        shape = (self.n_labels, self.n_labels)
        above = csr_array((np.ones(len(self.edges)), self.edges.T[::-1]), shape)
        self._starts, self._parents = above.indptr.astype(np.int64), above.indices.astype(np.int64)
        self._order = self._parents_first()
        self.label_weights = self._weights()
        self._shares = np.stack((self.label_weights, self.label_weights))

    def outputs(self, x: Any) -> Iterator[IntArray]:
        """All sets that are closed upwards."""
        return (labels for labels in super().outputs(x) if self._open_edge(labels) is None)

    def marginals_batch(self, X: Sequence[Any], scores: StackedParts) -> Marginals:
        """Marginals of every input, in one compiled pass over the tree.

        No label is more probable than one above it.

        Raises
        ------
        TooManyOutputsError
            If a label has several parents and there are more than 12 labels.
        """
        rows = np.ascontiguousarray(scores.rows["x"], np.float64)
        expected, log_sums = np.empty(rows.shape), np.empty(len(rows))
        if (np.diff(self._starts) <= 1).all():
            closed_set_probabilities(
                rows, self._order, self._starts, self._parents, expected, log_sums
            )
        elif self.n_labels <= _MOST_LISTED:
            for i, own in enumerate(rows):
                found, log_sums[i] = self._listed.marginals({"x": own[None]})
                expected[i] = found["x"][0]
        else:
            label = int(np.argmax(np.diff(self._starts)))
            raise TooManyOutputsError(
                f"Label {label} has several parents, and probabilities are known for trees only; "
                "leave edges out, or take formulation='one_slack'."
            )
        return Marginals({"x": expected}, log_sums)

    @cached_property
    def _listed(self) -> ListedOutputs:
        """All sets that are closed upwards: those of every input."""
        return ListedOutputs(self, None, {"x": (1, self.n_labels)})

    def closed(self, sets: Any) -> NDArray[Any]:
        """Sets with all labels above theirs.

        Scores of labels, such as probabilities that were found one by one, are closed likewise:
        a label gets the largest score of the labels that imply it, so none scores above one that
        it implies.

        Parameters
        ----------
        sets : array-like, shape (n_sets, n_labels)
            0 and 1 for each label, or scores.

        Returns
        -------
        closed : ndarray, shape (n_sets, n_labels)
            A copy.
        """
        found = np.array(sets)
        for label in self._order[::-1]:
            for parent in self._parents[self._starts[label] : self._starts[label + 1]]:
                np.maximum(found[:, parent], found[:, label], out=found[:, parent])
        return found

    def _parents_first(self) -> IntArray:
        """An order of the labels; TaskError if there is none."""
        waiting = np.diff(self._starts)
        order = np.flatnonzero(waiting == 0).tolist()
        children: list[list[int]] = [[] for _ in range(self.n_labels)]
        for parent, child in self.edges.tolist():
            children[parent].append(child)
        for label in order:  # grows as labels have all their parents
            for child in children[label]:
                waiting[child] -= 1
                if waiting[child] == 0:
                    order.append(child)
        if len(order) < self.n_labels:
            label = int(np.argmax(waiting > 0))
            raise TaskError(f"edges form a cycle at label {label} or above it; take one away.")
        return np.array(order, np.int64)

    def _weights(self) -> FloatArray:
        """What a wrong label costs."""
        weights = np.ones(self.n_labels)
        for label in self._order:
            above = self._parents[self._starts[label] : self._starts[label + 1]]
            if len(above):
                weights[label] = self.decay * weights[above].mean()
        total: float = weights.sum()
        return weights / total

    def _best(self, scores: FloatArray, truth: IntArray | None) -> IntArray:
        if truth is not None:
            scores = scores + self._gains(truth)
        return best_closed_sets(scores, self._order, self._starts, self._parents)

    def _open_edge(self, sets: IntArray) -> IntArray | None:
        """Parent and child of an edge of which only the child is in a set."""
        parents, children = self.edges.T
        table = np.atleast_2d(sets)
        missing = (table[:, children] > table[:, parents]).any(axis=0)
        return self.edges[np.argmax(missing)] if missing.any() else None

    def _checked(self, y: Any) -> IntArray:
        labels = super()._checked(y)
        self._check_closed(labels)
        return labels

    def _checked_sets(self, sets: Any, name: str) -> IntArray:
        table = super()._checked_sets(sets, name)
        self._check_closed(table)
        return table

    def _check_closed(self, sets: IntArray) -> None:
        edge = self._open_edge(sets)
        if edge is not None:
            raise TaskError(
                f"A set has label {edge[1]} without {edge[0]}, which is above it; add it, as "
                "closed(sets) does."
            )
