"""Both sides of the papers' statements: objectives, errors and the bounds of them."""

from typing import NamedTuple

import numpy as np
from scipy import sparse as matrices
from scipy.optimize import linprog

from benchmarks.ours import sparse
from structboost import MulticlassTask, ShareBoostClassifier, StructBoost

# Edges above 1 + this are violated; decreases below this part of the objective are none.
EDGE, NONE = 1e-7, 1e-9
# Penalties of the comparison matrices, as parts of the smallest one that leaves no feature.
PENALTIES = np.geomspace(0.95, 1e-3, 24)


class Round(NamedTuple):
    """A round: objective, what (43) of StructBoost promised, best step along one new learner."""

    objective: float
    bound: float
    line: float
    is_violated: bool = True


# StructBoost, Propositions 6.1 and 6.2


def objective(scores, y, size, C):
    """f(w) of (42), of scores F(x_i, y) and the sum of the weights."""
    augmented = scores + (np.arange(scores.shape[1]) != y[:, None])
    return size + C * float(np.mean(augmented.max(axis=1) - scores[np.arange(len(y)), y]))


def decrease(scores, y, response, channel, C):
    """The right side of (43) for a learner on one class, and the decrease of the best step.

    Along ``alpha`` the objective is convex with a slope that jumps where the argmax (44) changes.
    On each piece, ``-alpha`` times the slope is largest at its end.
    """
    augmented = scores + (np.arange(scores.shape[1]) != y[:, None])
    own = augmented[:, channel].copy()
    augmented[:, channel] = -np.inf
    lead = augmented.max(axis=1) - own
    with np.errstate(divide="ignore", invalid="ignore"):
        at = np.where(response != 0, lead / response, np.inf)
    is_class = y == channel
    # The class is the argmax at once, or it becomes or ceases to be so at ``at``.
    starts = (lead < 0) | ((lead == 0) & (response > 0))
    slope = 1.0 + C * float(np.mean(response * starts - response * is_class))
    jumps = np.flatnonzero(np.isfinite(at) & (at > 0))
    jumps = jumps[np.argsort(at[jumps], kind="stable")]
    ends, rises = at[jumps], C * np.abs(response[jumps]) / len(y)
    slopes = np.concatenate(([slope], slope + np.cumsum(rises)))[:-1]
    falls = slopes < 0
    widths = np.diff(ends, prepend=0.0)
    bound = float(np.max(-ends * slopes, initial=0.0))
    return bound, float(-(slopes * widths)[falls].sum())


def algorithm_one(X, y, C, max_rounds=400):
    """Rounds of Algorithm 1 as printed: one stump a round, the master (35) solved by an LP.

    Stumps are all of the training rows and the constant, of both signs, on each class.  The last
    round is the one that finds no violated stump.
    """
    n, n_classes = len(y), int(y.max()) + 1
    cuts = [(f, v) for f in range(X.shape[1]) for v in np.unique(X[:, f])[:-1]]
    stumps = np.column_stack([np.ones(n), *(np.where(X[:, f] > v, 1.0, -1.0) for f, v in cuts)])
    others = [(i, c) for i in range(n) for c in range(n_classes) if c != y[i]]
    example, wrong = (np.array(part) for part in zip(*others, strict=True))
    # Any outputs start it: the first wrong ones.
    multipliers = np.zeros(len(others))
    multipliers[np.unique(example, return_index=True)[1]] = C / n
    slacks = -matrices.eye_array(n, format="csc")[example]
    columns, differences, rounds = [], [], []
    scores, value = np.zeros((n, n_classes)), C
    for _ in range(max_rounds):
        duals = np.zeros((n, n_classes))
        np.add.at(duals, (example, wrong), -multipliers)
        np.add.at(duals, (example, y[example]), multipliers)
        edges = stumps.T @ duals
        stump, channel = np.unravel_index(np.abs(edges).argmax(), edges.shape)
        edge = edges[stump, channel]
        if abs(edge) <= 1.0 + EDGE:
            return [*rounds, Round(value, 0.0, 0.0, is_violated=False)]
        response = np.sign(edge) * stumps[:, stump]
        bound, line = decrease(scores, y, response, channel, C)
        columns.append((response, channel))
        signs = 1.0 * (y[example] == channel) - (wrong == channel)
        differences.append(matrices.csc_array((-response[example] * signs)[:, None]))
        costs = np.concatenate((np.ones(len(columns)), np.full(n, C / n)))
        rows = matrices.hstack((*differences, slacks), format="csc")
        program = linprog(costs, rows, -np.ones(len(others)), method="highs-ds")
        weights, multipliers = program.x[: len(columns)], -program.ineqlin.marginals
        scores = np.zeros((n, n_classes))
        for weight, (h, c) in zip(weights, columns, strict=True):
            scores[:, c] += weight * h
        value = objective(scores, y, weights.sum(), C)
        rounds.append(Round(value, bound, line))
    return rounds


