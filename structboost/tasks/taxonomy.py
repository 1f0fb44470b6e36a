"""Classification with a taxonomy (StructBoost, section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import TaskError
from structboost.inference.label_tree import LabelTree, label_tree
from structboost.task import Measure, OutputCodes, PartKind, Separation, StackedParts, Task
from structboost.tasks.tables import checked_classes, stack_table


class TaxonomyTask(Task):
    """Classes 0..n_classes-1 that are the leaves of a tree.

    A channel is a node of the tree but the root; the code of a class is 1 on itself and its ancestors (20), its
    score the sum of theirs.  The loss of two classes is the height of their first common ancestor.

    Parameters
    ----------
    taxonomy : LabelTree, nested lists, parent array or networkx.DiGraph
        The leaves are the numbers of the classes: ``[[0, 1], [2, [3, 4]]]``
        (:func:`structboost.inference.label_tree.label_tree`).
    n_classes : int, optional
        Default: the leaves of nested lists; needed with other forms.
    """

    reads_inputs: ClassVar[bool] = False

    def __init__(self, taxonomy: Any, n_classes: int | None = None) -> None:
        if not isinstance(taxonomy, LabelTree):
            if n_classes is None:
                n_classes = len(_leaves(taxonomy))
            taxonomy = label_tree(taxonomy, range(n_classes))
        if taxonomy.n_classes < 2:
            raise TaskError(f"taxonomy has {taxonomy.n_classes} classes; a task needs at least 2.")
        self.tree = taxonomy
        self.n_classes = taxonomy.n_classes
        self._codes = taxonomy.codes()
        self._losses = taxonomy.losses()
        self.kinds = {"x": PartKind(n_channels=self._codes.shape[1], response=(-1.0, 1.0))}

    def parts(self, x: Any) -> NDArray[Any]:
        """The input as one row."""
        return np.asarray(x).reshape(1, -1)

    def joint_feature(self, x: Any, y: Any) -> tuple[list[int], list[int], list[float]]:
        """One on the class and its ancestors: Gamma(y) of (20)."""
        channels = np.flatnonzero(self._codes[int(y)]).tolist()
        return [0] * len(channels), channels, [1.0] * len(channels)

    def loss(self, y: Any, y_pred: Any) -> float:
        """Height of the first common ancestor."""
        return float(self._losses[int(y), int(y_pred)])

    def argmax(self, x: Any, scores: NDArray[np.float64], y: Any = None) -> int:
        """Class of the highest score; with ``y`` every class gains its loss."""
        by_class = self.class_scores(scores)[0]
        return int(np.argmax(by_class if y is None else by_class + self._losses[int(y)]))

    def class_scores(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of the classes from those of the nodes, shape (n_parts, n_classes)."""
        return np.asarray(scores @ self._codes.T, np.float64)

    def stack(self, X: Sequence[Any]) -> StackedParts:
        """All inputs as the rows of one table."""
        return stack_table(X)

    def separate(self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts) -> Separation:
        """Class of the largest loss plus score for every example, in one pass."""
        labels = checked_classes(Y, self.n_classes, "TaxonomyTask")
        rivals = (self.class_scores(scores.rows["x"]) + self._losses[labels]).argmax(axis=1)
        rows, channels = np.nonzero(self._codes[labels] != self._codes[rivals])
        values = (self._codes[labels[rows], channels] - self._codes[rivals[rows], channels]).astype(np.float64)
        indptr = np.searchsorted(rows, np.arange(len(labels) + 1)).astype(np.int64)
        return Separation(self._losses[labels, rivals], {"x": Measure(rows, channels, values)}, {"x": indptr})

    def codes(self, Y: Sequence[Any]) -> OutputCodes:
        """The codes with ancestors and the tree loss: pairs of the exponential loss are weighted by it."""
        return OutputCodes(self._codes, checked_classes(Y, self.n_classes, "TaxonomyTask"), self._losses)


def _leaves(taxonomy: Any) -> list[Any]:
    """Leaves of nested lists."""
    if not isinstance(taxonomy, (list, tuple)):
        return [taxonomy]
    return [leaf for node in taxonomy for leaf in _leaves(node)]
