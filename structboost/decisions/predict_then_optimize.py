"""Estimator of predict-then-optimise, which reads, trains and commits in one way down."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray, PathName, override
from structboost.decisions.inputs import FeatureReader, TrueDecisions, read_costs
from structboost.decisions.model import FORMAT, DecisionModel, moments
from structboost.decisions.problem import DecisionProblem, problem_of
from structboost.decisions.task import PredictThenOptimizeTask
from structboost.decisions.training import regrets_and_sizes, train
from structboost.faces.base import estimator, plain_parameters, restored_parameters
from structboost.faces.columns import FROM_DTYPE
from structboost.files.archive import SavedToFile
from structboost.learners.registry import WeakLearners
from structboost.runtime.fitted_state import committed
from structboost.training.engines import Engine, EngineName, engine_of, warn_of_idle_jobs
from structboost.training.history import fit_in_words
from structboost.validation import (
    AUTO,
    Auto,
    checked_choice,
    checked_positive,
    checked_weights,
    is_text,
)

Start = Literal["auto", "least_squares", "boosted", "none"]


@estimator()
class PredictThenOptimize(SavedToFile, BaseEstimator):
    """Predict the costs of a decision so that the decision is good (SPO+ with a certificate).

    Features are standardised, and costs are scaled by their standard deviation.  Missing features
    (NaN) become the mean of their column, and columns in which training has some are followed by
    one that marks them.  Categories become columns of 0 and 1.

    Parameters
    ----------
    problem : DecisionProblem or callable
        The problem, or ``solve(costs)`` that returns the decision of least cost.
    C : float or "auto"
        Weight of the training loss against the regulariser.  ``"auto"`` goes by the regret of
        held-out instances.  Two stages, the start alone, are a candidate: another one must have a
        smaller regret by 1.5 standard errors of the difference.  So is the fit of an index of three
        features or more, if it is tried and its regret is smaller.  A linear function is otherwise
        the mean of the fits, one for each of five parts held out, of the five best C and starts;
        with ``spare_solves`` or ``start="boosted"`` it is one fit with the best C and start.  A
        union such as ``["linear", "stump"]`` is such a linear function, too, unless boosting it has
        a smaller regret on the same held-out instances.
    weak_learner : str, list or dict
        ``"linear"`` fits one linear function by :class:`structboost.StructuredSVM`; anything else
        goes to :class:`structboost.StructBoost`, such as ``["linear", "stump"]``.
    start : {"auto", "least_squares", "boosted", "none"}
        Which prediction by squared error is one more feature of each item, with a weight that is
        hardly regularised: that of ridge regression, that of scikit-learn's boosted trees, or none.
        Leaving out one instance at a time chooses the penalty of ridge regression, and whether it
        takes standardised features, or ones in their given scales.  For linear functions,
        ``"auto"`` tries ridge regression and none on the held-out instances of ``C="auto"``; with
        another C it takes ridge regression.  Where only instances have features, and it has three
        quarters of the variance of linear costs, it tries an index, too: one linear function of the
        features, by which costs are smoothed before the fit.  For boosting it takes none.
    spare_solves : bool
        Whether to train, and to choose C, on the decisions known so far, and to call the problem's
        solver for a few instances at a time, and for all of them to certify the fit: at most about
        ten times for each instance.
    categorical_features : "from_dtype", None, or array-like of bool, int or str
        Columns of features of instances that hold categories, as a mask, indices or names.  By
        default, these are the columns of data frames with
        categories or strings.  In prediction, categories that training did not have count as
        missing.  Of more than 255 categories, the rarest count as one, with a warning.
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
        Number of threads or processes of boosting.  One linear function is fitted on one core, and
        warns if it means several.
    verbose : int
        1 shows a progress bar.

    Attributes
    ----------
    trainer_ : StructuredSVM or StructBoost
        The fitted model, of standardised features and scaled costs.
    C_ : float
        The C of the model; 0 for two stages.
    history_ : list of dict
        One record per round or pass of the last fit, with the certificate.  Where the model is a
        mean of fits, the last record of each, with its ``C`` and ``start``; of two stages, a record
        of these.
    passes_ : list of dict
        One per fit where solves are spared: gap, whether it is certified, exact solves so far,
        known decisions.
    path_ : list of dict
        Held-out ``regret`` of each ``C`` and ``start`` tried, for linear functions with
        ``C="auto"``, where C = 0 are two stages; of boosting, ``trainer_.C_path_`` has the like.
    path_end_ : str
        Why no other C was tried, for each start; empty where there is no path.
    feature_names_in_ : ndarray of str
        Names of the features, where data frames give one to each.
    item_names_ : list
        Names of the items: columns of decisions.  There is no such attribute unless a data frame of
        costs has names.

    Notes
    -----
    Elmachtoub and Grigas, Smart "predict, then optimize", Management Science 2022: the SPO+ loss
    (definition 3), a structured hinge (:class:`structboost.decisions.PredictThenOptimizeTask`).

    See Also
    --------
    structboost.decisions.PredictThenOptimizeTask : The task that it trains.
    structboost.StructBoost : Trainer of any task.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost import PredictThenOptimize
    >>> from structboost.decisions import Choose
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> costs = X @ [[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]]
    >>> model = PredictThenOptimize(Choose(3, 1), C=100.0).fit(X, costs)
    >>> model.predict([[2.0, 0.5]])
    array([[0., 0., 1.]])
    """

    problem: Any = field(kw_only=False)
    C: float | Auto = AUTO
    weak_learner: WeakLearners = "linear"
    start: Start = "auto"
    spare_solves: bool = False
    categorical_features: Any = FROM_DTYPE
    tol: float = 0.01
    max_rounds: int = 200
    engine: EngineName | Engine = "threads"
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    @override
    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text, loss = str(super().__repr__(N_CHAR_MAX)), "the SPO+ loss"
        if "trainer_" not in vars(self):
            return text
        n, start = len(self.history_), self.history_[-1].get("start")
        if start is None:
            return f"{text}  # {fit_in_words(self.trainer_, loss, n)}"
        of = {"boosted": "boosted trees", "least_squares": "ridge regression"}
        if not self.C_:
            words = f"two stages by {of[start]}; {loss} was not clearly better when held out"
        elif start == "index":
            words = f"minimised {loss} of smoothed costs over one index, C = {self.C_:.4g}"
        else:
            words = f"mean of {n} fits that minimised {loss}, C = {self.C_:.4g}"
        return f"{text}  # {words}"

    @committed
    def fit(self, X: Any, costs: Any) -> Self:
        """Train on instances whose costs are known.

        A fit that fails leaves the last model whole.

        Parameters
        ----------
        X : array-like, shape (n, n_features) or (n, n_items, n_features), or list of DecisionInput
            Features of each instance, of each of its items, or of both.  Those of instances alone
            may be a data frame; others are numbers.
        costs : array-like or data frame, shape (n, n_items)
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
        reader, inputs = FeatureReader.fit(X, self.categorical_features)
        table, item_names = read_costs(costs, len(inputs), inputs.n_items)
        task = PredictThenOptimizeTask(problem, inputs.features, n_items=table.shape[1])
        truth: Any = task.best_decisions(inputs, table)
        scale = float(moments(table.reshape(-1, 1))[1][0]) or 1.0
        scaled = TrueDecisions(chosen=truth.chosen, costs=table / scale)
        trainer, preparation, facts = train(self, task, inputs, scaled)
        return self._commit(DecisionModel(trainer, preparation, reader, item_names, scale, facts))

    def predict_costs(self, X: Any) -> FloatArray:
        """Predict the costs of each instance.

        Parameters
        ----------
        X : array-like or list of DecisionInput
            Features, as in :meth:`fit`; columns with names may stand in another order.

        Returns
        -------
        costs : ndarray, shape (n, n_items)
            In the unit of the true costs; values if the problem maximises.

        Raises
        ------
        ValueError
            If features are not finite, or others than in training.
        """
        check_is_fitted(self)
        return self._model.costs(self._model.reader.read(X))

    def predict(self, X: Any) -> FloatArray:
        """Decide for each instance, by the best decision at its predicted costs.

        Parameters
        ----------
        X : array-like or list of DecisionInput
            Features, as in :meth:`predict_costs`, which raises the same errors.

        Returns
        -------
        decisions : ndarray, shape (n, n_items)
            Decisions of the problem's ``solve``, as its ``simplify_all`` has them: that of
            :class:`ShortestPath` is a path, without the cycles of a flow.
        """
        costs = self.predict_costs(X)
        problem: DecisionProblem = self._model.trainer.task.problem  # type: ignore[attr-defined]
        return problem.simplify_all(problem.solve_all(costs))

    def score(self, X: Any, costs: Any, sample_weight: Any = None) -> float:
        """Return minus the normalised regret, the total regret over the total of the best values.

        If the best values are all 0, it is minus the mean regret of an instance.

        Parameters
        ----------
        X, costs : array-like
            As in :meth:`fit`, which raises the same errors.
        sample_weight : array-like, shape (n,), optional
            Weight of each instance in both totals.

        Returns
        -------
        score : float
            At most 0.
        """
        decisions = self.predict(X)
        table, _ = read_costs(costs, len(decisions), None, self._model.item_names)
        task: Any = self._model.trainer.task
        best = task.best_decisions(decisions, table).chosen
        weights = checked_weights(sample_weight, len(decisions))
        regrets, sizes = regrets_and_sizes(table, decisions, best)
        return -float((weights * regrets).sum() / ((weights * sizes).sum() or weights.sum()))

    @override
    def save(self, path: PathName) -> None:
        check_is_fitted(self)
        self._model.save(path, plain_parameters(self.get_params(deep=False)))

    @classmethod
    def load(cls, path: PathName, problem: Any) -> Self:
        """Load a fitted model from a file that :meth:`save` wrote, and the problem.

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
        model, parameters = DecisionModel.load(path, problem_of(problem))
        with FORMAT.damage(path):
            return cls(problem, **restored_parameters(parameters))._commit(model)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        tags.target_tags.single_output, tags.target_tags.multi_output = False, True
        return tags

    def _check_parameters(self) -> None:
        checked_choice(self.start, "start", Start)
        if not is_text(self.C, AUTO):
            checked_positive(self.C, "C")
        engine_of(self.engine, self.n_jobs)
        warn_of_idle_jobs(
            self.n_jobs, self.engine, f"weak_learner={self.weak_learner!r}",
            shares_work=not is_text(self.weak_learner, "linear")
        )  # fmt: skip

    def _commit(self, model: DecisionModel) -> Self:
        """Take a model that is trained or loaded."""
        self.__dict__.update({f"{name}_": fact for name, fact in model.facts.items()})
        self._model, self.trainer_ = model, model.trainer
        self.n_features_in_ = model.reader.n_features
        if model.reader.names is not None:
            self.feature_names_in_ = np.array(model.reader.names, object)
        if model.item_names is not None:
            self.item_names_ = model.item_names
        return self
