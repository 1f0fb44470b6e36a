"""All defaults, no parameter given, beside LightGBM's: errors, losses, NDCG@10, CPU of the fit."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.papers import multiclass
from benchmarks.runner import tables
from benchmarks.runner.datasets import Table, load, ranking_queries, split
from benchmarks.runner.protocol import FEW_ROWS, MANY_REPEATS, REPEATS, cpu_timed, made_classes
from benchmarks.runner.records import Record, pick, record, side_by_side
from benchmarks.runner.sources import code_version
from benchmarks.runner.statistics import mean, median
from benchmarks.runner.tables import Column, field, of
from benchmarks.runner.targets import Target, all_of, each, reach
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
    return _compared(
        *(StructBoostClassifier, lightgbm.LGBMClassifier, train),
        lambda model: np.mean(model.predict(test.X) != test.y),
    )


def compare_rankers(data_dir: Path) -> Result:
    """Mean NDCG@10 of the test queries and CPU seconds of both."""
    import lightgbm

    (X, y, group), (test_X, test_y, test_group) = ranking_queries(data_dir)
    StructBoostRanker().fit(*made_classes())
    return _compared(
        *(StructBoostRanker, lightgbm.LGBMRanker, (X, y)),
        lambda model: mean_ndcg(test_y, model.predict(test_X), test_group),
        group=group,
    )


def _compared(
    ours: Any, theirs: Any, rows: tuple[Any, Any], value: Callable[[Any], float], **more: Any
) -> Result:
    makers = {OURS: ours, THEIRS: partial(theirs, n_jobs=1, verbose=-1)}
    return {
        name: _measured(lambda make=make: make().fit(*rows, **more), value)
        for name, make in makers.items()
    } | {"rows": len(rows[1])}


def _measured(fit: Callable[[], Any], value: Callable[[Any], float]) -> dict[str, float]:
    with threadpool_limits(1):
        model, cpu = cpu_timed(fit)
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


LOSS = Column("%, defaults", lambda r: f"{r['dataset']}, {r['metric']}")
ROWS = field("training rows", "rows")
FIGURES = {
    "value": (("structboost", "LightGBM"), "{:.1f}", 100),
    "cpu": (("CPU s", "LightGBM's"), "{:.2f}", None),
}
COLUMNS = [
    *(ROWS, field("splits", "repeats")),
    *(
        of(method, field(head, name, form, factor))
        for name, (heads, form, factor) in FIGURES.items()
        for method, head in zip((OURS, THEIRS), heads, strict=True)
    ),
    Column("times", lambda r: f"{r['of'][OURS]['cpu'] / r['of'][THEIRS]['cpu']:.2f}"),
]
STRUCTURED_COLUMNS = [
    *(LOSS, ROWS),
    *(
        of(method, field(head, name, form, factor))
        for name, ((own, other), form, factor) in FIGURES.items()
        for method, head in zip(by_default.METHODS, (own, f"{other} alone", "joined"), strict=True)
    ),
]


def _lines(made: Sequence[Record], *datasets: str) -> list[Record]:
    """A row for each loss of some data sets, with all methods."""
    own = [r for r in made if r["dataset"] in datasets]
    return side_by_side(own, ["dataset", "metric"], "method")


def show(made: Sequence[Record]) -> str:
    return tables.blocks(
        tables.table(
            _lines(made, *TUNED_ON, *BUNDLED), [field("%, defaults", "dataset"), *COLUMNS]
        ),
        tables.table(_lines(made, RANKING), [field("NDCG@10, %", "dataset"), *COLUMNS]),
        tables.table(_lines(made, *by_default.DATASETS), STRUCTURED_COLUMNS),
    )


def targets(made: Sequence[Record]) -> list[Target]:
    def holds(
        wanted: str,
        names: Sequence[str],
        factor: float,
        slack: float = 0.0,
        *,
        key: str = "value",
        least: int | None = None,
    ) -> Target:
        def is_low(own: float, other: float) -> bool:
            return own <= factor * other + slack

        return all_of(wanted, each(made, names, is_low, OURS, THEIRS, key=key), len(names), least)

    near_both = [
        (LOSS.cell(line), line["value"] <= min(r["value"] for r in others) + 0.01)
        for line in _lines(made, *by_default.DATASETS)
        if (others := [r for r in line["of"].values() if r["method"] != OURS])
    ]
    both = [r["value"] for m in (OURS, THEIRS) for r in pick(made, dataset=RANKING, method=m)]
    near = "error at most 1 point above LightGBM's"
    return [
        holds(near, TUNED_ON, 1, 0.01, least=8),
        holds("error at most 1.5 times LightGBM's", TUNED_ON, 1.5),
        holds(f"{near}, sets of scikit-learn", BUNDLED, 1, 0.01),
        holds("at most 1.5 times, sets of scikit-learn", BUNDLED, 1.5),
        holds("CPU of the fit at most 3 times LightGBM's", TUNED_ON, 3, key="cpu"),
        all_of(
            "loss of label sets and tags at most 1 point above LightGBM's, alone and joined",
            *(near_both, N_STRUCTURED),
        ),
        reach("NDCG@10 less LightGBM's", both[0] - both[1] if both[1:] else None, ">=", 0.0),
    ]
