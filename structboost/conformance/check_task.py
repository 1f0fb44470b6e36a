"""A conformance kit for tasks: what :class:`structboost.Task` promises, tried on data."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.conformance.batch_forms import (
    check_codes,
    check_separation,
    check_slacks,
    check_stack,
    sizes,
)
from structboost.conformance.equality import deep_copy, deeply_equal
from structboost.conformance.marginals import (
    check_marginals,
    check_marginals_batch,
    has_marginals,
)
from structboost.conformance.sampled_outputs import (
    TOLERANCE,
    OutputListing,
    Rated,
    check_not_beaten,
)
from structboost.contract.measures import measure_of
from structboost.contract.parts import stack_parts
from structboost.contract.separation import check_loss, check_one_each, separation_at
from structboost.exceptions import TaskError, count_examples_from
from structboost.task import Measure, PartKind, Separation, StackedParts, Task
from structboost.validation import checked_positive, checked_whole_number, shown

# Examples whose own methods are called (the batch forms see all), and true outputs of others tried
# on each.
_MAX_EXAMPLES = 200
_MAX_FOREIGN = 20
# Standard deviations of the random scores; 0: all outputs tie, or only the loss decides.
_SCALES = (0.0, 1.0, 1.0, 0.1, 10.0)
# Multiples of a set of scores: a loss that argmax scales differently shows at some of them.
_MULTIPLES = tuple(np.geomspace(1e-3, 30.0, 20).tolist())
# Sets of scores that are multiplied, all examples together; at least one for each.
_MULTIPLIED_SETS = 8
# Rows up to which the m-slack form is asked for all its outputs.
_MAX_ROWS_FOR_ALL_SLACKS = 1000
# Scores of one example by kind, also where there is but one.
_Scores = dict[str, FloatArray]


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
    kit = _Kit(task, X, Y, np.random.default_rng(random_state), comparable_outputs)
    kit.check_parts()
    listing = OutputListing(len(kit.examples), max_outputs, max_seconds)
    for i in kit.examples:
        kit.check_truth(i)
        kit.check_argmax(i, () if outputs is None else outputs[i], listing)
    kit.check_batch_forms()
    kit.check_pickling()
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
    kinds: Any = task.kinds
    if not isinstance(kinds, Mapping) or not kinds:
        raise TaskError(f"task.kinds is {kinds!r}; give a dict of names to PartKind, at least one.")
    for kind, part in kinds.items():
        name = f"task.kinds[{kind!r}]"
        if not isinstance(part, PartKind):
            raise TaskError(f"{name} is {part!r}; give a PartKind.")
        if not isinstance(part.n_channels, (int, np.integer)) or part.n_channels < 1:
            raise TaskError(
                f"{name}.n_channels is {part.n_channels!r}; give a whole number from 1."
            )
        response = np.asarray(part.response)
        if response.shape != (2,) or not np.isfinite(response).all() or response[0] >= response[1]:
            raise TaskError(
                f"{name}.response is {part.response!r}; give two numbers in rising order."
            )


class _Kit:
    """The checks on one task and its examples."""

    def __init__(
        self,
        task: Task,
        X: Sequence[Any],
        Y: Sequence[Any],
        random: np.random.Generator,
        comparable: bool,
    ) -> None:
        self.task, self.X, self.Y, self.random = task, X, Y, random
        self.comparable = comparable
        self.examples: list[int] = sorted(random.permutation(len(X))[:_MAX_EXAMPLES].tolist())
        self.says_valid = type(task).is_valid is not Task.is_valid
        self.before = {i: (deep_copy(X[i]), deep_copy(Y[i])) for i in self.examples}
        self.parts: dict[int, Any] = {}
        self.rows: dict[int, dict[str, NDArray[Any]]] = {}
        self.sizes: dict[int, dict[str, int]] = {}

    # -- the four methods ---------------------------------------------------------------------

    def check_parts(self) -> None:
        """Shapes, finite values, determinism."""
        for i in self.examples:
            self.parts[i] = self._call("parts", i, x=self.X[i])
            if not deeply_equal(self.parts[i], self._call("parts", i, x=self.X[i])):
                raise TaskError(
                    f"parts(X[{i}]) is not deterministic: two calls gave different features."
                )
            self._check_against_first(i)
            self.rows[i] = self._by_kind(self.parts[i])
            self.sizes[i] = {kind: len(rows) for kind, rows in self.rows[i].items()}

    def _check_against_first(self, i: int) -> None:
        """Shape and values of the parts of ``X[i]``; as many features as the first example."""
        first = self.examples[0]
        pair = [self.parts[first], self.parts[i]] if i != first else [self.parts[i]]
        try:
            stack_parts(self.task.kinds, pair)
        except Exception as error:
            count_examples_from(error, i - len(pair) + 1)
            raise

    def check_truth(self, i: int) -> None:
        """Joint feature of the true output; its loss against itself."""
        self._valid(i, f"the true output Y[{i}]", self.Y[i])
        first, second = (self._measures(i, self.Y[i]) for _ in range(2))
        if not deeply_equal(first, second):
            raise TaskError(
                f"joint_feature(X[{i}], Y[{i}]) is not deterministic: two calls gave different "
                "weights."
            )
        loss = self._loss(i, self.Y[i])
        if loss > TOLERANCE:
            raise TaskError(
                f"loss(Y[{i}], Y[{i}]) is {loss:.6g}; the loss of the true output must be 0."
            )

    def check_argmax(self, i: int, given: Iterable[Any], listing: OutputListing) -> None:
        """Determinism and optimality at several random scores, plain and augmented."""
        scores = [self._random_scores(i, scale) for scale in _SCALES]
        for _ in range(max(1, _MULTIPLIED_SETS // len(self.examples))):
            base = self._random_scores(i, 1.0)
            scores += [
                {kind: multiple * rows for kind, rows in base.items()} for multiple in _MULTIPLES
            ]
        found = {
            False: [self._found(i, s, with_truth=False) for s in scores[: len(_SCALES)]],
            True: [
                self._found(i, s, with_truth=True, again=k < len(_SCALES))
                for k, s in enumerate(scores)
            ],
        }
        added = self._loss_scores(i)
        sets = _stacked(scores if added is None else [*scores, added])
        plain, augmented = (
            [
                self._evaluate(i, f"its own output at other scores (set {k})", output, sets)
                for k, output in enumerate(outputs)
            ]
            for outputs in found.values()
        )
        self._call("predict", i, x=self.X[i], scores=_only(scores[1]))
        if added is not None:
            self._check_loss_scores(i, sets, plain + augmented)
        if has_marginals(self.task):
            self._check_marginals(i, scores[1], found[False])
        if not self.task.exact_argmax:
            return
        pool = [self.Y[i], *found[False], *found[True]]
        others = [
            self._evaluate(i, name, output, sets, watched=False)
            for name, output in self._outputs_at_hand(i, given, pool, listing)
        ]
        self._check_unchanged("joint_feature, loss or is_valid", [i])
        if added is not None and self.comparable:
            self._check_loss_scores(i, sets, others)
        rivals = plain + augmented + others if self.comparable else plain
        check_not_beaten(f"argmax(X[{i}], scores)", plain, rivals, loss_weight=0)
        rivals = plain + augmented + others if self.comparable else augmented + others
        check_not_beaten(f"argmax(X[{i}], scores, Y[{i}])", augmented, rivals, loss_weight=1)

    def _check_marginals(self, i: int, scores: _Scores, outputs: Sequence[Any]) -> None:
        """Marginals and sums of one example, at scores of size 1."""

        def values(at: _Scores) -> list[float]:
            rated = [
                self._evaluate(i, "", output, _stacked([at]), watched=False)
                for output in (self.Y[i], *outputs)
            ]
            return [float(output.scores[0]) for output in rated]

        for name in ("marginals", "log_sum"):
            self._call(name, i, x=self.X[i], scores=_only(scores))
        check_marginals(self.task, i, self.X[i], scores, values, self.random)

    def _loss_scores(self, i: int) -> _Scores | None:
        """The loss as scores, zeros for the kinds left out; None if the task has none."""
        added = self._call("loss_scores", i, x=self.X[i], y=self.Y[i])
        if added is None:
            return None
        given = added if isinstance(added, Mapping) else dict.fromkeys(self.task.kinds, added)
        rows = {}
        for kind, n in self.sizes[i].items():
            shape = (n, self.task.kinds[kind].n_channels)
            rows[kind] = np.asarray(given.get(kind, np.zeros(shape)), np.float64)
            if rows[kind].shape != shape or not np.isfinite(rows[kind]).all():
                raise TaskError(
                    f"loss_scores(X[{i}], Y[{i}]) for kind {kind!r} must be finite, of shape "
                    f"(n_parts, n_channels) = {shape}; it has shape {rows[kind].shape}."
                )
            if min(self.task.kinds[kind].response) >= 0 and (rows[kind] < 0).any():
                raise TaskError(
                    f"loss_scores(X[{i}], Y[{i}]) is negative for kind {kind!r}, whose scores must "
                    "not be; put the loss on another kind."
                )
        return rows

    def _check_loss_scores(self, i: int, sets: _Scores, outputs: Sequence[Rated]) -> None:
        """The last set of scores gives each output its loss, counted from the truth."""
        truth = self._evaluate(i, "", self.Y[i], sets, watched=False)
        for output in outputs:
            by_scores = output.scores[-1] - truth.scores[-1]
            size = output.loss + output.sizes[-1] + truth.sizes[-1]
            if abs(by_scores - output.loss) > TOLERANCE * (1.0 + size):
                raise TaskError(
                    f"loss_scores and loss disagree on X[{i}]: {output.name} has the loss "
                    f"{output.loss:.6g}, and loss_scores(X[{i}], Y[{i}]) gives it {by_scores:.6g} "
                    "more than the truth."
                )

    def _outputs_at_hand(
        self, i: int, given: Iterable[Any], pool: list[Any], listing: OutputListing
    ) -> Iterator[tuple[str, Any]]:
        """True outputs, given, enumerated and mixed ones, each with a name."""
        yield f"the true output Y[{i}]", self.Y[i]
        if self.comparable:
            for j in self._foreign(i):
                yield f"the output Y[{j}]", self.Y[j]
        listing.start_example()
        for k, output in listing.first_of(given):
            yield self._valid(i, f"outputs[{i}][{k}]", output)
        listed = self._try("outputs", i, lambda: self.task.outputs(self.X[i]))
        for k, output in listing.first_of(() if listed is None else listed):
            yield self._valid(i, f"output {k} of task.outputs(X[{i}])", output)
        if self.says_valid:
            for output in listing.mixtures_of(pool, self.random):
                if self._is_valid(i, output):
                    yield f"the valid output {shown(output)}", output
        listing.end_example(i)

    def _foreign(self, i: int) -> Iterator[int]:
        """Examples whose true outputs are outputs of ``X[i]`` as well."""
        alike = [
            j
            for j in self.examples
            if j != i and (self.says_valid or self.sizes[j] == self.sizes[i])
        ]
        for j in self.random.permutation(alike)[:_MAX_FOREIGN].astype(int):
            if self._fits(i, self.Y[j]):
                yield j

    def _fits(self, i: int, y: Any) -> bool:
        """Whether the true output of another example is one of ``X[i]``."""
        if self.says_valid:
            return self._is_valid(i, y)
        try:
            self._measures(i, y)
            self.task.loss(self.Y[i], y)
        except Exception:  # whatever the task raises: it refuses the output
            return False
        return True

    def _is_valid(self, i: int, y: Any) -> bool:
        return bool(self._try("is_valid", i, lambda: bool(self.task.is_valid(self.X[i], y))))

    def _valid(self, i: int, name: str, y: Any) -> tuple[str, Any]:
        """Name and output, checked."""
        if not self._is_valid(i, y):
            raise TaskError(
                f"is_valid(X[{i}], y) is False for {name}; it must be True for every output of "
                f"X[{i}]."
            )
        return name, y

    def _check_unchanged(self, what: str, examples: Iterable[int]) -> None:
        """Neither inputs nor truths were changed by calls that were not watched one by one."""
        for i in examples:
            for argument, now, then in zip(
                "XY", (self.X[i], self.Y[i]), self.before[i], strict=True
            ):
                if then is not None and not deeply_equal(now, then):
                    raise TaskError(f"{what} changed {argument}[{i}] in place; work on a copy.")

    # -- the batch forms ----------------------------------------------------------------------

    def check_batch_forms(self) -> None:
        """The batch forms against the methods of one example."""
        stack = self._batch("stack", self.X)
        check_stack(self.task, stack, len(self.X), self.rows)
        for scale in (0.0, 1.0, 10.0):
            rows = {
                kind: self._random_rows(kind, len(stack.rows[kind]), scale)
                for kind in self.task.kinds
            }
            scores = StackedParts(rows, stack.offsets)
            found = self._batch("separate", self.X, self.Y, scores)
            check_separation(self.task, found, scores)
            if not self.task.reads_inputs and not deeply_equal(
                found, self._batch("separate", None, self.Y, scores)
            ):
                raise TaskError(
                    "separate(None, Y, scores) differs from separate(X, Y, scores); leave X "
                    "alone, or set reads_inputs = True."
                )
            if type(self.task).argmax_batch is not Task.argmax_batch:
                self._check_argmax_batch(scores)
            if has_marginals(self.task):
                check_marginals_batch(
                    self.task, self.X, scores,
                    self._batch("marginals_batch", self.X, scores), self.examples,
                )  # fmt: skip
            if self.task.exact_argmax:
                self._check_batch_values(found, scores)
                if type(self.task).codes is not Task.codes:
                    codes = self._batch("codes", self.Y)
                    check_codes(self.task, codes, scores, found.violations(scores))
            slacks = self._batch("separate_slacks", self.X, self.Y, scores, 2 * len(self.X))
            check_slacks(self.task, slacks, scores)
            if self.task.exact_argmax:
                self._check_all_slacks(found, scores)

    def _check_batch_values(
        self, found: Separation, scores: StackedParts, method: str = "separate"
    ) -> None:
        """The same augmented values as the argmax of each example."""
        batch, batch_sizes = found.violations(scores), sizes(found, scores)
        for i in self.examples:
            output = self._found(i, self._by_kind(scores.example(i)), with_truth=True)
            offsets = {kind: scores.offsets[kind][i : i + 2] for kind in self.task.kinds}
            own = Separation.from_outputs(self.task, [self.X[i]], [self.Y[i]], [output], offsets)
            single, size = own.violations(scores)[0], sizes(own, scores)[0]
            if abs(batch[i] - single) > TOLERANCE * (1.0 + batch_sizes[i] + size):
                raise TaskError(
                    f"{method} and argmax disagree on X[{i}]: loss minus difference of scores is "
                    f"{batch[i]:.6g} by {method}, {single:.6g} by argmax(X[{i}], scores, Y[{i}])."
                )

    def _check_argmax_batch(self, scores: StackedParts) -> None:
        """One output per example, with the scores, plain and augmented, of the argmax."""
        outputs = self._batch("argmax_batch", self.X, scores)
        check_one_each(outputs, len(self.X))
        augmented = separation_at(self.task, self.X, self.Y, scores)
        for i in self.examples:
            self._valid(i, f"output {i} of argmax_batch(X, scores)", outputs[i])
            of_example = self._by_kind(scores.example(i))
            sets = _stacked([of_example])
            single = self._found(i, of_example, with_truth=False)
            batch, own = (self._evaluate(i, "", y, sets) for y in (outputs[i], single))
            slack = TOLERANCE * (1.0 + batch.sizes[0] + own.sizes[0])
            is_best = self.task.exact_argmax and self.comparable
            if is_best and abs(batch.scores[0] - own.scores[0]) > slack:
                raise TaskError(
                    f"argmax_batch and argmax disagree on X[{i}]: the output has the score "
                    f"{batch.scores[0]:.6g} by argmax_batch(X, scores), {own.scores[0]:.6g} "
                    f"by argmax(X[{i}], scores)."
                )
        if self.task.exact_argmax:
            self._check_batch_values(augmented, scores, "argmax_batch")

    def _check_all_slacks(self, found: Separation, scores: StackedParts) -> None:
        """With all its outputs the m-slack form has the risk of the 1-slack form (Theorem 2.1)."""
        n = len(self.X)
        n_rows = max(len(rows) for rows in scores.rows.values())
        if n_rows > _MAX_ROWS_FOR_ALL_SLACKS:
            return
        limit = max(n_rows, n) ** 2
        slacks = self._batch("separate_slacks", self.X, self.Y, scores, limit)
        check_slacks(self.task, slacks, scores)
        weights = np.full(n, 1.0 / n) if slacks.weights is None else slacks.weights
        risk = float(weights @ np.maximum(slacks.violations(scores), 0.0))
        expected_risk = float(np.maximum(found.violations(scores), 0.0).mean())
        size = float(weights @ sizes(slacks, scores)) + float(sizes(found, scores).mean())
        if abs(risk - expected_risk) > 1e-6 * (1.0 + size):
            raise TaskError(
                f"separate_slacks with a limit of {limit} has the risk {risk:.6g}, separate has "
                f"{expected_risk:.6g} at the same scores; give every violated slack, with weights "
                "that make the risks equal."
            )

    # -- pickling -----------------------------------------------------------------------------

    def check_pickling(self) -> None:
        """A pickled and unpickled task does the same."""
        try:
            twin = pickle.loads(pickle.dumps(self.task))
        except Exception as error:
            raise TaskError(
                f"task cannot be pickled ({type(error).__name__}: {error}); define its class at "
                "the top of a module, and keep no open files, lambdas or solver objects in it."
            ) from error
        other = _Kit(twin, self.X, self.Y, self.random, self.comparable)
        for i in self.examples[:10]:
            other.sizes[i] = self.sizes[i]
            scores = self._random_scores(i, 1.0)
            sets = _stacked([scores])
            same = deeply_equal(self.parts[i], other._call("parts", i, x=self.X[i]))
            for with_truth in (False, True):
                mine, theirs = (
                    kit._evaluate(i, "", kit._found(i, scores, with_truth), sets)
                    for kit in (self, other)
                )
                same = same and deeply_equal(mine, theirs)
            if not same:
                raise TaskError(
                    f"The task gives other results for X[{i}] after pickling; keep all that its "
                    "methods read in attributes that are pickled."
                )

    # -- calls, with the sample named in every error ------------------------------------------

    def _try(self, name: str, i: int | None, call: Any) -> Any:
        try:
            return call()
        except TaskError:
            raise
        except Exception as error:
            where = "" if i is None else f" for X[{i}]"
            raise TaskError(f"{name} raised {type(error).__name__}{where}: {error}") from error

    def _call(self, name: str, i: int, watched: bool = True, **arguments: Any) -> Any:
        """Result of a method, called by position; ``watched`` arguments must stay as they were."""
        before = (deep_copy(arguments) if watched else None) or {}
        augmented = name == "argmax" and "y" in arguments
        method = getattr(self.task, "augmented_argmax" if augmented else name)
        result = self._try(name, i, lambda: method(*arguments.values()))
        for key, then in before.items():
            if not deeply_equal(arguments[key], then):
                raise TaskError(
                    f"{name} changed its argument {key!r} in place for X[{i}]; work on a copy."
                )
        return result

    def _batch(self, name: str, *arguments: Any) -> Any:
        """Result of a batch form; X, Y and the scores must stay as they were."""
        watched = [argument for argument in arguments if isinstance(argument, StackedParts)]
        scores_before = deep_copy(watched)
        result = self._try(name, None, lambda: getattr(self.task, name)(*arguments))
        if not deeply_equal(watched, scores_before):
            raise TaskError(f"{name} changed the scores in place; work on a copy.")
        self._check_unchanged(name, self.examples)
        return result

    def _found(self, i: int, scores: _Scores, with_truth: bool, again: bool = True) -> Any:
        """Output of the argmax, valid, and twice the same."""
        arguments = {"x": self.X[i], "scores": _only(scores)}
        arguments |= {"y": self.Y[i]} if with_truth else {}
        call = f"argmax(X[{i}], scores, Y[{i}])" if with_truth else f"argmax(X[{i}], scores)"
        first = self._call("argmax", i, **arguments)
        self._valid(i, f"the output of {call}", first)
        if again:
            second = self._call("argmax", i, **arguments)
            same = deeply_equal(self._measures(i, first), self._measures(i, second))
            if not same or self._loss(i, first) != self._loss(i, second):
                raise TaskError(f"{call} is not deterministic: two calls gave different outputs.")
        return first

    def _measures(self, i: int, y: Any, watched: bool = True) -> dict[str, Measure]:
        """Joint feature of an output, checked; where it is ``watched``, its arguments too."""
        value = self._call("joint_feature", i, watched, x=self.X[i], y=y)
        for of_kind in value.values() if isinstance(value, Mapping) else (value,):
            if isinstance(of_kind, tuple) and not all(
                _whole_numbers(index) for index in of_kind[:2]
            ):
                raise TaskError(
                    f"joint_feature(X[{i}], y) names a part or channel that is not a whole number."
                )
        return {
            kind: self._try(
                "joint_feature",
                i,
                lambda kind=kind, n=n: measure_of(self.task.kinds, value, kind, n, i),
            )
            for kind, n in self.sizes[i].items()
        }

    def _loss(self, i: int, y_pred: Any, watched: bool = True) -> float:
        """Loss of an output against the truth, checked; if ``watched``, its arguments too."""
        value = self._call("loss", i, watched, y=self.Y[i], y_pred=y_pred)
        return check_loss(self._try("loss", i, lambda: float(value)), i)

    def _by_kind(self, value: Any) -> dict[str, NDArray[Any]]:
        """What a task takes or gives for an example, as a dict of arrays."""
        return {
            kind: np.asarray(value[kind] if isinstance(value, Mapping) else value)
            for kind in self.task.kinds
        }

    def _evaluate(
        self, i: int, name: str, output: Any, sets: _Scores, watched: bool = True
    ) -> Rated:
        """Loss of an output, its scores under each set, and the sizes of their terms."""
        n_sets = len(next(iter(sets.values())))
        values, sizes = np.zeros(n_sets), np.zeros(n_sets)
        for kind, measure in self._measures(i, output, watched).items():
            terms = measure.values * sets[kind][:, measure.parts, measure.channels]
            values += terms.sum(axis=1)
            sizes += np.abs(terms).sum(axis=1)
        return Rated(name, self._loss(i, output, watched), values, sizes)

    def _random_scores(self, i: int, scale: float) -> _Scores:
        return {kind: self._random_rows(kind, n, scale) for kind, n in self.sizes[i].items()}

    def _random_rows(self, kind: str, n_rows: int, scale: float) -> FloatArray:
        """Normal scores; absolute values where scores must not be negative."""
        part = self.task.kinds[kind]
        scores = scale * self.random.standard_normal((n_rows, part.n_channels))
        return np.abs(scores) if min(part.response) >= 0 else scores


def _only(scores: _Scores) -> Any:
    """Scores as a task takes them: by kind where there are several."""
    return scores if len(scores) > 1 else next(iter(scores.values()))


def _stacked(sets: Sequence[_Scores]) -> _Scores:
    """Sets of scores by kind, shape (n_sets, n_parts, n_channels)."""
    return {kind: np.stack([of_set[kind] for of_set in sets]) for kind in sets[0]}


def _whole_numbers(index: Any) -> bool:
    values = np.asarray(index)
    return values.dtype.kind in "iub" or (
        values.dtype.kind == "f" and bool((values == np.round(values)).all())
    )
