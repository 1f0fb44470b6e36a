"""What a method must offer to be measured."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np


class Table(NamedTuple):
    """Rows and labels of one part of a split."""

    X: np.ndarray
    y: np.ndarray


class Trial(NamedTuple):
    """A candidate as judged on the validation part.

    ``params`` may hold more than the candidate did: the number of rounds found best, say.
    """

    params: dict[str, Any]
    value: float
    facts: dict[str, Any] = {}


class Method:
    """Base of all methods: grid search over `candidates`, unless :meth:`trials` knows better.

    Attributes
    ----------
    name : str
        As in the records.
    candidates : list of dict
        The grid, six settings, simplest or most strongly regularised first.
    packages : tuple of str
        Whose version is part of the code version.
    """

    name: ClassVar[str]
    candidates: ClassVar[list[dict[str, Any]]]
    packages: ClassVar[tuple[str, ...]] = ()

    def fit(self, train: Table, params: dict[str, Any]) -> Any:
        """Model trained on one thread."""
        raise NotImplementedError

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        """What the objective takes: scores for the AUC, labels for the error."""
        raise NotImplementedError

    def trials(self, train: Table, validation: Table, candidates: list[dict[str, Any]], objective: Any) -> list[Trial]:
        """Each candidate with its value on the validation part."""
        return [self.trial(train, validation, params, objective) for params in candidates]

    def trial(self, train: Table, validation: Table, params: dict[str, Any], objective: Any) -> Trial:
        """One candidate with its value on the validation part."""
        output = self.output(self.fit(train, params), validation.X)
        return Trial(params, objective.measure(validation.y, output))

    def warm_up(self) -> None:
        """Compile what is compiled at first use, so that no timing holds it."""

    def facts(self, model: Any) -> dict[str, Any]:
        """More about a fitted model: gap, rounds."""
        return {}

    def tuning_facts(self, trials: list[Trial]) -> dict[str, Any]:
        """More about the candidates."""
        return {}

    def sources(self) -> list[Path]:
        """Files whose change makes kept results worthless."""
        return [Path(sys.modules[type(self).__module__].__file__ or "")]


def uninterrupted(trainer: Any) -> Any:
    """The trainer; goes on with Ctrl-C, after which ours keep their model and return: such a model is no result."""
    if trainer.interrupted_:
        raise KeyboardInterrupt
    return trainer


def best_round(values: np.ndarray | list[float], better: Callable[..., Any] = np.argmax) -> tuple[int, float]:
    """Number of rounds, from 1, at the best validation value, and that value."""
    index = int(better(values))
    return index + 1, float(values[index])
