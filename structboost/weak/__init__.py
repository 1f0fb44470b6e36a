"""Families of weak learners, one module each, and their common base.

To price another family whose features stay in shards, write :class:`ShardFeatures`, which
make :class:`ResponsesInShard` of the rows of a shard (:func:`register_weak_learner`).
A pricing rule leaves the duals there if it is a :class:`CandidateRule`.
"""

import lazy_loader

# Names are imported when they are first used; ``__init__.pyi`` lists them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
