"""Progress of a fit on the terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, TextIO

_WIDTH = 24


class ProgressBar:
    """A callback that redraws one line after each round.

    The bar fills with the rounds or with the gap closed (on a logarithmic scale), whichever is further.

    Parameters
    ----------
    tol : float
        Relative gap at which the fit stops.
    max_rounds : int
    label : str
    stream : text file, optional
        Default: standard error.
    """

    def __init__(self, tol: float, max_rounds: int, label: str = "", stream: TextIO | None = None) -> None:
        self.tol = tol
        self.max_rounds = max_rounds
        self.label = label
        self.stream = stream

    def __call__(self, record: Mapping[str, Any], trainer: Any) -> None:
        """Show ``record``, the newest entry of the history."""
        stream = self.stream or sys.stderr
        by_rounds = record["round"] / self.max_rounds
        gap = record["gap"]
        by_gap = 0.0 if gap is None or not 0 < self.tol < 1 else math.log(max(gap, self.tol)) / math.log(self.tol)
        filled = round(_WIDTH * min(1.0, max(by_rounds, by_gap)))
        shown = "   -  " if gap is None else f"{100 * gap:5.2f}%"
        line = (
            f"{self.label}[{'#' * filled}{'.' * (_WIDTH - filled)}] round {record['round']:4d}  "
            f"objective {record['primal']:10.4f}  gap {shown}  {record['columns']:5d} columns  "
            f"{record['seconds']:6.1f} s"
        )
        stream.write("\r" + line)
        stream.flush()

    def close(self) -> None:
        """End the line."""
        stream = self.stream or sys.stderr
        stream.write("\n")
        stream.flush()
