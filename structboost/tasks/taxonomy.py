"""Classification with a taxonomy (StructBoost, section 3.4)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.errors import TaskError
from structboost.runtime.memory import check_memory
from structboost.tasks.classes import CodeTask
from structboost.tasks.hierarchical import LabelHierarchy, read_hierarchy
from structboost.validation import checked_whole_number, shown

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

    def codes(self) -> NDArray[np.int8]:
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
    at: dict[Any, int] = {}
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
