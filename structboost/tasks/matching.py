"""One-to-one matchings of two sets, an assignment problem."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from structboost._typing import AnyArray, BoolArray, FloatArray, IntArray, override
from structboost.contract.parts import PartKind, SparseFeature
from structboost.contract.task import Task
from structboost.errors import TaskError
from structboost.inference.arguments import real_array
from structboost.inference.matching import best_candidates, best_matching, candidate_pairs
from structboost.tasks.base import checked_features, indicator, passes, whole_vector
from structboost.validation import checked_flag, checked_whole_number


@dataclass(frozen=True, eq=False)
class CandidatePairs:
    """Some pairs of two sets, the input of :class:`MatchingTask` or :class:`SpanningTreeTask`.

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

    @property
    def numbers(self) -> IntArray:
        """Places of the pairs in the table of all pairs, row by row."""
        return self.pairs[:, 0] * self.n_right + self.pairs[:, 1]

    def rows_of(self, cells: IntArray) -> tuple[IntArray, BoolArray]:
        """Find the rows of cells among the pairs.

        Parameters
        ----------
        cells : ndarray of int64, shape (n_cells,)
            Places in the table of all pairs, as :attr:`numbers` counts them.

        Returns
        -------
        rows : ndarray of int64, shape (n_cells,)
            Row of each cell in ``pairs``; any row for a cell that is none of them.
        is_pair : ndarray of bool, shape (n_cells,)
            Whether the cell is one of the pairs.
        """
        candidates = self.numbers
        if not len(candidates):
            return np.zeros(len(cells), np.int64), np.zeros(len(cells), bool)
        order = np.argsort(candidates, kind="stable")
        place = np.minimum(np.searchsorted(candidates[order], cells), len(candidates) - 1)
        return order[place].astype(np.int64), candidates[order[place]] == cells


class PairTask(Task):
    """A task whose parts are pairs of members of two sets, with one channel."""

    # Name of an output in errors.
    _output: str

    @abstractmethod
    def _checked(self, y: Any) -> IntArray:
        """Return an output as an array, after a check that it is a vector of whole numbers."""

    @abstractmethod
    def _problem(self, x: Any, y: IntArray) -> str | None:
        """Say why an array is no output of ``x``, or return None."""

    @abstractmethod
    def _pairs(self, y: IntArray) -> tuple[IntArray, IntArray]:
        """Return the left and the right members of the pairs of an output."""

    @override
    def joint_feature(self, x: Any, y: Any) -> SparseFeature:
        output = self._checked(y)
        problem = self._any_problem(x, output)
        if problem is not None:
            raise TaskError(f"{self._output} {problem}.")
        return indicator(self._rows(x, output)[0])

    @override
    def part_labels(self, x: Any, y: Any) -> IntArray:
        n_left, n_right = shape_of(x)
        is_sparse = isinstance(x, CandidatePairs)
        labels = np.zeros(len(x.pairs) if is_sparse else n_left * n_right, np.int64)
        labels[self.joint_feature(x, y).parts] = 1
        return labels

    @override
    def with_features(self, x: Any, features: Any) -> Any:
        if isinstance(x, CandidatePairs):
            return replace(x, features=features)
        return np.reshape(features, (*shape_of(x), -1))

    @override
    def is_valid(self, x: Any, y: Any) -> bool:
        return passes(self.joint_feature, x, y)

    def _rows(self, x: Any, y: IntArray) -> tuple[IntArray, BoolArray]:
        """Return the part of each pair of an output, and whether it is one."""
        left, right = self._pairs(y)
        cells = left * shape_of(x)[1] + right
        is_sparse = isinstance(x, CandidatePairs)
        return x.rows_of(cells) if is_sparse else (cells, np.ones(len(cells), np.bool_))

    def _any_problem(self, x: Any, y: IntArray) -> str | None:
        problem = self._problem(x, y)
        if problem is not None:
            return problem
        is_part = self._rows(x, y)[1]
        if not is_part.all():
            left, right = (members[np.argmin(is_part)] for members in self._pairs(y))
            return f"has the pair ({left}, {right}), which is no candidate; add it, or leave it out"
        return None


def shape_of(x: Any) -> tuple[int, int]:
    """Return the sizes of the two sets of an input."""
    n_left, n_right = (x if isinstance(x, CandidatePairs) else np.asarray(x)).shape[:2]
    return int(n_left), int(n_right)


class MatchingTask(PairTask):
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
    _output = "A matching"

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
    def loss(self, y: Any, y_pred: Any) -> float:
        true, predicted = self._checked(y), self._checked(y_pred)
        if len(true) != len(predicted):
            raise TaskError(
                f"One matching has {len(true)} left members, the other {len(predicted)}."
            )
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
            if self._any_problem(x, output) is None:
                yield output

    @override
    def _checked(self, y: Any) -> IntArray:
        return whole_vector(y, self._output, "-1 for no partner")

    @override
    def _pairs(self, y: IntArray) -> tuple[IntArray, IntArray]:
        left = np.flatnonzero(y >= 0)
        return left, y[left]

    @override
    def _problem(self, x: Any, y: IntArray) -> str | None:
        n_left, n_right = shape_of(x)
        if len(y) != n_left:
            return f"has {len(y)} entries for {n_left} left members; give one for each"
        if n_left and not -1 <= y.min() <= y.max() < n_right:
            return f"names {y.min()} to {y.max()}; partners are 0..{n_right - 1}, or -1"
        matched = y[y >= 0]
        counts = np.bincount(matched, minlength=1)
        if counts.max() > 1:
            return f"gives {int(counts.argmax())} to two left members; it must be one-to-one"
        if not self.unmatched and len(matched) < min(n_left, n_right):
            return "leaves members alone; take MatchingTask(unmatched=True)"
        return None


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
