"""What is known of a kind of file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Kind:
    """A kind of file: how one is made in a folder, which file is damaged, and what it is used
    for."""

    make: Callable[[Path], object]
    file: str
    use: Callable[[Path], Any]
