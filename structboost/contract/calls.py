"""Calls of the batch forms of a task, in which an error names the example.

Outputs of a pass are compared with those of other searches: a better one proves that the argmax is
not exact, the primal too low, and nothing certified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from structboost._typing import BoolArray, Examples, FloatArray, IntArray
from structboost.contract.parts import (
    LARGEST,
    OF_ARGMAX,
    SLIP,
    Marginals,
    StackedParts,
    check_not_none,
    check_one_each,
    deeply_equal,
    finite_array,
    hint,
    joint_features,
    loss_of,
    of_kind,
    real_number,
    refused_output,
    returned_none,
    starts_of,
)
from structboost.contract.separation import (
    KeptTruth,
    Separation,
    best_outputs,
    check_separation,
    listed_batch,
    separate_by_argmax,
)
from structboost.contract.task import (
    Batches,
    Predicts,
    Searches,
    Separates,
    SeparatesSlacks,
    Sums,
    SumsBatches,
    Task,
    is_enumerated,
)
from structboost.errors import (
    ConstantPredictionWarning,
    TaskError,
    count_examples_from,
    examples_numbered,
    names_examples,
    note_examples,
    on_example,
    warn_user,
)
from structboost.validation import (
    by_position,
    check_inputs,
    copied_in_order,
    first_unusable,
    rows_of,
    shown,
)

# Examples of a pass for each that is searched again, and the most of them.
_EXAMPLES_PER_CHECK, _MOST_CHECKED = 256, 4
# Step from one checked example to the next: a prime, so that passes check various ones.
_STRIDE = 7919

REMEDY = (
    "Search all outputs, and add the loss as it is: run check_task(task, X, Y), or set "
    "exact_argmax = False."
)

# Names of searches in errors.
AUGMENTED, PLAIN = "The loss-augmented argmax of X[{sample}]", "argmax(X[{sample}], scores)"
ANY = "the argmax of X[{sample}]"


def beaten(value: Any, rival: Any, size: Any) -> BoolArray:
    """Return where ``rival`` exceeds ``value`` by more than rounding of terms of this ``size``."""
    return np.asarray(rival - value > SLIP * (np.abs(value) + np.abs(rival) + size))


def differ(values: Any, rivals: Any, size: Any) -> BoolArray:
    """Return where values differ by more than rounding of terms of this ``size``."""
    return beaten(np.minimum(values, rivals), np.maximum(values, rivals), size)


def check_found(
    values: FloatArray, rivals: FloatArray, losses: FloatArray, scores: StackedParts, first: int = 0
) -> None:
    """Raise TaskError if an earlier output violates its margin more than the argmax.

    ``values`` and ``rivals`` are the largest violations, of the argmax and of the outputs it is
    compared with, and ``losses`` those of the outputs of the argmax.  The message has the index of
    the example, counted from ``first``.
    """
    for i in np.flatnonzero(beaten(values, rivals, losses)).tolist():
        if beaten(values[i], rivals[i], losses[i] + size_of(scores, i)):
            raise TaskError(
                "The loss-augmented argmax of X[{sample}] is not exact: it found an output of "
                f"value {values[i]:.6g}, an earlier output has {rivals[i]:.6g}. {REMEDY}",
                first + i,
            )


def size_of(scores: StackedParts, i: int) -> float:
    """Return the sum of the largest absolute scores of the parts of an example."""
    return sum(
        float(np.abs(rows[slice(*scores.offsets[kind][i : i + 2])]).max(axis=1, initial=0.0).sum())
        for kind, rows in scores.rows.items()
    )


class LastOutputs:
    """Last outputs of fixed examples, which the next ones must not fall behind.

    They are stored only if a task finds outputs one by one, where a comparison costs little.
    """

    def __init__(self) -> None:
        self._last: Separation | None = None

    def check(
        self,
        task: Task,
        separation: Separation,
        violations: FloatArray,
        scores: StackedParts,
        first: int = 0,
    ) -> None:
        """Compare new outputs at ``scores`` with the last ones, and store the new ones.

        TaskError if one of the last is better; the message names the example.
        """
        if not task.exact_argmax or task.separates_in_batches:
            return
        if self._last is not None:
            hinges = np.maximum(violations, 0.0)
            check_found(hinges, self._last.violations(scores), separation.losses, scores, first)
        self._last = separation


def stacked(task: Task, X: Examples, first: int = 0) -> StackedParts:
    """Call :meth:`Task.stack` for examples, the first of which has index ``first``.

    ``OrderedRows`` are copied in order, unless :func:`stacked_in_order` is called.
    """
    return stacked_in_order(task, copied_in_order(X), first)


def stacked_in_order(task: Task, X: Examples, first: int = 0) -> StackedParts:
    """Call :meth:`Task.stack` as :func:`stacked` does, without a copy of ``OrderedRows``."""
    with _naming("stack", len(X), lambda i: task.stack([X[i]]), first):
        return task.stack(X)


def check_nothing_missing(stack: StackedParts, kind: str, learner: str) -> None:
    """Raise TaskError, with the example, if a feature of a kind is missing (NaN)."""
    bad = first_unusable(stack.rows[kind], missing=False)
    if bad is not None:
        example = int(np.searchsorted(stack.offsets[kind], bad, side="right")) - 1
        raise TaskError(
            f"X[{{sample}}] has NaN features, which {learner} cannot take; impute or drop them, "
            "or take weak_learner='stump' or 'tree'.",
            example,
        )


def stacked_inputs(task: Task, X: Examples) -> StackedParts:
    """Stack the parts of inputs for prediction.

    If the task takes neither the first nor the last entry of ``X``, a TaskError explains that ``X``
    may be a single input.
    """
    check_inputs(X)
    if not len(X):
        raise ValueError("X is empty; give at least one input.")
    try:
        return stacked(task, X)
    except Exception as error:
        ends = [_raised(lambda i: task.stack([X[i]]), i) for i in (0, len(X) - 1)]
        is_of_all = len(X) > 1 and all(type(end) is type(error) for end in ends)
        if is_of_all and not (isinstance(error, TaskError) and "[x]" in str(error)):
            raise TaskError(
                f"The entries of X are not inputs of {type(task).__name__} "
                f"({type(error).__name__}: {error}); X must be a sequence of inputs: give [x] for "
                "one input x."
            ) from error
        raise


def separation(
    task: Task,
    X: Examples | None,
    Y: Examples,
    scores: StackedParts,
    first: int = 0,
    truth: KeptTruth | None = None,
) -> Separation:
    """Separate examples, the first of which has index ``first``.

    X may be None if the task does not read it.  With ``truth``, the joint features of Y are
    computed only once for the same examples.
    """
    with_truth = scores if truth is None else replace(scores, memo=truth)
    separate = task.separate if isinstance(task, Separates) else partial(separate_by_argmax, task)

    def alone(i: int) -> Separation:
        return separate(X if X is None else [X[i]], [Y[i]], scores.only(i))  # type: ignore[arg-type]

    with _naming("separate", len(Y), alone, first):
        result = separate(X, Y, with_truth)  # type: ignore[arg-type]
    if isinstance(task, Separates):
        check_separation(task, result, scores)
    if truth is not None and truth.counts_passes:
        truth.n_passes += 1
        try:
            check_pass(task, X, Y, scores, result, truth.n_passes)
        except Exception as error:
            count_examples_from(error, first)
            raise
    return result


def separation_of(
    task: Task, X: Examples, Y: Examples, scores: StackedParts, examples: IntArray, truth: KeptTruth
) -> Separation:
    """Separate some examples by the argmax, and keep the truth of the others."""
    rows = {
        kind: np.concatenate([np.arange(*starts[i : i + 2]) for i in examples])
        for kind, starts in scores.offsets.items()
    }
    sizes = {kind: np.diff(starts)[examples] for kind, starts in scores.offsets.items()}
    indices = examples.tolist()
    own_scores = StackedParts(
        {kind: scores.rows[kind][at] for kind, at in rows.items()},
        {kind: starts_of(of_kind) for kind, of_kind in sizes.items()},
        truth.of_examples(indices, rows),
    )
    worst = separate_by_argmax(task, [X[i] for i in indices], [Y[i] for i in indices], own_scores)
    losses = np.zeros(scores.n_examples)
    losses[examples] = worst.losses
    indptr = {}
    for kind, starts in worst.indptr.items():
        counts = np.zeros(scores.n_examples, np.int64)
        counts[examples] = np.diff(starts)
        indptr[kind] = starts_of(counts)
    differences = {
        kind: measure._replace(parts=rows[kind][measure.parts])
        for kind, measure in worst.differences.items()
    }
    return Separation(losses, differences, indptr)


def slack_separation(
    task: SeparatesSlacks, X: Examples, Y: Examples, scores: StackedParts, limit: int
) -> Separation:
    """Call :meth:`SeparatesSlacks.separate_slacks` for all examples."""

    def alone(i: int) -> Any:
        return task.separate_slacks([X[i]], [Y[i]], scores.only(i), limit)

    with _naming("separate_slacks", len(Y), alone):
        separated: Separation = task.separate_slacks(X, Y, scores, limit)
    return separated


def predictions(task: Task, X: Examples, scores: StackedParts) -> list[Any]:
    """Predict all examples, by :meth:`Predicts.predict` or the argmax."""
    if isinstance(task, Predicts):
        return [
            on_example("predict", i, task.predict, x, scores.example(i)) for i, x in enumerate(X)
        ]
    with _naming("argmax_batch", len(X), lambda i: best_outputs(task, [X[i]], scores.only(i))):
        outputs = best_outputs(task, X, scores)
    check_one_each(outputs, len(X))
    if isinstance(task, Searches) and not isinstance(task, Batches):
        _check_outputs(task, X, scores, outputs)
    return list(outputs)


def _check_outputs(task: Task, X: Examples, scores: StackedParts, outputs: Examples) -> None:
    """Raise TaskError if the joint feature refuses an output, the first of each type."""
    seen: set[Any] = set()
    for i, output in enumerate(outputs):
        kind = type(output), getattr(output, "dtype", None), getattr(output, "ndim", None)
        if kind not in seen:
            seen.add(kind)
            try:
                joint_features(task, [X[i]], [output], scores.only(i).offsets, OF_ARGMAX)
            except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
                if output is None:
                    raise returned_none(i) from error
                raise refused_output(OF_ARGMAX, output, "the task", error, i) from error


def marginals(
    task: Task, X: Examples, scores: StackedParts, truth: KeptTruth | None = None
) -> Marginals:
    """Return the marginals of all examples, by the methods that the task has.

    With ``truth``, a task that only lists its outputs lists them once for the same examples.
    TaskError, which names the example, if shapes are wrong, or values not finite.
    """
    n = len(X)
    if isinstance(task, SumsBatches):
        with _naming("marginals_batch", n, lambda i: task.marginals_batch([X[i]], scores.only(i))):
            result = task.marginals_batch(X, scores)
    elif isinstance(task, Sums):
        result = _sums_one_by_one(task, X, scores)
    else:
        result = listed_batch(task, X, scores, None if truth is None else truth.listings)
    if not isinstance(result, Marginals):
        raise TaskError(f"marginals_batch gave {shown(result)}; give Marginals{hint(result)}.")
    for kind in task.kinds:
        means = of_kind(task.kinds, result.expected, kind, None, "marginals_batch")
        finite_array(means, "marginals_batch", None, kind, scores.rows[kind].shape)
    _check_log_sums(result.log_sums, n)
    return result


def _sums_one_by_one(task: Any, X: Examples, scores: StackedParts) -> Marginals:
    expected: dict[str, list[FloatArray]] = {kind: [] for kind in task.kinds}
    log_sums = np.empty(len(X))
    for i, x in enumerate(X):
        rows = scores.example(i)
        means = on_example("marginals", i, task.marginals, x, rows)
        log_sum = on_example("log_sum", i, task.log_sum, x, rows)
        log_sums[i] = real_number(log_sum, "log_sum(X[{sample}], scores)", i)
        for kind, blocks in expected.items():
            of_parts = of_kind(task.kinds, means, kind, i, "marginals")
            shape = (int(scores.sizes(kind)[i]), task.kinds[kind].n_channels)
            blocks.append(finite_array(of_parts, "marginals(X[{sample}], scores)", i, kind, shape))
    return Marginals({kind: np.concatenate(rows) for kind, rows in expected.items()}, log_sums)


def log_sums(
    task: Task, X: Examples, scores: StackedParts, truth: KeptTruth | None = None
) -> FloatArray:
    """Return the logarithms of the sums alone, as :func:`marginals` does."""
    if not isinstance(task, SumsBatches):
        return marginals(task, X, scores, truth).log_sums
    with _naming("log_sums_batch", len(X), lambda i: task.log_sums_batch([X[i]], scores.only(i))):
        result = task.log_sums_batch(X, scores)
    _check_log_sums(result, len(X))
    return result


def _check_log_sums(values: FloatArray, n: int) -> None:
    if np.shape(values) != (n,):
        raise TaskError(
            f"log_sums have the shape {np.shape(values)}; give one for each of {n} examples."
        )
    wrong = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if len(wrong):
        i = int(wrong[0])
        raise TaskError(f"log_sum(X[{{sample}}], scores) is {values[i]}; it must be finite.", i)


def mean_loss(task: Task, Y: Examples, outputs: Examples, weights: Any = None) -> float:
    """Return the mean of :meth:`Task.loss`, weighted if there are weights."""
    return float(np.average(losses_of(task, Y, outputs), weights=weights))


def losses_of(task: Task, Y: Examples, outputs: Examples) -> FloatArray:
    """Return :meth:`Task.loss` of each example."""
    if len(Y) != len(outputs):
        raise ValueError(
            f"X has {len(outputs)} examples and Y {len(Y)}; they must be equally many."
        )
    losses = [loss_of(task, i, *pair) for i, pair in enumerate(zip(Y, outputs, strict=True))]
    return np.array(losses, np.float64)


def check_truths(task: Task, X: Examples, Y: Examples) -> None:
    """Raise TaskError if the joint feature refuses a true output of an input.

    The loss of two outputs cannot see that both are of another input.
    """
    if task.reads_inputs:
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            on_example("joint_feature", i, task.joint_feature, x, y)


def check_pass(
    task: Task,
    X: Examples | None,
    Y: Examples,
    scores: StackedParts,
    separated: Separation,
    n_passes: int,
) -> None:
    """Compare the outputs of a pass with the argmax without the loss, on a few examples.

    Either output is a candidate of the other search: the plain one, with its loss, must not beat
    the augmented one, nor the augmented one, without its loss, the plain one.  Passes whose number
    is a power of 2 are checked, so that the cost is below a hundredth of theirs.  A task is not
    checked if its argmax is declared inexact, is the best of its listed outputs, or is replaced by
    a compiled ``separate``.  ``X`` may be None if the task does not read it.  TaskError names the
    example and the method.
    """
    is_checked = task.exact_argmax and not (task.separates_in_batches or is_enumerated(task))
    n = len(Y)
    if not is_checked or n_passes & (n_passes - 1) or not n:
        return
    n_checked = min(max(1, n // _EXAMPLES_PER_CHECK), _MOST_CHECKED)
    augmented = separated.violations(scores)
    for i in np.unique((n_passes + np.arange(n_checked)) * _STRIDE % n).tolist():
        one, x = scores.only(i), [None if X is None or not task.reads_inputs else X[i]]
        before = deepcopy(one.rows)
        with examples_numbered([i]):
            outputs = best_outputs(task, x, one)
            check_one_each(outputs, 1)
            check_not_none(task, x[0], Y[i], outputs[0], 0)
            plain = Separation.from_outputs(task, x, [Y[i]], outputs, one.offsets)
        if not deeply_equal(one.rows, before):
            raise TaskError(
                "argmax or separate changed the scores of X[{sample}] in place; work on a copy.", i
            )
        value, losses = plain.violations(one)[0], (separated.losses[i], plain.losses[0])
        size = size_of(one, 0) + sum(losses)
        searches = (
            (AUGMENTED, "value", augmented[i], max(value, 0.0)),
            (PLAIN, "score", value - losses[1], max(augmented[i] - losses[0], 0.0)),
        )
        for call, terms, reached, rival in searches:
            if beaten(reached, rival, size):
                raise TaskError(
                    f"{call} is not exact: it found an output whose {terms} is {reached:.6g} above "
                    f"the truth, another output has {rival:.6g}. {REMEDY}",
                    i,
                )


@contextmanager
def _naming(method: str, n: int, alone: Callable[[int], Any], first: int = 0) -> Iterator[None]:
    """Name in an error of a batch form the example that raises it alone as well.

    ``alone`` calls the method for one of the ``n`` examples, the first of which has index
    ``first``.  A TaskError that begins with X or Y is about all of them.
    """
    try:
        yield
    except Exception as error:
        is_of_all = isinstance(error, TaskError) and str(error).startswith(("X ", "Y "))
        if not names_examples(error) and not is_of_all:
            culprit = next((i for i in range(n) if type(_raised(alone, i)) is type(error)), None)
            note_examples(error, method, *((0, n - 1) if culprit is None else (culprit, culprit)))
        count_examples_from(error, first)
        raise


def _raised(alone: Callable[[int], Any], i: int) -> Exception | None:
    try:
        alone(i)
    except Exception as error:
        return error
    return None


# Examples that are looked at first.  So many times as many are, where these have one prediction.
_SAMPLED, _TIMES = 50, 16

# What to write where the hinge of a loss is no guide.
WITHOUT_HINGE = (
    "Write objective='log_loss' (formulation='log' of StructBoost), or take a loss that counts the "
    "wrong parts of an output, such as loss='hamming' of label sets."
)

# Scores of the parts of inputs.
Scorer = Callable[[Sequence[Any]], StackedParts]


def warn_of_one_output(task: Task, X: Examples, Y: Examples, scores_of: Scorer) -> None:
    """Warn if a model predicts one output for all examples, whose true outputs differ.

    ``scores_of(X)`` returns the scores of the model.
    """
    X, Y = by_position(X), by_position(Y)
    if not predicts_one_output(task, X, Y, scores_of):
        return
    warn_user(
        "The model predicts one output for all training examples, whose true outputs differ.  Use "
        "more rounds, a larger C, or features that separate the outputs, or give the examples of "
        "rare outputs larger weights.  By the hinge, one output is the optimum whatever C where no "
        f"output of an input is more probable than all others together.  {WITHOUT_HINGE}",
        ConstantPredictionWarning,
    )


def predicts_one_output(task: Task, X: Examples, Y: Examples, scores_of: Scorer) -> bool:
    """Whether a model predicts one output for all examples, whose true outputs differ.

    True outputs that give no loss to the prediction count as the same: costs may differ, and have
    the same best decision.  The arguments are those of :func:`warn_of_one_output`.
    """
    X, Y = by_position(X), by_position(Y)
    n_rows = 0
    while n_rows < len(Y):
        n_rows = min(len(Y), max(_SAMPLED, _TIMES * n_rows))
        inputs = rows_of(X, np.linspace(0, len(Y) - 1, n_rows).astype(np.int64))
        outputs = predictions(task, inputs, scores_of(inputs))
        if not _are_same(task, inputs, outputs):
            return False
    return not _are_same(task, X, Y) and any(
        loss_of(task, i, y, outputs[i]) > 0 for i, y in enumerate(Y)
    )


def is_constant(
    task: Task, X: Examples, Y: Examples, outputs: Examples, scores: StackedParts
) -> bool:
    """Whether predictions are the same for all examples though the true outputs differ.

    They are constant if all parts of a kind have equal scores.  If outputs label parts, such as the
    tokens of a sequence, they are constant if all parts have one label.  Other outputs are constant
    if all are equal.
    """
    return all((rows == rows[:1]).all() for rows in scores.rows.values()) or (
        _are_same(task, X, outputs) and not _are_same(task, X, Y)
    )


def _are_same(task: Task, X: Examples, outputs: Examples) -> bool:
    """Whether all outputs are equal, or label all parts alike."""
    if task.labelled_kind is None:
        return all(deeply_equal(outputs[0], output) for output in outputs[1:])
    pairs = zip(X, outputs, strict=True)
    labels = [np.asarray(task.part_labels(x, y)) for x, y in pairs]
    rows = [part.reshape(len(part), -1) for part in labels if part.size]
    table = np.concatenate(rows or [np.empty((0, 1))])
    return bool((table == table[:1]).all())
