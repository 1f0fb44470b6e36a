"""Hierarchies of labels: classifiers of all labels, alone and together, closed upwards."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import average_precision_score
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.runner.records import Record, by, pick
from benchmarks.runner.targets import Target, all_of
from benchmarks.runner.units import Unit
from benchmarks.structures.rows import Row, Run, content_of, unit
from structboost import HierarchicalMultiLabelTask

# AU(PRC) of CLUS-Ens and of C-HMCNN, as published with the data.
PUBLISHED = {
    "cellcycle_fun": (0.227, 0.255),
    "eisen_fun": (0.286, 0.306),
    "gasch1_fun": (0.267, 0.286),
    "cellcycle_go": (0.387, 0.413),
    "imclef07d": (0.881, 0.927),
    "diatoms": (0.501, 0.758),
}
DATASETS = tuple(PUBLISHED)
QUICK_DATASETS: tuple[str, ...] = ()
METRIC = "AU(PRC)"
TRAIN, CHOOSE, TEST = range(3)
HELD_OUT = 0.2
TOGETHER = "together"
MEMBERS = 8
DIRECTIONS = 100  # of the labels of training rows, by which trees are grown
MANY_LABELS = 400  # too many for networks with an output each


class Rows(NamedTuple):
    """A table, its labels, the part of each row, and the labels that count."""

    X: np.ndarray
    Y: np.ndarray
    part: np.ndarray
    counts: np.ndarray
    task: HierarchicalMultiLabelTask


def read(path: Path) -> Rows:
    """The parts of the file; a fifth of the training rows is held out where it holds out none."""
    with np.load(path) as file:
        X, Y, part, counts = (file[name] for name in ("X", "Y", "split", "evaluated"))
        Y = Y.astype(np.int64)  # scikit-learn's LabelBinarizer mixes up bytes of over 255 labels
        if "edges" in file:
            edges = file["edges"]
        else:
            children = np.flatnonzero(file["parents"] >= 0)
            edges = np.column_stack((file["parents"][children], children))
    if not (part == CHOOSE).any():
        train = np.random.default_rng(0).permutation(np.flatnonzero(part == TRAIN))
        part = part.copy()
        part[train[: round(HELD_OUT * len(train))]] = CHOOSE
    return Rows(X, Y, part, counts, HierarchicalMultiLabelTask(Y.shape[1], edges))


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    path = Path(data_dir) / f"structures/hierarchical/{name}.npz"
    run = Run(TOGETHER, alone_and_together, ("sklearn",))
    return [unit(__name__, name, content_of(path), partial(read, path), run, quick)]


def alone_and_together(data: Rows, quick: bool) -> list[Row]:
    """Each classifier with its best settings, and the mean of those that are best together."""
    few = quick or data.Y.shape[1] > MANY_LABELS
    makes = {
        (label, k): make
        for label, candidates in CLASSIFIERS.items()
        for k, make in enumerate(candidates)
        if k == 0 or not (few if label == NETWORK else quick)
    }
    tried = {
        key: shares(make, data, data.part == TRAIN, data.part == CHOOSE)
        for key, make in makes.items()
    }
    values = {key: score(data, CHOOSE, found) for key, found in tried.items()}
    members = best_together(tried, partial(score, data, CHOOSE))
    by_label = {label: [key for key in makes if key[0] == label] for label in CLASSIFIERS}
    best = {label: max(own, key=lambda key: values[key]) for label, own in by_label.items()}
    at_test = {
        key: shares(makes[key], data, data.part != TEST, data.part == TEST)
        for key in {*members, *best.values()}
    }
    rows = []
    for label, key in best.items():
        facts = {"chosen": key[1], "validation": [values[own] for own in by_label[label]]}
        rows.append(Row(f"{label}, closed", METRIC, score(data, TEST, at_test[key]), facts))
    value = score(data, TEST, np.mean([at_test[key] for key in members], axis=0))
    return [*rows, Row(TOGETHER, METRIC, value, {"chosen": members})]


def best_together(found: dict[Any, np.ndarray], value: Callable[[np.ndarray], float]) -> list[Any]:
    """Keys, some repeatedly, whose mean has the largest value: one more at a time.

    Forward selection with replacement of Caruana and others, ICML 2004, section 2.
    """
    members: list[Any] = []
    total, best = np.zeros(()), -np.inf
    for n in range(1, MEMBERS + 1):
        values = {key: value((total + own) / n) for key, own in found.items()}
        new = max(values, key=lambda key: values[key])
        if values[new] <= best:
            break
        members.append(new)
        total, best = total + found[new], values[new]
    return members


def shares(make: "Make", data: Rows, train: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Probabilities of all labels, the mean of some models."""
    found = []
    for last in make(data.X.shape[1], data.Y.shape[1]):
        model = make_pipeline(SimpleImputer(), StandardScaler(), last)
        with catch_warnings():
            simplefilter("ignore", ConvergenceWarning)  # networks stop after their passes
            model.fit(data.X[train], data.Y[train])
        answers = model.predict_proba if hasattr(model, "predict_proba") else model.predict
        found.append(np.clip(answers(data.X[at]), 0.0, 1.0))
    return np.asarray(np.mean(found, axis=0))


