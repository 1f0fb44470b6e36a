"""A family with features in shards: whether the sum of two features is above one of nine steps."""

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from structboost.files import Array
from structboost.learners import (
    Candidate,
    LearnerTable,
    ResponsesInShard,
    WeakLearnerFamily,
    register_weak_learner,
)


class Step(NamedTuple):
    first: int
    second: int
    height: float
    sign: float


@dataclass(frozen=True)
class StepTable(LearnerTable):
    schema = {
        "first": Array("int64", ("n_learners",), low=0, high="n_features - 1"),
        "second": Array("int64", ("n_learners",), low=0, high="n_features - 1"),
        "height": Array("float64", ("n_learners",)),
        "sign": Array("float64", ("n_learners",)),
    }

    first: np.ndarray
    second: np.ndarray
    height: np.ndarray
    sign: np.ndarray

    def responses(self, features):
        values = np.asarray(features, np.float64)
        sums = (values[:, self.first] + values[:, self.second]).T
        return np.where(sums > self.height[:, None], self.sign[:, None], -self.sign[:, None])

    def feature_shares(self, n_features):
        return (np.eye(n_features)[self.first] + np.eye(n_features)[self.second]) / 2


class Steps(WeakLearnerFamily):
    """Features in memory."""

    name = "step"
    exact_pricing = True
    can_resume = True

    def __init__(self, features, response, *, exact=False, n_threads=1):
        self.n_features = features.shape[1]
        pairs = combinations_with_replacement(range(self.n_features), 2)
        self.steps = [
            Step(f, g, float(height), 1.0)
            for f, g in pairs
            for height in np.quantile(features[:, f] + features[:, g], np.linspace(0.1, 0.9, 9))
        ]
        self.rows = features

    def edges(self, duals):
        return self.table(self.steps).responses(self.rows) @ duals

    def price(self, duals, per_channel):
        edges = self.edges(duals)
        found = [
            Candidate(self.steps[k]._replace(sign=float(np.sign(own[k]) or 1.0)), c, abs(own[k]))
            for c, own in enumerate(edges.T)
            for k in np.argsort(-np.abs(own), kind="stable")[:per_channel]
        ]
        return sorted(found, key=lambda candidate: -candidate.edge)

    def refine(self, learner, duals):
        at = self.steps.index(learner._replace(sign=1.0))
        return [
            Candidate(learner, channel, float(learner.sign * edge))
            for channel, edge in enumerate(self.edges(duals)[at])
        ]

    def responses(self, learners):
        return self.table(learners).responses(self.rows)

    def restored(self, values):
        return Step(*values)

    def table(self, learners):
        first, second, height, sign = np.array(learners, np.float64).reshape(-1, 4).T
        return StepTable(first.astype(np.int64), second.astype(np.int64), height, sign)


class ShardedSteps(Steps):
    """Features in shards, which get steps and return sums."""

    def __init__(self, features, response):
        super().__init__(features, response)
        self.shard_features = RowsOfSteps(self.table(self.steps))

    @classmethod
    def of_kind(cls, features, kind, response, *, exact):
        return cls(features.rows[kind], response)

    def edges(self, duals):
        return duals.sums()

    def responses(self, learners):
        return self.table(learners)


class RowsOfSteps(NamedTuple):
    table: StepTable

    @property
    def identity(self):
        return [self.table.height]

    def in_shard(self, features, starts):
        return StepResponses(features.rows(), starts, self.table)


class StepResponses(ResponsesInShard):
    def __init__(self, features, starts, all_steps):
        super().__init__(features, starts)
        self.all_steps, self.known = all_steps, all_steps.select(np.arange(0))

    def add(self, new):
        first = len(self.known.first)
        arrays = zip(self.known.to_arrays().items(), new.to_arrays().values(), strict=True)
        self.known = StepTable(**{name: np.append(own, more) for (name, own), more in arrays})
        return first

    def answers(self, learners, rows):
        return self.known.select(learners).responses(self.features[rows])

    def block_sums(self, duals, rows):
        return self.all_steps.responses(self.features[rows]) @ duals


register_weak_learner(Steps, StepTable, in_shards=ShardedSteps)
