"""Rows up to ten million, from disk; threads, processes and Dask beside one process."""

import tempfile
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np

from benchmarks.runner.experiment import Experiment
from benchmarks.runner.machine import limited, peak_memory, reset_peak_memory
from benchmarks.runner.protocol import timed
from benchmarks.runner.records import exponent, grouped, lookup, pick, record
from structboost import BinnedTable, MulticlassTask, StructBoost

# The first rounds, in which new processes load compiled kernels, are not timed.
WARM_UP_ROUNDS, TIMED_ROUNDS = 10, 20
N_FEATURES, N_CLASSES = 50, 4
_BATCH_ROWS = 1 << 17


class PythonTask(MulticlassTask):
    """Classes whose argmax is Python, one example at a time, as in a user's first task."""

    separate, separates_in_batches = None, False


def batches(n_rows):
    """Made rows and their classes, batch by batch, the same each time; most features are noise."""
    centres = np.random.RandomState(0).normal(scale=0.7, size=(N_CLASSES, 8))
    for index, first in enumerate(range(0, n_rows, _BATCH_ROWS)):
        rng = np.random.default_rng([1, index])
        n = min(_BATCH_ROWS, n_rows - first)
        X = rng.standard_normal((n, N_FEATURES), dtype=np.float32)
        y = rng.integers(N_CLASSES, size=n)
        X[:, :8] += centres[y]
        yield X, y


def made_rows(n_rows):
    """All made rows at once."""
    parts = list(batches(n_rows))
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def _trainer(task, **changes):
    """A trainer that goes on to the last round."""
    parameters = {"C": 1000.0, "tol": 1e-9, "max_rounds": 10, "columns_per_channel": 1, **changes}
    return StructBoost(task, **parameters)


def _seconds_of_rounds(trainer, first=1):
    """Seconds of the rounds after the first ones; the very first starts things up."""
    return np.diff([record["seconds"] for record in trainer.history_])[first - 1 :]


def on_engine(source, engine, *, rows):
    """Seconds of a round on an engine, and the bits of the objective that was reached."""
    X, y = made_rows(rows)
    kind = PythonTask if source.name == "python" else MulticlassTask
    task = kind(int(y.max()) + 1)
    _trainer(task, max_rounds=2).fit(X[:2000], y[:2000])  # compiles
    own = {"engine": engine[0], "n_jobs": engine[1], "max_rounds": WARM_UP_ROUNDS + TIMED_ROUNDS}
    with _cluster(*engine) as client, client.as_current() if client else nullcontext():
        trainer = _trainer(task, **own).fit(X, y)
    seconds = _seconds_of_rounds(trainer, WARM_UP_ROUNDS)
    return {"round_seconds": float(np.median(seconds)), "objective": trainer.objective_.hex()}


@contextmanager
def _cluster(engine, workers):
    """The client of a Dask cluster on this machine, if the engine is Dask."""
    if engine != "dask":
        yield None
        return
    from distributed import Client, LocalCluster

    one_each = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**one_each, silence_logs=50) as local, Client(local) as client:
        yield client


def from_disk(source, engine, *, rows):
    return limited(LIMIT_SECONDS, _compile, train_from_disk, *engine, rows)


def _compile():
    _trainer(MulticlassTask(N_CLASSES), max_rounds=2).fit(*made_rows(2000))


def train_from_disk(engine, workers, n_rows):
    """Bin batches into a table on disk and train on it; peak memory of both together."""
    reset_peak_memory()
    y = np.concatenate([labels for _, labels in batches(n_rows)])
    trainer = _trainer(MulticlassTask(N_CLASSES), engine=engine, n_jobs=workers)
    with tempfile.TemporaryDirectory() as folder:
        rows = (X for X, _ in batches(n_rows))
        path = Path(folder) / "table"
        binned, binning_seconds = timed(BinnedTable.from_batches, path, rows, n_rows)
        trainer.fit(binned, y)
    return {
        "binning_seconds": binning_seconds,
        "round_seconds": float(np.mean(_seconds_of_rounds(trainer))),
        **{"peak_bytes": peak_memory(), "objective": trainer.objective_.hex()},
    }


ROWS = (10_000, 100_000, 1_000_000, 10_000_000)
LIMIT_SECONDS, FIT_FROM_ROWS = 3600.0, 100_000
# A task whose argmax is Python takes some 50 microseconds per example.
IN_MEMORY = {"engines": (10_000, 100_000, 1_000_000), "python": (5_000,)}
SERIAL = "serial"
POOLS = {SERIAL: (SERIAL, 1), "threads, 2": ("threads", 2)}
WORKERS = {f"{name}, {n}": (name, n) for name in ("processes", "dask") for n in (1, 2)}


def cases(source, learner):
    return [{"rows": n} for n in IN_MEMORY.get(source.name, ROWS)]


FILES = {"engines": (), "python": ()}
COMMON = {"metrics": {"seconds of a round": "round_seconds"}, "by": ("rows",)}
EXPERIMENTS = [
    Experiment({"rows": ()}, POOLS, from_disk, cases, **COMMON),
    Experiment(FILES, {**POOLS, **WORKERS}, on_engine, cases, **COMMON),
]


def derived(made):
    """Records beside the serial engine's, and the exponents of seconds over rows."""
    at = lookup(made, "dataset", "rows", "method")
    for r in made:
        key = r["dataset"], r["rows"], SERIAL
        if (serial := at(*key)) is not None and r["value"] is not None:
            r["speed_up"], r["over_serial"] = serial / r["value"], r["value"] - serial
        r["same"] = r.get("objective") is not None and r["objective"] == at(*key, name="objective")
    from_disk = grouped((r["method"], r) for r in pick(made, dataset="rows"))
    for method, own in from_disk.items():
        points = [(r["rows"], r["value"]) for r in own if r["rows"] >= FIT_FROM_ROWS]
        made.append(record("rows", method, "exponent", exponent(points)))
    return made
