"""Masters and boosters, and their contracts.

To add a stage-wise objective, write a :class:`Boosting` that starts a :class:`Booster`.
"""

import lazy_loader

# Names are imported when they are first used.  ``__init__.pyi`` has the same for type checkers.
_NAMES = {
    "base": ["Boosting", "Cut", "CutOracle", "Formulation", "Problem", "SoftmaxLink"],
    "exponential": ["Exponential"],
    "hinge": ["OneSlack"],
    "likelihood": ["ConditionalLikelihood"],
    "logistic": ["Logistic"],
    "m_slack": ["HingeBySize", "MSlack"],
    "master": ["Booster", "LearnsFromHeldOut", "RestrictedMaster", "WeightedColumns"],
    "norm_bounded": ["NormBounded", "NormBoundedHinge"],
    "stage_wise": ["StageWise", "StageWiseLikelihood", "StageWiseRandomField", "StageWiseRanking"],
    "values": ["SVM", "ExponentialLoss", "Hinge", "L1LogLoss", "LogLoss", "Objective", "Pairwise"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_NAMES)
