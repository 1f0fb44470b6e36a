"""Classifiers that train methods with coding matrices (MultiBoost.MO and .ECC, AdaBoost)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from structboost._typing import AnyArray, override
from structboost.contract.task import Task
from structboost.faces.base import estimator
from structboost.faces.classifiers import BoostedClassifier
from structboost.faces.recipe import Choices, Examples, Fitted, Problem, Recipe
from structboost.learners.pricing import BestCode, CodeWord, PricingRule, SharedOverChannels
from structboost.objectives.base import Formulation
from structboost.objectives.exponential import Exponential, Solver
from structboost.objectives.norm_bounded import NormBounded, NormBoundedHinge
from structboost.objectives.pair_margins import Pairs
from structboost.objectives.stage_wise import StageWise
from structboost.runtime.interrupts import uninterrupted
from structboost.selection.folds import fold_of, merged_copies, shuffled_parts
from structboost.selection.held_out import measured_model
from structboost.selection.path import Path, Trial
from structboost.tasks.classes import CodedTask, MulticlassTask, coding_matrix, random_column
from structboost.validation import checked_choice, checked_positive, shown

# The grid of the paper's five-fold cross-validation (section V).
THETAS = (2, 5, 8, 10, 12, 15, 20, 30, 40, 45, 60, 80, 100, 120, 150, 200)
ThetaRule = Literal["stage_wise", "cv"]
CodeRule = Literal["random", "best"]
Loss = Literal["exponential", "hinge"]
_FOLDS = 5
# Settings of auxiliary runs.
_QUIET = {"verbose": 0}
# Far above the norm that any training set asks for.
_MOST_THETA = 1e8


class _Coded:
    """Parameters of all classifiers of this module.

    Parameters
    ----------
    max_rounds : int
        Maximum number of rounds of column generation.
    random_state : int, RandomState or None
        Seed for random codes and for the held-out part.

    Attributes
    ----------
    objective_ : float
        Exponential loss, summed over the pairs.
    """

    max_rounds: int = 500
    random_state: Any = None
    _random_codes: ClassVar[bool] = True


class _Bounded:
    """Parameters of the MultiBoost classifiers, totally corrective under a bound on the l1 norm.

    Parameters
    ----------
    theta : float or {"stage_wise", "cv"}
        The l1 norm of the weights.  It is a number, the sum of the weights of the stage-wise run
        on the same codes, or the best value of the paper's grid by five-fold cross-validation,
        which stops when larger values are no better.
    loss : {"exponential", "hinge"}
        Exponential loss on pairs, or the hinge loss on the best wrong class (section III-D).
    tol : float
        Relative gap at which training stops.

    Attributes
    ----------
    objective_ : float
        Exponential loss, summed over the pairs, or hinge loss, summed over the examples.
    theta_ : float
        The bound on the l1 norm that was used.
    C_ : float
        Copy of ``theta_``.
    theta_path_ : list of dict
        A record for each theta of the cross-validation, in the form of ``C_path_`` of
        :class:`structboost.StructBoost`.
    theta_path_end_ : str
        Reason why no larger theta was tried.
    """

    theta: float | ThetaRule = "stage_wise"
    loss: Loss = "exponential"
    tol: float = 1e-4


class _Words:
    """Parameters of classifiers with a coding matrix, where the bits of a round have one weight.

    Parameters
    ----------
    coding : {"ecoc", "one_vs_all", "random"} or array-like, shape (n_classes, n_bits)
        Coding matrix (:func:`structboost.tasks.classes.coding_matrix`).
    """

    monotonic_cst: Any = None


def _coded_recipe(
    face: BoostedClassifier,
    formulation: Formulation,
    pairs: Pairs,
    seed: int,
    coding: Any,
    *,
    takes_best: bool = False,
    **settings: Any,
) -> Recipe:
    """Return a fit whose codes come from the seed, or are the best for each learner.

    All its runs have the same codes.  ``pairs`` of the loss are of an example and a wrong output,
    or a bit of the matrix ``coding``.
    """

    def task(classes: AnyArray) -> Task:
        if pairs == "outputs":
            return MulticlassTask(len(classes))
        return CodedTask(coding_matrix(coding, len(classes), np.random.RandomState(seed)))

    def rule(task: Any) -> PricingRule:
        if pairs == "bits":
            return SharedOverChannels()
        if takes_best:
            return BestCode()
        random_state = np.random.RandomState(seed)
        return CodeWord(lambda: random_column(task.n_classes, random_state))

    recipe = face._plain_recipe(
        formulation,
        rule,
        are_shared=takes_best,
        columns_per_channel=1,
        random_state=seed,
        **settings,
    )
    return replace(recipe, task=task)


def _stage_wise_recipe(
    face: BoostedClassifier, pairs: Pairs, seed: int, coding: Any = None
) -> Recipe:
    """Return the fit of an AdaBoost classifier, where nothing is regularised."""
    return _coded_recipe(face, StageWise(pairs), pairs, seed, coding, C=np.inf, tol=0.0)


def _corrective_recipe(
    face: Any, pairs: Pairs, seed: int, coding: Any = None, codes: CodeRule = "random"
) -> Recipe:
    """Return the fit of a MultiBoost classifier."""
    is_hinge = checked_choice(face.loss, "loss", Loss) == "hinge"
    takes_best = checked_choice(codes, "codes", CodeRule) == "best"
    formulation = NormBoundedHinge() if is_hinge else NormBounded(pairs)
    recipe = _coded_recipe(face, formulation, pairs, seed, coding, takes_best=takes_best)
    return replace(recipe, choices=BoundedNorm(face.theta, pairs, seed))


@dataclass(frozen=True)
class BoundedNorm(Choices):
    """Choice of the bound on the l1 norm of the weights.

    Parameters
    ----------
    theta : float or {"stage_wise", "cv"}
    pairs : {"bits", "outputs"}
        Pairs of the exponential loss.
    seed : int
        Seed of the folds.
    """

    theta: Any
    pairs: Pairs
    seed: int

    of_constant: ClassVar[Mapping[str, Any]] = {
        "theta_": 0.0, "theta_path_": [], "theta_path_end_": "",
    }  # fmt: skip

    @override
    def train(self, recipe: Recipe, problem: Problem) -> Fitted:
        path = Path("theta")
        theta = self._chosen(recipe, problem.task, problem.examples, path)
        bounded = replace(recipe, settings={**recipe.settings, "C": theta}, choices=None)
        fitted = bounded.train(problem)
        of_path = {"theta_path_": path.records, "theta_path_end_": path.end}
        fitted.chosen |= {"theta_": theta, **of_path}
        return fitted

    def _chosen(self, recipe: Recipe, task: Task, examples: Examples, path: Path) -> float:
        X, y, sample_weight = examples.X, examples.Y, examples.weights
        if not isinstance(self.theta, str):
            theta = checked_positive(self.theta, "theta")
            if theta > _MOST_THETA:
                raise ValueError(
                    f"theta is {shown(theta)}, with which no fit ends soon; give at most "
                    f"{_MOST_THETA:g}, such as 20."
                )
            return theta
        counts = examples.counts
        copies = np.repeat(np.arange(len(y)), 1 if counts is None else counts)
        n_folds = min(_FOLDS, int(np.bincount(y[copies]).min()))
        if checked_choice(self.theta, "theta", ThetaRule) == "stage_wise" or n_folds < 2:
            stage_wise = {"formulation": StageWise(self.pairs), "C": np.inf, "tol": 0.0}
            run = recipe.trainer(task, **stage_wise, **_QUIET)
            fit = partial(run.fit, X, y, sample_weight=sample_weight)
            return float(uninterrupted(fit).model_.weights.sum()) or 1.0
        of_examples = np.bincount(copies)
        folds = [
            fold_of(
                X, y, *(merged_copies(copies[part], sample_weight, of_examples) for part in split)
            )
            for split in shuffled_parts(len(copies), n_folds, self.seed, strata=y[copies])
        ]

        def fit_at(theta: float) -> Trial:
            measured = []
            for fold in folds:
                run = recipe.trainer(task, C=float(theta), **_QUIET)
                fit = partial(run.fit, fold.X, fold.Y, sample_weight=fold.sample_weight)
                measured.append(measured_model(task, fold, uninterrupted(fit).model_))
            return Trial(measured)

        path.follow(THETAS, fit_at)
        return path.value


@estimator(_Coded, _Words)
class AdaBoostMOClassifier(BoostedClassifier):
    """Stage-wise classifier with one problem per bit of a code (AdaBoost.MO).

    Schapire and Singer, 1999; Algorithm 1 of the paper on totally corrective boosting.

    Attributes
    ----------
    C_ : float
        Infinity, because nothing is regularised.

    See Also
    --------
    structboost.MultiBoostMOClassifier : The same problem with totally corrective weights.
    structboost.StructBoostClassifier : Classifier to begin with.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import AdaBoostMOClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AdaBoostMOClassifier(max_rounds=50).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    coding: Any = "ecoc"

    @override
    def _recipe(self, seed: int = 0) -> Recipe:
        return _stage_wise_recipe(self, "bits", seed, self.coding)


