"""Rows up to ten million, one worker and two, threads, processes and a Dask cluster on this machine; workers killed."""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import table
from benchmarks.datasets import load
from benchmarks.limits import peak_memory, reset_peak_memory, run_limited
from benchmarks.methods import structboost
from benchmarks.records import median, record
from benchmarks.units import Result, Unit, source_hash

ROWS, QUICK_ROWS = (10_000, 100_000, 1_000_000, 10_000_000), (10_000, 20_000)
N_FEATURES, N_CLASSES = 50, 4
ROUNDS, REPEATS = 10, 3
# The largest size is trained on once: it takes minutes.
LARGE_ROWS = 10_000_000
LIMIT_SECONDS = 3600.0
FIT_FROM_ROWS = 100_000
BATCH_ROWS = 1 << 17

ENGINE_ROWS, QUICK_ENGINE_ROWS = 1_000_000, 20_000
ENGINES = (("serial", 1), ("threads", 2), ("processes", 1), ("processes", 2), ("dask", 1), ("dask", 2))
# Small enough that what a round costs is what the engine costs.
OVERHEAD_ROWS = 20_000
KILLS, QUICK_KILLS = 20, 2
KILL_ROUNDS = 30

DATASETS = ("rows", "engines", "overhead", "kills")
QUICK_DATASETS = DATASETS
C = 1000.0


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    """All units of one question."""
    if name == "rows":
        sizes = [(n, repeat) for n in (QUICK_ROWS if quick else ROWS) for repeat in range(_repeats(n, quick))]
        return [
            _unit(name, "disk", {"rows": n, "repeat": repeat}, "made", lambda n=n: _in_a_process(n))
            for n, repeat in sizes
        ]
    if name == "kills":
        kills = QUICK_KILLS if quick else KILLS
        data = load("pendigits", data_dir)
        return [_unit(name, "dask", {"kills": kills}, data.content, lambda: survive(data.X, data.y, kills))]
    n = (QUICK_ENGINE_ROWS if quick else ENGINE_ROWS) if name == "engines" else OVERHEAD_ROWS
    return [
        _unit(name, engine, {"rows": n, "workers": workers, "repeat": repeat}, "made", _race_of(engine, workers, n))
        for repeat in range(1 if quick else REPEATS)
        for engine, workers in ENGINES
    ]


def _repeats(rows: int, quick: bool) -> int:
    return 1 if quick or rows >= LARGE_ROWS else REPEATS


def _unit(name: str, method: str, params: dict[str, Any], content: str, run: Callable[[], Result]) -> Unit:
    engines = Path(structboost.__file__).parents[2] / "structboost" / "engines"
    sources = [*structboost.Multiclass(gap=0.02).sources(), engines, Path(__file__)]
    return Unit("scale", name, method, params, f"{content} {source_hash(sources)}", run)


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


def _trainer(**changes: Any) -> Any:
    from structboost import MulticlassTask, StructBoost

    parameters = {"C": C, "tol": 1e-9, "max_rounds": ROUNDS, "columns_per_channel": 1, **changes}
    return StructBoost(MulticlassTask(N_CLASSES), **parameters)


def _in_a_process(n_rows: int) -> Result:
    ending = run_limited(train_from_disk, (n_rows,), LIMIT_SECONDS)
    return {**ending.result, "status": "ok" if ending.in_time else "time_limit"}


def train_from_disk(report: Callable[[dict[str, Any]], None], n_rows: int) -> Result:
    """Bin batches into a table on disk, train on it, one core; peak memory of both together."""
    from structboost import BinnedTable

    _trainer(max_rounds=2).fit(*made(2000))
    report({})
    reset_peak_memory()
    y = np.concatenate([labels for _, labels in batches(n_rows)])
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        binned = BinnedTable.from_batches(Path(folder) / "table", (X for X, _ in batches(n_rows)), n_rows)
        binning_seconds = time.perf_counter() - started
        history = _trainer(engine="serial").fit(binned, y).history_
    return {
        "binning_seconds": binning_seconds,
        "round_seconds": _round_seconds(history),
        "oracle_calls": history[-1]["oracle_calls"],
        "peak_bytes": peak_memory(),
    }


