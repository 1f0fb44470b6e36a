"""A conformance kit for tasks: what :class:`structboost.Task` promises, tried on data."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost.conformance_batch import check_codes, check_separation, check_slacks, check_stack, violations
from structboost.deep_equality import deep_copy, deeply_equal
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

FloatArray = NDArray[np.float64]

# Examples whose own methods are called (the batch forms see all), and true outputs of others tried on each.
_MAX_EXAMPLES = 200
_MAX_FOREIGN = 20
# Standard deviations of the random scores; 0: all outputs tie, or only the loss decides.
_SCALES = (0.0, 1.0, 1.0, 0.1, 10.0)
_TOLERANCE = 1e-8
# Rows up to which the m-slack form is asked for all its outputs.
_MAX_ROWS_FOR_ALL_SLACKS = 1000


def check_task(
    task: Task,
    X: Sequence[Any],
    Y: Sequence[Any],
    outputs: Sequence[Iterable[Any]] | None = None,
    random_state: Any = 0,
) -> None:
    """Try on examples ``(X[i], Y[i])`` whether a task keeps the contract.

    Tried are shapes, index ranges and finite values; ``loss(y, y) == 0`` and ``loss >= 0``; that methods are
    deterministic, leave their arguments as they were, and do the same after pickling; that at several
    random scores (not negative for kinds with answers in (0, 1)) the argmax, plain and loss-augmented, is
    not beaten by any output at hand; and that the batch forms agree with the four methods.

    Outputs at hand for ``X[i]`` are its true output; true outputs of examples with as many parts, unless
    ``joint_feature`` refuses them; what the argmax found at other scores; ``outputs[i]``; and all that the
    task enumerates, where it has the optional method ``outputs(x)``, an iterable of *all* outputs for ``x``.
    With ``exact_argmax = False`` the argmax may be beaten.

    A task may declare ``comparable_outputs = False``: the joint feature of an output is scaled by the truth
    that it was found for (a ranking: shares of the pairs of one truth).  Then the plain argmax is compared
    with its own outputs at other scores only, and true outputs of other examples are left out.  Where the task lists
    the codes of all outputs, they must give the augmented values of the argmax.

    Parameters
    ----------
    task : Task
    X, Y : sequence
        Inputs and true outputs.  Beyond 200 examples, a random 200 are tried one by one.
    outputs : sequence of iterables, optional
        For each example some outputs, valid for its input.
    random_state : int or numpy Generator
        Seed of the random scores.

    Raises
    ------
    TaskError
        At the first broken property; the message names it and the sample.
    """
    _check_arguments(task, X, Y, outputs)
    kit = _Kit(task, X, Y, np.random.default_rng(random_state))
    kit.check_parts()
    for i in kit.examples:
        kit.check_truth(i)
        kit.check_argmax(i, () if outputs is None else outputs[i])
    kit.check_batch_forms()
    kit.check_pickling()


def _check_arguments(task: Any, X: Any, Y: Any, outputs: Any) -> None:
    """Types and lengths, and the declared kinds."""
    if not isinstance(task, Task):
        raise TaskError(f"task is {task!r}; give an instance of a subclass of Task.")
    if len(X) != len(Y):
        raise TaskError(f"X has {len(X)} examples and Y {len(Y)}; they must be equally many.")
    if not len(X):
        raise TaskError("X is empty; give at least one example.")
    if outputs is not None and len(outputs) != len(X):
        raise TaskError(f"outputs has {len(outputs)} entries for {len(X)} examples; give one for each.")
    kinds: Any = task.kinds
    if not isinstance(kinds, Mapping) or not kinds:
        raise TaskError(f"task.kinds is {kinds!r}; give a dict of names to PartKind, at least one.")
    for kind, part in kinds.items():
        name = f"task.kinds[{kind!r}]"
        if not isinstance(part, PartKind):
            raise TaskError(f"{name} is {part!r}; give a PartKind.")
        if not isinstance(part.n_channels, (int, np.integer)) or part.n_channels < 1:
            raise TaskError(f"{name}.n_channels is {part.n_channels!r}; give a whole number from 1.")
        response = np.asarray(part.response)
        if response.shape != (2,) or not np.isfinite(response).all() or response[0] >= response[1]:
            raise TaskError(f"{name}.response is {part.response!r}; give two numbers in rising order.")


class _Output(NamedTuple):
    """An output of one example: its loss, and its scores under each of the random scores."""

    name: str
    loss: float
    scores: FloatArray
    sizes: FloatArray


class _Kit:
    """The checks on one task and its examples."""

    def __init__(self, task: Task, X: Sequence[Any], Y: Sequence[Any], random: np.random.Generator) -> None:
        self.task, self.X, self.Y, self.random = task, X, Y, random
        self.examples: list[int] = sorted(random.permutation(len(X))[:_MAX_EXAMPLES].tolist())
        self.comparable = task.comparable_outputs
        self.before = {i: (deep_copy(X[i]), deep_copy(Y[i])) for i in self.examples}
        self.parts: dict[int, Any] = {}
        self.sizes: dict[int, dict[str, int]] = {}

    # -- the four methods ---------------------------------------------------------------------

    def check_parts(self) -> None:
        """Shapes, finite values, determinism, selected features."""
        for i in self.examples:
            self.parts[i] = self._call("parts", i, x=self.X[i])
            if not deeply_equal(self.parts[i], self._call("parts", i, x=self.X[i])):
                raise TaskError(f"parts(X[{i}]) is not deterministic: two calls gave different features.")
            self._check_against_first(i)
            self.sizes[i] = {kind: len(rows) for kind, rows in self._rows(i).items()}
            if self.task.selects_features:
                self._check_selected_features(i)

    def _check_against_first(self, i: int) -> None:
        """Shape and values of the parts of ``X[i]``; as many features as those of the first example."""
        first = self.examples[0]
        pair = [self.parts[first], self.parts[i]] if i != first else [self.parts[i]]
        try:
            stack_parts(self.task.kinds, pair)
        except TaskError as error:
            raise error.counted_from(i - len(pair) + 1) from error

    def _rows(self, i: int) -> dict[str, NDArray[Any]]:
        return _by_kind(self.task.kinds, self.parts[i])

    def _check_selected_features(self, i: int) -> None:
        whole = self._rows(i)
        chosen = {
            kind: self.random.permutation(rows.shape[1])[: rows.shape[1] // 2 + 1] for kind, rows in whole.items()
        }
        features = chosen if len(chosen) > 1 else next(iter(chosen.values()))
        parts: Any = self.task.parts
        selected = self._try("parts", i, lambda: parts(self.X[i], features=features))
        for kind, rows in _by_kind(self.task.kinds, selected).items():
            if not np.array_equal(rows, whole[kind][:, chosen[kind]]):
                raise TaskError(
                    f"parts(X[{i}], features=...) of kind {kind!r} differs from those columns of parts(X[{i}]); "
                    "compute the asked columns, in the asked order, or set selects_features = False."
                )

    def check_truth(self, i: int) -> None:
        """Joint feature of the true output; its loss against itself."""
        first, second = (self._measures(i, self.Y[i]) for _ in range(2))
        if not deeply_equal(first, second):
            raise TaskError(f"joint_feature(X[{i}], Y[{i}]) is not deterministic: two calls gave different weights.")
        loss = self._loss(i, self.Y[i])
        if loss > _TOLERANCE:
            raise TaskError(f"loss(Y[{i}], Y[{i}]) is {loss:.6g}; the loss of the true output must be 0.")

    def check_argmax(self, i: int, given: Iterable[Any]) -> None:
        """Determinism and optimality at several random scores, plain and augmented."""
        scores = [self._random_scores(i, scale) for scale in _SCALES]
        plain, augmented = (
            [
                self._evaluate(i, f"its own output at other scores (set {k})", self._found(i, s, with_truth), scores)
                for k, s in enumerate(scores)
            ]
            for with_truth in (False, True)
        )
        self._call("predict", i, x=self.X[i], scores=scores[1])
        if not self.task.exact_argmax:
            return
        others = [self._evaluate(i, name, output, scores) for name, output in self._outputs_at_hand(i, given)]
        if self.comparable:
            _check_not_beaten(f"argmax(X[{i}], scores)", plain, plain + augmented + others, loss_weight=0)
            _check_not_beaten(f"argmax(X[{i}], scores, Y[{i}])", augmented, plain + augmented + others, loss_weight=1)
        else:
            _check_not_beaten(f"argmax(X[{i}], scores)", plain, plain, loss_weight=0)
            _check_not_beaten(f"argmax(X[{i}], scores, Y[{i}])", augmented, augmented + others, loss_weight=1)

    def _outputs_at_hand(self, i: int, given: Iterable[Any]) -> Iterator[tuple[str, Any]]:
        """True outputs, given and enumerated ones, each with a name."""
        yield f"the true output Y[{i}]", self.Y[i]
        for k, output in enumerate(given):
            yield f"outputs[{i}][{k}]", output
        enumerate_outputs = getattr(self.task, "outputs", None)
        if enumerate_outputs is not None:
            for k, output in enumerate(self._try("outputs", i, lambda: enumerate_outputs(self.X[i]))):
                yield f"output {k} of task.outputs(X[{i}])", output
        if self.comparable:
            alike = [j for j in self.examples if j != i and self.sizes[j] == self.sizes[i]]
            for j in self.random.permutation(alike)[:_MAX_FOREIGN].astype(int):
                if self._fits(i, self.Y[j]):
                    yield f"the output Y[{j}]", self.Y[j]

    def _fits(self, i: int, y: Any) -> bool:
        """Whether the true output of another example is one of ``X[i]``."""
        try:
            self._measures(i, y)
            self.task.loss(self.Y[i], y)
        except Exception:  # whatever the task raises: it refuses the output
            return False
        return True

    # -- the batch forms ----------------------------------------------------------------------

    def check_batch_forms(self) -> None:
        """``stack``, ``separate`` and ``separate_slacks`` against the four methods."""
        stack = self._batch("stack", self.X)
        check_stack(self.task, stack, len(self.X), {i: self._rows(i) for i in self.examples})
        for scale in (0.0, 1.0, 10.0):
            rows = {kind: self._random_rows(kind, len(stack.rows[kind]), scale) for kind in self.task.kinds}
            scores = StackedParts(rows, stack.offsets)
            found = self._batch("separate", self.X, self.Y, scores)
            check_separation(self.task, found, scores)
            if not self.task.reads_inputs:
                self._check_without_inputs(found, scores)
            if self.task.exact_argmax:
                self._check_batch_values(found, scores)
                if type(self.task).codes is not Task.codes:
                    check_codes(self.task, self._batch("codes", self.Y), scores, violations(found, scores)[0])
            slacks = self._batch("separate_slacks", self.X, self.Y, scores, 2 * len(self.X))
            check_slacks(self.task, slacks, scores)
            if self.task.exact_argmax:
                self._check_all_slacks(found, scores)

    def _check_without_inputs(self, found: Separation, scores: StackedParts) -> None:
        """The same answer where the inputs are kept elsewhere."""
        if not deeply_equal(found, self._batch("separate", None, self.Y, scores)):
            raise TaskError(
                "separate(None, Y, scores) differs from separate(X, Y, scores); leave X alone, or set "
                "reads_inputs = True."
            )

    def _check_batch_values(self, found: Separation, scores: StackedParts) -> None:
        """The same augmented values as the argmax of each example."""
        batch, sizes = violations(found, scores)
        for i in self.examples:
            output = self._found(i, scores.example(i), with_truth=True)
            offsets = {kind: scores.offsets[kind][i : i + 2] for kind in self.task.kinds}
            own = separation_of(self.task, [self.X[i]], [self.Y[i]], [output], offsets)
            single, size = violations(own, scores)
            if abs(batch[i] - single[0]) > _TOLERANCE * (1.0 + sizes[i] + size[0]):
                raise TaskError(
                    f"separate and argmax disagree on X[{i}]: loss minus difference of scores is {batch[i]:.6g} by "
                    f"separate, {single[0]:.6g} by argmax(X[{i}], scores, Y[{i}])."
                )

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
        values, sizes = violations(slacks, scores)
        expected, expected_sizes = violations(found, scores)
        risk, expected_risk = float(weights @ np.maximum(values, 0.0)), float(np.maximum(expected, 0.0).mean())
        if abs(risk - expected_risk) > 1e-6 * (1.0 + float(weights @ sizes) + float(expected_sizes.mean())):
            raise TaskError(
                f"separate_slacks with a limit of {limit} has the risk {risk:.6g}, separate has {expected_risk:.6g} at "
                "the same scores; give every violated slack, with weights that make the risks equal."
            )

    # -- pickling -----------------------------------------------------------------------------

    def check_pickling(self) -> None:
        """A pickled and unpickled task does the same."""
        try:
            twin = pickle.loads(pickle.dumps(self.task))
        except Exception as error:
            raise TaskError(
                f"task cannot be pickled ({type(error).__name__}: {error}); define its class at the top of a module, "
                "and keep no open files, lambdas or solver objects in it."
            ) from error
        other = _Kit(twin, self.X, self.Y, self.random)
        for i in self.examples[:10]:
            other.sizes[i] = self.sizes[i]
            scores = self._random_scores(i, 1.0)
            same = deeply_equal(self.parts[i], other._call("parts", i, x=self.X[i]))
            for with_truth in (False, True):
                mine = self._evaluate(i, "", self._found(i, scores, with_truth), [scores])
                same = same and deeply_equal(
                    mine, other._evaluate(i, "", other._found(i, scores, with_truth), [scores])
                )
            if not same:
                raise TaskError(
                    f"The task gives other results for X[{i}] after pickling; keep all that its methods read in "
                    "attributes that are pickled."
                )

    # -- calls, with the sample named in every error ------------------------------------------

    def _try(self, name: str, i: int, call: Any) -> Any:
        try:
            return call()
        except TaskError:
            raise
        except Exception as error:
            raise TaskError(f"{name} raised {type(error).__name__} for X[{i}]: {error}") from error

    def _call(self, name: str, i: int, **arguments: Any) -> Any:
        """Result of a method, called by position; its arguments must stay as they were."""
        before = deep_copy(arguments)
        result = self._try(name, i, lambda: getattr(self.task, name)(*arguments.values()))
        for key, value in arguments.items():
            if before is not None and not deeply_equal(value, before[key]):
                raise TaskError(f"{name} changed its argument {key!r} in place for X[{i}]; work on a copy.")
        return result

    def _batch(self, name: str, *arguments: Any) -> Any:
        """Result of a batch form; X, Y and the scores must stay as they were."""
        scores_before = deep_copy(arguments[2:])
        try:
            result = getattr(self.task, name)(*arguments)
        except TaskError:
            raise
        except Exception as error:
            raise TaskError(f"{name} raised {type(error).__name__}: {error}") from error
        if not deeply_equal(arguments[2:], scores_before):
            raise TaskError(f"{name} changed the scores in place; work on a copy.")
        for i, (x, y) in self.before.items():
            for argument, now, then in (("X", self.X[i], x), ("Y", self.Y[i], y)):
                if then is not None and not deeply_equal(now, then):
                    raise TaskError(f"{name} changed {argument}[{i}] in place; work on a copy.")
        return result

    def _found(self, i: int, scores: Any, with_truth: bool) -> Any:
        """Output of the argmax, twice the same."""
        arguments = {"x": self.X[i], "scores": scores} | ({"y": self.Y[i]} if with_truth else {})
        first, second = (self._call("argmax", i, **arguments) for _ in range(2))
        same = deeply_equal(self._measures(i, first), self._measures(i, second))
        if not same or self._loss(i, first) != self._loss(i, second):
            call = f"argmax(X[{i}], scores, Y[{i}])" if with_truth else f"argmax(X[{i}], scores)"
            raise TaskError(f"{call} is not deterministic: two calls gave different outputs.")
        return first

    def _measures(self, i: int, y: Any) -> dict[str, Measure]:
        """Joint feature of an output, checked."""
        value = self._call("joint_feature", i, x=self.X[i], y=y)
        for of_kind in value.values() if isinstance(value, Mapping) else (value,):
            if isinstance(of_kind, tuple) and not all(_whole_numbers(index) for index in of_kind[:2]):
                raise TaskError(f"joint_feature(X[{i}], y) names a part or channel that is not a whole number.")
        return {
            kind: self._try("joint_feature", i, lambda kind=kind, n=n: measure_of(self.task.kinds, value, kind, n, i))
            for kind, n in self.sizes[i].items()
        }

    def _loss(self, i: int, y_pred: Any) -> float:
        """Loss of an output against the truth, checked."""
        self._call("loss", i, y=self.Y[i], y_pred=y_pred)
        return float(self._try("loss", i, lambda: loss_of(self.task, self.Y[i], y_pred, i)))

    def _evaluate(self, i: int, name: str, output: Any, scores: list[Any]) -> _Output:
        """Loss of an output, its scores, and the sums of the sizes of their terms."""
        measures = self._measures(i, output)
        values, sizes = np.zeros(len(scores)), np.zeros(len(scores))
        for k, of_set in enumerate(scores):
            for kind, measure in measures.items():
                rows = of_set[kind] if isinstance(of_set, Mapping) else of_set
                terms = measure.values * rows[measure.parts, measure.channels]
                values[k] += terms.sum()
                sizes[k] += np.abs(terms).sum()
        return _Output(name, self._loss(i, output), values, sizes)

    def _random_scores(self, i: int, scale: float) -> Any:
        rows = {kind: self._random_rows(kind, n, scale) for kind, n in self.sizes[i].items()}
        return rows if len(rows) > 1 else next(iter(rows.values()))

    def _random_rows(self, kind: str, n_rows: int, scale: float) -> FloatArray:
        """Normal scores; absolute values where scores must not be negative."""
        part = self.task.kinds[kind]
        scores = scale * self.random.standard_normal((n_rows, part.n_channels))
        return np.abs(scores) if min(part.response) >= 0 else scores


def _check_not_beaten(call: str, found: list[_Output], rivals: list[_Output], loss_weight: int) -> None:
    """``found[k]`` has the highest ``loss_weight * loss + score`` of all rivals at the k-th scores."""
    for k, best in enumerate(found):
        value = loss_weight * best.loss + best.scores[k]
        for rival in rivals:
            other = loss_weight * rival.loss + rival.scores[k]
            if other > value + _TOLERANCE * (1.0 + best.sizes[k] + rival.sizes[k] + rival.loss):
                terms = "loss plus score" if loss_weight else "score"
                raise TaskError(
                    f"{call} is beaten: its output has {terms} {value:.6g}, {rival.name} has {other:.6g}. "
                    "Search all outputs, or set exact_argmax = False."
                )


def _by_kind(kinds: Mapping[str, PartKind], parts: Any) -> dict[str, NDArray[Any]]:
    """Parts as a dict of arrays."""
    return {kind: np.asarray(parts[kind] if isinstance(parts, Mapping) else parts) for kind in kinds}


def _whole_numbers(index: Any) -> bool:
    values = np.asarray(index)
    return values.dtype.kind in "iub" or (values.dtype.kind == "f" and bool((values == np.round(values)).all()))
