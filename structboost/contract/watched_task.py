"""Calls of a task that must not change their arguments, and whose errors name the sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.contract.equality import deep_copy, deeply_equal
from structboost.contract.losses import check_loss
from structboost.contract.measures import SparseFeature, measure_of
from structboost.contract.parts import StackedParts
from structboost.contract.results import real_number
from structboost.contract.returned_outputs import check_not_none
from structboost.contract.sampled_outputs import Rated
from structboost.contract.task import Task
from structboost.errors import TaskError, note_examples

# Scores of one example by kind, even if there is only one.
Scores = dict[str, FloatArray]


class WatchedTask:
    """Task with its data, of which some examples are tried one by one.

    ``sizes`` are the numbers of parts of these examples, by kind, after the check of the parts.
    """

    def __init__(
        self,
        task: Task,
        X: Sequence[Any],
        Y: Sequence[Any],
        examples: list[int],
        random: np.random.Generator,
    ) -> None:
        self.task, self.X, self.Y, self.examples, self.random = task, X, Y, examples, random
        self.sizes: dict[int, dict[str, int]] = {}
        self._before = {i: (deep_copy(X[i]), deep_copy(Y[i])) for i in examples}

    def attempt(self, name: str, i: int | None, call: Callable[[], Any]) -> Any:
        """Call a task, and turn any other error into a TaskError."""
        try:
            return call()
        except TaskError as error:
            if i is not None:
                note_examples(error, name, i, i)
            raise
        except Exception as error:
            where = "" if i is None else f" for X[{i}]"
            raise TaskError(f"{name} raised {type(error).__name__}{where}: {error}") from error

    def call(self, name: str, i: int, watched: bool = True, **arguments: Any) -> Any:
        """Call a method by position, and check that it leaves ``watched`` arguments unchanged."""
        before = (deep_copy(arguments) if watched else None) or {}
        augmented = name == "argmax" and "y" in arguments
        method = getattr(self.task, "augmented_argmax" if augmented else name)
        result = self.attempt(name, i, lambda: method(*arguments.values()))
        for key, then in before.items():
            if not deeply_equal(arguments[key], then):
                raise TaskError(
                    f"{name} changed its argument {key!r} in place for X[{i}]; work on a copy."
                )
        return result

    def batch(self, name: str, *arguments: Any) -> Any:
        """Call a batch form, and check that it leaves X, Y and the scores unchanged."""
        watched = [argument for argument in arguments if isinstance(argument, StackedParts)]
        scores_before = deep_copy(watched)
        result = self.attempt(name, None, lambda: getattr(self.task, name)(*arguments))
        if not deeply_equal(watched, scores_before):
            raise TaskError(f"{name} changed the scores in place; work on a copy.")
        self.check_unchanged(name, self.examples)
        return result

    def argmax(self, i: int, scores: Scores, with_truth: bool, twice: bool = True) -> Any:
        """Return the argmax, checked to be valid and, if called ``twice``, deterministic."""
        arguments = {"x": self.X[i], "scores": only(scores)}
        arguments |= {"y": self.Y[i]} if with_truth else {}
        call = f"argmax(X[{i}], scores, Y[{i}])" if with_truth else f"argmax(X[{i}], scores)"
        first = self.call("argmax", i, **arguments)
        check_not_none(self.task, self.X[i], self.Y[i], first, i)
        self.valid(i, f"the output of {call}", first)
        if twice:
            second = self.call("argmax", i, **arguments)
            same = deeply_equal(self.measures(i, first), self.measures(i, second))
            if not same or self.loss(i, first) != self.loss(i, second):
                raise TaskError(f"{call} is not deterministic: two calls gave different outputs.")
        return first

    def measures(self, i: int, y: Any, watched: bool = True) -> dict[str, SparseFeature]:
        """Return the joint feature of an output, checked."""
        value = self.call("joint_feature", i, watched, x=self.X[i], y=y)
        for of_kind in value.values() if isinstance(value, Mapping) else (value,):
            if isinstance(of_kind, tuple) and not all(
                _whole_numbers(index) for index in of_kind[:2]
            ):
                raise TaskError(
                    f"joint_feature(X[{i}], y) names a part or channel that is not a whole number."
                )
        return {
            kind: self.attempt(
                "joint_feature", i, partial(measure_of, self.task.kinds, value, kind, n, i)
            )
            for kind, n in self.sizes[i].items()
        }

    def loss(self, i: int, y_pred: Any, watched: bool = True) -> float:
        """Return the loss of an output against the truth, checked."""
        value = self.call("loss", i, watched, y=self.Y[i], y_pred=y_pred)
        return check_loss(real_number(value, "loss(Y[{sample}], y_pred)", i), i)

    def evaluate(self, i: int, name: str, output: Any, sets: Scores, watched: bool = True) -> Rated:
        """Return the loss of an output, its scores under each set, and the sizes of their terms."""
        n_sets = len(next(iter(sets.values())))
        values, sizes = np.zeros(n_sets), np.zeros(n_sets)
        for kind, measure in self.measures(i, output, watched).items():
            terms = measure.values * sets[kind][:, measure.parts, measure.channels]
            values += terms.sum(axis=1)
            sizes += np.abs(terms).sum(axis=1)
        return Rated(name, self.loss(i, output, watched), values, sizes)

    def random_scores(self, i: int, scale: float) -> Scores:
        """Draw scores of one example, by kind."""
        return {kind: self.random_rows(kind, n, scale) for kind, n in self.sizes[i].items()}

    def random_rows(self, kind: str, n_rows: int, scale: float) -> FloatArray:
        """Draw normal scores, or absolute values if scores must not be negative."""
        part = self.task.kinds[kind]
        scores = scale * self.random.standard_normal((n_rows, part.n_channels))
        return np.abs(scores) if min(part.response) >= 0 else scores

    def is_valid(self, i: int, y: Any) -> bool:
        """Whether an output is valid for ``X[i]``."""
        return bool(self.attempt("is_valid", i, lambda: bool(self.task.is_valid(self.X[i], y))))

    def valid(self, i: int, name: str, y: Any) -> tuple[str, Any]:
        """Return name and output, after a check that the output is valid."""
        if not self.is_valid(i, y):
            raise TaskError(
                f"is_valid(X[{i}], y) is False for {name}; it must be True for every output of "
                f"X[{i}]."
            )
        return name, y

    def check_unchanged(self, what: str, examples: Iterable[int]) -> None:
        """Raise TaskError if any calls so far changed inputs or true outputs."""
        for i in examples:
            for argument, now, then in zip(
                "XY", (self.X[i], self.Y[i]), self._before[i], strict=True
            ):
                if then is not None and not deeply_equal(now, then):
                    raise TaskError(f"{what} changed {argument}[{i}] in place; work on a copy.")


def by_kind(task: Task, value: Any) -> dict[str, NDArray[Any]]:
    """Return an argument or result of a task for one example as a dict of arrays."""
    of_kinds = value if isinstance(value, Mapping) else dict.fromkeys(task.kinds, value)
    return {kind: np.asarray(of_kinds[kind]) for kind in task.kinds}


def only(scores: Scores) -> Any:
    """Return scores in the form that a task takes, by kind only if there are several."""
    return scores if len(scores) > 1 else next(iter(scores.values()))


def stacked(sets: Sequence[Scores]) -> Scores:
    """Stack sets of scores by kind, in shape (n_sets, n_parts, n_channels)."""
    return {kind: np.stack([of_set[kind] for of_set in sets]) for kind in sets[0]}


def _whole_numbers(index: Any) -> bool:
    values = np.asarray(index)
    return values.dtype.kind in "iub" or (
        values.dtype.kind == "f" and bool((values == np.round(values)).all())
    )
