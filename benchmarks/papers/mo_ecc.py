"""MultiBoost.MO and .ECC against the AdaBoosts they correct: Tables II to IV, on 6 of 8 sets."""

from functools import partial

import numpy as np
from scipy.stats import ranksums
from sklearn.model_selection import train_test_split

from benchmarks.ours.methods import certified_gap, class_scores_of
from benchmarks.papers import PRINTED
from benchmarks.runner.datasets import Table, load, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.pages import across, beside, blocks
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.records import lookup, pick
from benchmarks.runner.targets import all_of
from structboost import (
    AdaBoostECCClassifier,
    AdaBoostMOClassifier,
    MultiBoostECCClassifier,
    MultiBoostMOClassifier,
)
from structboost.faces.coded import THETAS
from structboost.tasks import CodedTask

ROUNDS = (50, 100, 500)
VALIDATION_ROUNDS = 100
FACES = {
    "mo": (AdaBoostMOClassifier, MultiBoostMOClassifier),
    "ecc": (AdaBoostECCClassifier, MultiBoostECCClassifier),
}
HELD_OUT = "held_out"


def compare(code, weak_learner, theta, train, test, seed):
    """Both methods on one split, under the same codes: errors and margins.

    The norm of a corrective model of T rounds is the sum of the stage-wise weights after T rounds,
    or one for all T, chosen from the paper's grid on a quarter of the training rows.
    """
    common = {"weak_learner": weak_learner, "random_state": seed, "exact": True}
    stage_wise_face, corrective_face = (partial(face, **common) for face in FACES[code])
    validated = None
    corrective = {}
    longest = stage_wise_face(max_rounds=max(ROUNDS))
    fitted, seconds = cpu_timed(longest.fit, train.X, train.y)
    stage_wise = {"seconds": seconds}
    if theta == HELD_OUT:
        validated = held_out_theta(corrective_face, train, seed)
    for rounds in ROUNDS:
        stage = fitted.model_.at_stage(min(rounds, fitted.model_.n_stages) - 1)
        stage_wise[str(rounds)] = _facts(fitted, stage, train, test)
        norm = validated or float(stage.weights.sum())
        model = corrective_face(max_rounds=rounds, theta=norm, tol=1e-6)
        model, corrective["seconds"] = cpu_timed(model.fit, train.X, train.y)
        corrective[str(rounds)] = {
            **_facts(model, model.model_, train, test),
            **{"theta": model.theta_, "gap": certified_gap(model.history_[-1])},
        }
    value = corrective[str(max(ROUNDS))]["test_error"]
    return {"stage_wise": stage_wise, "corrective": corrective, "value": value}


def held_out_theta(face, train, seed):
    """Norm of the lowest error on a quarter of the training rows; the smallest of several.

    The paper has five folds; those cost five times as much.
    """
    X, held_X, y, held_y = train_test_split(
        train.X, train.y, test_size=0.25, stratify=train.y, random_state=seed
    )
    errors = []
    for theta in THETAS:
        model = face(max_rounds=VALIDATION_ROUNDS, theta=float(theta), tol=1e-6).fit(X, y)
        errors.append(float(np.mean(model.predict(held_X) != held_y)))
    return float(THETAS[int(np.argmin(errors))])


def _facts(estimator, model, train, test):
    """Errors, and the smallest margin of the training examples over the l1 norm of the weights."""
    task = estimator.task_
    scores, test_scores = (model.scores(part.X) for part in (train, test))
    by_class, test_by_class = (class_scores_of(task, s) for s in (scores, test_scores))
    norm = max(model.weights.sum(), 1e-300)
    return {
        "train_error": float(np.mean(by_class.argmax(axis=1) != train.y)),
        "test_error": float(np.mean(test_by_class.argmax(axis=1) != test.y)),
        "min_margin": float(_pair_margins(task, train.y, scores).min() / norm),
    }


def _pair_margins(task, y, scores):
    """Margins of all pairs: bits of the code, or wrong classes."""
    if isinstance(task, CodedTask):
        return (task.code[y] * scores).ravel()
    rows = np.arange(len(y))
    others = np.ones(scores.shape, bool)
    others[rows, y] = False
    return (scores[rows, y][:, None] - scores)[others]


