"""Rows up to ten million, from disk; threads, processes and Dask beside one process."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np

from benchmarks.runner.datasets import load, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.limits import limited, peak_memory, reset_peak_memory
from benchmarks.runner.pages import across, blocks, field, listing
from benchmarks.runner.protocol import timed
from benchmarks.runner.records import exponent, grouped, less, lookup, most, pick, ratio
from benchmarks.runner.targets import all_of, reach
from structboost import BinnedTable, MulticlassTask, StructBoost, Task

# The first rounds, in which new processes load compiled kernels, are not timed.
WARM_UP_ROUNDS, TIMED_ROUNDS = 10, 20
N_FEATURES, N_CLASSES = 50, 4
_BATCH_ROWS = 1 << 17


class Engine(tuple[str, int]):
    """An engine that another package has, and its number of workers."""

    packages = ("distributed",)


class PythonTask(MulticlassTask):
    """Classes whose argmax is Python, one example at a time, as in a user's first task."""

    separate, separates_in_batches = Task.separate, False


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


def made(n_rows):
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
    X, y = made(rows)
    if source.name == "mnist":
        data = load(source.name, source.folder, whole=True)
        X, y = data.X[:rows], data.y[:rows]
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


def train_from_disk(report, engine, workers, n_rows):
    """Bin batches into a table on disk and train on it; peak memory of both together."""
    _trainer(MulticlassTask(N_CLASSES), max_rounds=2).fit(*made(2000))
    report({})
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
LARGE_ROWS, LIMIT_SECONDS, FIT_FROM_ROWS = 10_000_000, 3600.0, 100_000
# A task whose argmax is Python takes some 50 microseconds per example.
IN_MEMORY = {"engines": (10_000, 100_000, 1_000_000), "python": (5_000,), "mnist": (70_000,)}
SERIAL, ROUND = "serial", "seconds of a round"
POOLS = {SERIAL: (SERIAL, 1), "threads, 2": ("threads", 2)}
PROCESSES = {f"processes, {n}": ("processes", n) for n in (1, 2)}
DASK = {f"dask, {n}": Engine(("dask", n)) for n in (1, 2)}


def cases(source, learner):
    return [{"rows": n} for n in IN_MEMORY.get(source.name, ROWS)]


def from_disk(source, engine, *, rows):
    return limited(LIMIT_SECONDS, train_from_disk, *engine, rows)


FILES = {"engines": (), "python": (), **tabular("mnist")}
COMMON = {"metrics": {ROUND: "round_seconds"}, "by": ("rows",)}
EXPERIMENTS = [
    Experiment(
        *({"rows": ()}, POOLS, from_disk, cases),
        **COMMON,
    ),
    Experiment(
        *(FILES, {**POOLS, **PROCESSES, **DASK}, on_engine, cases),
        **COMMON,
    ),
]


def derived(made):
    """Records with speed-up and objective beside the serial engine's."""
    at = lookup(made, "dataset", "rows", "method")
    for r in made:
        key = r["dataset"], r["rows"], SERIAL
        r["speed_up"] = ratio(at(*key), r["value"])
        objectives = at(*key, name="objective"), r.get("objective")
        r["same"] = None not in objectives and objectives[0] == objectives[1]
    return made


def show(made):
    rows = ("dataset", "rows")
    on_disk = listing(
        pick(made, dataset="rows"),
        field("on disk, rows", "rows", "{:,}"),
        field("engine", "method"),
        field("s a round", "value", "{:.3g}"),
        field("binning s", "binning_seconds", "{:.1f}"),
        field("peak MB", "peak_bytes", "{:.0f}", 1e-6),
    )
    return blocks(
        on_disk,
        across("Milliseconds of a round", made, "value", "{:.1f}", rows=rows, factor=1e3),
        across("Times as fast as the serial engine", made, "speed_up", "{:.2f}", rows=rows),
        across("The same objective, bit by bit", made, "same", "{}", rows=rows),
    )


def targets(made):
    at = lookup(made, "dataset", "rows", "method")
    of_engines = grouped((r["method"], r) for r in pick(made, dataset="rows"))
    slopes = [
        exponent([(r["rows"], r["value"]) for r in own if r["rows"] >= FIT_FROM_ROWS])
        for own in of_engines.values()
    ]
    over = {
        f"{name} {n:,}": less(*(at(name, n, m) for m in ("dask, 1", SERIAL)))
        for name, sizes in IN_MEMORY.items()
        for n in sizes
    }
    dask = [(name, seconds < 0.05) for name, seconds in over.items() if seconds is not None]
    peak = most(r["peak_bytes"] for r in pick(made, dataset="rows", rows=LARGE_ROWS))
    agree = [(f"{r['dataset']} {r['method']}", r["same"]) for r in made]

    def two_processes(name, n):
        both = (at(name, n, f"processes, {k}") for k in (1, 2))
        return reach(f"two processes 1.7 times one, {name}, {n:,} rows", ratio(*both), ">=", 1.7)

    wanted = "seconds of a round grow as rows to the power 1.05 at most"
    return [
        reach(wanted, most(slopes), "<=", 1.05),
        two_processes("engines", 1_000_000),
        two_processes("python", 5_000),
        all_of("Dask over serial less than 50 ms per round", dask),
        reach("10,000,000 rows in 4 GB", peak and peak / 1e9, "<=", 4.0, "{:.2f} GB"),
        all_of("the same objective on every engine, bit by bit", agree),
    ]
