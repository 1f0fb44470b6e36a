"""OCR letters: the chain on pixels, two stages, and the chain on cross-fitted answers."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.ndimage import gaussian_filter
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from benchmarks.runner.records import Record, by
from benchmarks.runner.targets import Target, reach
from benchmarks.runner.units import Unit
from benchmarks.structures.rows import Row, Run, content_of, cpu_seconds, unit
from structboost import ChainTask, CrossFitted, StructBoostTagger, StructuredSVM
from structboost.contract.parts import StackedParts

FEW, MANY = "letters", "letters, nine folds"
DATASETS = (FEW, MANY)
QUICK_DATASETS = (FEW,)
RIGHT = "right letters"
N_LETTERS = 26
SHAPE = (16, 8)
QUICK_WORDS, QUICK_ROUNDS = 150, 10
# Pixels by which most letters are right out of fold, before kernels and trees.
BLUR = 0.7
JOINT_TREES = "blurred pixels, trees by default"
PIXEL_CS = (30.0, 100.0, 300.0)
TOL, MAX_PASSES, PARTS = 0.05, 40, 3
N_PARTS = 4  # of the test words, in processes of their own
TWO_STAGES, CROSS_FITTED, REFITTED = "two stages", "cross-fitted", "cross-fitted, refitted"


class Grid(NamedTuple):
    """C of the chain, and weights of the counted pairs of letters, to choose from."""

    Cs: tuple[float, ...]
    weights: tuple[float, ...]


USUAL = Grid((30.0, 100.0, 300.0), (0.0, 0.25, 0.5, 1.0, 2.0))
# Decision values are smaller than log-probabilities.
WIDE = Grid((*USUAL.Cs, 1000.0), (0.0, 0.03, 0.06, 0.12, *USUAL.weights[1:]))
# With nine times the words, larger C are right more often on held-out ones.
LARGE = Grid((300.0, 1000.0, 3000.0, 10_000.0), WIDE.weights)


class Words(NamedTuple):
    """Words of a part, as arrays of pixels and of letters."""

    X: list[np.ndarray]
    Y: list[np.ndarray]


def read(path: Path, *, many: bool, quick: bool) -> tuple[Words, Words]:
    """Training and test words: fold 1 and the others, or the other way round."""
    with np.load(path) as file:
        X, y, word, fold = (file[name] for name in ("X", "y", "word", "fold"))
    starts = np.flatnonzero(np.diff(word)) + 1
    tables = np.split(X.astype(np.float32), starts), np.split(y.astype(np.int64), starts)
    is_first = fold[np.concatenate(([0], starts))] == 1
    train, test = (~is_first, is_first) if many else (is_first, ~is_first)
    made = []
    for part in (train, test):
        rows = np.flatnonzero(part)[: QUICK_WORDS if quick else None].tolist()
        made.append(Words(*([table[i] for i in rows] for table in tables)))
    return made[0], made[1]


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    path = Path(data_dir) / "structures/chains/letters.npz"
    content = content_of(path)
    data = partial(read, path, many=name == MANY, quick=quick)
    return [unit(__name__, name, content, data, run, quick) for run in RUNS[name]]


def right(found: Sequence[np.ndarray], true: Sequence[np.ndarray]) -> float:
    return float(np.mean(np.concatenate(found) == np.concatenate(true)))


def on_pixels(data: tuple[Words, Words], quick: bool) -> list[Row]:
    """The linear chain."""
    train, test = data
    model, facts = tuned_chain(train.X, train.Y, PIXEL_CS[:1] if quick else PIXEL_CS, chain_as_is)
    return [Row("pixels, linear chain", RIGHT, right(model.predict(test.X), test.Y), facts)]


def trees_on_blurred(data: tuple[Words, Words], quick: bool) -> list[Row]:
    """The tagger without parameters, trees and pairs trained together, on blurred letters."""
    train, test = (Words(soft_letters(part.X), part.Y) for part in data)
    facts: dict[str, Any] = {}
    with cpu_seconds(facts):
        model = StructBoostTagger(max_iter=QUICK_ROUNDS if quick else 200).fit(*train)
    return [Row(JOINT_TREES, RIGHT, right(model.predict(test.X), test.Y), facts)]


def soft_letters(X: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Words of blurred letters."""
    soft = blurred(np.concatenate(X), BLUR)
    return np.split(soft.astype(np.float32), np.cumsum([len(x) for x in X])[:-1])


