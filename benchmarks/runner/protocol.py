"""What every tuned learner offers, and goes through: candidates, one timed fit, a test part."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.runner.datasets import Split, Table, load, parts
from benchmarks.runner.experiment import Result, Source

REPEATS, MANY_REPEATS = 5, 10  # many where test parts have some 40 rows
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
    """Base of tuned learners: grid search over `candidates`, unless :meth:`trials` does better."""

    name: str
    candidates: Any  # six settings, the simplest or most strongly regularised first
    packages: tuple[str, ...] = ()  # whose versions are part of the version of a result
    warm_params: Params = {}  # of a small fit that compiles; none if nothing is compiled
    n_made = 3  # classes of that fit

    def fit(self, train: Table, params: Params) -> Any:
        """Train on one thread."""
        raise NotImplementedError

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        """Scores for the AUC, labels for the error."""
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


def spread(candidates: Sequence[Params], n: int) -> list[Params]:
    """``n`` of the candidates, evenly spread, the last one always among them."""
    steps = np.linspace(len(candidates) - 1, 0, min(n, len(candidates)))
    return [candidates[i] for i in sorted({round(step) for step in steps})]


def splits(n: int, candidates: int = CANDIDATES) -> list[dict[str, int]]:
    """Cases of a tuned learner: random splits, seeded 0, 1, ..., and a number of candidates."""
    return [{"repeat": k, "candidates": candidates} for k in range(n)]


def tuned(
    source: Source, method: Method, *, repeat: int, candidates: int, **case: Any
) -> dict[str, Any]:
    """Error of a tuned method on one split of a table; with a ``class``, its AUC against the rest.

    Further cases only tell units apart.
    """
    data = load(source.name, source.folder)
    if "class" not in case:
        return measure(method, ERROR, parts(data.X, data.y, data.y, repeat), candidates)
    labels = data.one_against_rest(case["class"])
    return measure(method, AUC, parts(data.X, labels, data.y, repeat), candidates)


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
    method.warm_up()
    trials, tuning_seconds = cpu_timed(method.trials, train, validation, candidates, objective)
    values = [trial.value for trial in trials]
    best = trials[int(np.argmax(objective.sign * np.array(values)))]
    model, seconds = cpu_timed(method.fit, train, best.params)
    runs = [cpu_timed(method.output, model, test.X) for _ in range(PREDICT_RUNS)]
    output = runs[0][0]
    return {
        "value": objective.measure(test.y, output),
        **{other.name: other.measure(test.y, output) for other in also},
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
    """Return what a function returns, and the seconds that it took."""
    started = clock()
    returned = function(*arguments, **named)
    return returned, clock() - started


# The same in CPU seconds: right beside other work, too.
cpu_timed = partial(timed, clock=time.process_time)
