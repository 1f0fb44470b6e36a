"""Public names, and where each is defined, for type checkers."""

from .classifiers import StructBoostClassifier as StructBoostClassifier
from .coded import AdaBoostECCClassifier as AdaBoostECCClassifier
from .coded import AdaBoostMHClassifier as AdaBoostMHClassifier
from .coded import AdaBoostMOClassifier as AdaBoostMOClassifier
from .coded import MultiBoostClassifier as MultiBoostClassifier
from .coded import MultiBoostCWClassifier as MultiBoostCWClassifier
from .coded import MultiBoostECCClassifier as MultiBoostECCClassifier
from .coded import MultiBoostMOClassifier as MultiBoostMOClassifier
from .cross_fitted import CrossFitted as CrossFitted
from .linear import StructuredSVMClassifier as StructuredSVMClassifier
from .multi_label import StructBoostMultiLabelClassifier as StructBoostMultiLabelClassifier
from .ranker import StructBoostRanker as StructBoostRanker
from .shareboost import ShareBoostClassifier as ShareBoostClassifier
from .tagger import StructBoostTagger as StructBoostTagger