def with_classifier(
    label: str, make: Callable[[], Any], grid: Grid, data: tuple[Words, Words], quick: bool
) -> list[Row]:
    """A classifier alone, followed by Viterbi, and cross-fitted before a linear chain."""
    train, test = data
    crossed = CrossFitted(make(), random_state=0)
    answers = crossed.fit_transform(train.X, train.Y)
    whole: Any = make().fit(np.concatenate(train.X), np.concatenate(train.Y))
    mean_answers = in_parts(crossed.transform, test.X)
    one_answer = in_parts(partial(answers_of, whole), test.X)
    alone = [own.argmax(axis=1) for own in one_answer]
    weight, pairs = best_pairs(answers, train.Y, grid.weights)
    model, facts = tuned_chain(answers, train.Y, grid.Cs[:1] if quick else grid.Cs)
    values = {
        "alone": (right(alone, test.Y), {}),
        f"{TWO_STAGES}, mean of folds": (
            right(viterbi(mean_answers, pairs), test.Y),
            {"pairs": weight},
        ),
        TWO_STAGES: (right(viterbi(one_answer, pairs), test.Y), {"pairs": weight}),
        CROSS_FITTED: (right(model.predict(mean_answers), test.Y), facts),
        REFITTED: (right(model.predict(one_answer), test.Y), facts),
    }
    return [Row(f"{label}, {how}", RIGHT, *found) for how, found in values.items()]


def in_parts(answers: Callable[..., Any], X: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Answers for some words at a time, in processes: a kernel machine takes minutes for all."""
    parts = np.array_split(np.arange(len(X)), N_PARTS)
    found = Parallel(n_jobs=N_PARTS)(delayed(answers)([X[i] for i in part]) for part in parts)
    return [own for of_part in found for own in of_part]


def answers_of(model: Any, X: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Log-probabilities, or decision values of a classifier without probabilities."""
    rows = np.concatenate(X)
    if hasattr(model, "predict_proba"):
        found = np.log(np.maximum(model.predict_proba(rows), 1e-5))
    else:
        found = model.decision_function(rows)
    return np.split(found, np.cumsum([len(x) for x in X])[:-1])


def pair_scores(Y: Sequence[np.ndarray]) -> np.ndarray:
    """Log-probabilities of the next letter, by counts plus one."""
    counts = np.ones((N_LETTERS, N_LETTERS))
    for y in Y:
        np.add.at(counts, (y[:-1], y[1:]), 1)
    return np.log(counts / counts.sum(axis=1, keepdims=True))


def best_pairs(
    answers: Sequence[np.ndarray], Y: Sequence[np.ndarray], weights: Sequence[float]
) -> tuple[float, np.ndarray]:
    """Weight of the scores of pairs by which most letters are right, and the weighted scores."""
    pairs = pair_scores(Y)
    best = weights[int(np.argmax([right(viterbi(answers, w * pairs), Y) for w in weights]))]
    return best, best * pairs


def viterbi(answers: Sequence[np.ndarray], pairs: np.ndarray) -> Sequence[np.ndarray]:
    """Letters of the largest sum of answers and pairs."""
    n = len(answers)
    starts = np.concatenate(([0], np.cumsum([len(own) for own in answers])))
    rows = {"token": np.concatenate(answers), "step": np.tile(pairs.reshape(1, -1), (n, 1))}
    stack = StackedParts(rows, {"token": starts, "step": np.arange(n + 1)})
    return ChainTask(N_LETTERS).argmax_batch(answers, stack)


def chain(C: float) -> StructBoostTagger:
    """The linear chain on standardised features."""
    settings = {"tol": TOL, "max_iter": MAX_PASSES, "random_state": 0}
    return StructBoostTagger(objective="svm", C=C, **settings)


def chain_as_is(C: float) -> StructuredSVM:
    """The linear chain on features as they are: a rare pixel shall not weigh more than others."""
    settings = {"tol": TOL, "max_epochs": MAX_PASSES, "random_state": 0}
    return StructuredSVM(ChainTask(N_LETTERS), C=C, **settings)


def tuned_chain(
    X: Sequence[np.ndarray],
    Y: Sequence[np.ndarray],
    Cs: Sequence[float],
    make: Callable[[float], Any] = chain,
) -> tuple[Any, dict[str, Any]]:
    """The linear chain at the C of the most right letters in parts of the training words."""
    values = []
    for C in Cs:
        of_parts = []
        for kept, held in KFold(PARTS, shuffle=True, random_state=0).split(X):
            model = make(C).fit([X[i] for i in kept], [Y[i] for i in kept])
            of_parts.append(right(model.predict([X[i] for i in held]), [Y[i] for i in held]))
        values.append(float(np.mean(of_parts)))
    facts = {"C": Cs[int(np.argmax(values))], "validation": values}
    with cpu_seconds(facts):
        model = make(facts["C"]).fit(X, Y)
    return model, {**facts, "gap": model.history_[-1]["gap"]}


def svc() -> Any:
    return SVC(C=10.0, gamma=0.03, probability=True, random_state=0)  # deprecated, but pairwise


class KernelSquares(ClassifierMixin, BaseEstimator):
    """Least squares with rbf kernel on blurred letters, a target of 0 and 1 for each class."""

    def __init__(self, blur: float, gamma: float, alpha: float) -> None:
        self.blur = blur
        self.gamma = gamma
        self.alpha = alpha

    def fit(self, X: np.ndarray, y: np.ndarray) -> "KernelSquares":
        self.classes_, numbers = np.unique(y, return_inverse=True)
        self.mean_ = 1.0 / len(self.classes_)
        ridge = KernelRidge(alpha=self.alpha, kernel="rbf", gamma=self.gamma)
        targets = np.eye(len(self.classes_))[numbers] - self.mean_
        self.ridge_ = ridge.fit(blurred(X, self.blur), targets)
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.ridge_.predict(blurred(X, self.blur))) + self.mean_


