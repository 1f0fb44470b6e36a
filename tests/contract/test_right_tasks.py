"""Right tasks of many kinds, without ``is_valid``, are never refused by check_task."""

from __future__ import annotations

import itertools
import warnings
from typing import ClassVar

import numpy as np
import pytest

from structboost import PartKind, StructBoost, Task, check_task
from structboost.errors import TaskError, UnsureOutputWarning


class OneChannel(Task):
    """Base of tasks whose outputs are lists of parts, of one channel each."""

    kinds: ClassVar = {"x": PartKind(1)}

    def parts(self, x):
        return x.reshape(-1, x.shape[-1])

    def joint_feature(self, x, y):
        return np.array(y, int), np.zeros(len(y), int), np.ones(len(y))

    def loss(self, y, y_pred):
        return float(len(set(map(int, y)) ^ set(map(int, y_pred))))

    def listed(self, x):
        """All outputs of an input, none of which check_task sees."""
        raise NotImplementedError

    def argmax(self, x, scores, y=None):
        def value(z):
            score = scores[np.array(z, int), 0].sum()
            return score + (0.0 if y is None else self.loss(y, z))

        return max(self.listed(x), key=value)


class Alignment(OneChannel):
    """Monotone path from corner to corner of a table."""

    def listed(self, x):
        n, m = x.shape[:2]

        def paths(i, j):
            if (i, j) == (n - 1, m - 1):
                yield [i * m + j]
            for di, dj in ((1, 1), (1, 0), (0, 1)):
                if i + di < n and j + dj < m:
                    for rest in paths(i + di, j + dj):
                        yield [i * m + j, *rest]

        return paths(0, 0)


class TopK(OneChannel):
    """As many items as the first feature of the input says."""

    def listed(self, x):
        return itertools.combinations(range(len(x)), 1 + int(x[0, 0] > 0))


class Permutations(OneChannel):
    def listed(self, x):
        n = x.shape[0]
        return (
            [i * n + j for i, j in enumerate(order)] for order in itertools.permutations(range(n))
        )


class AllowedPairs(Permutations):
    """Matchings without the pairs whose first feature is large, but the diagonal."""

    def listed(self, x):
        closed = {int(k) for k in np.flatnonzero(x[..., 0].ravel() > 1) if k % (x.shape[0] + 1)}
        return (z for z in super().listed(x) if not closed & set(z))


RIGHT = {
    Alignment: [(2, 3, 1), (3, 2, 1), (1, 6, 1), (6, 1, 1)] * 3,
    TopK: [(4, 2)] * 12,
    Permutations: [(3, 3, 1)] * 12,
    AllowedPairs: [(3, 3, 1)] * 12,
}


def examples(task, shapes):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=shape) for shape in shapes]
    outputs = [list(task.listed(x)) for x in X]
    return X, [of_input[rng.integers(len(of_input))] for of_input in outputs]


@pytest.mark.slow
@pytest.mark.parametrize("make", RIGHT)
def test_a_right_task_passes_check_task_and_trains(make):
    X, Y = examples(make(), RIGHT[make])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_task(make(), X, Y)
        trainer = StructBoost(make(), C=10.0, tol=0.1, max_rounds=20).fit(X, Y)
    assert trainer.history_[-1]["certified"]


def without_best(make):
    """The same task, whose argmax never returns what a sure search returns at zero scores."""

    class Broken(make):
        def listed(self, x):
            return list(super().listed(x))[:-1] or list(super().listed(x))

    return Broken


@pytest.mark.parametrize("make", RIGHT)
def test_the_same_task_that_forgets_an_output_is_refused_or_warned_of(make):
    X, _ = examples(make(), RIGHT[make])
    last = [list(make().listed(x))[-1] for x in X]
    with pytest.raises(TaskError, match=r"is not exact: .* the true output has"):
        check_task(without_best(make)(), X, last)


class NoClosedPairs(AllowedPairs):
    def is_valid(self, x, y):
        return tuple(map(int, y)) in {tuple(z) for z in self.listed(x)}


def test_a_task_with_is_valid_is_checked_without_a_warning():
    X, Y = examples(NoClosedPairs(), RIGHT[AllowedPairs])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnsureOutputWarning)
        check_task(NoClosedPairs(), X, Y)
