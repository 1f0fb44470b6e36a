"""The tagger without settings beside CRFsuite, on the same features: chunk F1, CPU of the fit."""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.runner import tables
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.records import Record, by, record, side_by_side
from benchmarks.runner.sources import code_version
from benchmarks.runner.tables import field, of
from benchmarks.runner.targets import Target, all_of, reach
from benchmarks.runner.units import Finished, Result, Unit
from benchmarks.structures.chunks import f1
from benchmarks.structures.rows import content_of
from benchmarks.structures.tokens import CORPORA, Tagged, paths_of, read
from structboost import StructBoostTagger

DATASETS = tuple(CORPORA)
QUICK_DATASETS = ("wnut17",)
QUICK_SENTENCES = 200
PEERS = dict.fromkeys(DATASETS, ("pycrfsuite",))
OURS, CRFSUITE = "structboost", "CRFsuite"
# CRFsuite's as its users set it.
SETTINGS = {"c1": 0.1, "c2": 0.1, "max_iterations": 100, "feature.possible_transitions": True}
# The figure of Bottou's CRF by averaged stochastic gradients.
PUBLISHED = 93.75


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    paths = paths_of(name, data_dir)
    content = " ".join(content_of(path) for path in paths)
    n_sentences = QUICK_SENTENCES if quick else None
    versions = {
        OURS: code_version([__name__]),
        CRFSUITE: code_version(["benchmarks.structures.tokens"]),
    }
    return [
        Unit(
            "taggers", name, method, {}, f"{content} {versions[method]}",
            partial(measure, method, name, paths, n_sentences), None, True,
        )
        for method in (OURS, CRFSUITE)
    ]  # fmt: skip


def measure(method: str, name: str, paths: Sequence[Path], n_sentences: int | None) -> Result:
    """Chunk F1 on the test part in percent, and CPU seconds of the fit from dicts."""
    train, test = (read(name, path, n_sentences) for path in paths)
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        if method == OURS:
            StructBoostTagger().fit(train.X[:30], train.Y[:30]).predict(test.X[:2])
            model, cpu = cpu_timed(lambda: StructBoostTagger().fit(train.X, train.Y))
            found, cpu_of_test = cpu_timed(lambda: model.predict(test.X))
            facts = {"learner": model.learner_, "C": model.C_}
        else:
            path = str(Path(folder) / "model")
            tag, cpu = cpu_timed(lambda: crfsuite(train, path))
            found, cpu_of_test = cpu_timed(lambda: [tag(x) for x in test.X])
            facts = {}
    about = {"cpu": cpu, "cpu_of_test": cpu_of_test, "rows": len(train.Y)}
    return {"value": f1(test.Y, found), **about, **facts}


def crfsuite(train: Tagged, path: str) -> Callable[[Any], list[str]]:
    """The tagging function of CRFsuite, trained on dicts."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for x, y in zip(train.X, train.Y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(x), y)
    trainer.set_params(SETTINGS)
    trainer.train(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    return lambda x: tagger.tag(pycrfsuite.ItemSequence(x))


def records(name: str, finished: Finished) -> list[Record]:
    return [record(name, unit.method, "chunk F1", **result) for unit, result in finished]


def show(made: Sequence[Record]) -> str:
    figures = {"value": "{:.2f}", "cpu": "{:.1f}", "cpu_of_test": "{:.1f}"}
    heads = {"value": "F1, %", "cpu": "CPU s of the fit", "cpu_of_test": "of the test part"}
    columns = [
        of(method, field(f"{method}: {heads[name]}", name, form))
        for name, form in figures.items()
        for method in (OURS, CRFSUITE)
    ]
    lines = side_by_side(made, ["dataset"], "method")
    return tables.table(
        lines,
        [
            field("corpus", "dataset"),
            field("sentences", "rows"),
            *columns,
            of(OURS, field("learner", "learner")),
            of(OURS, field("C", "C", "{:.3g}")),
        ],
    )


def targets(made: Sequence[Record]) -> list[Target]:
    of_sets = by(made, "dataset", "method")
    pairs = {
        name: (of_sets[name, OURS], of_sets[name, CRFSUITE])
        for name in DATASETS
        if {(name, OURS), (name, CRFSUITE)} <= set(of_sets)
    }
    better = [(name, own["value"] >= other["value"]) for name, (own, other) in pairs.items()]
    faster = [(name, own["cpu"] <= other["cpu"]) for name, (own, other) in pairs.items()]
    chunks = of_sets.get(("conll2000", OURS), {}).get("value")
    return [
        all_of("chunk F1 at least CRFsuite's", better, len(DATASETS)),
        all_of("CPU of the fit at most CRFsuite's", faster, len(DATASETS)),
        reach("CoNLL-2000 chunks, F1", chunks, ">=", PUBLISHED, "{:.2f}"),
    ]
