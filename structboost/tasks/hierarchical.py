"""Sets of labels that are closed upwards in a hierarchy, and classes at its leaves.

Classification with a taxonomy is section 3.4 of the StructBoost paper.

The argument ``taxonomy`` of classifiers and ``hierarchy`` of label sets take the same forms:

================================== ============================================================
form                               example
================================== ============================================================
nested dicts                       ``{"animal": ["cat", "dog"], "tree": {"oak": None, "elm": []}}``
pairs (parent, child)              ``[("animal", "cat"), ("animal", "dog"), ("tree", "oak")]``
paths                              ``["animal/cat", "animal/dog", "tree/oak"]``
``networkx.DiGraph``               edges from parents to children
================================== ============================================================

The labels of paths are the last parts, or the whole paths if these are labels.  In other forms a
slash is a part of a label.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np

from structboost._typing import AnyArray, Examples, FloatArray, IntArray, SignArray, override
from structboost.contract.parts import Marginals, StackedParts
from structboost.contract.separation import ListedOutputs
from structboost.errors import TaskError, TooManyOutputsError, warn_user
from structboost.inference.hierarchical import (
    best_closed_sets,
    checked_hierarchy,
    closed_set_probabilities,
)
from structboost.runtime.memory import check_memory
from structboost.tasks.classes import CodeTask
from structboost.tasks.multi_label import MultiLabelTask
from structboost.validation import checked_whole_number, shown

FORMS = (
    "give a dict of the labels below each label, pairs (parent, child), paths such as "
    "'animal/cat', or a networkx.DiGraph"
)
# Fractions of the sets with the first label of a pair that have the second, if the pair is turned.
_NEARLY_ALL, _SOME = 0.9, 0.3
# With several parents all sets are tried for probabilities: there are up to 2^n of them.
_MOST_LISTED = 12
# Weight of a label over the mean weight of its parents.
_DECAY = 0.75


class LabelHierarchy(NamedTuple):
    """Nodes of a hierarchy, and edges from parents to children.

    Attributes
    ----------
    labels : list
        Label of each node.
    edges : list of (int, int)
        Indices of parent and child, without repetition and without a cycle.
    """

    labels: list[Any]
    edges: list[tuple[int, int]]

    def parents(self) -> list[list[int]]:
        """Return the parents of each node."""
        above: list[list[int]] = [[] for _ in self.labels]
        for parent, child in self.edges:
            above[child].append(parent)
        return above

    def named_edges(self) -> list[tuple[Any, Any]]:
        """Return the labels of parents and children."""
        return [
            (self.labels[parent], self.labels[child])
            for child, parents in enumerate(self.parents())
            for parent in parents
        ]


def read_hierarchy(
    value: Any, labels: Sequence[Any], name: str, *, is_tree: bool = False
) -> LabelHierarchy:
    """Read a hierarchy in any of its forms.

    Parameters
    ----------
    value : object
        Hierarchy in one of the forms above.
    labels : sequence
        Labels of the user, which may be whole paths.
    name : str
        Name of the argument in errors.
    is_tree : bool
        Whether equal names at different places of paths are different nodes.

    Returns
    -------
    hierarchy : LabelHierarchy
        Nodes and edges.

    Raises
    ------
    TypeError
        If the value is of another type, or a label has no hash.
    ValueError
        If it is of none of the forms, or has a cycle, which the message shows by its labels.
    """
    is_paths, chains = _chains(value, set(labels), name)
    index: dict[Any, int] = {}
    names: list[Any] = []
    edges: dict[tuple[int, int], None] = {}
    for chain in chains:
        above = None
        for k, label in enumerate(chain):
            try:
                here = index.setdefault(
                    chain[: k + 1] if is_paths and is_tree else label, len(names)
                )
            except TypeError:
                raise TypeError(
                    f"{name} has {shown(label)} in the place of a label; {FORMS}."
                ) from None
            if here == len(names):
                names.append(label)
            if above is not None:
                edges[above, here] = None
            above = here
    hierarchy = LabelHierarchy(names, list(edges))
    try:
        TopologicalSorter(dict(enumerate(hierarchy.parents()))).prepare()
    except CycleError as error:
        cycle = [names[node] for node in error.args[1]]
        raise ValueError(
            f"{name} has a cycle, in which a label is above itself: {shown(cycle)}; take one pair "
            "of this cycle away."
        ) from None
    if not edges:
        raise ValueError(f"{name} is {shown(value)}, in which no label is above another; {FORMS}.")
    return hierarchy


def _chains(value: Any, labels: set[Any], name: str) -> tuple[bool, Iterable[tuple[Any, ...]]]:
    """Return whether a hierarchy is of paths, and labels of which each is above the next one."""
    if callable(getattr(value, "is_directed", None)):
        if not value.is_directed():
            raise ValueError(
                f"{name} is an undirected graph, which does not say who is the parent; give a "
                "networkx.DiGraph with edges from parents to children."
            )
        return False, [*((node,) for node in value.nodes), *value.edges]
    items = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(value, Mapping | list | tuple) and not len(value):
        raise ValueError(f"{name} is empty; {FORMS}.")
    if isinstance(value, Mapping):
        return False, _chains_of_dict(value, name)
    if not isinstance(items, list | tuple):
        raise TypeError(f"{name} is {shown(value)}; {FORMS}.")
    if all(isinstance(item, str) for item in items) and any("/" in item for item in items):
        is_whole = any("/" in path and path in labels for path in items)
        paths = [tuple(path.split("/")) for path in items]
        for i, path in enumerate(paths):
            if "" in path:
                raise ValueError(
                    f"{name}[{i}] is {shown(items[i])}; give names between slashes, such as "
                    "'animal/cat'."
                )
        if is_whole:
            paths = [tuple("/".join(p[: k + 1]) for k in range(len(p))) for p in paths]
        return True, paths
    pairs = [item.tolist() if isinstance(item, np.ndarray) else item for item in items]
    for i, pair in enumerate(pairs):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise ValueError(f"{name}[{i}] is {shown(pair)}; {FORMS}.")
    return False, map(tuple, pairs)


def _chains_of_dict(value: Mapping[Any, Any], name: str) -> Iterator[tuple[Any, ...]]:
    """Read nested dicts without recursion."""
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    seen = set()
    for above, below in waiting:  # which grows
        if not isinstance(below, Mapping | list | tuple | None):
            raise TypeError(
                f"{name} has {shown(below)} below {shown(above[0])}; give a list of labels, a "
                "dict, or None for a leaf."
            )
        for label in below or ():
            yield (*above, label)
            if above and (*above, label) in seen:
                raise ValueError(
                    f"{name} names {shown(label)} twice below {shown(above[0])}; name each label "
                    "once."
                )
            seen.add((*above, label))
            if isinstance(below, Mapping):
                waiting.append(((label,), below[label]))


def check_order(
    edges: Sequence[tuple[Any, Any]], indicator: IntArray, labels: Sequence[Any]
) -> None:
    """Raise ValueError if pairs seem to be (child, parent), by the sets of labels.

    The order is refused if sets break it, and nearly all sets with the first label of a pair have
    the second, but not so the other way around.  It is refused more easily if only the other order
    gives each label one parent.  UserWarning if no set has a label that is below another.

    Parameters
    ----------
    edges : sequence of (parent, child)
        Labels of each edge.
    indicator : ndarray, shape (n_sets, n_labels)
        1 on the labels of each set.
    labels : sequence
        Labels of the columns of ``indicator``.
    """
    index = {label: i for i, label in enumerate(labels)}
    above, below = (np.array([index[label] for label in side]) for side in zip(*edges, strict=True))
    has_above, has_below = indicator[:, above] == 1, indicator[:, below] == 1
    is_open, is_open_turned = has_below & ~has_above, has_above & ~has_below
    n_met = int((has_above & has_below).sum())
    fit, turned_fit = (n_met / max(1, int(side.sum())) for side in (has_below, has_above))
    only_turned_is_tree = len(np.unique(above)) == len(above) and len(np.unique(below)) < len(below)
    seems_turned = turned_fit >= _NEARLY_ALL and fit < _NEARLY_ALL * turned_fit
    if only_turned_is_tree:
        seems_turned = turned_fit >= _SOME or (not n_met and bool(has_above.any()))
    breaks = is_open.any(axis=1)
    if seems_turned and (breaks.any() or not n_met):
        raise ValueError(
            f"hierarchy has pairs that seem to be (child, parent), such as {shown(edges[0])}: "
            f"{breaks.sum()} of {len(indicator)} sets of y have the second label of a pair without "
            f"the first, and {is_open_turned.any(axis=1).sum()} the first without the second. Give "
            "pairs (parent, child), or, if they are, add the labels above to the sets of y."
        )
    if not has_below.any():
        warn_user(
            f"hierarchy has no label above one of y, such as {shown(edges[0])}; give pairs "
            "(parent, child), or leave it out.",
            UserWarning,
        )


class HierarchicalMultiLabelTask(MultiLabelTask):
    """Sets of any of ``n_labels`` labels, with each label all labels above it.

    An input is a feature vector; its one part is the input itself.  A channel is a label, and a set
    scores the sum of its labels.  An output is an array (n_labels,) of 0 and 1 that is closed
    upwards: where a label is 1, all its parents are.

    The loss is the weight of the labels that are wrong, in all 1.  A label weighs three quarters of
    the mean weight of its parents (Vens and others, Machine Learning 2008, section 4.1).  The
    argmax is exact, by sums over a tree or a minimum cut; of equally good sets it leaves out labels
    that make no difference.  In the marginals no label is more probable than one above it; they
    exist for trees, and for at most 12 labels.

    Parameters
    ----------
    n_labels : int
        At least 2.
    edges : array-like of int, shape (n_edges, 2), dict, paths or networkx.DiGraph
        Pairs (parent, child) of labels, or another form of
        :mod:`structboost.tasks.hierarchical`.  A label may have several parents, but none is
        above itself.

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

    separates_in_batches = True
    # Names of the labels in errors, by default their indices.
    label_names: Sequence[Any] | None = None

    def __init__(self, n_labels: int, edges: Any) -> None:
        super().__init__(n_labels)
        check_memory(
            64 * self.n_labels, f"Weights and parents of {n_labels} labels", "take fewer labels"
        )
        pairs = _pairs(edges, self.n_labels)
        self.edges, self._hierarchy = checked_hierarchy(pairs, self.n_labels)
        self._order, self._starts, self._parents = self._hierarchy
        self.label_weights = self._weights()
        self._costs = np.stack((self.label_weights, self.label_weights))

    @override
    def outputs(self, x: Any) -> Iterator[IntArray]:
        return (labels for labels in super().outputs(x) if self._open_edge(labels) is None)

    @override
    def marginals_batch(self, X: Examples, scores: StackedParts) -> Marginals:
        rows = np.ascontiguousarray(scores.rows["x"], np.float64)
        expected, log_sums = np.empty(rows.shape), np.empty(len(rows))
        is_tree = (np.diff(self._starts) <= 1).all()
        if not is_tree and self.n_labels <= _MOST_LISTED:
            listed = ListedOutputs(self, None, {"x": (1, self.n_labels)})
            for i, row in enumerate(rows):
                of_row, log_sums[i] = listed.marginals({"x": row[None]})
                expected[i] = of_row["x"][0]
            return Marginals({"x": expected}, log_sums)
        if not is_tree:
            label = int(np.argmax(np.diff(self._starts)))
            name = label if self.label_names is None else self.label_names[label]
            raise TooManyOutputsError(
                f"Label {shown(name)} has several parents, and probabilities are known for trees, "
                f"and for at most {_MOST_LISTED} labels; leave edges out, or take "
                "formulation='one_slack', which is objective='hinge' of classifiers."
            )
        closed_set_probabilities(rows, self._hierarchy, expected, log_sums)
        return Marginals({"x": expected}, log_sums)

    def closed(self, sets: Any) -> AnyArray:
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
                weights[label] = _DECAY * weights[above].mean()
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


