"""The tagger without settings beside CRFsuite, on the same features: chunk F1, CPU of the fit."""

import tempfile
from pathlib import Path

from benchmarks.runner.experiment import Experiment, Learner
from benchmarks.runner.pages import across, blocks
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.records import lookup
from benchmarks.runner.targets import all_of, each, reach
from benchmarks.structures.tokens import FILES, Tagged, f1, read
from structboost import StructBoostTagger

OURS, CRFSUITE = "structboost", "CRFsuite"
# CRFsuite's as its users set it.
SETTINGS = {"c1": 0.1, "c2": 0.1, "max_iterations": 100, "feature.possible_transitions": True}
# The figure of Bottou's CRF by averaged stochastic gradients.
PUBLISHED = 93.75
# Prediction once took half an hour where names were new, and no target showed it.
MOST_TO_TAG = 5


def by_default(source, learner):
    """Chunk F1 on the test part in percent, and CPU seconds of the fit from dicts."""
    train, test = (read(source.name, source.folder / file) for file in FILES[source.name])
    learner.fit(Tagged(train.X[:30], train.Y[:30]))(test.X[:2])
    tag, cpu = cpu_timed(learner.fit, train)
    predicted, cpu_of_test = cpu_timed(tag, test.X)
    about = {"cpu": cpu, "cpu_of_test": cpu_of_test, "rows": len(train.Y)}
    return {"value": f1(test.Y, predicted), **about}


def _ours(train):
    return StructBoostTagger().fit(train.X, train.Y).predict


def crfsuite(train, **settings):
    """Function from sentences to tags, of CRFsuite trained with its usual settings but for some."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for x, y in zip(train.X, train.Y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(x), y)
    trainer.set_params({**SETTINGS, **settings})
    tagger = pycrfsuite.Tagger()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        trainer.train(path)
        tagger.open(path)
    return lambda X: [tagger.tag(pycrfsuite.ItemSequence(x)) for x in X]


BOTH = {OURS: Learner(_ours), CRFSUITE: Learner(crfsuite, ("pycrfsuite",))}
METRICS = {"chunk F1": "value"}
EXPERIMENTS = [Experiment(FILES, BOTH, by_default, metrics=METRICS)]


def show(made):
    return blocks(
        across("Chunk F1, %", made, form="{:.2f}"),
        across("CPU seconds of the fit", made, "cpu", "{:.1f}"),
        across("CPU seconds of the test part", made, "cpu_of_test", "{:.1f}"),
    )


def targets(made):
    at = lookup(made, "dataset", "method")
    better = each(at, FILES, lambda own, other: own >= other, OURS, CRFSUITE)
    faster = each(at, FILES, lambda own, other: own <= other, OURS, CRFSUITE, name="cpu")
    tags_fast = each(
        at, FILES, lambda own, other: own <= MOST_TO_TAG * other, OURS, CRFSUITE, name="cpu_of_test"
    )
    return [
        all_of("chunk F1 at least CRFsuite's", better, len(FILES)),
        all_of("CPU of the fit at most CRFsuite's", faster, len(FILES)),
        all_of(
            f"CPU of the test part at most {MOST_TO_TAG} times CRFsuite's", tags_fast, len(FILES)
        ),
        reach("CoNLL-2000 chunks, F1", at("conll2000", OURS), ">=", PUBLISHED, "{:.2f}"),
    ]
