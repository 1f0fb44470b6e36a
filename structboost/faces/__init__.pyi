"""Public names, and where each is defined, for type checkers."""

from .boosted import StructBoostClassifier as StructBoostClassifier
from .coded import AdaBoostECCClassifier as AdaBoostECCClassifier
from .coded import AdaBoostMHClassifier as AdaBoostMHClassifier
from .coded import AdaBoostMOClassifier as AdaBoostMOClassifier
from .coded import MultiBoostECCClassifier as MultiBoostECCClassifier
from .coded import MultiBoostMOClassifier as MultiBoostMOClassifier
from .cross_fitted import CrossFitted as CrossFitted
from .linear import StructuredSVMClassifier as StructuredSVMClassifier
from .multi_label import StructBoostMultiLabelClassifier as StructBoostMultiLabelClassifier
from .multiboost import MultiBoostClassifier as MultiBoostClassifier
from .multiboost import MultiBoostCWClassifier as MultiBoostCWClassifier
from .ranker import StructBoostRanker as StructBoostRanker
from .shareboost import ShareBoostClassifier as ShareBoostClassifier
from .tagger import StructBoostTagger as StructBoostTagger
