"""Forms of a hierarchy of labels, which all become nodes and edges.

The argument ``taxonomy`` of classifiers and ``hierarchy`` of label sets take the same forms:

================================== ============================================================
form                               example
================================== ============================================================
nested lists                       ``[["cat", "dog"], ["oak", "elm"]]``
nested dicts                       ``{"animal": ["cat", "dog"], "tree": {"oak": None, "elm": []}}``
dict of child to parent            ``{"cat": "animal", "dog": "animal", "oak": "tree"}``
pairs (parent, child)              ``[("animal", "cat"), ("animal", "dog"), ("tree", "oak")]``
paths                              ``["animal/cat", "animal/dog", "tree/oak"]``
a column for each level            a data frame, or an array of two dimensions, with a row for each
                                   leaf: ``animal | cat``; shorter rows end with missing values
parent array                       ``[4, 4, 5, 5, 6, 6, -1]``: the parent of each node by its index,
                                   -1 for none; the labels come first
``networkx.DiGraph``               edges from parents to children
================================== ============================================================

Where a value has two readings, these rules decide:

- A dict whose values are lists, tuples, dicts or None maps parents to children.  One whose values
  are labels maps children to parents, and None stands for no parent.
- A list of pairs of labels is one of edges, if a label is in two of them.  Otherwise a taxonomy
  reads it as nested lists, which give the same tree of the leaves, and a hierarchy as edges.
- A list of strings is one of paths, if one of them has a slash.  The labels are the last parts of
  the paths, or the whole paths if these are labels.  In other forms a slash is a part of a label.
- A table of two columns is one of edges, from the first to the second, or from ``parent`` to
  ``child`` if these are their names.  Of more columns, each row is a path.
- A list of whole numbers of which one is -1 is a parent array.  In a hierarchy of as many labels,
  each node is a label.
- Any other flat list of labels is a taxonomy of one level, in which a wrong class costs 1.  It is
  no hierarchy, since no label is above another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from structboost._typing import IntArray
from structboost.errors import warn_user
from structboost.validation import is_missing, is_whole, shown

FORMS = (
    "give nested lists or dicts of labels, a dict of the parent of each label, pairs (parent, "
    "child), paths such as 'animal/cat', a data frame or array with a column for each level, a "
    "parent array, or a networkx.DiGraph"
)
_MOST_SHOWN = 6
# Fractions of the sets with the first label of a pair that have the second, if the pair is turned.
_NEARLY_ALL, _SOME = 0.9, 0.3


class _Unnamed:
    """Label of a node that has none."""

    def __repr__(self) -> str:
        return "a list"


UNNAMED = _Unnamed()


class LabelHierarchy(NamedTuple):
    """Nodes of a hierarchy, and edges from parents to children.

    Attributes
    ----------
    labels : list
        Label of each node; ``UNNAMED`` for inner nodes without one.
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
        """Return labels of parents and children, past nodes without a label."""
        above = self.parents()
        edges: dict[tuple[Any, Any], None] = {}
        for node, label in enumerate(self.labels):
            if label is UNNAMED:
                continue
            waiting, reached = list(above[node][::-1]), set()
            while waiting:
                parent = waiting.pop()
                if parent in reached:
                    continue
                reached.add(parent)
                if self.labels[parent] is UNNAMED:
                    waiting.extend(above[parent][::-1])
                else:
                    edges[self.labels[parent], label] = None
        return list(edges)


