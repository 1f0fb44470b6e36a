"""Public names, and where each is defined, for type checkers."""

from .folds import Fold as Fold
from .held_out import structured_scorer as structured_scorer
