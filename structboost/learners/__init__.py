"""Families of weak learners, one module each, and their common base."""

import lazy_loader

# Names are imported when they are first used.  ``__init__.pyi`` has the same for type checkers.
_NAMES = {
    "base": ["Candidate", "Column", "WeakLearnerFamily"],
    "contributions": ["Contributions"],
    "feature": ["ActiveFeatureFamily", "FeatureFamily", "active_features"],
    "label_augmented": ["LabelAugmented"],
    "linear": ["LDAFamily", "PerceptronFamily", "SVMFamily"],
    "linear_function": ["LinearFunctionFamily"],
    "pair_tree": ["PairTreeFamily"],
    "patch": ["PatchFamily", "Pooling"],
    "pricing": [
        "BestChannel",
        "BestCode",
        "CandidateRule",
        "CodeWord",
        "FreeSign",
        "PerChannel",
        "PricingRule",
        "SharedOverChannels",
    ],
    "registry": ["register_weak_learner"],
    "stump": ["CategoryFamily", "StumpFamily"],
    "table": ["LearnerTable"],
    "terms": ["Term"],
    "tree": ["TreeFamily"],
    "tree_table": ["PairTables"],
    "union": ["UnionFamily"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_NAMES)
