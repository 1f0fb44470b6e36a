"""Estimators with several objectives, and the parameters that each objective reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np

from structboost.contract.task import Task
from structboost.faces.base import BoostedFace
from structboost.faces.parameters import estimator, is_same
from structboost.faces.recipe import Recipe
from structboost.faces.stage_wise import StageWise
from structboost.files.checkpoint import Checkpoint
from structboost.learners.families import WeakLearners, members_of
from structboost.learners.pricing import PricingRule
from structboost.objectives.base import Formulation
from structboost.objectives.newton_steps import NewtonSteps
from structboost.objectives.values import (
    OBJECTIVES,
    ExponentialLoss,
    Hinge,
    L1LogLoss,
    LogLoss,
    Objective,
    Pairwise,
    flat,
)
from structboost.training.boosting import AUTO
from structboost.training.engines import Engine
from structboost.training.history import fit_in_words
from structboost.validation import checked_positive, checked_whole_number, shown

LOG_LOSS, PAIRWISE = "log_loss", "pairwise"
HINGE, SVM, EXPONENTIAL, L1_LOG_LOSS = "hinge", "svm", "exponential", "l1_log_loss"
# An objective that is a Formulation.
OWN = "a Formulation"
# Objectives that are minimised stage-wise, by shrunken steps and without a bound.
STAGE_WISE = (LOG_LOSS, PAIRWISE)

# Maximum number of rounds, or of passes for one linear function.
_MOST_ROUNDS = 200
# Largest fraction of a step: longer ones overshoot.
_MOST_RATE = 10.0

# Parameters of trees, and of boosting, which the fit of one linear function does not read.
OF_TREES = ("max_depth", "min_samples_leaf", "l2_regularization", "max_features")
_OF_LOOP = (
    "engine", "early_stopping", "validation_fraction", "n_iter_no_change", "callbacks",
)  # fmt: skip
_OF_BOOSTING = (*_OF_LOOP, "checkpoint")

_READ: dict[str, tuple[str, ...]] = {
    LOG_LOSS: (*Pairwise.parameters(), *_OF_BOOSTING),
    PAIRWISE: (*Pairwise.parameters(), *_OF_BOOSTING),
    HINGE: (*Hinge.parameters(), *_OF_BOOSTING),
    SVM: OBJECTIVES[SVM].parameters(),
    EXPONENTIAL: (*ExponentialLoss.parameters(), *_OF_BOOSTING),
    L1_LOG_LOSS: (*L1LogLoss.parameters(), *_OF_LOOP),
    OWN: (*ExponentialLoss.parameters(), "spread", *_OF_BOOSTING),
}
# The log-loss of one linear function.
_READ_BY_LINEAR = ("C", "tol", "l1_ratio")
_CHECKED = tuple(dict.fromkeys((*LogLoss.parameters(), *_READ[HINGE])))
_OF_FORMULATION = (
    "leave it out, or write objective='hinge' with formulation='one_slack' or 'm_slack', or write "
    "objective= in place of formulation=."
)


def checked_objective(objective: Any, choices: Iterable[str]) -> str:
    """Return the name of an objective, or ``OWN`` for a Formulation.

    ValueError or TypeError if it is neither a Formulation nor one of ``choices``.
    """
    if isinstance(objective, Formulation):
        return OWN
    if isinstance(objective, Objective) and objective.name in choices:
        return objective.name
    if not isinstance(objective, str) or objective not in choices:
        names = ", ".join(map(repr, choices))
        error = ValueError if isinstance(objective, str) else TypeError
        raise error(
            f"objective is {shown(objective)}; give one of {names}, an Objective such as Hinge(), "
            "or a Formulation."
        )
    return objective


def is_linear(weak_learner: Any) -> bool:
    """Whether weak learners are one linear function, whatever there is on vectors of tokens."""
    if isinstance(weak_learner, Mapping) and "vector" in weak_learner:
        return is_same(weak_learner.get("token"), "linear")
    return is_same(weak_learner, "linear")


def grows_trees(weak_learner: Any) -> bool:
    """Whether weak learners include trees, by name or by ``"auto"``."""
    members = members_of(weak_learner)
    return any(is_same(member, "tree") or is_same(member, AUTO) for member in members)


def is_one_linear_function(objective: str, weak_learner: Any) -> bool:
    """Whether an objective is minimised over one linear function, without boosting."""
    return objective == SVM or (objective == LOG_LOSS and is_linear(weak_learner))


def reads(objective: str, weak_learner: Any) -> tuple[str, ...]:
    """Return the parameters that an objective reads, of those that only some objectives read."""
    if objective == LOG_LOSS and is_linear(weak_learner):
        of_trees = Pairwise.parameters() if grows_trees(weak_learner) else ()
        return (*_READ_BY_LINEAR, *of_trees)
    if objective in STAGE_WISE and not grows_trees(weak_learner):
        return tuple(name for name in _READ[objective] if name not in OF_TREES)
    return _READ[objective]


def check_parameters(
    objective: str,
    values: Mapping[str, Any],
    defaults: Mapping[str, Any],
    choices: Iterable[str],
) -> None:
    """Raise ValueError if a parameter was set that the objective does not read.

    ``values`` are the parameters of an estimator, and ``choices`` its objectives.
    """
    weak_learner = values["weak_learner"]
    read = reads(objective, weak_learner)
    about = f"objective={objective!r}" if objective != OWN else "a Formulation as the objective"
    if objective in STAGE_WISE and not is_same(weak_learner, AUTO):
        about += f" with weak_learner={shown(weak_learner)}"
    for name in _CHECKED:
        if name in read or name not in values or is_same(values[name], defaults[name]):
            continue
        raise ValueError(
            f"{name} is {shown(values[name])}, which {about} does not read; "
            f"{_remedy(name, values[name], choices)}"
        )
    formulation = values["formulation"]
    if formulation not in (AUTO, "one_slack", "m_slack"):
        raise ValueError(
            f"formulation is {shown(formulation)}, which does not minimise the hinge loss; "
            f"{_OF_FORMULATION}"
        )
    if objective == SVM and not (is_linear(weak_learner) or is_same(weak_learner, AUTO)):
        raise ValueError(
            f"weak_learner is {shown(weak_learner)}, and objective='svm' fits one linear function; "
            "leave weak_learner out, or write objective='hinge' to boost weak learners."
        )


def _remedy(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return advice for a parameter that is not read."""
    if name == "formulation":
        return _OF_FORMULATION
    if name == "l1_ratio":
        return "leave it out, or write objective='log_loss', weak_learner='linear'."
    other = next(objective for objective in choices if name in _READ[objective])
    how = "weak_learner='tree'" if other in STAGE_WISE else f"{name}={shown(value)}"
    return f"leave it out, or write objective={other!r}, {how}."