_FEWER_CLASSES = "group the classes, or leave the taxonomy out"


@dataclass(frozen=True)
class LabelTree:
    """A tree whose leaves are the classes.

    Parameters
    ----------
    parents : ndarray of int64, shape (n_nodes,)
        Parent of each node, -1 for the root; the leaves come first.
    n_classes : int
        Number of leaves.
    """

    parents: IntArray
    n_classes: int

    def codes(self) -> SignArray:
        """Make label codes with ancestors, (20) of StructBoost, shape (n_classes, n_channels).

        They are 1 on a class and its ancestors.  A channel is a node: the classes, then the inner
        nodes but the root, which all classes have in common.  MemoryError if the machine has too
        little memory.
        """
        n_nodes = len(self.parents)
        check_memory(
            self.n_classes * n_nodes, f"The codes of {self.n_classes} classes", _FEWER_CLASSES
        )
        root = int(np.flatnonzero(self.parents < 0)[0])
        code = np.zeros((self.n_classes, n_nodes), np.int8)
        for leaf in range(self.n_classes):
            code[leaf, self._path(leaf)] = 1
        return np.delete(code, root, axis=1)

    def losses(self) -> FloatArray:
        """Compute the height of the first common ancestor of each pair of classes, their loss."""
        n = self.n_classes
        heights: dict[int, int] = {}
        below: dict[int, list[int]] = {}
        for leaf in range(n):
            for height, node in enumerate(self._path(leaf)):
                heights[node] = max(height, heights.get(node, 0))
                below.setdefault(node, []).append(leaf)
        losses = np.zeros((n, n))
        # What is further down has fewer classes, and comes later.
        for node in sorted(below, key=lambda node: -heights[node]):
            losses[np.ix_(below[node], below[node])] = heights[node]
        return losses

    def _path(self, leaf: int) -> list[int]:
        """Return the nodes from a class up to the root, both included."""
        path = [leaf]
        while self.parents[path[-1]] >= 0:
            path.append(int(self.parents[path[-1]]))
        return path


