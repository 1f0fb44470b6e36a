"""Classifier that trains StructBoost."""

from __future__ import annotations

from structboost._typing import override
from structboost.contract.task import Task
from structboost.faces.classifiers import TaxonomyClassifier
from structboost.faces.objectives import ObjectiveFace, recipe_of
from structboost.faces.parameters import estimator
from structboost.faces.recipe import Recipe
from structboost.learners.families import WeakLearners
from structboost.learners.label_augmented import LabelAugmented
from structboost.learners.pricing import RULES, PricingRule
from structboost.objectives.stage_wise_likelihood import StageWiseLikelihood
from structboost.tasks.taxonomy import TaxonomyTask
from structboost.training.boosting import AUTO
from structboost.validation import checked_choice


@estimator
class StructBoostClassifier(ObjectiveFace, TaxonomyClassifier):
    """Binary and multi-class classifier trained by StructBoost (sections 3.1 and 3.3).

    By default it boosts trees stage-wise for the likelihood of the labels
    (:class:`structboost.objectives.StageWiseLikelihood`), each round on half of the rows, which
    needs no C and has no certificate (docs/decisions.md).  ``objective="hinge"``
    minimises the hinge loss over stumps, to a certified gap.  Engines of several processes need it.

    Parameters
    ----------
    pricing : {"own", "best", "label_augmented"} or PricingRule
        Whether each channel has separate weak learners, or all share them.
        ``"label_augmented"`` needs a taxonomy: stumps on the input augmented with the label code
        (:class:`structboost.learners.label_augmented.LabelAugmented`; StructBoost, end of section
        3.4).

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

    # Repeated, because the other base class has a different default.
    weak_learner: WeakLearners = AUTO

    @override
    def _recipe(self, seed: int = 0) -> Recipe:
        face = self._checked()

        def pricing(task: Task) -> str | PricingRule:
            if isinstance(face.pricing, PricingRule):
                return face.pricing
            name = checked_choice(face.pricing, "pricing", (*RULES, "label_augmented"))
            if name != "label_augmented":
                return name
            if not isinstance(task, TaxonomyTask):
                raise ValueError(
                    "pricing is 'label_augmented', which needs a taxonomy; give taxonomy=."
                )
            return LabelAugmented()

        steps = StageWiseLikelihood()
        return recipe_of(face, steps, pricing=pricing, tries_long_steps=True)
