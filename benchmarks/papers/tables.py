"""Tables as they come: missing values, categories."""

from functools import partial

import numpy as np

from benchmarks.peers.boosters import peer
from benchmarks.runner.datasets import Table, given_partition, load, parts, tabular
from benchmarks.runner.experiment import Experiment, Learner
from benchmarks.runner.pages import across
from benchmarks.runner.protocol import cpu_timed, grid
from benchmarks.runner.records import lookup, pick
from benchmarks.runner.targets import all_of, each
from structboost import StructBoostClassifier

HOLED = ("segment", "satimage", "vowel", "svmguide4", "pendigits")
CATEGORIES = "dna"
FRACTIONS = (0.1, 0.3)
OURS, HGB, LIGHTGBM = "structboost", "hist_gradient_boosting", "lightgbm"
HEADS = {HGB: "HistGradientBoosting", LIGHTGBM: "LightGBM"}
_HGB = {"early_stopping": False, "categorical_features": "from_dtype"}
MAKE_HGB = partial(peer, "sklearn.ensemble", "HistGradientBoostingClassifier", **_HGB)
MAKE_LIGHTGBM = partial(peer, "lightgbm", "LGBMClassifier", n_jobs=1, verbose=-1)
# Two settings of each: the default, and one of more rounds or smaller steps.
MAKERS = {
    OURS: (StructBoostClassifier, grid(max_iter=(200, 800))),
    HGB: (MAKE_HGB, [{}, {"max_iter": 300, "learning_rate": 0.05}]),
    LIGHTGBM: (MAKE_LIGHTGBM, [{}, {"n_estimators": 300, "learning_rate": 0.05}]),
}


def learners(source):
    names = (OURS, LIGHTGBM if source.name == CATEGORIES else HGB)
    packages = {LIGHTGBM: ("lightgbm", "pandas")}
    return {name: Learner(partial(tuned, *MAKERS[name]), packages.get(name, ())) for name in names}


def cases(source, learner):
    return [{"share": fraction, "repeat": k} for fraction in FRACTIONS for k in range(3)]


def with_gaps(source, learner, *, share, repeat):
    """Test error on a table from which a fraction of all cells was removed."""
    data = load(source.name, source.folder)
    rng = np.random.default_rng([repeat, int(100 * share)])
    X = np.where(rng.random(data.X.shape) < share, np.nan, data.X.astype(np.float64))
    return learner.fit(*parts(X, data.y, data.y, repeat))


def categories(source, learner):
    """Splice sites as 60 columns of the letters A, C, G and T, from their indicators in threes."""
    import pandas

    def letters(table):
        by_place = table.X.reshape(len(table.X), -1, 3) > 0
        codes = np.where(by_place.any(axis=2), by_place.argmax(axis=2), 3)
        frame = pandas.DataFrame(np.array(list("ACGT"))[codes], dtype="category")
        return frame.rename(columns="p{}".format)

    train, test = given_partition(CATEGORIES, source.folder)
    held = np.random.default_rng(0).permutation(len(train.y)) < len(train.y) // 4
    rows = letters(train)
    own = [Table(rows[part], train.y[part]) for part in (~held, held)]
    return learner.fit(*own, Table(letters(test), test.y))


def tuned(make, settings, train, validation, test):
    """Test error of the setting that the validation part prefers, fitted to the training part."""
    tried = []
    for index, params in enumerate(settings):
        model, seconds = cpu_timed(make(random_state=0, **params).fit, train.X, train.y)
        tried.append((1 - model.score(validation.X, validation.y), index, model, seconds))
    _, index, model, seconds = min(tried, key=lambda one: one[:2])
    error = 1 - float(model.score(test.X, test.y))
    return {"value": error, "seconds": seconds, "setting": settings[index]}


EXPERIMENTS = [
    Experiment(tabular(*HOLED), learners, with_gaps, cases, by=("share",)),
    Experiment(tabular(CATEGORIES), learners, categories),
]


def show(made):
    errors = [{**r, "cells removed": r.get("share")} for r in pick(made, metric="error")]
    rows = ("dataset", "cells removed")
    return across("Test error", errors, form="{:.2%}", rows=rows)


def targets(made):
    def near(wanted, names, rival, fraction=None):
        at = lookup([r for r in made if r.get("share") == fraction], "dataset", "method")
        holds = each(at, names, lambda ours, theirs: ours <= theirs + 0.01, OURS, rival)
        return all_of(f"{wanted}: at most 1 point above {HEADS[rival]}", holds, len(names))

    return [
        *(near(f"{one:.0%} of the cells removed", HOLED, HGB, one) for one in FRACTIONS),
        near("categories", (CATEGORIES,), LIGHTGBM),
    ]
