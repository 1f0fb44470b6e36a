"""Every public face, with parameters that make it fast and, for trainers, examples."""

from __future__ import annotations

import numpy as np

from structboost import (
    AdaBoostECCClassifier,
    AdaBoostMHClassifier,
    AdaBoostMOClassifier,
    BinaryTask,
    ChainTask,
    CrossFitted,
    GraphTask,
    MatchingTask,
    MultiBoostClassifier,
    MultiBoostCWClassifier,
    MultiBoostECCClassifier,
    MultiBoostMOClassifier,
    MulticlassTask,
    MultiLabelTask,
    PredictThenOptimize,
    RankingTask,
    ShareBoostClassifier,
    StructBoost,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
    StructuredSVM,
    StructuredSVMClassifier,
)
from structboost.decisions import Choose
from structboost.segmentation import CRFSettings, Segmenter, UnarySettings
from structboost.tasks import GraphInput
from structboost.text import TokenFeatures, TwoStageTagger

N = 42
HINGE = {"objective": "hinge", "C": 5.0, "tol": 0.1}


def _tree():
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_depth=2, random_state=0)


# Name, estimator, kind of inputs (None: the first of the class).
FACES = {
    "StructBoostClassifier": (StructBoostClassifier(max_iter=4), None),
    "StructBoostClassifier, hinge": (StructBoostClassifier(**HINGE, max_iter=6), None),
    "MultiBoostCWClassifier": (MultiBoostCWClassifier(max_rounds=4), None),
    "MultiBoostClassifier": (MultiBoostClassifier(max_rounds=4), None),
    "MultiBoostMOClassifier": (MultiBoostMOClassifier(max_rounds=4), None),
    "MultiBoostECCClassifier": (MultiBoostECCClassifier(max_rounds=4), None),
    "AdaBoostMHClassifier": (AdaBoostMHClassifier(max_rounds=4), None),
    "AdaBoostMOClassifier": (AdaBoostMOClassifier(max_rounds=4), None),
    "AdaBoostECCClassifier": (AdaBoostECCClassifier(max_rounds=4), None),
    "ShareBoostClassifier": (ShareBoostClassifier(max_rounds=3), None),
    "StructuredSVMClassifier": (StructuredSVMClassifier(tol=0.1, max_epochs=20), None),
    "StructBoostMultiLabelClassifier": (StructBoostMultiLabelClassifier(max_iter=4), None),
    "StructBoostMultiLabelClassifier, hinge": (
        StructBoostMultiLabelClassifier(**HINGE, max_iter=5),
        None,
    ),
    "StructBoostRanker": (StructBoostRanker(max_iter=4), None),
    "StructBoostRanker, hinge": (StructBoostRanker(**HINGE, max_iter=5), None),
    "StructBoostTagger": (StructBoostTagger(max_iter=2), None),
    "StructBoostTagger, hinge": (StructBoostTagger(**HINGE, max_iter=3), None),
    "StructBoostTagger, dicts": (StructBoostTagger(), "tags of dicts"),
    "TwoStageTagger": (TwoStageTagger(StructBoostTagger(C=1.0), folds=2), None),
    "TokenFeatures": (TokenFeatures(window=1), None),
    "PredictThenOptimize": (
        PredictThenOptimize(Choose(3, 1), C=5.0, tol=0.1, start="none", random_state=0),
        None,
    ),
    "CrossFitted": (CrossFitted(_tree(), folds=2), None),
    "CrossFitted, label sets": (CrossFitted(_tree(), folds=2), "label sets"),
    "CrossFitted, sequences": (CrossFitted(_tree(), folds=2), "tags"),
}
SLOW_FACES = {
    "Segmenter": (
        Segmenter(
            n_segments=4,
            C=1.0,
            crf=CRFSettings(max_rounds=2),
            unaries=UnarySettings(n_folds=2, group_rounds=1),
        ),
        None,
    )
}


def task_examples():
    """Tasks with small inputs and outputs, by name."""
    random = np.random.default_rng(0)
    rows = random.integers(-6, 7, (N, 3)).astype(float)
    classes = np.digitize(rows[:, 0] + random.normal(size=N), [-2, 2])
    chains = [random.integers(-6, 7, (n, 2)).astype(float) for n in random.integers(2, 5, N)]
    signs = [(x[:, 0] + 4 * random.normal(size=len(x)) > 0).astype(int) for x in chains]
    edges = np.array([[0, 1], [1, 2]])
    nodes = [random.integers(-6, 7, (3, 2)).astype(float) for _ in range(N)]
    pairs = [random.integers(-6, 7, (3, 3, 2)).astype(float) for _ in range(N)]
    sets = (rows[:, :3] > 0).astype(int)
    return {
        "binary": (BinaryTask(), list(rows), np.where(classes > 0, 1, -1)),
        "multi-class": (MulticlassTask(3), list(rows), classes),
        "label sets": (MultiLabelTask(3), list(rows), list(sets)),
        "chain": (ChainTask(2), chains, signs),
        "graph": (
            GraphTask(2),
            [GraphInput(x, edges) for x in nodes],
            [(x[:, 0] > 0).astype(int) for x in nodes],
        ),
        "matching": (
            MatchingTask(),
            pairs,
            [random.permutation(3) if x[0, 0, 0] < 0 else np.arange(3) for x in pairs],
        ),
        "ranking": (
            RankingTask(),
            nodes,
            [(x[:, 0] > np.median(x[:, 0])).astype(int) for x in nodes],
        ),
    }


def faces():
    """Iterate over name, estimator, X, y and kind of all fast faces."""
    for name, (estimator, kind) in FACES.items():
        yield name, estimator, None, None, kind
    for name, (task, X, Y) in task_examples().items():
        yield f"StructBoost, {name}", StructBoost(task, C=5.0, tol=0.1, max_rounds=3), X, Y, None
        yield (
            f"StructuredSVM, {name}",
            StructuredSVM(task, C=5.0, tol=0.1, max_epochs=8),
            X,
            Y,
            None,
        )
