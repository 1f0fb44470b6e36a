"""Sets of labels: two stages, and sets trained for a loss on cross-fitted responses."""

from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier

from benchmarks.runner.protocol import cpu_timed, row
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
FOLDS, PARTS = 5, KFold(3, shuffle=True, random_state=0)
WRAPS = {
    "per label": MultiOutputClassifier,
    "classifier chain": partial(ClassifierChain, order="random", random_state=0),
}
CROSS_FITTED = "cross-fitted"


class Rows(NamedTuple):
    """Rows of a part and their labels."""

    X: np.ndarray
    Y: np.ndarray


def read(source):
    """The partition of the file."""
    file = source.arrays()
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

    def crossed(classifier):
        model = CrossFitted(classifier, folds=FOLDS, random_state=0)
        return model, model.fit_transform(train.X, train.Y)

    signs = 1 - 2 * train.Y
    return min(map(crossed, candidates), key=lambda pair: np.logaddexp(0.0, signs * pair[1]).mean())


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
        losses = [loss(Y, decide(held, seen, cut)) for cut in CUTS]
        cut = CUTS[int(np.argmin(losses))]
        rows.append(row(method, metric, loss(true, decide(at_test, seen, cut)), cut=cut))
    return rows


def trained_rows(method, held, at_test, Y, true):
    """For each loss the model of linear functions that is best in parts of the training rows."""
    models = [linear(*s) for s in SETTINGS if s[1] != PAIRED or Y.shape[1] <= MOST_PAIRED]
    predictions = [cross_val_predict(model, held, Y, cv=PARTS) for model in models]
    rows = []
    for metric, loss in LOSSES.items():
        best = clone(models[int(np.argmin([loss(Y, own) for own in predictions]))])
        model, seconds = cpu_timed(best.fit, held, Y)
        value = loss(true, model.predict(at_test))
        rows.append(row(method, metric, value, C=model.C, seconds=seconds))
    return rows


def alone(source):
    """LightGBM for each label by itself, and in a chain of classifiers."""
    train, test = read(source)
    rows = []
    for method, wrap in WRAPS.items():
        models, tried = [wrap(classifier) for classifier in _lightgbm()], []
        for model in models:
            held = np.empty(train.Y.shape)
            for rest, out in PARTS.split(train.X):
                held[out] = log_odds(model, train.X[rest], train.Y[rest], train.X[out])
            tried.append((held, log_odds(model, train.X, train.Y, test.X)))
        for metric, loss in LOSSES.items():
            _, k, cut = min(
                (loss(train.Y, decide_by_cut(held, train.Y, cut)), k, cut)
                for k, (held, _) in enumerate(tried)
                for cut in CUTS
            )
            value = loss(test.Y, decide_by_cut(tried[k][1], train.Y, cut))
            rows.append(row(f"lightgbm, {method}", metric, value, cut=cut))
    return rows


def log_odds(model, X, Y, at):
    """Log-odds of all labels; those that never vary are left out of the fit."""
    varied = np.flatnonzero(Y.min(axis=0) < Y.max(axis=0))
    p = model.fit(X, Y[:, varied]).predict_proba(at)
    if isinstance(p, list):
        p = np.column_stack([of_label[:, 1] for of_label in p])
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


def learners(source):
    return {
        "lightgbm alone": alone,
        "extra trees": partial(with_classifier, "extra trees", _extra_trees),
        "lightgbm": partial(with_classifier, "lightgbm", _lightgbm),
    }
