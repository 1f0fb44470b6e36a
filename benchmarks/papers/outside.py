"""All defaults on 26 tables, beside five other boosters: error, log-loss, CPU of the fit."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from benchmarks.papers import multiclass
from benchmarks.peers import boosters
from benchmarks.runner import tables
from benchmarks.runner.datasets import load
from benchmarks.runner.protocol import cpu_timed, made_classes
from benchmarks.runner.records import Record, pick, record, side_by_side
from benchmarks.runner.sources import code_version
from benchmarks.runner.statistics import mean, median
from benchmarks.runner.tables import Column, field, of
from benchmarks.runner.targets import Target, all_of, reach
from benchmarks.runner.units import Finished, Result, Unit
from benchmarks.structures.rows import content_of
from structboost import StructBoostClassifier

OUTSIDE = (
    "heart", "bupa", "sonar", "led7digit", "phoneme", "australian", "banana", "yeast4", "spambase",
    "faults", "krkopt", "cnae9",
)  # fmt: skip
BUNDLED = ("iris", "wine", "breast_cancer", "digits")
DATASETS = (*multiclass.DATASETS, *OUTSIDE, *BUNDLED)
QUICK_DATASETS = ("heart", "iris")
OURS = "structboost"
METHODS = (OURS, *boosters.MAKERS)
# Wider tables are split once, and CatBoost, which takes many minutes for a fit there, is left out.
WIDE = 200
MOST_COLUMNS = {"catboost": WIDE}
# Methods that are run on all tables.
EVERYWHERE = tuple(method for method in METHODS if method not in MOST_COLUMNS)
PEERS = dict.fromkeys(DATASETS, (*boosters.PACKAGES.values(), "pandas"))
REPEATS, MOST_ROWS = 3, 4000
# Smaller probabilities of the truth count as this.
LEAST = 1e-15


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    content, rows = _read(name, data_dir)
    made = []
    for repeat in range(1 if quick or rows[0].shape[1] > WIDE else REPEATS):
        for method in METHODS:
            if rows[0].shape[1] > MOST_COLUMNS.get(method, np.inf):
                continue
            own = method == OURS
            code = code_version(
                ["benchmarks.peers.boosters", *([__name__] if own else [])],
                [] if own else [boosters.PACKAGES[method]],
            )
            run = partial(measure, method, *rows, repeat)
            params = {"repeat": repeat}
            made.append(Unit("outside", name, method, params, f"{content} {code}", run, None, True))
    return made


def _read(name: str, data_dir: Path) -> tuple[str, tuple[np.ndarray, np.ndarray, list[int]]]:
    """Version of the data, and its features, labels and category columns."""
    if name not in OUTSIDE:
        data = load(name, data_dir)
        return data.content, (data.X, data.y, [])
    path = Path(data_dir) / "tabular_outside" / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; --data must name a directory that has it.")
    with np.load(path) as file:
        categorical = [int(j) for j in file["cat"]] if "cat" in file else []
        return content_of(path), (file["X"], file["y"].astype(np.int64), categorical)


def measure(
    method: str, X: np.ndarray, y: np.ndarray, categorical: Sequence[int], repeat: int
) -> Result:
    """Error, log-loss and CPU seconds of the fit, with all defaults, on one thread."""
    labels, y = np.unique(y, return_inverse=True)
    rows = np.random.default_rng(repeat).permutation(len(y))[:MOST_ROWS]
    counts = np.bincount(y[rows], minlength=len(labels))
    rows = rows[counts[y[rows]] >= 2]
    labels, y_drawn = np.unique(y[rows], return_inverse=True)
    frame = boosters.frame_of(X[rows], categorical)
    train, test = train_test_split(
        np.arange(len(rows)), test_size=0.3, stratify=y_drawn, random_state=repeat
    )
    with threadpool_limits(1):
        if method == OURS:
            StructBoostClassifier().fit(*made_classes())
            fit = partial(StructBoostClassifier().fit, frame.iloc[train], y_drawn[train])
        else:
            fit = partial(boosters.fitted, method, frame.iloc[train], y_drawn[train], categorical)
        model, cpu = cpu_timed(fit)
        chances = np.clip(model.predict_proba(frame.iloc[test]), LEAST, 1.0)
    chances = chances / chances.sum(axis=1, keepdims=True)
    found = {
        "error": float(np.mean(chances.argmax(axis=1) != y_drawn[test])),
        "log_loss": float(log_loss(y_drawn[test], chances, labels=np.arange(len(labels)))),
        "cpu": cpu,
        "rows": len(train),
    }
    return found | ({"rounds": model.n_iter_} if method == OURS else {})


def records(name: str, finished: Finished) -> list[Record]:
    made = []
    for method in METHODS:
        own = [result for unit, result in finished if unit.method == method]
        if own:
            cpu, rows = median([one["cpu"] for one in own]), own[0]["rows"]
            for metric in ("error", "log_loss"):
                value = mean([one[metric] for one in own])
                about = {"cpu": cpu, "rows": rows, "repeats": len(own)}
                made.append(record(name, method, metric, value, **about))
    return made


def _columns(form: str, factor: float | None) -> list[Column]:
    figures = [of(method, field(method, "value", form, factor)) for method in METHODS]
    return [field("training rows", "rows"), *figures]


def _lines(made: Sequence[Record], metric: str) -> list[Record]:
    return side_by_side(pick(made, metric=metric), ["dataset"], "method")


def ranks(
    made: Sequence[Record], metric: str, methods: Sequence[str] = METHODS
) -> dict[str, float]:
    """Mean rank of some methods over the sets that all of them have, ties counting half."""
    from scipy.stats import rankdata

    lines = [line["of"] for line in _lines(made, metric) if set(methods) <= set(line["of"])]
    if not lines:
        return {}
    own = np.array([rankdata([of_set[m]["value"] for m in methods]) for of_set in lines])
    found = dict(zip(methods, own.mean(axis=0).tolist(), strict=True))
    return {"sets": len(lines), **found}


def ratios(made: Sequence[Record]) -> dict[str, float]:
    """CPU of our fit over LightGBM's, by data set."""
    return {
        line["dataset"]: line["of"][OURS]["cpu"] / line["of"]["lightgbm"]["cpu"]
        for line in _lines(made, "error")
        if {OURS, "lightgbm"} <= set(line["of"])
    }


