"""One-to-one matchings of two sets: an assignment problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.contract.measures import Measure
from structboost.contract.parts import PartKind
from structboost.contract.task import Task
from structboost.exceptions import TaskError
from structboost.inference.assignment import best_candidates, best_matching
from structboost.validation import shown


@dataclass(frozen=True, eq=False)
class CandidatePairs:
    """An input of :class:`MatchingTask` or :class:`SpanningTreeTask` with only some of the pairs.

    Parameters
    ----------
    n_left, n_right : int
        Sizes of the two sets.
    pairs : ndarray of int64, shape (n_pairs, 2)
        The candidates, each once: number on the left, number on the right.
    features : ndarray, shape (n_pairs, n_features)
        Features of each pair.

    Raises
    ------
    ValueError
        If the arrays do not fit, or a pair occurs twice.
    """

    n_left: int
    n_right: int
    pairs: IntArray
    features: NDArray[Any]

    def __post_init__(self) -> None:
        pairs, features = np.asarray(self.pairs), np.asarray(self.features)
        if not pairs.size:
            pairs = np.zeros((0, 2), np.int64)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
            raise ValueError(
                f"pairs has shape {pairs.shape} and type {pairs.dtype}; give whole numbers of "
                "shape (n_pairs, 2), a row for each pair."
            )
        pairs = pairs.astype(np.int64)
        object.__setattr__(self, "pairs", pairs)
        object.__setattr__(self, "features", features)
        if features.ndim != 2 or len(features) != len(pairs):
            raise ValueError(
                f"features has shape {features.shape} for {len(pairs)} pairs; give a row for each."
            )
        wrong = np.flatnonzero((pairs < 0).any(axis=1) | (pairs >= self.shape).any(axis=1))
        if len(wrong):
            raise ValueError(
                f"pairs[{wrong[0]}] is {pairs[wrong[0]].tolist()}; the sets have "
                f"{self.n_left} and {self.n_right} members."
            )
        if len(np.unique(self.numbers)) < len(pairs):
            raise ValueError("pairs has a pair twice; give each candidate once.")

    @property
    def shape(self) -> tuple[int, int]:
        """Sizes of the two sets."""
        return self.n_left, self.n_right

    @property
    def numbers(self) -> IntArray:
        """The pairs as numbers of cells of the table of all pairs."""
        return self.pairs[:, 0] * self.n_right + self.pairs[:, 1]

    def rows_of(self, cells: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
        """Rows of cells among the pairs, and whether each cell is one of them.

        Parameters
        ----------
        cells : ndarray of int64, shape (n_cells,)
            Numbers of cells, as :attr:`numbers` counts them.

        Returns
        -------
        rows : ndarray of int64, shape (n_cells,)
            Row of each cell in ``pairs``; any row for a cell that is none of them.
        known : ndarray of bool, shape (n_cells,)
            Whether the cell is one of the pairs.
        """
        numbers = self.numbers
        if not len(numbers):
            return np.zeros(len(cells), np.int64), np.zeros(len(cells), bool)
        order = np.argsort(numbers, kind="stable")
        place = np.minimum(np.searchsorted(numbers[order], cells), len(numbers) - 1)
        return order[place].astype(np.int64), numbers[order[place]] == cells


class MatchingTask(Task):
    """Each member of a left set gets a partner on the right, and no two the same.

    A part is a pair, with one channel.  A matching scores the sum of its pairs.  The argmax is an
    assignment problem, which scipy solves exactly.  The loss is half the number of pairs that are
    in one matching and not in the other: if all are matched, the number of wrong partners.

    An input is an array (n_left, n_right, n_features), or :class:`CandidatePairs` where most pairs
    can be ruled out beforehand.  An output is an array (n_left,) with the number of each one's
    partner, -1 for none.

    Parameters
    ----------
    unmatched : bool
        Whether members may stay alone: then a pair is matched only if its score is above 0.
        Otherwise the whole smaller set is matched, and all pairs are candidates.

    Notes
    -----
    Taskar, Lacoste-Julien and Klein, A discriminative matching approach to word alignment, EMNLP
    2005.
    """

    kinds = {"pair": PartKind(1)}
    labelled_kind = "pair"

    def __init__(self, *, unmatched: bool = False) -> None:
        self.unmatched = unmatched

    def parts(self, x: Any) -> NDArray[Any]:
        """Features of all pairs, left member by left member; of candidates as they are.

        Raises
        ------
        TaskError
            If an array has other than three axes, or the input is CandidatePairs and ``unmatched``
            is False.
        """
        if isinstance(x, CandidatePairs):
            if not self.unmatched:
                raise TaskError(
                    "An input is CandidatePairs, of which some may have no matching; take "
                    "MatchingTask(unmatched=True)."
                )
            return x.features
        table = np.asarray(x)
        if table.ndim != 3:
            raise TaskError(
                f"An input has shape {table.shape}; give (n_left, n_right, n_features), or "
                "CandidatePairs."
            )
        return table.reshape(-1, table.shape[2])

    def joint_feature(self, x: Any, y: Any) -> Measure:
        """One on each pair that is matched.

        Raises
        ------
        TaskError
            If ``y`` is no matching of ``x``.
        """
        partners = _checked(y)
        problem = self._problem(x, partners)
        if problem is not None:
            raise TaskError(f"A matching {problem}.")
        left = np.flatnonzero(partners >= 0)
        parts = left * _shape(x)[1] + partners[left]
        if isinstance(x, CandidatePairs):
            parts = x.rows_of(parts)[0]
        return Measure(parts, np.zeros(len(parts), np.int64), np.ones(len(parts)))

    def loss(self, y: Any, y_pred: Any) -> float:
        """Half the number of pairs that only one of the two matchings has.

        Raises
        ------
        TaskError
            If an output is no vector of whole numbers, or the two differ in length.
        """
        true, found = _checked(y), _checked(y_pred)
        if len(true) != len(found):
            raise TaskError(f"One matching has {len(true)} left members, the other {len(found)}.")
        differ = true != found
        return 0.5 * float(np.sum(differ & (true >= 0)) + np.sum(differ & (found >= 0)))

    def loss_scores(self, x: Any, y: Any) -> FloatArray:
        """Minus a half on the true pairs, plus a half on the others."""
        rows = self.joint_feature(x, y).parts
        out = np.full((_n_pairs(x), 1), 0.5)
        out[rows] = -0.5
        return out

    def part_labels(self, x: Any, y: Any) -> IntArray:
        """1 on each pair that is matched, 0 on the others."""
        labels = np.zeros(_n_pairs(x), np.int64)
        labels[self.joint_feature(x, y).parts] = 1
        return labels

    def with_features(self, x: Any, features: Any) -> Any:
        """The same sets with other features of their pairs."""
        if isinstance(x, CandidatePairs):
            return replace(x, features=features)
        return np.reshape(features, (*_shape(x), -1))

    def argmax(self, x: Any, scores: FloatArray) -> IntArray:
        """The matching of the highest score."""
        flat = np.asarray(scores[:, 0], np.float64)
        if isinstance(x, CandidatePairs):
            return best_candidates(flat, x.pairs, x.shape)
        return best_matching(flat.reshape(_shape(x)), only_positive=self.unmatched)

    def outputs(self, x: Any) -> Iterator[IntArray]:
        """All matchings."""
        n_left, n_right = _shape(x)
        n_alone = n_left if self.unmatched else max(0, n_left - n_right)
        for partners in _one_to_one(n_left, n_right, n_alone):
            output = np.array(partners, np.int64)
            if self._problem(x, output) is None:
                yield output

    def is_valid(self, x: Any, y: Any) -> bool:
        """Whether ``y`` is a matching of ``x``."""
        try:
            return self._problem(x, _checked(y)) is None
        except TaskError:
            return False

    def _problem(self, x: Any, partners: IntArray) -> str | None:
        """What keeps an array from being a matching of ``x``."""
        n_left, n_right = _shape(x)
        if len(partners) != n_left:
            return f"has {len(partners)} entries for {n_left} left members; give one for each"
        if n_left and not -1 <= partners.min() <= partners.max() < n_right:
            return (
                f"names {partners.min()} to {partners.max()}; partners are 0..{n_right - 1}, or -1"
            )
        matched = partners[partners >= 0]
        counts = np.bincount(matched, minlength=1)
        if counts.max() > 1:
            return f"gives {int(counts.argmax())} to two left members; it must be one-to-one"
        if not self.unmatched and len(matched) < min(n_left, n_right):
            return "leaves members alone; take MatchingTask(unmatched=True)"
        if isinstance(x, CandidatePairs):
            left = np.flatnonzero(partners >= 0)
            known = x.rows_of(left * n_right + partners[left])[1]
            if not known.all():
                i = int(left[np.argmin(known)])
                return (
                    f"has the pair ({i}, {partners[i]}), which is no candidate; add it, or set -1"
                )
        return None


def _one_to_one(n_left: int, n_right: int, n_alone: int) -> Iterator[list[int]]:
    """Partners of the left members in ascending order, -1 for at most ``n_alone`` of them."""
    partners: list[int] = []
    open_ = [iter(range(-1, n_right))]
    while open_:
        partner = None
        if len(partners) == n_left:
            yield partners
        else:
            may_be_alone = partners.count(-1) < n_alone
            partner = next(
                (p for p in open_[-1] if (may_be_alone if p < 0 else p not in partners)), None
            )
        if partner is None:
            open_.pop()
            partners = partners[:-1]
        else:
            partners = [*partners, partner]
            open_.append(iter(range(-1, n_right)))


def _checked(y: Any) -> IntArray:
    partners = np.asarray(y)
    if partners.ndim != 1 or (len(partners) and partners.dtype.kind not in "iu"):
        raise TaskError(
            f"A matching is {shown(y)}; give an array of whole numbers, -1 for no partner."
        )
    return partners.astype(np.int64, copy=False)


def _shape(x: Any) -> tuple[int, int]:
    """Sizes of the two sets."""
    n_left, n_right = (x if isinstance(x, CandidatePairs) else np.asarray(x)).shape[:2]
    return int(n_left), int(n_right)


def _n_pairs(x: Any) -> int:
    n_left, n_right = _shape(x)
    return len(x.pairs) if isinstance(x, CandidatePairs) else n_left * n_right
