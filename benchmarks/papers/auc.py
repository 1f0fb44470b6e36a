"""AUC on Table 1's sets, each class against the rest: 1-slack, m-slack, RankBoost, LightGBM."""

from typing import NamedTuple

import numpy as np
from scipy.special import softmax
from scipy.stats import rankdata

from benchmarks.ours.methods import M_SLACK, ONE_SLACK, PAIR_RANKING, TIGHT, timed_fit
from benchmarks.ours.methods import PRINTED as AS_PRINTED
from benchmarks.papers import PRINTED
from benchmarks.peers.classifiers import LightGBMRanker, LightGBMStumpRanker
from benchmarks.runner.datasets import load, parts, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.limits import limited, run_limited
from benchmarks.runner.pages import across, blocks, field, listing
from benchmarks.runner.protocol import REPEATS, BestRounds, grid, splits, tuned
from benchmarks.runner.records import (
    grouped,
    less,
    lookup,
    mean,
    median,
    pick,
    ratio,
    record,
    std,
    summary,
)
from benchmarks.runner.targets import all_of, each, reach

MAX_ROUNDS, PATIENCE = 2000, 300


class StumpRanking(NamedTuple):
    """Score = sum of ``weight[t] * (x[feature[t]] > threshold[t])``."""

    feature: np.ndarray
    threshold: np.ndarray
    weight: np.ndarray


class RankBoost(BestRounds):
    """RankBoost.B; a weak ranking is a stump with values 0 and 1 over all distinct thresholds.

    Candidates differ in the criterion, Z itself or its bound by r ("third method" of section 3.2),
    and in the shrinkage of the weights. Boosting stops when the validation part has not improved
    for a long time.
    """

    name = "rankboost"
    candidates = grid(shrinkage=(1.0, 0.3, 0.1), criterion=("r", "Z"))

    def values(self, train, validation, params, objective):
        return boost(train, params, MAX_ROUNDS, validation)[1]

    def fit(self, train, params):
        return boost(train, params, params["rounds"])[0]

    def output(self, model, X):
        return (X[:, model.feature] > model.threshold) @ model.weight

    def facts(self, model):
        return {"rounds": len(model.weight)}


def boost(train, params, max_rounds, held=None):
    """Rounds of boosting, and the AUC of held-out rows after each of them.

    Where a stump is 1, positives weigh p and negatives q; r = p - q, and Z at the best weight is
    1 - (sqrt(p (1 - q)) - sqrt(q (1 - p)))^2. Weights are smoothed, so that a stump without wrong
    pairs has a finite one.
    """
    values = [np.unique(column) for column in train.X.T]
    offsets = np.cumsum([0, *(len(own) for own in values)])
    thresholds = np.concatenate(values)
    feature = np.repeat(np.arange(len(values)), np.diff(offsets))
    codes = np.column_stack([np.searchsorted(v, x) for v, x in zip(values, train.X.T, strict=True)])
    positive = train.y == 1
    rows = [((codes[side] + offsets[:-1]).ravel(), side) for side in (positive, ~positive)]
    smoothing = 1.0 / (positive.sum() * (~positive).sum())
    scores = np.zeros(len(train.y))
    held_scores = np.zeros(0 if held is None else len(held.y))
    chosen, weights, aucs = [], [], []
    for _ in range(max_rounds):
        v = pair_factors(scores, positive)
        p, q = (_above(own, v[side], offsets) for own, side in rows)
        wrong = q * (1.0 - p)
        right = p * (1.0 - q)
        if params["criterion"] == "Z":
            gains = np.abs(np.sqrt(np.maximum(right, 0.0)) - np.sqrt(np.maximum(wrong, 0.0)))
        else:
            right, wrong, gains = 1.0 + p - q, 1.0 - p + q, np.abs(p - q)
        gains[offsets[1:] - 1] = 0.0  # nothing is above the largest value
        best = int(np.argmax(gains))
        if gains[best] <= 1e-12:
            break
        ratio = (right[best] + smoothing) / (wrong[best] + smoothing)
        weights.append(0.5 * params["shrinkage"] * float(np.log(ratio)))
        chosen.append(best)
        scores += weights[-1] * (train.X[:, feature[best]] > thresholds[best])
        if held is not None:
            held_scores += weights[-1] * (held.X[:, feature[best]] > thresholds[best])
            aucs.append(auc(held_scores, held.y == 1))
            if len(aucs) - 1 - int(np.argmax(aucs)) >= PATIENCE:
                break
    index = np.array(chosen, np.int64)
    return StumpRanking(feature[index], thresholds[index], np.array(weights)), aucs


