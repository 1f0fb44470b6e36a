"""One-to-one matchings of two sets, an assignment problem."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray, override
from structboost.contract.parts import PartKind, SparseFeature
from structboost.contract.task import Decomposes, Lists, Searches, Task, Validates
from structboost.errors import TaskError
from structboost.inference.arguments import checked_features, labels_of, passes, real_array
from structboost.inference.matching import best_candidates, best_matching, candidate_pairs
from structboost.tasks.base import indicator
from structboost.validation import checked_flag, checked_whole_number, shown


@dataclass(frozen=True, eq=False)
class CandidatePairs:
    """Some pairs of two sets, the input of :class:`MatchingTask`.

    Parameters
    ----------
    n_left, n_right : int
        Sizes of the two sets.
    pairs : ndarray of int64, shape (n_pairs, 2)
        The candidates, each once: left member and right member, counted from 0.
    features : ndarray, shape (n_pairs, n_features)
        Features of each pair.

    Raises
    ------
    ValueError
        If a size is no whole number from 0, the arrays do not fit, or a pair occurs twice.
    """

    n_left: int
    n_right: int
    pairs: IntArray
    features: AnyArray

    def __post_init__(self) -> None:
        for name in ("n_left", "n_right"):
            size = checked_whole_number(getattr(self, name), name, np.iinfo(np.int64).max, 0)
            object.__setattr__(self, name, size)
        pairs = candidate_pairs(self.pairs, self.shape)
        real_array(self.features, "features", (len(pairs), "n_features"), empty=True)
        object.__setattr__(self, "pairs", pairs)
        object.__setattr__(self, "features", np.asarray(self.features))

    @property
    def shape(self) -> tuple[int, int]:
        """Sizes of the two sets."""
        return self.n_left, self.n_right

    def rows_of(self, cells: IntArray) -> tuple[IntArray, BoolArray]:
        """Find the rows of cells among the pairs.

        Parameters
        ----------
        cells : ndarray of int64, shape (n_cells,)
            Places in the table of all pairs, row by row.

        Returns
        -------
        rows : ndarray of int64, shape (n_cells,)
            Row of each cell in ``pairs``; any row for a cell that is none of them.
        is_pair : ndarray of bool, shape (n_cells,)
            Whether the cell is one of the pairs.
        """
        # The last entry is no cell.
        candidates = np.append(self.pairs[:, 0] * self.n_right + self.pairs[:, 1], -1)
        order = np.argsort(candidates, kind="stable")
        rows = order[np.searchsorted(candidates, cells, sorter=order) % len(order)]
        return rows, candidates[rows] == cells


def shape_of(x: Any) -> tuple[int, int]:
    """Return the sizes of the two sets of an input."""
    n_left, n_right = (x if isinstance(x, CandidatePairs) else np.asarray(x)).shape[:2]
    return int(n_left), int(n_right)


class MatchingTask(Task, Searches, Decomposes, Lists, Validates):
    """A partner on the right for each member of a left set, no two the same.

    A part is a pair, with one channel.  A matching scores the sum of its pairs.  The argmax is
    :func:`~structboost.inference.linear_assignment`, which is exact.  The loss is half the number
    of pairs that are in one matching and not in the other: if all are matched, the number of wrong
    partners.  Of equally good matchings the argmax takes the same one in every call.

    An input is an array (n_left, n_right, n_features), or :class:`CandidatePairs` where most pairs
    can be ruled out beforehand.  An output is an array (n_left,) with each one's partner, counted
    from 0, or -1 for none.

    Parameters
    ----------
    unmatched : bool
        Whether members may stay alone: then a pair is matched only if its score is above 0.
        Otherwise the whole smaller set is matched, and all pairs are candidates.

    Notes
    -----
    Taskar, Lacoste-Julien and Klein, A discriminative matching approach to word alignment, EMNLP
    2005.

    Examples
    --------
    >>> from structboost import MatchingTask
    >>> task = MatchingTask()
    >>> task.loss([0, 1], [1, 0])
    2.0
    """

    kinds = {"pair": PartKind(1)}
    labelled_kind = "pair"

    def __init__(self, *, unmatched: bool = False) -> None:
        self.unmatched = checked_flag(unmatched, "unmatched")

    @override
    def parts(self, x: Any) -> AnyArray:
        if isinstance(x, CandidatePairs):
            if not self.unmatched:
                raise TaskError(
                    "An input is CandidatePairs, of which some may have no matching; take "
                    "MatchingTask(unmatched=True)."
                )
            return x.features
        table = checked_features(x, "(n_left, n_right, n_features)", ", or CandidatePairs")
        return table.reshape(-1, table.shape[2])

    @override
    def joint_feature(self, x: Any, y: Any) -> SparseFeature:
        return indicator(self._parts_of(x, y))

    @override
    def part_labels(self, x: Any, y: Any) -> IntArray:
        is_sparse = isinstance(x, CandidatePairs)
        labels = np.zeros(len(x.pairs) if is_sparse else math.prod(shape_of(x)), np.int64)
        labels[self._parts_of(x, y)] = 1
        return labels

    @override
    def with_features(self, x: Any, features: Any) -> Any:
        if isinstance(x, CandidatePairs):
            return replace(x, features=features)
        return np.reshape(features, (*shape_of(x), -1))

    @override
    def is_valid(self, x: Any, y: Any) -> bool:
        return passes(self._parts_of, x, y)

    @override
    def loss(self, y: Any, y_pred: Any) -> float:
        true = labels_of(y, "A matching", low=-1)
        predicted = labels_of(y_pred, "A matching", len(true), low=-1)
        differ = true != predicted
        return 0.5 * float(np.sum(differ & (true >= 0)) + np.sum(differ & (predicted >= 0)))

    @override
    def loss_scores(self, x: Any, y: Any) -> FloatArray:
        return np.where(self.part_labels(x, y)[:, None] == 1, -0.5, 0.5)

    @override
    def argmax(self, x: Any, scores: FloatArray) -> IntArray:
        flat = np.asarray(scores[:, 0], np.float64)
        if isinstance(x, CandidatePairs):
            return best_candidates(flat, x.pairs, x.shape)
        return best_matching(flat.reshape(shape_of(x)), only_positive=self.unmatched)

    @override
    def outputs(self, x: Any) -> Iterator[IntArray]:
        n_left, n_right = shape_of(x)
        n_alone = n_left if self.unmatched else max(0, n_left - n_right)
        for partners in _one_to_one(n_left, n_right, n_alone):
            output = np.array(partners, np.int64)
            if self.is_valid(x, output):
                yield output

    def _parts_of(self, x: Any, y: Any) -> IntArray:
        """Return the part of each pair of a matching, after a check."""
        n_left, n_right = shape_of(x)
        partners = labels_of(
            y, "A matching", n_left, n_right - 1, low=-1, more=", -1 for no partner"
        )
        left = np.flatnonzero(partners >= 0)
        right = partners[left]
        if len(np.unique(right)) < len(right):
            raise TaskError(f"A matching is {shown(partners.tolist())}; it must be one-to-one.")
        if not self.unmatched and len(left) < min(n_left, n_right):
            raise TaskError("A matching leaves members alone; take MatchingTask(unmatched=True).")
        if not isinstance(x, CandidatePairs):
            return np.asarray(left * n_right + right)
        rows, is_pair = x.rows_of(left * n_right + right)
        if not is_pair.all():
            k = int(np.argmin(is_pair))
            raise TaskError(
                f"A matching has the pair ({left[k]}, {right[k]}), which is no candidate; add it, "
                "or leave it out."
            )
        return rows


def _one_to_one(
    n_left: int, n_right: int, n_alone: int, partners: tuple[int, ...] = ()
) -> Iterator[tuple[int, ...]]:
    """List partners of the left members in ascending order, -1 for at most ``n_alone`` of them."""
    if len(partners) == n_left:
        yield partners
        return
    for partner in range(-1, n_right):
        if partners.count(-1) < n_alone if partner < 0 else partner not in partners:
            yield from _one_to_one(n_left, n_right, n_alone, (*partners, partner))
