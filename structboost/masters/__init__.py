"""Masters and boosters, one module each, and their contracts.

To add a stage-wise objective, write a :class:`Boosting` that makes a :class:`Booster`.  A master or
booster has the methods of the protocols that it implements.
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
