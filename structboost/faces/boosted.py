"""Classifier that trains StructBoost."""

from __future__ import annotations

from typing import Any

from structboost._typing import override
from structboost.contract.task import Task
from structboost.faces.classifiers import BoostedClassifier
from structboost.faces.objectives import (
    HINGE,
    L1_LOG_LOSS,
    LOG_LOSS,
    Objectives,
    checked_parameters,
    recipe_of,
)
from structboost.faces.parameters import estimator
from structboost.faces.recipe import Recipe
from structboost.learners.label_augmented import LabelAugmented
from structboost.learners.pricing import RULES, PricingRule
from structboost.objectives.stage_wise_likelihood import StageWiseLikelihood
from structboost.tasks.taxonomy import TaxonomyTask
from structboost.validation import checked_choice


@estimator(Objectives)
class StructBoostClassifier(BoostedClassifier):
    """Binary and multi-class classifier trained by StructBoost (sections 3.1 and 3.3).

    By default it boosts trees stage-wise for the likelihood of the labels
    (:class:`structboost.objectives.StageWiseLikelihood`), each round on half of the rows, which
    needs no C and has no certificate (docs/decisions.md).  ``objective="hinge"``
    minimises the hinge loss over stumps, to a certified gap.  Engines of several processes need it.

    With a taxonomy, ``pricing="label_augmented"`` of an objective takes stumps on the input
    augmented with the label code (:class:`structboost.learners.label_augmented.LabelAugmented`;
    StructBoost, end of section 3.4).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import StructBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructBoostClassifier(max_iter=20).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.predict_proba(X[:1]).shape
    (1, 3)
    """

    taxonomy: Any = None
    monotonic_cst: Any = None

    _objectives = (LOG_LOSS, HINGE, "svm", "exponential", L1_LOG_LOSS)

    @override
    def _recipe(self, seed: int = 0) -> Recipe:
        objective = checked_parameters(self)
        rule = getattr(objective, "pricing", "own")

        def pricing(task: Task) -> str | PricingRule:
            if isinstance(rule, PricingRule):
                return rule
            name = checked_choice(rule, "pricing", (*RULES, "label_augmented"))
            if name != "label_augmented":
                return name
            if not isinstance(task, TaxonomyTask):
                raise ValueError(
                    "pricing is 'label_augmented', which needs a taxonomy; give taxonomy=."
                )
            return LabelAugmented()

        steps = StageWiseLikelihood()
        return recipe_of(self, objective, steps, pricing=pricing, tries_long_steps=True)
