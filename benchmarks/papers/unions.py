"""Unions of families: linear functions with stumps beside each alone, trees beside LightGBM."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.ours import methods as ours
from benchmarks.papers import auc, multiclass
from benchmarks.papers.multiclass import COARSE_DATASETS, COARSE_GAP, GAP
from benchmarks.peers.classifiers import LightGBMClassifier
from benchmarks.runner import tables
from benchmarks.runner.datasets import load
from benchmarks.runner.protocol import AUC, CANDIDATES, QUICK, Method, Protocol, tuned_unit
from benchmarks.runner.records import Record, by, datasets_of, grouped, pick, record
from benchmarks.runner.statistics import mean, std, summary
from benchmarks.runner.tables import field
from benchmarks.runner.targets import Target, all_of, reach
from benchmarks.runner.units import Finished, Unit

OF_AUC = "auc-"
TABLES, RANKED = multiclass.DATASETS, tuple(OF_AUC + name for name in auc.DATASETS)
DATASETS = (*TABLES, *RANKED)
QUICK_DATASETS = ("glass", "auc-glass")
PEERS = dict.fromkeys(TABLES, ("lightgbm",))

LINEAR, STUMPS, UNION = "ssvm", "stumps", "linear_stumps"
TREES, UNION_OF_TREES, LIGHTGBM = "trees", "linear_trees", "lightgbm"
MEMBERS = ["linear", "stump"]
RANKERS: tuple[Method, ...] = (
    *(ours.LinearRanking(), ours.ranking(STUMPS)),
    ours.ranking_union(UNION, *MEMBERS),
)
METHODS = (LINEAR, STUMPS, UNION, TREES, UNION_OF_TREES, LIGHTGBM)
# Splits; one where it is not said. Large sets have half of the candidates.
SPLITS = {
    **dict.fromkeys(("glass", "svmguide2", "svmguide4"), 5),
    **dict.fromkeys(("auc-wine", "auc-glass", "auc-svmguide2"), 2),
}
FEW = CANDIDATES // 2
# What the union may err more than the better of its parts, and LightGBM's error on vowel.
SLACK, AUC_SLACK, VOWEL = 0.003, 0.003, 0.098


def methods(name: str) -> tuple[Method, ...]:
    """Those whose errors are compared on a data set."""
    gap = COARSE_GAP if name in COARSE_DATASETS else GAP
    return (
        *(ours.SSVM(), ours.single(STUMPS, gap, "stump"), ours.union(UNION, gap, *MEMBERS)),
        *(ours.hinge_trees(TREES), ours.hinge_trees(UNION_OF_TREES, "linear")),
        LightGBMClassifier(),
    )


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    data = load(name.removeprefix(OF_AUC), data_dir)
    n_candidates = FEW if name in COARSE_DATASETS else CANDIDATES
    protocol = QUICK if quick else Protocol(candidates=n_candidates)
    # Trees alone are candidates as well.
    doubled = replace(protocol, candidates=2 * protocol.candidates)
    tuned = partial(tuned_unit, "unions", data)
    repeats = range(1 if quick else SPLITS.get(name, 1))
    if name in TABLES:
        return [
            tuned(method, doubled if method.name == UNION_OF_TREES else protocol, k)
            for k in repeats
            for method in methods(name)
        ]
    own = [{"labels": data.one_against_rest(c), "class": c} for c in range(data.n_classes)]
    return [
        tuned(method, protocol, k, **of, objective=AUC)
        for k in repeats
        for method in RANKERS
        for of in own
    ]


def records(name: str, finished: Finished) -> list[Record]:
    """One for each method; ``values`` are those of the splits, means over the classes for AUC."""
    made = []
    by_method = grouped((unit.method, (unit, result)) for unit, result in finished)
    for method, own in by_method.items():
        results = [result for _, result in own]
        of_split = grouped((unit.params["repeat"], result["value"]) for unit, result in own)
        values = {str(k): mean(of_split[k]) for k in sorted(of_split)}
        about = {"value": mean(values.values()), "std": std(values.values()), "values": values}
        fields = {**summary(results), **about, "repeats": len(values)}
        metric = "error" if name in TABLES else "auc"
        made.append(record(name, method, metric, **fields, note=own[0][0].params["note"]))
    return made


def _differences(made: Sequence[Record], name: str, ours: str, *others: str) -> list[float]:
    """On each split common to all: our value less that of the one whose mean is best."""
    own = by(pick(made, dataset=name), "method")
    if not {ours, *others} <= set(own):
        return []
    sign = 1 if name in TABLES else -1
    best = min((own[other] for other in others), key=lambda r: sign * r["value"])
    return [v - best["values"][k] for k, v in own[ours]["values"].items() if k in best["values"]]


def _difference(made: Sequence[Record], ours: str, *others: str) -> Callable[[str], str]:
    """Mean of the differences in points, and its standard error."""

    def cell(name: str) -> str:
        found = _differences(made, name, ours, *others)
        spread = std(found)
        error = None if spread is None else spread / len(found) ** 0.5
        return tables.with_std({"value": mean(found), "std": error}, 2, 100, "+")

    return cell


def show(made: Sequence[Record]) -> str:
    names = datasets_of(made)
    compared = [
        tables.Column("data set", str),
        tables.Column("splits", lambda name: str(pick(made, dataset=name)[0]["repeats"])),
        tables.Column("union less the better part", _difference(made, UNION, LINEAR, STUMPS)),
        tables.Column("trees less LightGBM", _difference(made, TREES, LIGHTGBM)),
        tables.Column(
            "union with trees less LightGBM", _difference(made, UNION_OF_TREES, LIGHTGBM)
        ),
    ]
    errors, aucs = pick(made, metric="error"), pick(made, metric="auc")

    def value(r: dict[str, Any]) -> str:
        return tables.with_std(r, 1 if r.get("metric") == "error" else 2, 100)

    blocks = [
        ("Test error, %", errors, value),
        ("Test AUC, %, mean over the classes", aucs, value),
        ("Certified gap, the worst of the fits", made, field("", "gap", "{:.2%}").cell),
    ]
    pivots = [
        f"{head}\n{tables.pivot(own, 'dataset', 'method', cell, METHODS)}"
        for head, own, cell in blocks
        if own
    ]
    head = "Differences on the same splits, points, and their standard errors\n"
    return tables.blocks(*pivots, head + tables.table(names, compared))


def targets(made: Sequence[Record]) -> list[Target]:
    values = by([r for r in made if r["value"] is not None], "dataset", "method")

    def at_most(names: Sequence[str], ours: str, others: Sequence[str], slack: float) -> list[Any]:
        means = {name: mean(_differences(made, name, ours, *others)) for name in names}
        sign = 1 if names is TABLES else -1
        return [(n, sign * v <= slack) for n, v in means.items() if v is not None]

    parts = (LINEAR, STUMPS)
    fine = [name for name in TABLES if name not in COARSE_DATASETS]
    gaps = [(n, values[n, UNION]["gap"]) for n in fine if (n, UNION) in values]
    certified = [(n, gap is not None and gap <= GAP) for n, gap in gaps]
    vowel = values.get(("vowel", UNION_OF_TREES), {}).get("value")
    return [
        all_of(
            "linear + stump at most 0.3 points above the better of SSVM and stumps",
            at_most(TABLES, UNION, parts, SLACK),
            len(TABLES),
        ),
        all_of(
            "AUC of linear + stump at most 0.003 below the better one",
            at_most(RANKED, UNION, parts, AUC_SLACK),
            len(RANKED),
        ),
        all_of("certified gap of 2 % of linear + stump, smaller sets", certified, len(fine)),
        all_of(
            "error of linear + tree, hinge loss, at most tuned LightGBM's, on 7 of 10",
            at_most(TABLES, UNION_OF_TREES, [LIGHTGBM], 0.0),
            len(TABLES),
            7,
        ),
        reach("linear + tree on vowel, error", vowel, "<", VOWEL),
    ]
