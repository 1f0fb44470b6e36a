"""Few features: ShareBoost beside one-vs-rest and a mixed norm; ShareBoost over image patches."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from benchmarks.runner.datasets import Table
from structboost import ShareBoostClassifier
from structboost.weak.patch import PatchFamily

# Weight of the loss against the sum of squares, the same in all three.
C = 1e4
# Penalties, as fractions of the smallest one that leaves no feature.
PENALTIES = np.geomspace(0.95, 0.02, 40)
_PROXIMAL_STEPS = 400
# Patch templates on images.
CHECKPOINTS = (1, 2, 5, 10, 20, 30, 40, 50, 75, 100, 125, 150, 175, 200, 225, 250, 266)
# Compared on held-out training images with 60 random templates; the tolerance lets a new template
# always move.
SETTINGS = {"C": 3000.0, "gradient_tolerance": 1e-4}
IMAGE_SHAPE = (28, 28)
TRAIN_ROWS = 10_000  # of which the training error is taken


class Curve(NamedTuple):
    """Test errors along a path."""

    features: list[int]  # number of different ones used, ascending
    errors: list[float]

    def needed(self, error: float) -> int | None:
        """Fewest features whose error is at most ``error``, if any."""
        reached = [n for n, e in zip(self.features, self.errors, strict=True) if e <= error]
        return min(reached) if reached else None

    def error_at(self, n_features: int) -> float:
        """Least error with at most ``n_features``."""
        return min(e for n, e in zip(self.features, self.errors, strict=True) if n <= n_features)


def shared(train: Table, test: Table, max_features: int) -> Curve:
    """ShareBoost: one feature per round, for all classes."""
    fitted = ShareBoostClassifier(C=C, max_rounds=max_features + 1).fit(train.X, train.y)
    sizes = [len(_used(fitted, stage)) for stage in range(fitted.model_.n_stages)]
    errors = [float(np.mean(labels != test.y)) for labels in fitted.staged_predict(test.X)]
    return Curve(sizes, errors)


def one_vs_rest(train: Table, test: Table, max_features: int) -> Curve:
    """The same greedy choice and re-fit for each class, all with equally many features."""
    classes = np.unique(train.y)
    fitted = [
        ShareBoostClassifier(C=C, max_rounds=max_features).fit(train.X, (train.y == c).astype(int))
        for c in classes
    ]
    curve = Curve([0], [1.0])
    for stage in range(max_features):
        staged = [(one, min(stage, one.model_.n_stages - 1)) for one in fitted]
        n_used = len(set().union(*(_used(one, s) for one, s in staged)))
        scores = [one.model_.at_stage(s).scores(test.X)[:, 0] for one, s in staged]
        curve.features.append(n_used)
        curve.errors.append(float(np.mean(classes[np.argmax(scores, axis=0)] != test.y)))
        if n_used > 1.5 * max_features:
            break
    return curve


def mixed_norm(train: Table, test: Table, max_features: int) -> Curve:
    """Loss (3) with the l1/linf norm (5): a path by accelerated proximal gradients.

    Each step is re-fitted on its features, without the shrinkage that the norm pays for sparsity:
    without the re-fit, errors are higher.
    """
    X, held_out = _standardised(train.X, test.X)
    classes, labels = np.unique(train.y, return_inverse=True)
    weights = np.zeros((X.shape[1], len(classes)))
    curve = Curve([0], [1.0])
    largest = float(np.abs(_loss(X, labels, weights)[1][:-1]).sum(axis=1).max())
    for penalty in PENALTIES:
        weights = _proximal(X, labels, weights, penalty * largest)
        used = np.flatnonzero(np.abs(weights[:-1]).max(axis=1) > 0)
        if len(used) > max_features:
            break
        columns = np.append(used, X.shape[1] - 1)
        refitted = _refitted(X[:, columns], labels, len(classes))
        predicted = classes[(held_out[:, columns] @ refitted).argmax(axis=1)]
        curve.features.append(len(used))
        curve.errors.append(float(np.mean(predicted != test.y)))
    return curve


def patch_templates(train: Table, test: Table, rounds: int) -> dict[str, Any]:
    """Training and test error at the checkpoints; training error on the first 10,000 images."""
    family = partial(PatchFamily, image_shape=IMAGE_SHAPE)
    with threadpool_limits(1):
        fitted = ShareBoostClassifier(max_rounds=rounds, weak_learner=family, **SETTINGS)
        fitted.fit(train.X, train.y)
        reached = [c for c in CHECKPOINTS if c <= len(fitted.history_)]
        stages = {c: fitted.model_.at_stage(c - 1) for c in reached}
        errors = {c: _error(stage, test) for c, stage in stages.items()}
        first = Table(train.X[:TRAIN_ROWS], train.y[:TRAIN_ROWS])
        train_errors = {c: _error(stage, first) for c, stage in stages.items()}
    table = fitted.model_.members["x"].learners
    return {
        "test": errors,
        "train": train_errors,
        "loss": {c: fitted.history_[c - 1]["primal"] for c in reached},
        "seconds": {c: fitted.history_[c - 1]["seconds"] for c in reached},
        "value": errors[max(errors)],
        **{"templates": len(table.templates), "scalars": len(table)},
    }


def _error(model: Any, table: Table) -> float:
    return float(np.mean(model.scores(table.X).argmax(axis=1) != table.y))


def _used(fitted: Any, stage: int) -> set[int]:
    """Features with a weight, without the constant."""
    features = fitted.model_.members["x"].learners.feature
    return set(features[fitted.model_.at_stage(stage).matrix().any(axis=1)].tolist()) - {-1}


def _standardised(*tables: np.ndarray) -> list[np.ndarray]:
    """Scaled into -1..1 by the first table, as ShareBoost does; the constant is the last column."""
    center = tables[0].mean(axis=0)
    scale = np.abs(tables[0] - center).max(axis=0)
    scale[scale == 0] = 1.0
    return [np.column_stack(((X - center) / scale, np.ones(len(X)))) for X in tables]


def _loss(X: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """Loss (3) and its gradient."""
    rows = np.arange(len(labels))
    exponents = X @ weights + 1.0
    exponents[rows, labels] -= 1.0
    exponents -= exponents[rows, labels][:, None]
    top = exponents.max(axis=1, keepdims=True)
    p = np.exp(exponents - top)
    sums = p.sum(axis=1, keepdims=True)
    p /= sums
    value = float((top + np.log(sums)).mean())
    p[rows, labels] -= 1.0
    return value, X.T @ p / len(labels)


def _proximal(X: np.ndarray, labels: np.ndarray, start: np.ndarray, penalty: float) -> np.ndarray:
    """FISTA with restarts; the constant is not penalised."""
    lipschitz = 0.5 * float(np.linalg.norm(X, 2) ** 2) / len(labels)
    weights = point = start
    momentum = 1.0
    for _ in range(_PROXIMAL_STEPS):
        moved = point - _loss(X, labels, point)[1] / lipschitz
        moved[:-1] = linf_prox(moved[:-1], penalty / lipschitz)
        step = moved - weights
        if ((point - moved) * step).sum() > 0:
            momentum, point = 1.0, weights
            continue
        if np.abs(step).max() < 1e-5:
            return moved
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        point = moved + (momentum - 1.0) / following * step
        weights, momentum = moved, following
    return weights


def linf_prox(rows: np.ndarray, penalty: float) -> np.ndarray:
    """Each row less its projection onto the l1 ball of radius ``penalty``."""
    sizes = np.sort(np.abs(rows), axis=1)[:, ::-1]
    sums = np.cumsum(sizes, axis=1) - penalty
    counts = np.arange(1, rows.shape[1] + 1)
    last = (sizes - sums / counts > 0).sum(axis=1)
    theta = np.maximum(sums[np.arange(len(rows)), last - 1] / last, 0.0)
    inside = np.sign(rows) * np.maximum(np.abs(rows) - theta[:, None], 0.0)
    return np.where(np.abs(rows).sum(axis=1, keepdims=True) <= penalty, 0.0, rows - inside)


def _refitted(X: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Loss (3) with the sum of squares over given features."""

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(X.shape[1], n_classes)
        value, gradient = _loss(X, labels, weights)
        return value + float((weights**2).sum()) / C, (gradient + 2.0 * weights / C).ravel()

    start = np.zeros(X.shape[1] * n_classes)
    options = {"gtol": 1e-4, "maxiter": 1000}
    solution = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return solution.x.reshape(X.shape[1], n_classes)
