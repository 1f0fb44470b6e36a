"""OCR letters: the chain on pixels, two stages, and the chain on cross-fitted responses."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.ndimage import gaussian_filter
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import KFold
from sklearn.svm import SVC

from benchmarks.runner.experiment import Experiment, Learner, Source
from benchmarks.runner.records import Record, lookup
from benchmarks.runner.targets import Target, reach
from benchmarks.structures.rows import Row, cpu_seconds, rows_of
from structboost import ChainTask, CrossFitted, StackedParts, StructBoostTagger, StructuredSVM

FEW, MANY = "letters", "letters, nine folds"
FILES = dict.fromkeys((FEW, MANY), ("structures/chains/letters.npz",))
RIGHT = "right letters"
N_LETTERS, SHAPE = 26, (16, 8)
QUICK_WORDS, QUICK_ROUNDS = 150, 10
# Pixels by which most letters are right out of fold.
BLUR = 0.7
JOINT_TREES = "blurred pixels, trees by default"
PARTS, N_PROCESSES = 3, 4
TWO_STAGES, CROSS_FITTED = "two stages", "cross-fitted"


CS = (30.0, 100.0, 300.0)
PAIR_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0)  # of the counted pairs of letters


class Words(NamedTuple):
    """Words of a part, as arrays of pixels and of letters."""

    X: list[np.ndarray]
    Y: list[np.ndarray]


def read(source: Source) -> tuple[Words, Words]:
    """Training and test words: fold 1 and the others, or the other way round."""
    with np.load(source.folder / FILES[source.name][0]) as file:
        X, y, word, fold = (file[name] for name in ("X", "y", "word", "fold"))
    starts = np.flatnonzero(np.diff(word)) + 1
    tables = np.split(X.astype(np.float32), starts), np.split(y.astype(np.int64), starts)
    is_first = fold[np.concatenate(([0], starts))] == 1
    parts = (~is_first, is_first) if source.name == MANY else (is_first, ~is_first)
    rows = [np.flatnonzero(part)[: QUICK_WORDS if source.quick else None] for part in parts]
    train, test = (Words(*([table[i] for i in own] for table in tables)) for own in rows)
    return train, test


def right(predicted: Sequence[np.ndarray], true: Sequence[np.ndarray]) -> float:
    return float(np.mean(np.concatenate(predicted) == np.concatenate(true)))


def on_pixels(source: Source) -> list[Row]:
    """The linear chain on features as they are: a rare pixel shall not weigh more than others."""
    train, test = read(source)
    settings = {"tol": 0.05, "max_epochs": 40, "random_state": 0}
    Cs = CS[: 1 if source.quick else None]
    model, facts = tuned_chain(
        *(train, Cs), lambda C: StructuredSVM(ChainTask(N_LETTERS), C=C, **settings)
    )
    return [Row("pixels, linear chain", RIGHT, right(model.predict(test.X), test.Y), facts)]


def trees_on_blurred(source: Source) -> list[Row]:
    """The tagger without parameters, trees and pairs trained together, on blurred letters."""
    train, test = (Words(_soft_letters(part.X), part.Y) for part in read(source))
    facts: dict[str, Any] = {}
    with cpu_seconds(facts):
        model = StructBoostTagger(max_iter=QUICK_ROUNDS if source.quick else 200).fit(*train)
    return [Row(JOINT_TREES, RIGHT, right(model.predict(test.X), test.Y), facts)]


def _soft_letters(X: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Words of blurred letters."""
    soft = blurred(np.concatenate(X), BLUR)
    return np.split(soft.astype(np.float32), np.cumsum([len(x) for x in X])[:-1])


def with_classifier(label: str, make: Callable[[], Any], source: Source) -> list[Row]:
    """A classifier alone, followed by Viterbi, and cross-fitted before a linear chain."""
    train, test = read(source)
    crossed = CrossFitted(make(), random_state=0)
    held = crossed.fit_transform(train.X, train.Y)
    whole: Any = make().fit(np.concatenate(train.X), np.concatenate(train.Y))
    of_folds = _in_processes(crossed.transform, test.X)
    of_whole = _in_processes(partial(responses_of, whole), test.X)
    weight, pairs = best_pairs(held, train.Y)
    Cs = CS[: 1 if source.quick else None]
    model, facts = tuned_chain(Words(held, train.Y), Cs, _chain)
    predictions = {
        "alone": ([own.argmax(axis=1) for own in of_whole], {}),
        f"{TWO_STAGES}, mean of folds": (viterbi(of_folds, pairs), {"pairs": weight}),
        TWO_STAGES: (viterbi(of_whole, pairs), {"pairs": weight}),
        CROSS_FITTED: (model.predict(of_folds), facts),
        f"{CROSS_FITTED}, refitted": (model.predict(of_whole), facts),
    }
    return [
        Row(f"{label}, {how}", RIGHT, right(predicted, test.Y), more)
        for how, (predicted, more) in predictions.items()
    ]


