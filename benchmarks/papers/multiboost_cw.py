"""MultiBoost^cw by coordinate descent: figures 1 and 2 of ACCV 2012, with the published code."""

import time
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.ours.methods import certified_gap
from benchmarks.papers import PRINTED
from benchmarks.runner.datasets import Table, load, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.machine import limited, peak_memory, reset_peak_memory
from benchmarks.runner.records import pick, record
from structboost import MulticlassTask, StructBoost
from structboost.objectives import Exponential

TRAIN_FRACTION, LIMIT_SECONDS = 0.75, 4000.0
ROWS_OF_PUBLISHED = "splits/fcd.npz"
PUBLISHED, AFTER = PRINTED["multiboost-cw"], "after rounds"
ROUNDS = PUBLISHED["rounds"]


class Setting(NamedTuple):
    """One way to train."""

    solver: str  # "fcd" or "lbfgs"
    tau_max: int
    C: float


def trained(source, setting, *, split):
    """Errors and seconds after some rounds, in a process of its own."""
    data = load(source.name, source.folder, whole=True)
    arguments = (setting, *_parts(data, split, source), data.n_classes)
    return limited(LIMIT_SECONDS, partial(_compile, setting), train_watched, *arguments)


def _parts(data, split, source):
    """Training and test part: the rows of the published code's runs, else 75 % at random.

    Features are quantised over all rows, to 256 levels between the extremes, padded by 0.01, as in
    the published code; MNIST is 8 bit as it is.
    """
    X, is_mnist = data.X, source.name == "mnist"
    if not is_mnist:
        low, high = X.min(axis=0).astype(float) - 0.01, X.max(axis=0).astype(float) + 0.01
        X = np.floor((X - low) / ((high - low) / 255) + 0.5)
    with np.load(source.folder / ROWS_OF_PUBLISHED) as file:
        key = "mnist1000" if is_mnist else source.name
        if f"{key}_train" in file:
            train = file[f"{key}_train"][split]
            test = np.atleast_2d(file[f"{key}_test"])[-1 if is_mnist else split]
        else:
            rows = np.random.default_rng(split).permutation(len(X))
            n_train = round(TRAIN_FRACTION * len(X))
            train, test = np.sort(rows[:n_train]), np.sort(rows[n_train:])
    return [Table(X[own].astype(np.uint8), data.y[own]) for own in (train, test)]


def _trainer(setting, n_classes, rounds, callbacks=None):
    """Not yet fitted; runs all its rounds unless pricing is exhausted."""
    common = {"tol": 0.0, "max_rounds": rounds, "columns_per_channel": 1, "random_state": 1}
    formulation = Exponential(setting.solver, setting.tau_max)
    own = {"C": setting.C, "formulation": formulation, "callbacks": callbacks, "pricing": "own"}
    return StructBoost(MulticlassTask(n_classes), **common, **own)


def _compile(setting):
    X = np.arange(24, dtype=np.uint8).reshape(12, 2)
    _trainer(setting, 3, 12).fit(X, np.repeat(np.arange(3), 4)).model_.scores(X)


def train_watched(setting, train, test, n_classes):
    """Errors and CPU seconds after some rounds, and facts of the last round."""
    cpu = []
    reset_peak_memory()
    began = time.process_time()
    watch = [lambda record, fitting: cpu.append(time.process_time() - began)]
    fitted = _trainer(setting, n_classes, ROUNDS[-1], watch).fit(train.X, train.y)
    peak_mb, last = peak_memory() / 1e6, fitted.history_[-1]
    facts = {"gap": certified_gap(last), "primal": last["primal"], "peak_mb": peak_mb}
    rows = []
    for rounds in ROUNDS:
        at = min(rounds, len(cpu)) - 1
        labels = fitted.model_.at_stage(at).scores(test.X).argmax(axis=1)
        about = {"value": float(np.mean(labels != test.y)), "seconds": cpu[at]}
        rows.append({"metric": AFTER, "rounds": rounds, **about})
    return {"rows": [*rows, {**rows[-1], "metric": "error", "rounds": None, **facts}]}


NAMES = ("vowel", "usps", "pendigits", "mnist", "isolet1")
C = 1e4
STAGE_WISE, CORRECTIVE, LBFGS = "multiboost_cw1", "multiboost_cw", "multiboost_cw_lbfgs"
# The other solver is compared on one split, but for mnist, where it takes minutes.
SETTINGS = {
    STAGE_WISE: Setting("fcd", 1, float("inf")),
    CORRECTIVE: Setting("fcd", 2, C),
    LBFGS: Setting("lbfgs", 2, C),
}
SPLITS, OTHER_SPLITS = {"vowel": 5}, 3


def learners(source):
    return {k: v for k, v in SETTINGS.items() if source.name != "mnist" or k != LBFGS}


def cases(source, learner):
    n = 1 if learner == LBFGS else SPLITS.get(source.name, OTHER_SPLITS)
    return [{"split": split} for split in range(n)]


FILES = {name: (*files, ROWS_OF_PUBLISHED) for name, files in tabular(*NAMES).items()}
EXPERIMENTS = [Experiment(FILES, learners, trained, cases, by=("rounds",))]


def derived(made):
    """Records beside the published code's errors and seconds on the same set."""
    own, more = {(r["dataset"], r["method"], r["rounds"]): r for r in made}, []
    for r in pick(made, metric="error"):
        name, method = r["dataset"], r["method"]
        theirs = PUBLISHED["errors"].get(method, {}).get(name, ())
        for rounds, (error, spread) in zip(ROUNDS, theirs, strict=False):
            last = own[name, method, rounds]
            more.append(record(name, f"published {method}", AFTER, error / 100, rounds=rounds))
            last["beyond"] = abs(round(100 * last["value"], 1) - error) - spread
        if theirs:  # beside the round that the published figures end with
            r["own_seconds"] = last["seconds"]
            r["reference_seconds"] = PUBLISHED["seconds"][method][name]
            r["times"] = r["reference_seconds"] / r["own_seconds"]
            figures = {
                "structboost": (last["value"], r["own_seconds"]),
                "published code": (error / 100, r["reference_seconds"]),
            }
            for label, (value, seconds) in figures.items():
                about = {"case": method, "seconds": seconds}
                more.append(record(name, label, "as published", value, **about))
    return [*made, *more]
