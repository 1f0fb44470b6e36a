"""Public names, and where each is defined, for type checkers."""

from .folds import Fold as Fold
from .scoring import structured_scorer as structured_scorer
