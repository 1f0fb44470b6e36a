"""Hierarchies of labels: classifiers of all labels, alone and together, closed upwards."""

from typing import NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import average_precision_score
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.runner.protocol import row
from structboost import HierarchicalMultiLabelTask

# AU(PRC) of both, as published with the data.
RIVALS = ("CLUS-Ens", "C-HMCNN")
PUBLISHED = {
    "cellcycle_fun": (0.227, 0.255),
    "eisen_fun": (0.286, 0.306),
    "gasch1_fun": (0.267, 0.286),
    "cellcycle_go": (0.387, 0.413),
    "imclef07d": (0.881, 0.927),
    "diatoms": (0.501, 0.758),
}
FILES = {name: (f"structures/hierarchical/{name}.npz",) for name in PUBLISHED}
METRIC, TOGETHER = "AU(PRC)", "together"
TRAIN, CHOOSE, TEST = range(3)
HELD_OUT = 0.2
DIRECTIONS = 100  # of the labels of training rows, by which trees are grown


class Rows(NamedTuple):
    """A table, its labels, the part of each row, and the labels that count."""

    X: np.ndarray
    Y: np.ndarray
    part: np.ndarray
    counts: np.ndarray
    task: HierarchicalMultiLabelTask


def read(source):
    """The parts of the file; a fifth of the training rows is held out where it holds out none."""
    file = source.arrays()
    X, Y, part, counts = (file[name] for name in ("X", "Y", "split", "evaluated"))
    edges = file.get("edges")
    if edges is None:
        children = np.flatnonzero(file["parents"] >= 0)
        edges = np.column_stack((file["parents"][children], children))
    if not (part == CHOOSE).any():
        train = np.random.default_rng(0).permutation(np.flatnonzero(part == TRAIN))
        part[train[: round(HELD_OUT * len(train))]] = CHOOSE
    task = HierarchicalMultiLabelTask(Y.shape[1], edges)
    return Rows(X, Y.astype(np.int64), part, counts, task)


def alone_and_together(source):
    """Each classifier with the setting that is best on held-out rows, and the mean of them all."""
    data = read(source)
    rows, at_test = [], []
    train = data.part == TRAIN
    for label, candidates in _classifiers(data.X.shape[1], data.Y.shape[1]).items():
        best = candidates[0]
        if len(candidates) > 1:
            values = (
                score(data, CHOOSE, _probabilities(m, data, train, CHOOSE)) for m in candidates
            )
            best = candidates[int(np.argmax(list(values)))]
        at_test.append(_probabilities(best, data, data.part != TEST, TEST))
        rows.append(row(f"{label}, closed", METRIC, score(data, TEST, at_test[-1])))
    return [*rows, row(TOGETHER, METRIC, score(data, TEST, np.mean(at_test, axis=0)))]


def _probabilities(models, data, train, part):
    """Probabilities of all labels, the mean of some models."""
    of_models = []
    for last in models:
        model = make_pipeline(SimpleImputer(), StandardScaler(), last)
        with catch_warnings():
            simplefilter("ignore", ConvergenceWarning)  # networks stop after their passes
            model.fit(data.X[train], data.Y[train])
        of_models.append(np.clip(model.predict(data.X[data.part == part]), 0.0, 1.0))
    return np.asarray(np.mean(of_models, axis=0))


def score(data, part, p):
    """Area under the curve of all pairs of a row and a label, no label above one it implies."""
    true = data.Y[data.part == part][:, data.counts]
    closed = data.task.closed(p)[:, data.counts]
    return float(average_precision_score(true.ravel(), closed.ravel()))


def _classifiers(n_features, n_labels):
    """Settings of each classifier; each is a list of models whose mean counts."""

    def by_directions(model):
        """A model of the main directions: faster, and rare labels share what is known."""
        directions = PCA(min(DIRECTIONS, n_labels), random_state=0)
        return TransformedTargetRegressor(model, transformer=directions, check_inverse=False)

    trees = ExtraTreesRegressor(100, min_samples_leaf=3, max_features=0.8, random_state=0)
    kernels = (("rbf", 0.7, 1.0), ("rbf", 1.5, 0.1), ("laplacian", 1.5, 0.1))
    network = {"hidden_layer_sizes": (500,), "alpha": 1.0, "max_iter": 10, "batch_size": 32}
    return {
        "extra trees": [[by_directions(trees)]],
        "kernel ridge": [
            [KernelRidge(alpha=alpha, kernel=name, gamma=width / n_features)]
            for name, width, alpha in kernels
        ],
        "network": [[by_directions(MLPRegressor(random_state=k, **network)) for k in range(4)]],
    }


def learners(source):
    return {TOGETHER: alone_and_together}
