"""Forms of a hierarchy of labels, which all become nodes and edges.

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

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np

from structboost._typing import IntArray
from structboost.errors import warn_user
from structboost.validation import is_missing, shown

FORMS = (
    "give a dict of the labels below each label, pairs (parent, child), paths such as "
    "'animal/cat', or a networkx.DiGraph"
)
_MOST_SHOWN = 6
# Fractions of the sets with the first label of a pair that have the second, if the pair is turned.
_NEARLY_ALL, _SOME = 0.9, 0.3


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
    reader = _Reader(name, labels, is_tree=is_tree)
    reader.read(value)
    hierarchy = LabelHierarchy(reader.labels, list(reader.edges))
    _check_acyclic(hierarchy, name)
    if not hierarchy.edges:
        raise ValueError(f"{name} is {shown(value)}, in which no label is above another; {FORMS}.")
    return hierarchy


def check_order(
    edges: Sequence[tuple[Any, Any]], indicator: IntArray, labels: Sequence[Any], name: str
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
    name : str
        Name of the argument in errors.
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
    if not (seems_turned and (breaks.any() or not n_met)):
        if not has_below.any():
            warn_user(
                f"{name} has no label above one of y, such as {shown(edges[0])}; give pairs "
                "(parent, child), or leave it out.",
                UserWarning,
            )
        return
    raise ValueError(
        f"{name} has pairs that seem to be (child, parent), such as {shown(edges[0])}: "
        f"{breaks.sum()} of {len(indicator)} sets of y have the second label of a pair without the "
        f"first, and {is_open_turned.any(axis=1).sum()} the first without the second. Give pairs "
        "(parent, child), or, if they are, add the labels above to the sets of y."
    )


class _Reader:
    """Nodes and edges that have been read."""

    def __init__(self, name: str, user_labels: Sequence[Any], *, is_tree: bool) -> None:
        self.name, self.user_labels, self.is_tree = name, user_labels, is_tree
        self.labels: list[Any] = []
        self.edges: dict[tuple[int, int], None] = {}
        self._index: dict[Any, int] = {}

    def read(self, value: Any) -> None:
        if hasattr(value, "nodes") and hasattr(value, "edges"):
            return self._read_graph(value)
        if isinstance(value, Mapping):
            return self._read_dict(value)
        items = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(items, list | tuple):
            raise TypeError(f"{self.name} is {shown(value)}; {FORMS}.")
        if not items:
            raise ValueError(f"{self.name} is empty; {FORMS}.")
        if all(isinstance(item, str) for item in items) and any("/" in item for item in items):
            return self._read_paths(items)
        for i, item in enumerate(items):
            pair = item.tolist() if isinstance(item, np.ndarray) else item
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise ValueError(f"{self.name}[{i}] is {shown(item)}; {FORMS}.")
            self.edges[self.node(pair[0]), self.node(pair[1])] = None
        return None

    def node(self, label: Any, key: Any = None) -> int:
        """Return the index of the node of a label, or of a ``key`` with this label."""
        # Graphs may have tuples for nodes.
        is_plain = isinstance(label, str | bytes) or not hasattr(label, "__iter__")
        if is_plain and is_missing(label):
            raise ValueError(f"{self.name} has the label {shown(label)}; give each label a name.")
        key = ("label", label) if key is None else key
        try:
            index = self._index.setdefault(key, len(self.labels))
        except TypeError:
            raise TypeError(
                f"{self.name} has {shown(label)} in the place of a label; {FORMS}."
            ) from None
        if index == len(self.labels):
            self.labels.append(label)
        return index

    def _read_graph(self, graph: Any) -> None:
        is_directed = getattr(graph, "is_directed", None)
        if not callable(is_directed):
            raise TypeError(f"{self.name} is {shown(graph)}; {FORMS}.")
        if not is_directed():
            raise ValueError(
                f"{self.name} is an undirected graph, which does not say who is the parent; give a "
                "networkx.DiGraph with edges from parents to children."
            )
        if not len(graph):
            raise ValueError(f"{self.name} is a graph without nodes; {FORMS}.")
        for node in graph.nodes:
            self.node(node)
        for parent in graph.nodes:
            for child in graph.successors(parent):
                self.edges[self.node(parent), self.node(child)] = None

    def _read_dict(self, value: Mapping[Any, Any]) -> None:
        """Read nested dicts without recursion."""
        if not value:
            raise ValueError(f"{self.name} is empty; {FORMS}.")
        waiting: list[tuple[int | None, Any]] = [(None, value)]
        for above, below in waiting:  # which grows
            if not isinstance(below, Mapping | list | tuple | None):
                raise TypeError(
                    f"{self.name} has {shown(below)} below {shown(self.labels[above or 0])}; give "
                    "a list of labels, a dict, or None for a leaf."
                )
            for label in below or ():
                node = self.node(label)
                if isinstance(below, Mapping):
                    waiting.append((node, below[label]))
                if above is None:
                    continue
                if (above, node) in self.edges:
                    raise ValueError(
                        f"{self.name} names {shown(label)} twice below "
                        f"{shown(self.labels[above])}; name each label once."
                    )
                self.edges[above, node] = None

    def _read_paths(self, paths: Sequence[str]) -> None:
        whole = set(self.user_labels)
        is_whole = any("/" in path and path in whole for path in paths)
        for i, path in enumerate(paths):
            parts = path.split("/")
            if "" in parts:
                raise ValueError(
                    f"{self.name}[{i}] is {shown(path)}; give names between slashes, such as "
                    "'animal/cat'."
                )
            if is_whole:
                parts = ["/".join(parts[: k + 1]) for k in range(len(parts))]
            above = None
            for k, label in enumerate(parts):
                here = self.node(label, ("path", *parts[: k + 1]) if self.is_tree else None)
                if above is not None:
                    self.edges[above, here] = None
                above = here


def _check_acyclic(hierarchy: LabelHierarchy, name: str) -> None:
    """Raise ValueError, with the labels of a cycle, if there is one."""
    try:
        TopologicalSorter(dict(enumerate(hierarchy.parents()))).prepare()
    except CycleError as error:
        names = [shown(hierarchy.labels[node]) for node in error.args[1]]
        if len(names) > _MOST_SHOWN + 1:
            names[_MOST_SHOWN - 1 : -1] = ["..."]
        raise ValueError(
            f"{name} has a cycle, in which a label is above itself: {' > '.join(names)}; take one "
            "pair of this cycle away."
        ) from None
