"""Objectives of estimators, and the recipes that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, replace
from typing import Any, get_args

import numpy as np

from structboost.contract.task import Task
from structboost.faces.base import BoostedFace, trainer_settings
from structboost.faces.recipe import Recipe
from structboost.faces.stage_wise import StageWise
from structboost.learners.pricing import PricingRule
from structboost.learners.registry import WeakLearners
from structboost.objectives.base import Formulation, Program
from structboost.objectives.newton_steps import NewtonSteps
from structboost.objectives.values import (
    OBJECTIVES,
    SVM,
    FormulationAlone,
    LogLoss,
    Objective,
    ObjectiveName,
    is_linear,
)
from structboost.runtime.called_class import MORE
from structboost.validation import AUTO, Auto, check_parameters, checked_positive, is_same, shown

# Maximum number of rounds, or of passes for one linear function.
_MOST_ROUNDS = 200
# Largest fraction of a step: longer ones overshoot.
_MOST_RATE = 10.0
# Parameters of an estimator that the fit of one linear function does not read.
_OF_BOOSTING = ("early_stopping", "validation_fraction", "n_iter_no_change")
_OF_FORMULATION = (
    "leave it out, or write objective='hinge' with formulation='one_slack' or 'm_slack', or write "
    "objective= in place of formulation=."
)


class Objectives:
    """Parameters and attributes of estimators with several objectives.

    Parameters
    ----------
    objective : {"log_loss", "hinge", "svm", "exponential", "l1_log_loss"}, Objective or Formulation
        Function that is minimised.  ``"log_loss"``: minus the mean logarithm of the probability of
        the true output, by stage-wise boosting, without a certificate.  ``"hinge"``: C times the
        mean hinge of the loss plus the l1 norm of the weights, to a certified gap.  ``"svm"``: C
        times this hinge plus half the squared norm of one linear function.  ``"exponential"`` and
        ``"l1_log_loss"``: C times these losses plus the l1 norm of the weights.  A
        :class:`structboost.objectives.Formulation` is minimised unchanged.  An
        :class:`structboost.objectives.Objective`, such as ``Hinge(C=10)``, has parameters, which
        may also be given beside a name.  One that it does not read raises an error.
    max_iter : int or "auto"
        Maximum number of rounds of boosting, or of passes for one linear function.  ``"auto"`` is
        1000 for ``"log_loss"`` over trees on at most 20,000 examples and 500 on at most 200,000,
        100 for few long steps, else 200.  Training usually ends much earlier: 160 rounds after the
        least loss of left-out rows, or, only with ``"auto"``, 40 if held-out rows of at most 6,000
        examples lose nothing so.
    weak_learner : str, callable or list of these
        Family of weak learners, as in :class:`structboost.StructBoost`.  ``"auto"`` is trees for
        stage-wise objectives, one linear function for ``"svm"``, else stumps.
    scoring : str or callable, optional
        Scorer of held-out data for the choice of C and for early stopping.  It is a name of
        scikit-learn, or a function ``scorer(estimator, X, y)``, where larger is better.  Rankers
        call it for each query.  By default the criterion is the likelihood or the hinge
        (docs/decisions.md).
    random_state : int, RandomState or None
        Seed for all random choices.  With None, stage-wise boosting still draws the same rows in
        every fit.

    Attributes
    ----------
    C_path_ : list of dict
        Only with ``C="auto"``.  A record for each C, in the form of
        :class:`structboost.StructBoost`.
    C_path_end_ : str
        Only with ``C="auto"``.  Reason why no larger C was tried.
    learning_rate_ : float
        Fraction of each step that was taken.  Missing if no steps are shrunk.
    max_depth_, max_features_, l2_regularization_ : int, float, float
        Depth of the trees, fraction of the features that each node could split, and weight of the
        squared leaves.  Missing without stage-wise boosted trees.
    category_penalty_ : float
        Number of mean row weights that a split by a set had to gain for each further category
        (:class:`structboost.learners.TreeFamily`).  1, unless left-out rows have a clearly lower
        loss with 0.  Missing without columns of categories or without stage-wise boosted trees.
    minimised_ : str
        Name of the objective of the fit.  Its value is ``objective_``.
    """

    objective: ObjectiveName | Objective | Formulation = field(default="log_loss", kw_only=False)
    max_iter: int | Auto = AUTO
    weak_learner: WeakLearners = AUTO
    scoring: Any = None


def checked_objective(face: Any) -> Objective:
    """Return the objective of an estimator, as it was given.

    ValueError or TypeError if it is neither a Formulation nor an objective of the estimator.
    """
    objective, choices = face.objective, face._objectives
    if isinstance(objective, Formulation):
        return FormulationAlone()
    if isinstance(objective, Objective) and objective.name in choices:
        return objective
    if not isinstance(objective, str) or objective not in choices:
        names = ", ".join(map(repr, choices))
        error = ValueError if isinstance(objective, str) else TypeError
        raise error(
            f"objective is {shown(objective)}; give one of {names}, an Objective such as Hinge(), "
            "or a Formulation."
        )
    return OBJECTIVES[objective]()


def objective_of(face: BoostedFace) -> Objective:
    """Return the objective of an estimator, with the parameters that were set beside it.

    ValueError or TypeError if there is no such objective, it does not have a parameter, or a
    parameter is given twice.
    """
    objective = checked_objective(face)
    names = objective.parameters()
    if hasattr(face, MORE):
        raise TypeError(
            f"{MORE} is {shown(getattr(face, MORE))}; give parameters of the objective by their "
            "names, such as C=10."
        )
    values = {name: getattr(face, name) for name in face._flat_names}
    values = {name: value for name, value in values.items() if value is not None}
    for name in values.keys() - set(names):
        defaults = [getattr(OBJECTIVES[of], name, None) for of in face._objectives]
        if not any(is_same(values[name], default) for default in defaults):
            _refuse(face, objective, name, values[name])
    return objective.with_parameters({name: values[name] for name in names if name in values})


def checked_parameters(face: BoostedFace, weak_learner: Any = None) -> Objective:
    """Return the objective of an estimator, which reads all parameters that were set.

    ``weak_learner`` takes the place of the parameter.  ValueError or TypeError if there is no such
    objective, or it does not read a parameter.
    """
    objective, changed = objective_of(face), {}
    learners = face.weak_learner if weak_learner is None else weak_learner
    unread = objective.unread(learners)
    if objective.fits_linear_function(learners):
        values = {name: getattr(face, name) for name in _OF_BOOSTING}
        changed = {of: v for of, v in values.items() if not is_same(v, getattr(type(face), of))}
    changed |= {name: value for name, value in objective.changed().items() if name in unread}
    for name, value in changed.items():
        _refuse(face, objective, name, value)
    check_parameters(objective, objective.get_params(deep=False))
    formulation = getattr(objective, "formulation", AUTO)
    if formulation not in get_args(Program):
        raise ValueError(
            f"formulation is {shown(formulation)}, which does not minimise the hinge loss; "
            f"{_OF_FORMULATION}"
        )
    if isinstance(objective, SVM) and not (is_linear(learners) or is_same(learners, AUTO)):
        raise ValueError(
            f"weak_learner is {shown(learners)}, and objective='svm' fits one linear function; "
            "leave weak_learner out, or write objective='hinge' to boost weak learners."
        )
    return objective


def _refuse(face: BoostedFace, objective: Objective, name: str, value: Any) -> None:
    """Raise ValueError for a parameter that the objective does not read."""
    about = f"objective={objective.name!r}"
    if isinstance(objective, FormulationAlone):
        about = "a Formulation as the objective"
    elif objective.is_stage_wise and not is_same(face.weak_learner, AUTO):
        about += f" with weak_learner={shown(face.weak_learner)}"
    raise ValueError(
        f"{name} is {shown(value)}, which {about} does not read; "
        f"{_remedy(name, value, face._objectives)}"
    )


def _remedy(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return advice for a parameter that is not read."""
    if name == "formulation":
        return _OF_FORMULATION
    other = next(
        of
        for of in map(OBJECTIVES.__getitem__, choices)
        if name in (*of.parameters(), *_OF_BOOSTING) and name not in of().unread(AUTO)
    )
    how = "weak_learner='tree'" if other.is_stage_wise else f"{name}={shown(value)}"
    return f"leave it out, or write objective={other.name!r}, {how}."


