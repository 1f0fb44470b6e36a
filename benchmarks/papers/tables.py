"""Tables as they come: missing values, categories."""

from functools import partial

import numpy as np

from benchmarks.peers.boosters import peer
from benchmarks.runner.datasets import Table, load, parts, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.protocol import cpu_timed, grid
from structboost import StructBoostClassifier

HOLED = ("segment", "satimage", "vowel", "svmguide4", "pendigits")
CATEGORIES = "dna"
FRACTIONS = (0.1, 0.3)
OURS, HGB, LIGHTGBM = "structboost", "hist_gradient_boosting", "lightgbm"
_HGB = {"early_stopping": False, "categorical_features": "from_dtype"}
# Two settings of each: the default, and one of more rounds or smaller steps.
MAKERS = {
    OURS: (StructBoostClassifier, grid(max_iter=(200, 800))),
    HGB: (
        partial(peer, "sklearn.ensemble", "HistGradientBoostingClassifier", **_HGB),
        [{}, {"max_iter": 300, "learning_rate": 0.05}],
    ),
    LIGHTGBM: (
        partial(peer, "lightgbm", "LGBMClassifier", n_jobs=1, verbose=-1),
        [{}, {"n_estimators": 300, "learning_rate": 0.05}],
    ),
}


def learners(source):
    names = (OURS, LIGHTGBM if source.name == CATEGORIES else HGB)
    return {name: MAKERS[name] for name in names}


def cases(source, learner):
    return [{"share": fraction, "repeat": k} for fraction in FRACTIONS for k in range(3)]


def with_gaps(source, maker, *, share, repeat):
    """Test error on a table from which a fraction of all cells was removed."""
    data = load(source.name, source.folder)
    rng = np.random.default_rng([repeat, int(100 * share)])
    X = np.where(rng.random(data.X.shape) < share, np.nan, data.X.astype(np.float64))
    return tuned(*maker, *parts(Table(X, data.y), repeat))


def categories(source, maker):
    """Splice sites as 60 columns of the letters A, C, G and T, from their indicators in threes."""
    import pandas

    file = source.arrays()
    by_place = file["X"].reshape(len(file["X"]), -1, 3) > 0
    codes = np.where(by_place.any(axis=2), by_place.argmax(axis=2), 3)
    frame = pandas.DataFrame(np.array(list("ACGT"))[codes], dtype="category")
    frame, train = frame.rename(columns="p{}".format), np.flatnonzero(file["train"])
    held = np.random.default_rng(0).permutation(len(train)) < len(train) // 4
    rows = train[~held], train[held], np.flatnonzero(~file["train"])
    return tuned(*maker, *(Table(frame.iloc[own], file["y"][own]) for own in rows))


def tuned(make, settings, train, validation, test):
    """Test error of the setting that the validation part prefers, fitted to the training part."""
    fits = [cpu_timed(make(random_state=0, **params).fit, *train) for params in settings]
    model, seconds = max(fits, key=lambda fit: fit[0].score(*validation))
    return {"value": 1 - float(model.score(*test)), "seconds": seconds}


EXPERIMENTS = [
    Experiment(tabular(*HOLED), learners, with_gaps, cases, by=("share",)),
    Experiment(tabular(CATEGORIES), learners, categories),
]
