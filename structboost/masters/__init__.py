"""Masters and boosters, one module each, and their contracts.

To add a stage-wise objective, write a :class:`Boosting` that makes a :class:`Booster`.  A master or
booster has the methods of the protocols that it implements.
"""

import lazy_loader

# Names are imported when they are first used; ``__init__.pyi`` lists them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