def pair_factors(scores, positive):
    """v of each row: pair (x0, x1) has weight v(x0) v(x1); v sums to 1 on either side."""
    v = np.empty(len(scores))
    v[positive], v[~positive] = softmax(-scores[positive]), softmax(scores[~positive])
    return v


def _above(rows, v, offsets):
    """Weight of the rows above each value of each feature."""
    n_features = len(offsets) - 1
    at = np.bincount(rows, np.repeat(v, n_features), offsets[-1])
    below = np.cumsum(at)
    return np.repeat(below[offsets[1:] - 1], np.diff(offsets)) - below


def auc(scores, positive):
    """Fraction of the pairs in the right order, ties counting half."""
    n = int(positive.sum())
    ranks = rankdata(scores)[positive].sum()
    return float((ranks - n * (n + 1) / 2) / (n * (len(scores) - n)))


NAMES = ("wine", "glass", "svmguide2", "svmguide4", "vowel", "dna", "segment", "satimage")
OURS, LARGE = TIGHT.name, ("segment", "satimage")
PEERS = (RankBoost(), LightGBMStumpRanker(), LightGBMRanker())
# The slow formulations, the printed one on the large sets only, run on the first repeat, at C =
# 1000, for at most 60 times the seconds of 1-slack beside them: a target is 50 times. An easy class
# is no test, nor is the C that it would be given. On segment three classes are trivial, which the
# others must make up for in the sum.
LIMIT_RATIOS, LIMIT_SECONDS = {"segment": 150.0}, 600.0
MANY_PAIRS = 10_000
# Table 1: AUC and its deviation, seconds, and both of the m-slack formulation where it has them.
TABLE_1 = PRINTED["auc"]


def classes(source):
    """Classes that are ranked above the rest."""
    return range(load(source.name, source.folder).n_classes)


def cases(source, learner):
    return [{"class": c, **one} for one in splits(REPEATS) for c in classes(source)]


def slow_cases(source, learner):
    limits = {"limit_ratio": LIMIT_RATIOS.get(source.name, 60.0), "limit_seconds": LIMIT_SECONDS}
    return [{"class": c, "repeat": 0, "C": 1000.0, **limits} for c in classes(source)]


def slow(source):
    methods = (M_SLACK, AS_PRINTED) if source.name in LARGE else (M_SLACK,)
    return {method.name: method for method in methods}


def compare(source, method, *, C, limit_ratio, **case):
    """Time 1-slack and then, in the same run, another formulation to the same gap at the same C."""
    data = load(source.name, source.folder)
    labels = data.one_against_rest(case["class"])
    train, _, test = parts(data.X, labels, data.y, case["repeat"])
    ours = run_limited(LIMIT_SECONDS, timed_fit, ONE_SLACK, train, test, C)
    own = ours.result.get("seconds", ours.seconds)
    limit = min(limit_ratio * own, LIMIT_SECONDS)
    theirs = limited(limit, timed_fit, method, train, test, C)
    seconds = theirs.get("seconds", limit)
    return {
        **{"value": None, "gap": None, **theirs, "C": C},
        **{"seconds": seconds, "seconds_1slack": own, "ratio": seconds / own},
        "pairs": int(train.y.sum()) * int((1 - train.y).sum()),
    }


COMMON = {"metrics": {"auc": "value"}, "by": ("class",)}
SETS = tabular(*NAMES)
EXPERIMENTS = [
    Experiment(
        SETS, {one.name: one for one in (TIGHT, PAIR_RANKING, *PEERS)}, tuned, cases, **COMMON
    ),
    Experiment(SETS, slow, compare, slow_cases, **COMMON),
]