NAMES = ("svmguide2", "svmguide4", "wine", "iris", "glass", "dna")
# MO has 31 bits on six classes; 20 splits in the paper.
REPEATS, USUAL_REPEATS = {"dna": 3, "svmguide4": 3, "glass": 5}, 10
# The paper validates the norm on its large sets; so here.
VALIDATED = ("dna",)
# Training rows where the paper has a given partition; elsewhere 70 %.
TRAIN_ROWS = {"svmguide4": 300, "dna": 2000}
SETTINGS = {"mo_stump": ("mo", "stump"), "ecc_stump": ("ecc", "stump"), "ecc_lda": ("ecc", "lda")}
KINDS = {"stage_wise": "adaboost", "corrective": "multiboost"}
ADA, MULTI = KINDS.values()
# Test errors of the corrective method by setting and data set: mean and standard deviation after
# each number of rounds.
PAPER = PRINTED["mo-ecc"]


def cases(source, learner):
    n = REPEATS.get(source.name, USUAL_REPEATS)
    theta = HELD_OUT if source.name in VALIDATED else "stage_wise"
    return [{"repeat": k, "theta": theta} for k in range(n)]


def both(source, setting, *, repeat, theta):
    """Both methods on one split, stratified by class."""
    data = load(source.name, source.folder)
    size = TRAIN_ROWS.get(source.name, 0.7)
    X, test_X, y, test_y = train_test_split(
        data.X, data.y, train_size=size, stratify=data.y, random_state=repeat
    )
    return compare(*setting, theta, Table(X, y), Table(test_X, test_y), repeat)


def _rows(result):
    """A row for each method and number of rounds."""
    return [
        {**result[kind][str(rounds)], "prefix": prefix, "rounds": rounds}
        for kind, prefix in KINDS.items()
        for rounds in ROUNDS
    ]


EXPERIMENTS = [
    Experiment(
        *(tabular(*NAMES), SETTINGS, both, cases),
        metrics={"error": "test_error"},
        by=("prefix", "rounds"),
        rows=_rows,
    )
]


def derived(made):
    """Records named by method and setting, with the paper's figures."""
    for r in made:
        r["setting"], r["paper_std"] = r["method"], None
        r["method"] = f"{r['prefix']}_{r['setting']}"
        if r["prefix"] == MULTI:
            of_rounds = PAPER[r["setting"]][r["dataset"]]
            r["paper"], r["paper_std"] = of_rounds[ROUNDS.index(r["rounds"])]
    return made


def show(made):
    of_kinds = [{**r, "method": r["prefix"]} for r in made]
    ranks = []
    for setting in SETTINGS if made else ():  # Wilcoxon's tests over the sets (Table IV)
        for rounds in ROUNDS:
            own = [pick(made, setting=setting, rounds=rounds, prefix=p) for p in (ADA, MULTI)]
            p = ranksums(*([r["value"] for r in one] for one in own)).pvalue
            ranks.append({"setting": setting, "method": f"T={rounds}", "value": float(p)})
    rows = ("dataset", "setting", "rounds")
    facts = {"test error": ("value", "{:.1%}"), "in the paper": ("paper", "{:.1%}")}
    facts |= {"training": ("train_error", "{:.2%}"), "margin": ("min_margin", "{:.4f}")}
    head = "Errors, and the smallest margin of the training examples over the l1 norm, mean"
    return blocks(
        beside(head, of_kinds, facts, rows=rows),
        across("p of the rank sums of the mean errors", ranks, form="{:.3f}", rows=("setting",)),
    )


def targets(made):
    lower, printed = [], []
    at = lookup(made, "dataset", "setting", "rounds", "prefix")
    for r in pick(made, prefix=MULTI):
        name = f"{r['dataset']} {r['setting']} {r['rounds']}"
        other = at(r["dataset"], r["setting"], r["rounds"], ADA, name="train_error")
        if r["rounds"] < max(ROUNDS) and other:
            lower.append((name, r["train_error"] <= other))
        printed.append((name, r["value"] <= r["paper"] + r["paper_std"]))
    n_all = len(NAMES) * len(SETTINGS) * len(ROUNDS)
    wanted = "training error at 50 and 100 rounds at most the stage-wise one, where that is not 0"
    return [
        all_of(wanted, lower),
        all_of("test error at most the table's plus one deviation", printed, n_all),
    ]
