"""Checks that batch forms of a task are well formed and agree with the methods of one example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.contract.equality import deeply_equal
from structboost.contract.listed_outputs import Marginals, OutputCodes
from structboost.contract.measures import SparseFeature
from structboost.contract.optional_methods import HasCodes, HasSlacks
from structboost.contract.parts import PartKind, StackedParts
from structboost.contract.returned_outputs import check_one_each
from structboost.contract.sampled_outputs import TOLERANCE
from structboost.contract.separation import Separation
from structboost.contract.sum_probe import has_sums
from structboost.contract.task import Task
from structboost.contract.watched_task import WatchedTask, by_kind, stacked
from structboost.errors import TaskError, TooManyOutputsError

# Rows up to which the m-slack form must list all its outputs.
_MAX_ROWS_FOR_ALL_SLACKS = 1000


def check_batch_forms(
    watched: WatchedTask, parts: Mapping[int, Mapping[str, NDArray[Any]]], comparable: bool
) -> None:
    """Compare the batch forms with the methods of one example, which gave ``parts``."""
    task = watched.task
    stack = watched.batch("stack", watched.X)
    check_stack(task, stack, len(watched.X), parts)
    for scale in (0.0, 1.0, 10.0):
        rows = {
            kind: watched.random_rows(kind, len(stack.rows[kind]), scale) for kind in task.kinds
        }
        scores = StackedParts(rows, stack.offsets)
        separation = watched.batch("separate", watched.X, watched.Y, scores)
        check_separation(task, separation, scores)
        if not task.reads_inputs and not deeply_equal(
            separation, watched.batch("separate", None, watched.Y, scores)
        ):
            raise TaskError(
                "separate(None, Y, scores) differs from separate(X, Y, scores); leave X "
                "alone, or set reads_inputs = True."
            )
        if task.defines("argmax_batch"):
            _check_argmax_batch(watched, scores, comparable)
        if has_sums(task):
            with suppress(TooManyOutputsError):
                marginals = watched.batch("marginals_batch", watched.X, scores)
                _check_marginals_batch(task, watched.X, scores, marginals, watched.examples)
        if task.exact_argmax:
            _check_batch_values(watched, separation, scores)
            if isinstance(task, HasCodes):
                codes = watched.batch("codes", watched.Y)
                check_codes(task, codes, scores, separation.violations(scores))
        if isinstance(task, HasSlacks):
            most = 2 * len(watched.X)
            slacks = watched.batch("separate_slacks", watched.X, watched.Y, scores, most)
            check_slacks(task, slacks, scores)
            if task.exact_argmax:
                _check_all_slacks(watched, separation, scores)


def _check_batch_values(
    watched: WatchedTask, separation: Separation, scores: StackedParts, method: str = "separate"
) -> None:
    """Check that a batch form reaches the augmented values of the argmax of each example."""
    task = watched.task
    batch, batch_sizes = separation.violations(scores), sizes(separation, scores)
    for i in watched.examples:
        output = watched.argmax(i, by_kind(task, scores.example(i)), with_truth=True)
        offsets = {kind: scores.offsets[kind][i : i + 2] for kind in task.kinds}
        one = Separation.from_outputs(task, [watched.X[i]], [watched.Y[i]], [output], offsets)
        single, size = one.violations(scores)[0], sizes(one, scores)[0]
        if abs(batch[i] - single) > TOLERANCE * (1.0 + batch_sizes[i] + size):
            raise TaskError(
                f"{method} and argmax disagree on X[{i}]: loss minus difference of scores is "
                f"{batch[i]:.6g} by {method}, {single:.6g} by argmax(X[{i}], scores, Y[{i}])."
            )


def _check_argmax_batch(watched: WatchedTask, scores: StackedParts, comparable: bool) -> None:
    """Check that ``argmax_batch`` reaches the plain and augmented scores of the argmax."""
    task = watched.task
    outputs = watched.batch("argmax_batch", watched.X, scores)
    check_one_each(outputs, len(watched.X))
    augmented = Task.separate(task, watched.X, watched.Y, scores)
    for i in watched.examples:
        watched.valid(i, f"output {i} of argmax_batch(X, scores)", outputs[i])
        of_example = by_kind(task, scores.example(i))
        sets = stacked([of_example])
        output = watched.argmax(i, of_example, with_truth=False)
        batch, single = (watched.evaluate(i, "", y, sets) for y in (outputs[i], output))
        slack = TOLERANCE * (1.0 + batch.sizes[0] + single.sizes[0])
        is_best = task.exact_argmax and comparable
        if is_best and abs(batch.scores[0] - single.scores[0]) > slack:
            raise TaskError(
                f"argmax_batch and argmax disagree on X[{i}]: the output has the score "
                f"{batch.scores[0]:.6g} by argmax_batch(X, scores), {single.scores[0]:.6g} "
                f"by argmax(X[{i}], scores)."
            )
    if task.exact_argmax:
        _check_batch_values(watched, augmented, scores, "argmax_batch")


def _check_all_slacks(watched: WatchedTask, separation: Separation, scores: StackedParts) -> None:
    """Check that all outputs of the m-slack form give the 1-slack risk (Theorem 2.1)."""
    n = len(watched.X)
    n_rows = max(len(rows) for rows in scores.rows.values())
    if n_rows > _MAX_ROWS_FOR_ALL_SLACKS:
        return
    limit = max(n_rows, n) ** 2
    slacks = watched.batch("separate_slacks", watched.X, watched.Y, scores, limit)
    check_slacks(watched.task, slacks, scores)
    weights = np.full(n, 1.0 / n) if slacks.weights is None else slacks.weights
    risk = float(weights @ np.maximum(slacks.violations(scores), 0.0))
    expected_risk = float(np.maximum(separation.violations(scores), 0.0).mean())
    size = float(weights @ sizes(slacks, scores)) + float(sizes(separation, scores).mean())
    if abs(risk - expected_risk) > 1e-6 * (1.0 + size):
        raise TaskError(
            f"separate_slacks with a limit of {limit} has the risk {risk:.6g}, separate has "
            f"{expected_risk:.6g} at the same scores; give every violated slack, with weights "
            "that make the risks equal."
        )


def _check_marginals_batch(
    task: Task, X: Sequence[Any], scores: StackedParts, means: Marginals, examples: Sequence[int]
) -> None:
    """Check that the batch form agrees with the methods of one example."""
    for i in examples:
        of_example = scores.example(i)
        _compare(
            f"marginals_batch: log_sums[{i}]", "log_sum", means.log_sums[i],
            task.log_sum(X[i], of_example),
        )  # fmt: skip
        single = by_kind(task, task.marginals(X[i], of_example))
        for kind, starts in scores.offsets.items():
            rows = means.expected[kind][starts[i] : starts[i + 1]]
            _compare(f"marginals_batch of X[{i}]", "marginals", rows, single[kind])


def _compare(name: str, other: str, means: Any, expected: Any) -> None:
    if not np.allclose(means, expected, rtol=TOLERANCE, atol=TOLERANCE):
        most = float(np.abs(np.asarray(means) - np.asarray(expected)).max())
        raise TaskError(f"{name} differs from {other}, by up to {most:.3g}.")


def check_stack(
    task: Task, stack: Any, n_examples: int, parts: Mapping[int, Mapping[str, NDArray[Any]]]
) -> None:
    """Raise TaskError unless ``stack(X)`` is well formed and has the rows of ``parts``."""
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
        for i, expected in parts.items():
            rows = np.asarray(stack.rows[kind][offsets[i] : offsets[i + 1]])
            if rows.shape != expected[kind].shape or not np.allclose(
                rows, expected[kind], rtol=1e-6, atol=0
            ):
                raise TaskError(
                    f"stack(X) differs from parts(X[{i}]) in the rows of kind {kind!r}."
                )


def check_separation(task: Task, separation: Any, scores: StackedParts) -> None:
    """Raise TaskError unless ``separate`` gave one output per example, on the parts of it."""
    n = scores.n_examples
    _check_well_formed(task, separation, scores, "separate")
    if len(separation.losses) != n:
        raise TaskError(
            f"separate gave {len(separation.losses)} outputs for {n} examples; give one for each."
        )
    for kind in task.kinds:
        owner = np.repeat(np.arange(n), np.diff(separation.indptr[kind]))
        parts = np.asarray(separation.differences[kind].parts)
        offsets = scores.offsets[kind]
        stray = np.flatnonzero((parts < offsets[:-1][owner]) | (parts >= offsets[1:][owner]))
        if len(stray):
            i, row = owner[stray[0]], parts[stray[0]]
            raise TaskError(
                f"separate gave the output of X[{i}] weight on row {row} of kind {kind!r}, which "
                f"is not a part of X[{i}]; parts are rows of the stack."
            )


def check_slacks(task: Task, separation: Any, scores: StackedParts) -> None:
    """Raise TaskError unless the result of ``separate_slacks`` is well formed."""
    _check_well_formed(task, separation, scores, "separate_slacks")
    n = len(separation.losses)
    if separation.slacks is None:
        if n != scores.n_examples:
            raise TaskError(
                f"separate_slacks gave {n} outputs for {scores.n_examples} examples; give the "
                "indices of their slacks."
            )
        return
    slacks = np.asarray(separation.slacks)
    if slacks.shape != (n,) or slacks.dtype.kind not in "iu" or len(np.unique(slacks)) != n:
        raise TaskError(f"separate_slacks must give each of its {n} outputs another slack index.")
    weights = np.asarray(
        np.nan if separation.weights is None else separation.weights, dtype=np.float64
    )
    if weights.shape != (n,) or not (np.isfinite(weights) & (weights >= 0)).all():
        raise TaskError(
            f"separate_slacks must give each of its {n} slacks a weight, finite and >= 0."
        )


def check_codes(task: Task, codes: Any, scores: StackedParts, augmented: FloatArray) -> None:
    """Raise TaskError unless ``codes(Y)`` are well formed and agree with the augmented argmax.

    ``augmented`` is ``loss - <difference, scores>`` of the argmax of each example.
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
    true = by_output[np.arange(len(labels)), labels]
    values = (losses[labels] + by_output - true[:, None]).max(axis=1)
    wrong = np.flatnonzero(
        np.abs(values - augmented) > 1e-8 * (1.0 + np.abs(by_output).sum(axis=1))
    )
    if len(wrong):
        i = wrong[0]
        raise TaskError(
            f"codes and separate disagree on X[{i}]: the largest loss minus difference of scores "
            f"is {values[i]:.6g} by codes(Y), {augmented[i]:.6g} by separate."
        )