def score(data: Rows, part: int, found: np.ndarray) -> float:
    """Area under the curve of all pairs of a row and a label, no label above one it implies."""
    true = data.Y[data.part == part][:, data.counts]
    return float(
        average_precision_score(true.ravel(), data.task.closed(found)[:, data.counts].ravel())
    )


Make = Callable[[int, int], Sequence[Any]]


def forest(rows: int, share: float, n_features: int, n_labels: int) -> Sequence[Any]:
    settings = {"min_samples_leaf": rows, "max_features": share, "random_state": 0}
    return [by_directions(ExtraTreesRegressor(100, **settings), n_labels)]


def by_directions(model: Any, n_labels: int) -> Any:
    """A model of the main directions of the labels: faster, and rare labels share what is known."""
    directions = PCA(min(DIRECTIONS, n_labels), random_state=0)
    return TransformedTargetRegressor(model, transformer=directions, check_inverse=False)


def kernel(name: str, width: float, alpha: float, n_features: int, n_labels: int) -> Sequence[Any]:
    return [KernelRidge(alpha=alpha, kernel=name, gamma=width / n_features)]


def network(
    make: Any, alpha: float, passes: int, n: int, n_features: int, n_labels: int
) -> Sequence[Any]:
    """Some networks, for squares of directions or for the likelihood of labels."""
    settings = {"alpha": alpha, "max_iter": passes, "batch_size": 32}
    made = [make(hidden_layer_sizes=(500,), random_state=k, **settings) for k in range(n)]
    return made if make is MLPClassifier else [by_directions(own, n_labels) for own in made]


NETWORK = "network"
KERNELS = (
    *(("rbf", 0.7, 1.0), ("rbf", 1.5, 0.1), ("rbf", 3.0, 0.1)),
    *(("laplacian", 1.5, 1.0), ("laplacian", 1.5, 0.1)),
)
NETS = ((MLPRegressor, 1.0, 10, 4), (MLPClassifier, 0.01, 40, 2))
CLASSIFIERS: dict[str, Sequence[Make]] = {
    "extra trees": [partial(forest, *own) for own in ((3, 0.8), (1, 0.3))],
    "kernel ridge": [partial(kernel, *own) for own in KERNELS],
    NETWORK: [partial(network, *own) for own in NETS],
}


def targets(made: Sequence[Record]) -> list[Target]:
    found = {n: r["value"] for n, r in by(pick(made, method=TOGETHER), "dataset").items()}
    own = {name: found[name] for name in DATASETS if name in found}
    return [
        all_of(
            f"hierarchies, {TOGETHER}: above {rival} on {n} of 6",
            [(name, value > PUBLISHED[name][place]) for name, value in own.items()],
            len(DATASETS),
            n,
        )
        for place, (rival, n) in enumerate((("CLUS-Ens", 6), ("C-HMCNN", 3)))
    ]
