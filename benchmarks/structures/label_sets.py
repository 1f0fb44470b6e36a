"""Sets of labels: two stages, and sets trained for a loss on cross-fitted responses."""

from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier

from benchmarks.runner.experiment import Experiment, Learner
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.records import lookup
from benchmarks.runner.targets import all_of
from benchmarks.structures.rows import Row, rows_of
from structboost import CrossFitted, StructBoostMultiLabelClassifier

NAMES = ("emotions", "yeast", "enron", "medical")
FILES = {name: (f"structures/multilabel/{name}.npz",) for name in NAMES}
LOSSES = {
    "hamming": lambda y, sets: float(np.mean(y != sets)),
    "subset": lambda y, sets: float(np.mean((y != sets).any(axis=1))),
    "1 - F1": lambda y, sets: 1 - f1_score(y, sets, average="samples", zero_division=1.0),
}
# Losses or the likelihood, over which sets, and C of a model on cross-fitted responses.
LIKELIHOOD, SEEN, PAIRED = "likelihood", "seen", "seen, pairs of labels"
SETTINGS = (
    *product(("hamming", "f1"), ("all", SEEN), (0.3, 3.0, 30.0)),
    *product((LIKELIHOOD,), (SEEN, PAIRED), (10.0, 100.0, 1000.0)),
)
MOST_PAIRED = 14  # labels: with more, there are too many pairs for the rows
CUTS = np.linspace(-2.5, 1.5, 17)  # log-odds above which a label is taken
FOLDS, PARTS = 5, 3
CROSS_FITTED = "cross-fitted"


class Rows(NamedTuple):
    """Rows of a part and their labels."""

    X: np.ndarray
    Y: np.ndarray


def read(source):
    """The partition of the file."""
    with np.load(source.folder / FILES[source.name][0]) as file:
        X, Y, train = file["X"].astype(np.float32), file["Y"].astype(np.int64), file["train"]
    return Rows(X[train], Y[train]), Rows(X[~train], Y[~train])


def with_classifier(label, candidates, source):
    """A classifier with cuts, with the sets seen, and cross-fitted before a linear model."""
    train, test = read(source)
    few = 1 if source.name == "enron" else None  # of 1,001 features
    crossed, held = _best_crossed(candidates()[:few], train)
    at_test = crossed.transform(test.X)
    rows = [
        row
        for how, decide in (("two stages", decide_by_cut), ("two stages, sets seen", decide_seen))
        for row in _tuned_rows(f"{label}, {how}", decide, held, at_test, train.Y, test.Y)
    ]
    return rows + trained_rows(f"{label}, {CROSS_FITTED}", held, at_test, train.Y, test.Y)


def _best_crossed(candidates, train):
    """The classifier whose out-of-fold responses have the least logistic loss."""
    tried = []
    for classifier in candidates:
        crossed = CrossFitted(classifier, folds=FOLDS, random_state=0)
        held = crossed.fit_transform(train.X, train.Y)
        loss = float(np.mean(np.logaddexp(0.0, (1 - 2 * train.Y) * held)))
        tried.append((loss, crossed, held))
    _, crossed, held = min(tried, key=lambda entry: entry[0])
    return crossed, held


def decide_by_cut(responses, seen, cut):
    """Labels whose log-odds are above a cut."""
    return (responses > cut).astype(np.int64)


def decide_seen(responses, seen, cut):
    """The best of the sets seen in training, if the log-odds are independent."""
    return seen[np.argmax((responses - cut) @ seen.T, axis=1)]


def _tuned_rows(method, decide, held, at_test, Y, true):
    """For each loss the cut that is best on out-of-fold responses."""
    seen = np.unique(Y, axis=0)
    rows = []
    for metric, loss in LOSSES.items():
        cut = min(CUTS, key=lambda cut, loss=loss: loss(Y, decide(held, seen, cut)))
        value = loss(true, decide(at_test, seen, cut))
        rows.append(Row(method, metric, value, {"cut": float(cut)}))
    return rows


def trained_rows(method, held, at_test, Y, true):
    """For each loss the model of linear functions that is best in parts of the training rows."""
    predictions = {}
    for setting in SETTINGS:
        if setting[1] == PAIRED and Y.shape[1] > MOST_PAIRED:
            continue
        predictions[setting] = np.empty_like(Y)
        for rest, out in KFold(PARTS, shuffle=True, random_state=0).split(held):
            model = linear(*setting).fit(held[rest], Y[rest])
            predictions[setting][out] = model.predict(held[out])
    rows = []
    for metric, loss in LOSSES.items():
        best = min(predictions, key=lambda setting, loss=loss: loss(Y, predictions[setting]))
        facts = dict(zip(("loss", "outputs", "C"), best, strict=True))
        model, facts["seconds"] = cpu_timed(linear(*best).fit, held, Y)
        rows.append(Row(method, metric, loss(true, model.predict(at_test)), facts))
    return rows


