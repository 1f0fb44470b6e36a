"""Base of values that compiled code uses, and that import numba when they are first needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class NumbaValue(ABC):
    """Global value of compiled code that stands for an object of numba.

    numba takes a fifth of the time in which this package is imported, and a program that only
    reads a file or parses a command compiles nothing.
    """

    @property
    @abstractmethod
    def value(self) -> Any:
        """Object of numba, which the first use makes."""
