"""A counter on the terminal."""

from __future__ import annotations

import sys
import time


class ProgressLine:
    """One line on standard error that is redrawn with every step.

    Parameters
    ----------
    label : str
    total : int
    visible : bool
        False draws nothing.
    """

    _WIDTH = 24

    def __init__(self, label: str, total: int, visible: bool = True) -> None:
        self.label, self.total, self.visible = label, total, visible
        self.done = 0
        self.began = time.perf_counter()

    def step(self) -> None:
        """One more is done."""
        self.done += 1
        filled = round(self._WIDTH * self.done / max(self.total, 1))
        bar = "#" * filled + "." * (self._WIDTH - filled)
        self._write(f"\r{self.label} [{bar}] {self.done}/{self.total}  {time.perf_counter() - self.began:.0f} s")

    def close(self) -> None:
        """End the line."""
        if self.done:
            self._write("\n")

    def _write(self, text: str) -> None:
        if self.visible:
            sys.stderr.write(text)
            sys.stderr.flush()
