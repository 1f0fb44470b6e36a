"""Estimators in the style of scikit-learn."""

from structboost.estimators.boosted import StructBoostClassifier
from structboost.estimators.coded import (
    AdaBoostECCClassifier,
    AdaBoostMHClassifier,
    AdaBoostMOClassifier,
    MultiBoostECCClassifier,
    MultiBoostMOClassifier,
)
from structboost.estimators.cross_fitted import CrossFitted
from structboost.estimators.linear import StructuredSVMClassifier
from structboost.estimators.multi_label import StructBoostMultiLabelClassifier
from structboost.estimators.multiboost import MultiBoostClassifier, MultiBoostCWClassifier
from structboost.estimators.ranker import StructBoostRanker
from structboost.estimators.shareboost import ShareBoostClassifier
from structboost.estimators.tagger import StructBoostTagger

__all__ = [
    "AdaBoostECCClassifier",
    "AdaBoostMHClassifier",
    "AdaBoostMOClassifier",
    "CrossFitted",
    "MultiBoostCWClassifier",
    "MultiBoostClassifier",
    "MultiBoostECCClassifier",
    "MultiBoostMOClassifier",
    "ShareBoostClassifier",
    "StructBoostClassifier",
    "StructBoostMultiLabelClassifier",
    "StructBoostRanker",
    "StructBoostTagger",
    "StructuredSVMClassifier",
]