def _in_processes(responses: Callable[..., Any], X: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Responses for some words at a time: a kernel machine takes minutes for all."""
    parts = np.array_split(np.arange(len(X)), N_PROCESSES)
    tasks = (delayed(responses)([X[i] for i in part]) for part in parts)
    return [own for of_part in Parallel(n_jobs=N_PROCESSES)(tasks) for own in of_part]


def responses_of(model: Any, X: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Log-probabilities, or decision values of a classifier without probabilities."""
    rows = np.concatenate(X)
    if hasattr(model, "predict_proba"):
        responses = np.log(np.maximum(model.predict_proba(rows), 1e-5))
    else:
        responses = model.decision_function(rows)
    return np.split(responses, np.cumsum([len(x) for x in X])[:-1])


def pair_scores(Y: Sequence[np.ndarray]) -> np.ndarray:
    """Log-probabilities of the next letter, by counts plus one."""
    counts = np.ones((N_LETTERS, N_LETTERS))
    for y in Y:
        np.add.at(counts, (y[:-1], y[1:]), 1)
    return np.log(counts / counts.sum(axis=1, keepdims=True))


def best_pairs(
    responses: Sequence[np.ndarray], Y: Sequence[np.ndarray]
) -> tuple[float, np.ndarray]:
    """Weight of the scores of pairs by which most letters are right, and the weighted scores."""
    pairs = pair_scores(Y)
    values = [right(viterbi(responses, w * pairs), Y) for w in PAIR_WEIGHTS]
    best = PAIR_WEIGHTS[int(np.argmax(values))]
    return best, best * pairs


def viterbi(responses: Sequence[np.ndarray], pairs: np.ndarray) -> Sequence[np.ndarray]:
    """Letters of the largest sum of responses and pairs."""
    n = len(responses)
    starts = np.concatenate(([0], np.cumsum([len(own) for own in responses])))
    rows = {"token": np.concatenate(responses), "step": np.tile(pairs.reshape(1, -1), (n, 1))}
    stack = StackedParts(rows, {"token": starts, "step": np.arange(n + 1)})
    return ChainTask(N_LETTERS).argmax_batch(responses, stack)


def _chain(C: float) -> StructBoostTagger:
    """The linear chain on standardised features."""
    return StructBoostTagger(objective="svm", C=C, tol=0.05, max_iter=40, random_state=0)


def tuned_chain(
    train: Words, Cs: Sequence[float], make: Callable[[float], Any]
) -> tuple[Any, dict[str, Any]]:
    """The linear chain at the C of the most right letters in parts of the training words."""
    X, Y = train
    values = []
    for C in Cs:
        of_parts = []
        for rows, held in KFold(PARTS, shuffle=True, random_state=0).split(X):
            model = make(C).fit([X[i] for i in rows], [Y[i] for i in rows])
            of_parts.append(right(model.predict([X[i] for i in held]), [Y[i] for i in held]))
        values.append(float(np.mean(of_parts)))
    facts = {"C": Cs[int(np.argmax(values))], "validation": values}
    with cpu_seconds(facts):
        model = make(facts["C"]).fit(X, Y)
    return model, {**facts, "gap": model.history_[-1]["gap"]}


def blurred(X: np.ndarray, width: float) -> np.ndarray:
    """Letters blurred by a Gaussian, each as long as it was."""
    soft = gaussian_filter(X.reshape(len(X), *SHAPE), (0, width, width)).reshape(X.shape)
    lengths = np.linalg.norm(soft, axis=1, keepdims=True)
    return soft * (np.linalg.norm(X, axis=1, keepdims=True) / np.maximum(lengths, 1e-9))


def _lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    settings = {"num_leaves": 15, "min_child_samples": 5, "reg_lambda": 5.0, "n_jobs": 1}
    return LGBMClassifier(n_estimators=150, random_state=0, verbose=-1, **settings)


CLASSIFIERS = {
    # Probabilities by pairs of classes: deprecated, but better here.
    "svc": partial(SVC, C=10.0, gamma=0.03, probability=True, random_state=0),
    "extra trees": partial(ExtraTreesClassifier, 300, max_features=0.2, random_state=0),
    "lightgbm": _lightgbm,
}


def learners(source: Source) -> Mapping[str, Learner]:
    own = {"pixels": Learner(on_pixels), "joint trees": Learner(trees_on_blurred)}
    crossed = {
        name: Learner(
            partial(with_classifier, name, make),
            ("lightgbm",) if name == "lightgbm" else ("sklearn",),
        )
        for name, make in CLASSIFIERS.items()
    }
    return own if source.name == MANY else {**own, **crossed}


EXPERIMENT = Experiment(FILES, learners, rows_of, small=(FEW,))


def targets(made: Sequence[Record]) -> list[Target]:
    at = lookup(made, "dataset", "method")

    def best(dataset: str, *labels: str) -> float | None:
        values = [at(dataset, f"{label}, {CROSS_FITTED}") for label in labels]
        return max((v for v in values if v is not None), default=None)

    pixels = "pixels, linear chain"
    rivals = {label: at(FEW, f"{label}, {TWO_STAGES}") for label in CLASSIFIERS}
    return [
        reach(
            "letters, fold 1 against the rest, with trees",
            *(best(FEW, "extra trees", "lightgbm"), ">=", 0.885),
        ),
        reach("the same, trees and pairs together", at(FEW, JOINT_TREES), ">=", 0.885),
        reach("the same, linear on pixels", at(FEW, pixels), ">=", 0.805),
        reach("letters, nine folds, trees and pairs", at(MANY, JOINT_TREES), ">=", 0.95),
        *(
            reach(
                f"letters, {label}: cross-fitted above its two stages, {rival:.3f}",
                *(best(FEW, label), ">", rival),
            )
            for label, rival in rivals.items()
            if rival is not None
        ),
    ]
