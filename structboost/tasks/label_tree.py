"""Trees of labels: ancestors of each class, and the height at which two classes meet."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray


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

    @property
    def paths(self) -> list[list[int]]:
        """Nodes from each class up to the root, both included."""
        out = []
        for leaf in range(self.n_classes):
            path = [leaf]
            while self.parents[path[-1]] >= 0:
                path.append(int(self.parents[path[-1]]))
            out.append(path)
        return out

    def codes(self) -> NDArray[np.int8]:
        """Make label codes with ancestors, (20) of StructBoost.

        Returns
        -------
        code : ndarray of int8, shape (n_classes, n_channels)
            1 on a class and its ancestors.  A channel is a node: the classes, then the inner nodes
            but the root, which all classes have in common.
        """
        root = int(np.flatnonzero(self.parents < 0)[0])
        code = np.zeros((self.n_classes, len(self.parents)), np.int8)
        for leaf, path in enumerate(self.paths):
            code[leaf, path] = 1
        return np.delete(code, root, axis=1)

    def losses(self) -> FloatArray:
        """Compute the loss of each pair of classes: the height of their first common ancestor."""
        heights = np.zeros(len(self.parents))
        for path in self.paths:
            heights[path] = np.maximum(heights[path], np.arange(len(path)))
        out = np.zeros((self.n_classes, self.n_classes))
        for a, path in enumerate(self.paths):
            for b, other in enumerate(self.paths):
                above = set(other)
                out[a, b] = heights[next(node for node in path if node in above)]
        return out


def label_tree(taxonomy: Any, classes: Sequence[Hashable]) -> LabelTree:
    """Make the tree of ``classes`` in a taxonomy.

    Parameters
    ----------
    taxonomy : nested sequences, parent array or networkx.DiGraph
        Nested lists or tuples of labels, an inner list for each inner node: ``[["car", "bus"],
        ["cat", "dog"]]``.  A parent array: the index of the parent of each node, -1 for the root;
        nodes 0..n_classes-1 are the classes in the order of ``classes``.  A directed graph from
        parents to children whose leaves are the labels.
    classes : sequence
        The labels; other leaves are cut off.

    Returns
    -------
    tree : LabelTree
        Tree without inner nodes that have no class below them.

    Raises
    ------
    ValueError
        If it is no tree, or lacks a class; the message names the node.
    """
    if hasattr(taxonomy, "successors"):
        children, root = _of_graph(taxonomy)
    elif _is_parent_array(taxonomy):
        children, root = _of_parents(np.asarray(taxonomy, np.int64), classes)
    else:
        children, root = _of_nested(taxonomy)
    return _assemble(children, root, list(classes))


Children = dict[Any, list[Any]]


class _Inner:
    """An inner node without a name."""


def _is_parent_array(taxonomy: Any) -> bool:
    """Return whether it is one-dimensional, of whole numbers, with exactly one -1."""
    try:
        array = np.asarray(taxonomy)
    except ValueError:
        return False
    return array.ndim == 1 and array.dtype.kind in "iu" and int((array == -1).sum()) == 1


def _of_parents(parents: IntArray, classes: Sequence[Hashable]) -> tuple[Children, Any]:
    n = len(parents)
    bad = np.flatnonzero((parents < -1) | (parents >= n))
    if len(bad):
        raise ValueError(
            f"taxonomy[{bad[0]}] is {parents[bad[0]]}; a parent is a node in 0..{n - 1}, or -1 "
            "for the root."
        )
    if n <= len(classes):
        raise ValueError(
            f"taxonomy has {n} nodes for {len(classes)} classes; it needs a root above them."
        )
    names = [*classes, *(_Inner() for _ in range(n - len(classes)))]
    children: Children = {}
    for node, parent in enumerate(parents):
        if parent >= 0:
            children.setdefault(names[parent], []).append(names[node])
    return children, names[int(np.flatnonzero(parents == -1)[0])]


def _of_graph(graph: Any) -> tuple[Children, Any]:
    roots = [node for node in graph.nodes if graph.in_degree(node) == 0]
    many = [node for node in graph.nodes if graph.in_degree(node) > 1]
    if many:
        raise ValueError(
            f"taxonomy: node {many[0]!r} has {graph.in_degree(many[0])} parents; a tree allows one."
        )
    if len(roots) != 1:
        raise ValueError(f"taxonomy has {len(roots)} nodes without a parent; a tree has one root.")
    return {node: list(graph.successors(node)) for node in graph.nodes}, roots[0]


def _of_nested(taxonomy: Any) -> tuple[Children, Any]:
    if isinstance(taxonomy, str) or not isinstance(taxonomy, Iterable):
        raise ValueError(
            f"taxonomy is {taxonomy!r}; give nested lists of labels, a parent array or a "
            "networkx.DiGraph."
        )
    children: Children = {}

    def visit(node: Any) -> Any:
        if isinstance(node, str) or not isinstance(node, Iterable):
            return node
        inner = _Inner()
        children[inner] = [visit(child) for child in node]
        if not children[inner]:
            raise ValueError("taxonomy has an empty list; every inner node needs a class below it.")
        return inner

    return children, visit(taxonomy)


def _assemble(children: Children, root: Any, classes: list[Any]) -> LabelTree:
    """Index the nodes that have a class below them, classes first."""
    index = {label: i for i, label in enumerate(classes)}
    parents: dict[int, int] = {}
    inner: list[Any] = []
    reached: set[Any] = set()

    def visit(node: Any, above: int) -> None:
        if node in reached:
            raise ValueError(f"taxonomy names {node!r} twice; a tree reaches each node once.")
        reached.add(node)
        below = children.get(node, [])
        if not below:
            if node in index:
                parents[index[node]] = above
            return
        if node in index:
            raise ValueError(
                f"taxonomy: the class {node!r} has nodes below it; classes must be leaves."
            )
        inner.append(node)
        here = len(classes) + len(inner) - 1
        parents[here] = above
        for child in below:
            visit(child, here)

    visit(root, -1)
    missing = [label for i, label in enumerate(classes) if i not in parents]
    if missing:
        raise ValueError(
            f"taxonomy lacks the class {missing[0]!r}; every class must be one of its leaves."
        )
    return _pruned(parents, len(classes))


def _pruned(parents: dict[int, int], n_classes: int) -> LabelTree:
    """Leave out inner nodes that have no class below them."""
    used = set(range(n_classes))
    for leaf in range(n_classes):
        node = parents[leaf]
        while node >= 0:
            used.add(node)
            node = parents[node]
    nodes = sorted(used)
    place = {node: i for i, node in enumerate(nodes)} | {-1: -1}
    return LabelTree(np.array([place[parents[node]] for node in nodes], np.int64), n_classes)
