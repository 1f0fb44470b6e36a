"""Objectives as values, each with its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Literal, Self

from sklearn.base import BaseEstimator

from structboost._typing import Facts, PathName, override
from structboost.learners.registry import members_of
from structboost.objectives.base import Program
from structboost.runtime.registry import Registry
from structboost.validation import AUTO, Auto, is_same, shown

# Parameters of trees.
OF_TREES = ("max_depth", "min_samples_leaf", "l2_regularization", "max_features")


@dataclass(kw_only=True, eq=False, repr=False)
class Objective(BaseEstimator):
    """Base of objectives, which have parameters.

    ``StructBoostClassifier(Hinge(C=10))`` is the same fit as ``StructBoostClassifier("hinge",
    C=10)``, and a search reaches ``objective__C`` and ``C``.

    Attributes
    ----------
    name : str
        The objective as a name.
    """

    name: ClassVar[str] = ""
    # Whether it is minimised by shrunken steps, without a bound.
    is_stage_wise: ClassVar[bool] = False
    # Weak learners that "auto" takes.
    learners: ClassVar[str] = "stump"
    # Formulation of a trainer that minimises it, if there is one and no parameter names it.
    program: ClassVar[str] = ""
    # Loss of the linear trainer, where one linear function is fitted.
    linear_loss: ClassVar[str] = ""

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Return the names of the parameters."""
        return tuple(field.name for field in fields(cls))

    def changed(self) -> dict[str, Any]:
        """Return the parameters that do not have their default."""
        default, values = type(self)(), self.get_params(deep=False)
        return {of: v for of, v in values.items() if not is_same(v, getattr(default, of))}

    def with_parameters(self, values: Facts) -> Self:
        """Return a copy with parameters that were set beside it.

        Raises
        ------
        ValueError
            If a parameter is given twice.
        """
        copied, changed = copy(self), self.changed()
        for name, value in values.items():
            if name in changed:
                raise ValueError(
                    f"{name} is given twice, as {shown(value)} and in {self!r}; give it once."
                )
            setattr(copied, name, value)
        return copied

    def fits_linear_function(self, weak_learner: Any) -> bool:
        """Whether one linear function is fitted, without boosting."""
        return False

    def unread(self, weak_learner: Any) -> Sequence[str]:
        """Return the parameters that have no effect with these weak learners."""
        return ()


@dataclass(kw_only=True, eq=False, repr=False)
class SVM(Objective):
    """C times the mean hinge of the loss, plus half the squared norm of one linear function.

    Parameters
    ----------
    C : float or "auto"
        Weight of the training loss against the norm of the weights.  ``"auto"`` chooses the
        C that is best on held-out samples, and then trains on all samples.  With
        ``early_stopping``, both use the same held-out part.
    tol : float
        Relative gap ``(primal - bound) / primal``, below 1, at which training stops.
    """

    name = "svm"
    learners = "linear"
    linear_loss = "hinge"

    C: float | Auto = AUTO
    tol: float = 0.01

    @override
    def fits_linear_function(self, weak_learner: Any) -> bool:
        return True


