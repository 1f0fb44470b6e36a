"""Files of classifiers and rankers of tables."""

from __future__ import annotations

from functools import partial

from structboost import MulticlassTask, StructBoost, StructBoostClassifier, StructBoostRanker
from structboost.learners.patch import PatchFamily
from tests.helpers.damaged_files.data import PIXELS, X, Y, mixed_table
from tests.helpers.damaged_files.kind import Kind


def classifier(**parameters):
    def make(folder):
        StructBoostClassifier(objective="hinge", C=50, max_iter=3, **parameters).fit(X, Y).save(
            folder / "file"
        )

    def use(folder):
        loaded = StructBoostClassifier.load(folder / "file")
        stages = [scores.tolist() for scores in loaded.staged_decision_function(X)]
        return [
            loaded.predict(X).tolist(),
            stages,
            loaded.feature_importances_.tolist(),
            loaded.history_,
        ]

    return Kind(make, "file", use)


def make_patches(folder):
    family = partial(PatchFamily, image_shape=(8, 8), side=3, grid=2, overlap=1, n_candidates=5)
    task = MulticlassTask(3)
    StructBoost(task, C=20, max_rounds=2, weak_learner=family, formulation="m_slack").fit(
        PIXELS, Y
    ).save(folder / "file")


def use_patches(folder):
    model = StructBoost.load(folder / "file", MulticlassTask(3)).model_
    return [model.scores(PIXELS).tolist(), model.feature_importances().tolist()]


def make_default(folder):
    StructBoostClassifier(max_iter=3).fit(mixed_table(), Y).save(folder / "file")


def use_default(folder):
    loaded = StructBoostClassifier.load(folder / "file")
    table = mixed_table()
    return [
        loaded.predict_proba(table).tolist(),
        loaded.feature_importances_.tolist(),
        loaded.history_,
    ]


def make_ranker(folder):
    StructBoostRanker(objective="hinge", C=10, max_iter=3, loss="ndcg@2").fit(
        X, Y, group=[30]
    ).save(folder / "file")


def use_ranker(folder):
    loaded = StructBoostRanker.load(folder / "file")
    return [loaded.predict(X).tolist(), loaded.history_]


KINDS = {
    "stumps": classifier(),
    "trees": classifier(weak_learner="tree"),
    "hyperplanes": classifier(weak_learner="lda"),
    "features": classifier(weak_learner="feature"),
    "pieces": classifier(weak_learner="piecewise"),
    "patches": Kind(make_patches, "file", use_patches),
    "taxonomy": classifier(taxonomy=[[0, 1], [2]]),
    "default classifier": Kind(make_default, "file", use_default),
    "union": classifier(weak_learner=["linear", "stump", "tree"]),
    "ranker": Kind(make_ranker, "file", use_ranker),
}
