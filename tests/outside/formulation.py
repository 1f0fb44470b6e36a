"""A formulation, ``min price * sum(w) + C risk(w)``, with Kelley's cutting planes as its master."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from structboost.files import Array, Part
from structboost.objectives import Formulation, RestrictedMaster

MAX_CUTS = 1000


@dataclass(frozen=True)
class PricedNorm(Formulation):
    price: float = 2.0
    works_on_shards = True
    can_resume = True

    def check(self):
        if not self.price > 0:
            raise ValueError(f"price is {self.price!r}; give a number above 0.")

    def start(self, problem, C):
        return PricedNormMaster(problem.cut_oracle(), C, self.price)


class PricedNormMaster(RestrictedMaster):
    def __init__(self, oracle, C, price):
        super().__init__(C)
        self.oracle, self.price = oracle, price
        self.cuts = []
        self.matrix, self.losses, self.multipliers = np.zeros((0, 0)), np.zeros(0), np.zeros(0)

    @property
    def primal(self):
        return float(self.price * self.weights.sum() + self.C * self.risk)

    @property
    def min_edge(self):
        return self.price

    @property
    def n_cuts(self):
        return len(self.cuts)

    @property
    def oracle_calls(self):
        return self.oracle.calls

    def set_C(self, C):
        self.multipliers *= C / self.C
        self.C = C

    def add_responses(self, kind, responses):
        return self.oracle.add_responses(kind, responses)

    def add_columns(self, terms, n_new):
        products = self.oracle.products(self.cuts, terms, n_new)
        self.oracle.add_columns(terms, n_new)
        self.matrix = np.hstack((self.matrix, products))
        self.weights = np.concatenate((self.weights, np.zeros(n_new)))

    def keep_columns(self, kept):
        self.oracle.keep_columns(kept)
        self.matrix, self.weights = self.matrix[:, kept], self.weights[kept]

    def solve(self, tolerance, selected=None):
        if not self.cuts:
            self._cut(self.weights)
        for _ in range(MAX_CUTS):
            weights = self._minimiser_of_the_cuts()
            if self.primal - self.multipliers @ self.losses <= tolerance * self.primal:
                return
            self._cut(weights)

    def duals(self):
        return self.oracle.combine(self.cuts, self.multipliers)

    def bound(self, largest_edge):
        return float(self.multipliers @ self.losses) / max(1.0, largest_edge / self.price)

    def state(self):
        numbers = {"risk": self.risk, "calls": self.oracle.calls}
        arrays = {
            "weights": self.weights,
            "matrix": self.matrix,
            "losses": self.losses,
            "multipliers": self.multipliers,
        }
        return numbers, arrays | self.oracle.state(self.cuts)

    def schema(self, n_learners):
        arrays = {
            "weights": Array("float64", ("n_live",), low=0.0),
            "matrix": Array("float64", ("n_cuts", "n_live")),
            "losses": Array("float64", ("n_cuts",)),
            "multipliers": Array("float64", ("n_cuts",), low=0.0),
        }
        return {"": Part(arrays), **self.oracle.schema(n_learners)}

    def restore(self, numbers, arrays):
        self.cuts = self.oracle.restored_cuts(arrays, len(arrays["losses"]))
        for name in ("weights", "matrix", "losses", "multipliers"):
            setattr(self, name, arrays[name])
        self.risk, self.oracle.calls = numbers["risk"], numbers["calls"]

    def _cut(self, weights):
        cut, products, risk = self.oracle.cut_at(weights)
        self.cuts.append(cut)
        self.matrix = np.vstack((self.matrix, products))
        self.losses = np.append(self.losses, cut.loss)
        self.multipliers = np.append(self.multipliers, 0.0)
        if self.price * weights.sum() + self.C * risk < self.primal:
            self.weights, self.risk = weights.copy(), risk

    def _minimiser_of_the_cuts(self):
        n_cuts, n_columns = self.matrix.shape
        answer = linprog(
            np.append(np.full(n_columns, self.price), self.C),
            np.hstack((-self.matrix, -np.ones((n_cuts, 1)))),
            -self.losses,
            method="highs",
        )
        assert answer.status == 0
        self.multipliers = np.maximum(-answer.ineqlin.marginals, 0.0)
        return np.maximum(answer.x[:-1], 0.0)
