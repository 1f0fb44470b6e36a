"""scikit-learn faces of the trainers."""

from structboost.estimators.boosted import StructBoostClassifier, StructBoostRanker
from structboost.estimators.linear import StructuredSVMClassifier
from structboost.estimators.multiboost import MultiBoostClassifier, MultiBoostCWClassifier

__all__ = [
    "MultiBoostCWClassifier",
    "MultiBoostClassifier",
    "StructBoostClassifier",
    "StructBoostRanker",
    "StructuredSVMClassifier",
]
