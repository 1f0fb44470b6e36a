"""Rows up to ten million, one worker and two, threads, processes and a Dask cluster on this machine; workers killed.

Made rows for size; MNIST, and pendigits while workers are killed, for truth.
"""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import table
from benchmarks.datasets import load
from benchmarks.imports import imported_sources
from benchmarks.limits import peak_memory, reset_peak_memory, run_limited
from benchmarks.records import median, record
from benchmarks.units import Result, Unit, source_hash
from structboost import BinnedTable, MulticlassTask, StructBoost, Task
from structboost.engines.base import Workers

ROWS, QUICK_ROWS = (10_000, 100_000, 1_000_000, 10_000_000), (10_000, 20_000)
N_FEATURES, N_CLASSES = 50, 4
ROUNDS, REPEATS = 10, 3
# Ratios of engines want more: the cores of a virtual machine are not equally fast at all times.
RACE_REPEATS = 5
# Of engines the rounds after these are timed: a new process loads compiled kernels when it first needs them.
WARM_UP_ROUNDS = 10
# The largest size is trained on once: it takes minutes.
LARGE_ROWS = 10_000_000
LIMIT_SECONDS = 3600.0
FIT_FROM_ROWS = 100_000
BATCH_ROWS = 1 << 17

ENGINE_ROWS, QUICK_ENGINE_ROWS = (10_000, 100_000, 1_000_000), (10_000, 20_000)
ENGINES = (("serial", 1), ("threads", 2), ("processes", 1), ("processes", 2), ("dask", 1), ("dask", 2))
# A task whose argmax is Python takes some 50 microseconds an example.
PYTHON_ROWS = 5_000
PYTHON_ENGINES = (("serial", 1), ("threads", 2), ("processes", 1), ("processes", 2))
KILLS, QUICK_KILLS = 20, 2
KILL_ROUNDS = 30
COME_BACK_SECONDS = 60

DATASETS = ("rows", "engines", "python", "mnist", "kills")
QUICK_DATASETS = DATASETS
C = 1000.0


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    """All units of one question."""
    if name == "rows":
        return [
            _unit(name, engine, n, workers, repeat, "made", partial(_in_a_process, engine, workers, n))
            for n in (QUICK_ROWS if quick else ROWS)
            for repeat in range(_repeats(n, quick))
            for engine, workers in ENGINES[:2]
        ]
    if name == "kills":
        kills = QUICK_KILLS if quick else KILLS
        data = load("pendigits", data_dir)
        return [_unit(name, "dask", len(data.y), 2, kills, data.content, partial(survive, data.X, data.y, kills))]
    if name == "mnist":
        real = load(name, data_dir, whole=not quick)
        tables = [(real.content, partial(lambda: (real.X, real.y)), len(real.y))]
    else:
        sizes = (QUICK_ENGINE_ROWS if quick else ENGINE_ROWS) if name == "engines" else (PYTHON_ROWS,)
        tables = [("made", partial(made, n), n) for n in sizes]
    engines, task = (PYTHON_ENGINES, PythonTask) if name == "python" else (ENGINES, MulticlassTask)
    return [
        _unit(name, engine, n, workers, repeat, content, partial(race, engine, workers, examples, task))
        for content, examples, n in tables
        for repeat in range(1 if quick else RACE_REPEATS)
        for engine, workers in engines
    ]


def _repeats(rows: int, quick: bool) -> int:
    return 1 if quick or rows >= LARGE_ROWS else REPEATS


def _unit(
    name: str, engine: str, rows: int, workers: int, repeat: int, content: str, run: Callable[[], Result]
) -> Unit:
    # All that a trainer may import, at whatever time, is among the sources.
    sources = [*imported_sources("structboost.boosting", "structboost.tasks.multiclass"), Path(__file__)]
    params = {"rows": rows, "workers": workers, "repeat": repeat}
    return Unit("scale", name, engine, params, f"{content} {source_hash(sources)}", run)


