"""Rows up to ten million: one worker and two, threads, processes, Dask; workers killed."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ours import engines
from benchmarks.ours.engines import ALONE, CLUSTERS, POOLS, SIDE_BY_SIDE, Engine, PythonTask
from benchmarks.runner import plots
from benchmarks.runner.datasets import load
from benchmarks.runner.limits import limited
from benchmarks.runner.records import Record, by, grouped, pick, record
from benchmarks.runner.sources import code_version
from benchmarks.runner.statistics import exponent, median, most, over, status
from benchmarks.runner.tables import Column, blocks, field, table
from benchmarks.runner.targets import Target, all_of, reach
from benchmarks.runner.units import Finished, Result, Unit
from structboost import MulticlassTask

ROWS, QUICK_ROWS = (10_000, 100_000, 1_000_000, 10_000_000), (10_000, 20_000)
REPEATS = 3
# The largest size is trained on once: it takes minutes.
LARGE_ROWS = 10_000_000
LIMIT_SECONDS = 3600.0
FIT_FROM_ROWS = 100_000
ENGINE_ROWS, QUICK_ENGINE_ROWS = (10_000, 100_000, 1_000_000), (10_000, 20_000)
# A task whose argmax is Python takes some 50 microseconds per example.
PYTHON_ROWS = 5_000
KILLS, QUICK_KILLS = 20, 2
DATASETS = ("rows", "engines", "python", "mnist", "kills")
QUICK_DATASETS = DATASETS
PEERS = dict.fromkeys(("engines", "mnist", "kills"), ("distributed",))
# How many fits the kills fall into is chance.
NOT_COMPARED = frozenset({"fits"})
ON_DISK = ("round_seconds", "binning_seconds", "peak_bytes", "passes")
PACE, EXPONENT = "rounds_per_second", "round_seconds_exponent"
Times = dict[Engine, list[np.ndarray]]


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    code = code_version([engines.__name__])
    repeats = 1 if quick else REPEATS

    def unit(
        engine: Engine, rows: int, repeat: int, run: Callable[[], Result], data: str = "made"
    ) -> Unit:
        params = {"rows": rows, "workers": engine[1], "repeat": repeat}
        return Unit("scale", name, engine[0], params, f"{data} {code}", run, timed=True)

    if name == "rows":
        from_disk = partial(limited, LIMIT_SECONDS, engines.train_from_disk)
        return [
            unit(engine, n, repeat, partial(from_disk, *engine, n))
            for n in (QUICK_ROWS if quick else ROWS)
            for repeat in range(1 if n >= LARGE_ROWS else repeats)
            for engine in POOLS[:2]
        ]
    if name == "kills":
        kills, data = QUICK_KILLS if quick else KILLS, load("pendigits", data_dir)
        run = partial(engines.survive, data.X, data.y, kills)
        return [unit(("dask", 2), len(data.y), kills, run, data.content)]
    races = (POOLS,) if name == "python" else (POOLS, *CLUSTERS)
    task = PythonTask if name == "python" else MulticlassTask
    sizes = QUICK_ENGINE_ROWS if quick else ENGINE_ROWS
    sizes = (PYTHON_ROWS,) if name == "python" else sizes
    content, examples = "made", {n: partial(engines.made, n) for n in sizes}
    if name == "mnist":
        real = load(name, data_dir, whole=not quick)
        content, examples = real.content, {len(real.y): partial(tuple, (real.X, real.y))}
    return [
        unit(race[-1], n, repeat, partial(engines.run_race, race, of_size, task), content)
        for n, of_size in examples.items()
        for repeat in range(repeats)
        for race in races
    ]


def records(name: str, finished: Finished) -> list[Record]:
    if name == "rows":
        return _row_records(finished)
    if name == "kills":
        lost = [(result["lost"], result) for _, result in finished]
        facts = ("kills", "fits", "rounds")
        return [record(name, "dask", "lost", n, **{k: r[k] for k in facts}) for n, r in lost]
    by_rows = grouped((unit.params["rows"], result["engines"]) for unit, result in finished)
    return [r for rows in sorted(by_rows) for r in race_records(name, rows, by_rows[rows])]


def _row_records(finished: Finished) -> list[Record]:
    """Paces on disk, medians of the repeats, and exponents."""
    groups = grouped(
        ((unit.method, unit.params["rows"], unit.params["workers"]), result)
        for unit, result in finished
    )
    made = []
    for (method, rows, workers), results in groups.items():
        fields = over(median, results, *ON_DISK)
        fields |= {"rows": rows, "workers": workers, "repeats": len(results)}
        objectives = {r.get("objective") for r in results}
        fields["objective"] = objectives.pop() if len(objectives) == 1 else None
        seconds = fields["round_seconds"]
        pace = None if seconds is None else 1 / seconds
        made.append(record("rows", method, PACE, pace, status=status(results), **fields))
    serial = by(pick(made, method="serial"), "rows")
    for r in made:
        beside = serial.get(r["rows"], {})
        seconds = beside.get("round_seconds"), r["round_seconds"]
        r["speed_up"] = seconds[0] / seconds[1] if all(seconds) else None
        r["same"] = r["objective"] == beside["objective"] if beside else None
    for method in sorted({key[0] for key in groups}):
        large = [r for r in pick(made, method=method, metric=PACE) if r["rows"] >= FIT_FROM_ROWS]
        slope = exponent([(r["rows"], r["round_seconds"]) for r in large])
        made.append(record("rows", method, EXPONENT, slope))
    return made


def race_records(name: str, rows: int, races: Sequence[Sequence[dict[str, Any]]]) -> list[Record]:
    """A record for each engine: ratios and differences of the same round in the same race."""
    entries = [(entry, race[0]) for race in races for entry in race]
    pairs = grouped(((entry["engine"], entry["workers"]), (entry, own)) for entry, own in entries)
    times = {key: [np.array(e["seconds"]) for e, _ in own] for key, own in pairs.items()}
    serial = {key: [np.array(first["seconds"]) for _, first in own] for key, own in pairs.items()}
    expected = {race[0]["objective"] for race in races}
    facts = ("passes", "sent_bytes", "received_bytes", "start_seconds")
    made = []
    for key in (key for key in pairs if key != ALONE):
        own = [entry for entry, _ in pairs[key]]
        seconds, of_serial = np.concatenate(times[key]), np.concatenate(serial[key])
        speed_ups = _speed_ups(key, times, serial)
        found = {entry["objective"] for entry in own if "objective" in entry}
        fields = {
            **{"rows": rows, "workers": key[1], "repeats": len(own)},
            "same": found == expected and len(expected) == 1 if found else None,
            **over(median, own, *facts),
            "round_seconds": float(np.median(seconds)),
            "overhead_seconds": float(np.median(seconds - of_serial)),
            # It would say nothing of the two that know nothing of each other.
            "over_serial": None if key == SIDE_BY_SIDE else float(np.median(of_serial / seconds)),
            "speed_up": median(speed_ups),
            "speed_ups": speed_ups,
        }
        made.append(record(name, key[0], PACE, 1.0 / fields["round_seconds"], **fields))
    return made


def _speed_ups(key: Engine, times: Times, serial: Times) -> list[float]:
    """How fast two workers are beside one of their kind; one worker and threads beside serial."""

    def ratios(these: list[np.ndarray], those: list[np.ndarray]) -> list[float]:
        return [float(np.median(one / two)) for one, two in zip(these, those, strict=True)]

    if key == SIDE_BY_SIDE:
        return [2 * ratio for ratio in ratios(times[ALONE], times[key])]
    one = (key[0], 1)
    if key == one or one not in times:
        return ratios(serial[key], times[key])
    if key[0] == "dask":  # in another race, beside its own serial one
        both = ratios(serial[key], times[key]), ratios(serial[one], times[one])
        return [two / alone for two, alone in zip(*both, strict=True)]
    return ratios(times[one], times[key])


_rows, _engine = field("rows", "rows", "{:,}"), field("engine", "method")
_workers, _passes = field("workers", "workers"), field("passes", "passes", "{:.1f}")
_speed_up = field("speed-up", "speed_up", "{:.2f}")
_same = Column("same", lambda r: {None: "-", True: "yes", False: "NO"}[r["same"]])
_of_races = Column("of races", lambda r: f"{min(r['speed_ups']):.2f}-{max(r['speed_ups']):.2f}")
ROW_COLUMNS = [
    *(field("on disk, rows", "rows", "{:,}"), _engine, _workers),
    field("rounds/s", "value", "{:.3g}"),
    *(_speed_up, _passes),
    field("binning s", "binning_seconds", "{:.1f}"),
    field("peak MB", "peak_bytes", "{:.0f}", 1e-6),
    _same,
]
ENGINE_COLUMNS = [
    *(field("examples", "dataset"), _rows, _engine, _workers),
    field("ms/round", "round_seconds", "{:.1f}", 1e3),
    *(_speed_up, _of_races),
    Column("over serial, ms", lambda r: field("", "over", "{:.1f}", 1e3).cell(r)),
    field("first 10, s", "start_seconds", "{:.1f}"),
    _passes,
    field("kB out", "sent_bytes", "{:.0f}", 1e-3),
    field("kB in", "received_bytes", "{:.0f}", 1e-3),
    _same,
]
KILL_COLUMNS = [
    field("workers killed", "kills"),
    field("fits", "fits"),
    field("rounds per fit", "rounds"),
    field("other than one process", "value"),
]


def show(made: Sequence[Record]) -> str:
    paces = pick(made, metric=PACE)
    races = [
        {**r, "over": r["overhead_seconds"] if r["same"] is not None else None}
        for r in paces
        if r["dataset"] != "rows"
    ]
    exponents = [
        f"Seconds of a round ({r['method']}) grow as rows to the power {r['value']:.3f}."
        for r in pick(made, metric=EXPONENT)
        if r["value"] is not None
    ]
    return blocks(
        table(pick(paces, dataset="rows"), ROW_COLUMNS),
        table(races, ENGINE_COLUMNS),
        table(pick(made, metric="lost"), KILL_COLUMNS),
        "\n".join(exponents),
    )


def targets(made: Sequence[Record]) -> list[Target]:
    paces = pick(made, metric=PACE)
    by_key = by(paces, "dataset", "rows", "method", "workers")
    slope = most(r["value"] for r in pick(made, metric=EXPONENT))
    dask = [
        (f"{r['dataset']} {r['rows']:,}", r["overhead_seconds"] < 0.05)
        for r in pick(paces, method="dask", workers=1)
    ]
    peak = most(r["peak_bytes"] for r in pick(paces, dataset="rows", rows=LARGE_ROWS))
    lost = next((r["value"] for r in pick(made, metric="lost")), None)
    agree = [(f"{r['dataset']} {r['method']}", r["same"]) for r in paces if r["same"] is not None]

    def two_processes(name: str, rows: int) -> Target:
        speed_up = by_key.get((name, rows, "processes", 2), {}).get("speed_up")
        wanted = f"two processes 1.7 times one, {name}, {rows:,} rows"
        return reach(wanted, speed_up, ">=", 1.7)

    return [
        reach("seconds of a round grow as rows to the power 1.05 at most", slope, "<=", 1.05),
        two_processes("engines", ENGINE_ROWS[-1]),
        two_processes("python", PYTHON_ROWS),
        all_of("Dask over serial less than 50 ms per round", dask),
        reach("10,000,000 rows in 4 GB", peak and peak / 1e9, "<=", 4.0, "{:.2f} GB"),
        reach("models other than one process's after 20 kills", lost, "<=", 0, "{:.0f}"),
        all_of("the same objective on every engine, bit by bit", agree),
    ]


def plot(made: Sequence[Record], path: Path) -> None:
    """Seconds of a round over rows, and how fast every engine is beside the serial one."""
    paces = [r for r in pick(made, metric=PACE) if r["round_seconds"]]
    in_memory = [r for r in pick(paces, dataset="engines") if r["method"] != "serial"]
    about = f"rows of {engines.N_FEATURES} features, {engines.N_CLASSES} classes"
    with plots.panels(path, (1, 2), (10, 4)) as (_, ((left, right),)):
        _lines(left, pick(paces, dataset="rows"), "round_seconds")
        _lines(right, [r for r in in_memory if r["over_serial"]], "over_serial")
        left.set(xscale="log", yscale="log", ylabel="seconds per round", title="from disk")
        right.set(xscale="log", ylim=(0, 2.05), ylabel="times as fast as serial", title="in memory")
        right.axhline(1.0, color="0.5", lw=0.8)
        for axis in (left, right):
            axis.set_xlabel(about)
            axis.legend()


def _lines(axis: Any, made: Sequence[Record], key: str) -> None:
    """For each engine a field over rows; dotted with one worker."""
    lines = grouped(((r["method"], r["workers"]), (r["rows"], r[key])) for r in made)
    for (method, workers), points in lines.items():
        label = method if method == "serial" else f"{method}, {workers}"
        style = ":" if workers == 1 and method != "serial" else "-"
        axis.plot(*zip(*sorted(points), strict=True), ls=style, marker="o", ms=4, label=label)
