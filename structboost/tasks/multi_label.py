"""Sets of labels with scores of labels, of pairs, or of the sets that were seen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Literal

import numpy as np
from scipy.special import expit, logsumexp, softmax

from structboost._typing import AnyArray, Examples, FloatArray, IntArray, override
from structboost.contract.parts import Marginals, PartKind, SparseFeature, StackedParts
from structboost.contract.separation import Separation
from structboost.contract.task import Lists, Separates, Validates
from structboost.errors import TaskError, on_example
from structboost.inference.arguments import as_array, not_negative
from structboost.inference.multi_label import best_expected_f1, most_violated_sets
from structboost.tasks.base import TableTask
from structboost.validation import checked_choice, checked_flag, checked_whole_number, shown

SetLoss = Literal["hamming", "subset", "f1"]
# With pairs of labels all sets are tried: there are 2^n of them.
_MOST_LABELS_IN_PAIRS = 10
# Losses of sets against each other that are computed at once, times labels: 32 megabytes.
_MOST_LOSSES = 1 << 22


class MultiLabelTask(TableTask, Lists, Separates, Validates):
    """Sets of any of ``n_labels`` labels.

    An input is a feature vector; its one part is the input itself.  A channel is a label, and a set
    scores the sum of its labels.  With ``pairs`` each pair of labels is a channel, too, and scores
    where both are there.  An output is an array (n_labels,) of 0 and 1.

    The argmax is exact for every loss; with ``pairs`` or ``sets`` all sets are tried.  Of equally
    good sets the argmax takes the one with the fewest labels; with ``pairs`` or ``sets`` the first
    in sorted order.

    Parameters
    ----------
    n_labels : int
        At least 2.
    loss : {"hamming", "subset", "f1"}
        Fraction of the labels that are wrong; 1 unless the sets are equal; or 1 minus the F1 of the
        two sets, ``2 |y and z| / (|y| + |z|)``, which is 1 if both are empty.
    pairs : bool
        Whether pairs of labels have channels.  Without ``sets``, for at most 10 labels.
    sets : array-like, shape (n_sets, n_labels), optional
        The only sets that are predicted, such as those seen in training.  Default: all.
    costs : array-like, shape (n_labels,) or (2, n_labels), optional
        Cost of each wrong label, with ``"hamming"`` only: the loss is the mean cost over the
        labels.  In two rows: the cost where it is missing, and where it is too many.  Default: 1
        each.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range.

    Notes
    -----
    With pairs of labels: Finley and Joachims, Training structural SVMs when exact inference is
    intractable, ICML 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost import MultiLabelTask
    >>> task = MultiLabelTask(3)
    >>> task.argmax([0.0], np.array([[1.0, -1.0, 0.5]]))
    array([1, 0, 1])
    >>> task.loss([1, 0, 1], [1, 1, 1])
    0.3333333333333333
    """

    separates_in_batches = True

    def __init__(
        self,
        n_labels: int,
        loss: SetLoss = "hamming",
        *,
        pairs: bool = False,
        sets: Any = None,
        costs: Any = None,
    ) -> None:
        self.n_labels = checked_whole_number(n_labels, "n_labels", least=2)
        self.loss_name = checked_choice(loss, "loss", SetLoss)
        # Parts of the loss: of labels that are missing, and of those that are too many.
        self._costs = None if costs is None else self._checked_costs(costs) / self.n_labels
        self.pairs = checked_flag(pairs, "pairs")
        self.sets = None
        if sets is not None:
            self.sets = np.unique(self._checked_sets(sets, "sets"), axis=0)
        elif pairs and self.n_labels > _MOST_LABELS_IN_PAIRS:
            raise TaskError(
                f"n_labels is {n_labels}; pairs needs at most {_MOST_LABELS_IN_PAIRS} labels, or "
                "sets (outputs='seen' of the classifier)."
            )
        elif pairs:
            self.sets = np.array(list(product((0, 1), repeat=self.n_labels)), np.int64)
        self._first, self._second = np.triu_indices(self.n_labels if pairs else 0, 1)
        self.kinds = {"x": PartKind(self.n_labels + len(self._first))}

    @override
    def joint_feature(self, x: Any, y: Any) -> FloatArray:
        return self._codes(self._checked(y)[None]).astype(np.float64)

    @override
    def loss(self, y: Any, y_pred: Any) -> float:
        return float(self._losses(self._checked(y)[None], self._checked(y_pred)[None])[0])

    @override
    def argmax_batch(
        self, X: Examples, scores: StackedParts, Y: Examples | None = None
    ) -> list[IntArray]:
        return list(self._best(scores.rows["x"], None if Y is None else self._truth(Y)))

    @override
    def outputs(self, x: Any) -> Iterator[IntArray]:
        if self.sets is not None:
            return iter(self.sets)
        return (np.array(labels) for labels in product((0, 1), repeat=self.n_labels))

    @override
    def is_valid(self, x: Any, y: Any) -> bool:
        try:
            labels = self._checked(y)
        except TaskError:
            return False
        return self.sets is None or bool((self.sets == labels).all(axis=1).any())

    @override
    def separate(self, X: Examples, Y: Examples, scores: StackedParts) -> Separation:
        truth = self._truth(Y)
        best = self._best(scores.rows["x"], truth)
        change = self._codes(truth) - self._codes(best)
        rows, channels = np.nonzero(change)
        difference = SparseFeature(rows, channels, change[rows, channels].astype(np.float64))
        indptr = np.searchsorted(rows, np.arange(len(truth) + 1)).astype(np.int64)
        return Separation(self._losses(truth, best), {"x": difference}, {"x": indptr})

    @override
    def marginals_batch(self, X: Examples, scores: StackedParts) -> Marginals:
        rows = np.asarray(scores.rows["x"], np.float64)
        if self.sets is None:
            return Marginals({"x": expit(rows)}, np.logaddexp(0.0, rows).sum(axis=1))
        codes = self._codes(self.sets).astype(np.float64)
        by_set = rows @ codes.T
        log_sums = logsumexp(by_set, axis=1)
        return Marginals({"x": np.exp(by_set - log_sums[:, None]) @ codes}, log_sums)

    def least_expected_loss(self, scores: FloatArray) -> IntArray:
        """Find the sets of the least expected loss where a set has probability ``~ exp(score)``.

        Parameters
        ----------
        scores : ndarray, shape (n, n_channels)
            Scores of each input.

        Returns
        -------
        sets : ndarray of int64, shape (n, n_labels)
            1 on the labels of each set.
        """
        if self.sets is None and self._costs is not None:
            missing, excess = self._costs
            is_cheaper = expit(scores) * missing > expit(-scores) * excess
            return np.asarray(is_cheaper, np.int64)
        if self.loss_name == "subset" or (self.sets is None and self.loss_name == "hamming"):
            return self._best(scores, None)
        if self.sets is None:
            best = np.empty(scores.shape, np.int64)
            best_expected_f1(expit(np.asarray(scores, np.float64)), best)
            return best
        probabilities = softmax(scores @ self._codes(self.sets).T, axis=1)
        at_once = max(1, _MOST_LOSSES // self.sets.size)
        blocks = np.split(self.sets[None], range(at_once, len(self.sets), at_once), axis=1)
        expected = [probabilities @ self._losses(self.sets[:, None], block) for block in blocks]
        return np.asarray(self.sets[np.argmin(np.hstack(expected), axis=1)])

    def _best(self, scores: FloatArray, truth: IntArray | None) -> IntArray:
        """Find the sets of highest score, plus loss where there is a truth."""
        if self.sets is not None:
            by_set = scores @ self._codes(self.sets).T
            if truth is not None:
                by_set = by_set + self._losses(truth[:, None], self.sets[None])
            return np.asarray(self.sets[np.argmax(by_set, axis=1)])
        if truth is None:
            return (scores > 0).astype(np.int64)
        if self._costs is not None:
            return (scores + self._gains(truth) > 0).astype(np.int64)
        return most_violated_sets(scores, truth, self.loss_name)

    def _gains(self, truth: IntArray) -> FloatArray:
        """Compute the Hamming loss of taking each label less that of leaving it out."""
        assert self._costs is not None
        missing, excess = self._costs
        return np.asarray(np.where(truth == 1, -missing, excess))

    def _losses(self, truth: IntArray, sets: IntArray) -> FloatArray:
        """Compute the losses over the last axis."""
        if self._costs is not None:
            missing, excess = self._costs
            return np.asarray((truth > sets) @ missing + (truth < sets) @ excess)
        if self.loss_name == "hamming":
            return np.asarray(np.mean(truth != sets, axis=-1))
        if self.loss_name == "subset":
            return np.asarray((truth != sets).any(axis=-1).astype(np.float64))
        size = truth.sum(axis=-1) + sets.sum(axis=-1)
        both = (truth * sets).sum(axis=-1)
        return np.asarray(np.where(size > 0, 1.0 - 2.0 * both / np.maximum(size, 1), 0.0))

    def _codes(self, sets: IntArray) -> IntArray:
        """List the labels and pairs of labels of each set, shape (n_sets, n_channels)."""
        if not self.pairs:
            return sets
        return np.hstack((sets, sets[:, self._first] * sets[:, self._second]))

    def _truth(self, Y: Examples) -> IntArray:
        """Return true sets as a table, or raise the error of the first wrong one."""
        try:
            return self._checked_sets(Y, "Y")
        except Exception:
            for i, y in enumerate(Y):
                on_example("joint_feature", i, self._checked, y)
            raise

    def _checked(self, y: Any) -> IntArray:
        labels = as_array(y)
        if labels.shape != (self.n_labels,) or not _is_binary(labels):
            raise TaskError(f"A set of labels is {shown(y)}; give {self.n_labels} entries, 0 or 1.")
        return labels.astype(np.int64)

    def _checked_costs(self, costs: Any) -> FloatArray:
        """Return costs in two rows."""
        if self.loss_name != "hamming":
            raise TaskError(
                f"costs goes with loss='hamming', and loss is {self.loss_name!r}; give one of them."
            )
        sides = (2,) if as_array(costs).ndim == 2 else ()
        table = not_negative(costs, "costs", (*sides, self.n_labels))
        if not table.any():
            raise TaskError("costs are all 0; give some above 0.")
        return np.broadcast_to(table, (2, self.n_labels))

    def _checked_sets(self, sets: Any, name: str) -> IntArray:
        table = as_array(sets)
        if table.ndim != 2 or table.shape[1] != self.n_labels or not len(table):
            raise TaskError(
                f"{name} has shape {table.shape}; give (n_sets, {self.n_labels}) entries, 0 or 1."
            )
        if not _is_binary(table):
            raise TaskError(f"{name} has entries that are neither 0 nor 1.")
        return table.astype(np.int64)


def _is_binary(table: AnyArray) -> bool:
    """Whether all entries are 0 or 1."""
    if table.dtype.kind not in "biuf":
        return bool(np.isin(table, (0, 1)).all())
    return bool(((table == 0) | (table == 1)).all())