def label_tree(taxonomy: Any, classes: Sequence[Hashable]) -> LabelTree:
    """Make the tree of ``classes`` in a taxonomy.

    Parameters
    ----------
    taxonomy : nested dicts, edges, paths or networkx.DiGraph
        Any form of :mod:`structboost.tasks.hierarchical`, whose leaves are the labels.
    classes : sequence
        The labels; other leaves are cut off.

    Returns
    -------
    tree : LabelTree
        Tree without inner nodes that have no class below them.  The order of the inner nodes
        depends on the tree and on ``classes`` alone, so that each form gives the same.

    Raises
    ------
    ValueError, TypeError
        If it is no tree, or lacks a class; the message names the node.
    MemoryError
        If the machine has too little memory for the losses of all pairs of classes.
    """
    n = len(classes)
    check_memory(8 * n**2, f"The losses of all pairs of {n} classes", _FEWER_CLASSES)
    hierarchy = read_hierarchy(taxonomy, classes, "taxonomy", is_tree=True)
    above = hierarchy.parents()
    for node, parents in enumerate(above):
        if len(parents) > 1:
            names = ", ".join(shown(hierarchy.labels[parent]) for parent in parents[:3])
            raise ValueError(
                f"taxonomy: node {shown(hierarchy.labels[node])} has {len(parents)} parents "
                f"({names}); a tree allows one."
            )
    leaves = _leaves_of(hierarchy, classes)
    return _ordered([parents[0] if parents else -1 for parents in above], leaves)


