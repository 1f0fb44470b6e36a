"""Small tasks that list their outputs, and inputs for them."""

import itertools

import numpy as np
from numpy.random import default_rng

from structboost.contract.parts import PartKind
from structboost.contract.task import Task
from tests.helpers import choose


class Choose(choose.Choose):
    """With all outputs listed."""

    def outputs(self, x):
        return range(len(x))


class Pairs(Task):
    """Two binary labels that like to agree: two kinds of parts, the second with scores >= 0."""

    kinds = {"node": PartKind(), "edge": PartKind(response=(0.0, 1.0))}

    def parts(self, x):
        return {"node": x[:2], "edge": np.abs(x[2:])}

    def joint_feature(self, x, y):
        return {
            "node": np.array(y, float)[:, None],
            "edge": np.array([[-float(y[0] != y[1])]]),
        }

    def loss(self, y, y_pred):
        return float(y[0] != y_pred[0]) + float(y[1] != y_pred[1])

    def outputs(self, x):
        return list(itertools.product((0, 1), repeat=2))

    def argmax(self, x, scores, y=None):
        def value(z):
            score = np.dot(scores["node"][:, 0], z) - scores["edge"][0, 0] * (z[0] != z[1])
            return score + (0 if y is None else self.loss(y, z))

        return max(self.outputs(x), key=value)


def candidates(n=12, seed=0):
    rng = default_rng(seed)
    X = [rng.normal(size=(rng.integers(2, 5), 3)) for _ in range(n)]
    return X, [int(rng.integers(len(x))) for x in X]


def pairs(n=10):
    rng = default_rng(1)
    return [rng.normal(size=(3, 2)) for _ in range(n)], [
        tuple(rng.integers(0, 2, 2).tolist()) for _ in range(n)
    ]


def is_third(x):
    """Whether ``x`` is input 3 of :func:`candidates`."""
    return np.array_equal(x, candidates()[0][3])


class FirstTwoOnly(Choose):
    def argmax(self, x, scores, y=None):
        return super().argmax(x[:2], scores[:2], y)


class Listed(Choose):
    """Its outputs are listed, its loss is one of parts: it needs no argmax."""

    argmax = None

    def loss_scores(self, x, y):
        return abs(np.arange(len(x)) - y)[:, None]


class Batched(Listed):
    """The argmax of many examples at once."""

    def argmax(self, x, scores):
        return int(np.argmax(scores[:, 0]))

    def argmax_batch(self, X, scores, Y=None):
        assert Y is None
        flat, ends = scores.rows["x"][:, 0], scores.offsets["x"]
        return [int(np.argmax(flat[a:b])) for a, b in itertools.pairwise(ends)]