def show(made: Sequence[Record]) -> str:
    times = [
        {"dataset": name, "ratio": ratio, **_cpu_of(made, name)}
        for name, ratio in ratios(made).items()
    ]
    mean_ranks: list[dict[str, Any]] = [
        {"metric": metric, **ranks(made, metric, methods)}
        for methods in (METHODS, EVERYWHERE)
        for metric in ("error", "log_loss")
    ]
    return tables.blocks(
        tables.table(
            mean_ranks,
            [
                field("mean rank", "metric"),
                field("tables", "sets"),
                *(field(m, m, "{:.2f}") for m in METHODS),
            ],
        ),
        tables.table(
            _lines(made, "error"), [field("error, %", "dataset"), *_columns("{:.1f}", 100)]
        ),
        tables.table(
            _lines(made, "log_loss"), [field("log-loss", "dataset"), *_columns("{:.3f}", None)]
        ),
        tables.table(
            times,
            [
                field("CPU s of the fit", "dataset"),
                *(field(m, m, "{:.2f}") for m in METHODS),
                field("ours over LightGBM's", "ratio", "{:.2f}"),
            ],
        ),
    )


def _cpu_of(made: Sequence[Record], name: str) -> dict[str, float]:
    return {r["method"]: r["cpu"] for r in pick(made, dataset=name, metric="error")}


def targets(made: Sequence[Record]) -> list[Target]:
    found = []
    for metric in ("error", "log_loss"):
        own = ranks(made, metric)
        others = [own[method] for method in METHODS if method != OURS and own]
        behind = own[OURS] - min(others) if own else None
        wanted = f"mean rank in {metric} less the best of the others'"
        found.append(reach(wanted, behind, "<=", 0.0, "{:+.2f}"))
    worst = []
    for line in _lines(made, "log_loss"):
        others = [r["value"] for m, r in line["of"].items() if m != OURS]
        if others and OURS in line["of"]:
            worst.append((line["dataset"], line["of"][OURS]["value"] <= 1.15 * min(others)))
    found.append(all_of("log-loss at most 1.15 times the best", worst))
    of_cpu = sorted(ratios(made).values())
    middle = median(of_cpu) if of_cpu else None
    found.append(reach("CPU of the fit over LightGBM's, median", middle, "<=", 1.5))
    largest = of_cpu[-1] if of_cpu else None
    found.append(reach("CPU of the fit over LightGBM's, worst", largest, "<=", 3.0))
    return found