def saved_tree(parents: Any, n_classes: int) -> LabelTree:
    """Return the tree of a file, whose nodes keep their order.

    ValueError if the parents are those of no tree above ``n_classes`` classes.
    """
    array = np.array(parents)
    is_vector = array.ndim == 1 and array.dtype.kind in "iu" and len(array) > n_classes
    inner = array[array >= 0] if is_vector else array
    # One root, which is no class, and no class above another node.
    if (
        not is_vector
        or len(inner) != len(array) - 1
        or not n_classes <= inner.min() <= inner.max() < len(array)
        or array[:n_classes].min() < 0
    ):
        raise ValueError(f"its tree is {shown(parents)}, which is none above {n_classes} classes")
    edges = [(int(parent), child) for child, parent in enumerate(array) if parent >= 0]
    read_hierarchy(edges, (), "its tree")
    return LabelTree(array.astype(np.int64), n_classes)


def _leaves_of(hierarchy: LabelHierarchy, classes: Sequence[Hashable]) -> list[int]:
    """Return the node of each class, which must be a leaf."""
    inner = {parent for parent, _ in hierarchy.edges}
    at = {}
    for node, label in enumerate(hierarchy.labels):
        if node in inner:
            continue
        if label in at:
            raise ValueError(f"taxonomy names {shown(label)} twice; a tree reaches each node once.")
        at[label] = node
    for label in classes:
        if label not in at:
            raise ValueError(
                f"taxonomy lacks the class {shown(label)}; every class must be one of its leaves, "
                "without nodes below it."
            )
    return [at[label] for label in classes]