def alone(source):
    """LightGBM for each label by itself, and in a chain of classifiers."""
    train, test = read(source)
    rows = []
    for method, wrap in (("per label", one_per_label), ("classifier chain", in_chain)):
        tried = []
        for classifier in _lightgbm():
            held = np.empty(train.Y.shape)
            for rest, out in KFold(PARTS, shuffle=True, random_state=0).split(train.X):
                held[out] = wrap(classifier, train.X[rest], train.Y[rest], train.X[out])
            tried.append((classifier, held))
        refitted = {}
        for metric, loss in LOSSES.items():
            trials = [
                (loss(train.Y, decide_by_cut(held, train.Y, cut)), k, cut)
                for k, (_, held) in enumerate(tried)
                for cut in CUTS
            ]
            _, k, cut = min(trials)
            if k not in refitted:
                refitted[k] = wrap(tried[k][0], train.X, train.Y, test.X)
            value = loss(test.Y, decide_by_cut(refitted[k], train.Y, cut))
            rows.append(Row(f"lightgbm, {method}", metric, value, {"cut": float(cut)}))
    return rows


def one_per_label(classifier, X, Y, at):
    """Log-odds of all labels; those that never occur are left out of the fit."""
    varied = np.flatnonzero(Y.min(axis=0) < Y.max(axis=0))
    fitted = MultiOutputClassifier(classifier).fit(X, Y[:, varied])
    return _log_odds(np.column_stack([p[:, 1] for p in fitted.predict_proba(at)]), varied, Y)


def in_chain(classifier, X, Y, at):
    """The same where each label is a feature of those after it."""
    varied = np.flatnonzero(Y.min(axis=0) < Y.max(axis=0))
    chain = ClassifierChain(classifier, order="random", random_state=0).fit(X, Y[:, varied])
    return _log_odds(chain.predict_proba(at), varied, Y)


def _log_odds(p, varied, Y):
    probabilities = np.full((len(p), Y.shape[1]), 1e-6)
    probabilities[:, varied] = np.clip(p, 1e-6, 1 - 1e-6)
    return np.log(probabilities) - np.log1p(-probabilities)


def _lightgbm():
    from lightgbm import LGBMClassifier

    fixed = {"min_child_samples": 5, "learning_rate": 0.05, "n_jobs": 1, "verbose": -1}
    sizes = ((4, 100), (15, 50), (15, 150))
    return [
        LGBMClassifier(num_leaves=leaves, n_estimators=rounds, random_state=0, **fixed)
        for leaves, rounds in sizes
    ]


def _extra_trees():
    return [
        ExtraTreesClassifier(300, min_samples_leaf=rows, max_features=part, random_state=0)
        for rows, part in ((1, "sqrt"), (3, "sqrt"), (1, 0.2))
    ]


def linear(loss, outputs, C):
    """A linear function by the hinge loss, or linear functions boosted for the likelihood."""
    wanted = {"objective": "svm", "loss": loss, "tol": 0.05, "max_iter": 40}
    if loss == LIKELIHOOD:
        wanted = {"objective": "l1_log_loss", "weak_learner": ["linear"], "tol": 0.02}
        wanted |= {"max_iter": 20, "pairs": outputs == PAIRED}
    sets = "all" if outputs == "all" else "seen"
    return StructBoostMultiLabelClassifier(C=C, outputs=sets, random_state=0, **wanted)


LEARNERS = {
    "lightgbm alone": Learner(alone, ("lightgbm", "sklearn")),
    "extra trees": Learner(partial(with_classifier, "extra trees", _extra_trees), ("sklearn",)),
    "lightgbm": Learner(partial(with_classifier, "lightgbm", _lightgbm), ("lightgbm",)),
}
EXPERIMENT = Experiment(FILES, LEARNERS, rows_of)


def targets(made):
    at = lookup(made, "dataset", "method", "metric")
    rivals = [f"lightgbm, {how}" for how in ("per label", "classifier chain")]
    judged = []
    for metric in LOSSES:
        below = []
        for name in NAMES:
            ours = [at(name, f"{label}, {CROSS_FITTED}", metric) for label in LEARNERS]
            theirs = [at(name, rival, metric) for rival in rivals]
            if None not in theirs and any(v is not None for v in ours):
                below.append((name, min(v for v in ours if v is not None) < min(theirs)))
        wanted = f"{metric}: a cross-fitted classifier below LightGBM per label and in a chain"
        judged.append(all_of(f"{wanted}, on 3 of 4", below, len(NAMES), 3))
    return judged
