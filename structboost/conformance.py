"""Does a task keep its contract?  A kit for authors, as scikit-learn's ``check_estimator``."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import TaskError
from structboost.task import (
    Measure,
    PartKind,
    Separation,
    StackedParts,
    Task,
    loss_of,
    measure_of,
    separation_of,
    stack_parts,
)

_N_SCORES = 5
_TOLERANCE = 1e-8


def check_task(
    task: Task,
    X: Sequence[Any],
    Y: Sequence[Any],
    outputs: Sequence[Iterable[Any]] | None = None,
    *,
    random_state: int = 0,
) -> None:
    """Check a task on examples; silent if it keeps its contract.

    Scores are drawn at random, so a pass is no proof that an argmax is exact: give as many outputs as are cheap.

    Parameters
    ----------
    task : Task
        If it has a method ``outputs(x)`` that enumerates the outputs of an input, no argmax may be
        beaten by one of them.
    X, Y : sequence
        A few inputs and their true outputs.
    outputs : sequence of iterables, optional
        For each example outputs that its argmax must not be beaten by.
    random_state : int

    Raises
    ------
    TaskError
        On the first broken property; the message names the sample and the property.
    """
    _check_declaration(task)
    if not len(X):
        raise TaskError("X is empty: give at least one example.")
    if len(X) != len(Y):
        raise TaskError(f"X has {len(X)} examples and Y {len(Y)}; they must be equally many.")
    if outputs is not None and len(outputs) != len(X):
        raise TaskError(f"outputs has {len(outputs)} entries for {len(X)} examples; give one iterable for each.")
    before = copy.deepcopy((list(X), list(Y)))
    stack = stack_parts(task.kinds, [task.parts(x) for x in X])
    _check_parts(task, X, stack)
    rng = np.random.default_rng(random_state)
    draws = [_draw_scores(task, stack, rng, zero=k == 0) for k in range(_N_SCORES)]
    for i in range(len(X)):
        _check_true_output(task, X[i], Y[i], i, stack)
        rivals = list(outputs[i]) if outputs is not None else []
        if callable(getattr(task, "outputs", None)):
            rivals += list(task.outputs(X[i]))  # type: ignore[attr-defined]
        _check_argmax(task, X[i], Y[i], i, [draw.example(i) for draw in draws], rivals)
    for draw in draws:
        _check_batch_forms(task, X, Y, stack, draw)
    _check_pickling(task, X, Y, draws[-1])
    if not _equal(before, (list(X), list(Y))):
        raise TaskError("A method of the task changed X or Y; methods must leave their arguments as they are.")


def _check_declaration(task: Any) -> None:
    if not isinstance(task, Task):
        raise TaskError(f"task is {task!r}; give an instance of a subclass of Task.")
    if not isinstance(task.kinds, Mapping) or not task.kinds:
        raise TaskError("kinds must be a dict with at least one kind of parts.")
    for name, kind in task.kinds.items():
        if not isinstance(kind, PartKind):
            raise TaskError(f"kinds[{name!r}] is {kind!r}; give a PartKind.")
        low, high = kind.response
        if kind.n_channels < 1 or not np.isfinite((low, high)).all() or low >= high:
            raise TaskError(f"kinds[{name!r}] is {kind!r}; it needs a channel, and two finite responses, low < high.")


def _check_parts(task: Task, X: Sequence[Any], stack: StackedParts) -> None:
    """Parts are the same twice, in the batch form, and by selected features."""
    for i, x in enumerate(X):
        again = stack_parts(task.kinds, [task.parts(x)])
        for kind, rows in again.rows.items():
            own = stack.rows[kind][stack.offsets[kind][i] : stack.offsets[kind][i + 1]]
            if not np.array_equal(rows, own):
                raise TaskError(f"parts(X[{i}]) differs between two calls for kind {kind!r}; it must be deterministic.")
            if task.selects_features:
                chosen = np.arange(own.shape[1])[::-2]
                features = chosen if len(task.kinds) == 1 else {k: chosen if k == kind else None for k in task.kinds}
                found = task.parts(x, features=features)  # type: ignore[call-arg]
                found = found[kind] if isinstance(found, Mapping) else found
                if not np.array_equal(np.asarray(found), own[:, chosen]):
                    raise TaskError(f"parts(X[{i}], features=...) is not those columns of parts(X[{i}]) for {kind!r}.")
    batch = task.stack(X)
    for kind in task.kinds:
        if not np.array_equal(batch.offsets[kind], stack.offsets[kind]):
            raise TaskError(f"stack(X) has other offsets than the parts of the examples for kind {kind!r}.")
        if not np.array_equal(batch.rows[kind], stack.rows[kind]):
            bad = int(np.flatnonzero((batch.rows[kind] != stack.rows[kind]).any(axis=1))[0])
            i = int(np.searchsorted(stack.offsets[kind], bad, side="right")) - 1
            raise TaskError(f"stack(X) has other rows than parts(X[{i}]) for kind {kind!r}.")


def _draw_scores(task: Task, stack: StackedParts, rng: np.random.Generator, *, zero: bool) -> StackedParts:
    """Random scores that a model could give: not negative where responses are not."""
    rows = {}
    for kind, of_kind in task.kinds.items():
        drawn = rng.normal(size=(len(stack.rows[kind]), of_kind.n_channels))
        if of_kind.response[0] >= 0:
            drawn = np.abs(drawn)
        rows[kind] = np.zeros_like(drawn) if zero else drawn
    return StackedParts(rows, stack.offsets)


def _check_true_output(task: Task, x: Any, y: Any, i: int, stack: StackedParts) -> None:
    _joint_feature(task, x, y, i, stack.example(i))
    own = loss_of(task, y, y, i)
    if own != 0:
        raise TaskError(f"loss(Y[{i}], Y[{i}]) is {own}; the loss of the true output must be 0.")


def _joint_feature(task: Task, x: Any, y: Any, i: int, like: Any) -> dict[str, Measure]:
    """Checked measures of an output; ``like`` tells the number of parts."""
    joint = task.joint_feature(x, y)
    parts = like if isinstance(like, Mapping) else {next(iter(task.kinds)): like}
    return {kind: measure_of(task.kinds, joint, kind, len(parts[kind]), i) for kind in task.kinds}


def _value(task: Task, x: Any, y: Any, i: int, scores: Any) -> float:
    """<M(x, y), scores>."""
    by_kind = scores if isinstance(scores, Mapping) else {next(iter(task.kinds)): scores}
    measures = _joint_feature(task, x, y, i, scores)
    return float(sum(m.values @ by_kind[kind][m.parts, m.channels] for kind, m in measures.items()))


def _check_argmax(task: Task, x: Any, y: Any, i: int, draws: Sequence[Any], rivals: list[Any]) -> None:
    """No output known is better than the argmax, with and without the loss."""
    for true in (None, y):
        found = []
        for scores in draws:
            given = copy.deepcopy(scores)
            output = task.argmax(x, given, true)
            if not _equal(given, scores):
                raise TaskError(f"argmax(X[{i}], scores, y) changed its scores; work on a copy.")
            if not _equal(output, task.argmax(x, copy.deepcopy(scores), true)):
                raise TaskError(f"argmax(X[{i}], scores, y) differs between two calls; it must be deterministic.")
            _joint_feature(task, x, output, i, scores)
            loss_of(task, y, output, i)
            found.append(output)
        if not task.exact_argmax:
            continue
        # Plain outputs may be of a coarser kind than augmented ones (ranks instead of pairs): compare like with like.
        known = [*found, *rivals] if true is None else [*found, *rivals, y]
        for scores, best in zip(draws, found, strict=True):
            _check_not_beaten(task, x, y, i, scores, best, known, augmented=true is not None)


def _check_not_beaten(
    task: Task, x: Any, y: Any, i: int, scores: Any, best: Any, known: Sequence[Any], *, augmented: bool
) -> None:
    def value(output: Any) -> float:
        return _value(task, x, output, i, scores) + (loss_of(task, y, output, i) if augmented else 0.0)

    reached = value(best)
    for output in known:
        other = value(output)
        if other > reached + _TOLERANCE * max(1.0, abs(reached)):
            kind = "loss-augmented " if augmented else ""
            raise TaskError(
                f"The {kind}argmax of X[{i}] reaches {reached:.6g}, but the output {_shown(output)} reaches "
                f"{other:.6g} on the same scores; repair argmax, or set exact_argmax = False."
            )


def _check_batch_forms(
    task: Task, X: Sequence[Any], Y: Sequence[Any], stack: StackedParts, scores: StackedParts
) -> None:
    """``separate`` finds for every example as much as the argmax; ``separate_slacks`` adds up to it."""
    singles = [task.argmax(X[i], scores.example(i), Y[i]) for i in range(len(X))]
    expected = np.maximum(_violations(task, separation_of(task, X, Y, singles, stack.offsets), scores, "argmax"), 0)
    found = np.maximum(_violations(task, task.separate(X, Y, scores), scores, "separate"), 0)
    if len(found) != len(X):
        raise TaskError(f"separate(X, Y, scores) gave {len(found)} outputs for {len(X)} examples; give one for each.")
    wrong = np.flatnonzero(np.abs(found - expected) > _TOLERANCE * np.maximum(1.0, np.abs(expected)))
    if len(wrong):
        i = int(wrong[0])
        raise TaskError(
            f"separate(X, Y, scores) finds a violation of {found[i]:.6g} for X[{i}], the argmax {expected[i]:.6g}."
        )
    slack_cuts = task.separate_slacks(X, Y, scores, 10**6)
    violations = _violations(task, slack_cuts, scores, "separate_slacks")
    weights = np.full(len(X), 1.0 / len(X)) if slack_cuts.weights is None else slack_cuts.weights
    total = float(weights @ np.maximum(violations, 0.0))
    if abs(total - expected.mean()) > _TOLERANCE * max(1.0, expected.mean()):
        raise TaskError(
            f"separate_slacks(X, Y, scores) adds up to a risk of {total:.6g}, the argmax to {expected.mean():.6g}; "
            "the two forms must have the same risk (Theorem 2.1)."
        )


def _violations(task: Task, found: Separation, scores: StackedParts, method: str) -> NDArray[np.float64]:
    """``loss - <difference, scores>`` of every output of a well-formed separation."""
    n = len(found.losses)
    if not (np.isfinite(found.losses).all() and (found.losses >= 0).all()):
        bad = int(np.flatnonzero(~np.isfinite(found.losses) | (found.losses < 0))[0])
        raise TaskError(f"{method} gave the loss {found.losses[bad]} for output {bad}; losses are finite and >= 0.")
    out = found.losses.astype(np.float64)
    for kind in task.kinds:
        measure, indptr = found.differences[kind], np.asarray(found.indptr[kind])
        if len(indptr) != n + 1 or indptr[0] != 0 or indptr[-1] != len(measure.values) or (np.diff(indptr) < 0).any():
            raise TaskError(f"{method} gave an indptr for kind {kind!r} that does not fit its {n} outputs.")
        n_rows, n_channels = scores.rows[kind].shape
        for name, index, limit in (("part", measure.parts, n_rows), ("channel", measure.channels, n_channels)):
            if len(index) and not 0 <= index.min() <= index.max() < limit:
                raise TaskError(f"{method} names a {name} outside 0..{limit - 1} of kind {kind!r}.")
        owner = np.repeat(np.arange(n), np.diff(indptr))
        np.subtract.at(out, owner, measure.values * scores.rows[kind][measure.parts, measure.channels])
    return out


def _check_pickling(task: Task, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts) -> None:
    try:
        loaded = pickle.loads(pickle.dumps(task))
    except Exception as error:
        raise TaskError(f"The task cannot be pickled ({error}); keep handles and lambdas out of it.") from error
    for i in range(len(X)):
        same = _equal(
            loaded.argmax(X[i], scores.example(i), Y[i]), task.argmax(X[i], scores.example(i), Y[i])
        ) and _equal(loaded.parts(X[i]), task.parts(X[i]))
        if not same:
            raise TaskError(f"The pickled task gives another result for X[{i}]; its state must be in its attributes.")


def _equal(a: Any, b: Any) -> bool:
    """Equality of nested containers and arrays; other things by ``==``, or by their pickles."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(np.asarray(a), np.asarray(b))
    if isinstance(a, Mapping):
        return isinstance(b, Mapping) and a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(_equal, a, b))
    same = a == b
    return bool(same) if isinstance(same, (bool, np.bool_)) else pickle.dumps(a) == pickle.dumps(b)


def _shown(output: Any) -> str:
    text = repr(output)
    return text if len(text) <= 80 else text[:77] + "..."
