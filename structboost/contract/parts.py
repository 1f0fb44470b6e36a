"""Kinds of parts, and the rows of the parts of all examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from structboost._typing import AnyArray, IntArray
from structboost.errors import TaskError, on_example
from structboost.validation import array_of, checked_whole_number, shown, unusable


@dataclass(frozen=True)
class PartKind:
    """Kind of part, with features and weak learners for it.

    Parameters
    ----------
    n_channels : int
        Coordinates of the label code that a part carries: classes, label pairs, 1 if none.
    response : (float, float)
        The two values of a discrete weak learner on this kind: ``(-1, 1)`` where scores may have
        either sign, ``(0, 1)`` where they must not be negative (edges of a CRF, StructBoost
        section 3.6).

    Raises
    ------
    ValueError, TypeError
        If ``n_channels`` is no whole number from 1, or ``response`` not two finite numbers in
        rising order.
    """

    n_channels: int = 1
    response: tuple[float, float] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        checked_whole_number(self.n_channels, "n_channels")
        response = array_of(self.response)
        is_pair = response.shape == (2,) and response.dtype.kind in "iuf"
        if not is_pair or not np.isfinite(response).all() or response[0] >= response[1]:
            raise ValueError(
                f"response is {shown(self.response)}; give two finite numbers in rising order, "
                "such as (-1.0, 1.0)."
            )

    @property
    def has_bias(self) -> bool:
        """Whether linear functions have a constant, because scores may have either sign."""
        return min(self.response) < 0


@dataclass(frozen=True)
class StackedParts:
    """Features or scores of the parts of all examples, by kind.

    Parameters
    ----------
    rows : dict of str to ndarray, shape (n_rows, n_columns)
        The parts of example 0, then those of example 1, and so on.
    offsets : dict of str to ndarray of int64, shape (n_examples + 1,)
        Example ``i`` has the rows ``offsets[kind][i]:offsets[kind][i + 1]``.
    memo : KeptTruth, optional
        Results for these examples that hold at any scores.  A batch form that calls the one of
        the base class passes them on with the scores.
    """

    rows: Mapping[str, AnyArray]
    offsets: Mapping[str, IntArray]
    memo: Any = field(default=None, repr=False, compare=False)

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(next(iter(self.offsets.values()))) - 1

    def sizes(self, kind: str) -> IntArray:
        """Return the number of parts of each example.

        Parameters
        ----------
        kind : str
            A kind of parts.

        Returns
        -------
        sizes : ndarray of int64, shape (n_examples,)
            Numbers from 0.
        """
        return np.diff(self.offsets[kind])

    def only(self, i: int) -> StackedParts:
        """Return the parts of one example alone.

        Parameters
        ----------
        i : int
            Index of the example, from 0.

        Returns
        -------
        parts : StackedParts
            Contiguous rows of one example.
        """
        spans = {kind: starts[i : i + 2] for kind, starts in self.offsets.items()}
        rows = {
            kind: np.ascontiguousarray(self.rows[kind][start:stop])
            for kind, (start, stop) in spans.items()
        }
        return StackedParts(rows, {kind: span - span[0] for kind, span in spans.items()})

    def example(self, i: int) -> Any:
        """Return the rows of one example.

        Parameters
        ----------
        i : int
            Index of the example, from 0.

        Returns
        -------
        rows : ndarray, shape (n_parts, n_columns), or dict of str to ndarray
            An array if there is one kind, else a dict by kind.
        """
        by_kind = {
            kind: rows[self.offsets[kind][i] : self.offsets[kind][i + 1]]
            for kind, rows in self.rows.items()
        }
        return next(iter(by_kind.values())) if len(by_kind) == 1 else by_kind


def stack_parts(
    kinds: Mapping[str, PartKind], parts: Sequence[Any], *, missing: bool = False
) -> StackedParts:
    """Stack the results of :meth:`Task.parts` for all examples.

    Features may be missing (NaN) only with ``missing``.  TaskError, which names the example, if its
    parts have other kinds than the task, are not a finite matrix, or have another number of
    features than the first example.
    """
    if not len(parts):
        raise TaskError("X is empty: give at least one example.")
    rows: dict[str, AnyArray] = {}
    offsets: dict[str, IntArray] = {}
    for kind in kinds:
        blocks = [
            _numbers(of_kind(kinds, value, kind, i, "parts"), kind, i)
            for i, value in enumerate(parts)
        ]
        width = blocks[0].shape[-1] if blocks[0].ndim == 2 else -1
        for i, block in enumerate(blocks):
            if block.ndim != 2 or block.shape[1] != width:
                hint = " X must be a sequence of inputs: give [x] for one input x."
                raise TaskError(
                    f"parts(X[{{sample}}]) gave shape {block.shape} for kind {kind!r}; expected "
                    f"(n_parts, {width if width >= 0 else 'n_features'})."
                    f"{hint if block.ndim == 1 else ''}",
                    i,
                )
            if not width:
                raise TaskError(
                    f"parts(X[{{sample}}]) has no features for kind {kind!r}; give at least one, "
                    "such as a constant.",
                    i,
                )
            good = np.isfinite(block)
            if not good.all() and not (missing and (good | np.isnan(block)).all()):
                raise TaskError(
                    f"parts(X[{{sample}}]) has {unusable(missing)} features for kind {kind!r}; "
                    "impute or drop them.",
                    i,
                )
        rows[kind] = np.concatenate(blocks, axis=0)
        offsets[kind] = np.concatenate(([0], np.cumsum([len(b) for b in blocks]))).astype(np.int64)
    return StackedParts(rows, offsets)


def check_declared(kinds: Any) -> None:
    """Raise TaskError unless :attr:`Task.kinds` maps names to well-formed PartKind."""
    if not isinstance(kinds, Mapping) or not kinds:
        raise TaskError(f"task.kinds is {kinds!r}; give a dict of names to PartKind, at least one.")
    for kind, part in kinds.items():
        if not isinstance(part, PartKind):
            raise TaskError(f"task.kinds[{kind!r}] is {part!r}; give a PartKind.")


def _numbers(value: Any, kind: str, i: int) -> AnyArray:
    """Return the parts of example ``i`` as an array of real numbers."""
    block = on_example("parts", i, np.asarray, value)
    # The caller refuses other numbers of axes.
    if block.ndim == 2 and block.dtype.kind not in "fiub":
        raise TaskError(
            f"parts(X[{{sample}}]) gave {block.dtype.name} features for kind {kind!r}; give real "
            "numbers.",
            i,
        )
    return block


def of_kind(
    kinds: Mapping[str, PartKind], value: Any, kind: str, i: int | None, method: str
) -> Any:
    """Return the entry of ``kind`` in the result of a task method for example ``i``."""
    if isinstance(value, Mapping):
        if kind not in value:
            raise TaskError(
                f"{method}(X[{{sample}}]) has no entry for kind {kind!r}; it has {sorted(value)}.",
                i,
            )
        return value[kind]
    if len(kinds) > 1:
        raise TaskError(
            f"{method}(X[{{sample}}]) must return a dict with the kinds {sorted(kinds)}, got "
            f"{type(value).__name__}.",
            i,
        )
    return value
