"""scikit-learn faces of the trainers."""

from structboost.estimators.boosted import StructBoostClassifier, StructBoostRanker
from structboost.estimators.linear import StructuredSVMClassifier

__all__ = ["StructBoostClassifier", "StructBoostRanker", "StructuredSVMClassifier"]
