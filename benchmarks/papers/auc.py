"""AUC on Table 1's sets, each class against the rest: 1-slack, m-slack, LightGBM."""

import numpy as np

from benchmarks.ours.methods import M_SLACK, ONE_SLACK, PAIR_RANKING, TIGHT, timed_fit
from benchmarks.ours.methods import PRINTED as AS_PRINTED
from benchmarks.papers import PRINTED
from benchmarks.peers.classifiers import LightGBMRanker, LightGBMStumpRanker
from benchmarks.runner.datasets import load, parts, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.machine import limited
from benchmarks.runner.protocol import REPEATS, splits, tuned
from benchmarks.runner.records import grouped, mean, record, std, summary

NAMES = ("wine", "glass", "svmguide2", "svmguide4", "vowel", "dna", "segment", "satimage")
LARGE = ("segment", "satimage")
# The slow formulations, the printed one on the large sets only, run on the first repeat, at C =
# 1000, for at most 60 times the seconds of 1-slack beside them: a target is 50 times. An easy class
# is no test, nor is the C that it would be given. On segment three classes are trivial, which the
# others must make up for in the sum.
LIMIT_RATIOS, LIMIT_SECONDS, SLOW_C = {"segment": 150.0}, 600.0, 1000.0
# Table 1: AUC and its deviation, seconds, and both of the m-slack formulation where it has them.
TABLE_1 = PRINTED["auc"]
SETS = tabular(*NAMES)
METHODS = (TIGHT, PAIR_RANKING, LightGBMStumpRanker(), LightGBMRanker())


def cases(source, learner):
    """Each class is ranked above the rest."""
    classes = range(load(source.name, source.folder).n_classes)
    return [{"class": c, **one} for one in splits(REPEATS) for c in classes]


def slow_cases(source, learner):
    return [{"class": one["class"]} for one in cases(source, learner) if one["repeat"] == 0]


def slow(source):
    methods = (M_SLACK, AS_PRINTED) if source.name in LARGE else (M_SLACK,)
    return {method.name: method for method in methods}


def compare(source, method, **case):
    """Time 1-slack and then, in the same run, another formulation to the same gap at the same C."""
    data = load(source.name, source.folder)
    binary = data._replace(y=(data.y == case["class"]).astype(np.int64))
    train, _, test = parts(binary, 0, data.y)
    ours = limited(LIMIT_SECONDS, ONE_SLACK.warm_up, timed_fit, ONE_SLACK, train, test, SLOW_C)
    own = ours.get("seconds", LIMIT_SECONDS)
    limit = min(LIMIT_RATIOS.get(source.name, 60.0) * own, LIMIT_SECONDS)
    theirs = limited(limit, method.warm_up, timed_fit, method, train, test, SLOW_C)
    seconds = theirs.get("seconds", limit)
    return {
        **{"value": None, "gap": None, **theirs, "C": SLOW_C},
        **{"seconds": seconds, "seconds_1slack": own, "ratio": seconds / own},
    }


COMMON = {"metrics": {"auc": "value"}, "by": ("class",)}
EXPERIMENTS = [
    Experiment(SETS, {one.name: one for one in METHODS}, tuned, cases, **COMMON),
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
        else:
            fields["error"] = 1 - fields["value"]
        if method == TIGHT.name:  # beside Table 1's figure, which names no class
            best = max(own, key=lambda r: r["value"])
            fields |= {"best": best["class"], "best_auc": best["value"]}
            fields |= {"printed": TABLE_1[name][0], "printed_seconds": TABLE_1[name][2]}
        means.append(record(**{**fields, "dataset": name, "method": method, "metric": "auc"}))
    return [*made, *means]
