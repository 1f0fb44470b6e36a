"""Every public face, with parameters that make it fast and, for trainers, examples."""

from structboost import (
    CrossFitted,
    PredictThenOptimize,
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
from structboost.text import TokenFeatures, TwoStageTagger
from tests.battery.examples_of_sequences import Sentences, Tags, TagsOfDicts
from tests.battery.examples_of_tables import Classes, Costs, Grades, LabelSets, MixedColumns
from tests.battery.examples_of_tasks import Images, TaskExamples
from tests.helpers.four_faces import CODED
from tests.helpers.task_problems import task_problems

HINGE = {"objective": "hinge", "C": 5.0, "tol": 0.1}


def _tree():
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_depth=2, random_state=0)


# Tags depend on the sentences nearby.
TWO_STAGES = {"one example is one of many"}
# A frequent instance is given several times.
REGRET = {"sample weights"}
# A file holds the model, not how it was trained.
TRAINER = {"settings in files"}
# It predicts no outputs, its classifier has the weights, and is stored by pickle.
CROSS_FITTED = {
    "score", "bad output in score", "cross-validation", "sample weights", "class weights",
    "probabilities", "save and load", "settings in files",
}  # fmt: skip
# Name, with estimator, kind of inputs, and what it lacks.
FACES = {
    "StructBoostClassifier": (StructBoostClassifier(max_iter=4), Classes()),
    "StructBoostClassifier, hinge": (
        StructBoostClassifier(**HINGE, max_iter=6), Classes(),
    ),
    "StructBoostClassifier, frames": (StructBoostClassifier(max_iter=4), MixedColumns()),
    "StructBoostClassifier, hinge, frames": (
        StructBoostClassifier(**HINGE, max_iter=6), MixedColumns(),
    ),
    "StructBoostClassifier, svm": (
        StructBoostClassifier("svm", C=1.0), MixedColumns(),
    ),
    "StructBoostClassifier, linear": (
        StructBoostClassifier(weak_learner="linear", C=1.0), MixedColumns(),
    ),
    **{face.__name__: (face(max_rounds=4), Classes()) for face in CODED},
    "StructuredSVMClassifier": (
        StructuredSVMClassifier(tol=0.1, max_epochs=20), Classes(), {"probabilities"},
    ),
    "StructBoostMultiLabelClassifier": (
        StructBoostMultiLabelClassifier(max_iter=4), LabelSets(),
    ),
    "StructBoostMultiLabelClassifier, hinge": (
        StructBoostMultiLabelClassifier(**HINGE, max_iter=5), LabelSets(),
    ),
    "StructBoostRanker": (StructBoostRanker(max_iter=4), Grades()),
    "StructBoostRanker, hinge": (StructBoostRanker(**HINGE, max_iter=5), Grades()),
    "StructBoostTagger": (StructBoostTagger(max_iter=2), Tags()),
    "StructBoostTagger, hinge": (StructBoostTagger(**HINGE, max_iter=3), Tags()),
    "StructBoostTagger, dicts": (StructBoostTagger(), TagsOfDicts()),
    "StructBoostTagger, dicts, l1": (
        StructBoostTagger("l1_log_loss", C=5.0, max_iter=4), TagsOfDicts(),
    ),
    "TwoStageTagger": (
        TwoStageTagger(StructBoostTagger(C=1.0), folds=2), TagsOfDicts(), TWO_STAGES,
    ),
    "TokenFeatures": (TokenFeatures(window=1), Sentences()),
    "PredictThenOptimize": (
        PredictThenOptimize(Choose(3, 1), C=5.0, tol=0.1, start="none", random_state=0),
        Costs(), REGRET,
    ),
    "CrossFitted": (CrossFitted(_tree(), folds=2), Classes(), CROSS_FITTED),
    "CrossFitted, label sets": (CrossFitted(_tree(), folds=2), LabelSets(), CROSS_FITTED),
    "CrossFitted, sequences": (CrossFitted(_tree(), folds=2), Tags(), CROSS_FITTED),
    "Segmenter": (
        Segmenter(
            n_segments=4,
            C=1.0,
            crf=CRFSettings(max_rounds=2),
            unaries=UnarySettings(n_folds=2, group_rounds=1),
        ),
        Images(),
    ),
}  # fmt: skip


# Tasks whose trainers are tried.
TASKS = ("binary", "multiclass", "label sets", "chain", "graph", "matching", "ranking")


def all_faces():
    """Name and arguments of :class:`Face` of every face."""
    faces = dict(FACES)
    problems = task_problems(42)
    for name, trainer, X, Y in trainers({name: problems[name] for name in TASKS}):
        faces[name] = trainer, TaskExamples(X, Y), TRAINER
    return faces


def trainers(problems):
    """Iterate over the names of trainers of each task, with them and their examples."""
    for name, (task, X, Y, _) in problems.items():
        for trainer in (
            StructBoost(task, C=5.0, tol=0.1, max_rounds=3),
            StructuredSVM(task, C=5.0, tol=0.1, max_epochs=8),
        ):
            yield f"{type(trainer).__name__}, {name}", trainer, X, Y
