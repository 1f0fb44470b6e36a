"""Structures ready to use, against classifiers followed by a search."""

from benchmarks.runner.experiment import Experiment
from benchmarks.runner.protocol import rows_of
from benchmarks.runner.records import record
from benchmarks.structures import chains, hierarchies, label_sets, lists, pairs, snakes

EXPERIMENTS = [
    Experiment(module.FILES, module.learners, rows_of, metrics={"": "value"})
    for module in (chains, hierarchies, label_sets, lists, pairs, snakes)
]


def derived(made):
    """Records with the figures that were published with the data of hierarchies."""
    for name in {r["dataset"] for r in made} & hierarchies.PUBLISHED.keys():
        for rival, value in zip(hierarchies.RIVALS, hierarchies.PUBLISHED[name], strict=True):
            made.append(record(name, rival, hierarchies.METRIC, value))
    return made
