"""Estimators in the style of scikit-learn."""

import lazy_loader

# Names are imported when they are first used.  ``__init__.pyi`` has the same for type checkers.
_NAMES = {
    "classifiers": ["StructBoostClassifier"],
    "coded": [
        "AdaBoostECCClassifier",
        "AdaBoostMHClassifier",
        "AdaBoostMOClassifier",
        "MultiBoostClassifier",
        "MultiBoostCWClassifier",
        "MultiBoostECCClassifier",
        "MultiBoostMOClassifier",
    ],
    "cross_fitted": ["CrossFitted"],
    "linear": ["StructuredSVMClassifier"],
    "multi_label": ["StructBoostMultiLabelClassifier"],
    "ranker": ["StructBoostRanker"],
    "shareboost": ["ShareBoostClassifier"],
    "tagger": ["StructBoostTagger"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_NAMES)
