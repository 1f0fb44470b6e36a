"""Base class of boosted estimators, with training, fitted attributes and files."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.task import Task
from structboost.errors import InterruptedFitWarning, warn_user
from structboost.faces.constant_model import without_learners
from structboost.faces.early_stopping import EarlyStopping
from structboost.faces.parameters import estimator, is_same
from structboost.faces.saved import SavedEstimator
from structboost.files.schema import whole_number
from structboost.learners.families import WeakLearners, takes_sparse
from structboost.model.ensemble import Ensemble
from structboost.objectives.base import Formulation
from structboost.objectives.held_out import saved_temperature
from structboost.objectives.newton_steps import NewtonSteps
from structboost.objectives.registry import formulation_of
from structboost.runtime.documentation import Documented
from structboost.selection.folds import Fold, random_folds
from structboost.selection.scoring import Score, score_by
from structboost.training.boosting import AUTO, Callback, StructBoost
from structboost.training.engines import engine_of, warn_of_idle_jobs
from structboost.training.examples import is_in_memory
from structboost.training.history import coverage_in_words, ending_in_words
from structboost.validation import (
    checked_callbacks,
    checked_flag,
    checked_fraction,
    checked_whole_number,
    is_text,
    shown,
)

# Fitted attributes that report a choice on held-out data, if there was one.
_CHOSEN = (
    "C_path_", "C_path_end_", "validation_losses_", "max_depth_", "max_features_",
    "category_penalty_",
    "theta_", "theta_path_", "theta_path_end_",
)  # fmt: skip
# Parameters that an estimator passes on unchanged, if it has them.
_OF_TRAINER = frozenset(inspect.signature(StructBoost).parameters)


@estimator
class BoostedEstimator(SavedEstimator, Documented, BaseEstimator):
    """Base of the scikit-learn estimators on top of :class:`structboost.StructBoost`.

    Parameters
    ----------
    weak_learner : str, callable or list of these
        Family of weak learners, or the union of several, as ``["linear", "stump"]``
        (:class:`structboost.StructBoost`).
    exact : bool or None
        Whether stumps are searched over all distinct thresholds, or over at most 255 per feature.
        None means all, if there are at most 20,000 rows.
    early_stopping : bool
        Whether to hold out a part of the training set, stop when its error has not improved for
        ``n_iter_no_change`` rounds, and keep the best round.  Where errors are equal, the best is
        that of the least surrogate (docs/decisions.md).  ``history_`` ends with that round,
        so that its certificate is that of the model.  Where only the number of rounds keeps a fit
        from following its examples too far, as in stage-wise boosting, so many rounds are then
        trained on the whole set.
    validation_fraction : float
        Fraction of the training set that is held out with ``early_stopping``.  Held-out examples
        count with their weights.
    n_iter_no_change : int
        Rounds without improvement after which training stops early, with ``early_stopping``.
    random_state : int, RandomState or None
        Seed for held-out parts and randomised weak learners.
    n_jobs : int or None
        Number of threads or processes.  None means 1, or the value of ``joblib.parallel_config``;
        -1 means all cores.  Trees and linear functions of other objectives than ``"hinge"`` work on
        one core, and warn if it means several.
    verbose : int
        1 shows a progress bar.
    callbacks : sequence of callables, optional
        Each is called as ``callback(record, trainer)`` after every round; one that returns True
        stops training.

    Attributes
    ----------
    model_ : Ensemble
        The fitted model.
    history_ : list of dict
        One record per round, with the certificate and the held-out loss
        (:func:`structboost.training.history.record`).
    objective_ : float
        Primal objective of the model.
    n_iter_ : int
        Rounds in the model.
    ending_ : str
        Reason why training ended, a key of :data:`structboost.training.history.ENDINGS`.
    ending_text_ : str
        Sentence that explains why training ended.
    gap_text_ : str
        Weak learners that the last gap covers, in words; empty without a gap.
    temperature_ : float or None
        Factor of the scores before they become probabilities, below 1 if they are too confident.
        Rows that rounds left out give an estimate, which up to 6,000 examples is corrected by rows
        that fits of folds did not see.  These alone decide where no row is left out, as with fewer
        than 50 distinct ones, or each distinct row occurs at least twice on average.  None if the
        objective has no probabilities, or no row can be held out.
    best_iteration_ : int
        Only with ``early_stopping``.  Rounds in the model, as LightGBM names them.
    evals_result_ : dict of str to dict of str to list of float
        Objective of the training set after each round, ``evals_result_["training"]["objective"]``.
        Where rows were held out or left out, ``evals_result_["held_out"]["loss"]`` is their loss.
    feature_importances_ : ndarray, shape (n_features,)
        Fraction of the total weight on each feature.
    C_ : float
        The C of the model, from the parameter or from a choice on held-out data.
    """

    weak_learner: WeakLearners = "stump"
    exact: bool | None = None
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0
    callbacks: Sequence[Callback] | None = None

    def _settings(self, task: Task) -> dict[str, Any]:
        """Return parameters of the trainer that are not parameters of the estimator."""
        return {}

    def _weak_learners(self) -> WeakLearners:
        """Return the weak learners that the parameters describe."""
        return self.weak_learner

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self._weak_learners())
        return tags

    def _formulation(self) -> str | Formulation:
        """Return the formulation that the parameters describe, or its name."""
        raise NotImplementedError

    def _trainer(self, task: Task, **settings: Any) -> StructBoost:
        """Make the trainer that the parameters describe, with ``settings`` replaced."""
        parameters = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name in _OF_TRAINER
        }
        # The face warns of jobs that are idle, not each of the trainers of one fit.
        engine = engine_of(parameters.get("engine", StructBoost.engine), self.n_jobs)
        parameters |= {"engine": engine, "n_jobs": None}
        return StructBoost(task, **parameters | self._settings(task) | settings)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @property
    def ending_text_(self) -> str:
        """Sentence that explains why training ended."""
        check_is_fitted(self)
        return ending_in_words(self.ending_)

    @property
    def gap_text_(self) -> str:
        """Names of the weak learners that the last gap covers, empty without a gap."""
        check_is_fitted(self)
        return coverage_in_words(self.history_)

    def _objective_name(self) -> str:
        """Return the name of the objective for the progress bar, or an empty string."""
        return ""

    @property
    def best_iteration_(self) -> int:
        """Rounds in the model that early stopping kept."""
        check_is_fitted(self)
        if not self.early_stopping:
            raise AttributeError(
                "best_iteration_ needs early_stopping=True; n_iter_ has the rounds of the model."
            )
        return self.n_iter_

    @property
    def evals_result_(self) -> dict[str, dict[str, list[float]]]:
        """Objective, and the loss of rows held out or left out, after each round."""
        check_is_fitted(self)
        result = {"training": {"objective": [float(of["primal"]) for of in self.history_]}}
        losses = [of.get("held_out_loss") for of in self.history_]
        if any(loss is not None for loss in losses):
            result["held_out"] = {"loss": [float(loss) for loss in losses if loss is not None]}
        return result

    @property
    def feature_importances_(self) -> FloatArray:
        """Fraction of the total weight on each feature, shape (n_features,)."""
        check_is_fitted(self)
        return self.model_.feature_importances()

    def _check_parameters(self) -> None:
        """Raise if a parameter is out of its range, before any work is done."""
        checked_fraction(self.validation_fraction, "validation_fraction")
        checked_whole_number(self.n_iter_no_change, "n_iter_no_change")
        if checked_flag(self.early_stopping, "early_stopping"):
            return
        for name in ("validation_fraction", "n_iter_no_change"):
            if is_same(value := getattr(self, name), getattr(type(self), name)):
                continue
            message = (
                f"{name} is {shown(value)}, which only early_stopping=True reads; leave it out, or "
                "write early_stopping=True, too."
            )
            if name == "validation_fraction":
                raise ValueError(message)
            # scikit-learn's own checks of classifiers set n_iter_no_change alone.
            warn_user(message, UserWarning)

    def _train(
        self,
        task: Task,
        train: tuple[Any, Any],
        validation: tuple[Any, Any, Any] | None,
        sample_weight: Any,
        whole: tuple[Any, Any, Any, Any] | None = None,
        groups: IntArray | None = None,
        counts: IntArray | None = None,
    ) -> None:
        """Fit the trainer, and set the fitted attributes.

        ``validation`` contains held-out examples and their weights, ``whole`` the examples before a
        part was held out, their weights and counts.  ``groups`` of the examples are not cut by the
        folds on which C is chosen, and the ``counts`` of equal examples that were merged are.
        """
        callbacks = checked_callbacks(self.callbacks)
        score = self._held_out_score(task)
        stopping = None
        if validation is not None:
            held_X, held_Y, held_weight = validation
            stopping = EarlyStopping(
                held_X, held_Y, self.n_iter_no_change, score, sample_weight=held_weight
            )
            callbacks.append(stopping)
        trainer = self._trainer(task, callbacks=callbacks)
        trainer._objective = self._objective_name()
        name = trainer._objective
        about = f"objective={name!r}" if name else type(self).__name__
        about += f" with weak_learner={shown(self._weak_learners())}"
        engine = getattr(self, "engine", StructBoost.engine)
        warn_of_idle_jobs(self.n_jobs, engine, about, shares_work=trainer._shares_work)
        folds, chooses_C = None, is_text(trainer.C, AUTO)
        chooses = chooses_C or getattr(trainer, "on_held_out", None) is not None
        if chooses and is_in_memory(train[0]):
            # The same held-out part chooses C and the round.
            folds = (
                self._folds(*train, sample_weight, groups, counts)
                if validation is None
                else [Fold(*train, sample_weight, *validation)]
            )
        trainer.fit(*train, sample_weight=sample_weight, folds=folds, score=score)
        self.task_ = task
        self._keep_fit(trainer)
        if folds is not None and chooses_C:
            self.C_path_, self.C_path_end_ = trainer.C_path_, trainer.C_path_end_
        # After Ctrl-C during the choice of C, there are no rounds to evaluate.
        is_watched = folds is None or not trainer.interrupted_
        if stopping is not None and is_watched:
            if not stopping.losses:  # all rounds were before the checkpoint
                stopping.evaluate_all(trainer)
            self.validation_losses_ = stopping.losses
            by_rounds = isinstance(formulation_of(trainer.formulation), NewtonSteps)
            if whole is None or not by_rounds or trainer.interrupted_:
                self._keep_round(trainer, stopping.best_stage)
            else:
                callbacks.remove(stopping)
                n_rounds = stopping.best_stage + 1
                refit = self._trainer(
                    task, callbacks=callbacks, max_rounds=n_rounds, checkpoint=None
                )
                refit._objective = f"{self._objective_name()} on all examples"
                if _is_completed(refit, *whole[:3]):
                    self._keep_fit(refit)
                    self.ending_ = "held_out"
                else:
                    self._keep_round(trainer, stopping.best_stage)
                    self.ending_ = "interrupted"
            for entry, loss in zip(self.history_, stopping.losses, strict=False):
                entry["held_out_loss"] = loss
        # A linear function has a single stage, after the last pass.
        n_stages = self.model_.n_stages
        is_staged = n_stages > 1 or stopping is not None
        self.n_iter_ = max(1, n_stages) if is_staged else max(1, len(self.history_))

    def _keep_round(self, trainer: StructBoost, stage: int) -> None:
        """Go back to the model and the records of a round, from 0."""
        history = trainer.history_[: stage + 1]
        if len(history) < len(trainer.history_) and not trainer.interrupted_:
            self.ending_ = "held_out"
        model = trainer.model_.at_stage(stage)
        metadata = {**model.metadata, "history": history}
        self.model_ = Ensemble(model.kinds, model.members, model.weights, model.stages, metadata)
        self.history_: list[dict[str, Any]] = history
        self.objective_ = history[-1]["primal"]

    def _keep_constant(self, task: Task, n_features: Mapping[str, int]) -> None:
        """Set the fitted attributes of a model whose scores are 0, which predicts one output."""
        self.task_ = task
        metadata = {"history": [], "C": float("inf"), "objective": 0.0}
        self.model_ = without_learners(task.kinds, n_features, metadata)
        self.history_ = []
        self.objective_, self.C_, self.n_iter_ = 0.0, float("inf"), 1
        self.ending_ = "one_class"
        self.temperature_: float | None = None
        if name := self._objective_name():
            self.minimised_ = name

    def _held_out_score(self, task: Task) -> Score | None:
        """Return a function that applies the user's scorer, if any, to held-out parts."""
        scoring = getattr(self, "scoring", None)
        if scoring is None:
            return None

        def held_out(model: Ensemble, fold: Fold) -> tuple[Any, Any, Any]:
            twin = copy(self)
            twin.model_, twin.task_, twin.temperature_ = model, task, None
            for name in ("feature_names_in_", "link_", "minimised_"):
                twin.__dict__.pop(name, None)
            twin._read_columns({}, next(iter(model.members.values())).n_features)
            twin._prepare_to_score()
            return twin, fold.held_X, self._as_given(fold.held_Y, task)

        return score_by(scoring, held_out)

    def _read_columns(self, facts: Mapping[str, Any], width: int) -> None:
        """Set the attributes of columns from facts of a file and the width of its model."""
        self.n_features_in_: Any = width

    def _prepare_to_score(self) -> None:
        """Set attributes that predictions during training need besides the model."""

    def _as_given(self, Y: Any, task: Task) -> Any:
        """Return true outputs of the task in the form of ``y``."""
        return Y

    def _keep_fit(self, trainer: Any) -> None:
        """Set fitted attributes from a trainer."""
        self.model_ = trainer.model_
        self.history_ = trainer.history_
        self.objective_ = trainer.objective_
        self.C_ = trainer.C_
        self.ending_ = trainer.ending_
        self.temperature_ = getattr(trainer, "temperature_", None)

    def _folds(
        self, X: Any, Y: Any, sample_weight: Any, groups: Any = None, counts: Any = None
    ) -> list[Fold]:
        """Return the folds on which C is chosen."""
        return random_folds(X, Y, sample_weight, groups=groups, random_state=self.random_state)

    @override
    def _facts(self) -> dict[str, Any]:
        facts = {"objective": self.objective_, "ending": self.ending_, "n_iter": self.n_iter_}
        facts["temperature"] = self.temperature_
        facts["chosen"] = {name: getattr(self, name) for name in _CHOSEN if hasattr(self, name)}
        return facts | super()._facts()

    @override
    def _restore(self, facts: Mapping[str, Any]) -> None:
        self.history_ = list(facts["history"])
        self.objective_ = float(facts["objective"])
        self.C_ = float(facts["C"])
        # Files before version 0.3 have neither.
        self.ending_ = str(facts.get("ending", ""))
        self.temperature_ = saved_temperature(facts)
        low = max(1, self.model_.n_stages)
        self.n_iter_ = whole_number(facts.get("n_iter", low), "number of rounds", low=1)
        for name, value in dict(facts.get("chosen", {})).items():
            if name in _CHOSEN:
                setattr(self, name, value)
        self._read_columns(facts, next(iter(self.model_.members.values())).n_features)


def _is_completed(trainer: StructBoost, X: Any, Y: Any, sample_weight: Any) -> bool:
    """Train on all examples, and return whether no Ctrl-C ended it."""
    trainer._keeps_only_whole = True
    try:
        trainer.fit(X, Y, sample_weight=sample_weight)
    except KeyboardInterrupt:
        warn_user(
            "Training on all rows was interrupted; the model is that of the rows that were not "
            "held out.",
            InterruptedFitWarning,
        )
        return False
    return True
