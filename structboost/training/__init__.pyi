"""Public names, and where each is defined, for type checkers."""

from .engines import Engine as Engine
