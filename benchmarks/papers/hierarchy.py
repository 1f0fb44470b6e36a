"""Hierarchical classification as in Table 3 of StructBoost, on other data with trees of classes."""

from dataclasses import replace

from benchmarks.ours import methods as ours
from benchmarks.runner.datasets import load, parts, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.protocol import ERROR, Objective, measure, splits
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
    return splits(3 if source.name == "isolet1" or learner in STAGE_NAMES else 5)


def by_tree(source, method, *, repeat, candidates):
    """Tree loss, the mean height of the first common ancestor, and error on one split."""
    tree = TaxonomyTask(TAXONOMIES[source.name]).tree.losses()
    tree_loss = Objective("tree_loss", lambda y, labels: float(tree[y, labels].mean()), -1)
    split = parts(load(source.name, source.folder), repeat)
    return measure(method, tree_loss, split, candidates, ERROR)


EXPERIMENTS = [
    Experiment(
        *(tabular(*TAXONOMIES), learners, by_tree, cases),
        {"tree_loss": "value", "error": "error"},
    )
]