def derived(made):
    """Records with the mean over the classes, repeat by repeat, beside those of the classes."""
    means = []
    for (name, method), own in grouped(((r["dataset"], r["method"]), r) for r in made).items():
        values = [mean(of_repeat) for of_repeat in zip(*(r["each"] for r in own), strict=False)]
        fields = {**summary(own), "value": mean(values), "std": std(values), "each": values}
        fields |= {"class": "mean", "repeats": len(values)}
        if "ratio" in own[0]:
            fields["ratio"] = sum(r["seconds"] for r in own) / sum(r["seconds_1slack"] for r in own)
        fields = {k: v for k, v in fields.items() if k not in ("dataset", "method", "metric")}
        means.append(record(name, method, "auc", **fields))
    return [*made, *means]


def _best(made, name):
    """Class of the highest AUC beside Table 1's figure, which names no class."""
    own = [r for r in pick(made, dataset=name, method=OURS) if r["class"] != "mean"]
    best = max(own, key=lambda r: r["value"])
    printed = {"printed": TABLE_1[name][0], "printed_seconds": TABLE_1[name][2]}
    return {"best": best["class"], "auc": best["value"], **printed}


def show(made):
    means = pick(made, **{"class": "mean"})
    ours = [{**r, **_best(made, r["dataset"])} for r in pick(means, method=OURS)]
    figures = listing(
        ours,
        field("", "dataset"),
        field("best class", "best"),
        field("its AUC", "auc", "{:.2%}"),
        field("Table 1", "printed", "{:.1%}"),
        field("CPU s of a fit", "seconds", "{:.2f}"),
        field("Table 1, s", "printed_seconds"),
        field("worst gap", "gap", "{:.2%}"),
        field("at C = 1000", "gap_at_1000", "{:.2%}"),
    )
    return blocks(
        across("Test AUC, mean over the classes", means, form="{:.2%}"),
        figures,
        across("Seconds over those of 1-slack, all classes, C = 1000", means, "ratio", "{:.1f}"),
    )


def targets(made):
    means = pick(made, **{"class": "mean"})
    at = lookup(means, "dataset", "method")
    there = [r["dataset"] for r in pick(means, method=OURS)]
    n = len(NAMES)

    def small(wanted, key):
        gaps = [(s, at(s, OURS, name=key)) for s in there]
        return all_of(wanted, [(s, gap is not None and gap <= ONE_SLACK.gap) for s, gap in gaps], n)

    def at_least(wanted, method, least, sets):
        holds = each(at, sets, lambda ratio: ratio >= least, method.name, name="ratio")
        return all_of(wanted, holds, len(sets))

    near = [(s, _best(made, s)["auc"] >= TABLE_1[s][0] - 0.01) for s in there]
    many = [r["dataset"] for r in pick(means, method=M_SLACK.name) if r["pairs"] > MANY_PAIRS]
    beside = {
        peer.name: each(at, there, lambda own, other: own >= other - 0.01, OURS, peer.name)
        for peer in PEERS
    }
    seconds = at("satimage", OURS, name="seconds")
    over = [
        ratio(*(less(1.0, at(s, method)) for method in (PAIR_RANKING.name, "lightgbm")))
        for s in NAMES
    ]
    return [
        small("certified gap of 1 % at the chosen C", "gap"),
        small("certified gap of 1 % at C = 1000", "gap_at_1000"),
        all_of("some class within 0.01 of Table 1", near, n),
        *(all_of(f"mean AUC at most 0.01 below {m}'s", own, n) for m, own in beside.items()),
        at_least("50 times faster than Algorithm 2 as printed", AS_PRINTED, 50.0, LARGE),
        at_least("3 times faster than m-slack above 10,000 pairs", M_SLACK, 3.0, many),
        reach("a fit of satimage in a minute, seconds", seconds, "<=", 60),
        reach("1 - AUC of pair trees over LightGBM's, median", median(over), "<=", 1.05),
    ]