def recipe_of(
    face: BoostedFace,
    objective: Objective,
    steps: NewtonSteps,
    *,
    weak_learner: WeakLearners | None = None,
    pricing: Callable[[Task], str | PricingRule] | None = None,
    times_the_best: int | None = None,
    tries_long_steps: bool = False,
) -> Recipe:
    """Return the fit that the parameters of an estimator describe.

    Parameters
    ----------
    face : BoostedFace
    objective : Objective
        Result of :func:`checked_parameters`.
    steps : NewtonSteps
        The formulation of its stage-wise objective, with the default fraction of a step.
    weak_learner : str, callable, list or dict, optional
        What the parameter stands for.
    pricing, times_the_best
        As in :class:`structboost.faces.recipe.Recipe`.
    tries_long_steps : bool
        As in :class:`structboost.faces.stage_wise.StageWise`.
    """
    values = objective.get_params(deep=False)
    learners = named_learners(face, objective) if weak_learner is None else weak_learner
    is_default = is_same(face.max_iter, AUTO)
    is_function = objective.fits_linear_function(learners)
    program = "log" if isinstance(objective, LogLoss) else objective.program
    minimised = values.get("formulation", program or AUTO)
    name = objective.name
    if isinstance(face.objective, Formulation):
        minimised, name = face.objective, shown(face.objective)
    elif objective.is_stage_wise and not is_function:
        minimised = _with_rate(steps, values["learning_rate"])
    settings = trainer_settings(face, objective)
    settings["max_rounds"] = _MOST_ROUNDS if is_default else face.max_iter
    settings.setdefault("C", AUTO)
    if is_same(settings["C"], AUTO) and isinstance(minimised, Formulation):
        if not minimised.can_choose_C and minimised.takes_infinite_C:
            settings["C"] = np.inf
    choices = of_linear = None
    if is_function:
        names = ("C", "tol", "random_state", "verbose")
        of_linear = {name: settings[name] for name in names}
        of_linear["max_epochs"] = settings["max_rounds"]
        of_linear["loss"] = objective.linear_loss
    elif objective.is_stage_wise:
        choices = StageWise(
            {
                "min_samples_leaf": values["min_samples_leaf"],
                "random_state": 0 if face.random_state is None else face.random_state,
            },
            values["learning_rate"],
            face.max_iter,
            values["max_depth"],
            values["max_features"],
            values["l2_regularization"],
            is_likelihood=isinstance(objective, LogLoss),
            tries_long_steps=tries_long_steps,
        )
    return Recipe(
        type(face).__name__,
        learners,
        minimised,
        settings,
        name,
        face.n_iter_no_change,
        pricing=pricing,
        times_the_best=times_the_best,
        is_default_end=is_default,
        linear=of_linear,
        choices=choices,
    )


def named_learners(face: BoostedFace, objective: Objective) -> WeakLearners:
    """Return the weak learners of an estimator, where "auto" takes some."""
    return objective.learners if is_same(face.weak_learner, AUTO) else face.weak_learner


def _with_rate(steps: NewtonSteps, rate: Any) -> NewtonSteps:
    """Return a formulation with the fraction of each step that the user gave."""
    if is_same(rate, AUTO):
        return steps
    if checked_positive(rate, "learning_rate") > _MOST_RATE:
        raise ValueError(
            f"learning_rate is {shown(rate)}; give a fraction of each step, such as 0.1."
        )
    return replace(steps, shrinkage=float(rate))
