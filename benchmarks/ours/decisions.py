"""Instances whose costs are predicted, and all learners that predict them but PyEPO's."""

import warnings
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.multioutput import MultiOutputRegressor

from benchmarks.peers.boosters import peer
from benchmarks.runner.datasets import Table
from benchmarks.runner.protocol import Method, cpu_timed, grid, spread
from structboost import PredictThenOptimize
from structboost.decisions import (
    AcyclicPath,
    Assignment,
    Choose,
    DecisionProblem,
    GridPath,
    Knapsack,
)

NOTEBOOK = "structures/decisions/shortest_path_nb03.npz"
KNAPSACK = "structures/decisions/knapsack.npz"


class Instance(NamedTuple):
    """A problem, features and true costs, and the rows of each part."""

    problem: DecisionProblem
    X: np.ndarray  # (n, n_features), or (n, n_items, n_features)
    costs: np.ndarray
    train: np.ndarray
    test: np.ndarray
    # Settings are chosen on the second, by fits on the first; both are rows for training.
    chosen_on: tuple[np.ndarray, np.ndarray]
    expected: np.ndarray | None = None  # costs, where the generator is known
    mean_of_ratios: bool = False  # knapsack.npz's score; else the ratio of sums

    def table(self, rows):
        return Table(self.X[rows], self.costs[rows])

    def regret(self, predicted, rows):
        """Relative regret of the decisions at predicted costs."""
        costs, solve_all = self.costs[rows], self.problem.solve_all
        best = np.einsum("ij,ij->i", costs, solve_all(costs))
        decided = np.einsum("ij,ij->i", costs, solve_all(np.asarray(predicted, float)))
        regret = np.abs(decided - best)
        ratio = regret / best if self.mean_of_ratios else regret.sum() / np.abs(best).sum()
        return float(np.mean(ratio))


def _made(problem, X, costs, n, expected):
    """The first ``n`` rows are for training; settings are chosen on the last quarter of them."""
    rows, cut = np.arange(len(X)), n - n // 4
    return Instance(problem, X, costs, rows[:n], rows[n:], (rows[:cut], rows[cut:n]), expected)


def _noisy(rng, expected):
    """Costs with noise of 0.5, as PyEPO's."""
    return expected * rng.uniform(0.5, 1.5, expected.shape)


def _powers(x, B, degree):
    """Expected costs of PyEPO's shortest paths."""
    return ((x @ B.T / np.sqrt(5) + 3) ** degree + 1) / 3.5**degree


def routes(degree, seed, n=1000, n_test=4000):
    """PyEPO's shortest paths on a grid of 5 x 5."""
    rng, problem = np.random.RandomState(seed), GridPath(5, 5)
    B = rng.binomial(1, 0.5, (problem.n_items, 5))
    x = rng.normal(0, 1, (n + n_test, 5))
    expected = _powers(x, B, degree)
    return _made(problem, x, _noisy(rng, expected), n, expected)


def notebook(file, repeat):
    """The instance of PyEPO's notebook 3, and its rows."""
    x, costs, train, test, B = (file[k] for k in ("x", "c", "train", "test", "B"))
    parts = train, test, (train[:750], train[750:])
    return Instance(GridPath(5, 5), x, costs.astype(float), *parts, _powers(x, B, 4))


def knapsack(file, seed):
    """Prices of half-hours, capacity 60, with the order of days of a seed."""
    X = file["X"][:, :, 1:]  # the first column numbers the days
    rows = X[file["file_train"]].reshape(-1, X.shape[2])
    X = (X - rows.mean(axis=0)) / rows.std(axis=0)
    train, held, test = np.split(file["order"][seed].astype(int), [550, 650])
    parts, problem = (train, test, (train, held)), Knapsack(file["weights"], 60)
    return Instance(problem, X, file["y"], *parts, mean_of_ratios=True)


def network(trial):
    """dboost's small random networks; most costs are negative, so long paths pay."""
    rng = np.random.RandomState(trial)
    arcs = [(j, i) for i in range(5) for j in range(i) if rng.rand() < 0.75 ** (i - j - 1)]
    shape = 5, len(arcs)
    thetas = [rng.binomial(1, 0.5, shape) * rng.uniform(-1, 1, shape) for _ in range(3)]
    x = rng.uniform(-1, 1, (2000, 5))
    powers = sum(x ** (k + 1) @ theta for k, theta in enumerate(thetas))
    expected = powers + rng.normal(-1, 1, len(arcs))
    costs = expected + 0.5 * rng.normal(size=expected.shape)
    return _made(AcyclicPath(np.array(arcs), 0, 4), x, costs, 1000, expected)


def _slow_above(seed, problem, n):
    """Features, and costs of items that rise above thresholds, and further above two at once."""
    rng = np.random.RandomState(seed)
    shape = problem.n_items, 3
    which = rng.randint(0, 5, (2, *shape))
    at = rng.normal(0, 0.5, (2, *shape))
    alone, together = rng.uniform(0, 2, (2, *shape))
    x = rng.normal(0, 1, (n, 5))
    above, also = (x[:, w] > t for w, t in zip(which, at, strict=True))
    return rng, x, 1 + (alone * above + together * (above & also)).sum(axis=2)


def thresholds(seed, n=1000, n_test=4000):
    """Streets of a 5 x 5 grid that are slow above thresholds, and slower above two at once.

    Rush hour slows a street down, rain another, and both together a third. Sizes, noise and
    features are those of PyEPO's shortest paths; only the form of the costs is another.
    """
    problem = GridPath(5, 5)
    rng, x, expected = _slow_above(seed, problem, n + n_test)
    return _made(problem, x, _noisy(rng, expected), n, expected)


