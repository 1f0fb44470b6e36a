"""Rows up to ten million, one worker and two, threads, processes and a Dask cluster on this machine; workers killed.

Made rows for size; MNIST, and pendigits while workers are killed, for truth.  Engines take turns, a round each.
Speed-ups (two workers beside one of their kind, the others beside the serial engine) and differences are of the same
round, medians of 20 rounds and three races.  "Half the rows twice": two trainings that know nothing of each other
beside one of them alone, which is what a second core gives on this machine.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import table
from benchmarks.datasets import load
from benchmarks.engine_races import CLUSTERS, POOLS, C, Cluster, PythonTask, made_trainer, race_records, run_race
from benchmarks.imports import imported_sources
from benchmarks.limits import peak_memory, reset_peak_memory, run_limited
from benchmarks.made_rows import N_CLASSES, N_FEATURES, batches, made
from benchmarks.records import median, record
from benchmarks.units import Result, Unit, source_hash
from structboost import BinnedTable, MulticlassTask, StructBoost

ROWS, QUICK_ROWS = (10_000, 100_000, 1_000_000, 10_000_000), (10_000, 20_000)
REPEATS = RACE_REPEATS = 3
# The largest size is trained on once: it takes minutes.
LARGE_ROWS = 10_000_000
LIMIT_SECONDS = 3600.0
FIT_FROM_ROWS = 100_000

ENGINE_ROWS, QUICK_ENGINE_ROWS = (10_000, 100_000, 1_000_000), (10_000, 20_000)
# A task whose argmax is Python takes some 50 microseconds an example.
PYTHON_ROWS = 5_000
KILLS, QUICK_KILLS = 20, 2
KILL_ROUNDS = 30
COME_BACK_SECONDS = 60

DATASETS = ("rows", "engines", "python", "mnist", "kills")
QUICK_DATASETS = DATASETS


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    """All units of one question."""
    if name == "rows":
        return [
            _unit(name, engine, n, workers, repeat, "made", partial(_in_a_process, engine, workers, n))
            for n in (QUICK_ROWS if quick else ROWS)
            for repeat in range(_repeats(n, quick))
            for engine, workers in POOLS[:2]
        ]
    if name == "kills":
        kills = QUICK_KILLS if quick else KILLS
        data = load("pendigits", data_dir)
        return [_unit(name, "dask", len(data.y), 2, kills, data.content, partial(survive, data.X, data.y, kills))]
    if name == "mnist":
        real = load(name, data_dir, whole=not quick)
        tables = [(real.content, partial(tuple, (real.X, real.y)), len(real.y))]
    else:
        sizes = (QUICK_ENGINE_ROWS if quick else ENGINE_ROWS) if name == "engines" else (PYTHON_ROWS,)
        tables = [("made", partial(made, n), n) for n in sizes]
    races, task = ((POOLS,), PythonTask) if name == "python" else ((POOLS, *CLUSTERS), MulticlassTask)
    return [
        _unit(name, race[-1][0], n, race[-1][1], repeat, content, partial(run_race, race, examples, task))
        for content, examples, n in tables
        for repeat in range(1 if quick else RACE_REPEATS)
        for race in races
    ]


def _repeats(rows: int, quick: bool) -> int:
    return 1 if quick or rows >= LARGE_ROWS else REPEATS


def _unit(
    name: str, engine: str, rows: int, workers: int, repeat: int, content: str, run: Callable[[], Result]
) -> Unit:
    # All that a trainer may import, at whatever time, is among the sources.
    own = [Path(__file__).with_name(f"{module}.py") for module in ("scale", "engine_races", "races", "made_rows")]
    sources = [*imported_sources("structboost.boosting", "structboost.tasks.multiclass"), *own]
    params = {"rows": rows, "workers": workers, "repeat": repeat}
    return Unit("scale", name, engine, params, f"{content} {source_hash(sources)}", run)


def _in_a_process(engine: str, workers: int, n_rows: int) -> Result:
    ending = run_limited(train_from_disk, (engine, workers, n_rows), LIMIT_SECONDS)
    return {**ending.result, "status": "ok" if ending.in_time else "time_limit"}


def train_from_disk(report: Callable[[dict[str, Any]], None], engine: str, workers: int, n_rows: int) -> Result:
    """Bin batches into a table on disk and train on it; peak memory of both together."""
    made_trainer(MulticlassTask(N_CLASSES), max_rounds=2).fit(*made(2000))
    report({})
    reset_peak_memory()
    y = np.concatenate([labels for _, labels in batches(n_rows)])
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        binned = BinnedTable.from_batches(Path(folder) / "table", (X for X, _ in batches(n_rows)), n_rows)
        binning_seconds = time.perf_counter() - started
        trainer = made_trainer(MulticlassTask(N_CLASSES), engine=engine, n_jobs=workers).fit(binned, y)
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


def survive(X: np.ndarray, y: np.ndarray, n_kills: int) -> Result:
    """Kill a worker again and again, at any moment of the fit; what is learned must be what one process learns."""
    parameters = {"C": C, "tol": 1e-3, "max_rounds": KILL_ROUNDS}
    task = MulticlassTask(int(y.max()) + 1)
    alone = StructBoost(task, engine="serial", **parameters).fit(X, y)
    with Cluster("dask", 2) as client:
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
    if name != "rows":
        sizes = sorted({unit.params["rows"] for unit, _ in finished})
        return [
            race_record
            for rows in sizes
            for race_record in race_records(
                name, rows, [result["engines"] for unit, result in finished if unit.params["rows"] == rows]
            )
        ]
    groups: dict[tuple[str, int, int], list[Result]] = {}
    for unit, result in finished:
        groups.setdefault((unit.method, unit.params["rows"], unit.params["workers"]), []).append(result)
    made_records = [_pace_record(*key, results) for key, results in groups.items()]
    for r in made_records:
        _compare(r, [other for other in made_records if other["rows"] == r["rows"]])
    return made_records + [_exponent(name, method, made_records) for method in sorted({key[0] for key in groups})]


def _pace_record(method: str, rows: int, workers: int, results: list[Result]) -> dict[str, Any]:
    """Rounds a second, medians of the repeats."""
    keys = ("round_seconds", "binning_seconds", "peak_bytes", "passes")
    measured = {key: median(r.get(key) for r in results) for key in keys}
    pace = None if measured["round_seconds"] is None else 1.0 / measured["round_seconds"]
    status = "ok" if all(r.get("status", "ok") == "ok" for r in results) else "time_limit"
    fields = {"rows": rows, "workers": workers, "repeats": len(results), "status": status}
    objective = _only({r.get("objective") for r in results})
    return record("rows", method, "rounds_per_second", pace, objective=objective, **fields, **measured)


def _only(values: set[Any]) -> Any:
    """The one value that all have, or None."""
    return next(iter(values)) if len(values) == 1 else None


def _compare(r: dict[str, Any], others: Sequence[dict[str, Any]]) -> None:
    """How fast threads are beside serial on the same rows; whether they agree."""
    serial = next((o for o in others if o["method"] == "serial"), None)
    seconds = r["round_seconds"]
    r["speed_up"] = serial["round_seconds"] / seconds if serial and seconds and serial["round_seconds"] else None
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
    "examples", "rows", "engine", "workers", "ms/round", "speed-up", "of races", "over serial, ms", "first 10, s",
    "passes", "kB out", "kB in", "same",
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
    def scaled(field: str, factor: float) -> float | None:
        return None if r[field] is None else factor * r[field]

    is_ceiling = r["same"] is None
    return [
        r["dataset"],
        f"{r['rows']:,}",
        r["method"],
        str(r["workers"]),
        f"{1e3 * r['round_seconds']:.1f}",
        f"{r['speed_up']:.2f}",
        f"{min(r['speed_ups']):.2f}-{max(r['speed_ups']):.2f}",
        "-" if is_ceiling else f"{1e3 * r['overhead_seconds']:.1f}",
        table.number(r["start_seconds"], "{:.1f}"),
        table.number(r["passes"], "{:.1f}"),
        table.number(scaled("sent_bytes", 1e-3), "{:.0f}"),
        table.number(scaled("received_bytes", 1e-3), "{:.0f}"),
        _same_sign(r),
    ]


def _same_sign(r: dict[str, Any]) -> str:
    return {None: "-", True: "yes", False: "NO"}[r["same"]]


def plot(made_records: Sequence[dict[str, Any]], path: Path) -> None:
    """Seconds of a round over rows, and how fast every engine is beside the serial one."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    paces = [r for r in made_records if r["metric"] == "rounds_per_second" and r["round_seconds"]]
    figure, (seconds, ratios) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for label, line in _lines([r for r in paces if r["dataset"] == "rows"], "round_seconds"):
        seconds.plot(*zip(*line, strict=True), marker="o", markersize=4, label=label)
    seconds.set(xscale="log", yscale="log", ylabel="seconds a round", title="from disk")
    in_memory = [r for r in paces if r["dataset"] == "engines" and r["over_serial"] and r["method"] != "serial"]
    for label, line in _lines(in_memory, "over_serial"):
        style = "-" if label.endswith("2") else ":"
        ratios.plot(*zip(*line, strict=True), style, marker="o", markersize=4, label=label)
    ratios.axhline(1.0, color="0.5", linewidth=0.8)
    ratios.set(xscale="log", ylabel="times as fast as the serial engine", title="in memory", ylim=(0, 2.05))
    for axis in (seconds, ratios):
        axis.set_xlabel(f"rows of {N_FEATURES} features, {N_CLASSES} classes")
        axis.grid(alpha=0.25)
        axis.legend(frameon=False, fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _lines(made_records: Sequence[dict[str, Any]], field: str) -> list[tuple[str, list[tuple[int, float]]]]:
    """Of each engine its name and the field over rows."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for r in made_records:
        name = r["method"] if r["method"] == "serial" else f"{r['method']}, {r['workers']}"
        lines.setdefault(name, []).append((r["rows"], r[field]))
    return [(name, sorted(line)) for name, line in lines.items()]
