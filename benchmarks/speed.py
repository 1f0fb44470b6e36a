"""Speed and memory as rows, features and classes double; prediction time on usps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import table
from benchmarks.datasets import load, made_table
from benchmarks.limits import peak_memory, reset_peak_memory, run_limited
from benchmarks.methods import prediction, structboost
from benchmarks.methods.base import Table
from benchmarks.records import median, record
from benchmarks.splits import split
from benchmarks.units import Result, Unit, source_hash

# (rows, features, classes): one of them doubles while the others stay.
SIZES = {
    "rows": [(n, 32, 4) for n in (50_000, 100_000, 200_000, 400_000, 800_000, 1_600_000)],
    "features": [(100_000, d, 4) for d in (16, 32, 64, 128, 256)],
    "classes": [(100_000, 32, k) for k in (2, 4, 8, 16, 32)],
}
QUICK_SIZES = {
    "rows": [(n, 8, 3) for n in (5_000, 10_000)],
    "features": [(5_000, d, 3) for d in (8, 16)],
    "classes": [(5_000, 8, k) for k in (2, 4)],
}
VARIED = ("rows", "features", "classes")
MEASURED = ("seconds", "rounds", "round_seconds", "bytes_per_example", "peak_bytes")
DATASETS = (*SIZES, "mnist", "usps")
QUICK_DATASETS = (*SIZES, "usps")
METHOD = "structboost_1slack"
OURS = structboost.Multiclass(gap=0.02)

FIT_FROM_ROWS = 100_000
ROUNDS = 10
REPEATS = 3
LIMIT_SECONDS = 900.0
PREDICT_ROWS = 10_000
PREDICT_ROUNDS, QUICK_PREDICT_ROUNDS = 500, 20
PREDICT_RUNS = 9

SIZE_HEAD = ("doubling", "rows", "features", "classes", "rounds/s", "bytes/example", "peak MB")
EXPONENT_HEAD = ("scaling in", "of", "exponent")
RACE_HEAD = ("prediction, usps", "us/sample", "times ours", "stumps")


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    """All units of one axis, of MNIST's training or of the prediction race."""
    if name == "usps":
        rounds = QUICK_PREDICT_ROUNDS if quick else PREDICT_ROUNDS
        data = load(name, data_dir)
        return [_unit(name, "all", {"rounds": rounds}, data.content, lambda: race(data_dir, rounds))]
    if name == "mnist":
        content = load(name, data_dir).content
        return [_unit(name, METHOD, {"rounds": ROUNDS}, content, lambda: _watched(_mnist, (data_dir,)))]
    sizes = (QUICK_SIZES if quick else SIZES)[name]
    repeats = range(1 if quick else REPEATS)
    return [_scaling_unit(name, size, repeat) for repeat in repeats for size in sizes]


def _scaling_unit(name: str, size: tuple[int, int, int], repeat: int) -> Unit:
    """One size of made data."""
    rows, features, classes = size
    params = {"rows": rows, "features": features, "classes": classes, "repeat": repeat}
    return _unit(name, METHOD, params, "made", lambda: _watched(made_table, size))


def _unit(name: str, method: str, params: dict[str, Any], content: str, run: Callable[[], Result]) -> Unit:
    """A unit whose version covers our package and both modules that call it."""
    sources = [*OURS.sources(), Path(prediction.__file__), Path(__file__)]
    return Unit("speed", name, method, params, f"{content} {source_hash(sources)}", run)


def _watched(make: Callable[..., Any], arguments: tuple[Any, ...]) -> Result:
    """Train on a table in a process of its own."""
    ending = run_limited(train_watched, (make, arguments), LIMIT_SECONDS)
    return {**ending.result, "status": "ok" if ending.in_time else "time_limit"}


def train_watched(
    report: Callable[[dict[str, Any]], None], make: Callable[..., Any], arguments: tuple[Any, ...]
) -> Result:
    """Seconds of a round and peak memory, over that of the table itself."""
    OURS.warm_up()
    data = make(*arguments)
    report({})
    before = reset_peak_memory()
    started = time.perf_counter()
    history = structboost.train_rounds(Table(data.X, data.y), ROUNDS)
    seconds = time.perf_counter() - started
    n_timed = len(history) - 1
    return {
        "seconds": seconds,
        "rounds": len(history),
        "round_seconds": (history[-1]["seconds"] - history[0]["seconds"]) / n_timed,
        "bytes_per_example": (peak_memory() - before) / len(data.X),
        "peak_bytes": peak_memory(),
    }


def _mnist(data_dir: Path) -> Any:
    """The 60,000 standard training rows, as they lie in the file: uint8."""
    with np.load(Path(data_dir) / "tabular" / "mnist.npz") as file:
        train = file["train"]
        return Table(file["X"][train], file["y"][train])