def read_hierarchy(
    value: Any, labels: Sequence[Any], name: str, *, pairs_are_edges: bool = False
) -> LabelHierarchy:
    """Read a hierarchy in any of its forms.

    Parameters
    ----------
    value : object
        LabelHierarchy in one of the forms above.
    labels : sequence
        Labels of the user, for parent arrays and whole paths.
    name : str
        Name of the argument in errors.
    pairs_are_edges : bool
        Whether pairs are edges even if no label is in two of them.

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
    reader = _Reader(name, labels, pairs_are_edges=pairs_are_edges)
    reader.read(value)
    hierarchy = LabelHierarchy(reader.labels, list(reader.edges))
    _check_acyclic(hierarchy, name)
    if not (hierarchy.named_edges() if pairs_are_edges else hierarchy.edges):
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

    def __init__(self, name: str, labels: Sequence[Any], *, pairs_are_edges: bool) -> None:
        self.name = name
        self.of_user = labels
        self.pairs_are_edges = pairs_are_edges
        self.labels: list[Any] = []
        self.edges: dict[tuple[int, int], None] = {}
        self._index: dict[Any, int] = {}

    def read(self, value: Any) -> None:
        if hasattr(value, "nodes") and hasattr(value, "edges"):
            return self._read_graph(value)
        if isinstance(value, Mapping):
            return self._read_dict(value)
        rows = _table(value)
        if rows is not None:
            return self._read_table(rows)
        if isinstance(value, np.ndarray):
            if value.ndim != 1:
                raise ValueError(f"{self.name} has shape {value.shape}; {FORMS}.")
            value = value.tolist()
        elif _is_series(value):
            value = list(value)
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{self.name} is {shown(value)}; {FORMS}.")
        if not value:
            raise ValueError(f"{self.name} is empty; {FORMS}.")
        if any(_is_container(item) for item in value):
            return self._read_nested_or_pairs(value)
        if _is_parent_array(value):
            return self._read_parents(value)
        if all(isinstance(item, str) for item in value) and any("/" in item for item in value):
            return self._read_paths(value)
        for item in value:
            self._check_item(item, value)
        if not self.pairs_are_edges:
            # All classes below one root.
            return self._read_nested(value)
        raise ValueError(
            f"{self.name} is {shown(value)}, a flat list; {FORMS}. Leave {self.name} out if no "
            "label is above another."
        )

    def node(self, label: Any, key: Any = None) -> int:
        """Return the index of the node of a label, or of a ``key`` with this label."""
        if not isinstance(label, tuple | frozenset):  # which graphs may have for nodes
            self._check_item(label, label)
        if _is_none(label):
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

    def unnamed(self) -> int:
        """Return the index of a new node without a label."""
        self.labels.append(UNNAMED)
        return len(self.labels) - 1

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
        if not value:
            raise ValueError(f"{self.name} is empty; {FORMS}.")
        of_lists = [key for key, below in value.items() if _is_container(below)]
        of_labels = [
            key for key, other in value.items() if not _is_container(other) and not _is_none(other)
        ]
        for key in of_labels:
            self._check_item(value[key], value, f"[{shown(key)}]")
        if of_lists and of_labels:
            raise ValueError(
                f"{self.name}[{shown(of_lists[0])}] is {shown(value[of_lists[0]])} and "
                f"{self.name}[{shown(of_labels[0])}] is {shown(value[of_labels[0]])}; give the "
                "list of children of each label, or the parent of each label."
            )
        if of_lists:
            self._read_nested(value)
            return
        for child, parent in value.items():
            node = self.node(child)
            if not _is_none(parent):
                self.edges[self.node(parent), node] = None

    def _read_table(self, rows: list[tuple[Any, ...]]) -> None:
        width = len(rows[0]) if rows else 0
        if width < 2:
            raise ValueError(
                f"{self.name} is a table of {len(rows)} rows and {width} columns; give at least "
                "two columns, one for each level, or one of parents and one of children."
            )
        for i, row in enumerate(rows):
            path = [label for label in row if not (_is_none(label) or _is_empty(label))]
            if width == 2:
                nodes = [self.node(label) for label in path]
                if len(nodes) == 2:
                    self.edges[nodes[0], nodes[1]] = None
            elif any(_is_none(label) or _is_empty(label) for label in row[: len(path)]):
                raise ValueError(
                    f"{self.name}: row {i} is {shown(row)}; give a label at each level down to the "
                    "leaf, and missing values only after it."
                )
            else:
                self._add_path(path)

    def _read_paths(self, paths: Sequence[str]) -> None:
        whole = set(self.of_user)
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
            self._add_path(parts)

    def _add_path(self, path: Sequence[Any]) -> None:
        """Add the nodes and edges of a path.

        A taxonomy has a node for each place, and a hierarchy has one for each label.
        """
        above = None
        for k, label in enumerate(path):
            by_place = None if self.pairs_are_edges else ("path", tuple(path[: k + 1]))
            here = self.node(label, by_place)
            if above is not None:
                self.edges[above, here] = None
            above = here

    def _read_parents(self, parents: Sequence[int]) -> None:
        n = len(parents)
        for i, parent in enumerate(parents):
            if not -1 <= parent < n:
                raise ValueError(
                    f"{self.name}[{i}] is {parent}; a parent is a node in 0..{n - 1}, or -1 for "
                    "the root."
                )
        is_short = n < len(self.of_user) or (n == len(self.of_user) and not self.pairs_are_edges)
        if is_short:
            raise ValueError(
                f"{self.name} has {n} nodes for {len(self.of_user)} "
                + (
                    "labels; give the parent of each."
                    if self.pairs_are_edges
                    else "classes; it needs a root above them."
                )
            )
        nodes = [self.node(label) for label in self.of_user]
        nodes += [self.unnamed() for _ in range(n - len(nodes))]
        for child, parent in enumerate(parents):
            if parent >= 0:
                self.edges[nodes[parent], nodes[child]] = None

    def _read_nested_or_pairs(self, value: Sequence[Any]) -> None:
        if all(_is_pair(item) for item in value):
            pairs = [item.tolist() if isinstance(item, np.ndarray) else item for item in value]
            labels = [label for pair in pairs for label in pair]
            if self.pairs_are_edges or _has_repeated(labels):
                for parent, child in pairs:
                    self.edges[self.node(parent), self.node(child)] = None
                return
        elif self.pairs_are_edges and not all(
            isinstance(item, Mapping) or not _is_container(item) for item in value
        ):
            i = next(i for i, item in enumerate(value) if not _is_pair(item))
            raise ValueError(
                f"{self.name}[{i}] is {shown(value[i])}; give pairs (parent, child) of labels, or "
                "nested dicts, because lists give no label to what is above others."
            )
        self._read_nested(value)

    def _read_nested(self, value: Any) -> None:
        """Read nested lists and dicts without recursion."""
        top = self.unnamed() if not isinstance(value, Mapping) else None
        # Containers with the node above them, and the end of those that are open.
        waiting: list[tuple[Any, int | None, bool]] = [(value, top, False)]
        is_open: set[int] = set()
        while waiting:
            container, above, is_end = waiting.pop()
            if is_end:
                is_open.discard(id(container))
                continue
            if id(container) in is_open:
                raise ValueError(f"{self.name} has a list that contains itself; {FORMS}.")
            is_open.add(id(container))
            waiting.append((container, None, True))
            below: list[tuple[Any, int | None, bool]] = []
            if isinstance(container, Mapping):
                for key, children in container.items():
                    node = self.node(key)
                    if above is not None:
                        self._add_once(above, node)
                    if not _is_container(children):
                        if not _is_none(children):
                            raise ValueError(
                                f"{self.name} has {shown(children)} below {shown(key)}; give a "
                                "list of labels, a dict, or None for a leaf."
                            )
                    elif len(children):
                        below.append((children, node, False))
            else:
                if not len(container):
                    raise ValueError(
                        f"{self.name} has an empty list; every inner node needs a class below it."
                    )
                for item in container:
                    if isinstance(item, Mapping):
                        below.append((item, above, False))
                    elif _is_container(item):
                        inner = self.unnamed()
                        if above is not None:
                            self.edges[above, inner] = None
                        below.append((item, inner, False))
                    else:
                        self._check_item(item, value)
                        if above is not None:
                            self._add_once(above, self.node(item))
            waiting.extend(below[::-1])

    def _add_once(self, parent: int, child: int) -> None:
        if (parent, child) in self.edges:
            raise ValueError(
                f"{self.name} names {shown(self.labels[child])} twice; a tree reaches each node "
                "once."
            )
        self.edges[parent, child] = None

    def _check_item(self, item: Any, value: Any, place: str = "") -> None:
        """Raise TypeError if a label is a container that is none of the forms."""
        if _is_label(item):
            return
        where = f"{self.name}{place}" if place else f"{self.name}, which is {shown(value)}, has"
        raise TypeError(f"{where} {'is ' if place else ''}{shown(item)}; {FORMS}.")


def _check_acyclic(hierarchy: LabelHierarchy, name: str) -> None:
    """Raise ValueError, with the labels of a cycle, if there is one."""
    below: list[list[int]] = [[] for _ in hierarchy.labels]
    n_above = [0] * len(hierarchy.labels)
    for parent, child in hierarchy.edges:
        below[parent].append(child)
        n_above[child] += 1
    order = [node for node, count in enumerate(n_above) if not count]
    for node in order:  # which grows
        for child in below[node]:
            n_above[child] -= 1
            if not n_above[child]:
                order.append(child)
    if len(order) == len(n_above):
        return
    above = hierarchy.parents()
    path = [next(node for node, count in enumerate(n_above) if count)]
    while path[-1] not in path[:-1]:
        path.append(next(parent for parent in above[path[-1]] if n_above[parent]))
    cycle = [hierarchy.labels[node] for node in path[path.index(path[-1]) :][::-1]]
    names = [shown(label) for label in cycle]
    if len(names) > _MOST_SHOWN + 1:
        names[_MOST_SHOWN - 1 : -1] = ["..."]
    raise ValueError(
        f"{name} has a cycle, in which a label is above itself: {' > '.join(names)}; take one pair "
        "of this cycle away."
    )


def _is_container(item: Any) -> bool:
    if isinstance(item, np.ndarray):
        return item.ndim > 0
    return isinstance(item, (list, tuple, Mapping))


def _is_none(label: Any) -> bool:
    """Whether a label is missing, such as None or NaN."""
    return _is_label(label) and is_missing(label)


def _is_label(item: Any) -> bool:
    """Whether an item may be a label, because it has no items of its own."""
    return isinstance(item, (str, bytes)) or not hasattr(item, "__iter__")


def _is_empty(label: Any) -> bool:
    return isinstance(label, str) and not label


def _is_pair(item: Any) -> bool:
    is_list = isinstance(item, (list, tuple)) or (isinstance(item, np.ndarray) and item.ndim == 1)
    return is_list and len(item) == 2 and not any(_is_container(part) for part in item)


def _has_repeated(labels: Iterable[Any]) -> bool:
    labels = list(labels)
    try:
        return len(set(labels)) < len(labels)
    except TypeError:  # the reader names what has no hash
        return False


def _is_parent_array(value: Sequence[Any]) -> bool:
    """Whether all entries are whole numbers and exactly one is -1."""
    are_whole = all(is_whole(item) for item in value)
    return are_whole and sum(int(item == -1) for item in value) == 1


def _is_series(value: Any) -> bool:
    return isinstance(
        nw.from_native(value, series_only=True, allow_series=True, pass_through=True), nw.Series
    )


def _table(value: Any) -> list[tuple[Any, ...]] | None:
    """Return the rows of a data frame or of an array of two dimensions, or None."""
    if isinstance(value, np.ndarray):
        return [tuple(row) for row in value.tolist()] if value.ndim == 2 else None
    frame = nw.from_native(value, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    by_name = {str(name).lower(): name for name in frame.columns}
    if len(frame.columns) == len(by_name) and set(by_name) == {"parent", "child"}:
        frame = frame.select(by_name["parent"], by_name["child"])
    return list(frame.rows())
