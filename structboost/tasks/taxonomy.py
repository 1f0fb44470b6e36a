"""Classification with a taxonomy (StructBoost, section 3.4)."""

from __future__ import annotations

from typing import Any

from structboost.exceptions import TaskError
from structboost.tasks.code import CodeTask
from structboost.tasks.label_tree import LabelTree, label_tree


class TaxonomyTask(CodeTask):
    """Classes 0..n_classes-1 that are the leaves of a tree.

    Each node of the tree but the root is a channel.  The code of a class is 1 on itself and on its
    ancestors: Gamma(y) of (20).  The loss of two classes is the height of their first common
    ancestor; it also weighs the pairs of the exponential loss.

    Parameters
    ----------
    taxonomy : LabelTree, nested lists, parent array or networkx.DiGraph
        Tree whose leaves are the indices of the classes: ``[[0, 1], [2, [3, 4]]]``
        (:func:`structboost.tasks.label_tree.label_tree`).
    n_classes : int, optional
        Number of classes.  Default: the leaves of nested lists; other forms need it.
    """

    def __init__(self, taxonomy: Any, n_classes: int | None = None) -> None:
        if not isinstance(taxonomy, LabelTree):
            if n_classes is None:
                n_classes = len(_leaves(taxonomy))
            taxonomy = label_tree(taxonomy, range(n_classes))
        if taxonomy.n_classes < 2:
            raise TaskError(f"taxonomy has {taxonomy.n_classes} classes; a task needs at least 2.")
        self.tree = taxonomy
        super().__init__(taxonomy.codes(), taxonomy.losses())


def _leaves(taxonomy: Any) -> list[Any]:
    """List the leaves of nested lists."""
    if not isinstance(taxonomy, (list, tuple)):
        return [taxonomy]
    return [leaf for node in taxonomy for leaf in _leaves(node)]