def _round_seconds(history: Sequence[dict[str, Any]]) -> float:
    """Seconds a round, the first, which starts things up, left out."""
    return (history[-1]["seconds"] - history[0]["seconds"]) / (len(history) - 1)


def _race_of(engine: str, workers: int, n_rows: int) -> Callable[[], Result]:
    return lambda: race(engine, workers, n_rows)


def race(engine: str, workers: int, n_rows: int) -> Result:
    """Seconds of a round on one engine, what moves in it, and what was learned."""
    X, y = made(n_rows)
    with _cluster(engine, workers):
        # Compiles, and starts what is started once.
        _trainer(engine=engine, n_jobs=workers, max_rounds=2).fit(X[:2000], y[:2000])
        with Traffic() as traffic:
            trainer = _trainer(engine=engine, n_jobs=workers, callbacks=[traffic.at_round]).fit(X, y)
    n_rounds = len(trainer.history_) - 1
    return {
        "round_seconds": _round_seconds(trainer.history_),
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
        from distributed import Client, LocalCluster

        self._cluster = LocalCluster(
            n_workers=self._workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
        )
        self._client = Client(self._cluster)
        return self._client

    def __exit__(self, *error: object) -> None:
        if self._workers:
            self._client.close()
            self._cluster.close()


class Traffic:
    """Counts passes over the shards, and pickled bytes of what goes out and comes back, from the second round on."""

    def __init__(self) -> None:
        self.passes = self.sent = self.received = 0
        self._counts = False

    def __enter__(self) -> Traffic:
        from structboost.engines.base import Workers

        self._workers, self._sum = Workers, Workers.sum

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
        self._counts = True

    def __exit__(self, *error: object) -> None:
        self._workers.sum = self._sum  # type: ignore[method-assign]


def survive(X: np.ndarray, y: np.ndarray, n_kills: int) -> Result:
    """Kill a worker again and again, at any moment of the fit; what is learned must be what one process learns."""
    from structboost import MulticlassTask, StructBoost

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
    return {"kills": killer.kills, "fits": fits, "lost": lost, "rounds": len(alone.history_)}


class _Killer(threading.Thread):
    """Kills one of the workers every second or two, when both are up."""

    def __init__(self, client: Any, n_kills: int) -> None:
        super().__init__(daemon=True)
        self.kills = 0
        self._client, self._n_kills = client, n_kills

    def run(self) -> None:
        """Until all kills are done."""
        rng = np.random.default_rng(0)
        while self.kills < self._n_kills:
            time.sleep(rng.uniform(1.0, 2.0))
            try:
                pids = sorted(self._client.run(os.getpid).values())
            except Exception:  # one is just dying
                continue
            if len(pids) == 2:
                os.kill(pids[rng.integers(2)], signal.SIGKILL)
                self.kills += 1


def _same(one: Any, other: Any) -> bool:
    """Whether two trainers learned the same, bit by bit."""
    histories = [[{k: v for k, v in r.items() if k != "seconds"} for r in t.history_] for t in (one, other)]
    weights = np.array_equal(one.model_.weights, other.model_.weights)
    return histories[0] == histories[1] and weights and one.objective_ == other.objective_


def records(name: str, finished: Sequence[tuple[Unit, Result]]) -> list[dict[str, Any]]:
    """Records of one question."""
    if not finished:
        return []
    if name == "kills":
        return [record(name, unit.method, "lost", result["lost"], **_facts(result)) for unit, result in finished]
    groups: dict[tuple[Any, ...], list[tuple[Unit, Result]]] = {}
    for unit, result in finished:
        groups.setdefault((unit.method, unit.params["rows"], unit.params.get("workers", 1)), []).append((unit, result))
    made_records = [_pace_record(name, *key, [result for _, result in own]) for key, own in groups.items()]
    if name == "rows":
        large = [r for r in made_records if r["rows"] >= FIT_FROM_ROWS]
        if len(large) > 1:
            size = np.log([r["rows"] for r in large])
            slope = float(np.polyfit(size, np.log([r["round_seconds"] for r in large]), 1)[0])
            made_records.append(record(name, "disk", "round_seconds_exponent", slope))
    else:
        serial = next(r for r in made_records if r["method"] == "serial")
        one = {r["method"]: r["round_seconds"] for r in made_records if r["workers"] == 1}
        for r in made_records:
            r["speed_up"] = one.get(r["method"], serial["round_seconds"]) / r["round_seconds"]
            r["overhead_seconds"] = r["round_seconds"] - serial["round_seconds"]
            r["same"] = r["objective"] == serial["objective"]
    return made_records


def _facts(result: Result) -> dict[str, Any]:
    return {key: result[key] for key in ("kills", "fits", "rounds")}


def _pace_record(name: str, method: str, rows: int, workers: int, results: list[Result]) -> dict[str, Any]:
    """Rounds a second, medians of the repeats."""
    keys = ("round_seconds", "binning_seconds", "peak_bytes", "passes", "sent_bytes", "received_bytes", "oracle_calls")
    measured = {key: median(r.get(key) for r in results) for key in keys}
    pace = None if measured["round_seconds"] is None else 1.0 / measured["round_seconds"]
    objectives = {r.get("objective") for r in results}
    status = "ok" if all(r.get("status", "ok") == "ok" for r in results) else "time_limit"
    fields = {"rows": rows, "workers": workers, "repeats": len(results), "status": status}
    objective = objectives.pop() if len(objectives) == 1 else None
    return record(name, method, "rounds_per_second", pace, objective=objective, **fields, **measured)


ROW_HEAD = ("on disk, rows", "features", "classes", "rounds/s", "passes", "binning s", "peak MB")
ENGINE_HEAD = (
    "engine",
    "workers",
    "rows",
    "ms/round",
    "speed-up",
    "over serial, ms",
    "passes",
    "kB out",
    "kB in",
    "same",
)
KILL_HEAD = ("workers killed", "fits", "rounds a fit", "other than one process")


def show(made_records: Sequence[dict[str, Any]]) -> str:
    """Rows, engines and kills."""
    rows = [r for r in made_records if r["dataset"] == "rows" and r["metric"] == "rounds_per_second"]
    engines = [r for r in made_records if r["dataset"] in ("engines", "overhead")]
    kills = [r for r in made_records if r["dataset"] == "kills"]
    blocks = [
        (ROW_HEAD, [_row_line(r) for r in rows]),
        (ENGINE_HEAD, [_engine_line(r) for r in engines]),
        (KILL_HEAD, [[str(r["kills"]), str(r["fits"]), str(r["rounds"]), str(r["value"])] for r in kills]),
    ]
    shown = "\n\n".join(table.aligned(head, lines) for head, lines in blocks if lines)
    exponents = [r for r in made_records if r["metric"] == "round_seconds_exponent"]
    return shown + "".join(f"\nSeconds of a round grow as rows to the power {r['value']:.2f}." for r in exponents)


def _row_line(r: dict[str, Any]) -> list[str]:
    megabytes = None if r["peak_bytes"] is None else r["peak_bytes"] / 1e6
    return [
        str(r["rows"]),
        str(N_FEATURES),
        str(N_CLASSES),
        table.number(r["value"], "{:.3g}"),
        table.number(r["oracle_calls"], "{:.0f}"),
        table.number(r["binning_seconds"], "{:.1f}"),
        table.number(megabytes, "{:.0f}"),
    ]


def _engine_line(r: dict[str, Any]) -> list[str]:
    return [
        r["method"],
        str(r["workers"]),
        str(r["rows"]),
        f"{1e3 * r['round_seconds']:.1f}",
        f"{r['speed_up']:.2f}",
        f"{1e3 * r['overhead_seconds']:.1f}",
        table.number(r["passes"], "{:.1f}"),
        f"{r['sent_bytes'] / 1e3:.0f}",
        f"{r['received_bytes'] / 1e3:.0f}",
        "yes" if r["same"] else "NO",
    ]
