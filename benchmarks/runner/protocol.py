"""What every method of a table goes through: candidates, one timed fit, the test part."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from benchmarks.runner.datasets import Dataset, Split, parts
from benchmarks.runner.sources import code_version
from benchmarks.runner.units import Result, Unit

REPEATS = 5
CANDIDATES = 6
PREDICT_RUNS = 5


class Objective(NamedTuple):
    """A metric of outputs; the sign says whether more of it is better (1) or worse (-1)."""

    name: str
    measure: Callable[[np.ndarray, np.ndarray], float]
    sign: int


AUC = Objective("auc", lambda y, scores: float(roc_auc_score(y, scores)), 1)
ERROR = Objective("error", lambda y, labels: float(np.mean(y != labels)), -1)


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


def spread(candidates: Sequence[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """``n`` of the candidates, evenly spread, the last one always among them."""
    steps = np.linspace(len(candidates) - 1, 0, min(n, len(candidates)))
    return [candidates[i] for i in sorted({round(step) for step in steps})]


def tuned_unit(
    benchmark: str,
    data: Dataset,
    method: Any,
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
    return Unit(
        *(benchmark, data.name, method.name),
        {**params, "repeat": repeat, "candidates": protocol.candidates, "note": protocol.note},
        version(method, data),
        lambda: measure(
            method, objective, parts(data.X, y, data.y, repeat), protocol.candidates, also
        ),
    )


def measure(
    method: Any,
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
        trials, tuning_seconds = timed(method.trials, train, validation, candidates, objective)
        values = [trial.value for trial in trials]
        best = trials[int(np.argmax(objective.sign * np.array(values)))]
        model, seconds = timed(method.fit, train, best.params)
        runs = [timed(method.output, model, test.X) for _ in range(PREDICT_RUNS)]
        stages = method.staged_outputs(model, test.X)
        by_round = {r: objective.measure(test.y, output) for r, output in stages}
        output = method.output(model, test.X)
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


def timed(function: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[Any, float]:
    """What a function returns, and the seconds that it took."""
    started = time.perf_counter()
    returned = function(*arguments, **named)
    return returned, time.perf_counter() - started


def version(method: Any, data: Dataset) -> str:
    """Version of the data and of everything that a method's results depend on."""
    modules = [__name__, type(method).__module__]
    return f"{data.content} {code_version(modules, method.packages)}"
