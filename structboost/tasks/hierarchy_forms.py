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

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    is_paths, chains = _chains(value, set(labels), name)
    index: dict[Any, int] = {}
    names: list[Any] = []
    edges: dict[tuple[int, int], None] = {}
    for chain in chains:
        above = None
        for k, label in enumerate(chain):
            # Graphs may have tuples for nodes.
            is_plain = isinstance(label, str | bytes) or not hasattr(label, "__iter__")
            if is_plain and is_missing(label):
                raise ValueError(f"{name} has the label {shown(label)}; give each label a name.")
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
        cycle = [shown(names[node]) for node in error.args[1]]
        if len(cycle) > _MOST_SHOWN + 1:
            cycle[_MOST_SHOWN - 1 : -1] = ["..."]
        raise ValueError(
            f"{name} has a cycle, in which a label is above itself: {' > '.join(cycle)}; take one "
            "pair of this cycle away."
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
