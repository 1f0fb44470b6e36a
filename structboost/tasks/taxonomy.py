"""Classification with a taxonomy (StructBoost, section 3.4)."""

from __future__ import annotations

from typing import Any

from structboost.errors import TaskError
from structboost.tasks.checks import as_task_error, checked_size
from structboost.tasks.code import CodeTask
from structboost.tasks.label_tree import LabelTree, label_tree, n_leaves


class TaxonomyTask(CodeTask):
    """Classes 0..n_classes-1 that are the leaves of a tree.

    Each node of the tree but the root is a channel.  The code of a class is 1 on itself and on its
    ancestors: Gamma(y) of (20).  The loss of two classes is the height of their first common
    ancestor; it also weighs the pairs of the exponential loss.  Of equally good classes the argmax
    takes the first.

    Parameters
    ----------
    taxonomy : LabelTree, nested lists or dicts, edges, paths, table, parents or networkx.DiGraph
        Tree whose leaves are the indices of the classes: ``[[0, 1], [2, [3, 4]]]``, or another form
        of :mod:`structboost.tasks.hierarchy_forms`.
    n_classes : int, optional
        Number of classes.  Default: the leaves; a parent array needs it.

    Raises
    ------
    TaskError
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
                n_classes = as_task_error(n_leaves, taxonomy)
            n_classes = checked_size(n_classes, "n_classes")
            taxonomy = as_task_error(label_tree, taxonomy, range(n_classes))
        if taxonomy.n_classes < 2:
            raise TaskError(f"taxonomy has {taxonomy.n_classes} classes; a task needs at least 2.")
        self.tree = taxonomy
        super().__init__(taxonomy.codes(), taxonomy.losses())
