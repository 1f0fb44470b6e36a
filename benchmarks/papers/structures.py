"""Structures ready to use, against classifiers followed by a search."""

from dataclasses import replace

from benchmarks.runner.pages import across, blocks, field, listing
from benchmarks.runner.records import grouped, pick
from benchmarks.structures import chains, hierarchies, label_sets, lists, pairs, snakes

MODULES = (chains, hierarchies, label_sets, lists, pairs, snakes)
EXPERIMENTS = [replace(module.EXPERIMENT, metrics={"": "value"}) for module in MODULES]


def show(made):
    areas = pick(made, metric="AU(PRC)")
    shown = [across("AU(PRC) of hierarchies", areas, form="{:.3f}")]
    for name, own in grouped((r["dataset"], r) for r in made if r not in areas).items():
        rows = [
            {**of_method[0], **{r["metric"]: r["value"] for r in of_method}}
            for of_method in grouped((r["method"], r) for r in own).values()
        ]
        metrics = [field(m, m, "{:.3f}") for m in dict.fromkeys(r["metric"] for r in own)]
        more = field("C", "C"), field("CPU s", "seconds", "{:.1f}")
        shown.append(f"**{name}**\n\n{listing(rows, field('', 'method'), *metrics, *more)}")
    return blocks(*shown)


def targets(made):
    return [target for module in MODULES for target in module.targets(made)]