def blurred(X: np.ndarray, width: float) -> np.ndarray:
    """Letters blurred by a Gaussian, each as long as it was."""
    soft = gaussian_filter(X.reshape(len(X), *SHAPE), (0, width, width)).reshape(X.shape)
    lengths = np.linalg.norm(soft, axis=1, keepdims=True)
    return soft * (np.linalg.norm(X, axis=1, keepdims=True) / np.maximum(lengths, 1e-9))


def kernel_squares() -> Any:
    """The setting of the most right letters out of fold, by the chain, of ten that were tried."""
    return KernelSquares(blur=BLUR, gamma=0.1, alpha=0.1)


def mlp() -> Any:
    network = MLPClassifier((256,), alpha=1e-2, max_iter=30, random_state=0)
    return make_pipeline(FunctionTransformer(partial(blurred, width=BLUR)), network)


def extra_trees() -> Any:
    return ExtraTreesClassifier(300, max_features=0.2, random_state=0)


def lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    settings = {
        "num_leaves": 15,
        "min_child_samples": 5,
        "reg_lambda": 5.0,
        "n_jobs": 1,
        "verbose": -1,
    }
    return LGBMClassifier(n_estimators=150, random_state=0, **settings)


def _run(label: str, make: Callable[[], Any], grid: Grid, package: str = "sklearn") -> Run:
    return Run(label, partial(with_classifier, label, make, grid), (package,))


PIXELS = Run("pixels", on_pixels)
JOINT = Run("joint trees", trees_on_blurred)
SVM = _run("svc", svc, USUAL)
KERNEL = _run("kernel", kernel_squares, WIDE)
MLP = _run("mlp", mlp, LARGE)
TREES = _run("extra trees", extra_trees, USUAL)
LIGHTGBM = _run("lightgbm", lightgbm, USUAL, "lightgbm")
RUNS = {FEW: (PIXELS, JOINT, KERNEL, SVM, TREES, LIGHTGBM), MANY: (PIXELS, JOINT, MLP)}


def targets(made: Sequence[Record]) -> list[Target]:
    values = {key: r["value"] for key, r in by(made, "dataset", "method").items()}

    def best(dataset: str, *labels: str) -> float | None:
        found = [values.get((dataset, f"{label}, {CROSS_FITTED}")) for label in labels]
        return max((v for v in found if v is not None), default=None)

    few = best(FEW, "kernel", "svc", "extra trees", "lightgbm")
    linear = values.get((FEW, "pixels, linear chain"))
    found = [
        reach("letters, fold 1 against the rest", few, ">=", 0.92),
        reach("the same with trees", best(FEW, "extra trees", "lightgbm"), ">=", 0.885),
        reach("the same, trees and pairs together", values.get((FEW, JOINT_TREES)), ">=", 0.885),
        reach("the same, linear on pixels", linear, ">=", 0.805),
        reach("letters, nine folds, trees and pairs", values.get((MANY, JOINT_TREES)), ">=", 0.95),
        reach("letters, nine folds, network", best(MANY, "mlp"), ">=", 0.95),
    ]
    for label in ("kernel", "svc", "extra trees", "lightgbm"):
        rival = values.get((FEW, f"{label}, {TWO_STAGES}"))
        if rival is not None:
            wanted = f"letters, {label}: cross-fitted above its two stages, {rival:.3f}"
            found.append(reach(wanted, best(FEW, label), ">", rival))
    return found