@estimator
class ObjectiveFace(BoostedFace):
    """Base of the estimators with several objectives.

    ``objective`` alone selects the function that is minimised.  A parameter that the objective
    does not read raises an error.

    Parameters
    ----------
    objective : {"log_loss", "hinge", "svm", "exponential", "l1_log_loss"}, Objective or Formulation
        Function that is minimised.  ``"log_loss"``: minus the mean logarithm of the probability of
        the true output, by stage-wise boosting, without a certificate.  ``"hinge"``: C times the
        mean hinge of the loss plus the l1 norm of the weights, to a certified gap.  ``"svm"``: C
        times this hinge plus half the squared norm of one linear function.  ``"exponential"`` and
        ``"l1_log_loss"``: C times these losses plus the l1 norm of the weights.  A
        :class:`structboost.objectives.Formulation` is minimised unchanged.  An
        :class:`structboost.objectives.Objective`, such as ``Hinge(C=10)``, has parameters of its
        own in place of those below.
    learning_rate : float or "auto"
        Fraction of each step that is taken.  ``"auto"`` depends on the objective, and
        ``learning_rate_`` is the result.  Read by stage-wise objectives.
    max_iter : int or "auto"
        Maximum number of rounds of boosting, or of passes for one linear function.  ``"auto"`` is
        1000 for ``"log_loss"`` over trees on at most 20,000 examples, 100 for few long steps, else
        200.  Training usually ends much earlier: 160 rounds after the least loss of left-out rows,
        or, only with ``"auto"``, 40 if held-out rows of at most 6,000 examples lose nothing so.
    max_depth : int or "auto"
        Depth of the trees.  ``"auto"`` is 5.  If learning rate, rounds and features are left open,
        too, classifiers of 2,000 rows or more and at most 64 features also try few long steps: 100
        rounds of depth 7 on 80 % of the rows, with a learning rate of .2.  Held-out rows decide;
        ``max_depth_`` is the result.  Read by stage-wise objectives.
    min_samples_leaf : int
        Minimum number of rows in a leaf of a tree.  A round is grown on some of the distinct rows,
        so repeated rows count once.  Read by stage-wise objectives.
    l2_regularization : float
        Weight of the squared leaves of a tree.  Read by stage-wise objectives.
    max_features : float or "auto"
        Fraction of the features that each node of a tree may split, drawn anew for each node.
        ``"auto"`` is a third of more than 32 features.  For fewer, it is a third or all, by the
        loss on the rows that 40 rounds leave out, and all if no rows are left out.
        ``max_features_`` is the result.  Read by stage-wise objectives.
    C : float or "auto"
        Weight of the training loss against the norm of the weights.  ``"auto"`` chooses the
        C that is best on held-out samples, and then trains on all samples.  With
        ``early_stopping``, both use the same held-out part.  Not read by stage-wise objectives.
    tol : float
        Relative gap ``(primal - bound) / primal``, below 1, at which training stops.  Not read by
        stage-wise objectives.
    formulation : {"auto", "one_slack", "m_slack"}
        Program that is solved for the hinge, with the same optimum.  ``"auto"`` takes the one that
        needs less time, by the numbers of examples and channels and by C
        (:class:`structboost.objectives.HingeBySize`).  ``formulation_`` is the result.
    stabilize : bool
        Whether the 1-slack program is stabilised; False is Algorithm 2 as printed.
    weak_learner : str, callable or list of these
        Family of weak learners, as in :class:`structboost.StructBoost`.  ``"auto"`` is trees for
        stage-wise objectives, one linear function for ``"svm"``, else stumps.
    pricing : {"own", "best"} or PricingRule
        Whether each channel has separate weak learners, or all share them.
    columns_per_channel : int
        Maximum number of columns added per channel and round, each on another feature.
    spread : float
        If positive, training ends with weights of small norm whose relative gap is at most this,
        which usually lowers the test error.  It must be above ``tol``.  Early stopping ignores it.
    engine : {"serial", "threads", "processes", "dask"} or Engine
        Engine of computations on the training set, which does not change the result of a
        formulation.  Only ``"one_slack"`` supports processes and Dask.
    checkpoint : str, path or Checkpoint, optional
        File to write the run to.  If it exists, :meth:`fit` resumes from it.
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
    formulation_ : str
        Formulation that trained, empty for one linear function without boosting.
    learner_ : str
        Names of the families of weak learners in the model.
    learning_rate_ : float
        Fraction of each step that was taken.  Missing if no steps are shrunk.
    max_depth_, max_features_ : int, float
        Depth of the trees, and fraction of the features that each node could split.  Missing
        without stage-wise boosted trees.
    category_penalty_ : float
        Number of mean row weights that a split by a set had to gain for each further category
        (:class:`structboost.learners.TreeFamily`).  1, unless left-out rows have a clearly lower
        loss with 0.  Missing without columns of categories or without stage-wise boosted trees.
    minimised_ : str
        Name of the objective of the fit.  Its value is ``objective_``.
    """

    objective: str | Objective | Formulation = LOG_LOSS
    learning_rate: float | str = AUTO
    max_iter: int | str = AUTO
    max_depth: int | str = AUTO
    min_samples_leaf: int = 1
    l2_regularization: float = 0.0
    max_features: float | str = AUTO
    C: float | str = AUTO
    tol: float = 0.01
    formulation: str = AUTO
    stabilize: bool = True
    weak_learner: WeakLearners = AUTO
    pricing: str | PricingRule = "own"
    columns_per_channel: int = 5
    spread: float = 0.0
    engine: str | Engine = "threads"
    checkpoint: str | PathLike[str] | Checkpoint | None = None
    scoring: Any = None

    # Names of objectives.
    _objectives: ClassVar[tuple[str, ...]] = (LOG_LOSS, HINGE, SVM, EXPONENTIAL, L1_LOG_LOSS)

    @property
    def learner_(self) -> str:
        """Names of the families of weak learners in the model."""
        return self.model_.families

    @property
    def formulation_(self) -> str:
        """Formulation of the fit, empty if one linear function was fitted without boosting."""
        return str(self.model_.metadata.get("formulation", ""))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = str(super().__repr__(N_CHAR_MAX))
        if "objective=" not in text:
            name, arguments = text.split("(", 1)
            comma = "" if arguments.startswith(")") else ", "
            text = f"{name}(objective={self.objective!r}{comma}{arguments}"
        return f"{text}  # {self._summary()}" if hasattr(self, "minimised_") else text

    def _summary(self) -> str:
        """Describe objective, weak learners, choices and ending of the fit in words."""
        words = {
            "learning_rate_": "learning rate", "max_features_": "max_features",
            "max_depth_": "depth", "category_penalty_": "category_penalty",
        }  # fmt: skip
        values = vars(self)
        choices = [f"{text} {values[name]:.3g}" for name, text in words.items() if name in values]
        if self.temperature_ is not None:
            choices.append(f"temperature {self.temperature_:.3g}")
        formulation = self.formulation_ if self.minimised_ == HINGE else ""
        return fit_in_words(self, self.minimised_, self.n_iter_, formulation, choices)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, where ``objective__C`` makes an objective of a name.

        Parameters
        ----------
        **params
            Parameters of the estimator, and of its objective after ``objective__``.

        Returns
        -------
        self : object
            The estimator.
        """
        objective = params.get("objective", self.objective)
        if any(name.startswith("objective__") for name in params) and isinstance(objective, str):
            checked_objective(objective, self._objectives)
            params["objective"] = OBJECTIVES[objective]()
        updated: Self = super().set_params(**params)
        return updated

    def _checked(self, weak_learner: Any = None) -> Self:
        """Return a copy with flat parameters, all of which its objective reads.

        ``weak_learner`` takes the place of the parameter.  ValueError or TypeError if there is no
        such objective, or it does not read a parameter that was set.
        """
        objective = checked_objective(self.objective, self._objectives)
        face: Self = flat(self)
        weak_learner = face.weak_learner if weak_learner is None else weak_learner
        is_chosen = is_same(face.C, AUTO) and "C" in reads(objective, weak_learner)
        if face.scoring is not None and not is_chosen and not face.early_stopping:
            raise ValueError(
                f"scoring is {shown(face.scoring)}, and nothing is chosen by it; set "
                "early_stopping=True, or C='auto' with an objective that reads C, such as 'hinge'."
            )
        if not is_same(face.max_iter, AUTO):
            checked_whole_number(face.max_iter, "max_iter")
        values = {**face.get_params(deep=False), "weak_learner": weak_learner}
        defaults = {name: getattr(type(self), name) for name in values}
        check_parameters(objective, values, defaults, self._objectives)
        face._check_parameters()
        return face


def named_learners(face: ObjectiveFace) -> WeakLearners:
    """Return the weak learners of a face with flat parameters, where "auto" takes some."""
    if not is_same(face.weak_learner, AUTO):
        return face.weak_learner
    if face.objective in STAGE_WISE:
        return "tree"
    return "linear" if face.objective == SVM else "stump"


def recipe_of(
    face: ObjectiveFace,
    steps: NewtonSteps,
    *,
    weak_learner: WeakLearners | None = None,
    families: Any = None,
    pricing: Callable[[Task], str | PricingRule] | None = None,
    times_the_best: int | None = None,
    tries_long_steps: bool = False,
    linear: Mapping[str, Any] | None = None,
) -> Recipe:
    """Return the fit that the parameters of an estimator describe.

    Parameters
    ----------
    face : ObjectiveFace
        With flat parameters.
    steps : NewtonSteps
        The formulation of its stage-wise objective, with the default fraction of a step.
    weak_learner : str, callable, list or dict, optional
        What the parameter stands for.
    families, pricing, times_the_best
        As in :class:`structboost.faces.recipe.Recipe`.
    tries_long_steps : bool
        As in :class:`structboost.faces.stage_wise.StageWise`.
    linear : dict, optional
        Further parameters of a :class:`structboost.linear.linear_trainer.LinearTrainer`.
    """
    objective = face.objective
    name = objective if isinstance(objective, str) else shown(objective)
    learners = named_learners(face) if weak_learner is None else weak_learner
    is_default = is_same(face.max_iter, AUTO)
    max_rounds = _MOST_ROUNDS if is_default else face.max_iter
    is_linear, is_stage_wise = is_one_linear_function(name, learners), name in STAGE_WISE
    minimised: Any = {EXPONENTIAL: "exponential", L1_LOG_LOSS: "log"}.get(name, face.formulation)
    if isinstance(objective, Formulation):
        minimised = objective
    elif is_stage_wise:
        minimised = "log" if is_linear else _with_rate(steps, face.learning_rate)
    settings = face._trainer_settings | {"max_rounds": max_rounds}
    del settings["formulation"]
    if face.early_stopping:
        settings["spread"] = 0.0
    if is_same(face.C, AUTO) and isinstance(minimised, Formulation):
        if not minimised.can_choose_C and minimised.takes_infinite_C:
            settings["C"] = np.inf
    choices = of_linear = None
    if is_linear:
        names = ("C", "tol", "random_state", "verbose")
        of_linear = {name: settings[name] for name in names} | dict(linear or {})
        of_linear["max_epochs"] = max_rounds
        of_linear["loss"] = "hinge" if name == SVM else "log_loss"
    elif is_stage_wise:
        choices = StageWise(
            {
                "min_samples_leaf": face.min_samples_leaf,
                "l2_regularization": face.l2_regularization,
                "random_state": 0 if face.random_state is None else face.random_state,
            },
            face.learning_rate,
            face.max_iter,
            face.max_depth,
            face.max_features,
            is_likelihood=name == LOG_LOSS,
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
        families=families,
        times_the_best=times_the_best,
        is_default_end=is_default,
        linear=of_linear,
        choices=choices,
    )


def _with_rate(steps: NewtonSteps, rate: Any) -> NewtonSteps:
    """Return a formulation with the fraction of each step that the user gave."""
    if is_same(rate, AUTO):
        return steps
    if checked_positive(rate, "learning_rate") > _MOST_RATE:
        raise ValueError(
            f"learning_rate is {shown(rate)}; give a fraction of each step, such as 0.1."
        )
    return replace(steps, shrinkage=float(rate))
