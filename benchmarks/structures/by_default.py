"""Label sets and tags, no parameter given, beside LightGBM's: each label or tag alone, and joined.

Labels are joined by a chain of classifiers, letters by Viterbi with counted pairs.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.runner.units import Result
from benchmarks.structures import chains, label_sets
from structboost import CrossFitted, StructBoostMultiLabelClassifier, StructBoostTagger

LABEL_SETS, LETTERS = ("emotions", "yeast", "medical"), chains.FEW
DATASETS = (*LABEL_SETS, LETTERS)
METHODS = OURS, ALONE, JOINED = "structboost", "lightgbm, alone", "lightgbm, joined"
OWN_NAMES = {"1 - F1": "f1"}  # of losses
# Measures a fit, and a value of what was fitted.
Measure = Callable[[Callable[[], Any], Callable[[Any], float]], dict[str, float]]


def compare(name: str, data_dir: Path, measure: Measure) -> Result:
    """Losses on the test part, and CPU seconds."""
    of_structure = _compare_taggers if name == LETTERS else _compare_label_sets
    return of_structure(path_of(name, data_dir), measure)


def path_of(name: str, data_dir: Path) -> Path:
    """The file of a data set."""
    folder = "chains" if name == LETTERS else "multilabel"
    return Path(data_dir) / f"structures/{folder}/{name}.npz"


def _peer() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, verbose=-1)


def _compare_label_sets(path: Path, measure: Measure) -> Result:
    train, test = label_sets.read(path, quick=False)

    def ours(loss: str) -> np.ndarray:
        return StructBoostMultiLabelClassifier(loss=loss).fit(*train).predict(test.X)

    def theirs(wrap: Callable[..., np.ndarray]) -> np.ndarray:
        return label_sets.decide_by_cut(wrap(_peer(), *train, test.X), train.Y, 0.0)

    StructBoostMultiLabelClassifier().fit(train.X[:60, :3], train.Y[:60])
    found = []
    for metric, loss in label_sets.LOSSES.items():
        makers = {
            OURS: partial(ours, OWN_NAMES.get(metric, metric)),
            ALONE: partial(theirs, label_sets.one_per_label),
            JOINED: partial(theirs, label_sets.in_chain),
        }
        for method, answers in makers.items():
            own = measure(answers, lambda sets, loss=loss: loss(test.Y, sets))
            found.append({"method": method, "metric": metric, **own})
    return {"rows": len(train.Y), "found": found}


def _compare_taggers(path: Path, measure: Measure) -> Result:
    train, test = chains.read(path, many=False, quick=False)
    rows, letters = np.concatenate(train.X), np.concatenate(train.Y)

    def alone() -> Any:
        return partial(chains.answers_of, _peer().fit(rows, letters))

    def joined() -> tuple[Any, np.ndarray]:
        held = CrossFitted(_peer(), random_state=0).fit_transform(train.X, train.Y)
        return alone(), chains.best_pairs(held, train.Y, chains.USUAL.weights)[1]

    def wrong(found: Any) -> float:
        return 1.0 - chains.right(found, test.Y)

    StructBoostTagger().fit(train.X[:20], train.Y[:20])
    of_methods = {
        OURS: measure(
            lambda: StructBoostTagger().fit(*train), lambda model: wrong(model.predict(test.X))
        ),
        ALONE: measure(alone, lambda model: wrong([own.argmax(axis=1) for own in model(test.X)])),
        JOINED: measure(joined, lambda made: wrong(chains.viterbi(made[0](test.X), made[1]))),
    }
    found = [{"method": m, "metric": "wrong letters", **own} for m, own in of_methods.items()]
    return {"rows": len(train.X), "found": found}
