"""Checks that the batch forms of a task agree with the methods of one example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.conformance.batch_forms import (
    check_codes,
    check_separation,
    check_slacks,
    check_stack,
    sizes,
)
from structboost.conformance.sampled_outputs import TOLERANCE
from structboost.conformance.watched_task import WatchedTask, by_kind, stacked
from structboost.contract.equality import deeply_equal
from structboost.contract.listed_outputs import Marginals
from structboost.contract.optional_methods import HasCodes, HasSlacks
from structboost.contract.parts import StackedParts
from structboost.contract.returned_outputs import check_one_each
from structboost.contract.separation import Separation
from structboost.contract.sum_probe import has_sums
from structboost.contract.task import Task
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
