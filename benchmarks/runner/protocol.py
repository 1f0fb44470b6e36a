"""What every method of a table offers, and goes through: candidates, one timed fit, a test part."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from benchmarks.runner.datasets import Dataset, Split, Table, parts
from benchmarks.runner.sources import code_version
from benchmarks.runner.units import Result, Unit

REPEATS = 5
# Five test parts of some 40 rows move by more than the margins that comparisons ask for.
MANY_REPEATS, FEW_ROWS = 20, 1000
CANDIDATES = 6
PREDICT_RUNS = 5
Params = dict[str, Any]


class Objective(NamedTuple):
    """A metric of outputs; the sign says whether more of it is better (1) or worse (-1)."""

    name: str
    measure: Callable[[np.ndarray, np.ndarray], float]
    sign: int


AUC = Objective("auc", lambda y, scores: float(roc_auc_score(y, scores)), 1)
ERROR = Objective("error", lambda y, labels: float(np.mean(y != labels)), -1)


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
    warm_params: Params = {}  # of a small fit that compiles, on so many classes; none: no need
    n_made = 3

    def fit(self, train: Table, params: Params) -> Any:
        """Model trained on one thread."""
        raise NotImplementedError

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        """What the objective takes: scores for the AUC, labels for the error."""
        return model.predict(X)

    def trials(
        self, train: Table, validation: Table, candidates: list[Params], objective: Objective
    ) -> list[Trial]:
        """Each candidate with its value on the validation part."""
        return [self.trial(train, validation, params, objective) for params in candidates]

    def trial(self, train: Table, validation: Table, params: Params, objective: Objective) -> Trial:
        output = self.output(self.fit(train, params), validation.X)
        return Trial(params, objective.measure(validation.y, output))

    def warm_up(self) -> None:
        """Compile what is compiled at first use, so that no timing includes it."""
        if self.warm_params:
            train = made_classes(self.n_made)
            self.output(self.fit(train, self.warm_params), train.X)

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

    def values(self, train: Table, validation: Table, params: Params, objective: Objective) -> Any:
        """Value on the validation part after each round."""
        raise NotImplementedError

    def trial(self, train: Table, validation: Table, params: Params, objective: Objective) -> Trial:
        values = np.asarray(self.values(train, validation, params, objective))
        best = int(np.argmax(objective.sign * values))
        return Trial({**params, "rounds": best + 1}, float(values[best]))


def grid(**values: Sequence[Any]) -> list[Params]:
    """All combinations of some parameters' values; those of the last change fastest."""
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def made_classes(n_classes: int = 3) -> Table:
    """A small made table, to compile all kernels on."""
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    edges = np.linspace(-1.0, 1.0, n_classes + 1)[1:-1]
    return Table(X, np.digitize(X[:, 0] + X[:, 1], edges))


@dataclass(frozen=True)
class Protocol:
    """How often and how widely a method is tuned."""

    repeats: int = REPEATS  # random splits, seeded 0, 1, ...
    candidates: int = CANDIDATES  # settings judged on the validation part of each

    @property
    def note(self) -> str | None:
        """What was cut from the paper's protocol."""
        if self.repeats >= REPEATS and self.candidates >= CANDIDATES:
            return None
        repeats = f"{self.repeats} of {REPEATS} repeats"
        return f"cut to fit the time: {repeats}, {self.candidates} of {CANDIDATES} candidates"


QUICK = Protocol(1, 2)


def spread(candidates: Sequence[Params], n: int) -> list[Params]:
    """``n`` of the candidates, evenly spread, the last one always among them."""
    steps = np.linspace(len(candidates) - 1, 0, min(n, len(candidates)))
    return [candidates[i] for i in sorted({round(step) for step in steps})]


def tuned_unit(
    benchmark: str,
    data: Dataset,
    method: Method,
    protocol: Protocol,
    repeat: int,
    *,
    labels: np.ndarray | None = None,
    objective: Objective = ERROR,
    also: Sequence[Objective] = (),
    **params: Any,
) -> Unit:
    """The unit of one method on one split: :func:`measure`, with further ``params`` to name it."""
    y = data.y if labels is None else labels
    n = protocol.candidates
    return Unit(
        *(benchmark, data.name, method.name),
        {**params, "repeat": repeat, "candidates": n, "note": protocol.note},
        version(method, data),
        lambda: measure(method, objective, parts(data.X, y, data.y, repeat), n, also),
    )


def measure(
    method: Method,
    objective: Objective,
    tables: Split,
    n_candidates: int,
    also: Sequence[Objective] = (),
) -> Result:
    """Tune, fit once more with the clock on, and measure on the test part; all on one thread.

    Ties between candidates go to the earlier one: the more strongly regularised, or the simpler.
    """
    train, validation, test = tables
    candidates = spread(method.candidates, n_candidates)
    with threadpool_limits(1):
        method.warm_up()
        trials, tuning_seconds = cpu_timed(method.trials, train, validation, candidates, objective)
        values = [trial.value for trial in trials]
        best = trials[int(np.argmax(objective.sign * np.array(values)))]
        model, seconds = cpu_timed(method.fit, train, best.params)
        runs = [cpu_timed(method.output, model, test.X) for _ in range(PREDICT_RUNS)]
        stages = method.staged_outputs(model, test.X)
        by_round = {r: objective.measure(test.y, output) for r, output in stages}
        output = runs[0][0]
    return {
        "value": objective.measure(test.y, output),
        **{other.name: other.measure(test.y, output) for other in also},
        "by_round": by_round,
        "train_value": objective.measure(train.y, method.output(model, train.X)),
        "seconds": seconds,
        "tuning_seconds": tuning_seconds,
        "predict_us": 1e6 * float(np.median([spent for _, spent in runs])) / len(test.y),
        "params": best.params,
        "validation": values,
        "C": best.params.get("C"),
        **method.facts(model),
        **method.tuning_facts(trials),
    }


def timed(
    function: Callable[..., Any],
    *arguments: Any,
    clock: Callable[[], float] = time.perf_counter,
    **named: Any,
) -> tuple[Any, float]:
    """What a function returns, and the seconds that it took."""
    started = clock()
    returned = function(*arguments, **named)
    return returned, clock() - started


# The same in CPU seconds: right beside other work, too.
cpu_timed = partial(timed, clock=time.process_time)


def version(method: Method, data: Dataset) -> str:
    """Version of the data and of everything that a method's results depend on."""
    modules = [__name__, type(method).__module__]
    return f"{data.content} {code_version(modules, method.packages)}"
