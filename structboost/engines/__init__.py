"""Engines, which compute on the training set.

To write one, subclass :class:`Engine` and :class:`Workers`, hold each shard as a
:class:`ShardAtWork`, and process a :class:`Batch` by :func:`answer_of`.
"""

from structboost.engines.base import (
    Answer,
    Batch,
    Call,
    Engine,
    Layout,
    Replay,
    ShardAtWork,
    Workers,
    answer_of,
)

__all__ = [
    "Answer",
    "Batch",
    "Call",
    "Engine",
    "Layout",
    "Replay",
    "ShardAtWork",
    "Workers",
    "answer_of",
]