def rosters(seed, n=1000, n_test=4000):
    """Six jobs for six workers: how long each takes for each is known for past days.

    A worker takes for a job as long as :func:`thresholds` has it for a street. Each day each worker
    has a form of the day, and each job a size, which no feature tells. Both are added to every
    roster alike, so no decision hinges on them.
    """
    problem = Assignment(6, 6)
    rng, x, expected = _slow_above(seed, problem, n + n_test)
    form, size = rng.normal(0, 2, (2, n + n_test, 6))
    of_day = (form[:, :, None] + size[:, None, :]).reshape(expected.shape)
    return _made(problem, x, _noisy(rng, expected) + of_day, n, expected)


def offers(seed, n=100, n_test=1000):
    """Ten of forty offers are taken; the values of the best are many times those of others.

    A value is exp(2 z), where z is a standardised feature of the offer plus steps at thresholds of
    two others, times noise. Noise is largest where the value is, and there the offer is taken
    anyway; the choice hinges on offers in the middle.
    """
    rng, problem = np.random.RandomState(seed), Choose(40, 10, maximize=True)
    x = rng.normal(0, 1, (n + n_test, 40, 5))
    steps = (x[:, :, 1] > 0) + (x[:, :, 2] > 0.5) * (x[:, :, 3] > -0.5)
    expected = np.exp(2 * (x[:, :, 0] + 0.5 * steps))
    return _made(problem, x, _noisy(rng, expected), n, expected)


class TwoStage(Method):
    """A regressor of scikit-learn's kind, for each item or for all items together."""

    def __init__(self, name, make, candidates):
        self.name, self.make, self.candidates = name, make, candidates
        self.is_joint = name in ("least_squares", "random_forest")

    def fit(self, train, params):
        model = self.make(**params)
        if train.X.ndim == 3:
            return model.fit(_rows(train.X), train.y.ravel())
        return (model if self.is_joint else MultiOutputRegressor(model)).fit(train.X, train.y)

    def output(self, model, X):
        return model.predict(X) if X.ndim == 2 else model.predict(_rows(X)).reshape(X.shape[:2])


def _rows(X):
    return X.reshape(-1, X.shape[-1])


_FOREST = partial(RandomForestRegressor, 100, max_samples=0.5, random_state=0)
_TREES = partial(HistGradientBoostingRegressor, random_state=0)
_LIGHTGBM = partial(peer, "lightgbm", "LGBMRegressor", n_jobs=1, verbose=-1)
TWO_STAGE = (
    TwoStage("least_squares", LinearRegression, [{}]),
    TwoStage("random_forest", _FOREST, grid(min_samples_leaf=(20, 10, 5, 2))),
    TwoStage("hist_gradient_boosting", _TREES, grid(max_leaf_nodes=(2, 8), max_iter=(30, 80))),
    TwoStage("lightgbm", _LIGHTGBM, grid(num_leaves=(2, 8), n_estimators=(30, 80))),
)


class ByRegret(Method):
    """Ours; `tuned` sets the problem of the instance."""

    problem: DecisionProblem

    def __init__(self, name, candidates, **settings):
        self.name, self.candidates = name, candidates
        self.settings = {"tol": 0.05, "max_rounds": 60, "random_state": 0, **settings}

    def fit(self, train, params):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = PredictThenOptimize(self.problem, **self.settings, **params)
            return model.fit(train.X, train.y)

    def output(self, model, X):
        return model.predict_costs(X)

    def facts(self, model):
        return {"gap": model.history_[-1]["gap"], "C": model.C_}


LINEAR, STARTED, EXPECTED = "linear", "stumps_started", "expected_costs"
_CS = grid(C=(3.0, 10.0, 30.0, 100.0))
OURS = (
    ByRegret(LINEAR, grid(start=("none", "least_squares"), C=(1.0, 10.0)), tol=0.02),
    ByRegret("linear_auto", [{}], tol=0.01),
    ByRegret("stumps", _CS, weak_learner="stump"),
    ByRegret("linear_and_stumps", [{}], weak_learner=["linear", "stump"]),
    ByRegret(STARTED, _CS, weak_learner="stump", start="boosted"),
)


def tuned(method, instance, n_candidates):
    """Choose a setting on training rows, fit with it, and measure; seconds are CPU seconds.

    Without a method the costs are those that the generator expects: no prediction is better on
    average.
    """
    if method is None:
        return {"value": instance.regret(instance.expected[instance.test], instance.test)}
    fit_rows, held = instance.chosen_on
    method.problem = instance.problem
    candidates = spread(method.candidates, n_candidates)

    def fit(rows, params):
        return method.fit(instance.table(rows), params)

    def regret(model, rows):
        return instance.regret(method.output(model, instance.X[rows]), rows)

    def tried():
        several = candidates if len(candidates) > 1 else ()
        return [regret(fit(fit_rows, params), held) for params in several] or [0.0]

    values, tuning_seconds = cpu_timed(tried)
    chosen = candidates[int(np.argmin(values))]
    model, seconds = cpu_timed(fit, instance.train, chosen)
    about = {"seconds": seconds, "cpu_in_all": tuning_seconds + seconds, "params": chosen}
    value = regret(model, instance.test)
    return {"value": value, **about, "validation": values, **method.facts(model)}
