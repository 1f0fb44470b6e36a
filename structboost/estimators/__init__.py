"""scikit-learn faces of the trainers."""

from structboost.estimators.boosted import StructBoostClassifier, StructBoostRanker
from structboost.estimators.coded import (
    AdaBoostECCClassifier,
    AdaBoostMHClassifier,
    AdaBoostMOClassifier,
    MultiBoostECCClassifier,
    MultiBoostMOClassifier,
)
from structboost.estimators.linear import StructuredSVMClassifier
from structboost.estimators.multiboost import MultiBoostClassifier, MultiBoostCWClassifier

__all__ = [
    "AdaBoostECCClassifier",
    "AdaBoostMHClassifier",
    "AdaBoostMOClassifier",
    "MultiBoostCWClassifier",
    "MultiBoostClassifier",
    "MultiBoostECCClassifier",
    "MultiBoostMOClassifier",
    "StructBoostClassifier",
    "StructBoostRanker",
    "StructuredSVMClassifier",
]
