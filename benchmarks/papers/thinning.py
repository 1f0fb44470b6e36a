"""Fewer trees for LightGBM's default models on 22 tables: change of the error, trees, gap."""

import warnings

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.papers import multiclass, outside
from benchmarks.peers.boosters import peer
from benchmarks.runner.experiment import Experiment, Learner
from benchmarks.runner.pages import across, blocks, field
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.records import lookup, median, pick
from benchmarks.runner.targets import all_of, reach
from structboost import thin
from structboost.errors import NotThinnedWarning

NAMES = (*multiclass.NAMES, *outside.OUTSIDE)
# Settings were chosen on these.
CHOSEN_ON = (
    "heart", "sonar", "glass", "svmguide4", "phoneme", "banana", "spambase", "dna", "bupa",
    "svmguide2", "vowel",
)  # fmt: skip
FIFTH, MARGIN = "a fifth of the trees", "loss within .01"
METHODS = (FIFTH, MARGIN)
# Trees of two classes, and rounds of more.
TREES, ROUNDS = 400, 100
FEW_HELD_OUT, FEW_ROWS = 300, 1000
REPEATS, MANY_REPEATS = 3, 8


def cases(source, learner):
    if source.name in outside.WIDE:
        return [{"repeat": 0}]
    few = len(outside.read(source)[1]) < FEW_ROWS
    return [{"repeat": repeat} for repeat in range(MANY_REPEATS if few else REPEATS)]


def thinned(source, learner, *, repeat):
    """Test error of a model before and after, in points, with the trees left and the gap."""
    X, y, _, train, test = outside.sampled(source, repeat, least=4)
    train, held = train_test_split(train, test_size=0.3, stratify=y[train], random_state=repeat)
    n_rounds = TREES if y.max() == 1 else ROUNDS
    model = peer("lightgbm", "LGBMClassifier", n_jobs=1, verbose=-1, n_estimators=n_rounds)
    _, fit_cpu = cpu_timed(model.fit, X[train], y[train])
    before = float(np.mean(model.predict(X[test]) != y[test]))
    more = {"unlabelled": X[train]} if len(held) < FEW_HELD_OUT else {}
    n_trees = model.booster_.num_trees()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotThinnedWarning)
        warnings.simplefilter("ignore", UserWarning)
        result, cpu = cpu_timed(thin, model, X[held], y[held], **more, **learner.fit(n_trees))
    after = float(np.mean(result.predict(X[test]) != y[test]))
    return {
        "change": 100 * (after - before), "before": 100 * before, "held_out": len(held),
        "kept": result.n_trees / n_trees, "relative_gap": result.gap if result.thinned else 0.0,
        "leaf_gap": result.leaf_gap if result.thinned else 0.0,
        "thinned": float(result.thinned), "cpu": cpu, "cpu_over_fit": cpu / fit_cpu,
    }  # fmt: skip


def _a_fifth(n_trees):
    return {"n_trees": n_trees // 5}


def _within_margin(n_trees):
    return {}


LEARNERS = {
    FIFTH: Learner(_a_fifth, ("lightgbm",)),
    MARGIN: Learner(_within_margin, ("lightgbm",)),
}
TABLES = {
    "Test error before and its change, in points; trees left": {
        "before": "{:.2f}", "change": "{:+.2f}", "kept": "{:.0%}",
    },
    "Fraction of repeats that were thinned; gaps over all trees and leaves; CPU seconds of thin": {
        "thinned": "{:.2f}", "relative_gap": "{:.2%}", "leaf_gap": "{:.2%}", "cpu": "{:.2f}",
    },
}  # fmt: skip
METRICS = {name: name for forms in TABLES.values() for name in forms}
FILES = {name: outside.FILES[name] for name in NAMES}
EXPERIMENTS = [Experiment(FILES, LEARNERS, thinned, cases, METRICS)]


def show(made):
    tables = []
    for head, forms in TABLES.items():
        shown = [
            {**r, "method": f"{metric}, {r['method']}", "text": field("", "value", form).cell(r)}
            for metric, form in forms.items()
            for r in pick(made, metric=metric)
        ]
        tables.append(across(head, shown, "text", "{}"))
    return blocks(*tables)


def targets(made):
    at = lookup(made, "dataset", "metric", "method")
    out = []
    for method in METHODS:
        for names, which in ((NAMES, "all"), ([n for n in NAMES if n not in CHOSEN_ON], "others")):
            changes = [(name, at(name, "change", method)) for name in names]
            holds = [(name, change <= 0.2) for name, change in changes if change is not None]
            least = 18 if which == "all" else 9
            wanted = f"{method}, {which}: change at most +.2 points"
            out.append(all_of(wanted, holds, len(names), least))
        kept = [at(name, "kept", method) for name in NAMES]
        gaps = [at(name, gap, method) for name in NAMES for gap in ("relative_gap", "leaf_gap")]
        measured = [value for value in kept if value is not None]
        out.append(reach(f"{method}: trees left, median", median(measured), "<=", 0.2, "{:.0%}"))
        largest = max((value for value in gaps if value is not None), default=None)
        out.append(
            reach(f"{method}: gap of weights and leaves, largest", largest, "<=", 0.01, "{:.2%}")
        )
    return out
