"""structboost: non-linear structured predictors by boosting, with a certificate of optimality."""

from importlib.metadata import PackageNotFoundError, version

import lazy_loader

from structboost._moved import find_moved_modules

# Names are imported when they are first used; ``__init__.pyi`` lists them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

find_moved_modules()

try:
    __version__ = version("structboost-learn")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+unknown"
