"""Prediction by stumps and trees on usps, row by row and in batches."""

from benchmarks.peers import prediction
from benchmarks.runner.datasets import tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.pages import across, blocks
from benchmarks.runner.records import lookup, ratio
from benchmarks.runner.targets import all_of, reach

OURS, THEIRS, COMPILED = "structboost", "lightgbm", "tl2cgen"
LARGE = 10_000
NOT_COMPARED = frozenset({"value"})


def race_cases(source, learner):
    """Stumps in one large batch, and both kinds of trees in some sizes of batches."""
    few = {"rounds": 20 if source.quick else 100, "batches": [1, 100, LARGE]}
    stumps = {"depth": 1, "rounds": 500, "batches": [LARGE]}
    return [{"depth": depth, **few} for depth in (1, 3)] + ([] if source.quick else [stumps])


EXPERIMENTS = [
    Experiment(
        *(tabular("usps"), prediction.CONTESTANTS, prediction.race, race_cases),
        metrics={"predict_us": "value"},
        by=("depth", "rounds", "batch"),
        small=("usps",),
    )
]


def show(made):
    rows = ("depth", "rounds", "batch")
    return blocks(
        across("Prediction, microseconds of CPU per row", made, form="{:.3f}", rows=rows),
        across("Trees", made, "trees", "{:.0f}", rows=rows[:2]),
    )


def targets(made):
    pace = lookup(made, "depth", "rounds", "batch", "method")
    faster = [
        (f"depth {r['depth']}, {r['batch']:,} rows, {r['method']}", own < r["value"])
        for r in made
        if r["method"] in (THEIRS, COMPILED) and r["batch"] > 1 and r["rounds"] == 100
        if (own := pace(r["depth"], r["rounds"], r["batch"], OURS)) is not None
    ]
    times = ratio(*(pace(1, 500, LARGE, method) for method in (THEIRS, OURS)))
    wanted = "stumps and trees predict faster than LightGBM and tl2cgen from 100 rows on"
    return [
        reach("prediction 5 times as fast as LightGBM's", times, ">=", 5.0),
        all_of(wanted, faster, 8),
    ]
