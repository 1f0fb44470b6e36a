"""Masters and boosters, one module each, and their contracts.

For a stage-wise objective of your own, write a :class:`Boosting` that makes a :class:`Booster`.
A master or booster has the methods of those protocols that fit it.
"""

from structboost.masters.base import (
    Booster,
    Boosting,
    LearnsFromHeldOut,
    RecallsResponses,
    Resumable,
    Spreadable,
    TakesSparseResponses,
    WeightedColumns,
)

__all__ = [
    "Booster",
    "Boosting",
    "LearnsFromHeldOut",
    "RecallsResponses",
    "Resumable",
    "Spreadable",
    "TakesSparseResponses",
    "WeightedColumns",
]
