"""structboost: non-linear structured predictors by boosting, with a certificate of optimality."""

from importlib.metadata import PackageNotFoundError, version

import lazy_loader

from structboost._moved import find_moved_modules, with_old_names

_PACKAGES = {
    "contract", "decisions", "engines", "exceptions", "files", "inference", "masters",
    "segmentation", "selection", "tagging", "tasks", "tracking", "weak",
}  # fmt: skip

# Names are imported when they are first used; ``__init__.pyi`` lists them.
_names_of_today, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_old_names(__name__, _names_of_today)
__all__ = [name for name in _names if name not in _PACKAGES]

find_moved_modules()

try:
    __version__ = version("structboost-learn")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+unknown"
