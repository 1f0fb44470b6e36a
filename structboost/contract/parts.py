"""Parts of inputs: their kinds, and the rows of all examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import IntArray
from structboost.exceptions import TaskError, on_example
from structboost.validation import unusable


@dataclass(frozen=True)
class PartKind:
    """One kind of part, with its own features and weak learners.

    Parameters
    ----------
    n_channels : int
        Coordinates of the label code that a part carries: classes, label pairs, 1 if none.
    response : (float, float)
        The two values of a discrete weak learner on this kind: ``(-1, 1)`` where scores may have
        either sign, ``(0, 1)`` where they must not be negative (edges of a CRF, StructBoost
        section 3.6).
    """

    n_channels: int = 1
    response: tuple[float, float] = (-1.0, 1.0)


@dataclass(frozen=True)
class StackedParts:
    """Rows of all parts of all examples, by kind: their features or their scores.

    Parameters
    ----------
    rows : dict of str to ndarray, shape (n_rows, n_columns)
        The parts of example 0, then those of example 1, and so on.
    offsets : dict of str to ndarray of int64, shape (n_examples + 1,)
        Example ``i`` owns the rows ``offsets[kind][i]:offsets[kind][i + 1]``.
    """

    rows: Mapping[str, NDArray[Any]]
    offsets: Mapping[str, IntArray]

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(next(iter(self.offsets.values()))) - 1

    def example(self, i: int) -> Any:
        """Rows of example ``i``: an array if there is one kind, else a dict by kind."""
        by_kind = {
            kind: rows[self.offsets[kind][i] : self.offsets[kind][i + 1]]
            for kind, rows in self.rows.items()
        }
        return next(iter(by_kind.values())) if len(by_kind) == 1 else by_kind


def stack_parts(
    kinds: Mapping[str, PartKind], parts: Sequence[Any], *, missing: bool = False
) -> StackedParts:
    """Stack what :meth:`Task.parts` returned for each example.

    Features may be missing (NaN) only with ``missing``.

    Raises
    ------
    TaskError
        If the parts of an example have other kinds than the task, are not a finite matrix, or have
        another number of features than the first example; the message names the example.
    """
    if not len(parts):
        raise TaskError("X is empty: give at least one example.")
    rows: dict[str, NDArray[Any]] = {}
    offsets: dict[str, IntArray] = {}
    for kind in kinds:
        blocks = [
            on_example("parts", i, np.asarray, of_kind(kinds, value, kind, i, "parts"))
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
            good = on_example("parts", i, np.isfinite, block)
            if not good.all() and not (missing and (good | np.isnan(block)).all()):
                raise TaskError(
                    f"parts(X[{{sample}}]) has {unusable(missing)} features for kind {kind!r}; "
                    "impute or drop them.",
                    i,
                )
        rows[kind] = np.concatenate(blocks, axis=0)
        offsets[kind] = np.concatenate(([0], np.cumsum([len(b) for b in blocks]))).astype(np.int64)
    return StackedParts(rows, offsets)


def of_kind(
    kinds: Mapping[str, PartKind], value: Any, kind: str, i: int | None, method: str
) -> Any:
    """Entry of ``kind`` in what a task method returned for example ``i``."""
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
