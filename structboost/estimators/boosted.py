"""The classifier of StructBoost, for scikit-learn, and what it shares with other faces."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np

from structboost.boosting import AUTO
from structboost.engines.base import Engine
from structboost.estimators.base import BoostedEstimator
from structboost.estimators.classifiers import TaxonomyClassifier
from structboost.estimators.parameters import estimator, is_same
from structboost.estimators.tables import TableEstimator
from structboost.files.checkpoint import Checkpoint
from structboost.linear.linear_trainer import LinearTrainer
from structboost.masters.base import Formulation
from structboost.masters.exponential import Exponential
from structboost.masters.stage_wise_likelihood import StageWiseLikelihood
from structboost.task import Task
from structboost.tasks.taxonomy import TaxonomyTask
from structboost.validation import checked_choice, shown
from structboost.weak.families import WeakLearners
from structboost.weak.label_augmented import LabelAugmented
from structboost.weak.pricing import RULES, PricingRule
from structboost.weak.tree import TreeFamily

# The stage-wise defaults grow the trees of a round on half of the rows.
_ROW_SHARE = 0.5
# No step of the exponential loss is above this over the stumps of sparse tables, or one without
# errors would outvote all others.
_LARGEST_STEP = 1.0

# What only boosting reads, not the fit of one linear function.
_OF_BOOSTING = (
    "formulation", "stabilize", "exact", "pricing", "columns_per_channel", "spread", "engine",
    "checkpoint", "early_stopping", "callbacks",
)  # fmt: skip


@estimator
class StructBoostEstimator(BoostedEstimator):
    """The parameters that the classifier and the ranker share.

    Parameters
    ----------
    C : float or "auto"
        Weight of the training loss against the l1 norm of the weights.  ``"auto"`` chooses the
        best C on held-out samples, and then trains on all of them.  With
        ``early_stopping`` the part that is held out for it serves for both.
    tol : float
        Relative gap ``(primal - bound) / primal``, below 1, at which training stops.
    formulation : {"one_slack", "m_slack", "exponential", "log"} or Formulation
        Which restricted master is solved, as in :class:`structboost.StructBoost`.
    stabilize : bool
        Whether the 1-slack master is stabilised; False is Algorithm 2 as printed.
    pricing : {"own", "best"} or PricingRule
        Whether each channel has weak learners of its own, or all share them.
    columns_per_channel : int
        Most columns added per channel and round, each on another feature.
    spread : float
        If positive, training ends with weights of small norm whose relative gap is at most this,
        for a lower test error as a rule; it must be above ``tol``.  Early stopping ignores it.
    engine : {"serial", "threads", "processes", "dask"} or Engine
        Who computes on the training set; the result does not depend on it.
    checkpoint : str, path or Checkpoint, optional
        File that the run is written to; if it exists, :meth:`fit` resumes from it.

    Attributes
    ----------
    C_path_ : list of dict
        Only with ``C="auto"``.  A record for each C tried, as those of
        :class:`structboost.StructBoost`.
    C_path_end_ : str
        Only with ``C="auto"``.  Why no larger C was tried.
    """

    C: float | str = AUTO
    tol: float = 0.01
    formulation: str | Formulation = "one_slack"
    stabilize: bool = True
    pricing: str | PricingRule = "own"
    columns_per_channel: int = 5
    spread: float = 0.0
    engine: str | Engine = "threads"
    checkpoint: str | PathLike[str] | Checkpoint | None = None

    def _linear_trainer(self, task: Task, active: Sequence[str] = ()) -> LinearTrainer:
        """The trainer of one linear function.

        Raises
        ------
        ValueError
            If a parameter is given that only boosting reads.
        """
        own = self.get_params(deep=False)
        for name in _OF_BOOSTING:
            if not is_same(own[name], getattr(type(self), name)):
                raise ValueError(
                    f"{name} is {shown(own[name])}, which weak_learner='linear', a single linear "
                    f"function, does not read; leave it out, or boost linear functions by "
                    "weak_learner=['linear']."
                )
        names = ("C", "tol", "max_rounds", "random_state", "verbose")
        return LinearTrainer(task, **{name: own[name] for name in names}, active=active)

    def _settings(self, task: Task) -> dict[str, Any]:
        return {
            "pricing": self._pricing(task),
            "spread": 0.0 if self.early_stopping else self.spread,
        }

    def _formulation(self) -> str | Formulation:
        return self.formulation

    def _pricing(self, task: Task) -> str | PricingRule:
        """The pricing rule for ``task``, or its name."""
        return self.pricing


@estimator
class StageWiseByDefault(StructBoostEstimator):
    """Estimators that boost trees stage-wise unless something is said of the objective.

    Parameters
    ----------
    formulation : {"auto", "one_slack", "m_slack", "exponential", "log"} or Formulation
        Which restricted master is solved, as in :class:`structboost.StructBoost`.  ``"auto"`` is
        stage-wise boosting if nothing is given (see above), else ``"one_slack"``.
    weak_learner : str, callable or list of these
        Family of weak learners, as in :class:`structboost.StructBoost`.  ``"auto"`` is trees if
        nothing is given (see above), else stumps.
    random_state : int, RandomState or None
        Seed for all that is drawn.  With None the stage-wise default still draws the same rows in
        every fit.
    """

    formulation: str | Formulation = AUTO
    weak_learner: WeakLearners = AUTO

    # What is said of the objective, the weak learners and the solver.
    _objective: ClassVar[tuple[str, ...]] = (
        "C", "formulation", "weak_learner", "stabilize", "exact", "pricing", "columns_per_channel",
        "spread", "taxonomy", "loss",
    )  # fmt: skip
    # Depth of the trees that are boosted stage-wise.
    _depth: ClassVar[int]

    @property
    def _is_left_open(self) -> bool:
        """Whether nothing is said of what is minimised, over which weak learners, and how."""
        own = [name for name in self._objective if hasattr(type(self), name)]
        return all(is_same(getattr(self, name), getattr(type(self), name)) for name in own)

    def _stage_wise(self) -> Formulation:
        """What is minimised where nothing is said of it."""
        raise NotImplementedError

    def _formulation(self) -> str | Formulation:
        if self._is_left_open:
            return self._stage_wise()
        return "one_slack" if is_same(self.formulation, AUTO) else self.formulation

    def _settings(self, task: Task) -> dict[str, Any]:
        settings = super()._settings(task) | {"formulation": self._formulation()}
        settings["weak_learner"] = self._weak_learners()
        if self._is_left_open:
            random_state = 0 if self.random_state is None else self.random_state
            trees = partial(
                TreeFamily,
                depth=self._depth,
                confident=True,
                row_share=_ROW_SHARE,
                random_state=random_state,
            )
            learners = self._stage_wise_learners(trees)
            return settings | {"C": np.inf, "weak_learner": learners, "columns_per_channel": 1}
        return settings

    def _stage_wise_learners(self, trees: Any) -> Any:
        """What is boosted where nothing is said of it."""
        return "stump" if getattr(self, "_is_sparse", False) else trees

    def _weak_learners(self) -> WeakLearners:
        if not is_same(self.weak_learner, AUTO):
            return self.weak_learner
        return "tree" if self._is_left_open else "stump"


@estimator
class StructBoostClassifier(TaxonomyClassifier, StageWiseByDefault, TableEstimator):
    """Binary and multi-class classifier trained by StructBoost (sections 3.1 and 3.3).

    By default it boosts trees stage-wise for the likelihood of the labels
    (:class:`structboost.StageWiseLikelihood`), each round on half of the rows, which needs no C and
    has no certificate (docs/decisions/default-classifier.md).  As soon as C,
    ``formulation``, ``weak_learner``, ``stabilize``, ``exact``, ``pricing``,
    ``columns_per_channel``, ``spread`` or ``taxonomy`` is given, it minimises the hinge loss over
    stumps, to a certified gap.  Engines of several processes need one of these.  Sparse tables are
    boosted over stumps in any case.

    Parameters
    ----------
    C : float or "auto"
        Weight of the training loss against the l1 norm of the weights.  ``"auto"`` chooses the
        best C on held-out samples, and then trains on all of them.  With
        ``early_stopping`` the part that is held out for it serves for both.  The stage-wise default
        is not regularised: there ``C_`` is infinite.
    pricing : {"own", "best", "label_augmented"} or PricingRule
        Whether each channel has weak learners of its own, or all share them.
        ``"label_augmented"`` needs a taxonomy: stumps on the input augmented with the label code
        (:class:`structboost.weak.label_augmented.LabelAugmented`; StructBoost, end of section 3.4).
    """

    # Again, because the other base class says otherwise.
    weak_learner: WeakLearners = AUTO

    _depth: ClassVar[int] = 5

    def _fit_in_place(self, X: Any, y: Any, sample_weight: Any) -> Self:
        if self._is_left_open:
            raise ValueError(
                f"X is a {type(X).__name__}, on which the default, trees that are boosted "
                "stage-wise, cannot be trained; give C, such as C=10, to train stumps."
            )
        return super()._fit_in_place(X, y, sample_weight)

    def _stage_wise(self) -> Formulation:
        if getattr(self, "_is_sparse", False):
            return Exponential(tau_max=1, largest_weight=_LARGEST_STEP)
        return StageWiseLikelihood()

    def _pricing(self, task: Task) -> str | PricingRule:
        """The pricing rule; ``label_augmented`` needs the label codes of a taxonomy."""
        if isinstance(self.pricing, PricingRule):
            return self.pricing
        name = checked_choice(self.pricing, "pricing", (*RULES, "label_augmented"))
        if name != "label_augmented":
            return name
        if not isinstance(task, TaxonomyTask):
            raise ValueError(
                "pricing is 'label_augmented', which needs a taxonomy; give taxonomy=."
            )
        return LabelAugmented()
