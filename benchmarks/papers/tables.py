"""Tables as they come: missing values, categories, sparse entries."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from benchmarks.runner import tables as printed
from benchmarks.runner.datasets import Dataset, Table, given_partition, load, parts
from benchmarks.runner.limits import Report, limited, peak_memory, reset_peak_memory
from benchmarks.runner.protocol import (
    FEW_ROWS,
    MANY_REPEATS,
    REPEATS,
    Params,
    cpu_timed,
    grid,
    timed,
)
from benchmarks.runner.records import Record, grouped, pick, record, side_by_side
from benchmarks.runner.sources import code_version
from benchmarks.runner.statistics import most, summary
from benchmarks.runner.tables import Column, field, of, value
from benchmarks.runner.targets import Target, all_of, each, reach
from benchmarks.runner.units import Finished, Result, Unit
from structboost import StructBoostClassifier

HOLED = ("segment", "satimage", "vowel", "svmguide4", "pendigits")
CATEGORIES, SPARSE = "dna", "sparse"
DATASETS = (*HOLED, CATEGORIES, SPARSE)
QUICK_DATASETS = ("svmguide4",)
PEERS = {CATEGORIES: ("lightgbm",)}
SHARES = (0.1, 0.3)
# Rows, columns and entries of each row.
SHAPE, QUICK_SHAPE = (100_000, 300_000, 30), (1_000, 3_000, 30)
SPARSE_SECONDS, MOST_BYTES = 600.0, 4e9
OURS, HGB, LIGHTGBM = "structboost", "hist_gradient_boosting", "lightgbm"
HEADS = {OURS: "structboost", HGB: "HistGradientBoosting", LIGHTGBM: "LightGBM"}


def _lightgbm(**params: Any) -> Any:
    import lightgbm

    return lightgbm.LGBMClassifier(random_state=0, n_jobs=1, verbose=-1, **params)


def _ours(**params: Any) -> StructBoostClassifier:
    return StructBoostClassifier(random_state=0, **params)


def _hgb(**params: Any) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(
        random_state=0, early_stopping=False, categorical_features="from_dtype", **params
    )


# Two settings of each: the default, and one of more rounds or smaller steps.
MAKERS: dict[str, tuple[Callable[..., Any], list[Params]]] = {
    OURS: (_ours, grid(max_iter=(200, 800))),
    HGB: (_hgb, [{}, {"max_iter": 300, "learning_rate": 0.05}]),
    LIGHTGBM: (_lightgbm, [{}, {"n_estimators": 300, "learning_rate": 0.05}]),
}


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    if name == SPARSE:
        shape = QUICK_SHAPE if quick else SHAPE
        run = partial(limited, SPARSE_SECONDS, sparse_fit, shape)
        return [Unit("tables", name, OURS, {"shape": shape}, code_version([__name__]), run)]
    data = load(name, data_dir)
    packages = ("sklearn", *PEERS.get(name, ()))
    version = f"{data.content} {code_version([__name__], packages)}"
    methods: tuple[str, ...] = (OURS, HGB)
    many = MANY_REPEATS if len(data.y) < FEW_ROWS else REPEATS
    cases: list[tuple[Params, Any]] = [
        ({"share": share, "repeat": r}, partial(holed, data, share, r))
        for share in SHARES
        for r in range(1 if quick else many)
    ]
    if name == CATEGORIES:
        methods, cases = (OURS, LIGHTGBM), [({}, partial(categories, data_dir))]
    return [
        Unit("tables", name, method, params, version, partial(tuned, method, tables))
        for params, tables in cases
        for method in methods
    ]


def holed(data: Dataset, share: float, repeat: int) -> tuple[Table, Table, Table]:
    """Parts of a table from which a share of all cells was removed."""
    rng = np.random.default_rng([repeat, int(100 * share)])
    X = np.where(rng.random(data.X.shape) < share, np.nan, data.X.astype(np.float64))
    return tuple(parts(X, data.y, data.y, repeat))


def categories(data_dir: Path) -> tuple[Table, Table, Table]:
    """Splice sites as 60 columns of the letters A, C, G and T, from their indicators in threes."""
    import pandas

    def letters(table: Table) -> Any:
        by_place = table.X.reshape(len(table.X), -1, 3) > 0
        numbers = np.where(by_place.any(axis=2), by_place.argmax(axis=2), 3)
        frame = pandas.DataFrame(np.array(list("ACGT"))[numbers], dtype="category")
        return frame.rename(columns="p{}".format)

    train, test = given_partition(CATEGORIES, data_dir)
    held = np.random.default_rng(0).permutation(len(train.y)) < len(train.y) // 4
    rows = letters(train)
    own = [Table(rows[part], train.y[part]) for part in (~held, held)]
    return own[0], own[1], Table(letters(test), test.y)


def tuned(method: str, tables: Callable[[], tuple[Table, Table, Table]]) -> Result:
    """Test error of the setting that the validation part prefers, fitted to the training part."""
    train, validation, test = tables()
    make, settings = MAKERS[method]
    tried = []
    with threadpool_limits(1):
        for number, params in enumerate(settings):
            model, seconds = cpu_timed(make(**params).fit, train.X, train.y)
            tried.append((1 - model.score(validation.X, validation.y), number, model, seconds))
        _, number, model, seconds = min(tried, key=lambda one: one[:2])
        error = 1 - float(model.score(test.X, test.y))
    return {"value": error, "seconds": seconds, "setting": settings[number]}


def sparse_fit(report: Report, shape: tuple[int, int, int]) -> Result:
    """Peak memory of a fit of a made sparse table, whose columns are as unequal as words are."""
    n_rows, n_columns, n_entries = shape
    rng = np.random.default_rng(0)
    columns = (50 * rng.pareto(0.7, size=(n_rows, n_entries))).astype(np.int64) % n_columns
    rows = np.repeat(np.arange(n_rows), n_entries)
    values = rng.random(rows.size) + 0.5
    X = sparse.csr_array((values, (rows, columns.ravel())), shape=(n_rows, n_columns))
    y = X @ rng.normal(size=n_columns) > 0
    StructBoostClassifier(objective="hinge", C=300.0, max_iter=2).fit(X[:100], y[:100])  # compiles
    report({})
    reset_peak_memory()
    model, seconds = timed(StructBoostClassifier(objective="hinge", C=300.0, max_iter=50).fit, X, y)
    facts = {"seconds": seconds, "rounds": model.n_iter_}
    return {"value": 1 - float(model.score(X, y)), "peak": peak_memory(), **facts}


def records(name: str, finished: Finished) -> list[Record]:
    if name == SPARSE:
        return [record(name, OURS, "training_error", **result) for _, result in finished]
    cases = grouped(((u.params.get("share"), u.method), result) for u, result in finished)
    return [
        record(
            *(name, method, "error"),
            **summary(own),
            **{"share": share, "settings": [r["setting"] for r in own]},
        )
        for (share, method), own in cases.items()
    ]


def show(made: Sequence[Record]) -> str:
    rows = side_by_side(pick(made, metric="error"), ["dataset", "share"], "method")
    errors = [of(method, value(head, 2, 100)) for method, head in HEADS.items()]
    removed = Column("cells removed", lambda r: f"{r['share']:.0%}" if r["share"] else "-")
    found = [printed.table(rows, [field("", "dataset"), removed, *errors])]
    for r in pick(made, dataset=SPARSE):
        found.append(
            f"sparse: {r['seconds']:.0f} s, {r['peak'] / 1e9:.2f} GB, {r['rounds']} rounds, "
            f"training error {100 * r['value']:.1f} %"
        )
    return printed.blocks(*found)


def targets(made: Sequence[Record]) -> list[Target]:
    def near(wanted: str, names: Sequence[str], peer: str, share: float | None = None) -> Target:
        own = [r for r in made if r.get("share") == share]
        found = each(own, names, lambda ours, theirs: ours <= theirs + 0.01, OURS, peer)
        return all_of(f"{wanted}: at most 1 point above {HEADS[peer]}", found, len(names))

    peak = most(r["peak"] for r in pick(made, dataset=SPARSE))
    return [
        *(near(f"{share:.0%} of the cells removed", HOLED, HGB, share) for share in SHARES),
        near("categories", (CATEGORIES,), LIGHTGBM),
        reach("sparse fit of 100,000 x 300,000, 30 a row, bytes", peak, "<", MOST_BYTES),
    ]
