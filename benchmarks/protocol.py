"""What every method goes through: candidates judged on the validation part, one timed fit, the test part."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from benchmarks.datasets import Dataset
from benchmarks.methods.base import Method, Table
from benchmarks.splits import split
from benchmarks.units import source_hash

REPEATS = 5
CANDIDATES = 6
PREDICT_RUNS = 5


class Objective(NamedTuple):
    """A metric of outputs, and whether more of it is better."""

    name: str
    measure: Callable[[np.ndarray, np.ndarray], float]
    sign: int


AUC = Objective("auc", lambda y, scores: float(roc_auc_score(y, scores)), 1)
ERROR = Objective("error", lambda y, labels: float(np.mean(y != labels)), -1)


@dataclass(frozen=True)
class Protocol:
    """How often and how widely a method is tuned.

    Parameters
    ----------
    repeats : int
        Random splits, seeded 0, 1, ...
    candidates : int
        Settings judged on the validation part of each.
    """

    repeats: int = REPEATS
    candidates: int = CANDIDATES

    @property
    def note(self) -> str | None:
        """What was cut from the paper's protocol."""
        if self.repeats >= REPEATS and self.candidates >= CANDIDATES:
            return None
        repeats = f"{self.repeats} of {REPEATS} repeats"
        return f"cut to fit the time: {repeats}, {self.candidates} of {CANDIDATES} candidates"


def parts(X: np.ndarray, y: np.ndarray, strata: np.ndarray, repeat: int) -> tuple[Table, Table, Table]:
    """Training, validation and test tables of one repeat, stratified by ``strata``."""
    train, validation, test = (Table(X[rows], y[rows]) for rows in split(strata, repeat))
    return train, validation, test


def spread(candidates: list[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """``n`` of the candidates, evenly spread, the last one always among them."""
    steps = np.linspace(len(candidates) - 1, 0, min(n, len(candidates)))
    return [candidates[i] for i in sorted({round(step) for step in steps})]


def measure(
    method: Method, objective: Objective, tables: tuple[Table, Table, Table], n_candidates: int
) -> dict[str, Any]:
    """Tune, fit once more with the clock on, and measure on the test part; all on one thread.

    Ties between candidates go to the earlier one: the more strongly regularised, or the simpler.
    """
    train, validation, test = tables
    with threadpool_limits(1):
        method.warm_up()
        started = time.perf_counter()
        trials = method.trials(train, validation, spread(method.candidates, n_candidates), objective)
        tuning_seconds = time.perf_counter() - started
        values = [trial.value for trial in trials]
        best = trials[int(np.argmax(objective.sign * np.array(values)))]
        started = time.perf_counter()
        model = method.fit(train, best.params)
        seconds = time.perf_counter() - started
        predict_seconds = [timed_output(method, model, test.X) for _ in range(PREDICT_RUNS)]
    return {
        "value": objective.measure(test.y, method.output(model, test.X)),
        "train_value": objective.measure(train.y, method.output(model, train.X)),
        "seconds": seconds,
        "tuning_seconds": tuning_seconds,
        "predict_us": 1e6 * float(np.median(predict_seconds)) / len(test.y),
        "params": best.params,
        "validation": values,
        "C": best.params.get("C"),
        **method.facts(model),
        **method.tuning_facts(trials),
    }


def timed_output(method: Method, model: Any, X: np.ndarray) -> float:
    """Seconds of one prediction."""
    started = time.perf_counter()
    method.output(model, X)
    return time.perf_counter() - started


def version(method: Method, data: Dataset) -> str:
    """Hash of the data and of everything that a method's results depend on."""
    packages = [f"{name} {importlib.import_module(name).__version__}" for name in method.packages]
    here = Path(__file__).parent
    code = source_hash([*method.sources(), here / "protocol.py", here / "splits.py"])
    return " ".join([data.content, code, *packages])
