"""Public names, and where each is defined: read by type checkers and by ``__init__.py``."""

from .folds import Fold as Fold