def sizes(separation: Separation, scores: StackedParts) -> FloatArray:
    """Sum the absolute terms of :meth:`Separation.violations`, to bound its rounding."""
    absolute = {
        kind: SparseFeature(measure.parts, measure.channels, np.abs(measure.values))
        for kind, measure in separation.differences.items()
    }
    rows = {kind: np.abs(of_kind) for kind, of_kind in scores.rows.items()}
    magnitudes = Separation(-separation.losses, absolute, separation.indptr)
    return -magnitudes.violations(StackedParts(rows, scores.offsets))


def _check_well_formed(task: Task, separation: Any, scores: StackedParts, method: str) -> None:
    """Raise TaskError if types, lengths, ranges or values of a separation are wrong."""
    if not isinstance(separation, Separation):
        raise TaskError(
            f"{method} returned {type(separation).__name__}; it must return a Separation."
        )
    losses = np.asarray(separation.losses)
    if losses.ndim != 1:
        raise TaskError(f"{method} gave losses of shape {losses.shape}; give one for each output.")
    bad = np.flatnonzero(~np.isfinite(losses) | (losses < 0))
    if len(bad):
        raise TaskError(
            f"{method} gave output {bad[0]} the loss {losses[bad[0]]}; a loss must be finite and "
            ">= 0."
        )
    for kind, part in task.kinds.items():
        if kind not in separation.differences or kind not in separation.indptr:
            raise TaskError(f"{method} gave no differences or no indptr for kind {kind!r}.")
        _check_entries(separation, kind, part, len(scores.rows[kind]), method)


def _check_entries(
    separation: Separation, kind: str, part: PartKind, n_rows: int, method: str
) -> None:
    """Raise TaskError if the differences of one kind are malformed."""
    parts, channels, values = (np.asarray(column) for column in separation.differences[kind])
    if not len(parts) == len(channels) == len(values):
        raise TaskError(
            f"{method}: parts, channels and values of kind {kind!r} must be equally many."
        )
    indptr = np.asarray(separation.indptr[kind])
    ends = (
        indptr.shape == (len(separation.losses) + 1,)
        and indptr[0] == 0
        and indptr[-1] == len(values)
    )
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
