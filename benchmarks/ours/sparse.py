"""Few features: ShareBoost beside one-vs-rest and a mixed norm."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.preprocessing import MaxAbsScaler

from structboost import ShareBoostClassifier

# Weight of the loss against the sum of squares, the same in all three.
C = 1e4
# Penalties, as fractions of the smallest one that leaves no feature.
PENALTIES = np.geomspace(0.95, 0.02, 40)
_PROXIMAL_STEPS = 400


class Curve(NamedTuple):
    """Test errors along a path."""

    features: list[int]  # number of different ones used, ascending
    errors: list[float]

    def needed(self, error):
        """Fewest features whose error is at most ``error``, if any."""
        reached = [n for n, e in zip(self.features, self.errors, strict=True) if e <= error]
        return min(reached) if reached else None

    def error_at(self, n_features):
        """Least error with at most ``n_features``."""
        return min(e for n, e in zip(self.features, self.errors, strict=True) if n <= n_features)


def shared(train, test, max_features):
    """ShareBoost: one feature per round, for all classes."""
    fitted = ShareBoostClassifier(C=C, max_rounds=max_features + 1).fit(train.X, train.y)
    sizes = [len(_used(fitted, stage)) for stage in range(fitted.model_.n_stages)]
    errors = [float(np.mean(labels != test.y)) for labels in fitted.staged_predict(test.X)]
    return Curve(sizes, errors)


def one_vs_rest(train, test, max_features):
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


def mixed_norm(train, test, max_features):
    """Loss (3) with the l1/linf norm (5): a path by accelerated proximal gradients.

    Each step is re-fitted on its features, without the shrinkage that the norm pays for sparsity:
    without the re-fit, errors are higher.
    """
    X, held_out = standardised(train.X, test.X)
    classes, labels = np.unique(train.y, return_inverse=True)
    weights = np.zeros((X.shape[1], len(classes)))
    curve = Curve([0], [1.0])
    largest = float(np.abs(loss(X, labels, weights)[1][:-1]).sum(axis=1).max())
    for penalty in PENALTIES:
        weights = proximal(X, labels, weights, penalty * largest)
        used = np.flatnonzero(np.abs(weights[:-1]).max(axis=1) > 0)
        if len(used) > max_features:
            break
        columns = np.append(used, X.shape[1] - 1)
        refitted = _refitted(X[:, columns], labels, len(classes))
        predicted = classes[(held_out[:, columns] @ refitted).argmax(axis=1)]
        curve.features.append(len(used))
        curve.errors.append(float(np.mean(predicted != test.y)))
    return curve


def _used(fitted, stage):
    """Features with a weight, without the constant."""
    features = fitted.model_.members["x"].learners.feature
    return set(features[fitted.model_.at_stage(stage).matrix().any(axis=1)].tolist()) - {-1}


def standardised(*tables):
    """Scaled into -1..1 by the first table, as ShareBoost does; the constant is the last column."""
    center = tables[0].mean(axis=0)
    scaler = MaxAbsScaler().fit(tables[0] - center)
    return [np.column_stack((scaler.transform(X - center), np.ones(len(X)))) for X in tables]


def loss(X, labels, weights):
    """Loss (3) and its gradient."""
    rows = np.arange(len(labels))
    exponents = X @ weights + 1.0
    exponents[rows, labels] -= 1.0
    exponents -= exponents[rows, labels][:, None]
    top = exponents.max(axis=1, keepdims=True)
    p = np.exp(exponents - top)
    sums = p.sum(axis=1, keepdims=True)
    p /= sums
    p[rows, labels] -= 1.0
    return float((top + np.log(sums)).mean()), X.T @ p / len(labels)


def proximal(X, labels, start, penalty):
    """FISTA with restarts; the constant is not penalised."""
    lipschitz = 0.5 * float(np.linalg.norm(X, 2) ** 2) / len(labels)
    weights = point = start
    momentum = 1.0
    for _ in range(_PROXIMAL_STEPS):
        moved = point - loss(X, labels, point)[1] / lipschitz
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


def linf_prox(rows, penalty):
    """Each row less its projection onto the l1 ball of radius ``penalty``."""
    sizes = np.sort(np.abs(rows), axis=1)[:, ::-1]
    sums = np.cumsum(sizes, axis=1) - penalty
    counts = np.arange(1, rows.shape[1] + 1)
    last = (sizes - sums / counts > 0).sum(axis=1)
    theta = np.maximum(sums[np.arange(len(rows)), last - 1] / last, 0.0)
    inside = np.sign(rows) * np.maximum(np.abs(rows) - theta[:, None], 0.0)
    return np.where(np.abs(rows).sum(axis=1, keepdims=True) <= penalty, 0.0, rows - inside)


def _refitted(X, labels, n_classes):
    """Loss (3) with the sum of squares over given features."""

    def objective(flat):
        weights = flat.reshape(X.shape[1], n_classes)
        value, gradient = loss(X, labels, weights)
        return value + float((weights**2).sum()) / C, (gradient + 2.0 * weights / C).ravel()

    start = np.zeros(X.shape[1] * n_classes)
    options = {"gtol": 1e-4, "maxiter": 1000}
    solution = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return solution.x.reshape(X.shape[1], n_classes)
