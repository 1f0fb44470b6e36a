"""scikit-learn face of predict-then-optimise."""

from __future__ import annotations

from dataclasses import field
from os import PathLike
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray
from structboost.decisions.known import KnownDecisions
from structboost.decisions.problem import DecisionProblem, problem_of
from structboost.engines.base import Engine
from structboost.engines.registry import engine_of
from structboost.estimators.decision_folds import FoldFits, normalized_regret
from structboost.estimators.decision_inputs import FeatureTables, Preparation, checked_costs
from structboost.estimators.decisions_file import FORMAT, read_decisions, write_decisions
from structboost.estimators.known_decisions import costs_of, fit_on_known_decisions
from structboost.estimators.parameters import estimator
from structboost.estimators.saved import plain_parameters
from structboost.exceptions import TaskError, warn_user
from structboost.files.schema import DamagedFileError
from structboost.linear.structured_svm import StructuredSVM
from structboost.linear.trainers import trainer_of
from structboost.runtime.documentation import Documented
from structboost.tasks.predict_then_optimize import (
    PredictThenOptimizeTask,
    TrueDecisions,
)
from structboost.training.boosting import StructBoost
from structboost.training.trainer import Trainer
from structboost.validation import (
    checked_choice,
    checked_positive,
    checked_relative_gap,
    checked_weights,
    checked_whole_number,
)
from structboost.weak.families import WeakLearners

_MAX_PASSES = 20


