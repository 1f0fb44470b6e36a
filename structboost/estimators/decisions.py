"""scikit-learn face of predict-then-optimise."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray, IntArray
from structboost.boosting import StructBoost
from structboost.decisions.known import KnownDecisions
from structboost.decisions.problem import DecisionProblem, problem_of
from structboost.estimators.known_decisions import Trainer, costs_of, fit_on_known_decisions
from structboost.estimators.parameters import estimator
from structboost.exceptions import TaskError, warn_user
from structboost.linear.structured_svm import StructuredSVM
from structboost.tasks.predict_then_optimize import (
    DecisionInput,
    PredictThenOptimizeTask,
    TrueDecisions,
)
from structboost.validation import checked_positive, checked_whole_number
from structboost.weak.families import WeakLearners

# The C of the linear function that are tried, until the held-out regret has not fallen twice.
# Beyond them the gap closes slowly, and the regret no longer falls.
_CS = (0.1, 1.0, 10.0, 100.0, 1000.0)
_PATIENCE = 2
_FOLDS = 5
# Near the best C the held-out regret does not tell a gap of a few percent from none.
_COARSE = 0.05
_MAX_EPOCHS = 15
# Standard deviation of the least-squares feature: its weight is hardly regularised.
_SPREAD_OF_START = 10.0
_MAX_PASSES = 20


@estimator
class PredictThenOptimize(BaseEstimator):
    """Predict the costs of a decision so that the decision is good (SPO+ with a certificate).

    Features are standardised, and costs are scaled by their standard deviation.

    Parameters
    ----------
    problem : DecisionProblem or callable
        The problem, or ``solve(costs)`` that gives the decision of least cost.
    C : float or "auto"
        Weight of the training loss against the regulariser.  ``"auto"`` takes the C of the smallest
        regret on held-out instances.
    weak_learner : str, list or dict
        ``"linear"`` fits one linear function by :class:`structboost.StructuredSVM`; anything else
        is given to :class:`structboost.StructBoost`, such as ``["linear", "stump"]``.
    start : {"auto", "least_squares", "none"}
        For ``weak_learner="linear"``: whether the prediction of least squares is a feature whose
        weight is hardly regularised.  ``"auto"`` tries both on the held-out instances of
        ``C="auto"``; with a C that is given it takes least squares.
    spare_solves : bool
        Whether to train, and to choose C, on the decisions known so far, and to call the problem's
        solver only in at most 20 passes that certify the fit.
    tol : float
        Relative gap ``(primal - bound) / primal`` at which training stops.
    max_rounds : int
        Most rounds of column generation; a linear function needs none.
    random_state : int, RandomState or None
        Seed for the held-out instances (None: the same in each fit) and for the order of training.
    n_jobs : int or None
        Number of threads.
    verbose : int
        1 shows a progress bar.

    Attributes
    ----------
    trainer_ : StructuredSVM or StructBoost
        The fitted model, of standardised features and scaled costs.
    C_ : float
        The C given or chosen.
    history_ : list of dict
        One record per round or pass of the last fit, with the certificate.
    passes_ : list of dict
        One per exact pass where solves are spared: gap, exact solves so far, known decisions.
    path_ : list of dict
        Held-out regret of each C and start tried, for a linear function with ``C="auto"``.
    """

    problem: Any = field(kw_only=False)
    C: float | str = "auto"
    weak_learner: WeakLearners = "linear"
    start: str = "auto"
    spare_solves: bool = False
    tol: float = 0.01
    max_rounds: int = 200
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: Any, costs: Any) -> Self:
        """Train on instances whose costs are known.

        Parameters
        ----------
        X : array-like, shape (n, n_features) or (n, n_items, n_features), or list of DecisionInput
            Features of each instance, of each of its items, or of both.
        costs : array-like, shape (n, n_items)
            True costs; values if the problem maximises.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of its range.
        TaskError
            If costs are not finite or a problem has no solution; the message names the instance.
        """
        self._check_parameters()
        problem = problem_of(self.problem)
        given = _Given.of(X)
        table = _checked_table(costs, len(given))
        self.n_features_in_ = given.n_features
        task = PredictThenOptimizeTask(problem, given.features, n_items=table.shape[1])
        solved = task.best_decisions(given.inputs(), table)
        assert isinstance(solved, TrueDecisions)
        self._scale = float(table.std()) or 1.0
        truth = TrueDecisions(solved.chosen, table / self._scale)
        start, C = self.start != "none", self.C
        self.path_: list[dict[str, Any]] = []
        if self._is_linear and C == "auto":
            C, start = self._chosen(problem, given, truth)
        self.preparation_ = _Preparation(given, truth.costs, start=start and self._is_linear)
        self.trainer_ = self._trainer(self._task(problem, truth), C)
        inputs = self.preparation_.inputs(given)
        self.passes_ = []
        if self.spare_solves:
            self.passes_ = fit_on_known_decisions(self.trainer_, inputs, truth, _MAX_PASSES)
            if self.passes_[-1]["gap"] > self.tol:
                warn_user(
                    f"The gap is {self.passes_[-1]['gap']:.2g} after {_MAX_PASSES} exact passes, "
                    f"above tol = {self.tol}; raise tol, lower C, or set spare_solves=False.",
                    ConvergenceWarning,
                )
        else:
            self.trainer_.fit(inputs, truth)
        self.C_ = float(self.trainer_.C if self._is_linear else self.trainer_.C_)
        self.history_ = self.trainer_.history_
        return self

    def predict_costs(self, X: Any) -> FloatArray:
        """Predicted costs, shape (n, n_items)."""
        check_is_fitted(self, "trainer_")
        given = _Given.of(X)
        if given.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {given.n_features} features; the model was fitted with "
                f"{self.n_features_in_}."
            )
        inputs = self.preparation_.inputs(given)
        task: Any = self.trainer_.task
        return self._scale * np.array(costs_of(task, self.trainer_, inputs))

    def predict(self, X: Any) -> FloatArray:
        """The best decision at the predicted costs of each instance, shape (n, n_items)."""
        decisions: FloatArray = problem_of(self.problem).solve_all(self.predict_costs(X))
        return decisions

    def score(self, X: Any, costs: Any) -> float:
        """Minus the normalised regret: total regret over the total size of the best values."""
        check_is_fitted(self, "trainer_")
        given = _Given.of(X)
        table = _checked_table(costs, len(given))
        best = problem_of(self.problem).solve_all(table)
        return -normalized_regret(table, self.predict(X), best)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "trainer_")

    @property
    def _is_linear(self) -> bool:
        return isinstance(self.weak_learner, str) and self.weak_learner == "linear"

    def _check_parameters(self) -> None:
        if self.start not in ("auto", "least_squares", "none"):
            raise ValueError(
                f"start is {self.start!r}; choose one of 'auto', 'least_squares', 'none'."
            )
        if self.C != "auto":
            checked_positive(self.C, "C")
        checked_whole_number(self.max_rounds, "max_rounds")

    def _task(self, problem: DecisionProblem, truth: TrueDecisions) -> PredictThenOptimizeTask:
        n_items = truth.costs.shape[1]
        return PredictThenOptimizeTask(problem, self.preparation_.features, n_items=n_items)

    def _trainer(self, task: PredictThenOptimizeTask, C: Any) -> Trainer:
        if self._is_linear:
            return StructuredSVM(
                task, C=C, tol=self.tol, random_state=self.random_state, verbose=self.verbose
            )
        return StructBoost(
            task, C=C, tol=self.tol, max_rounds=self.max_rounds, weak_learner=self.weak_learner,
            random_state=self.random_state, n_jobs=self.n_jobs, verbose=self.verbose,
        )  # fmt: skip

    def _chosen(
        self, problem: DecisionProblem, given: _Given, truth: TrueDecisions
    ) -> tuple[float, bool]:
        """C and start of the smallest held-out regret.

        Where solves are spared, the decisions are those that are best for some training instance.
        """
        if self.spare_solves:
            problem = KnownDecisions(problem, truth.chosen)
        seed = 0 if self.random_state is None else self.random_state
        n_folds = min(_FOLDS, len(given))
        if n_folds < 2:
            raise ValueError("C is 'auto', which holds out instances; give at least two.")
        folds = list(KFold(n_folds, shuffle=True, random_state=seed).split(truth.costs))
        starts = {"auto": (False, True), "least_squares": (True,), "none": (False,)}[self.start]
        for start in starts:
            since_best, lowest = 0, np.inf
            for C in _CS:
                regrets = [self._held_out(problem, given, truth, C, start, *f) for f in folds]
                regret = float(np.mean(regrets))
                self.path_.append({"C": C, "least_squares": start, "regret": regret})
                since_best = 0 if regret < lowest else since_best + 1
                lowest = min(lowest, regret)
                if since_best == _PATIENCE:
                    break
        best = min(self.path_, key=lambda entry: float(entry["regret"]))
        return float(best["C"]), bool(best["least_squares"])

    def _held_out(
        self,
        problem: DecisionProblem,
        given: _Given,
        truth: TrueDecisions,
        C: float,
        start: bool,
        train: IntArray,
        held: IntArray,
    ) -> float:
        """Regret on the held-out instances of a fold."""
        part = given.take(train)
        preparation = _Preparation(part, truth.costs[train], start=start)
        n_items = truth.costs.shape[1]
        task = PredictThenOptimizeTask(problem, preparation.features, n_items=n_items)
        svm = StructuredSVM(
            task, C=C, tol=max(self.tol, _COARSE), max_epochs=_MAX_EPOCHS,
            random_state=self.random_state,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            svm.fit(
                preparation.inputs(part), TrueDecisions(truth.chosen[train], truth.costs[train])
            )
        predicted = np.array(costs_of(task, svm, preparation.inputs(given.take(held))))
        return normalized_regret(
            truth.costs[held], problem.solve_all(predicted), truth.chosen[held]
        )


def normalized_regret(costs: FloatArray, chosen: FloatArray, best: FloatArray) -> float:
    """Total regret over the total size of the best values.

    Parameters
    ----------
    costs : ndarray, shape (n, n_items)
        True costs or values.
    chosen, best : ndarray, shape (n, n_items)
        Decisions made, and the best ones.
    """
    values = np.einsum("ij,ij->i", costs, best)
    regret = np.abs(np.einsum("ij,ij->i", costs, chosen) - values)
    return float(regret.sum() / max(np.abs(values).sum(), np.finfo(float).tiny))


class _Given:
    """Features of instances and of their items, as two tables; either may be missing."""

    def __init__(self, instance: FloatArray | None, items: FloatArray | None) -> None:
        self.instance, self.items = instance, items

    @classmethod
    def of(cls, X: Any) -> _Given:
        """From what :meth:`PredictThenOptimize.fit` takes."""
        if isinstance(X, Sequence) and len(X) and isinstance(X[0], DecisionInput):
            if any(x.problem is not None for x in X):
                raise ValueError(
                    "X[0] has a problem of its own; PredictThenOptimize has one problem for all, "
                    "train StructuredSVM(PredictThenOptimizeTask(None, ...)) instead."
                )
            parts = [
                None if getattr(X[0], name) is None else [getattr(x, name) for x in X]
                for name in ("instance", "items")
            ]
            tables = [None if p is None else np.asarray(p, np.float64) for p in parts]
        else:
            table = np.asarray(X, np.float64)
            tables = [table, None] if table.ndim == 2 else [None, table]
        for values, ndim in zip(tables, (2, 3), strict=True):
            if values is not None:
                _check_features(values, ndim)
        if tables[0] is None and tables[1] is None:
            raise ValueError("X[0] has features neither of the instance nor of the items.")
        return cls(*tables)

    def __len__(self) -> int:
        return len(self.items if self.instance is None else self.instance)  # type: ignore[arg-type]

    @property
    def features(self) -> str:
        """The name of what there is, for the task."""
        return "items" if self.instance is None else "instance" if self.items is None else "both"

    @property
    def n_features(self) -> int:
        """Numbers of features, added up."""
        return sum(t.shape[-1] for t in (self.instance, self.items) if t is not None)

    def take(self, rows: IntArray) -> _Given:
        """Some of the instances."""
        return _Given(*(None if t is None else t[rows] for t in (self.instance, self.items)))

    def inputs(self) -> Any:
        """Inputs of the task."""
        if self.items is None:
            return self.instance
        if self.instance is None:
            return self.items
        return [DecisionInput(*row) for row in zip(self.instance, self.items, strict=True)]


def _check_features(table: FloatArray, ndim: int) -> None:
    if table.ndim != ndim or not table.size:
        raise ValueError(
            f"X has shape {table.shape}; give (n, n_features) for features of instances, "
            "(n, n_items, n_features) for features of items."
        )
    bad = np.flatnonzero(~np.isfinite(table).all(axis=tuple(range(1, ndim))))
    if len(bad):
        raise TaskError("X[{sample}] has NaN or infinite features; impute them.", int(bad[0]))


class _Preparation:
    """Standardised features, and the prediction of least squares as one of them.

    Parameters
    ----------
    given : _Given
        Training instances.
    costs : ndarray, shape (n, n_items)
    start : bool
        Whether to add the prediction of least squares to the features of the items.
    """

    def __init__(self, given: _Given, costs: FloatArray, *, start: bool) -> None:
        self._moments = [_moments(t) for t in (given.instance, given.items)]
        self._of_items: Any = None
        self._of_instance: Any = None
        self.start = start
        self.features = "both" if start and given.items is None else given.features
        if start:
            left, scaled = costs, self._scaled(given)
            if scaled.items is not None:
                rows = scaled.items.reshape(costs.size, -1)
                self._of_items = LinearRegression().fit(rows, left.ravel())
                left = left - self._of_items.predict(rows).reshape(costs.shape)
            if scaled.instance is not None:
                self._of_instance = LinearRegression().fit(scaled.instance, left)
            predicted = self._least_squares(scaled, costs.shape)
            self._center, self._spread = predicted.mean(), predicted.std() or 1.0
            self._n_items = costs.shape[1]

    def inputs(self, given: _Given) -> Any:
        """Inputs of the task."""
        scaled = self._scaled(given)
        if not self.start:
            return scaled.inputs()
        predicted = self._least_squares(scaled, (len(given), self._n_items))
        column = (_SPREAD_OF_START / self._spread) * (predicted - self._center)[:, :, None]
        items = column if scaled.items is None else np.concatenate((scaled.items, column), axis=2)
        return _Given(scaled.instance, items).inputs()

    def _scaled(self, given: _Given) -> _Given:
        tables = (given.instance, given.items)
        return _Given(
            *(
                None if table is None else (table - moments[0]) / moments[1]
                for table, moments in zip(tables, self._moments, strict=True)
            )
        )

    def _least_squares(self, scaled: _Given, shape: tuple[int, ...]) -> FloatArray:
        out = np.zeros(shape)
        if self._of_items is not None and scaled.items is not None:
            out += self._of_items.predict(scaled.items.reshape(out.size, -1)).reshape(shape)
        if self._of_instance is not None:
            out += self._of_instance.predict(scaled.instance)
        return out


def _moments(table: FloatArray | None) -> tuple[Any, Any]:
    """Means and standard deviations of the features; 1 where one is constant."""
    if table is None:
        return 0.0, 1.0
    rows = table.reshape(-1, table.shape[-1])
    spread = rows.std(axis=0)
    return rows.mean(axis=0), np.where(spread > 0, spread, 1.0)


def _checked_table(costs: Any, n: int) -> NDArray[np.float64]:
    table = np.asarray(costs, np.float64)
    if table.ndim != 2 or len(table) != n:
        raise ValueError(f"costs has shape {table.shape}; give a row of costs for each of {n} X.")
    return table
