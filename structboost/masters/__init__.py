"""Masters and boosters, a module each, and their contracts.

For a stage-wise objective of your own, write a :class:`Boosting` that makes a :class:`Booster`.
A master or booster has the methods of those protocols that fit it.
"""

import lazy_loader

# Names are imported when they are first used; ``__init__.pyi`` lists them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
