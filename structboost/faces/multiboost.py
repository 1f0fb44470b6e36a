"""Classifiers that train MultiBoost and MultiBoost^cw."""

from __future__ import annotations

from typing import Any

from structboost._typing import override
from structboost.faces.classifiers import BoostedClassifier, RoundsOfStumps
from structboost.faces.coded import LOSSES
from structboost.faces.parameters import estimator
from structboost.faces.recipe import Recipe
from structboost.objectives.exponential import Exponential
from structboost.validation import checked_choice


@estimator(RoundsOfStumps)
class MultiBoostCWClassifier(BoostedClassifier):
    """Classifier with one weak learner per class and round, by exponential loss (MultiBoost^cw).

    Lin, Shen, van den Hengel and Suter, ACCV 2012.

    Parameters
    ----------
    C : float
        Weight of the training loss, infinite for no regularisation.  ``C=float("inf"), tau_max=1``
        is CW-1, the stage-wise method of the paper's tables.
    tol : float
        Relative gap at which training stops.
    max_rounds : int
        Maximum number of rounds of column generation.
    tau_max : int
        Number of sweeps of coordinate descent per round; 1 is stage-wise.
    solver : {"fcd", "lbfgs"}
        Fast coordinate descent, or L-BFGS-B on the same problem.
    epsilon : float
        KKT violation below which coordinate descent leaves a weight unchanged.
    random_state : int, RandomState or None
        Seed for the order of the later sweeps, and for the held-out part.

    Attributes
    ----------
    objective_ : float
        ``sum(w) + C/p sum of exp(-margin)``, or the mean of the latter alone if C is infinite.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import MultiBoostCWClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MultiBoostCWClassifier(tol=0.05).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    C: float = 1e4
    tol: float = 0.01
    max_rounds: int = 500
    tau_max: int = 2
    solver: str = "fcd"
    epsilon: float = 1e-3
    taxonomy: Any = None
    monotonic_cst: Any = None

    @override
    def _recipe(self, seed: int = 0) -> Recipe:
        formulation = Exponential(self.solver, self.tau_max, self.epsilon)
        return self._plain_recipe(formulation, pricing="own", columns_per_channel=1)


@estimator(MultiBoostCWClassifier)
class MultiBoostClassifier(BoostedClassifier):
    """Classifier with one weak learner per round that all classes share (MultiBoost).

    Problem (6) of MultiBoost^cw; Shen and Hao, 2011.

    Parameters
    ----------
    C : float
        Weight of the training loss, infinite for no regularisation (exponential loss only).
    loss : {"exponential", "hinge"}
        Loss on the margins, where the hinge uses the best wrong class.
    solver : {"lbfgs", "fcd"}
        Solver for the exponential loss: L-BFGS-B, or fast coordinate descent.

    Attributes
    ----------
    objective_ : float
        The sum of the weights plus C times the mean loss, or the mean loss if C is infinite.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import MultiBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MultiBoostClassifier(C=100.0, max_rounds=50).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    loss: str = "exponential"
    solver: str = "lbfgs"

    @override
    def _recipe(self, seed: int = 0) -> Recipe:
        is_hinge = checked_choice(self.loss, "loss", LOSSES) == "hinge"
        exponential = Exponential(self.solver, self.tau_max, self.epsilon)
        formulation: Any = "one_slack" if is_hinge else exponential
        return self._plain_recipe(formulation, pricing="best", columns_per_channel=1)
