"""The batch forms of a task's methods, called so that an error names the example among all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from structboost.contract.listed_outputs import Marginals
from structboost.contract.parts import StackedParts
from structboost.contract.separation import (
    KeptTruth,
    Separation,
    check_one_each,
    loss_of,
)
from structboost.contract.task import Task
from structboost.exceptions import (
    TaskError,
    count_examples_from,
    names_examples,
    note_examples,
)
from structboost.validation import check_inputs, first_unusable

T = TypeVar("T")


def stacked(task: Task, X: Sequence[Any], first: int = 0) -> StackedParts:
    """:meth:`Task.stack` of the examples from number ``first`` on."""
    return _noted(
        "stack", first, len(X), lambda: task.stack(X), lambda i: task.stack([X[i]]), is_of_all=True
    )


def check_nothing_missing(stack: StackedParts, kind: str, learner: str) -> None:
    """Raise TaskError, which names the example, where a feature of a kind is missing (NaN)."""
    bad = first_unusable(stack.rows[kind], missing=False)
    if bad is not None:
        example = int(np.searchsorted(stack.offsets[kind], bad, side="right")) - 1
        raise TaskError(
            f"X[{{sample}}] has NaN features, which {learner} cannot take; impute or drop them, "
            "or take weak_learner='stump' or 'tree'.",
            example,
        )


def stacked_inputs(task: Task, X: Sequence[Any]) -> StackedParts:
    """Stack inputs to predict for.

    A TaskError says that ``X`` may be one input, if the task takes neither its first nor its last
    entry.
    """
    check_inputs(X)
    if not len(X):
        raise ValueError("X is empty; give at least one input.")
    try:
        return stacked(task, X)
    except TaskError:
        raise
    except Exception as error:
        ends = [_raised(lambda i: task.stack([X[i]]), i) for i in (0, len(X) - 1)]
        if len(X) > 1 and all(type(end) is type(error) for end in ends):
            raise TaskError(
                f"The entries of X are not inputs of {type(task).__name__} "
                f"({type(error).__name__}: {error}); X must be a sequence of inputs: give [x] for "
                "one input x."
            ) from error
        raise


def separation(
    task: Task,
    X: Sequence[Any] | None,
    Y: Sequence[Any],
    scores: StackedParts,
    first: int = 0,
    truth: KeptTruth | None = None,
) -> Separation:
    """:meth:`Task.separate` of the examples from number ``first`` on.

    X may be None if the task does not read it.  ``truth`` goes with the scores, and spares the
    default ``separate`` the joint features of Y in further calls with the same examples.
    """
    inputs: Any = X

    def whole() -> Separation:
        return task.separate(inputs, Y, scores if truth is None else replace(scores, memo=truth))

    def alone(i: int) -> Separation:
        return task.separate(None if X is None else [X[i]], [Y[i]], _scores_of(scores, i))  # type: ignore[arg-type]

    return _noted("separate", first, len(Y), whole, alone)


def slack_separation(
    task: Task, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts, limit: int
) -> Separation:
    """:meth:`Task.separate_slacks` of all examples."""

    def alone(i: int) -> Separation:
        return task.separate_slacks([X[i]], [Y[i]], _scores_of(scores, i), limit)

    return _noted(
        "separate_slacks", 0, len(Y), lambda: task.separate_slacks(X, Y, scores, limit), alone
    )


def predictions(task: Task, X: Sequence[Any], scores: StackedParts) -> list[Any]:
    """:meth:`Task.predict_batch` of all examples."""

    def alone(i: int) -> Sequence[Any]:
        return task.predict_batch([X[i]], _scores_of(scores, i))

    found = _noted("argmax_batch", 0, len(X), lambda: task.predict_batch(X, scores), alone)
    check_one_each(found, len(X))
    return list(found)


def marginals(
    task: Task, X: Sequence[Any], scores: StackedParts, truth: KeptTruth | None = None
) -> Marginals:
    """:meth:`Task.marginals_batch` of all examples.

    ``truth`` goes with the scores, and spares a task that has :meth:`Task.outputs` only to list
    them again in further calls with the same examples.

    Raises
    ------
    TaskError
        If shapes are wrong, or values not finite; the message names the example.
    """

    def alone(i: int) -> Marginals:
        return task.marginals_batch([X[i]], _scores_of(scores, i))

    n = len(X)

    def whole() -> Marginals:
        return task.marginals_batch(X, scores if truth is None else replace(scores, memo=truth))

    found = _noted("marginals_batch", 0, n, whole, alone)
    shapes = {kind: found.expected[kind].shape for kind in task.kinds}
    if found.log_sums.shape != (n,) or any(
        shape != scores.rows[kind].shape for kind, shape in shapes.items()
    ):
        raise TaskError(
            f"marginals_batch gave the shapes {shapes} and log_sums {found.log_sums.shape}; give "
            "those of the scores, and a number for each example."
        )
    wrong = np.flatnonzero(~np.isfinite(found.log_sums))
    if len(wrong):
        i = int(wrong[0])
        raise TaskError(
            f"log_sum(X[{{sample}}], scores) is {found.log_sums[i]}; it must be finite.", i
        )
    return found


def mean_loss(task: Task, Y: Sequence[Any], outputs: Sequence[Any], weights: Any = None) -> float:
    """Mean of :meth:`Task.loss`, weighted if there are weights."""
    if len(Y) != len(outputs):
        raise ValueError(
            f"X has {len(outputs)} examples and Y {len(Y)}; they must be equally many."
        )
    losses = [loss_of(task, i, *pair) for i, pair in enumerate(zip(Y, outputs, strict=True))]
    return float(np.average(losses, weights=weights))


def _noted(
    method: str,
    first: int,
    n: int,
    whole: Callable[[], T],
    alone: Callable[[int], Any],
    *,
    is_of_all: bool = False,
) -> T:
    """Result of a batch form; an error names the example that raises it alone, too.

    ``whole`` calls the method for the ``n`` examples from number ``first`` on, ``alone`` for one of
    them.  Where it ``is_of_all``, a TaskError without an example is about all of them.
    """
    try:
        return whole()
    except Exception as error:
        if not names_examples(error) and not (is_of_all and isinstance(error, TaskError)):
            found = next((i for i in range(n) if type(_raised(alone, i)) is type(error)), None)
            note_examples(error, method, *((0, n - 1) if found is None else (found, found)))
        count_examples_from(error, first)
        raise


def _raised(alone: Callable[[int], Any], i: int) -> Exception | None:
    try:
        alone(i)
    except Exception as error:
        return error
    return None


def _scores_of(scores: StackedParts, i: int) -> StackedParts:
    """Scores of example ``i`` alone."""
    spans = {kind: starts[i : i + 2] for kind, starts in scores.offsets.items()}
    rows = {kind: scores.rows[kind][start:stop] for kind, (start, stop) in spans.items()}
    return StackedParts(rows, {kind: span - span[0] for kind, span in spans.items()})
