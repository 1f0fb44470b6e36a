"""Engines, which compute on the training set.

To write one, subclass :class:`Engine` and :class:`Workers`, hold each shard as a
:class:`ShardAtWork`, and process a :class:`Batch` by :func:`response_of`.
"""

import lazy_loader

# Names are imported when they are first used.  ``__init__.pyi`` has the same for type checkers.
_NAMES = {
    "base": [
        "Batch",
        "Call",
        "Engine",
        "Layout",
        "Replay",
        "Response",
        "ShardAtWork",
        "Workers",
        "response_of",
    ],
    "local": ["Serial", "Threads"],
    "processes": ["Processes"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_NAMES)
