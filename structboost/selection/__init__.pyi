"""Public names, and where each is defined: read by type checkers and by ``__init__.py``."""

from .folds import Fold as Fold
from .scoring import structured_scorer as structured_scorer
