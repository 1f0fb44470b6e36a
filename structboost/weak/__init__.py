"""Families of weak learners, one module each, and their common base.

To price another family whose features stay in shards, write :class:`ShardFeatures`, which
make :class:`ResponsesInShard` of the rows of a shard (:func:`structboost.register_weak_learner`).
A pricing rule leaves the duals there if it is a :class:`CandidateRule`.
"""

from structboost.weak.pricing import CandidateRule
from structboost.weak.responses import (
    DualsInShards,
    FeaturesOfRows,
    ResponsesInShard,
    ShardFeatures,
)

__all__ = ["CandidateRule", "DualsInShards", "FeaturesOfRows", "ResponsesInShard", "ShardFeatures"]
