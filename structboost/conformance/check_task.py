"""A conformance kit for tasks: what :class:`structboost.Task` promises, tried on data."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from structboost.conformance.batch_agreement import check_batch_forms
from structboost.conformance.sampled_outputs import OutputListing
from structboost.conformance.single_examples import SingleExamples
from structboost.conformance.watched_task import WatchedTask, stacked
from structboost.contract.equality import deeply_equal
from structboost.contract.parts import check_declared
from structboost.contract.task import Task
from structboost.exceptions import TaskError
from structboost.validation import by_position, checked_positive, checked_whole_number

# Examples whose own methods are called (the batch forms see all), and those tried after pickling.
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
    """Try on examples ``(X[i], Y[i])`` whether a task keeps the contract.

    Tried are shapes, index ranges and finite values; ``loss(y, y) == 0`` and ``loss >= 0``; that
    methods are deterministic, leave their arguments as they were, and do the same after pickling;
    that at several random scores (not negative for kinds with answers in (0, 1)) the argmax, plain
    and loss-augmented, is not beaten by any output at hand; and that the batch forms agree with the
    four methods. The augmented argmax is also asked at one set of scores times 0.001 to 30: a loss
    that it scales differently than ``loss`` shows there.

    Outputs at hand for ``X[i]`` are its true output; true outputs of other examples; what the
    argmax found at other scores; ``outputs[i]``; and all that the task enumerates, where it has the
    optional method ``outputs(x)``, an iterable of *all* outputs for ``x``. Which true outputs of
    others fit ``X[i]`` the task says in :meth:`structboost.Task.is_valid`; unless it defines that,
    it is those of examples with as many parts that ``joint_feature`` does not refuse. Outputs of
    the argmax, true, given and enumerated ones must be valid. With ``exact_argmax = False`` the
    argmax may be beaten.

    At most ``max_outputs`` enumerated and ``max_outputs`` given outputs of an example are tried,
    the first ones, and all of them take about ``max_seconds`` at most. Where there are more, and
    the task defines ``is_valid``, random mixtures of the outputs at hand are tried as well; and a
    :class:`structboost.exceptions.SampledOutputsWarning` says for how many examples the argmax was
    not compared with all outputs.

    If the task defines ``loss_scores``, they must give every output at hand its loss; if it
    overrides ``argmax_batch``, that must find outputs as good as those of the argmax.  If the task
    lists the codes of all outputs, they must give the augmented values of the argmax.  If it
    defines ``marginals`` or ``log_sum``, the first must be the gradient of the second, which no
    output's score may exceed; both must be the sums over ``outputs(x)``, if there are at most 2000.

    Parameters
    ----------
    task : Task
        The task to check.
    X, Y : sequence
        Inputs and true outputs.  Beyond 200 examples, a random 200 are tried one by one.
    outputs : sequence of iterables, optional
        For each example some outputs, valid for its input.
    random_state : int or numpy Generator
        Seed of the random scores.
    comparable_outputs : bool
        Whether the scores of any two outputs compare.  Give False if the joint feature of an
        output is scaled by the truth that it was found for (a ranking: shares of the pairs of one
        truth).  Then the plain argmax is compared only with its own outputs at other scores, and
        true outputs of other examples are left out.
    max_outputs : int
        Most outputs tried of those that the task enumerates for an example, and of those given for
        it.
    max_seconds : float
        Time for these outputs, all examples together.

    Raises
    ------
    TaskError
        At the first broken property; the message names it and the sample.

    Warns
    -----
    SampledOutputsWarning
        If some outputs were left out. Small examples, of which all outputs are tried, are the
        sharper test.
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


def _check_arguments(task: Any, X: Any, Y: Any, outputs: Any) -> None:
    """Types and lengths, and the declared kinds."""
    if not isinstance(task, Task):
        raise TaskError(f"task is {task!r}; give an instance of a subclass of Task.")
    if len(X) != len(Y):
        raise TaskError(f"X has {len(X)} examples and Y {len(Y)}; they must be equally many.")
    if not len(X):
        raise TaskError("X is empty; give at least one example.")
    if outputs is not None and len(outputs) != len(X):
        raise TaskError(
            f"outputs has {len(outputs)} entries for {len(X)} examples; give one for each."
        )
    check_declared(task.kinds)


def _check_pickling(mine: SingleExamples) -> None:
    """A pickled and unpickled task does the same."""
    try:
        twin = pickle.loads(pickle.dumps(mine.task))
    except Exception as error:
        raise TaskError(
            f"task cannot be pickled ({type(error).__name__}: {error}); define its class at "
            "the top of a module, and keep no open files, lambdas or solver objects in it."
        ) from error
    examples = mine.examples[:_MAX_PICKLED]
    other = WatchedTask(twin, mine.X, mine.Y, examples, mine.random)
    other.sizes = mine.sizes
    for i in examples:
        scores = mine.random_scores(i, 1.0)
        sets = stacked([scores])
        same = deeply_equal(mine.parts[i], other.call("parts", i, x=mine.X[i]))
        for with_truth in (False, True):
            rated = (
                kit.evaluate(i, "", kit.found(i, scores, with_truth), sets) for kit in (mine, other)
            )
            same = same and deeply_equal(*rated)
        if not same:
            raise TaskError(
                f"The task gives other results for X[{i}] after pickling; keep all that its "
                "methods read in attributes that are pickled."
            )
