"""Objectives as values, each with the parameters that it reads."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields
from typing import Any

from sklearn.base import BaseEstimator

from structboost.validation import shown


@dataclass(kw_only=True, eq=False, repr=False)
class Objective(BaseEstimator):
    """Base of objectives, whose parameters take the place of those of an estimator.

    ``StructBoostClassifier(objective=Hinge(C=10))`` is the same fit as
    ``StructBoostClassifier(objective="hinge", C=10)``, and a search reaches ``objective__C``.  A
    parameter that is None is that of the estimator.

    Attributes
    ----------
    name : str
        The objective as a name.
    """

    name = ""

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Return the names of the parameters that the objective reads."""
        return tuple(field.name for field in fields(cls))

    def give_to(self, face: Any) -> None:
        """Set the parameters of an estimator, which is a draft of a fit.

        Parameters
        ----------
        face : object
            An estimator or a trainer with flat parameters of the same names.

        Raises
        ------
        ValueError
            If the estimator does not have a parameter, or has a value of its own for it.
        """
        defaults = type(face)
        for name, value in self.get_params(deep=False).items():
            if value is None:
                continue
            if not hasattr(defaults, name):
                raise ValueError(
                    f"{name} is {shown(value)} in {self!r}, which {defaults.__name__} does not "
                    "have; leave it out."
                )
            flat, default = getattr(face, name), getattr(defaults, name)
            if flat is not default and flat != default:
                raise ValueError(
                    f"{name} is given twice, as {shown(flat)} and in {self!r}; give it once."
                )
            setattr(face, name, value)


@dataclass(kw_only=True, eq=False, repr=False)
class SVM(Objective):
    """C times the mean hinge of the loss, plus half the squared norm of one linear function.

    Parameters
    ----------
    C, tol : optional
        As in :class:`structboost.StructBoostClassifier`.
    """

    name = "svm"
    C: Any = None
    tol: float | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class ExponentialLoss(SVM):
    """C times the exponential loss, plus the l1 norm of the weights.

    Parameters
    ----------
    C, tol, exact, pricing, columns_per_channel : optional
        As in :class:`structboost.StructBoostClassifier`.
    """

    name = "exponential"
    exact: bool | None = None
    pricing: Any = None
    columns_per_channel: int | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class L1LogLoss(ExponentialLoss):
    """C times the log-loss, plus the l1 norm of the weights.

    Parameters
    ----------
    C, tol, exact, pricing, columns_per_channel : optional
        As in :class:`structboost.StructBoostClassifier`.
    """

    name = "l1_log_loss"


@dataclass(kw_only=True, eq=False, repr=False)
class Hinge(ExponentialLoss):
    """C times the mean hinge of the loss, plus the l1 norm of the weights, to a certified gap.

    Parameters
    ----------
    C, tol, exact, pricing, columns_per_channel, formulation, stabilize, spread : optional
        As in :class:`structboost.StructBoostClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import StructBoostClassifier
    >>> from structboost.objectives import Hinge
    >>> X, y = load_iris(return_X_y=True)
    >>> StructBoostClassifier(objective=Hinge(C=10)).fit(X, y).C_
    10.0
    """

    name = "hinge"
    formulation: str | None = None
    stabilize: bool | None = None
    spread: float | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class Pairwise(Objective):
    """Exponential loss of the pairs of a query, by stage-wise boosting.

    Parameters
    ----------
    learning_rate, max_depth, min_samples_leaf, l2_regularization, max_features : optional
        As in :class:`structboost.StructBoostRanker`.
    """

    name = "pairwise"
    learning_rate: Any = None
    max_depth: Any = None
    min_samples_leaf: int | None = None
    l2_regularization: float | None = None
    max_features: Any = None


@dataclass(kw_only=True, eq=False, repr=False)
class LogLoss(Pairwise):
    """Minus the mean logarithm of the probability of the true output.

    Parameters
    ----------
    learning_rate, max_depth, min_samples_leaf, l2_regularization, max_features : optional
        As in :class:`structboost.StructBoostClassifier`, for stage-wise boosting.
    C, tol, l1_ratio : optional
        As in :class:`structboost.StructBoostTagger`, for one linear function.
    """

    name = "log_loss"
    C: Any = None
    tol: float | None = None
    l1_ratio: float | None = None


OBJECTIVES = {of.name: of for of in (LogLoss, Pairwise, Hinge, SVM, ExponentialLoss, L1LogLoss)}


# Formulations of the objectives that a trainer takes; None is that of the trainer.
_FORMULATIONS = {Hinge: None, ExponentialLoss: "exponential", L1LogLoss: "log"}


def without_objective(trainer: Any) -> Any:
    """Return a trainer that has the parameters of its objective as its own, if it has one."""
    objective = trainer.objective
    if objective is None:
        return trainer
    if type(objective) not in _FORMULATIONS:
        raise TypeError(
            f"objective is {shown(objective)}; give Hinge(), ExponentialLoss() or L1LogLoss() of "
            "structboost.objectives, or another one as formulation."
        )
    copied = copy(trainer)
    objective.give_to(copied)
    copied.formulation = _FORMULATIONS[type(objective)] or copied.formulation
    copied.objective = None
    return copied


def flat(face: Any) -> Any:
    """Return an estimator whose objective is a name, and has its parameters as flat ones.

    It is a copy, unless the objective is no :class:`Objective`.
    """
    objective = getattr(face, "objective", None)
    if not isinstance(objective, Objective):
        return face
    copied = copy(face)
    objective.give_to(copied)
    copied.objective = objective.name
    return copied
