"""Hierarchical classification as in Table 3 of StructBoost, on other data with trees of classes."""

from dataclasses import replace

from benchmarks.ours import methods as ours
from benchmarks.runner.datasets import load, parts, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.pages import across, blocks
from benchmarks.runner.protocol import ERROR, Objective, measure, splits
from benchmarks.runner.records import lookup, mean, pick
from benchmarks.runner.targets import all_of
from structboost import TaxonomyTask


def _letters(groups):
    return [[ord(letter) - ord("A") for letter in group] for group in groups.split()]


# Natural trees of the classes, as nested lists of class numbers.
TAXONOMIES = {
    # Red soil; grey, damp grey and very damp grey soil; cotton crop, soil with vegetation stubble.
    "satimage": [[0, [2, 3, 5]], [1, 4]],
    # Man-made: brickface, cement, window, path. Natural: sky, and foliage with grass.
    "segment": [[0, 3, 4, 5], [1, [2, 6]]],
    # Letters by the vowel of their English names: B ee, A ay, F eh, Q oo, I eye, R ah, O oh.
    "isolet1": [
        [*_letters("BCDEGPTVZ AHJK")],
        [*_letters("FLMNSX")],
        [*_letters("QUW"), 14],
        [*_letters("IY"), 17],
    ],
}
# Where a fit to 2 % takes minutes.
GAPS = {"isolet1": 0.1}
TREE, FLAT = "structboost_tree_stumps", "structboost_flat_stumps"
STAGE_WISE = (
    replace(ours.ADA_ECC, name="adaboost_ecc_stumps"),
    replace(ours.ADA_MH, name="adaboost_mh_stumps"),
    ours.ADA_ECC_SVM,
)


def learners(source):
    """With the tree, and without; the stage-wise methods of the paper's table, and its grid."""
    own = {"gap": GAPS.get(source.name, 0.02), "candidates": ours.powers(0, 3)}
    tree = ours.Multiclass(TREE, **own, taxonomy=TAXONOMIES[source.name])
    return {one.name: one for one in (tree, ours.Multiclass(FLAT, **own), *STAGE_WISE)}


def cases(source, learner):
    n = 1 if (source.name, learner) == ("isolet1", ours.ADA_ECC_SVM.name) else 3
    return [{"tree": TAXONOMIES[source.name], **one} for one in splits(n, source.quick)]


def by_tree(source, method, *, tree, repeat, candidates):
    """Tree loss, the mean height of the first common ancestor, and error on one split."""
    data, losses = load(source.name, source.folder), TaxonomyTask(tree).tree.losses()
    tree_loss = Objective("tree_loss", lambda y, labels: float(losses[y, labels].mean()), -1)
    return measure(method, tree_loss, parts(data.X, data.y, data.y, repeat), candidates, (ERROR,))


METRICS = {"tree_loss": "value", "error": "error"}
SETS = tabular(*TAXONOMIES)
EXPERIMENTS = [Experiment(SETS, learners, by_tree, cases, METRICS, small=("segment",))]


def show(made):
    losses = pick(made, metric="tree_loss")
    return blocks(
        across("Test tree loss (mean height of the first common ancestor)", losses, form="{:.4f}"),
        across("Test error", pick(made, metric="error"), form="{:.2%}"),
        across("CPU seconds of one fit", losses, "seconds"),
    )


def targets(made):
    at = lookup(pick(made, metric="tree_loss"), "dataset", "method")
    below = []
    for name in TAXONOMIES:
        tree, flat = (at(name, method, name="each") for method in (TREE, FLAT))
        if tree and flat:
            below.append((name, mean(a - b for a, b in zip(tree, flat, strict=False)) < 0))
    return [all_of("mean tree loss with the tree below that without", below, len(TAXONOMIES))]
