"""Hierarchical classification: Table 3 of StructBoost, on sets with natural trees of classes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.ours import methods as ours
from benchmarks.runner import plots
from benchmarks.runner.datasets import load
from benchmarks.runner.protocol import ERROR, QUICK, Method, Objective, Protocol, tuned_unit
from benchmarks.runner.records import Record, datasets_of, pick, record, side_by_side
from benchmarks.runner.statistics import summary
from benchmarks.runner.tables import Column, field, of, table, value
from benchmarks.runner.targets import Target, all_of
from benchmarks.runner.units import Finished, Unit
from structboost import TaxonomyTask


def _letters(groups: str) -> list[Any]:
    return [[ord(letter) - ord("A") for letter in group] for group in groups.split()]


# Natural trees of the classes, as nested lists of class numbers.
TAXONOMIES = {
    # Red soil; grey, damp grey and very damp grey soil; cotton crop, soil with vegetation stubble.
    "satimage": [[0, [2, 3, 5]], [1, 4]],
    # Man-made: brickface, cement, window, path. Natural: sky, and foliage with grass.
    "segment": [[0, 3, 4, 5], [1, [2, 6]]],
    # Letters by the vowel of their English names: B ee, A ay, F eh, Q oo, I eye, R ah, O oh.
    "isolet1": [
        [*_letters("BCDEGPTVZ AHJK")],
        [*_letters("FLMNSX")],
        [*_letters("QUW"), 14],
        [*_letters("IY"), 17],
    ],
}
DATASETS = tuple(TAXONOMIES)
QUICK_DATASETS = ("segment",)
GAP = 0.02
# Where a fit to 2 % takes minutes.
COARSE_GAP = {"isolet1": 0.1}
# The paper's grid for this experiment.
GRID = ours.powers(0, 3)
TREE, FLAT = "structboost_tree_stumps", "structboost_flat_stumps"
STAGE_WISE = (
    replace(ours.ADA_ECC, name="adaboost_ecc_stumps"),
    replace(ours.ADA_MH, name="adaboost_mh_stumps"),
    ours.ADA_ECC_SVM,
)
METHODS = (TREE, FLAT, *(method.name for method in STAGE_WISE))
DIFFERENCE = "tree_minus_flat"


def methods(name: str) -> tuple[Method, ...]:
    """With the tree, and without; the stage-wise methods of the paper's table."""
    own = {"gap": COARSE_GAP.get(name, GAP), "candidates": GRID}
    tree = ours.Multiclass(TREE, **own, taxonomy=TAXONOMIES[name])
    return tree, ours.Multiclass(FLAT, **own), *STAGE_WISE


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    data = load(name, data_dir)
    losses = TaxonomyTask(TAXONOMIES[name]).tree.losses()
    tree_loss = Objective("tree_loss", lambda y, labels: float(losses[y, labels].mean()), -1)
    judged = {"objective": tree_loss, "also": (ERROR,), "tree": TAXONOMIES[name]}
    protocol = QUICK if quick else Protocol()
    return [
        tuned_unit("hierarchy", data, method, protocol, repeat, **judged)
        for method in methods(name)
        for repeat in range(protocol.repeats)
    ]


def records(name: str, finished: Finished) -> list[Record]:
    made = []
    by_method = {m: [r for unit, r in finished if unit.method == m] for m in METHODS}
    for method, results in by_method.items():
        if results:
            made.append(record(name, method, "tree_loss", **summary(results)))
            made.append(record(name, method, "error", **summary(results, "error")))
    tree, flat = by_method[TREE], by_method[FLAT]
    if tree and len(tree) == len(flat):
        each = [a["value"] - b["value"] for a, b in zip(tree, flat, strict=True)]
        fields = {**summary([{"value": value} for value in each]), "each": each}
        made.append(record(name, DIFFERENCE, "tree_loss", **fields))
    return made


def show(made: Sequence[Record]) -> str:
    def each(r: Record) -> str:
        return " ".join(f"{v:+.4f}" for v in r.get("each", ()))

    columns = [field("", "dataset")]
    for method in METHODS:
        columns.append(of((method, "tree_loss"), value(method, 4)))
        columns.append(of((method, "error"), value("error", 2, 100)))
    columns.append(of((DIFFERENCE, "tree_loss"), value("tree - flat", 4)))
    columns.append(of((DIFFERENCE, "tree_loss"), Column("of each split", each)))
    note = "Test tree loss (mean height of the first common ancestor) and error in %."
    return f"{table(side_by_side(made, ['dataset'], 'method', 'metric'), columns)}\n{note}"


def targets(made: Sequence[Record]) -> list[Target]:
    below = [(r["dataset"], r["value"] < 0) for r in pick(made, method=DIFFERENCE)]
    return [all_of("mean tree loss with the tree below that without", below, len(DATASETS))]


def plot(made: Sequence[Record], path: Path) -> None:
    names = datasets_of(made)
    size = (2.5 + 2.2 * len(names), 3.4)
    with plots.panels(path, (1, 1), size, grid=False) as (figure, ((axis,),)):
        for number, method in enumerate(METHODS):
            own = pick(made, method=method, metric="tree_loss")
            at = [names.index(r["dataset"]) + 0.17 * (number - 2) for r in own]
            spreads = [r["std"] or 0.0 for r in own]
            axis.bar(at, [r["value"] for r in own], 0.16, yerr=spreads, label=method, capsize=3)
        axis.set_xticks(range(len(names)), names)
        axis.set_ylabel("test tree loss")
        plots.shared_legend(figure, axis, loc="outside right center")