def batches(n_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Made rows and their classes, batch by batch: the same each time."""
    centres = np.random.RandomState(0).normal(scale=0.7, size=(N_CLASSES, 8))
    for number, first in enumerate(range(0, n_rows, BATCH_ROWS)):
        rng = np.random.default_rng([1, number])
        n = min(BATCH_ROWS, n_rows - first)
        X, y = rng.standard_normal((n, N_FEATURES), dtype=np.float32), rng.integers(N_CLASSES, size=n)
        X[:, :8] += centres[y]
        yield X, y


def made(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """All made rows at once."""
    parts = list(batches(n_rows))
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def _trainer(task: MulticlassTask, **changes: Any) -> StructBoost:
    parameters = {"C": C, "tol": 1e-9, "max_rounds": ROUNDS, "columns_per_channel": 1, **changes}
    return StructBoost(task, **parameters)


def _in_a_process(engine: str, workers: int, n_rows: int) -> Result:
    ending = run_limited(train_from_disk, (engine, workers, n_rows), LIMIT_SECONDS)
    return {**ending.result, "status": "ok" if ending.in_time else "time_limit"}


def train_from_disk(report: Callable[[dict[str, Any]], None], engine: str, workers: int, n_rows: int) -> Result:
    """Bin batches into a table on disk and train on it; peak memory of both together."""
    _trainer(MulticlassTask(N_CLASSES), max_rounds=2).fit(*made(2000))
    report({})
    reset_peak_memory()
    y = np.concatenate([labels for _, labels in batches(n_rows)])
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        binned = BinnedTable.from_batches(Path(folder) / "table", (X for X, _ in batches(n_rows)), n_rows)
        binning_seconds = time.perf_counter() - started
        trainer = _trainer(MulticlassTask(N_CLASSES), engine=engine, n_jobs=workers).fit(binned, y)
    return {
        "binning_seconds": binning_seconds,
        "round_seconds": _round_seconds(trainer.history_),
        "passes": trainer.history_[-1]["oracle_calls"] / len(trainer.history_),
        "peak_bytes": peak_memory(),
        "objective": trainer.objective_.hex(),
    }


def _round_seconds(history: Sequence[dict[str, Any]], n_first: int = 1) -> float:
    """Seconds a round, the first ones, which start things up, left out."""
    return (history[-1]["seconds"] - history[n_first - 1]["seconds"]) / (len(history) - n_first)


class PythonTask(MulticlassTask):
    """Classes whose argmax is asked for an example at a time, in Python, as of a user's first task."""

    separate = Task.separate


def race(
    engine: str,
    workers: int,
    examples: Callable[[], tuple[np.ndarray, np.ndarray]],
    kind_of_task: type[MulticlassTask],
) -> Result:
    """Seconds of a round on one engine, what moves in it, and what was learned."""
    X, y = examples()
    task = kind_of_task(int(y.max()) + 1)
    with _cluster(engine, workers):
        # Compiles, and starts what is started once.
        few = slice(0, 2000)
        _trainer(task, engine=engine, n_jobs=workers, max_rounds=2).fit(X[few], y[few])
        with Traffic() as traffic:
            trainer = _trainer(
                task,
                engine=engine,
                n_jobs=workers,
                max_rounds=WARM_UP_ROUNDS + ROUNDS,
                callbacks=[traffic.at_round],
            ).fit(X, y)
    n_rounds = len(trainer.history_) - WARM_UP_ROUNDS
    warm = _round_seconds(trainer.history_, WARM_UP_ROUNDS)
    return {
        "round_seconds": warm,
        "start_seconds": trainer.history_[-1]["seconds"] - warm * len(trainer.history_),
        "passes": traffic.passes / n_rounds,
        "sent_bytes": traffic.sent / n_rounds,
        "received_bytes": traffic.received / n_rounds,
        "objective": trainer.objective_.hex(),
    }


class _cluster:
    """A Dask cluster on this machine while a block runs, if the engine is Dask."""

    def __init__(self, engine: str, workers: int) -> None:
        self._workers = workers if engine == "dask" else 0

    def __enter__(self) -> Any:
        if not self._workers:
            return None
        import dask
        from distributed import Client, LocalCluster

        # A worker that is missing 15 seconds after a loss, be it for a later one, would be given up.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
        self._cluster = LocalCluster(
            n_workers=self._workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        )
        self._client = Client(self._cluster)
        return self._client

    def __exit__(self, *error: object) -> None:
        if self._workers:
            self._client.close()
            self._cluster.close()


class Traffic:
    """Counts passes over the shards, and pickled bytes of what goes out and comes back, after the warm-up."""

    def __init__(self) -> None:
        self.passes = self.sent = self.received = 0
        self._counts = False

    def __enter__(self) -> Traffic:
        self._sum = Workers.sum

        def counted(workers: Any, calls: Any) -> Any:
            found = self._sum(workers, calls)
            if self._counts:
                self.passes += 1
                # Each worker gets the calls and sends one sum, or two.
                n_workers = len(getattr(workers, "_shares", [()]))
                self.sent += n_workers * len(pickle.dumps(calls))
                self.received += n_workers * len(pickle.dumps(found))
            return found

        Workers.sum = counted  # type: ignore[method-assign]
        return self

    def at_round(self, record: dict[str, Any], trainer: Any) -> None:
        """A callback of the trainer."""
        self._counts = record["round"] >= WARM_UP_ROUNDS

    def __exit__(self, *error: object) -> None:
        Workers.sum = self._sum  # type: ignore[method-assign]


def survive(X: np.ndarray, y: np.ndarray, n_kills: int) -> Result:
    """Kill a worker again and again, at any moment of the fit; what is learned must be what one process learns."""
    parameters = {"C": C, "tol": 1e-3, "max_rounds": KILL_ROUNDS}
    task = MulticlassTask(int(y.max()) + 1)
    alone = StructBoost(task, engine="serial", **parameters).fit(X, y)
    with _cluster("dask", 2) as client:
        killer = _Killer(client, n_kills)
        fits = lost = 0
        while killer.is_alive() or not fits:
            if not fits:
                killer.start()
            trainer = StructBoost(task, engine="dask", **parameters).fit(X, y)
            fits += 1
            lost += not _same(trainer, alone)
    if killer.kills < n_kills:
        raise RuntimeError(f"{killer.kills} were killed, and one did not come back within {COME_BACK_SECONDS} seconds.")
    return {"kills": killer.kills, "fits": fits, "lost": lost, "rounds": len(alone.history_)}


class _Killer(threading.Thread):
    """Kills one of the workers every second or two, when both are up."""

    def __init__(self, client: Any, n_kills: int) -> None:
        super().__init__(daemon=True)
        self.kills = 0
        self._client, self._n_kills = client, n_kills

    def run(self) -> None:
        """Until all kills are done, or a worker does not come back."""
        rng = np.random.default_rng(0)
        while self.kills < self._n_kills:
            time.sleep(rng.uniform(1.0, 2.0))
            pids = self._await_both()
            if pids is None:
                return
            os.kill(pids[rng.integers(2)], signal.SIGKILL)
            self.kills += 1

    def _await_both(self) -> list[int] | None:
        """Process ids of both workers, seen twice: what dies before its nanny has noted its start is not restarted."""
        before: list[int] = []
        for _ in range(COME_BACK_SECONDS * 5):
            try:
                pids = sorted(self._client.run(os.getpid).values())
            except Exception:  # one is just dying
                pids = []
            if len(pids) == 2 and pids == before:
                return pids
            before = pids
            time.sleep(0.2)
        return None


def _same(one: Any, other: Any) -> bool:
    """Whether two trainers learned the same, bit by bit."""
    histories = [[{k: v for k, v in r.items() if k != "seconds"} for r in t.history_] for t in (one, other)]
    weights = np.array_equal(one.model_.weights, other.model_.weights)
    return histories[0] == histories[1] and weights and one.objective_ == other.objective_


def records(name: str, finished: Sequence[tuple[Unit, Result]]) -> list[dict[str, Any]]:
    """Records of one question."""
    if name == "kills":
        facts = ("kills", "fits", "rounds")
        return [
            record(name, unit.method, "lost", result["lost"], **{key: result[key] for key in facts})
            for unit, result in finished
        ]
    groups: dict[tuple[str, int, int], list[Result]] = {}
    for unit, result in finished:
        groups.setdefault((unit.method, unit.params["rows"], unit.params["workers"]), []).append(result)
    made_records = [_pace_record(name, *key, results) for key, results in groups.items()]
    for r in made_records:
        _compare(r, [other for other in made_records if other["rows"] == r["rows"]])
    if name == "rows":
        made_records += [_exponent(name, method, made_records) for method in sorted({key[0] for key in groups})]
    return made_records


def _pace_record(name: str, method: str, rows: int, workers: int, results: list[Result]) -> dict[str, Any]:
    """Rounds a second, medians of the repeats."""
    keys = ("round_seconds", "start_seconds", "binning_seconds", "peak_bytes", "passes", "sent_bytes", "received_bytes")
    measured = {key: median(r.get(key) for r in results) for key in keys}
    pace = None if measured["round_seconds"] is None else 1.0 / measured["round_seconds"]
    objectives = {r.get("objective") for r in results}
    status = "ok" if all(r.get("status", "ok") == "ok" for r in results) else "time_limit"
    fields = {"rows": rows, "workers": workers, "repeats": len(results), "status": status}
    objective = objectives.pop() if len(objectives) == 1 else None
    return record(name, method, "rounds_per_second", pace, objective=objective, **fields, **measured)


def _compare(r: dict[str, Any], others: Sequence[dict[str, Any]]) -> None:
    """How fast an engine is beside one worker of its kind and beside serial on the same rows; whether they agree."""
    serial = next((o for o in others if o["method"] == "serial"), None)
    one = next((o for o in others if o["method"] == r["method"] and o["workers"] == 1), serial)
    seconds = r["round_seconds"]
    r["speed_up"] = one["round_seconds"] / seconds if one and seconds and one["round_seconds"] else None
    r["overhead_seconds"] = (
        seconds - serial["round_seconds"] if serial and seconds and serial["round_seconds"] else None
    )
    r["same"] = None if serial is None else r["objective"] == serial["objective"]


def _exponent(name: str, method: str, made_records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """By which power of the rows the seconds of a round grow."""
    large = [r for r in made_records if r["method"] == method and r["rows"] >= FIT_FROM_ROWS and r["round_seconds"]]
    if len(large) < 2:
        return record(name, method, "round_seconds_exponent", None)
    slope = np.polyfit(np.log([r["rows"] for r in large]), np.log([r["round_seconds"] for r in large]), 1)[0]
    return record(name, method, "round_seconds_exponent", float(slope))


ROW_HEAD = ("on disk, rows", "engine", "workers", "rounds/s", "speed-up", "passes", "binning s", "peak MB", "same")
ENGINE_HEAD = (
    "examples", "rows", "engine", "workers", "ms/round", "speed-up", "over serial, ms", "start s", "passes", "kB out",
    "kB in", "same",
)  # fmt: skip
KILL_HEAD = ("workers killed", "fits", "rounds a fit", "other than one process")


def show(made_records: Sequence[dict[str, Any]]) -> str:
    """Rows, engines and kills."""
    paces = [r for r in made_records if r["metric"] == "rounds_per_second"]
    rows = [_row_line(r) for r in paces if r["dataset"] == "rows"]
    engines = [_engine_line(r) for r in paces if r["dataset"] != "rows"]
    kills = [
        [str(r["kills"]), str(r["fits"]), str(r["rounds"]), str(r["value"])]
        for r in made_records
        if r["metric"] == "lost"
    ]
    blocks = [(ROW_HEAD, rows), (ENGINE_HEAD, engines), (KILL_HEAD, kills)]
    shown = "\n\n".join(table.aligned(head, lines) for head, lines in blocks if lines)
    exponents = [r for r in made_records if r["metric"] == "round_seconds_exponent" and r["value"] is not None]
    return shown + "".join(
        f"\nSeconds of a round ({r['method']}) grow as rows to the power {r['value']:.3f}." for r in exponents
    )


def _row_line(r: dict[str, Any]) -> list[str]:
    megabytes = None if r["peak_bytes"] is None else r["peak_bytes"] / 1e6
    return [
        f"{r['rows']:,}",
        r["method"],
        str(r["workers"]),
        table.number(r["value"], "{:.3g}"),
        table.number(r["speed_up"], "{:.2f}"),
        table.number(r["passes"], "{:.1f}"),
        table.number(r["binning_seconds"], "{:.1f}"),
        table.number(megabytes, "{:.0f}"),
        _same_sign(r),
    ]


def _engine_line(r: dict[str, Any]) -> list[str]:
    return [
        r["dataset"],
        f"{r['rows']:,}",
        r["method"],
        str(r["workers"]),
        f"{1e3 * r['round_seconds']:.1f}",
        table.number(r["speed_up"], "{:.2f}"),
        table.number(None if r["overhead_seconds"] is None else 1e3 * r["overhead_seconds"], "{:.1f}"),
        table.number(r["start_seconds"], "{:.1f}"),
        table.number(r["passes"], "{:.1f}"),
        table.number(r["sent_bytes"] / 1e3, "{:.0f}"),
        table.number(r["received_bytes"] / 1e3, "{:.0f}"),
        _same_sign(r),
    ]


def _same_sign(r: dict[str, Any]) -> str:
    return {None: "-", True: "yes", False: "NO"}[r["same"]]


def plot(made_records: Sequence[dict[str, Any]], path: Path) -> None:
    """Seconds of a round over rows, from disk and by every engine."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    paces = [r for r in made_records if r["metric"] == "rounds_per_second" and r["round_seconds"]]
    figure, axis = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    for dataset, style, where in (("rows", "-", "from disk: "), ("engines", "--", "in memory: ")):
        own = [r for r in paces if r["dataset"] == dataset]
        groups = dict.fromkeys((r["method"], r["workers"]) for r in own)
        for method, workers in groups:
            mine = [r for r in own if (r["method"], r["workers"]) == (method, workers)]
            line = sorted((r["rows"], r["round_seconds"]) for r in mine)
            label = f"{where}{method}" if method == "serial" else f"{where}{method}, {workers}"
            axis.plot(*zip(*line, strict=True), style, marker="o", markersize=4, label=label)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel(f"rows of {N_FEATURES} features, {N_CLASSES} classes")
    axis.set_ylabel("seconds a round")
    axis.grid(alpha=0.25)
    figure.legend(frameon=False, fontsize=8, loc="outside right center")
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
