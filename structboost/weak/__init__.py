"""Weak-learner families, a module each, and what they share.

To price a family of your own where its features stay in shards, write :class:`ShardFeatures`, which
make :class:`ResponsesInShard` of the rows of a shard (:func:`structboost.register_weak_learner`).
"""

from structboost.weak.responses import (
    DualsInShards,
    FeaturesOfRows,
    ResponsesInShard,
    ShardFeatures,
)

__all__ = ["DualsInShards", "FeaturesOfRows", "ResponsesInShard", "ShardFeatures"]