@estimator(_Coded)
class AdaBoostMHClassifier(BoostedClassifier):
    """Stage-wise classifier with the one-vs-all code (AdaBoost.MH).

    Schapire and Singer, 1999.

    Attributes
    ----------
    C_ : float
        Infinity, because nothing is regularised.

    See Also
    --------
    structboost.AdaBoostMOClassifier : The same with a code of its own choice.
    structboost.StructBoostClassifier : Classifier to begin with.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import AdaBoostMHClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AdaBoostMHClassifier(max_rounds=50).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    @override
    def _recipe(self, seed: int = 0) -> Recipe:
        return _stage_wise_recipe(self, "bits", seed, "one_vs_all")


@estimator(_Coded)
class AdaBoostECCClassifier(BoostedClassifier):
    """Stage-wise classifier with a new code in each round (AdaBoost.ECC).

    Guruswami and Sahai, 1999; Algorithm 2 of the paper on totally corrective boosting.

    Attributes
    ----------
    C_ : float
        Infinity, because nothing is regularised.

    See Also
    --------
    structboost.MultiBoostECCClassifier : The same problem with totally corrective weights.
    structboost.StructBoostClassifier : Classifier to begin with.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import AdaBoostECCClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AdaBoostECCClassifier(max_rounds=50, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    @override
    def _recipe(self, seed: int = 0) -> Recipe:
        return _stage_wise_recipe(self, "outputs", seed)


@estimator(_Bounded, _Coded, _Words)
class MultiBoostMOClassifier(BoostedClassifier):
    """Totally corrective form of AdaBoost.MO (MultiBoost.MO, Algorithm 3).

    A pair of the exponential loss is an example and a bit.

    See Also
    --------
    structboost.AdaBoostMOClassifier : The stage-wise form.
    structboost.MultiBoostECCClassifier : Pairs of an example and a wrong class.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import MultiBoostMOClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MultiBoostMOClassifier().fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    coding: Any = "ecoc"

    @override
    def _recipe(self, seed: int = 0) -> Recipe:
        return _corrective_recipe(self, "bits", seed, self.coding)


@estimator(_Bounded, _Coded)
class MultiBoostECCClassifier(BoostedClassifier):
    """Totally corrective form of AdaBoost.ECC (MultiBoost.ECC, Algorithm 3).

    A pair of the exponential loss is an example and a wrong class.

    Parameters
    ----------
    codes : {"random", "best"}
        Whether the code of a round is random, or the best for its weak learner.  With the best
        codes, the bound holds over all codes.

    See Also
    --------
    structboost.AdaBoostECCClassifier : The stage-wise form.
    structboost.MultiBoostMOClassifier : Pairs of an example and a bit.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import MultiBoostECCClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MultiBoostECCClassifier(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    codes: CodeRule = "random"

    @override
    def _recipe(self, seed: int = 0) -> Recipe:
        return _corrective_recipe(self, "outputs", seed, codes=self.codes)


class _Weighted:
    """Parameters of the MultiBoost classifiers whose training loss has a weight.

    Parameters
    ----------
    tol : float
        Relative gap at which training stops.
    max_rounds : int
        Maximum number of rounds of column generation.
    random_state : int, RandomState or None
        Seed for the order of the later sweeps, and for the held-out part.
    """

    C: float = 1e4
    tol: float = 0.01
    max_rounds: int = 500
    taxonomy: Any = None
    monotonic_cst: Any = None


@estimator(_Weighted)
class MultiBoostCWClassifier(BoostedClassifier):
    """Classifier with one weak learner per class and round, by exponential loss (MultiBoost^cw).

    Lin, Shen, van den Hengel and Suter, ACCV 2012.

    Parameters
    ----------
    C : float
        Weight of the training loss, infinite for no regularisation.  ``C=float("inf"), tau_max=1``
        is CW-1, the stage-wise method of the paper's tables.
    tau_max : int
        Number of sweeps of coordinate descent per round; 1 is stage-wise.
    solver : {"fcd", "lbfgs"}
        Fast coordinate descent, or L-BFGS-B on the same problem.

    Attributes
    ----------
    objective_ : float
        ``sum(w) + C/p sum of exp(-margin)``, or the mean of the latter alone if C is infinite.

    See Also
    --------
    structboost.MultiBoostClassifier : Classifier whose classes share the weak learners.
    structboost.StructBoostClassifier : Classifier to begin with.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import MultiBoostCWClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MultiBoostCWClassifier(tol=0.05).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    tau_max: int = 2
    solver: Solver = "fcd"

    @override
    def _recipe(self, seed: int = 0) -> Recipe:
        formulation = Exponential(self.solver, self.tau_max)
        return self._plain_recipe(formulation, pricing="own", columns_per_channel=1)


@estimator(_Weighted)
class MultiBoostClassifier(BoostedClassifier):
    """Classifier with one weak learner per round that all classes share (MultiBoost).

    Problem (6) of MultiBoost^cw; Shen and Hao, 2011.

    Parameters
    ----------
    C : float
        Weight of the training loss, infinite for no regularisation (exponential loss only).
    loss : {"exponential", "hinge"}
        Loss on the margins, where the hinge uses the best wrong class.
    solver : {"fcd", "lbfgs"}
        Solver for the exponential loss: fast coordinate descent, or L-BFGS-B.

    Attributes
    ----------
    objective_ : float
        The sum of the weights plus C times the mean loss, or the mean loss if C is infinite.

    See Also
    --------
    structboost.MultiBoostCWClassifier : Classifier whose classes have their own learners.
    structboost.ShareBoostClassifier : Classifier that shares few features.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import MultiBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MultiBoostClassifier(C=100.0, max_rounds=50).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    loss: Loss = "exponential"
    solver: Solver = "fcd"

    @override
    def _recipe(self, seed: int = 0) -> Recipe:
        checked_choice(self.loss, "loss", Loss)
        # Weights of the same learner in all classes need more sweeps than those of one class.
        formulation = "one_slack" if self.loss == "hinge" else Exponential(self.solver, 10)
        return self._plain_recipe(formulation, pricing="best", columns_per_channel=1)
