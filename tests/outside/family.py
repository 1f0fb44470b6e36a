"""A family of weak learners: whether a feature is in a band between two of its deciles."""

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from structboost.files import Array, DamagedFileError
from structboost.learners import Candidate, LearnerTable, WeakLearnerFamily, register_weak_learner


class Band(NamedTuple):
    feature: int
    lower: float
    upper: float
    inside: float
    outside: float


@dataclass(frozen=True)
class BandTable(LearnerTable):
    schema = {
        "feature": Array("int64", ("n_learners",), low=0, high="n_features - 1"),
        "lower": Array("float64", ("n_learners",)),
        "upper": Array("float64", ("n_learners",)),
        "inside": Array("float64", ("n_learners",)),
        "outside": Array("float64", ("n_learners",)),
    }

    feature: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    inside: np.ndarray
    outside: np.ndarray

    def responses(self, features):
        values = np.asarray(features, np.float64)[:, self.feature].T
        is_in = (values >= self.lower[:, None]) & (values <= self.upper[:, None])
        return np.where(is_in, self.inside[:, None], self.outside[:, None])

    def feature_shares(self, n_features):
        return np.eye(n_features)[self.feature]


class BandFamily(WeakLearnerFamily):
    name = "band"
    exact_pricing = True
    can_resume = True

    def __init__(self, features, response, *, exact=False, n_threads=1):
        self.n_features = features.shape[1]
        low, high = map(float, response)
        edges = np.quantile(np.asarray(features, np.float64), np.linspace(0, 1, 11), axis=0)
        self.bands = [
            Band(f, float(a), float(b), *ways)
            for f in range(self.n_features)
            for a, b in combinations(edges[:, f], 2)
            for ways in ((low, high), (high, low))
        ]
        self.number = {band: k for k, band in enumerate(self.bands)}
        self.answers = self.table(self.bands).responses(features).astype(np.int8)

    def price(self, duals, per_channel):
        edges = self.answers.astype(np.float64) @ duals
        found = [
            Candidate(self.bands[k], channel, float(column[k]))
            for channel, column in enumerate(edges.T)
            for k in np.argsort(-column, kind="stable")[:per_channel]
        ]
        return sorted(found, key=lambda candidate: -candidate.edge)

    def responses(self, learners):
        return self.answers[[self.number[band] for band in learners]]

    def table(self, learners):
        columns = np.array(learners, np.float64).reshape(-1, 5).T
        return BandTable(columns[0].astype(np.int64), *columns[1:])

    def restored(self, values):
        band = Band(*values)
        if band not in self.number:
            raise DamagedFileError(f"the band {values} is none of these features")
        return band


register_weak_learner(BandFamily, BandTable)
