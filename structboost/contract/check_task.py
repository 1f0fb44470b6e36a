"""Check of a task on data against the contract of :class:`structboost.Task`."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from structboost.contract.batch_forms import check_batch_forms
from structboost.contract.equality import deeply_equal
from structboost.contract.sampled_outputs import OutputListing
from structboost.contract.single_examples import SingleExamples
from structboost.contract.task import Task, check_is_task
from structboost.contract.watched_task import WatchedTask, stacked
from structboost.errors import TaskError
from structboost.validation import by_position, checked_positive, checked_whole_number

# Examples for the methods of one example, and those tried after pickling.  Batch forms get all.
_MAX_EXAMPLES = 200
_MAX_PICKLED = 10


def check_task(
    task: Task,
    X: Sequence[Any],
    Y: Sequence[Any],
    outputs: Sequence[Iterable[Any]] | None = None,
    random_state: Any = 0,
    *,
    comparable_outputs: bool = True,
    max_outputs: int = 1000,
    max_seconds: float = 60.0,
) -> None:
    """Check on examples ``(X[i], Y[i])`` that a task keeps its contract.

    Shapes, index ranges and values must be valid, with ``loss(y, y) == 0`` and ``loss >= 0``.
    Methods must be deterministic, must not change their arguments, and must do the same after
    pickling.  At several random scores (not negative for kinds with responses in (0, 1)), no
    candidate output may beat the plain or the loss-augmented argmax.  The batch forms must agree
    with the four methods.  The augmented argmax is also called at multiples of one set of scores,
    from 0.001 to 30, to find a loss that it scales differently than ``loss``.

    Candidates for ``X[i]`` are its true output, true outputs of other examples, results of the
    argmax at other scores, ``outputs[i]``, and the outputs of the optional method ``outputs(x)``,
    which iterates over *all* outputs of ``x``.  :meth:`structboost.Task.is_valid` decides which
    true outputs of other examples fit ``X[i]``.  Without it, those are tried that
    ``joint_feature`` accepts, of inputs with equally many parts; as they may be no outputs of
    ``X[i]``, a violation by them is a warning and no error.  All other candidates must be valid.
    With ``exact_argmax = False``, candidates may beat the argmax.

    The first ``max_outputs`` of ``outputs(x)`` and of ``outputs[i]`` are tried, for about
    ``max_seconds`` at most.  If there are more, and the task defines ``is_valid``, random mixtures
    of the candidates are tried as well, and a
    :class:`structboost.errors.SampledOutputsWarning` counts the examples whose argmax was not
    compared with all outputs.

    ``loss_scores``, if defined, must give every candidate its loss.  ``argmax_batch``, if
    overridden, must find outputs as good as those of the argmax.  Codes of all outputs, if there
    are any, must give the augmented values of the argmax.  ``marginals`` must be the gradient of
    ``log_sum``, which no score of an output may exceed; both must be the sums over ``outputs(x)``
    if there are at most 2000.

    Parameters
    ----------
    task : Task
        The task to check.
    X, Y : sequence
        Inputs and true outputs.  Of more than 200 examples, a random 200 are tried one by one.
    outputs : sequence of iterables, optional
        Some outputs for each example, valid for its input.
    random_state : int or numpy Generator
        Seed of the random scores.
    comparable_outputs : bool
        Whether the scores of any two outputs are comparable.  Give False if the truth scales the
        joint feature of an output, as in a ranking.  Then the plain argmax is compared only with
        its results at other scores, and true outputs of other examples are left out.
    max_outputs : int
        Maximum number of outputs of an example to try, from ``outputs(x)`` and from ``outputs``.
    max_seconds : float
        Time for these outputs of all examples.

    Raises
    ------
    TaskError
        At the first violation; the message names it and the sample.

    Warns
    -----
    UnsureOutputWarning
        If only a true output of another input beats the argmax, and the task has no ``is_valid``.
    SampledOutputsWarning
        If some outputs were left out.  Small examples, whose outputs are all tried, are the
        stricter test.
    """
    _check_arguments(task, X, Y, outputs)
    checked_whole_number(max_outputs, "max_outputs")
    checked_positive(max_seconds, "max_seconds")
    X, Y = by_position(X), by_position(Y)
    random = np.random.default_rng(random_state)
    examples: list[int] = sorted(random.permutation(len(X))[:_MAX_EXAMPLES].tolist())
    kit = SingleExamples(task, X, Y, examples, random, comparable_outputs)
    kit.check_parts()
    listing = OutputListing(len(examples), max_outputs, max_seconds)
    for i in examples:
        kit.check_truth(i)
        kit.check_argmax(i, () if outputs is None else outputs[i], listing)
    check_batch_forms(kit, kit.rows, comparable_outputs)
    _check_pickling(kit)
    listing.warn()
    kit.warn()


def _check_arguments(task: Any, X: Any, Y: Any, outputs: Any) -> None:
    """Raise TaskError if types, lengths or declared kinds are wrong."""
    try:
        check_is_task(task)
    except TypeError as error:
        raise TaskError(str(error)) from None
    if len(X) != len(Y):
        raise TaskError(f"X has {len(X)} examples and Y {len(Y)}; they must be equally many.")
    if not len(X):
        raise TaskError("X is empty; give at least one example.")
    if outputs is not None and len(outputs) != len(X):
        raise TaskError(
            f"outputs has {len(outputs)} entries for {len(X)} examples; give one for each."
        )


def _check_pickling(original: SingleExamples) -> None:
    """Raise TaskError unless a pickled and unpickled task does the same."""
    try:
        twin = pickle.loads(pickle.dumps(original.task))
    except Exception as error:
        raise TaskError(
            f"task cannot be pickled ({type(error).__name__}: {error}); define its class at "
            "the top of a module, and store no open files, lambdas or solver objects in it."
        ) from error
    examples = original.examples[:_MAX_PICKLED]
    other = WatchedTask(twin, original.X, original.Y, examples, original.random)
    other.sizes = original.sizes
    for i in examples:
        scores = original.random_scores(i, 1.0)
        sets = stacked([scores])
        same = deeply_equal(original.parts[i], other.call("parts", i, x=original.X[i]))
        for with_truth in (False, True):
            rated = (
                kit.evaluate(i, "", kit.argmax(i, scores, with_truth), sets)
                for kit in (original, other)
            )
            same = same and deeply_equal(*rated)
        if not same:
            raise TaskError(
                f"The task gives other results for X[{i}] after pickling; store what its methods "
                "read in attributes that are pickled."
            )
