"""Conformance of the batch forms of a task: well-formed answers, entries where they belong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.contract.listed_outputs import OutputCodes
from structboost.contract.measures import SparseFeature
from structboost.contract.parts import PartKind, StackedParts
from structboost.contract.separation import Separation
from structboost.contract.task import Task
from structboost.exceptions import TaskError


def check_stack(
    task: Task, stack: Any, n_examples: int, parts: Mapping[int, Mapping[str, NDArray[Any]]]
) -> None:
    """Raise TaskError unless ``stack(X)`` is well formed, with the rows that ``parts`` has."""
    if not isinstance(stack, StackedParts):
        raise TaskError(f"stack(X) returned {type(stack).__name__}; it must return StackedParts.")
    for kind in task.kinds:
        if kind not in stack.rows or kind not in stack.offsets:
            raise TaskError(f"stack(X) has no rows or no offsets for kind {kind!r}.")
        offsets = np.asarray(stack.offsets[kind])
        if offsets.shape != (n_examples + 1,) or offsets[0] != 0 or (np.diff(offsets) < 0).any():
            raise TaskError(
                f"stack(X).offsets[{kind!r}] must rise from 0 and have {n_examples + 1} entries."
            )
        if offsets[-1] != len(stack.rows[kind]):
            raise TaskError(
                f"stack(X) has {len(stack.rows[kind])} rows of kind {kind!r}, its offsets end at "
                f"{offsets[-1]}."
            )
        for i, by_kind in parts.items():
            own = np.asarray(stack.rows[kind][offsets[i] : offsets[i + 1]])
            if own.shape != by_kind[kind].shape or not np.allclose(
                own, by_kind[kind], rtol=1e-6, atol=0
            ):
                raise TaskError(
                    f"stack(X) differs from parts(X[{i}]) in the rows of kind {kind!r}."
                )


def check_separation(task: Task, found: Any, scores: StackedParts) -> None:
    """Raise TaskError unless ``separate`` gave one output per example, on its own parts."""
    n = scores.n_examples
    _check_well_formed(task, found, scores, "separate")
    if len(found.losses) != n:
        raise TaskError(
            f"separate gave {len(found.losses)} outputs for {n} examples; give one for each."
        )
    for kind in task.kinds:
        owner = np.repeat(np.arange(n), np.diff(found.indptr[kind]))
        parts = np.asarray(found.differences[kind].parts)
        offsets = scores.offsets[kind]
        stray = np.flatnonzero((parts < offsets[:-1][owner]) | (parts >= offsets[1:][owner]))
        if len(stray):
            i, row = owner[stray[0]], parts[stray[0]]
            raise TaskError(
                f"separate gave the output of X[{i}] weight on row {row} of kind {kind!r}, which "
                f"is not a part of X[{i}]; parts are rows of the stack."
            )


def check_slacks(task: Task, found: Any, scores: StackedParts) -> None:
    """Raise TaskError unless the answer of ``separate_slacks`` is well formed."""
    _check_well_formed(task, found, scores, "separate_slacks")
    n = len(found.losses)
    if found.slacks is None:
        if n != scores.n_examples:
            raise TaskError(
                f"separate_slacks gave {n} outputs for {scores.n_examples} examples; number their "
                "slacks."
            )
        return
    slacks = np.asarray(found.slacks)
    if slacks.shape != (n,) or slacks.dtype.kind not in "iu" or len(np.unique(slacks)) != n:
        raise TaskError(
            f"separate_slacks must give each of its {n} outputs a slack number of its own."
        )
    weights = np.asarray(np.nan if found.weights is None else found.weights, dtype=np.float64)
    if weights.shape != (n,) or not (np.isfinite(weights) & (weights >= 0)).all():
        raise TaskError(
            f"separate_slacks must give each of its {n} numbered slacks a weight, finite and >= 0."
        )


def check_codes(task: Task, codes: Any, scores: StackedParts, augmented: FloatArray) -> None:
    """Raise TaskError unless ``codes(Y)`` are well formed, and agree with the augmented argmax.

    Parameters
    ----------
    task : Task
    codes : OutputCodes
    scores : StackedParts
        One part an example.
    augmented : ndarray, shape (n_examples,)
        ``loss - <difference, scores>`` of the argmax of each example.
    """
    if not isinstance(codes, OutputCodes):
        raise TaskError(f"codes(Y) returned {type(codes).__name__}; it must return OutputCodes.")
    ((kind, rows),) = scores.rows.items()
    code, labels = np.asarray(codes.codes), np.asarray(codes.labels)
    losses = np.asarray(codes.losses, np.float64)
    n_channels = task.kinds[kind].n_channels
    if code.ndim != 2 or code.shape[1] != n_channels or code.dtype.kind not in "iu":
        raise TaskError(
            f"codes(Y).codes must be whole numbers of shape (n_outputs, {n_channels}), not "
            f"{code.shape}."
        )
    n_outputs = len(code)
    if (
        labels.shape != (len(rows),)
        or labels.dtype.kind not in "iu"
        or not np.isin(labels, range(n_outputs)).all()
    ):
        raise TaskError(
            f"codes(Y).labels must give each of the {len(rows)} examples an output in "
            f"0..{n_outputs - 1}."
        )
    if losses.shape != (n_outputs, n_outputs) or not (losses >= 0).all() or np.diag(losses).any():
        raise TaskError(
            f"codes(Y).losses must be >= 0, zero on the diagonal, of shape ({n_outputs}, "
            f"{n_outputs})."
        )
    by_output = rows @ code.T
    own = by_output[np.arange(len(labels)), labels]
    values = (losses[labels] + by_output - own[:, None]).max(axis=1)
    wrong = np.flatnonzero(
        np.abs(values - augmented) > 1e-8 * (1.0 + np.abs(by_output).sum(axis=1))
    )
    if len(wrong):
        i = wrong[0]
        raise TaskError(
            f"codes and separate disagree on X[{i}]: the largest loss minus difference of scores "
            f"is {values[i]:.6g} by codes(Y), {augmented[i]:.6g} by separate."
        )


def sizes(found: Separation, scores: StackedParts) -> FloatArray:
    """Sum of the sizes of the terms of :meth:`Separation.violations`, for its rounding."""
    absolute = {
        kind: SparseFeature(measure.parts, measure.channels, np.abs(measure.values))
        for kind, measure in found.differences.items()
    }
    rows = {kind: np.abs(of_kind) for kind, of_kind in scores.rows.items()}
    same = Separation(-found.losses, absolute, found.indptr)
    return -same.violations(StackedParts(rows, scores.offsets))


def _check_well_formed(task: Task, found: Any, scores: StackedParts, method: str) -> None:
    """Types, lengths, ranges and finite values of a separation."""
    if not isinstance(found, Separation):
        raise TaskError(f"{method} returned {type(found).__name__}; it must return a Separation.")
    losses = np.asarray(found.losses)
    if losses.ndim != 1:
        raise TaskError(f"{method} gave losses of shape {losses.shape}; give one for each output.")
    bad = np.flatnonzero(~np.isfinite(losses) | (losses < 0))
    if len(bad):
        raise TaskError(
            f"{method} gave output {bad[0]} the loss {losses[bad[0]]}; a loss must be finite and "
            ">= 0."
        )
    for kind, part in task.kinds.items():
        if kind not in found.differences or kind not in found.indptr:
            raise TaskError(f"{method} gave no differences or no indptr for kind {kind!r}.")
        _check_entries(found, kind, part, len(scores.rows[kind]), method)


def _check_entries(found: Separation, kind: str, part: PartKind, n_rows: int, method: str) -> None:
    """Entries of the differences of one kind."""
    parts, channels, values = (np.asarray(column) for column in found.differences[kind])
    if not len(parts) == len(channels) == len(values):
        raise TaskError(
            f"{method}: parts, channels and values of kind {kind!r} must be equally many."
        )
    indptr = np.asarray(found.indptr[kind])
    ends = indptr.shape == (len(found.losses) + 1,) and indptr[0] == 0 and indptr[-1] == len(values)
    if not ends or (np.diff(indptr) < 0).any():
        raise TaskError(
            f"{method}: indptr of kind {kind!r} must rise from 0 to {len(values)}, a step for "
            "each output."
        )
    wrong = (
        (parts < 0)
        | (parts >= n_rows)
        | (channels < 0)
        | (channels >= part.n_channels)
        | ~np.isfinite(values)
    )
    if wrong.any():
        output = int(np.searchsorted(indptr, np.flatnonzero(wrong)[0], side="right")) - 1
        raise TaskError(
            f"{method}: output {output} has a part or channel of kind {kind!r} out of range, or a "
            "weight not finite."
        )
