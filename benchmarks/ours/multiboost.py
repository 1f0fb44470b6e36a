"""MultiBoost^cw round by round: errors, CPU seconds, objective, memory."""

import time
from typing import NamedTuple

import numpy as np

from benchmarks.runner.datasets import Table, load
from benchmarks.runner.limits import peak_memory, reset_peak_memory, run_limited
from structboost import MulticlassTask, StructBoost
from structboost.objectives import Exponential

CHECKPOINTS = (1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 500)
TRAIN_FRACTION = 0.75
SHOWN = ("primal", "bound", "gap", "certified", "columns", "oracle_calls")
ROWS_OF_PUBLISHED = "splits/fcd.npz"


class Setting(NamedTuple):
    """One way to train."""

    name: str
    solver: str  # "fcd" or "lbfgs"
    tau_max: int
    C: float


def trained(source, setting, /, *, split, rounds, limit_seconds, **_):
    """Errors and seconds at the checkpoints, in a process of its own."""
    data = load(source.name, source.folder, whole=True)
    arguments = (setting, *_parts(data, split, source), data.n_classes, rounds, limit_seconds)
    ending = run_limited(10 * limit_seconds, train_watched, *arguments)
    if not ending.in_time:
        raise RuntimeError(f"One round took more than {9 * limit_seconds:.0f} seconds.")
    return {**ending.result, "C": setting.C}


def _parts(data, split, source):
    """Training and test part: the rows of the published code's runs, else 75 % at random.

    Features are quantised over all rows, to 256 levels between the extremes, padded by 0.01, as in
    the published code; MNIST is 8 bit as it is.
    """
    X, is_mnist = data.X, data.name == "mnist"
    if not is_mnist:
        low, high = X.min(axis=0).astype(float) - 0.01, X.max(axis=0).astype(float) + 0.01
        X = np.floor((X - low) / ((high - low) / 255) + 0.5)
    with np.load(source.folder / ROWS_OF_PUBLISHED) as file:
        key = "mnist1000" if is_mnist else data.name
        if f"{key}_train" in file:
            train = file[f"{key}_train"][split]
            test = np.atleast_2d(file[f"{key}_test"])[-1 if is_mnist else split]
        else:
            rows = np.random.default_rng(split).permutation(len(X))
            n_train = round(TRAIN_FRACTION * len(X))
            train, test = np.sort(rows[:n_train]), np.sort(rows[n_train:])
    return [Table(X[own].astype(np.uint8), data.y[own]) for own in (train, test)]


def _trainer(setting, n_classes, rounds, callbacks=None):
    """Not yet fitted; runs all its rounds unless pricing is exhausted."""
    common = {"tol": 0.0, "max_rounds": rounds, "columns_per_channel": 1, "random_state": 1}
    formulation = Exponential(setting.solver, setting.tau_max)
    own = {"C": setting.C, "formulation": formulation, "callbacks": callbacks, "pricing": "own"}
    return StructBoost(MulticlassTask(n_classes), **common, **own)


def train_watched(report, setting, train, test, n_classes, rounds, limit):
    """Errors and CPU seconds at the checkpoints, and facts of the last round.

    Training stops after the round in which ``limit`` seconds have passed.
    """
    cpu = []

    def watch(record, fitting):
        cpu.append(time.process_time() - began)
        return time.perf_counter() - started > limit

    def errors(part):
        labels = {c: table.scores(part.X).argmax(axis=1) for c, table in tables.items()}
        return {c: float(np.mean(own != part.y)) for c, own in labels.items()}

    X = np.arange(24, dtype=np.uint8).reshape(12, 2)
    _trainer(setting, 3, 12).fit(X, np.repeat(np.arange(3), 4)).model_.scores(X)  # compiles
    reset_peak_memory()
    report({})
    began, started = time.process_time(), time.perf_counter()
    fitted = _trainer(setting, n_classes, rounds, [watch]).fit(train.X, train.y)
    peak, in_time = peak_memory(), time.perf_counter() - started <= limit
    history, model = fitted.history_, fitted.model_
    reached = [c for c in (*CHECKPOINTS, len(history)) if c <= len(history)]
    tables = {c: model.at_stage(c - 1) for c in dict.fromkeys(reached)}
    at_test, at_train = errors(test), errors(train)
    last = history[-1]
    return {
        **{"errors": at_test, "train_errors": at_train, "cpu": {c: cpu[c - 1] for c in tables}},
        **{key: last[key] for key in SHOWN},
        **{"rounds": last["round"], "seconds": cpu[-1], "value": at_test[len(history)]},
        "primals": {c: history[c - 1]["primal"] for c in tables if c in CHECKPOINTS},
        **{"learners": model.n_learners, "peak_bytes": peak, "peak_mb": peak / 1e6},
        "status": "ok" if in_time or last["round"] == rounds else "time_limit",
    }
