"""Base class of boosted estimators, with fitted attributes and files."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray
from structboost.contract.task import Task
from structboost.errors import warn_user
from structboost.faces.constant_model import without_learners
from structboost.faces.parameters import estimator, is_same
from structboost.faces.recipe import Fitted, Recipe
from structboost.faces.saved import SavedEstimator
from structboost.files.schema import whole_number
from structboost.learners.families import WeakLearners
from structboost.learners.pricing import PricingRule
from structboost.model.ensemble import Ensemble
from structboost.objectives.base import Formulation
from structboost.objectives.held_out import saved_temperature
from structboost.runtime.called_class import NamesArguments
from structboost.selection.folds import Fold
from structboost.selection.scoring import Score, score_by
from structboost.training.boosting import Callback, StructBoost
from structboost.training.history import coverage_in_words, ending_in_words
from structboost.validation import checked_flag, checked_fraction, checked_whole_number, shown

# Fitted attributes that report a choice on held-out data, if there was one.
_CHOSEN = (
    "C_path_", "C_path_end_", "validation_losses_", "max_depth_", "max_features_",
    "category_penalty_",
    "theta_", "theta_path_", "theta_path_end_",
)  # fmt: skip
# Parameters that an estimator passes on unchanged, if it has them.
_OF_TRAINER = frozenset(inspect.signature(StructBoost).parameters)


@estimator
class BoostedFace(SavedEstimator, NamesArguments, BaseEstimator):
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

    task_: Task = field(init=False)
    history_: list[dict[str, Any]] = field(init=False)
    objective_: float = field(init=False)
    C_: float = field(init=False)
    ending_: str = field(init=False)
    temperature_: float | None = field(init=False)
    n_iter_: int = field(init=False)

    # A parameter of some classes.
    scoring = None

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

    def _plain_recipe(
        self,
        formulation: str | Formulation,
        prices: Callable[[Task], PricingRule] | None = None,
        *,
        are_shared: bool = False,
        **settings: Any,
    ) -> Recipe:
        """Return a fit of one formulation, with other settings of its trainer than parameters.

        ``prices(task)`` makes the pricing rule of a run, and weak learners may be ``are_shared`` by
        all classes.
        """
        self._check_parameters()
        return Recipe(
            type(self).__name__,
            self.weak_learner,
            formulation,
            self._trainer_settings | settings,
            patience=self.n_iter_no_change,
            pricing=prices,
            shares_learners=are_shared,
        )

    @property
    def _trainer_settings(self) -> dict[str, Any]:
        """Parameters that are those of the trainer."""
        values = {"engine": StructBoost.engine, **self.get_params(deep=False)}
        names = _OF_TRAINER & values.keys() - {"weak_learner", "objective"}
        return {name: values[name] for name in names}

    def _keep(self, task: Task, fitted: Fitted, **attributes: Any) -> None:
        """Set the fitted attributes."""
        self.__dict__.update({"task_": task, **fitted.attributes, **attributes})

    def _keep_constant(
        self, task: Task, n_features: Mapping[str, int], objective: str, **attributes: Any
    ) -> None:
        """Set the fitted attributes of a model whose scores are 0, which predicts one output."""
        metadata = {"history": [], "C": np.inf, "objective": 0.0}
        model = without_learners(task.kinds, n_features, metadata)
        fitted = Fitted(model, [], 0.0, np.inf, "one_class")
        if objective:
            fitted.chosen["minimised_"] = objective
        self._keep(task, fitted, **attributes)

    def _held_out_score(
        self,
        task: Task,
        as_given: Callable[[Any], Any],
        prepared: Callable[[Ensemble], Mapping[str, Any]],
    ) -> Score | None:
        """Return a function that applies the user's scorer, if any, to held-out parts.

        ``as_given(Y)`` returns true outputs in the form of ``y``, and ``prepared(model)`` the
        attributes by which a model reads held-out inputs.
        """
        scoring = self.scoring
        if scoring is None:
            return None

        def held_out(model: Ensemble, fold: Fold) -> tuple[Any, Any, Any]:
            twin = copy(self)
            twin.__dict__.pop("feature_names_in_", None)
            state = {"model_": model, "task_": task, "temperature_": None}
            twin.__dict__.update(state | dict(prepared(model)))
            return twin, fold.held_X, as_given(fold.held_Y)

        return score_by(scoring, held_out)


def facts_of_fit(face: BoostedFace) -> dict[str, Any]:
    """Return what a file holds of a fit beside its model."""
    facts: dict[str, Any] = {
        "objective": face.objective_,
        "ending": face.ending_,
        "n_iter": face.n_iter_,
        "temperature": face.temperature_,
        "chosen": {name: getattr(face, name) for name in _CHOSEN if hasattr(face, name)},
    }
    if hasattr(face, "minimised_"):
        facts["objective_name"] = face.minimised_
        facts["learning_rate"] = getattr(face, "learning_rate_", None)
    return facts


def fit_of_facts(model: Ensemble, facts: Mapping[str, Any]) -> Fitted:
    """Return the fit of a model, from the facts of its file, which may be damaged."""
    chosen = {name: of for name, of in dict(facts.get("chosen", {})).items() if name in _CHOSEN}
    if "objective_name" in facts:
        chosen["minimised_"] = str(facts["objective_name"])
    if (learning_rate := facts.get("learning_rate")) is not None:
        chosen["learning_rate_"] = float(learning_rate)
    low = max(1, model.n_stages)
    return Fitted(
        model,
        list(facts["history"]),
        float(facts["objective"]),
        float(facts["C"]),
        str(facts.get("ending", "")),
        saved_temperature(facts),
        whole_number(facts.get("n_iter", low), "number of rounds", low=1),
        chosen,
    )
