"""Files of taggers, of classifiers of sets, and of linear models."""

from __future__ import annotations

import numpy as np

from structboost import (
    MulticlassTask,
    StructBoostMultiLabelClassifier,
    StructBoostTagger,
    StructuredSVM,
)
from tests.helpers.damaged_files.data import X, Y
from tests.helpers.damaged_files.kind import Kind


def sentences(is_of_dicts):
    tokens = [["a", "dog", "ran"], ["dogs"], ["the", "dog", "saw", "a", "cat"]] * 4
    tags = [["D", "N", "V"], ["N"], ["D", "N", "V", "D", "N"]] * 4
    if is_of_dicts:
        return [[{"word": w, "end": w[-1]} for w in words] for words in tokens], tags
    return [[[len(w), w[-1] == "s", w[0] == "d"] for w in words] for words in tokens], tags


def tagger(is_of_dicts, **parameters):
    inputs, outputs = sentences(is_of_dicts)

    def make(folder):
        settings = {"objective": "hinge", "C": 10, "max_iter": 4, "forbidden": [("D", "V")]}
        StructBoostTagger(**settings | parameters).fit(inputs, outputs).save(folder / "file")

    def use(folder):
        loaded = StructBoostTagger.load(folder / "file")
        return [
            loaded.predict(inputs),
            loaded.predict_marginals(inputs),
            loaded.transitions_.tolist(),
            loaded.history_,
        ]

    return Kind(make, "file", use)


def sets_of_labels(**parameters):
    labels = np.column_stack((X[:, 0] > 6, X[:, 2] > 3, Y > 0)).astype(int)

    def make(folder):
        settings = {"objective": "hinge", "C": 10, "max_iter": 3}
        made = StructBoostMultiLabelClassifier(**settings | parameters)
        made.fit(X, labels).save(folder / "file")

    def use(folder):
        loaded = StructBoostMultiLabelClassifier.load(folder / "file")
        return [
            loaded.predict(X).tolist(),
            loaded.model_.scores(X, next(iter(loaded.model_.kinds))).tolist(),
            loaded.history_,
        ]

    return Kind(make, "file", use)


def svm(task, inputs, outputs):
    def make(folder):
        StructuredSVM(task, tol=0.1).fit(inputs, outputs).save(folder / "file")

    def use(folder):
        loaded = StructuredSVM.load(folder / "file", task)
        rows = loaded.scores(inputs).rows
        return [{kind: own.tolist() for kind, own in rows.items()}, loaded.history_]

    return Kind(make, "file", use)


KINDS = {
    "tagger of dicts": tagger(True, objective="l1_log_loss"),
    "tagger of arrays": tagger(False, objective="svm", max_iter=50),
    "sets of labels": sets_of_labels(loss="f1"),
    "sets in a hierarchy": sets_of_labels(hierarchy=[(2, 0), (2, 1)]),
    "sets seen": sets_of_labels(objective="l1_log_loss", loss="subset", outputs="seen", pairs=True),
    "svm": svm(MulticlassTask(3), X, Y),
}
