"""Both sides of the papers' statements, by brute force and an independent program, on made data."""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from benchmarks.ours import sparse
from benchmarks.papers import statements
from benchmarks.papers import statements as page
from benchmarks.runner.datasets import Table
from benchmarks.runner.experiment import Source

pytestmark = pytest.mark.benchmarks


def table(seed, n=24, d=2, k=3):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, (n, d)).astype(float)
    y = np.concatenate((np.arange(k), rng.integers(0, k, n - k)))
    return X, y


@pytest.mark.parametrize("seed", range(20))
def test_bound_and_best_step_are_those_of_a_fine_grid(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 15)
    # Whole numbers give ties of the argmax at no step and at many.
    scores = rng.integers(-2, 3, (15, 3)) / 2 if seed % 2 else rng.normal(size=(15, 3))
    response, channel, C = rng.choice([-1.0, 1.0], 15), seed % 3, 20.0
    bound, line = statements.decrease(scores, y, response, channel, C)

    def value(step):
        moved = scores + np.outer(step * response, np.arange(3) == channel)
        return statements.objective(moved, y, step, C)

    steps = np.linspace(0.0, 6.0, 3001)
    values = np.array([value(step) for step in steps])
    slopes = np.diff(values) / np.diff(steps)
    assert line == pytest.approx(value(0.0) - values.min(), abs=0.05)
    assert bound == pytest.approx(max(0.0, (-steps[:-1] * slopes).max()), abs=0.2)
    assert 0.0 <= bound <= line + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_algorithm_one_ends_at_the_optimum_over_all_stumps(seed):
    X, y = table(seed)
    C = 30.0
    rounds = statements.algorithm_one(X, y, C)
    assert not rounds[-1].is_violated
    cuts = [(f, v) for f in range(X.shape[1]) for v in np.unique(X[:, f])[:-1]]
    stumps = np.array([np.ones(len(y)), *(np.where(X[:, f] > v, 1.0, -1.0) for f, v in cuts)])
    rows = []
    for i, true in enumerate(y):
        for wrong in set(range(3)) - {true}:
            of_class = np.zeros(3)
            of_class[true], of_class[wrong] = 1.0, -1.0
            column = np.outer(stumps[:, i], of_class).ravel()
            rows.append([*-column, *column, *-np.eye(len(y))[i]])
    costs = np.concatenate((np.ones(6 * len(stumps)), np.full(len(y), C / len(y))))
    whole = linprog(costs, rows, -np.ones(len(rows)))
    assert rounds[-1].objective == pytest.approx(whole.fun)
    values = [C, *(one.objective for one in rounds)]
    falls = -np.diff(values)
    assert (falls >= -1e-9).all()
    assert all(one.bound <= fall + 1e-9 for one, fall in zip(rounds, falls, strict=True))
    ours = statements.structboost(X, y, C, tol=1e-4)
    assert ours[-1].objective == pytest.approx(whole.fun, rel=2e-4)


def test_losses_of_shareboost_are_below_the_bound_which_falls_to_that_of_the_best_matrix():
    X, y = table(0, n=120, d=6)
    X += np.eye(3)[y] @ np.random.default_rng(0).normal(size=(3, 6))
    path = statements.greedy(Table(X, y), Table(X, y), 6)
    assert all(np.diff(path.losses) <= 1e-6)
    assert all(np.diff(path.bounds) <= 1e-12)
    assert all(own <= bound for own, bound in zip(path.losses, path.bounds, strict=True))
    assert path.bounds[-1] < path.start
    # A matrix of one feature: its loss and norm give a bound, too, after enough rounds.
    (scaled,) = sparse.standardised(X)
    W = np.zeros((7, 3))
    W[0] = [0.1, 0.0, -0.1]
    start = sparse.loss(scaled, y, np.zeros((7, 3)))[0]
    assert path.start <= start
    assert path.losses[-1] <= sparse.loss(scaled, y, W)[0] + 4 * 0.1**2 / 6
    assert statements.root(100, 6, 3, 4) > statements.root(400, 6, 3, 4)


def test_page_of_statements_is_measured_on_a_table_of_scikit_learn(tmp_path):
    source = Source("iris", Path(tmp_path), quick=True)
    of_papers, _, of_features, of_gap = page.EXPERIMENTS
    for name, rounds in page.ROUNDS.items():
        result = of_papers.measure(source, rounds, C=10.0)
        assert result["rises"] == 0.0, name
        assert 0.0 <= result["promised"] <= result["steps"], name
    rows = of_features.measure(source, statements.greedy, repeat=0)["rows"]
    assert all(row["value"] <= row["bound"] <= row["start"] for row in rows)
    rows = of_gap.measure(source, {}, C=30.0, repeat=0)["rows"]
    assert [row["below"] for row in rows] == list(page.GAPS)