@estimator
class PredictThenOptimize(Documented, BaseEstimator):
    """Predict the costs of a decision so that the decision is good (SPO+ with a certificate).

    Features are standardised, and costs are scaled by their standard deviation.

    Parameters
    ----------
    problem : DecisionProblem or callable
        The problem, or ``solve(costs)`` that gives the decision of least cost.
    C : float or "auto"
        Weight of the training loss against the regulariser.  ``"auto"`` goes by the regret of
        held-out instances.  A linear function is then the mean of the fits, one for each of five
        parts held out, of the five best C and starts; with ``spare_solves`` or
        ``start="boosted"`` it is one fit with the best C and start.  A union such as
        ``["linear", "stump"]`` is such a linear function, too, unless boosting it has a smaller
        regret on the same held-out instances.
    weak_learner : str, list or dict
        ``"linear"`` fits one linear function by :class:`structboost.StructuredSVM`; anything else
        is given to :class:`structboost.StructBoost`, such as ``["linear", "stump"]``.
    start : {"auto", "least_squares", "boosted", "none"}
        Which prediction by squared error is one more feature of each item, with a weight that is
        hardly regularised: that of least squares, that of scikit-learn's boosted trees, or none.
        For linear functions, ``"auto"`` tries least squares and none on the held-out instances of
        ``C="auto"``; with a C that is given it takes least squares.  For boosting it takes none.
    spare_solves : bool
        Whether to train, and to choose C, on the decisions known so far, and to call the problem's
        solver for a few instances at a time, and for all of them to certify the fit: some 20 times
        for each instance at most.
    tol : float
        Relative gap ``(primal - bound) / primal`` at which training stops.
    max_rounds : int
        Most rounds of column generation; a linear function needs none.
    engine : {"serial", "threads", "processes", "dask"} or Engine
        Who solves the problems in boosting: ``"processes"`` if a solve is slow and holds Python's
        lock.  A linear function is fitted in this process.
    random_state : int, RandomState or None
        Seed for the held-out instances (None: the same in each fit) and for the order of training.
    n_jobs : int or None
        Number of threads or processes of boosting.
    verbose : int
        1 shows a progress bar.

    Attributes
    ----------
    trainer_ : StructuredSVM or StructBoost
        The fitted model, of standardised features and scaled costs.
    C_ : float
        The C given or chosen.
    history_ : list of dict
        One record per round or pass of the last fit, with the certificate.  Where the model is a
        mean of fits, the last record of each, with its ``C`` and ``start``.
    passes_ : list of dict
        One per fit where solves are spared: gap, whether it is certified, exact solves so far,
        known decisions.
    path_ : list of dict
        Held-out ``regret`` of each ``C`` and ``start`` tried, for linear functions with
        ``C="auto"``; of boosting, ``trainer_.C_path_`` has the like.
    path_end_ : str
        Why no other C was tried, for each start; empty where there is no path.

    Notes
    -----
    Elmachtoub and Grigas, Smart "predict, then optimize", Management Science 2022: the SPO+ loss
    (definition 3).  :class:`structboost.PredictThenOptimizeTask` says how it is a structured hinge.
    """

    problem: Any = field(kw_only=False)
    C: float | str = "auto"
    weak_learner: WeakLearners = "linear"
    start: str = "auto"
    spare_solves: bool = False
    tol: float = 0.01
    max_rounds: int = 200
    engine: str | Engine = "threads"
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
        given = FeatureTables.of(X)
        table = checked_costs(costs, len(given))
        if given.items is not None and given.items.shape[1] != table.shape[1]:
            raise ValueError(
                f"X has features of {given.items.shape[1]} items, and costs has {table.shape[1]} "
                "columns; give one of each per item."
            )
        self.n_features_in_, self._n_items = given.n_features, table.shape[1]
        task = PredictThenOptimizeTask(problem, given.features, n_items=table.shape[1])
        solved = task.best_decisions(given.inputs(), table)
        assert isinstance(solved, TrueDecisions)
        self._scale = _spread(table) or 1.0
        truth = TrueDecisions(solved.chosen, table / self._scale)
        start, C = self._starts()[-1], self.C
        self.path_: list[dict[str, Any]] = []
        self.path_end_ = ""
        self.passes_: list[dict[str, Any]] = []
        if C == "auto" and (self._is_linear or self._may_be_linear):
            fits = self._fold_fits(problem, given, truth)
            self.path_, self.path_end_ = fits.path, fits.end
            if not self.spare_solves and self.start != "boosted":
                self._keep_best(fits, problem, given, truth)
                return self
            C, start = fits.best
        self.preparation_ = Preparation(given, truth.costs, start)
        self.trainer_ = self._trainer(self._task(problem, truth), C)
        inputs = self.preparation_.training_inputs
        if self.spare_solves:
            self.passes_ = fit_on_known_decisions(self.trainer_, inputs, truth, _MAX_PASSES)
            if self.passes_[-1]["gap"] > self.tol:
                warn_user(
                    f"The gap is {self.passes_[-1]['gap']:.2g} after "
                    f"{self.passes_[-1]['exact_solves']} exact solves, above tol = {self.tol}; "
                    "raise tol, lower C, or set spare_solves=False.",
                    ConvergenceWarning,
                )
        else:
            self.trainer_.fit(inputs, truth)
        self.C_ = self.trainer_.C_
        self.history_ = self.trainer_.history_
        return self

    def _keep_best(
        self, fits: FoldFits, problem: DecisionProblem, given: FeatureTables, truth: TrueDecisions
    ) -> None:
        """The mean of the linear fits, or a union of families where that is better on the folds."""
        self.preparation_ = Preparation(given, truth.costs)
        task = self._task(problem, truth)
        if not self._is_linear:
            boosted = self._trainer(task, self.C)
            assert isinstance(boosted, StructBoost)
            inputs, folds = self.preparation_.training_inputs, fits.folds(self.preparation_)
            # Linear functions alone have been judged, and every solve of further paths costs time.
            boosted.fit(inputs, truth, folds=folds, can_split=False)
            if not fits.beat([entry["losses"] for entry in boosted.C_path_]):
                self.trainer_ = boosted
                self.C_, self.history_ = float(boosted.C_), boosted.history_
                return
        self.trainer_ = fits.mean(task, self.preparation_)
        self.C_, self.history_ = fits.best[0], self.trainer_.history_

    def predict_costs(self, X: Any) -> FloatArray:
        """Predicted costs of each instance.

        Parameters
        ----------
        X : array-like, shape (n, n_features) or (n, n_items, n_features), or list of DecisionInput
            Features, as in :meth:`fit`.

        Returns
        -------
        costs : ndarray, shape (n, n_items)
            In the unit of the true costs; values if the problem maximises.

        Raises
        ------
        ValueError
            If features are not finite, or another number than in training.
        """
        check_is_fitted(self, "trainer_")
        given = FeatureTables.of(X)
        if given.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {given.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return self._predicted(given)

    def _predicted(self, given: FeatureTables) -> FloatArray:
        inputs = self.preparation_.inputs(given)
        task: Any = self.trainer_.task
        return self._scale * np.array(costs_of(task, self.trainer_, inputs))

    def predict(self, X: Any) -> FloatArray:
        """The best decision at the predicted costs of each instance.

        Parameters
        ----------
        X : array-like, shape (n, n_features) or (n, n_items, n_features), or list of DecisionInput
            Features, as in :meth:`fit`.

        Returns
        -------
        decisions : ndarray, shape (n, n_items)
            What the problem's ``solve`` returns for each instance, as its ``simplify_all`` has it:
            the decision of :class:`ShortestPath` is a path, without the cycles of a flow.

        Raises
        ------
        ValueError
            As :meth:`predict_costs` does.
        """
        problem = problem_of(self.problem)
        decisions: FloatArray = problem.simplify_all(problem.solve_all(self.predict_costs(X)))
        return decisions

    def score(self, X: Any, costs: Any, sample_weight: Any = None) -> float:
        """Minus the normalised regret: total regret over the total size of the best values.

        Parameters
        ----------
        X, costs : array-like
            As in :meth:`fit`.
        sample_weight : array-like, shape (n,), optional
            Weight of each instance in both totals.

        Returns
        -------
        score : float
            At most 0.

        Raises
        ------
        ValueError
            If an argument is out of its range, or lengths differ.
        """
        decisions = self.predict(X)
        table = checked_costs(costs, len(decisions))
        task = PredictThenOptimizeTask(self.problem, n_items=self._n_items)
        best = task.best_decisions(list(decisions), table)
        assert isinstance(best, TrueDecisions)
        weights = checked_weights(sample_weight, len(decisions))
        return -normalized_regret(table, decisions, best.chosen, weights)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model (not the problem) to a file, without pickle: all of it or nothing.

        Parameters
        ----------
        path : str or path
            The file; an existing one is replaced.

        Raises
        ------
        ValueError
            If the model starts from boosted trees (``start="boosted"``), which no file holds.
        """
        check_is_fitted(self, "trainer_")
        trainer = self.trainer_
        facts = {
            "parameters": plain_parameters(self),
            "C": self.C_,
            "scale": self._scale,
            "history": list(self.history_),
            "passes": self.passes_,
            "path": self.path_,
            "n_items": self._n_items,
            "maximize": bool(problem_of(self.problem).maximize),
        }
        write_decisions(path, trainer.model_, self.preparation_, facts)

    @classmethod
    def load(cls, path: str | PathLike[str], problem: Any) -> Self:
        """A fitted model from a file that :meth:`save` wrote, and the problem.

        Parameters
        ----------
        path : str or path
            The file.
        problem : DecisionProblem or callable
            As in training.

        Returns
        -------
        model : PredictThenOptimize
            The fitted model.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ModelFileError
            If it is no such file, is damaged, or is of another version.
        TaskError
            If the problem has another number of items, or maximises where that of training did not.
        """
        model, preparation, facts = read_decisions(path)
        given, n_items = problem_of(problem), facts["n_items"]
        if getattr(given, "n_items", n_items) not in (n_items, None):
            raise TaskError(
                f"The model in {path} is of {n_items} items, and the problem has {given.n_items}; "
                "give the problem that it was trained on."
            )
        # Files of earlier versions do not say it.
        if facts.get("maximize", given.maximize) != bool(given.maximize):
            raise TaskError(
                f"The model in {path} predicts {'costs' if given.maximize else 'values'}, and the "
                f"problem has maximize={given.maximize}; give the problem that it was trained on."
            )
        task = PredictThenOptimizeTask(problem, preparation.features, n_items=n_items)
        with FORMAT.damage(path):
            made = cls(problem, **facts["parameters"])
            made.preparation_, made._n_items = preparation, n_items
            if dict(task.kinds) != dict(model.kinds):
                raise DamagedFileError("its model is of other items")
            made._scale, made.C_ = float(facts["scale"]), float(facts["C"])
            made.history_, made.passes_ = facts["history"], facts["passes"]
            made.path_ = facts["path"]
            made.trainer_ = trainer_of(model, task)
            blank = preparation.blank(made._n_items)
            made.n_features_in_ = blank.n_features
            # Parts that do not fit together raise here, not at the first prediction.
            made._predicted(blank)
        return made

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "trainer_")

    @property
    def _is_linear(self) -> bool:
        return isinstance(self.weak_learner, str) and self.weak_learner == "linear"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.single_output, tags.target_tags.multi_output = False, True
        return tags

    @property
    def _may_be_linear(self) -> bool:
        """Whether the linear functions of a union are judged alone, too."""
        is_union = isinstance(self.weak_learner, list | tuple) and "linear" in self.weak_learner
        return is_union and not self.spare_solves and self.start in ("auto", "none")

    def _check_parameters(self) -> None:
        checked_choice(self.start, "start", ("auto", "least_squares", "boosted", "none"))
        if self.C != "auto":
            checked_positive(self.C, "C")
        checked_relative_gap(self.tol, "tol")
        checked_whole_number(self.max_rounds, "max_rounds")
        engine_of(self.engine, self.n_jobs)

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
            random_state=self.random_state, engine=self.engine, n_jobs=self.n_jobs,
            verbose=self.verbose,
        )  # fmt: skip

    def _fold_fits(
        self, problem: DecisionProblem, given: FeatureTables, truth: TrueDecisions
    ) -> FoldFits:
        """Fits of each C and start, with held-out regret.

        Where solves are spared, the decisions are those that are best for some training instance.
        """
        if self.spare_solves:
            problem = KnownDecisions(problem, truth.chosen)
        return FoldFits(problem, given, truth, self._starts(), self.tol, self.random_state)

    def _starts(self) -> tuple[str, ...]:
        """The starts that are tried; where C is given, the last one counts."""
        if self.start != "auto":
            return (self.start,)
        is_tried = self._is_linear or (self.C == "auto" and self._may_be_linear)
        return ("none", "least_squares") if is_tried else ("none",)


def _spread(table: FloatArray) -> float:
    """Standard deviation of the entries, whatever their size: squares of 1e200 overflow."""
    power = int(np.frexp(np.abs(table).max())[1])
    return float(np.ldexp(np.ldexp(table, -power).std(), power))
