"""Fixed models of every master, family, rule, task and engine, to compare code before and after a
redesign.

::

    python -m tests.fixed_models save FILE        train them, and write all that they learned
    python -m tests.fixed_models compare FILE     train them again, and say what differs in any bit
"""

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from numpy.random import default_rng
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import structboost
from structboost import (
    AdaBoostECCClassifier,
    AdaBoostMHClassifier,
    AdaBoostMOClassifier,
    BinaryTask,
    BinnedTable,
    ChainTask,
    MultiBoostClassifier,
    MultiBoostCWClassifier,
    MultiBoostECCClassifier,
    MultiBoostMOClassifier,
    MulticlassTask,
    RankingTask,
    ShareBoostClassifier,
    StructBoost,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructuredSVM,
    StructuredSVMClassifier,
    TaxonomyTask,
)
from structboost.objectives import Exponential, OneSlack, StageWiseRandomField
from structboost.objectives.norm_bounded import NormBoundedHinge
from structboost.tasks import CodedTask, SuperpixelCRFTask
from structboost.tasks.superpixel_crf import SuperpixelGraph
from tests.helpers.engine_tasks import ChainTask as PythonChain
from tests.helpers.task_problems import grid_edges

N_TRAIN = 150


def tables():
    cancer, digits, wine = load_breast_cancer(), load_digits(n_class=4), load_wine()
    return {
        "binary": (BinaryTask(), cancer.data, np.where(cancer.target > 0, 1, -1)),
        "digits": (MulticlassTask(4), digits.data, digits.target),
        "wine": (MulticlassTask(3), wine.data[::-1], wine.target[::-1]),
    }


def split(name):
    task, X, y = tables()[name]
    order = default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    return task, X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN : N_TRAIN + 150]


def chains():
    rng = default_rng(1)
    X = [rng.normal(size=(rng.integers(1, 9), 3)) for _ in range(80)]
    Y = [x.argmax(axis=1) for x in X]
    return PythonChain(3), X[:60], Y[:60], X[60:]


def graphs(n_labels=2):
    rng = default_rng(2)
    side = 5
    edges = grid_edges(side)
    X, Y = [], []
    for _ in range(20):
        labels = rng.integers(n_labels, size=(side, 1)).repeat(side, axis=1).ravel()
        seen = (np.arange(n_labels) == labels[:, None]) + rng.normal(size=(len(labels), n_labels))
        agree = (labels[edges[:, 0]] == labels[edges[:, 1]]) + rng.normal(
            scale=0.3, size=len(edges)
        )
        X.append(SuperpixelGraph(seen[:, :, None], edges, np.abs(agree)[:, None]))
        Y.append(labels)
    return SuperpixelCRFTask(n_labels), X[:14], Y[:14], X[14:]


def sequences():
    _, X, Y, X_test = chains()
    return ChainTask(3), X, Y, X_test


def queries():
    _, X, y = tables()["wine"]
    order = default_rng(3).permutation(len(X))
    blocks = np.array_split(order, 6)
    return (
        RankingTask(),
        [X[b] for b in blocks[:4]],
        [y[b].astype(float) for b in blocks[:4]],
        [X[b] for b in blocks[4:]],
    )


def taxonomy():
    _, X, y, X_test = split("digits")
    return TaxonomyTask({"a": [0, 1], "b": [2, 3]}), X, y, X_test


def coded():
    _, X, y, X_test = split("digits")
    code = [[1, 1, -1, 1, -1], [-1, 1, 1, -1, -1], [1, -1, 1, 1, 1], [-1, -1, -1, -1, 1]]
    return CodedTask(code), X, y, X_test


def trained(problem, **parameters):
    """What StructBoost learns of a problem, to the last bit."""
    task, X, Y, X_test = problem
    trainer = StructBoost(
        task, **{"C": 20.0, "tol": 1e-3, "max_rounds": 15, "random_state": 0, **parameters}
    ).fit(X, Y)
    with tempfile.TemporaryDirectory() as folder:
        trainer.save(Path(folder) / "model")
        model = structboost.load_model(Path(folder) / "model")
    return {**of_trainer(trainer, X_test), "loaded_weights": np.asarray(model.weights)}


def of_trainer(trainer, X_test):
    history = trainer.history_
    numbers = {
        key: np.array(
            [np.nan if record.get(key) is None else float(record[key]) for record in history]
        )
        for key in "primal bound gap certified cuts columns oracle_calls bound_all".split()
    }
    return {
        "objective": np.array([trainer.objective_]),
        "predictions": flat(trainer.predict(X_test)),
        **numbers,
        **of_model(trainer.model_),
    }


