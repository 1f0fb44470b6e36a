"""Public names, and where each is defined, for type checkers."""

from .thin import ThinnedModel as ThinnedModel