def race(data_dir: Path, rounds: int) -> Result:
    """Raw scores of 10,000 rows, every contestant in turn, again and again."""
    data = load("usps", data_dir)
    rows = split(data.y, seed=0).train
    train = Table(data.X[rows], data.y[rows])
    with threadpool_limits(1):
        contestants = prediction.contestants(train, rounds)
    X = np.ascontiguousarray(np.resize(data.X, (PREDICT_ROWS, data.X.shape[1])))
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(PREDICT_RUNS):
        for name, contestant in contestants.items():
            started = time.perf_counter()
            contestant.scores(X)
            seconds[name].append(time.perf_counter() - started)
    reference = contestants["lightgbm"].scores(X)
    for name in ("structboost_compiled", "structboost_uncompiled"):
        np.testing.assert_allclose(contestants[name].scores(X), reference, rtol=0, atol=1e-6)
    return {
        name: {
            "predict_us": 1e6 * float(np.median(times[1:])) / PREDICT_ROWS,
            "stumps": contestants[name].n_stumps,
        }
        for name, times in seconds.items()
    }


def records(name: str, finished: Sequence[tuple[Unit, Result]]) -> list[dict[str, Any]]:
    """Records of one axis (sizes and exponents), of MNIST's training or of the prediction race."""
    if not finished:
        return []
    if name == "usps":
        return _race_records(finished[0][1])
    by_size: dict[tuple[Any, ...], list[Result]] = {}
    for unit, result in finished:
        size = tuple((axis, unit.params[axis]) for axis in VARIED if axis in unit.params)
        by_size.setdefault(size, []).append(result)
    made = [_size_record(name, dict(size), results) for size, results in by_size.items()]
    return [*made, *_exponent_records(name, made)]


def _size_record(name: str, size: dict[str, int], results: list[Result]) -> dict[str, Any]:
    """Rounds per second at one size, with the memory beside: medians of the repeats."""
    measured = {key: median(r.get(key) for r in results) for key in MEASURED}
    round_seconds = measured["round_seconds"]
    pace = None if round_seconds is None else 1.0 / round_seconds
    in_time = all(r["status"] == "ok" for r in results)
    fields = {"repeats": len(results), "status": "ok" if in_time else "time_limit", **size, **measured}
    return record(name, METHOD, "rounds_per_second", pace, **fields)


def _exponent_records(name: str, sizes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Logarithmic slopes of fit seconds, seconds a round and peak bytes, from 10^5 rows up."""
    large = [r for r in sizes if r.get("rows", 0) >= FIT_FROM_ROWS and r["status"] == "ok"]
    if name not in VARIED or len(large) < 2:
        return []
    size = np.log([r[name] for r in large])
    quantities = {
        "fit_seconds_exponent": [r["seconds"] for r in large],
        "round_seconds_exponent": [r["round_seconds"] for r in large],
        "bytes_exponent": [r["bytes_per_example"] * r["rows"] for r in large],
    }
    return [
        record(name, METHOD, metric, float(np.polyfit(size, np.log(values), 1)[0]), repeats=large[0]["repeats"])
        for metric, values in quantities.items()
    ]


def _race_records(result: Result) -> list[dict[str, Any]]:
    """Microseconds a sample, and how many times slower than our compiled tables."""
    times = {name: one for name, one in result.items() if isinstance(one, dict)}
    fastest = times["structboost_compiled"]["predict_us"]
    return [
        record(
            "usps",
            name,
            "predict_us",
            one["predict_us"],
            repeats=PREDICT_RUNS,
            stumps=one["stumps"],
            ratio=one["predict_us"] / fastest,
        )
        for name, one in times.items()
    ]


def show(made: Sequence[dict[str, Any]]) -> str:
    """Sizes, exponents and the race."""
    by_metric: dict[str, list[dict[str, Any]]] = {}
    for r in made:
        by_metric.setdefault(r["metric"], []).append(r)
    exponents = [r for r in made if r["metric"].endswith("_exponent")]
    blocks = (
        (SIZE_HEAD, [_size_row(r) for r in by_metric.get("rounds_per_second", [])]),
        (EXPONENT_HEAD, [_exponent_row(r) for r in exponents]),
        (RACE_HEAD, [_race_row(r) for r in by_metric.get("predict_us", [])]),
    )
    return "\n\n".join(table.aligned(head, rows) for head, rows in blocks if rows)


def _size_row(r: dict[str, Any]) -> list[str]:
    """One size."""
    size = [str(r.get(name, "-")) for name in ("rows", "features", "classes")]
    megabytes = None if r.get("peak_bytes") is None else r["peak_bytes"] / 1e6
    return [
        r["dataset"],
        *size,
        table.number(r["value"], "{:.2f}"),
        table.number(r.get("bytes_per_example"), "{:.0f}"),
        table.number(megabytes, "{:.0f}"),
    ]


def _exponent_row(r: dict[str, Any]) -> list[str]:
    """One slope."""
    return [r["dataset"], r["metric"].removesuffix("_exponent").replace("_", " "), f"{r['value']:.2f}"]


def _race_row(r: dict[str, Any]) -> list[str]:
    """One contestant."""
    return [r["method"], f"{r['value']:.3f}", f"{r['ratio']:.1f}", str(r["stumps"])]