def of_model(model):
    members = {
        f"{kind}/{name}": np.asarray(array)
        for kind, member in model.members.items()
        for name, array in member.learners.to_arrays().items()
    }
    return {"weights": np.asarray(model.weights), **members}


def flat(outputs):
    return np.concatenate([np.atleast_1d(np.asarray(y, float)) for y in outputs])


def resumed(problem, **parameters):
    """Ten rounds in two runs, with a checkpoint between."""
    task, X, Y, X_test = problem
    with tempfile.TemporaryDirectory() as folder:
        common = {"C": 20.0, "tol": 1e-3, "checkpoint": Path(folder) / "run", **parameters}
        StructBoost(task, max_rounds=5, **common).fit(X, Y)
        trainer = StructBoost(task, max_rounds=10, **common).fit(X, Y)
    return of_trainer(trainer, X_test)


def path():
    task, X, Y, X_test = split("digits")
    trainers = StructBoost(task, C=1.0, max_rounds=10).path(X, Y, [5.0, 20.0, 80.0])
    return {
        f"{i}/{key}": value
        for i, trainer in enumerate(trainers)
        for key, value in of_trainer(trainer, X_test).items()
    }


def estimator(model):
    _, X, y, X_test = split("digits")
    model.fit(X, y)
    found = {"predictions": np.asarray(model.predict(X_test))}
    if hasattr(model, "decision_function"):
        found["scores"] = np.asarray(model.decision_function(X_test))
    if hasattr(model, "model_"):
        found.update(of_model(model.model_))
    return found


def ranker(**parameters):
    _, X, Y, X_test = queries()
    sizes = [len(x) for x in X]
    model = StructBoostRanker(max_iter=15, **parameters).fit(
        np.vstack(X), np.concatenate(Y), qid=np.repeat(range(4), sizes)
    )
    return {"scores": model.predict(np.vstack(X_test)), **of_model(model.model_)}


def sets_of_labels():
    _, X, y, X_test = split("digits")
    labels = np.column_stack((y > 0, y > 1, y == 1)).astype(int)
    model = StructBoostMultiLabelClassifier(max_iter=15).fit(X, labels)
    return {"predictions": np.asarray(model.predict(X_test)), **of_model(model.model_)}


def binned():
    task, X, y, X_test = split("digits")
    with tempfile.TemporaryDirectory() as folder:
        table = BinnedTable.from_array(Path(folder) / "table", X)
        trainer = StructBoost(task, C=20.0, max_rounds=10).fit(table, y)
    return {"predictions": flat(trainer.predict(X_test)), **of_model(trainer.model_)}


def linear():
    task, X, Y, X_test = chains()
    model = StructuredSVM(task, C=5.0, max_epochs=20, random_state=0).fit(X, Y)
    return {"predictions": flat(model.predict(X_test))}


def tracked():
    from examples.synthetic_clip import make_synthetic_clip
    from structboost.tracking import StructBoostTracker

    clip = make_synthetic_clip(12)
    tracker = StructBoostTracker()
    tracker.init(clip.frames[0], clip.boxes[0])
    return {
        "boxes": np.array(
            [[*tracker.update(frame), tracker.confidence] for frame in clip.frames[1:]]
        )
    }


def segmented():
    from examples.synthetic_images import make_synthetic_images
    from structboost.segmentation import Segmenter

    made = make_synthetic_images(8)
    model = Segmenter(n_segments=80, C=1.0).fit(made.images[:6], made.masks[:6])
    return {
        "masks": np.array([model.predict(image) for image in made.images[6:]]),
        "primal": np.array([record["primal"] for record in model.history_]),
    }


