"""The tagger without settings beside CRFsuite, on the same features: chunk F1, CPU of the fit."""

import tempfile
from pathlib import Path

from benchmarks.runner.experiment import Experiment
from benchmarks.runner.protocol import cpu_timed
from benchmarks.structures.tokens import FILES, Tagged, read
from structboost import StructBoostTagger
from structboost.text import chunk_scores

# CRFsuite's as its users set it.
SETTINGS = {"c1": 0.1, "c2": 0.1, "max_iterations": 100, "feature.possible_transitions": True}


def by_default(source, learner):
    """Chunk F1 on the test part in percent, and CPU seconds of the fit from dicts."""
    train, test = (read(source.name, source.folder / file) for file in source.files)
    learner(Tagged(train.X[:30], train.Y[:30]))(test.X[:2])
    tag, cpu = cpu_timed(learner, train)
    predicted, cpu_of_test = cpu_timed(tag, test.X)
    return {
        "value": 100 * chunk_scores(test.Y, predicted).total.f1,
        "cpu": cpu,
        "cpu_of_test": cpu_of_test,
    }


def _ours(train):
    return StructBoostTagger().fit(train.X, train.Y).predict


def crfsuite(train):
    """Function from sentences to tags, of CRFsuite trained with its usual settings."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for x, y in zip(train.X, train.Y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(x), y)
    trainer.set_params(SETTINGS)
    tagger = pycrfsuite.Tagger()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        trainer.train(path)
        tagger.open(path)
    return lambda X: [tagger.tag(pycrfsuite.ItemSequence(x)) for x in X]


BOTH = {"structboost": _ours, "CRFsuite": crfsuite}
EXPERIMENTS = [Experiment(FILES, BOTH, by_default, metrics={"chunk F1": "value"})]
