"""Choice of parameters by held-out examples."""

import lazy_loader

# Names are imported when they are first used.  ``__init__.pyi`` has the same for type checkers.
_NAMES = {"folds": ["Fold"], "held_out": ["structured_scorer"]}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_NAMES)
