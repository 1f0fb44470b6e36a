"""What every tuned learner offers, and goes through: candidates, one timed fit, a test part."""

import time
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.runner.datasets import Table, load, parts

REPEATS, MANY_REPEATS = 5, 10  # many where test parts have some 40 rows
CANDIDATES = 6
PREDICT_RUNS = 5


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

    params: dict[str, Any]
    value: float
    facts: dict[str, Any] = {}


class Method:
    """Base of tuned learners: grid search over `candidates`, unless :meth:`trials` does better."""

    name: str
    candidates: Any  # six settings, the simplest or most strongly regularised first
    warm_params = {}  # of a small fit that compiles; none if nothing is compiled
    n_made = 3  # classes of that fit

    def fit(self, train, params):
        """Train on one thread."""
        raise NotImplementedError

    def output(self, model, X):
        """Scores for the AUC, labels for the error."""
        return model.predict(X)

    def trials(self, train, validation, candidates, objective):
        """Each candidate with its value on the validation part."""
        return [self.trial(train, validation, params, objective) for params in candidates]

    def trial(self, train, validation, params, objective):
        output = self.output(self.fit(train, params), validation.X)
        return Trial(params, objective.measure(validation.y, output))

    def warm_up(self):
        """Compile what is compiled at first use, so that no timing includes it."""
        if self.warm_params:
            train = made_classes(self.n_made)
            self.output(self.fit(train, self.warm_params), train.X)

    def facts(self, model):
        """More about a fitted model: gap, rounds."""
        return {}

    def tuning_facts(self, trials):
        """More about the candidates."""
        return {}


class BestRounds(Method):
    """Candidates are trained for long once, then cut to their best number of rounds."""

    def values(self, train, validation, params, objective):
        """Value on the validation part after each round."""
        raise NotImplementedError

    def trial(self, train, validation, params, objective):
        values = np.asarray(self.values(train, validation, params, objective))
        best = int(np.argmax(objective.sign * values))
        return Trial({**params, "rounds": best + 1}, float(values[best]))


def grid(**values):
    """All combinations of some parameters' values; those of the last change fastest."""
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def made_classes(n_classes=3):
    """A small made table, to compile all kernels on."""
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    edges = np.linspace(-1.0, 1.0, n_classes + 1)[1:-1]
    return Table(X, np.digitize(X[:, 0] + X[:, 1], edges))


def spread(candidates, n):
    """``n`` of the candidates, evenly spread, the last one always among them."""
    steps = np.linspace(len(candidates) - 1, 0, min(n, len(candidates)))
    return [candidates[i] for i in sorted({round(step) for step in steps})]


def splits(n, candidates=CANDIDATES):
    """Cases of a tuned learner: random splits, seeded 0, 1, ..., and a number of candidates."""
    return [{"repeat": k, "candidates": candidates} for k in range(n)]


def tuned(source, method, *, repeat, candidates, **case):
    """Error of a tuned method on one split of a table; with a ``class``, its AUC against the rest.

    Further cases only tell units apart.
    """
    data = load(source.name, source.folder)
    if "class" not in case:
        return measure(method, ERROR, parts(data, repeat), candidates)
    binary = data._replace(y=(data.y == case["class"]).astype(np.int64))
    return measure(method, AUC, parts(binary, repeat, data.y), candidates)


def measure(method, objective, tables, n_candidates, *also):
    """Tune, fit once more with the clock on, and measure on the test part; all on one thread.

    Ties between candidates go to the earlier one: the more strongly regularised, or the simpler.
    """
    train, validation, test = tables
    method.warm_up()
    candidates = spread(method.candidates, n_candidates)
    trials = method.trials(train, validation, candidates, objective)
    values = [trial.value for trial in trials]
    best = trials[int(np.argmax(objective.sign * np.array(values)))]
    model, seconds = cpu_timed(method.fit, train, best.params)
    runs = [cpu_timed(method.output, model, test.X) for _ in range(PREDICT_RUNS)]
    output = runs[0][0]
    return {
        "value": objective.measure(test.y, output),
        **{another.name: another.measure(test.y, output) for another in also},
        "seconds": seconds,
        "predict_us": 1e6 * float(np.median([spent for _, spent in runs])) / len(test.y),
        "params": best.params,
        "validation": values,
        "C": best.params.get("C"),
        **method.facts(model),
        **method.tuning_facts(trials),
    }


def rows_of(source, learner):
    """All rows of a learner that measures by itself, and tunes on training data only."""
    return {"rows": learner(source)}


def row(method, metric, value, **facts):
    """A value on test data, with the settings that were chosen and the CPU seconds of the fit."""
    return {"method": method, "metric": metric, "value": value, **facts}


def best_fit(candidates, value, fit):
    """The fit with the first candidate of the largest value, and facts about it."""
    values = [float(value(one)) for one in candidates]
    chosen = candidates[int(np.argmax(values))]
    model, seconds = cpu_timed(fit, chosen)
    return model, {"C": chosen, "validation": values, "seconds": seconds}


def timed(
    function,
    *arguments,
    clock=time.perf_counter,
    **named,
):
    """Return what a function returns, and the seconds that it took."""
    started = clock()
    returned = function(*arguments, **named)
    return returned, clock() - started


# The same in CPU seconds: right beside other work, too.
cpu_timed = partial(timed, clock=time.process_time)