@dataclass(kw_only=True, eq=False, repr=False)
class L1LogLoss(Objective):
    """C times the log-loss, plus the l1 norm of the weights.

    Parameters
    ----------
    C, tol : float
        As in :class:`SVM`.
    exact : bool or None
        Whether stumps are searched over all distinct thresholds, or over at most 255 per feature.
        None means all, if there are at most 20,000 rows.
    pricing : {"own", "best"} or PricingRule
        Whether each channel has separate weak learners, or all share them.
    columns_per_channel : int
        Maximum number of columns added per channel and round, each on another feature.
    engine : {"serial", "threads", "processes", "dask"} or Engine
        Engine of computations on the training set, which does not change the result of a
        formulation.  Only ``"one_slack"`` supports processes and Dask.
    callbacks : sequence of callables, optional
        Each is called as ``callback(record, trainer)`` after every round; one that returns True
        stops training.
    """

    name = "l1_log_loss"
    program = "log"

    C: float | Auto = AUTO
    tol: float = 0.01
    exact: bool | None = None
    pricing: Any = "own"
    columns_per_channel: int = 5
    engine: Any = "threads"
    callbacks: Sequence[Any] | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class ExponentialLoss(L1LogLoss):
    """C times the exponential loss, plus the l1 norm of the weights.

    Parameters
    ----------
    C, tol, exact, pricing, columns_per_channel, engine, callbacks : optional
        As in :class:`L1LogLoss`.
    checkpoint : str or path, optional
        File to write the run to.  If it exists, ``fit`` resumes from it.
    """

    name = "exponential"
    program = "exponential"

    checkpoint: PathName | Any | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class FormulationAlone(ExponentialLoss):
    """A user's Formulation, which is minimised unchanged."""

    name = "a Formulation"

    spread: float = 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class Hinge(ExponentialLoss):
    """C times the mean hinge of the loss, plus the l1 norm of the weights, to a certified gap.

    Parameters
    ----------
    C, tol, exact, pricing, columns_per_channel, engine, callbacks : optional
        As in :class:`L1LogLoss`.
    checkpoint : str or path, optional
        File to write the run to.  If it exists, ``fit`` resumes from it.
    formulation : {"auto", "one_slack", "m_slack"}
        Program that is solved for the hinge, with the same optimum.  ``"auto"`` takes the one that
        needs less time, by the numbers of examples and channels and by C
        (:class:`structboost.objectives.HingeBySize`).  ``formulation_`` is the result.
    spread : float
        If positive, training ends with weights of small norm whose relative gap is at most this,
        which usually lowers the test error.  It must be above ``tol``.  Early stopping ignores it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import StructBoostClassifier
    >>> from structboost.objectives import Hinge
    >>> X, y = load_iris(return_X_y=True)
    >>> StructBoostClassifier(Hinge(C=10)).fit(X, y).C_
    10.0
    """

    name = "hinge"
    program = ""

    formulation: Program = AUTO
    spread: float = 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class Pairwise(Objective):
    """Exponential loss of the pairs of a query, by stage-wise boosting.

    Parameters
    ----------
    learning_rate : float or "auto"
        Fraction of each step that is taken.  ``"auto"`` depends on the weak learners, and
        ``learning_rate_`` is the result.
    max_depth : int or "auto"
        Depth of the trees.
    min_samples_leaf : int
        Minimum number of rows in a leaf of a tree.  A round is grown on some of the distinct rows,
        so repeated rows count once.
    l2_regularization : float
        Weight of the squared leaves of a tree.
    max_features : float or "auto"
        Fraction of the features that each node of a tree may split, drawn anew for each node.
        ``"auto"`` is a third of more than 32 features.  For fewer, it is a third or all, by the
        loss on the rows that 40 rounds leave out, and all if no rows are left out.
        ``max_features_`` is the result.
    engine, callbacks, checkpoint : optional
        As in :class:`Hinge`.
    """

    name = "pairwise"
    is_stage_wise = True
    learners = "tree"

    learning_rate: float | Auto = AUTO
    max_depth: int | Auto = 4
    min_samples_leaf: int = 1
    l2_regularization: float | Auto = 0.0
    max_features: float | Auto = AUTO
    engine: Any = "threads"
    callbacks: Sequence[Any] | None = None
    checkpoint: PathName | Any | None = None

    @override
    def unread(self, weak_learner: Any) -> Sequence[str]:
        return () if grows_trees(weak_learner) else OF_TREES


@dataclass(kw_only=True, eq=False, repr=False)
class LogLoss(Pairwise):
    """Minus the mean logarithm of the probability of the true output.

    Weak learners are boosted stage-wise.  With ``weak_learner="linear"``, one linear function is
    fitted instead, with half the squared norm of its weights, to a certified gap.

    Parameters
    ----------
    learning_rate, min_samples_leaf, max_features : optional
        As in :class:`Pairwise`.
    l2_regularization : float or "auto"
        Weight of the squared leaves of a tree.  ``"auto"`` is 20 for long steps, and 0 otherwise;
        ``l2_regularization_`` is the result.
    max_depth : int or "auto"
        Depth of the trees.  ``"auto"`` is 5.  If learning rate, rounds and features are left open,
        too, classifiers of 2,000 rows or more and at most 64 features also try few long steps: 100
        rounds of depth 7 on 80 % of the rows, with a learning rate of .2.  Held-out rows decide;
        ``max_depth_`` is the result.
    engine, callbacks, checkpoint : optional
        As in :class:`Hinge`.
    C, tol : float
        As in :class:`SVM`.  Read where one linear function is fitted.
    """

    name = "log_loss"
    linear_loss = "log_loss"

    max_depth: int | Auto = AUTO
    l2_regularization: float | Auto = AUTO
    C: float | Auto = AUTO
    tol: float = 0.01

    @override
    def fits_linear_function(self, weak_learner: Any) -> bool:
        return is_linear(weak_learner)

    @override
    def unread(self, weak_learner: Any) -> Sequence[str]:
        if not self.fits_linear_function(weak_learner):
            return (*super().unread(weak_learner), "C", "tol")
        of_boosting = ("engine", "callbacks", "checkpoint")
        if grows_trees(weak_learner):
            return of_boosting
        return (*of_boosting, *OF_TREES, "learning_rate")


