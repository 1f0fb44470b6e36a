"""All kinds of files: how one is made in a folder, which file is damaged, and its use."""

from collections.abc import Iterator
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_iris

from examples.synthetic_images import make_synthetic_images
from structboost import (
    BinnedTable,
    MulticlassTask,
    PredictThenOptimize,
    StructBoost,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
    StructuredSVM,
)
from structboost.decisions import Choose
from structboost.learners.patch import PatchFamily
from structboost.objectives import Exponential
from structboost.segmentation.crf import CRFSettings
from structboost.segmentation.segmenter import Segmenter
from structboost.segmentation.unaries import UnarySettings

X, Y = load_iris(return_X_y=True)
X, Y = X[::5], Y[::5]
PIXELS = np.random.default_rng(0).random((30, 64))
HINGE = {"objective": "hinge", "C": 10, "max_iter": 3}
METHODS = (
    "predict", "predict_proba", "predict_marginals", "predict_costs", "scores",
    "staged_decision_function",
)  # fmt: skip
FACTS = ("history_", "feature_importances_", "transitions_", "path_")


class Kind(NamedTuple):
    """A kind of file: ``make(folder)`` writes it as ``file``, ``use(folder)`` reads it."""

    make: object
    use: object
    file: str = "file"


def plain(value):
    """Return nested lists of a result, in which every bit shows."""
    value = getattr(value, "rows", value)
    if isinstance(value, dict):
        return {key: plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple | Iterator):
        return [plain(own) for own in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def model(estimator, X, y, *loaded_with, methods=METHODS, **more):
    """Kind of the file of an estimator that is trained on these examples."""

    def make(folder):
        clone(estimator).fit(X, y, **more).save(folder / "file")

    def use(folder):
        own = type(estimator).load(folder / "file", *loaded_with)
        results = [getattr(own, name)(X) for name in methods if hasattr(own, name)]
        return plain([*results, *(getattr(own, name, None) for name in FACTS)])

    return Kind(make, use)


def checkpoint(estimator, X, y):
    """Kind of the checkpoint of a fit, which is used by a longer one."""

    def fit(folder, n_rounds):
        rounds = "max_iter" if hasattr(estimator, "max_iter") else "max_rounds"
        settings = {"checkpoint": folder / "file", rounds: n_rounds}
        return clone(estimator).set_params(**settings).fit(X, y)

    def use(folder):
        fitted = fit(folder, 5)
        history = [{**record, "seconds": 0} for record in fitted.history_]
        return plain([history, fitted.model_.weights, fitted.predict(X)])

    return Kind(partial(fit, n_rounds=4), use)


def mixed_table():
    """Flowers as a frame: two columns of numbers with gaps, and one of categories."""
    length = pd.cut(X[:, 0], 4, labels=["tiny", "short", "long", "huge"])
    width = np.where(np.arange(len(X)) % 7 == 0, np.nan, X[:, 2])
    return pd.DataFrame({"length": length, "width": width, "petal": X[:, 3]})


def classifier(**parameters):
    return model(StructBoostClassifier(**HINGE, **parameters), X, Y)


def sets(**parameters):
    labels = np.column_stack((X[:, 0] > 6, X[:, 2] > 3, Y > 0)).astype(int)
    return model(
        StructBoostMultiLabelClassifier(**HINGE | parameters), X, labels,
        methods=("predict", "decision_function"),
    )  # fmt: skip


def tagger(tokens, **parameters):
    settings = HINGE | {"forbidden": [("D", "V")]} | parameters
    return model(StructBoostTagger(**settings), tokens, TAGS)


def decisions(inputs, **parameters):
    costs = 5 + PIXELS[:, :3] @ PIXELS[:3, :4] + PIXELS[:, 3:7]
    estimator = PredictThenOptimize(Choose(4, 2), C=1.0, tol=0.1, **parameters)
    return model(estimator, inputs, costs, Choose(4, 2))


def table(file):
    def use(folder):
        opened = BinnedTable.open(folder / "table")
        trainer = StructBoost(MulticlassTask(3), C=50, max_rounds=2).fit(opened, Y)
        return plain([trainer.objective_, trainer.model_.scores(X)])

    return Kind(lambda folder: BinnedTable.from_array(folder / "table", X), use, f"table/{file}")


@cache
def photographs():
    images = make_synthetic_images(3)
    return [image[::2, ::2] for image in images.images], [mask[::2, ::2] for mask in images.masks]


def segmenter(**crf):
    def make(folder):
        quick = UnarySettings(n_folds=2, group_rounds=2)
        settings = CRFSettings(max_rounds=2, **crf)
        Segmenter(n_segments=60, C=1.0, crf=settings, unaries=quick).fit(*photographs()).save(
            folder / "file"
        )

    def use(folder):
        own = Segmenter.load(folder / "file")
        settings = [own.meaning_, own.crf, own.unaries, own.n_segments, own.longest, own.C_]
        found = own.mask_and_probabilities(photographs()[0][0])
        return plain([*found, str(settings), own.history_, own.validation_])

    return Kind(make, use)


SENTENCES = [["a", "dog", "ran"], ["dogs"], ["the", "dog", "saw", "a", "cat"]] * 4
TAGS = [["D", "N", "V"], ["N"], ["D", "N", "V", "D", "N"]] * 4
DICTS = [[{"word": w, "end": w[-1]} for w in words] for words in SENTENCES]
ARRAYS = [[[len(w), w[-1] == "s", w[0] == "d"] for w in words] for words in SENTENCES]
TASK = MulticlassTask(3)
PATCHES = partial(PatchFamily, image_shape=(8, 8), side=3, grid=2, overlap=1, n_candidates=5)
TRAINER = StructBoost(TASK, C=50, tol=1e-6)
KINDS = {
    "stumps": classifier(),
    "trees": classifier(weak_learner="tree"),
    "hyperplanes": classifier(weak_learner="lda"),
    "features": classifier(weak_learner="feature"),
    "patches": model(
        StructBoost(TASK, C=20, max_rounds=2, weak_learner=PATCHES, formulation="m_slack"),
        PIXELS, Y, TASK,
    ),
    "taxonomy": classifier(taxonomy={"a": [0, 1], "b": [2]}),
    "default classifier": model(StructBoostClassifier(max_iter=3), mixed_table(), Y),
    "union": classifier(weak_learner=["linear", "stump", "tree"]),
    "ranker": model(StructBoostRanker(**HINGE, loss="ndcg@2"), X, Y, group=[30]),
    "tagger of dicts": tagger(DICTS, objective="l1_log_loss"),
    "tagger of arrays": tagger(ARRAYS, objective="svm", max_iter=50),
    "sets of labels": sets(loss="f1"),
    "sets in a hierarchy": sets(hierarchy=[(2, 0), (2, 1)]),
    "sets seen": sets(objective="l1_log_loss", loss="subset", outputs="seen", pairs=True),
    "svm": model(StructuredSVM(TASK, tol=0.1), X, Y, TASK, methods=("scores",)),
    "decisions": decisions(PIXELS[:, :3]),
    "boosted decisions": decisions(
        PIXELS[:, :12].reshape(-1, 4, 3), weak_learner=["linear", "stump"], start="least_squares"
    ),
    "checkpoint": checkpoint(TRAINER, X, Y),
    "checkpoint of trees": checkpoint(clone(TRAINER).set_params(weak_learner="tree"), X, Y),
    "checkpoint of pairs": checkpoint(
        clone(TRAINER).set_params(formulation=Exponential(), random_state=0), X, Y
    ),
    "checkpoint of the default": checkpoint(StructBoostClassifier(), X, Y),
    "checkpoint of the default tagger": checkpoint(StructBoostTagger(), ARRAYS, TAGS),
    "table": table("bins.npz"),
    "codes of a table": table("codes.npy"),
    "segmenter": segmenter(),
    "linear segmenter": segmenter(learner="ssvm"),
}  # fmt: skip
# Those that take long to load and use.
SLOW = ("segmenter", "linear segmenter")
