"""Speed and memory as rows, features and classes double; prediction by stumps and trees on usps."""

from benchmarks.ours import engines
from benchmarks.peers import prediction
from benchmarks.runner.datasets import given_partition, made_table, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.limits import limited
from benchmarks.runner.pages import across, blocks, field, listing
from benchmarks.runner.records import exponent, lookup, pick, ratio
from benchmarks.runner.targets import all_of, reach

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
FIT_FROM_ROWS, REPEATS, LIMIT_SECONDS = 100_000, 3, 900.0
PACE, PREDICTION = "rounds_per_second", "predict_us"
OURS, THEIRS, COMPILED = "structboost", "lightgbm", "tl2cgen"
LARGE = 10_000


def cases(source, learner):
    if source.name not in SIZES:
        return [{"rounds": engines.SPEED_ROUNDS}]
    return [
        {**dict(zip(VARIED, size, strict=True)), "repeat": repeat}
        for repeat in range(1 if source.quick else REPEATS)
        for size in (QUICK_SIZES if source.quick else SIZES)[source.name]
    ]


def watched(source, learner, **case):
    """Seconds of a round and memory; of MNIST, the 60,000 training rows as they are."""
    size = [case[axis] for axis in VARIED] if source.name in SIZES else [source]
    return limited(LIMIT_SECONDS, learner, made_table if len(size) > 1 else _mnist, *size)


def _mnist(source):
    return given_partition(source.name, source.folder)[0]


def race_cases(source, learner):
    """Stumps in one large batch, and both kinds of trees in some sizes of batches."""
    few = {"rounds": 20 if source.quick else 100, "batches": [1, 100, LARGE]}
    stumps = {"depth": 1, "rounds": 500, "batches": [LARGE]}
    return [{"depth": depth, **few} for depth in (1, 3)] + ([] if source.quick else [stumps])


AXES = {**dict.fromkeys(SIZES, ()), **tabular("mnist")}
EXPERIMENTS = [
    Experiment(
        *(AXES, {"structboost_1slack": engines.train_watched}, watched, cases),
        metrics={PACE: PACE},
        by=VARIED,
        small=tuple(SIZES),
        alone=True,
    ),
    Experiment(
        *(tabular("usps"), prediction.CONTESTANTS, prediction.race, race_cases),
        metrics={PREDICTION: "value"},
        by=("depth", "rounds", "batch"),
        small=("usps",),
    ),
]


def exponents(made):
    """Logarithmic slopes of seconds per round and peak bytes, from 10^5 rows up."""
    slopes = []
    for axis in SIZES:
        own = [r for r in pick(made, dataset=axis, metric=PACE) if r["rows"] >= FIT_FROM_ROWS]
        seconds = [(r[axis], r["round_seconds"]) for r in own]
        memory = [(r[axis], r["bytes_per_example"] * r["rows"]) for r in own]
        for what, points in (("seconds of a round", seconds), ("bytes", memory)):
            slopes.append({"axis": axis, "method": what, "value": exponent(points)})
    return slopes


def show(made):
    sizes = listing(
        pick(made, metric=PACE),
        *(field("doubling", "dataset"), *(field(axis, axis) for axis in VARIED)),
        *(field("rounds/s", "value", "{:.2f}"), field("peak MB", "peak_bytes", "{:.0f}", 1e-6)),
        field("bytes/example", "bytes_per_example", "{:.0f}"),
    )
    races, rows = pick(made, metric=PREDICTION), ("depth", "rounds", "batch")
    return blocks(
        sizes,
        across("Exponents", exponents(made), form="{:.2f}", rows=("axis",)),
        across("Prediction, microseconds of CPU per row", races, form="{:.3f}", rows=rows),
        across("Trees", races, "trees", "{:.0f}", rows=rows[:2]),
    )


def targets(made):
    slope = lookup(exponents(made), "axis", "method")
    races = pick(made, metric=PREDICTION)
    pace = lookup(races, "depth", "rounds", "batch", "method")
    memory = lookup(made, "dataset")("mnist", name="peak_bytes")
    faster = [
        (f"depth {r['depth']}, {r['batch']:,} rows, {r['method']}", own < r["value"])
        for r in races
        if r["method"] in (THEIRS, COMPILED) and r["batch"] > 1 and r["rounds"] == 100
        if (own := pace(r["depth"], r["rounds"], r["batch"], OURS)) is not None
    ]
    times = ratio(*(pace(1, 500, LARGE, method) for method in (THEIRS, OURS)))
    return [
        *(
            reach(f"{what} at most linear in {axis} (exponent 1.05)", slope(axis, what), "<=", 1.05)
            for axis in ("rows", "features")
            for what in ("seconds of a round", "bytes")
        ),
        reach("MNIST, 60,000 rows, in 2 GB", memory and memory / 1e9, "<=", 2.0, "{:.2f} GB"),
        reach("prediction 5 times as fast as LightGBM's", times, ">=", 5.0),
        all_of(
            "stumps and trees predict faster than LightGBM and tl2cgen from 100 rows on", faster, 8
        ),
    ]