ObjectiveName = Literal["log_loss", "pairwise", "hinge", "svm", "exponential", "l1_log_loss"]
OBJECTIVES: dict[str, type[Objective]] = {
    of.name: of for of in (LogLoss, Pairwise, Hinge, SVM, ExponentialLoss, L1LogLoss)
}


# Parameters of a trainer that the fit of one linear function reads, or that choose it.
_OF_FUNCTION = {
    "task",
    "objective",
    "weak_learner",
    "C",
    "tol",
    "max_rounds",
    "random_state",
    "verbose",
}
# Trainer of one linear function, which stands on a higher floor.
TRAINERS = Registry("trainer", {"linear": "structboost.linear.linear_trainer:LinearTrainer"})


def trainer_of_objective(trainer: Any) -> Any:
    """Return a trainer that has the parameters of its objective as its own, if it has one.

    TypeError or ValueError if it does not minimise its objective over its weak learners, or a
    parameter is given twice.
    """
    objective, learners = trainer.objective, trainer.weak_learner
    if objective is None:
        return trainer
    if isinstance(objective, str) and objective in OBJECTIVES:
        objective = OBJECTIVES[objective]()
    is_value = isinstance(objective, Objective)
    is_function = is_value and objective.fits_linear_function(learners)
    if not is_value or not (is_function or objective.program or hasattr(objective, "formulation")):
        raise TypeError(
            f"objective is {shown(objective)} and weak_learner {shown(learners)}; give Hinge(), "
            "ExponentialLoss(), L1LogLoss() or SVM() of structboost.objectives, LogLoss() with "
            "weak_learner='linear', or another one as formulation."
        )
    default = partial(getattr, type(trainer))
    flat = {of: getattr(trainer, of) for of in objective.parameters() if hasattr(trainer, of)}
    flat = {name: value for name, value in flat.items() if not is_same(value, default(name))}
    objective = objective.with_parameters(flat)
    if not is_function:
        copied = copy(trainer)
        vars(copied).update(objective.get_params(deep=False), objective=None)
        copied.formulation = objective.program or copied.formulation
        return copied
    if not (is_linear(learners) or is_same(learners, default("weak_learner"))):
        raise ValueError(
            f"weak_learner is {shown(learners)}, and {objective!r} fits one linear function; leave "
            "weak_learner out, or write objective=Hinge() to boost weak learners."
        )
    for name, value in trainer.get_params(deep=False).items():
        if name not in _OF_FUNCTION and not is_same(value, default(name)):
            raise ValueError(
                f"{name} is {shown(value)}, which {objective!r} does not read where it fits one "
                "linear function; leave it out."
            )
    return TRAINERS["linear"](
        trainer.task,
        C=objective.C,
        tol=objective.tol,
        max_epochs=trainer.max_rounds,
        loss=objective.linear_loss,
        random_state=trainer.random_state,
        verbose=trainer.verbose,
    )


def is_linear(weak_learner: Any) -> bool:
    """Whether weak learners are one linear function."""
    return is_same(weak_learner, "linear")


def grows_trees(weak_learner: Any) -> bool:
    """Whether weak learners include trees, by name or by ``"auto"``."""
    members = members_of(weak_learner)
    return any(is_same(member, "tree") or is_same(member, AUTO) for member in members)


def flat_parameters(face: Any) -> dict[str, Any]:
    """Return the parameters of an estimator, with those of its objective beside its name."""
    values: dict[str, Any] = face.get_params(deep=False)
    objective = values.get("objective")
    if not isinstance(objective, Objective):
        return values
    return {**values, **objective.changed(), "objective": objective.name}
