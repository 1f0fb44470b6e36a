"""Base of the hinge masters, with a pool of cuts and the linear program over them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from structboost._typing import BoolArray, FloatArray, override
from structboost.contract.calls import beaten
from structboost.errors import TaskError
from structboost.learners.terms import KindTerms
from structboost.objectives.base import ColumnOracle, CutOracle
from structboost.objectives.master import RestrictedMaster
from structboost.solvers.bundle import Bundle, CutPool
from structboost.solvers.cut_program import CutProgram


class HingeMaster(RestrictedMaster):
    """Master of the hinge loss, which sees the training set through its cuts.

    Parameters
    ----------
    oracle : ColumnOracle
    C : float
    pool : CutPool
    norm : float, optional
        Bound of the l1 norm of the weights.

    Attributes
    ----------
    dual_value : float
        Objective of dual multipliers that are feasible up to the edges of columns: divided by
        max(1, largest edge) it bounds the optimum from below (Farley 1990).
    """

    def __init__(
        self, oracle: ColumnOracle, C: float, pool: CutPool, norm: float | None = None
    ) -> None:
        super().__init__(C)
        self.oracle = oracle
        self.weights = np.zeros(oracle.n_columns)
        self.dual_value = 0.0
        self.pool = pool
        self.program = CutProgram(pool, norm)

    @property
    @override
    def n_cuts(self) -> int:
        return len(self.pool.losses[self.pool.made])

    @property
    @override
    def oracle_calls(self) -> int:
        return self.oracle.calls

    @override
    def add_responses(self, kind: str, responses: Any) -> int:
        return self.oracle.add_responses(kind, responses)

    @override
    def add_columns(self, terms: KindTerms, n_new: int) -> None:
        products = self._products(terms, n_new)
        self.oracle.add_columns(terms, n_new)
        self.pool.add_columns(products)
        super().add_columns(terms, n_new)

    @override
    def keep_columns(self, mask: BoolArray) -> None:
        self.oracle.keep_columns(mask)
        self.program.keep_columns(mask)
        self.pool.keep_columns(mask)
        super().keep_columns(mask)

    @override
    def bound(self, largest_edge: float) -> float | None:
        return self.dual_value / max(1.0, largest_edge)

    def _take_duals(self, duals: FloatArray, by: int = 0) -> None:
        """Store the duals that give the bound, and age cuts whose dual is 0 by ``by`` steps."""
        self.pool.duals, self.dual_value = duals, float(duals @ self.pool.losses)
        self.pool.age(duals, by)

    def _values_at(self, weights: FloatArray) -> FloatArray:
        """Lower bounds that the cuts give for their slacks at ``weights``."""
        return self.pool.losses - self.pool.matrix @ weights

    def _check_risk(self, risk: float, earlier: float, weights: FloatArray) -> None:
        """Raise TaskError if the outputs found at ``weights`` give less than the known cuts."""
        if not self.oracle.exact or not beaten(risk, earlier, 0.0):
            return
        terms = np.abs(self.pool.matrix) @ weights + self.pool.losses
        if beaten(risk, earlier, terms.max(initial=0.0)):
            raise TaskError(
                "The loss-augmented argmax is not exact: the outputs that it found make a risk of "
                f"{risk:.6g}, earlier ones {earlier:.6g}. Run check_task(task, X, Y) and correct "
                "it, or set exact_argmax = False."
            )

    @abstractmethod
    def _products(self, terms: KindTerms, n_new: int) -> FloatArray:
        """Products of the stored cuts with new columns, shape (n_cuts, n_new)."""


class CuttingPlaneMaster(HingeMaster, Bundle):
    """Hinge master with one slack for all examples, where a cut has an output for each example."""

    oracle: CutOracle
    takes_sparse_responses = True

    @override
    def duals(self) -> dict[str, Any]:
        is_made = self.pool.made
        return self.oracle.combine(self.pool.cuts[is_made], self.pool.duals[is_made])

    @override
    def _products(self, terms: KindTerms, n_new: int) -> FloatArray:
        products, is_made = np.zeros((len(self.pool), n_new)), self.pool.made
        products[is_made] = self.oracle.products(self.pool.cuts[is_made], terms, n_new)
        return products

    @override
    def _new_cut(self, weights: FloatArray) -> float:
        cut, products, risk = self.oracle.cut_at(weights)
        self._check_risk(risk, self._values_at(weights).max(initial=0.0), weights)
        self.pool.add([cut], products[None], np.array([cut.loss]))
        return risk

    @override
    def _keep_cuts(self, mask: BoolArray) -> None:
        self.oracle.forget(self.pool.keep(mask))