def _ordered(parents: list[int], leaves: list[int]) -> LabelTree:
    """Number the nodes that have a class below them.

    The classes come first, then the inner nodes: parents before children, and children in the order
    of their first classes.
    """
    # Node -1 is above all.
    below: dict[int, list[int]] = {}
    reached = {-1}
    for leaf in leaves:
        node = leaf
        while node not in reached:
            reached.add(node)
            below.setdefault(parents[node], []).append(node)
            node = parents[node]
    n, top = len(leaves), below[-1]
    index = {leaf: i for i, leaf in enumerate(leaves)}
    out = [-1] * (n + (len(top) > 1))
    waiting = [(node, n if len(top) > 1 else -1) for node in top[::-1]]
    while waiting:
        node, above = waiting.pop()
        if node in index:
            out[index[node]] = above
            continue
        here = len(out)
        out.append(above)
        waiting.extend((child, here) for child in below[node][::-1])
    return LabelTree(np.array(out, np.int64), n)


class TaxonomyTask(CodeTask):
    """Classes 0..n_classes-1 that are the leaves of a tree.

    Each node of the tree but the root is a channel.  The code of a class is 1 on itself and on its
    ancestors: Gamma(y) of (20).  The loss of two classes is the height of their first common
    ancestor; it also weighs the pairs of the exponential loss.  Of equally good classes the argmax
    takes the first.

    Parameters
    ----------
    taxonomy : LabelTree, nested dicts, edges, paths or networkx.DiGraph
        Tree whose leaves are the indices of the classes: ``{"animal": [0, 1], "tree": [2, 3]}``, or
        another form of :mod:`structboost.tasks.hierarchical`.
    n_classes : int, optional
        Number of classes, by default that of the leaves.

    Raises
    ------
    ValueError, TypeError
        If it is no tree of the classes.
    MemoryError
        If the losses of all pairs of classes do not fit into memory.

    Examples
    --------
    >>> from structboost import TaxonomyTask
    >>> TaxonomyTask({"animal": [0, 1], "tree": [2, 3]}).tree.losses()[0].tolist()
    [0.0, 1.0, 2.0, 2.0]
    """

    separates_in_batches = True

    def __init__(self, taxonomy: Any, n_classes: int | None = None) -> None:
        if not isinstance(taxonomy, LabelTree):
            if n_classes is None:
                # The classes are the indices of the leaves.
                tree = read_hierarchy(taxonomy, (), "taxonomy", is_tree=True)
                n_classes = len(tree.labels) - len({parent for parent, _ in tree.edges})
            n_classes = checked_whole_number(n_classes, "n_classes", least=2)
            taxonomy = label_tree(taxonomy, range(n_classes))
        if taxonomy.n_classes < 2:
            raise TaskError(f"taxonomy has {taxonomy.n_classes} classes; a task needs at least 2.")
        self.tree = taxonomy
        super().__init__(taxonomy.codes(), taxonomy.losses())
