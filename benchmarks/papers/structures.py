"""Structures ready to use, against classifiers followed by a search, and against CRFsuite."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from benchmarks.runner import tables
from benchmarks.runner.records import Record, datasets_of, pick, record
from benchmarks.runner.tables import Column, field
from benchmarks.runner.targets import Target
from benchmarks.runner.units import Finished, Unit
from benchmarks.structures import chains, chunks, hierarchies, label_sets, lists, pairs, snakes

MODULES = (chains, chunks, hierarchies, label_sets, lists, pairs, snakes)
MODULE_OF: dict[str, ModuleType] = {name: m for m in MODULES for name in m.DATASETS}
DATASETS = tuple(MODULE_OF)
QUICK_DATASETS = tuple(name for module in MODULES for name in module.QUICK_DATASETS)
PEERS = dict.fromkeys(
    (*chains.DATASETS, *label_sets.DATASETS, *lists.DATASETS, *pairs.DATASETS), ("lightgbm",)
)
PEERS |= {chunks.NAME: ("pycrfsuite",)}


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    return MODULE_OF[name].units(name, data_dir, quick=quick)


def records(name: str, finished: Finished) -> list[Record]:
    rows = [row for _, result in finished for row in result["rows"]]
    return [
        record(name, row["method"], row["metric"], row["value"], **row["facts"]) for row in rows
    ]


def show(made: Sequence[Record]) -> str:
    shown = []
    for name in datasets_of(made):
        own = pick(made, dataset=name)
        metrics = list(dict.fromkeys(r["metric"] for r in own))
        rows = [{"method": m, **_cells(own, m)} for m in dict.fromkeys(r["method"] for r in own)]
        values = [field(metric, metric, "{:.3f}") for metric in metrics]
        more = [field("C", "C"), field("CPU s", "seconds", "{:.1f}")]
        shown.append(f"{name}\n{tables.table(rows, [METHOD, *values, *more])}")
    return tables.blocks(*shown)


METHOD = Column("", lambda row: row["method"])


def _cells(made: Sequence[Record], method: str) -> Record:
    """Values of all metrics of a method; other fields of its first record."""
    own = pick(made, method=method)
    return {**own[0], **{r["metric"]: r["value"] for r in own}}


def targets(made: Sequence[Record]) -> list[Target]:
    return [target for module in MODULES for target in module.targets(made)]
