"""Folds of examples, and fits on the examples outside of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from structboost._typing import BoolArray, Examples, FloatArray, IntArray
from structboost.runtime.compiled import one_blas_thread
from structboost.runtime.interrupts import uninterrupted
from structboost.validation import (
    by_position,
    check_sequence,
    checked_numbers,
    checked_weights,
    rows_of,
)

# Number of parts of which one is held out, each in turn if there are few examples.
_PARTS = 5
_FEW = 2000


@dataclass(frozen=True, eq=False)
class Fold:
    """Examples to train on, and held-out examples to measure the loss on.

    Parameters
    ----------
    X, Y : sequence
        Inputs and true outputs to train on.
    sample_weight : array-like, shape (n_examples,), or None
        Weights of the examples.
    held_X, held_Y : sequence
        Held-out inputs and true outputs.
    held_weight : array-like, shape (n_held,), or None
        Weights of the held-out examples.
    rows, held_rows : sequence of int, optional
        Indices of the examples among all, for errors.
    held_counts : ndarray of int, shape (n_held,), optional
        Number of equal examples that each held-out one stands for.
    """

    X: Examples
    Y: Examples
    sample_weight: Any
    held_X: Examples
    held_Y: Examples
    held_weight: Any = None
    rows: Any = None
    held_rows: Any = None
    held_counts: Any = None

    def __post_init__(self) -> None:
        for name in ("X", "Y", "held_X", "held_Y"):
            what = "inputs" if "X" in name else "outputs"
            check_sequence(getattr(self, name), name, f"give a list of {what}")
            object.__setattr__(self, name, by_position(getattr(self, name)))
        self._check_lengths("X", "Y", "sample_weight")
        self._check_lengths("held_X", "held_Y", "held_weight")

    def weights_of(self, n_examples: int) -> tuple[FloatArray, FloatArray]:
        """Return the weights of all examples in training, and when they are held out."""
        weights = np.zeros((2, n_examples))
        weights[0, self.rows] = 1.0 if self.sample_weight is None else self.sample_weight
        weights[1, self.held_rows] = 1.0 if self.held_weight is None else self.held_weight
        return weights[0], weights[1]

    def _check_lengths(self, inputs: str, outputs: str, weights: str) -> None:
        """Raise TypeError or ValueError unless these attributes are of one length."""
        n_inputs, n = len(getattr(self, inputs)), len(getattr(self, outputs))
        if n_inputs != n:
            raise ValueError(
                f"{inputs} has {n_inputs} examples and {outputs} {n}; they must be equally many."
            )
        values = getattr(self, weights)
        if values is not None and (checked := checked_numbers(values, weights)).shape != (n,):
            raise ValueError(
                f"{weights} has shape {checked.shape}; give a number for each of {n} examples."
            )


def random_folds(
    X: Examples,
    Y: Examples,
    sample_weight: Any = None,
    *,
    strata: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    counts: ArrayLike | None = None,
    random_state: Any = None,
    all_parts: bool = False,
) -> list[Fold]:
    """Hold out a random fifth of the examples or, of fewer than 2,000, each fifth in turn.

    Parameters
    ----------
    X, Y : sequence
        Inputs and true outputs.
    sample_weight : array-like, shape (n_examples,), optional
        Examples of weight zero are in no part.
    strata : array-like of int, shape (n_examples,), optional
        Every part has its fraction of each stratum; the only example of one is never held out.
    groups : array-like of int, shape (n_examples,), optional
        Groups of the examples, such as documents, which are in one part as a whole.  Strata are
        then ignored.
    counts : array-like of int, shape (n_examples,), optional
        Number of equal examples that each one stands for.  They are dealt out one by one, so an
        example may be in several parts, with a part of its weight in each.
    random_state : int, RandomState or None
        Seed for the parts; None means fixed parts.
    all_parts : bool
        Whether to hold out each fifth in turn, however many examples there are.

    Raises
    ------
    ValueError
        If no example can be held out.
    """
    weights = checked_weights(sample_weight, len(Y))
    counts = np.ones(len(Y), np.int64) if counts is None else np.asarray(counts)
    copies = np.repeat(np.arange(len(Y)), np.where(weights > 0, counts, 0))
    of_stratum = np.zeros(len(Y), np.int64) if strata is None else np.asarray(strata)
    if groups is None:
        splits = split_rows(of_stratum[copies], random_state, copies, all_parts=all_parts)
    else:
        splits = _split_groups(
            np.asarray(groups)[copies], random_state, copies, all_parts=all_parts
        )
    return [
        fold_of(X, Y, *(merged_copies(part, weights, counts) for part in split)) for split in splits
    ]


class Part(NamedTuple):
    """Some of the copies of examples, merged.

    Parameters
    ----------
    rows : ndarray of int64, shape (n,)
        Indices of the examples.
    weights : ndarray, shape (n,)
        Fractions of their weights.
    counts : ndarray of int64, shape (n,)
        Numbers of copies.
    """

    rows: IntArray
    weights: FloatArray
    counts: IntArray


def merged_copies(copies: IntArray, weights: FloatArray, counts: IntArray) -> Part:
    """Merge copies of the same example, in the order in which examples first appear.

    ``weights`` and ``counts`` are those of all copies of each example.
    """
    rows, first, n_copies = np.unique(copies, return_index=True, return_counts=True)
    order = np.argsort(first)
    rows, n_copies = rows[order], n_copies[order]
    return Part(rows, weights[rows] * (n_copies / counts[rows]), n_copies)


def fold_of(X: Examples, Y: Examples, train: Part, held: Part) -> Fold:
    """Return the fold of two parts of the examples."""
    return Fold(
        rows_of(X, train.rows), rows_of(Y, train.rows), train.weights,
        rows_of(X, held.rows), rows_of(Y, held.rows), held.weights, train.rows, held.rows,
        held.counts,
    )  # fmt: skip


def _split_groups(
    groups: IntArray, random_state: Any, rows: IntArray, *, all_parts: bool
) -> list[tuple[IntArray, IntArray]]:
    """Split rows as :func:`split_rows` does, without cutting a group."""
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        raise ValueError(
            "C is 'auto', which holds out whole groups, and groups has one group; give two or "
            "more groups, leave groups out, or give C as a number."
        )
    random = check_random_state(0 if random_state is None else random_state)
    n_parts = min(_PARTS, n_groups)
    part = balanced_parts_of_groups(groups, n_parts, random)
    held = [part == i for i in range(n_parts if all_parts or len(groups) < _FEW else 1)]
    return [(rows[~out], rows[out]) for out in held]


def split_rows(
    strata: IntArray, random_state: Any, rows: IntArray | None = None, *, all_parts: bool = False
) -> list[tuple[IntArray, IntArray]]:
    """Split rows into rows to train on and held-out rows of each fold.

    Parameters
    ----------
    strata : ndarray of int, shape (n_rows,)
    random_state : int, RandomState or None
    rows : ndarray of int, shape (n_rows,), optional
        Indices of the rows; by default from 0.
    all_parts : bool
        As for :func:`random_folds`.

    Raises
    ------
    ValueError
        If no row can be held out.
    """
    rows = np.arange(len(strata)) if rows is None else rows
    random = check_random_state(0 if random_state is None else random_state)
    codes, counts = np.unique(strata, return_inverse=True, return_counts=True)[1:]
    order = random.permutation(len(strata))
    order = order[np.argsort(codes[order], kind="stable")]
    order = order[counts[codes[order]] > 1]
    if not len(order):
        raise ValueError(
            f"C is 'auto', which holds out examples, and {_of_one_each(len(strata))}; give more "
            "examples, or give C as a number."
        )
    part = np.full(len(strata), -1)
    part[order] = np.arange(len(order)) % _PARTS
    held = [part == i for i in range(_PARTS if all_parts or len(strata) < _FEW else 1)]
    return [(rows[~out], rows[out]) for out in held if out.any()]


def shuffled_parts(
    n_rows: int, n_parts: int, random_state: Any, *, strata: IntArray | None = None
) -> list[tuple[IntArray, IntArray]]:
    """Split rows into folds such that each row is held out once.

    Parameters
    ----------
    n_rows, n_parts : int
    random_state : int or RandomState
        Seed for the parts.
    strata : ndarray of int, shape (n_rows,), optional
        Every part has its fraction of each stratum.
    """
    if strata is None:
        return list(KFold(n_parts, shuffle=True, random_state=random_state).split(range(n_rows)))
    cut = StratifiedKFold(n_parts, shuffle=True, random_state=random_state)
    return list(cut.split(np.zeros(n_rows), strata))


def parts_of_groups(
    groups: Sequence[int] | None, n_rows: int, n_parts: int, random_state: int | None
) -> IntArray:
    """Assign rows to parts, from 0, such that the rows of a group are in one part.

    Parameters
    ----------
    groups : sequence of int, shape (n_rows,), or None
        Group of each row; None makes each row a separate group.
    n_rows : int
    n_parts : int
        Number of parts, if there are as many groups.
    random_state : int or None
        Seed for dealing out the groups; None deals them out in their order.
    """
    of_rows = np.arange(n_rows) if groups is None else np.asarray(groups)
    ranks = np.unique(of_rows, return_inverse=True)[1]
    n_groups = int(ranks.max()) + 1
    order = np.arange(n_groups)
    if random_state is not None:
        order = np.random.default_rng(random_state).permutation(n_groups)
    parts = (order % min(n_parts, n_groups))[ranks]
    return parts


def balanced_parts_of_groups(groups: IntArray, n_parts: int, random_state: Any) -> IntArray:
    """Assign whole groups to parts with about equally many rows.

    Parameters
    ----------
    groups : ndarray of int, shape (n_rows,)
        Group of each row.
    n_parts : int
        At most the number of groups.
    random_state : int or RandomState
    """
    parts = np.empty(len(groups), np.int64)
    cut = GroupKFold(n_parts, shuffle=True, random_state=random_state)
    for part, (_, held) in enumerate(cut.split(parts, groups=groups)):
        parts[held] = part
    return parts


def _of_one_each(n_examples: int) -> str:
    if n_examples == 1:
        return "there is one example"
    return f"each of the {n_examples} examples is the only one of its class"


def cross_fit(
    folds: IntArray,
    fit: Callable[..., Any],
    training: Sequence[tuple[Any, ...]],
    predict: Callable[[Any, BoolArray], FloatArray],
    *,
    n_jobs: int | None = None,
) -> tuple[list[Any], FloatArray]:
    """Train a model for each fold without it, and predict the fold by that model.

    Parameters
    ----------
    folds : ndarray of int, shape (n_rows,)
        Fold of each row, from 0.
    fit : callable
        ``fit(*training[k])`` trains the model of fold k; pickled where processes are used.
    training : sequence of tuples, one per fold
        Arguments of ``fit`` for each model, from rows of the other folds.
    predict : callable
        ``predict(model, inside)`` returns the predictions of a model on the rows under a mask.
    n_jobs : int or None
        Number of processes; the result does not depend on it.

    Returns
    -------
    models : list
        One per fold.
        predictions : ndarray, shape (n_rows, n_outputs)
    """
    work = joblib.delayed(fit_on_one_thread)
    models = joblib.Parallel(n_jobs=n_jobs)(work(fit, *rows) for rows in training)
    predictions = None
    for fold, model in enumerate(models):
        inside = folds == fold
        with one_blas_thread():
            part = predict(model, inside)
        if predictions is None:
            predictions = np.empty((len(folds), part.shape[1]))
        predictions[inside] = part
    return models, np.empty((0, 0)) if predictions is None else predictions


def fit_on_one_thread(fit: Callable[..., Any], *arguments: Any) -> Any:
    """Fit on one thread, since several would add sums in another order."""
    with threadpool_limits(1):
        return uninterrupted(partial(fit, *arguments))
