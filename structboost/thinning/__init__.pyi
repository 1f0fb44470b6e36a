"""Public names, and where each is defined, for type checkers."""

from .thinned_model import ThinnedModel as ThinnedModel
