"""Check of a task on data against the contract of :class:`structboost.Task`."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from structboost._typing import Examples, FloatArray
from structboost.contract.calls import differ, marginals, separation, size_of, stacked
from structboost.contract.parts import SLIP, StackedParts, deep_copy, deeply_equal, stack_parts
from structboost.contract.probes import Probe, check_same_parts, has_sums, probe_sums_of
from structboost.contract.separation import Separation, best_outputs
from structboost.contract.task import Batches, Lists, Predicts, Task, Validates, checked_task
from structboost.errors import (
    ExampleNote,
    SampledOutputsWarning,
    TaskError,
    TooManyOutputsError,
    examples_numbered,
    on_example,
    warn_user,
)
from structboost.validation import by_position, check_examples, checked_whole_number, rows_of, shown

# Examples that are tried, and those tried after pickling.
_MAX_EXAMPLES = 200
_MAX_PICKLED = 10
# True outputs of other examples tried on each.
_MAX_FOREIGN = 20
# Standard deviations of the random scores.  At 0, all outputs tie or only the loss decides.
_SCALES = (0.0, 1.0, 1.0, 0.1, 10.0)
# Multiples of a set of scores, at some of which a wrongly scaled loss changes the argmax.
_MULTIPLES = tuple(np.geomspace(1e-3, 30.0, 20).tolist())
# Sets of scores to multiply, over all examples, and at least one for each.
_MULTIPLIED_SETS = 8
# Outputs up to which sums are compared with all of them.
_MOST_LISTED = 2000


def check_task(
    task: Task,
    X: Examples,
    Y: Examples,
    outputs: Sequence[Iterable[Any]] | None = None,
    random_state: Any = 0,
    *,
    max_outputs: int = 1000,
) -> None:
    """Check on examples ``(X[i], Y[i])`` that a task keeps its contract.

    Shapes, index ranges and values must be valid, with ``loss(y, y) == 0`` and ``loss >= 0``.
    Methods must be deterministic, must not change their arguments, and must do the same after
    pickling.  At several random scores (not negative for kinds with responses in (0, 1)), no
    candidate output may beat the plain or the loss-augmented argmax.  The batch forms must agree
    with the four methods.  The augmented argmax is also called at multiples of one set of scores,
    from 0.001 to 30, to find a loss that it scales differently than ``loss``.

    Candidates for ``X[i]`` are its true output, results of the argmax at other scores,
    ``outputs[i]``, and the outputs of the optional method :meth:`Lists.outputs`, which iterates
    over *all* outputs of ``x``.  With :meth:`Validates.is_valid`, so are the true outputs of other
    examples that fit ``X[i]``, and all candidates must be valid.  With ``exact_argmax = False``,
    candidates may beat the argmax.

    The first ``max_outputs`` of ``outputs(x)`` and of ``outputs[i]`` are tried.  If there are more,
    a :class:`structboost.errors.SampledOutputsWarning` counts the examples whose argmax was not
    compared with all outputs.

    ``loss_scores``, if defined, must give every candidate its loss.  ``argmax_batch``, if defined,
    must find outputs as good as those of the argmax.  ``marginals`` must be the gradient of
    ``log_sum``, which no score of an output may exceed; both must be the sums over ``outputs(x)``
    if there are at most 2000.

    Parameters
    ----------
    task : Task
        The task to check.
    X, Y : sequence
        Inputs and true outputs.  Of more than 200 examples, a random 200 are tried.
    outputs : sequence of iterables, optional
        Some outputs for each example, valid for its input.
    random_state : int or numpy Generator
        Seed of the random scores.
    max_outputs : int
        Maximum number of outputs of an example to try, from ``outputs(x)`` and from ``outputs``.

    Raises
    ------
    TaskError
        At the first violation; the message names it and the sample.

    Warns
    -----
    SampledOutputsWarning
        If some outputs were left out.  Small examples, whose outputs are all tried, are the
        stricter test.
    """
    checked_task(task)
    check_examples(X, Y)
    if outputs is not None and len(outputs) != len(X):
        raise TaskError(
            f"outputs has {len(outputs)} entries for {len(X)} examples; give one for each."
        )
    checked_whole_number(max_outputs, "max_outputs")
    random = np.random.default_rng(random_state)
    examples = np.sort(random.permutation(len(Y))[:_MAX_EXAMPLES])
    with _task_errors(), examples_numbered(examples):
        checker = _Checker(
            task, rows_of(by_position(X), examples), rows_of(by_position(Y), examples), random
        )
        checker.most_outputs = max_outputs
        for place, i in enumerate(examples.tolist()):
            checker.check_example(place, () if outputs is None else outputs[i])
        checker.check_batches()
        checker.check_pickling()
    if checker.sampled:
        warn_user(
            f"For {len(checker.sampled)} of {len(examples)} examples, the first of which is "
            f"X[{examples[checker.sampled[0]]}], the argmax was compared with a sample of the "
            "outputs only, the first ones. Give smaller examples, or raise max_outputs.",
            SampledOutputsWarning,
        )


@contextmanager
def _task_errors() -> Iterator[None]:
    """Turn any error of a task into a TaskError with the method and the example."""
    try:
        yield
    except TaskError:
        raise
    except Exception as error:
        notes = [n for n in getattr(error, "__notes__", []) if isinstance(n, ExampleNote)]
        if not notes:
            raise
        (note,) = notes
        where = f" for X[{note.first}]" if note.first == note.last else ""
        raise TaskError(f"{note.method} raised {type(error).__name__}{where}: {error}") from error


class _Checker:
    """Task with the examples that it is tried on.

    Attributes
    ----------
    sampled : list of int
        Examples whose argmax was not compared with all outputs.
    """

    most_outputs = 1000

    def __init__(self, task: Task, X: Examples, Y: Examples, random: np.random.Generator) -> None:
        self.task, self.X, self.Y, self._random = task, X, Y, random
        self.sampled: list[int] = []
        self._before = [(deep_copy(X[i]), deep_copy(y)) for i, y in enumerate(Y)]
        parts = [on_example("parts", i, task.parts, x) for i, x in enumerate(X)]
        self._parts = stack_parts(task.kinds, parts)
        for i, x in enumerate(X):
            check_same_parts(task, x, i)
            self._check_unchanged("parts", i)

    def check_example(self, i: int, outputs: Iterable[Any]) -> None:
        """Check the methods of one example, and that its argmax is optimal at random scores."""
        task, x, y = self.task, self.X[i], self.Y[i]
        self._check_valid(i, "the true output Y[{sample}]", y)
        probe = self._probe(task, i)
        probe.check_truth()
        sets = [self._random_scores(i, scale) for scale in _SCALES]
        places = []
        for scores in sets:
            first, second = probe.search(scores), probe.search(scores)
            if not deeply_equal(probe.rated(first), probe.rated(second)):
                raise TaskError(
                    "argmax(X[{sample}], scores) is not deterministic: two calls gave different "
                    "outputs.",
                    i,
                )
            places += first
        for _ in range(max(1, _MULTIPLIED_SETS // len(self.Y))):
            base = self._random_scores(i, 1.0)
            for multiple in _MULTIPLES:
                places += probe.search({kind: multiple * rows for kind, rows in base.items()})
        pool = [output for k in places if (output := probe.outputs[k]) is not ...]
        for output in pool:
            self._check_valid(i, "an output of the argmax", output)
        rows = sets[1] if len(sets[1]) > 1 else next(iter(sets[1].values()))
        if isinstance(task, Predicts):
            on_example("predict", i, task.predict, x, rows)
        if has_sums(task):
            with suppress(TooManyOutputsError), examples_numbered([i]):
                probe_sums_of(task, [x], y, sets[1], _MOST_LISTED)
        if task.exact_argmax:
            self._add_candidates(probe, outputs)
            probe.check_loss_scores()
            probe.check()
        self._check_unchanged("argmax, joint_feature, loss or is_valid", i)

    def _add_candidates(self, probe: Probe, outputs: Iterable[Any]) -> None:
        """Add outputs to compare with the argmax."""
        task, i = self.task, probe.i
        listed: Any = ()
        if isinstance(task, Lists):
            listed = on_example("outputs", i, task.outputs, self.X[i])
        n_left_out, has_truth = 0, not isinstance(task, Lists)
        for name, source in (("outputs[{sample}]", outputs), ("outputs(X[{sample}])", listed)):
            for k, output in enumerate(source):
                if k == self.most_outputs:
                    n_left_out += 1
                    break
                self._check_valid(i, f"output {k} of {name}", output)
                probe.add(f"output {k} of {name}", output)
                has_truth |= source is listed and probe.losses[-1] <= SLIP
        if n_left_out:
            self.sampled.append(i)
        elif not has_truth:
            raise TaskError(
                "outputs(X[{sample}]) does not list the true output Y[{sample}]: none of them has "
                "the loss 0. List all outputs of an input, or correct Y[{sample}].",
                i,
            )
        if isinstance(task, Validates) and (n_left_out or not isinstance(task, Lists)):
            others = self._random.permutation(np.delete(np.arange(len(self.Y)), i))
            for j in others[:_MAX_FOREIGN].tolist():
                if self._is_valid(i, self.Y[j]):
                    probe.add(f"the output Y[{j}]", self.Y[j])

    # -- batch forms -------------------------------------------------------------------------------

    def check_batches(self) -> None:
        """Check that the batch forms of all examples do what they do for each one alone."""
        task, X, Y = self.task, self.X, self.Y
        stack = stacked(task, X)
        self._check_stack(stack)
        for scale in (0.0, 1.0, 10.0):
            rows = {kind: self._random_rows(kind, len(r), scale) for kind, r in stack.rows.items()}
            scores = StackedParts(rows, stack.offsets)
            before = deep_copy(rows)
            whole = separation(task, X, Y, scores)
            if not task.reads_inputs and not deeply_equal(whole, separation(task, None, Y, scores)):
                raise TaskError(
                    "separate(None, Y, scores) differs from separate(X, Y, scores); leave X "
                    "alone, or set reads_inputs = True."
                )
            if task.exact_argmax:
                self._compare("separate", _separated, scores)
            if isinstance(task, Batches):
                for i, output in enumerate(task.argmax_batch(X, scores)):
                    self._check_valid(i, "an output of argmax_batch", output)
                if task.exact_argmax:
                    self._compare("argmax_batch", _searched, scores)
            if has_sums(task):
                with suppress(TooManyOutputsError):
                    self._compare("marginals_batch", _summed, scores)
            if type(task).codes is not Task.codes and task.exact_argmax:
                _check_codes(task, task.codes(Y), scores, whole.violations(scores))
            if not deeply_equal(rows, before):
                raise TaskError("A batch form changed the scores in place; work on a copy.")
        for i in range(len(Y)):
            self._check_unchanged("a batch form", i)

    def _compare(
        self,
        name: str,
        values_of: Callable[[Task, Any, Any, StackedParts], Any],
        scores: StackedParts,
    ) -> None:
        """Check that a batch form gives each example the values that it has alone."""
        whole = values_of(self.task, self.X, self.Y, scores)
        for i in range(len(self.Y)):
            one = scores.only(i)
            with examples_numbered([i]):
                alone = values_of(self.task, self.X[i : i + 1], self.Y[i : i + 1], one)
            for kind, value in whole.items():
                rows = slice(i, i + 1) if not kind else slice(*scores.offsets[kind][i : i + 2])
                if differ(value[rows], alone[kind], size_of(one, 0) + 1.0).any():
                    raise TaskError(
                        f"{name} gives X[{{sample}}] another result than alone: "
                        f"{shown(value[rows])}, not {shown(alone[kind])}.",
                        i,
                    )

    def _check_stack(self, stack: Any) -> None:
        """Check that ``stack(X)`` is well formed and has the rows of ``parts``."""
        for kind, starts in self._parts.offsets.items():
            wanted = self._parts.rows[kind]
            if (
                not isinstance(stack, StackedParts)
                or kind not in stack.rows
                or not np.array_equal(stack.offsets.get(kind, ()), starts)
                or np.shape(rows := stack.rows[kind]) != wanted.shape
            ):
                raise TaskError(
                    f"stack(X) returned {shown(stack)}; return StackedParts with rows[{kind!r}] of "
                    f"shape {wanted.shape}, those of parts(x) of all inputs, and the first row of "
                    "each, and their number, as offsets."
                )
            wrong = np.flatnonzero(~np.isclose(rows, wanted, rtol=1e-6, atol=0).all(axis=1))
            if len(wrong):
                i = int(np.searchsorted(starts, wrong[0], side="right")) - 1
                raise TaskError(
                    f"stack(X) differs from parts(X[{{sample}}]) in the rows of kind {kind!r}.", i
                )

    def check_pickling(self) -> None:
        """Check that a pickled and unpickled task does the same."""
        try:
            twin = pickle.loads(pickle.dumps(self.task))
        except Exception as error:
            raise TaskError(
                f"task cannot be pickled ({type(error).__name__}: {error}); define its class at "
                "the top of a module, and store no open files, lambdas or solver objects in it."
            ) from error
        for i in range(min(len(self.Y), _MAX_PICKLED)):
            scores, x = self._random_scores(i, 1.0), self.X[i]
            same = deeply_equal(self.task.parts(x), on_example("parts", i, twin.parts, x))
            probes = [self._probe(task, i) for task in (self.task, twin)]
            if not same or not deeply_equal(*(p.rated(p.search(scores)) for p in probes)):
                raise TaskError(
                    "The task gives other results for X[{sample}] after pickling; store what its "
                    "methods read in attributes that are pickled.",
                    i,
                )

    # -- parts of the checks -----------------------------------------------------------------------

    def _n_parts(self, i: int) -> dict[str, int]:
        return {kind: int(at[i + 1] - at[i]) for kind, at in self._parts.offsets.items()}

    def _probe(self, task: Task, i: int) -> Probe:
        return Probe(task, self.X[i], self.Y[i], i, self._n_parts(i))

    def _random_scores(self, i: int, scale: float) -> dict[str, FloatArray]:
        return {kind: self._random_rows(kind, n, scale) for kind, n in self._n_parts(i).items()}

    def _random_rows(self, kind: str, n_rows: int, scale: float) -> FloatArray:
        """Draw normal scores, or absolute values if scores must not be negative."""
        part = self.task.kinds[kind]
        scores = scale * self._random.standard_normal((n_rows, part.n_channels))
        return np.abs(scores) if min(part.response) >= 0 else scores

    def _is_valid(self, i: int, y: Any) -> bool:
        task = self.task
        return not isinstance(task, Validates) or bool(
            on_example("is_valid", i, task.is_valid, self.X[i], y)
        )

    def _check_valid(self, i: int, name: str, y: Any) -> None:
        """Raise TaskError if ``is_valid`` refuses an output of an example, called ``name``."""
        if not self._is_valid(i, y):
            raise TaskError(
                f"is_valid(X[{{sample}}], y) is False for {name}; it must be True for every output "
                "of X[{sample}].",
                i,
            )

    def _check_unchanged(self, what: str, i: int) -> None:
        """Raise TaskError if the calls so far changed an input or a true output."""
        for argument, now, then in zip("XY", (self.X[i], self.Y[i]), self._before[i], strict=True):
            if then is not None and not deeply_equal(now, then):
                raise TaskError(
                    f"{what} changed {argument}[{{sample}}] in place; work on a copy.", i
                )


def _check_codes(task: Task, codes: Any, scores: StackedParts, augmented: FloatArray) -> None:
    """Raise TaskError unless ``codes(Y)`` are well formed and agree with the augmented argmax.

    ``augmented`` is ``loss - <difference, scores>`` of the argmax of each example.
    """
    ((_, rows),) = scores.rows.items()
    losses, by_output = np.asarray(codes.losses, np.float64), rows @ np.asarray(codes.codes).T
    if not (losses >= 0).all() or np.diag(losses).any():
        raise TaskError("codes(Y).losses must be >= 0, and zero on the diagonal.")
    true = by_output[np.arange(len(rows)), codes.labels]
    values = (losses[codes.labels] + by_output - true[:, None]).max(axis=1)
    wrong = np.flatnonzero(differ(values, augmented, np.abs(by_output).sum(axis=1)))
    if len(wrong):
        i = int(wrong[0])
        raise TaskError(
            "codes and separate disagree on X[{sample}]: the largest loss minus difference of "
            f"scores is {values[i]:.6g} by codes(Y), {augmented[i]:.6g} by separate.",
            i,
        )


# Values of each example by "", and of each row by kind.
def _separated(task: Task, X: Any, Y: Any, scores: StackedParts) -> dict[str, FloatArray]:
    return {"": separation(task, X, Y, scores).violations(scores)}


def _searched(task: Task, X: Any, Y: Any, scores: StackedParts) -> dict[str, FloatArray]:
    outputs = best_outputs(task, X, scores)
    separated = Separation.from_outputs(task, X, Y, outputs, scores.offsets)
    return {"": separated.violations(scores) - separated.losses}


def _summed(task: Task, X: Any, Y: Any, scores: StackedParts) -> dict[str, FloatArray]:
    sums = marginals(task, X, scores)
    return {"": sums.log_sums, **sums.expected}
