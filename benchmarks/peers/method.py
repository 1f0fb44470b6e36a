"""What a method must offer to be measured."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.runner.datasets import Table

Params = dict[str, Any]


class Trial(NamedTuple):
    """A candidate as judged on the validation part.

    ``params`` may hold more than the candidate did, such as the best number of rounds.
    """

    params: Params
    value: float
    facts: dict[str, Any] = {}


class Method:
    """Base of all methods: grid search over `candidates`, unless :meth:`trials` knows better."""

    name: str
    candidates: Any  # six settings, the simplest or most strongly regularised first
    packages: tuple[str, ...] = ()  # whose versions are part of the version of a result

    def fit(self, train: Table, params: Params) -> Any:
        """Model trained on one thread."""
        raise NotImplementedError

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        """What the objective takes: scores for the AUC, labels for the error."""
        return model.predict(X)

    def trials(
        self, train: Table, validation: Table, candidates: list[Params], objective: Any
    ) -> list[Trial]:
        """Each candidate with its value on the validation part."""
        return [self.trial(train, validation, params, objective) for params in candidates]

    def trial(self, train: Table, validation: Table, params: Params, objective: Any) -> Trial:
        """One candidate with its value on the validation part."""
        output = self.output(self.fit(train, params), validation.X)
        return Trial(params, objective.measure(validation.y, output))

    def warm_up(self) -> None:
        """Compile what is compiled at first use, so that no timing includes it."""

    def facts(self, model: Any) -> dict[str, Any]:
        """More about a fitted model: gap, rounds."""
        return {}

    def staged_outputs(self, model: Any, X: np.ndarray) -> Iterable[tuple[int, np.ndarray]]:
        """Outputs after some rounds of boosting, where they are to be shown."""
        return ()

    def tuning_facts(self, trials: list[Trial]) -> dict[str, Any]:
        """More about the candidates."""
        return {}


class BestRounds(Method):
    """Candidates are trained for long once, then cut to their best number of rounds."""

    def values(self, train: Table, validation: Table, params: Params, objective: Any) -> Any:
        """Value on the validation part after each round."""
        raise NotImplementedError

    def trial(self, train: Table, validation: Table, params: Params, objective: Any) -> Trial:
        """One candidate at its best number of rounds."""
        values = np.asarray(self.values(train, validation, params, objective))
        best = int(np.argmax(objective.sign * values))
        return Trial({**params, "rounds": best + 1}, float(values[best]))


def made_classes(n_classes: int = 3) -> Table:
    """A small made table, to compile all kernels on."""
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    edges = np.linspace(-1.0, 1.0, n_classes + 1)[1:-1]
    return Table(X, np.digitize(X[:, 0] + X[:, 1], edges))
