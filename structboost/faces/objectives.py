"""Objectives of the estimators, and the parameters that each one reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from structboost.faces.parameters import is_same
from structboost.objectives.base import Formulation
from structboost.objectives.values import (
    OBJECTIVES,
    ExponentialLoss,
    Hinge,
    L1LogLoss,
    LogLoss,
    Objective,
    Pairwise,
)
from structboost.training.boosting import AUTO
from structboost.validation import shown

LOG_LOSS, PAIRWISE = "log_loss", "pairwise"
HINGE, SVM, EXPONENTIAL, L1_LOG_LOSS = "hinge", "svm", "exponential", "l1_log_loss"
# An objective that is a Formulation.
OWN = "a Formulation"
# Objectives that are minimised stage-wise, by shrunken steps and without a bound.
STAGE_WISE = (LOG_LOSS, PAIRWISE)

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
_OF_THE_HINGE = ("one_slack", "m_slack")
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
    members = weak_learner
    if isinstance(members, Mapping):
        members = [one for of_kind in members.values() for one in members_of(of_kind)]
    return any(is_same(one, "tree") or is_same(one, AUTO) for one in members_of(members))


def members_of(weak_learner: Any) -> list[Any]:
    """Return one or several weak learners as a list."""
    return list(weak_learner) if isinstance(weak_learner, list | tuple) else [weak_learner]


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
    formulation = values.get("formulation")
    if not any(is_same(formulation, one) for one in (AUTO, *_OF_THE_HINGE)):
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