def structboost(X, y, C, tol=1e-3, max_rounds=400):
    """Rounds of the library, which adds columns of all classes a round and solves to a tolerance.

    The bound is that of the new column for which it is largest.
    """
    task = MulticlassTask(int(y.max()) + 1)
    trainer = StructBoost(task, C=C, tol=tol, max_rounds=max_rounds).fit(X, y)
    model = trainer.model_
    member = model.members["x"]
    responses = member.learners.responses(X)[member.term_learners] * member.coefficients[:, None]
    rounds, scores = [], np.zeros((len(y), task.kinds["x"].n_channels))
    before = np.zeros(len(model.weights), np.bool_)
    for stage, weights in zip(model.staged(), model.stages, strict=True):
        new = np.flatnonzero((weights[member.columns] > 0) & ~before[member.columns])
        pairs = [decrease(scores, y, responses[j], member.channels[j], C) for j in new]
        bound, line = np.max(pairs or [(0.0, 0.0)], axis=0).tolist()
        before |= weights > 0
        scores = stage.scores(X)
        rounds.append(Round(objective(scores, y, weights.sum(), C), bound, line))
    return rounds


# ShareBoost, Theorems 1 and 2


def root(n_rows, n_features, n_classes, rounds, delta=0.05):
    """The root in Theorem 1, whose constant is not printed."""
    parameters = rounds * n_classes * np.log(rounds * n_classes) * np.log(n_classes)
    return np.sqrt((parameters + rounds * np.log(n_features) + np.log(1 / delta)) / n_rows)


class Greedy(NamedTuple):
    """ShareBoost after each round, and the bound of its loss by Theorem 2."""

    losses: list[float]
    bounds: list[float]
    train_errors: list[float]
    test_errors: list[float]
    start: float  # loss without features


def greedy(train, test, max_rounds):
    """ShareBoost without a penalty to speak of, and ``min L(W*) + 4 |W*|^2 / T`` over a path.

    The norm is that of l infinity over classes and l1 over features.  The matrices W* minimise the
    loss with a price of this norm, which are those of the smallest bounds.  The constant is no
    feature: it is fitted from the start and has no price.
    """
    fitted = ShareBoostClassifier(C=1e8, max_rounds=max_rounds).fit(train.X, train.y)
    classes, y = np.unique(train.y, return_inverse=True)
    X, _ = sparse.standardised(train.X, test.X)
    staged = [model.scores(train.X) for model in fitted.model_.staged()]
    losses = [sparse.loss_of(scores, y)[0] for scores in staged]
    errors = [
        [float(np.mean(labels != part.y)) for labels in fitted.staged_predict(part.X)]
        for part in (train, test)
    ]
    weights = np.zeros((X.shape[1], len(classes)))
    weights[-1] = np.log(np.bincount(y))
    start, gradient = sparse.loss(X, y, weights)
    largest = float(np.abs(gradient[:-1]).sum(axis=1).max())
    rounds = np.arange(1, len(losses) + 1)
    bounds = np.full(len(losses), start)
    for penalty in PENALTIES:
        weights = sparse.proximal(X, y, weights, penalty * largest)
        norm = float(np.abs(weights[:-1]).max(axis=1).sum())
        bounds = np.minimum(bounds, sparse.loss(X, y, weights)[0] + 4 * norm**2 / rounds)
    return Greedy(losses, bounds.tolist(), *errors, start)
