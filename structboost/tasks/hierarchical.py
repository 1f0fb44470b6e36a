"""Sets of labels that are closed upwards in a hierarchy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.listed_outputs import ListedOutputs, Marginals
from structboost.contract.parts import StackedParts
from structboost.errors import TaskError, TooManyOutputsError
from structboost.inference.hierarchical import (
    best_closed_sets,
    checked_hierarchy,
    closed_set_probabilities,
)
from structboost.runtime.memory import check_memory
from structboost.tasks.hierarchy_forms import read_hierarchy
from structboost.tasks.multi_label import MultiLabelTask
from structboost.validation import shown

# With several parents all sets are tried for probabilities: there are up to 2^n of them.
_MOST_LISTED = 12


class HierarchicalMultiLabelTask(MultiLabelTask):
    """Sets of any of ``n_labels`` labels, with each label all labels above it.

    An input is a feature vector; its one part is the input itself.  A channel is a label, and a set
    scores the sum of its labels.  An output is an array (n_labels,) of 0 and 1 that is closed
    upwards: where a label is 1, all its parents are.

    The loss is the weight of the labels that are wrong, in all 1.  The argmax is exact:
    :func:`~structboost.inference.maximum_closure`; of equally good sets it leaves out labels that
    make no difference.  In the marginals no label is more probable than
    one above it; where labels have several parents, they exist for at most 12 labels.

    Parameters
    ----------
    n_labels : int
        At least 2.
    edges : array-like of int, shape (n_edges, 2), dict, paths or networkx.DiGraph
        Pairs (parent, child) of labels, or another form of
        :mod:`structboost.tasks.hierarchy_forms`.  A label may have several parents, but none is
        above itself.
    decay : float
        Weight of a label over the mean weight of its parents (Vens and others, Machine Learning
        2008, section 4.1); 1 weighs all labels the same.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range, or the edges form a cycle.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost import HierarchicalMultiLabelTask
    >>> task = HierarchicalMultiLabelTask(3, [(0, 1), (1, 2)])
    >>> task.argmax([0.0], np.array([[-1.0, 0.5, 2.0]]))
    array([1, 1, 1])
    """

    # Names of the labels in errors, by default their indices.
    label_names: Sequence[Any] | None = None

    def __init__(self, n_labels: int, edges: Any, *, decay: float = 0.75) -> None:
        super().__init__(n_labels)
        check_memory(
            64 * self.n_labels, f"Weights and parents of {n_labels} labels", "take fewer labels"
        )
        if not isinstance(decay, int | float | np.number) or not 0 < float(decay) <= 1:
            raise TaskError(f"decay is {shown(decay)}; give a number above 0, up to 1.")
        self.decay = float(decay)
        pairs = _pairs(edges, self.n_labels)
        self.edges, self._hierarchy = checked_hierarchy(pairs, self.n_labels)
        self._order, self._starts, self._parents = self._hierarchy
        self.label_weights = self._weights()
        self._costs = np.stack((self.label_weights, self.label_weights))

    @override
    def outputs(self, x: Any) -> Iterator[IntArray]:
        return (labels for labels in super().outputs(x) if self._open_edge(labels) is None)

    @override
    def marginals_batch(self, X: Sequence[Any], scores: StackedParts) -> Marginals:
        rows = np.ascontiguousarray(scores.rows["x"], np.float64)
        expected, log_sums = np.empty(rows.shape), np.empty(len(rows))
        if (np.diff(self._starts) <= 1).all():
            closed_set_probabilities(rows, self._hierarchy, expected, log_sums)
        elif self.n_labels <= _MOST_LISTED:
            for i, row in enumerate(rows):
                of_row, log_sums[i] = self._listed.marginals({"x": row[None]})
                expected[i] = of_row["x"][0]
        else:
            label = int(np.argmax(np.diff(self._starts)))
            name = label if self.label_names is None else self.label_names[label]
            raise TooManyOutputsError(
                f"Label {shown(name)} has several parents, and probabilities are known for trees "
                "only; leave edges out, or take formulation='one_slack', which is "
                "objective='hinge' of classifiers."
            )
        return Marginals({"x": expected}, log_sums)

    @cached_property
    def _listed(self) -> ListedOutputs:
        """Sets that are closed upwards, which are the outputs of every input."""
        return ListedOutputs(self, None, {"x": (1, self.n_labels)})

    def closed(self, sets: Any) -> NDArray[Any]:
        """Add all labels above those of each set.

        Scores of labels, such as probabilities of each label alone, are closed likewise: a label
        gets the largest score of the labels that imply it, so none scores above one that it
        implies.

        Parameters
        ----------
        sets : array-like, shape (n_sets, n_labels)
            0 and 1 for each label, or scores.

        Returns
        -------
        closed : ndarray, shape (n_sets, n_labels)
            A copy.
        """
        table = np.array(sets)
        for label in self._order[::-1]:
            for parent in self._parents[self._starts[label] : self._starts[label + 1]]:
                np.maximum(table[:, parent], table[:, label], out=table[:, parent])
        return table

    def _weights(self) -> FloatArray:
        """Compute the cost of each wrong label."""
        weights = np.ones(self.n_labels)
        for label in self._order:
            above = self._parents[self._starts[label] : self._starts[label + 1]]
            if len(above):
                weights[label] = self.decay * weights[above].mean()
        total: float = weights.sum()
        return weights / total

    @override
    def _best(self, scores: FloatArray, truth: IntArray | None) -> IntArray:
        if truth is not None:
            scores = scores + self._gains(truth)
        return best_closed_sets(scores, self._hierarchy)

    def _open_edge(self, sets: IntArray) -> IntArray | None:
        """Return parent and child of an edge of which only the child is in a set, or None."""
        parents, children = self.edges.T
        table = np.atleast_2d(sets)
        missing = (table[:, children] > table[:, parents]).any(axis=0)
        return self.edges[np.argmax(missing)] if missing.any() else None

    @override
    def _checked(self, y: Any) -> IntArray:
        labels = super()._checked(y)
        self._check_closed(labels)
        return labels

    @override
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


def _pairs(edges: Any, n_labels: int) -> Any:
    """Return a table of edges as it is, and the edges of another form."""
    is_list = isinstance(edges, list | tuple) or (isinstance(edges, np.ndarray) and edges.ndim)
    if is_list and not any(isinstance(item, str | Mapping) for item in edges):
        return edges
    hierarchy = read_hierarchy(edges, range(n_labels), "edges")
    return hierarchy.named_edges()