def fixed_models():
    """Name and training of every model."""
    digits, binary, wine = split("digits"), split("binary"), split("wine")
    families = ("tree", "perceptron", "svm", "lda", "feature")
    faces = {
        "stage-wise classifier": StructBoostClassifier(max_iter=15),
        "classifier": StructBoostClassifier("hinge", C=20.0, max_iter=15),
        "classifier early": StructBoostClassifier(
            objective="hinge", C=20.0, max_iter=15, early_stopping=True, random_state=0
        ),
        "multiboost": MultiBoostClassifier(max_rounds=60),
        "multiboost cw": MultiBoostCWClassifier(max_rounds=15, random_state=0),
        "multiboost mo": MultiBoostMOClassifier(random_state=0, max_rounds=15),
        "multiboost ecc": MultiBoostECCClassifier(random_state=0, max_rounds=15),
        "hinge mo": MultiBoostMOClassifier(loss="hinge", random_state=0, max_rounds=25),
        "hinge ecc": MultiBoostECCClassifier(loss="hinge", random_state=0, max_rounds=25),
        "hinge zero": MultiBoostECCClassifier(
            loss="hinge", theta=30.0, random_state=0, max_rounds=15
        ),
        "adaboost mo": AdaBoostMOClassifier(random_state=0, max_rounds=15),
        "adaboost mh": AdaBoostMHClassifier(max_rounds=15),
        "adaboost ecc": AdaBoostECCClassifier(random_state=0, max_rounds=15),
        "shareboost": ShareBoostClassifier(max_rounds=15),
        "linear svm": StructuredSVMClassifier(random_state=0, max_epochs=20),
    }
    return {
        "binary one-slack": lambda: trained(binary),
        "multiclass spread": lambda: trained(digits, spread=0.05),
        "multiclass exact best": lambda: trained(digits, exact=True, pricing="best"),
        "multiclass printed": lambda: trained(wine, formulation=OneSlack(stabilize=False)),
        "multiclass m-slack": lambda: trained(wine, formulation="m_slack"),
        "binary exponential": lambda: trained(binary, formulation="exponential"),
        "multiclass exponential": lambda: trained(wine, formulation=Exponential()),
        **{
            f"family {name}": lambda name=name: trained(digits, weak_learner=name)
            for name in families
        },
        **{name: lambda model=model: estimator(model) for name, model in faces.items()},
        "ranking one-slack": lambda: trained(queries()),
        "ranking m-slack": lambda: trained(queries(), formulation="m_slack"),
        "taxonomy": lambda: trained(taxonomy()),
        "coded": lambda: trained(coded()),
        "chain": lambda: trained(chains()),
        "chain m-slack": lambda: trained(chains(), formulation="m_slack"),
        "crf": lambda: trained(graphs()),
        "crf three labels": lambda: trained(graphs(3)),
        "serial": lambda: trained(digits, engine="serial"),
        "two threads": lambda: trained(digits, engine="threads", n_jobs=2),
        "two processes": lambda: trained(digits, engine="processes", n_jobs=2),
        "resumed": lambda: resumed(digits),
        "resumed trees": lambda: resumed(digits, weak_learner="tree"),
        "resumed chain": lambda: resumed(chains()),
        "path": path,
        "binned table": binned,
        "ranker": lambda: ranker(objective="hinge", C=20.0),
        "stage-wise ranker": ranker,
        "stage-wise chain": lambda: trained(
            sequences(), formulation=StageWiseRandomField(), weak_learner="tree", C=np.inf
        ),
        "stage-wise sets": sets_of_labels,
        "likelihood chain": lambda: trained(sequences(), formulation="log"),
        "norm-bounded hinge": lambda: trained(wine, C=3.0, formulation=NormBoundedHinge()),
        "many columns go": lambda: trained(digits, C=100.0, tol=1e-5, max_rounds=50),
        "m-slack columns go": lambda: trained(wine, formulation="m_slack", max_rounds=50, tol=0.0),
        "linear chain": linear,
        "StructBoostTracker": tracked,
        "segmenter": segmented,
    }


def learned(only):
    warnings.simplefilter("ignore")
    found = {}
    for name, train in fixed_models().items():
        if only and name not in only:
            continue
        began = time.perf_counter()
        found.update({f"{name}: {key}": value for key, value in train().items()})
        print(f"{name}: {time.perf_counter() - began:.1f} s", flush=True)
    return found


def differences(before, now):
    """Names of what is missing or differs in any bit."""
    return [
        key
        for key in sorted({*before, *now})
        if key not in before
        or key not in now
        or before[key].shape != now[key].shape
        or before[key].tobytes() != np.asarray(now[key], before[key].dtype).tobytes()
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("save", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", nargs="*", help="names of models")
    arguments = parser.parse_args()
    now = learned(arguments.only)
    if arguments.action == "save":
        with arguments.file.open("wb") as file:  # given a path, numpy would add ".npz" to its name
            np.savez_compressed(file, **now)
        return 0
    with np.load(arguments.file) as file:
        before = {key: file[key] for key in file.files}
    if arguments.only:
        before = {
            key: value for key, value in before.items() if key.split(": ")[0] in arguments.only
        }
    differing = differences(before, now)
    print(
        "\n".join(["differs:", *differing]) if differing else f"{len(now)} arrays, no bit differs"
    )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
