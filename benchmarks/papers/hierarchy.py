"""Hierarchical classification as in Table 3 of StructBoost, on other data with trees of classes."""

from dataclasses import replace

from scipy.stats import ttest_rel

from benchmarks.ours import methods as ours
from benchmarks.runner.datasets import load, parts, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.pages import across, blocks, field, listing
from benchmarks.runner.protocol import ERROR, Objective, measure, splits
from benchmarks.runner.records import lookup, mean, pick, record, summary
from benchmarks.runner.targets import all_of
from structboost import TaxonomyTask


def _letters(letters):
    return [ord(letter) - 65 for letter in letters]


# Natural trees of the classes, as dicts of class numbers.
TAXONOMIES = {
    # Red soil; grey, damp grey and very damp grey soil; cotton crop, soil with vegetation stubble.
    "satimage": {"soil": {0: None, "grey": [2, 3, 5]}, "plants": [1, 4]},
    # Man-made: brickface, cement, window, path. Natural: sky, and foliage with grass.
    "segment": {"made": [0, 3, 4, 5], "natural": {1: None, "green": [2, 6]}},
    # Letters by the vowel of their English names: B ee, A ay, F eh, Q oo, I eye, R ah, O oh.
    "isolet1": {
        "front": {"ee": _letters("BCDEGPTVZ"), "ay": _letters("AHJK")},
        "open": {"eh": _letters("FLMNSX")},
        "round": {"oo": _letters("QUW"), 14: None},
        "low": {"eye": _letters("IY"), 17: None},
    },
}
TREE, FLAT = "structboost_tree_stumps", "structboost_flat_stumps"
TREE_SVM, FLAT_SVM = "structboost_tree_svm", "structboost_flat_svm"
PAIRS = {"stumps": (TREE, FLAT), "linear SVMs": (TREE_SVM, FLAT_SVM)}
STAGE_WISE = (
    replace(ours.ADA_ECC, name="adaboost_ecc_stumps"),
    replace(ours.ADA_MH, name="adaboost_mh_stumps"),
)
STAGE_NAMES = {one.name for one in (*STAGE_WISE, ours.ADA_ECC_SVM)}


def learners(source):
    """With the tree, and without; the stage-wise methods of the paper's table, and its grid.

    On isolet1, where a fit over linear SVMs takes minutes, there are only stumps.
    """
    tree, own = TAXONOMIES[source.name], {"candidates": ours.powers(0, 3)}
    # A fit of isolet1 to 2 % takes minutes.
    stumps = {**own, "gap": 0.1 if source.name == "isolet1" else 0.02}
    made = [ours.Multiclass(TREE, **stumps, taxonomy=tree), ours.Multiclass(FLAT, **stumps)]
    if source.name != "isolet1":
        settings = {"weak_learner": "svm", "columns_per_channel": 1}
        svms = {**own, "gap": 0.02, "spreads": False, "settings": settings}
        made += ours.Multiclass(TREE_SVM, **svms, taxonomy=tree), ours.Multiclass(FLAT_SVM, **svms)
        made.append(ours.ADA_ECC_SVM)
    return {one.name: one for one in (*made, *STAGE_WISE)}


def cases(source, learner):
    n = 3 if source.name == "isolet1" or learner in STAGE_NAMES else 5
    return [{"tree": TAXONOMIES[source.name], **one} for one in splits(n)]


def by_tree(source, method, *, tree, repeat, candidates):
    """Tree loss, the mean height of the first common ancestor, and error on one split."""
    data, losses = load(source.name, source.folder), TaxonomyTask(tree).tree.losses()
    tree_loss = Objective("tree_loss", lambda y, labels: float(losses[y, labels].mean()), -1)
    return measure(method, tree_loss, parts(data.X, data.y, data.y, repeat), candidates, (ERROR,))


METRICS = {"tree_loss": "value", "error": "error"}
EXPERIMENTS = [Experiment(tabular(*TAXONOMIES), learners, by_tree, cases, METRICS)]


def derived(made):
    """Records of the tree loss with the tree less that without, split by split."""
    losses = pick(made, metric="tree_loss")
    at = lookup(losses, "dataset", "method")
    for name in dict.fromkeys(r["dataset"] for r in losses):
        for title, (tree, flat) in PAIRS.items():
            both = [at(name, method, name="each") for method in (tree, flat)]
            if None not in both and len(both[0]) == len(both[1]) > 1:
                apart = [{"value": a - b} for a, b in zip(*both, strict=True)]
                fields = {**summary(apart), "p": ttest_rel(*both).pvalue}
                made.append(record(name, f"{title}, tree - flat", "difference", **fields))
    return made


def show(made):
    losses = pick(made, metric="tree_loss")
    pairs = [
        {**r, "splits": " ".join(f"{v:+.4f}" for v in r["each"])}
        for r in pick(made, metric="difference")
    ]
    return blocks(
        "**Tree loss with the tree less that without, by a paired t-test over the splits**"
        if pairs
        else "",
        listing(
            pairs,
            field("data set", "dataset"),
            field("weak learners", "method"),
            field("difference", "value", "{:+.4f}"),
            field("p", "p", "{:.2f}"),
            field("each split", "splits"),
        ),
        across("Test tree loss (mean height of the first common ancestor)", losses, form="{:.4f}"),
        across("Test error", pick(made, metric="error"), form="{:.2%}"),
        across("CPU seconds of one fit", losses, "seconds"),
    )


def targets(made):
    at = lookup(pick(made, metric="tree_loss"), "dataset", "method")
    met = {}
    for title, pair in PAIRS.items():
        met[title] = below = []
        for name in TAXONOMIES:
            tree, flat = (at(name, method, name="each") for method in pair)
            if tree and flat:
                below.append((name, mean(a - b for a, b in zip(tree, flat, strict=False)) < 0))
    wanted = "mean tree loss with the tree below that without, {}"
    return [
        all_of(wanted.format("stumps"), met["stumps"], len(TAXONOMIES)),
        all_of(wanted.format("linear SVMs"), met["linear SVMs"], len(TAXONOMIES) - 1),
    ]
