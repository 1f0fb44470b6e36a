"""Speed and memory as rows, features and classes double; prediction time on usps."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.ours import methods
from benchmarks.peers import prediction
from benchmarks.runner import tables
from benchmarks.runner.datasets import Table, given_partition, load, made_table, split
from benchmarks.runner.limits import Report, limited, peak_memory, reset_peak_memory
from benchmarks.runner.protocol import timed
from benchmarks.runner.records import Record, grouped, pick, record
from benchmarks.runner.sources import code_version
from benchmarks.runner.statistics import exponent, median, over, status
from benchmarks.runner.tables import Column, field
from benchmarks.runner.targets import Target, reach
from benchmarks.runner.units import Finished, Result, Unit
from structboost import MulticlassTask, StructBoost

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
PEERS = {"usps": ("lightgbm",)}
OURS = methods.stumps(0.02)
FIT_FROM_ROWS = 100_000
ROUNDS = 10
REPEATS = 3
LIMIT_SECONDS = 900.0
PREDICT_ROUNDS, QUICK_PREDICT_ROUNDS = 500, 20
PACE, PREDICTION = "rounds_per_second", "predict_us"


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    code = code_version([__name__, methods.__name__])
    watched = partial(limited, LIMIT_SECONDS, train_watched)

    def unit(method: str, content: str, run: Callable[[], Result], **params: int) -> Unit:
        return Unit("speed", name, method, params, f"{content} {code}", run, timed=True)

    if name == "usps":
        data, rounds = load(name, data_dir), QUICK_PREDICT_ROUNDS if quick else PREDICT_ROUNDS
        train = Table(*(of_all[split(data.y, seed=0).train] for of_all in (data.X, data.y)))
        run = partial(prediction.race, train, data.X, rounds)
        return [unit("all", data.content, run, rounds=rounds)]
    if name == "mnist":
        content, run = load(name, data_dir).content, partial(watched, mnist_rows, data_dir)
        return [unit(OURS.name, content, run, rounds=ROUNDS)]
    return [
        unit(
            *(OURS.name, "made", partial(watched, made_table, *size)),
            **dict(zip(VARIED, size, strict=True)),
            repeat=repeat,
        )
        for repeat in range(1 if quick else REPEATS)
        for size in (QUICK_SIZES if quick else SIZES)[name]
    ]


def train_watched(report: Report, make: Callable[..., Any], *arguments: Any) -> Result:
    """Seconds of a round and peak memory, over that of the table itself.

    One column for each class in each round.
    """
    OURS.warm_up()
    data = make(*arguments)
    report({})
    before = reset_peak_memory()
    task = MulticlassTask(int(data.y.max()) + 1)
    own = {"C": methods.LARGEST_C, "tol": 1e-9, "max_rounds": ROUNDS, "columns_per_channel": 1}
    trainer, seconds = timed(StructBoost(task, **own).fit, data.X, data.y)
    first, *_, last = trainer.history_
    return {
        "seconds": seconds,
        "rounds": len(trainer.history_),
        "round_seconds": (last["seconds"] - first["seconds"]) / (len(trainer.history_) - 1),
        "bytes_per_example": (peak_memory() - before) / len(data.X),
        "peak_bytes": peak_memory(),
    }


def mnist_rows(data_dir: Path) -> Table:
    """The 60,000 standard training rows, in the file's own type: uint8."""
    return given_partition("mnist", data_dir)[0]


def records(name: str, finished: Finished) -> list[Record]:
    if name == "usps":
        return [r for _, result in finished for r in _race_records(result)]
    made = []
    by_size = grouped(
        (tuple(u.params.get(axis) for axis in VARIED), result) for u, result in finished
    )
    for size, results in by_size.items():
        fields = {**over(median, results, *MEASURED), "repeats": len(results)}
        fields |= {"status": status(results), **dict(zip(VARIED, size, strict=True))}
        seconds = fields["round_seconds"]
        made.append(record(name, OURS.name, PACE, seconds and 1 / seconds, **fields))
    return made + (_exponents(name, made) if name in VARIED else [])


def _exponents(name: str, sizes: list[Record]) -> list[Record]:
    """Logarithmic slopes of fit seconds, seconds per round and peak bytes, from 10^5 rows up."""
    large = [r for r in pick(sizes, status="ok") if r["rows"] >= FIT_FROM_ROWS]
    slopes = {
        "fit_seconds": exponent([(r[name], r["seconds"]) for r in large]),
        "round_seconds": exponent([(r[name], r["round_seconds"]) for r in large]),
        "bytes": exponent([(r[name], r["bytes_per_example"] * r["rows"]) for r in large]),
    }
    return [
        record(name, OURS.name, f"{what}_exponent", slope, repeats=large[0]["repeats"])
        for what, slope in slopes.items()
        if slope is not None
    ]


def _race_records(result: Result) -> list[Record]:
    """Microseconds per sample, and how many times slower than ours."""
    times = {name: one for name, one in result.items() if isinstance(one, dict)}
    made = []
    for name, one in times.items():
        fields = {"repeats": prediction.RUNS, "stumps": one["stumps"]}
        fields["ratio"] = one["predict_us"] / times["structboost"]["predict_us"]
        made.append(record("usps", name, PREDICTION, one["predict_us"], **fields))
    return made


SIZE_COLUMNS = [
    field("doubling", "dataset"),
    *(field(axis, axis) for axis in VARIED),
    field("rounds/s", "value", "{:.2f}"),
    field("bytes/example", "bytes_per_example", "{:.0f}"),
    field("peak MB", "peak_bytes", "{:.0f}", 1e-6),
]
EXPONENT_COLUMNS = [
    field("scaling in", "dataset"),
    Column("of", lambda r: r["metric"].removesuffix("_exponent").replace("_", " ")),
    field("exponent", "value", "{:.2f}"),
]
RACE_COLUMNS = [
    field("prediction, usps", "method"),
    field("us/sample", "value", "{:.3f}"),
    field("times ours", "ratio", "{:.1f}"),
    field("stumps", "stumps"),
]


def show(made: Sequence[Record]) -> str:
    return tables.blocks(
        tables.table(pick(made, metric=PACE), SIZE_COLUMNS),
        tables.table([r for r in made if r["metric"].endswith("_exponent")], EXPONENT_COLUMNS),
        tables.table(pick(made, metric=PREDICTION), RACE_COLUMNS),
    )


def targets(made: Sequence[Record]) -> list[Target]:
    values = {(r["dataset"], r["metric"]): r["value"] for r in made}
    ratio = next((r["ratio"] for r in pick(made, metric=PREDICTION, method="lightgbm")), None)
    mnist = next((r["peak_bytes"] / 1e9 for r in pick(made, dataset="mnist")), None)
    linear = [
        reach(
            f"{what} at most linear in {axis} (exponent 1.05)",
            *(values.get((axis, f"{metric}_exponent")), "<=", 1.05),
        )
        for axis in ("rows", "features")
        for what, metric in (("seconds of a round", "round_seconds"), ("bytes", "bytes"))
    ]
    return [
        *linear,
        reach("MNIST, 60,000 rows, in 2 GB", mnist, "<=", 2.0, "{:.2f} GB"),
        reach("prediction 5 times as fast as LightGBM's", ratio, ">=", 5.0),
    ]
