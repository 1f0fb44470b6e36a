"""All defaults, no parameter given, beside LightGBM's: errors, losses, NDCG@10, CPU of the fit."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.papers import multiclass
from benchmarks.runner import tables
from benchmarks.runner.datasets import Table, load, ranking_queries, split
from benchmarks.runner.protocol import FEW_ROWS, MANY_REPEATS, REPEATS, made_classes
from benchmarks.runner.records import Record, grouped, pick, record
from benchmarks.runner.sources import code_version
from benchmarks.runner.statistics import mean, median
from benchmarks.runner.tables import field
from benchmarks.runner.targets import Target, all_of, reach
from benchmarks.runner.units import Finished, Result, Unit
from benchmarks.structures import by_default
from benchmarks.structures.lists import mean_ndcg
from benchmarks.structures.rows import content_of
from structboost import StructBoostClassifier, StructBoostRanker

TUNED_ON, BUNDLED = multiclass.DATASETS, ("iris", "wine", "breast_cancer", "digits")
RANKING = "lambdarank"
DATASETS = (*TUNED_ON, *BUNDLED, RANKING, *by_default.DATASETS)
QUICK_DATASETS = ("glass", "iris")
PEERS = dict.fromkeys(DATASETS, ("lightgbm",))
# Sets that take minutes are split once.
ONCE = ("usps", "mnist")
OURS, THEIRS = by_default.OURS, "lightgbm"
# Three losses of label sets, one of tags.
N_STRUCTURED = 3 * len(by_default.LABEL_SETS) + 1


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    def unit(content: str, run: Callable[[], Result], repeat: int) -> Unit:
        code = code_version([__name__])
        return Unit(
            "defaults", name, "all", {"repeat": repeat}, f"{content} {code}", run, None, True
        )

    if name == RANKING:
        return [unit("given", partial(compare_rankers, data_dir), 0)]
    if name in by_default.DATASETS:
        content = content_of(by_default.path_of(name, data_dir))
        return [unit(content, partial(by_default.compare, name, data_dir, _measured), 0)]
    data = load(name, data_dir)
    made = []
    many = MANY_REPEATS if len(data.y) < FEW_ROWS else REPEATS
    for repeat in range(1 if quick or name in ONCE else many):
        rows = split(data.y, repeat)
        train = np.concatenate((rows.train, rows.validation))
        of_parts = [Table(data.X[part], data.y[part]) for part in (train, rows.test)]
        made.append(unit(data.content, partial(compare_classifiers, *of_parts), repeat))
    return made


def compare_classifiers(train: Table, test: Table) -> Result:
    """Error and CPU seconds of both, one thread each."""
    import lightgbm

    StructBoostClassifier().fit(*made_classes())
    makers = {
        OURS: StructBoostClassifier,
        THEIRS: partial(lightgbm.LGBMClassifier, n_jobs=1, verbose=-1),
    }
    return {
        name: _measured(
            lambda make=make: make().fit(*train),
            lambda model: np.mean(model.predict(test.X) != test.y),
        )
        for name, make in makers.items()
    } | {"rows": len(train.y)}


def compare_rankers(data_dir: Path) -> Result:
    """Mean NDCG@10 of the test queries and CPU seconds of both."""
    import lightgbm

    (X, y, group), (test_X, test_y, test_group) = ranking_queries(data_dir)
    StructBoostRanker().fit(*made_classes())
    makers = {OURS: StructBoostRanker, THEIRS: partial(lightgbm.LGBMRanker, n_jobs=1, verbose=-1)}
    return {
        name: _measured(
            lambda make=make: make().fit(X, y, group=group),
            lambda model: mean_ndcg(test_y, model.predict(test_X), test_group),
        )
        for name, make in makers.items()
    } | {"rows": len(y)}


def _measured(fit: Callable[[], Any], value: Callable[[Any], float]) -> dict[str, float]:
    with threadpool_limits(1):
        began = time.process_time()
        model = fit()
        cpu = time.process_time() - began
    return {"value": float(value(model)), "cpu": cpu}


def records(name: str, finished: Finished) -> list[Record]:
    results = [result for _, result in finished]
    if name in by_default.DATASETS:
        return [
            record(name, repeats=1, rows=result["rows"], **found)
            for result in results
            for found in result["found"]
        ]
    metric = "ndcg" if name == RANKING else "error"
    made = []
    for method in (OURS, THEIRS):
        own = [result[method] for result in results]
        about = {"cpu": median([one["cpu"] for one in own]), "rows": results[0]["rows"]}
        value = mean([one["value"] for one in own])
        made.append(record(name, method, metric, value, repeats=len(own), **about))
    return made


def _pairs(made: Sequence[Record]) -> dict[str, tuple[Record, Record]]:
    """Records of both on each data set that has them."""
    by_set = grouped((r["dataset"], r) for r in made if r["method"] in (OURS, THEIRS))
    return {name: (of[0], of[1]) for name, of in by_set.items() if len(of) == 2}


def _structured(made: Sequence[Record]) -> dict[str, dict[str, Record]]:
    """Records of all methods, by label sets or tags and their loss."""
    own = [r for r in made if r["dataset"] in by_default.DATASETS]
    by_loss = grouped((f"{r['dataset']}, {r['metric']}", (r["method"], r)) for r in own)
    return {name: dict(of) for name, of in by_loss.items()}


def _line(name: str, ours: Record, theirs: Record) -> Record:
    """Both in one row; values in %."""
    return {
        "dataset": name, "rows": ours["rows"], "repeats": ours["repeats"],
        "ours": 100 * ours["value"], "theirs": 100 * theirs["value"],
        "our_cpu": ours["cpu"], "their_cpu": theirs["cpu"], "times": ours["cpu"] / theirs["cpu"],
    }  # fmt: skip


COLUMNS = [
    field("%, defaults", "dataset"),
    field("training rows", "rows"),
    field("splits", "repeats"),
    field("structboost", "ours", "{:.1f}"),
    field("LightGBM", "theirs", "{:.1f}"),
    field("CPU s", "our_cpu", "{:.2f}"),
    field("LightGBM's", "their_cpu", "{:.2f}"),
    field("times", "times", "{:.2f}"),
]


# A value and the seconds of each method on label sets and tags.
MORE_COLUMNS = [
    field("%, defaults", "dataset"),
    field("training rows", "rows"),
    *(
        field(head, f"{method} {name}", form, factor)
        for name, form, factor, heads in (
            ("value", "{:.1f}", 100, ("structboost", "LightGBM alone", "joined")),
            ("cpu", "{:.2f}", None, ("CPU s", "LightGBM's alone", "joined")),
        )
        for head, method in zip(heads, by_default.METHODS, strict=True)
    ),
]


def show(made: Sequence[Record]) -> str:
    lines = [_line(name, *both) for name, both in _pairs(made).items()]
    return tables.blocks(
        tables.table([line for line in lines if line["dataset"] != RANKING], COLUMNS),
        tables.table(pick(lines, dataset=RANKING), [field("NDCG@10, %", "dataset"), *COLUMNS[1:]]),
        tables.table(
            [
                {"dataset": name, "rows": of[OURS]["rows"]}
                | {f"{m} {part}": r[part] for m, r in of.items() for part in ("value", "cpu")}
                for name, of in _structured(made).items()
            ],
            MORE_COLUMNS,
        ),
    )


def targets(made: Sequence[Record]) -> list[Target]:
    pairs = _pairs(made)
    ranking = pairs.pop(RANKING, None)

    def of(names: Sequence[str], holds: Callable[[Record, Record], bool]) -> list[tuple[str, bool]]:
        return [(name, holds(*pairs[name])) for name in names if name in pairs]

    def is_near(ours: Record, theirs: Record) -> bool:
        return ours["value"] <= theirs["value"] + 0.01

    def is_no_disaster(ours: Record, theirs: Record) -> bool:
        return ours["value"] <= 1.5 * theirs["value"]

    near = "error at most 1 point above LightGBM's"
    return [
        all_of(near, of(TUNED_ON, is_near), len(TUNED_ON), 8),
        all_of("error at most 1.5 times LightGBM's", of(TUNED_ON, is_no_disaster), len(TUNED_ON)),
        all_of(f"{near}, sets of scikit-learn", of(BUNDLED, is_near), len(BUNDLED)),
        all_of(
            "at most 1.5 times, sets of scikit-learn", of(BUNDLED, is_no_disaster), len(BUNDLED)
        ),
        all_of(
            "CPU of the fit at most 3 times LightGBM's",
            of(TUNED_ON, lambda ours, theirs: ours["cpu"] <= 3 * theirs["cpu"]),
            len(TUNED_ON),
        ),
        all_of(
            "loss of label sets and tags at most 1 point above LightGBM's, alone and joined",
            [
                (name, all(is_near(of[OURS], of[other]) for other in by_default.METHODS[1:]))
                for name, of in _structured(made).items()
            ],
            N_STRUCTURED,
        ),
        reach(
            "NDCG@10 less LightGBM's",
            *(ranking and ranking[0]["value"] - ranking[1]["value"], ">=", 0.0),
        ),
    ]
