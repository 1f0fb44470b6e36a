"""Fewer trees for models that other libraries trained, with a certificate over all their trees."""

import lazy_loader

# Names are imported when they are first used.  ``__init__.pyi`` has the same for type checkers.
_NAMES = {"thin": ["ThinnedModel"]}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_NAMES)
