"""Progress as one line on standard error, for training and for the commands.

A terminal or a notebook shows a bar that tqdm redraws.  Anywhere else, as in a log, the last state
is written once, when the line is closed.  ``Progress.is_written_out`` writes each state as a line.
"""

from __future__ import annotations

import math
import sys
import time
from typing import Any, Self

from tqdm.auto import tqdm

from structboost._typing import Facts
from structboost.errors import say, usable
from structboost.runtime.compiled import announce_compilation


class Progress:
    """Bar with a text beside it, on standard error if ``visible``."""

    is_written_out = False

    def __init__(self, *, visible: bool = True) -> None:
        self.visible, self._text = visible, ""
        self._bar: Any = None
        if visible:
            announce_compilation()

    def show(self, text: str, fraction: float | None) -> None:
        """Show a text, and the completed fraction, 0..1 or None if unknown."""
        if not self.visible:
            return
        self._text = text
        if self.is_written_out:
            say(text)
            return
        filled = 0.0 if fraction is None else min(fraction, 1.0)
        if self._bar is None:
            self._bar = tqdm(
                desc=text, initial=filled, total=None if fraction is None else 1.0,
                disable=None,  # where the stream is no terminal
                file=usable(sys.stderr), dynamic_ncols=True, miniters=0,
                bar_format="|{bar}| {desc}",
            )  # fmt: skip
        if not self._bar.disable:
            self._bar.set_description_str(text, refresh=False)
            self._bar.update(filled - self._bar.n)

    def close(self) -> None:
        """End the line."""
        bar, self._bar = self._bar, None
        if bar is None:
            return
        is_drawn = not bar.disable
        bar.close()
        if not is_drawn:
            say(self._text)


class ProgressLine(Progress):
    """Count of steps, with a ``label`` such as "segmented", which may be used as a context."""

    def __init__(self, label: str, total: int | None, visible: bool = True) -> None:
        super().__init__(visible=visible)
        self.label, self.total = label, total
        self.done = 0
        self._began = time.perf_counter()

    def __enter__(self) -> Self:
        if self.visible:
            self._state()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def step(self, text: str = "") -> None:
        """Count one more step, and show ``text`` after the count."""
        self.done += 1
        self._state(text)

    def _state(self, text: str = "") -> None:
        count = f"{self.done}" if self.total is None else f"{self.done}/{self.total}"
        seconds = f"{time.perf_counter() - self._began:.0f} s"
        fraction = self.done / self.total if self.total else None
        self.show("  ".join(filter(None, (f"{self.label} {count}", seconds, text))), fraction)


class ProgressBar(Progress):
    """Callback that redraws the line after each round of training.

    The bar fills with the rounds or with the gap closed (on a logarithmic scale), whichever is
    further.
    """

    def __init__(self, tol: float, max_rounds: int, label: str = "") -> None:
        super().__init__()
        self.tol, self.max_rounds, self.label = tol, max_rounds, label

    def end(self, reason: str) -> None:
        """End the line with a reason behind it."""
        self.show(reason if self.is_written_out else f"{self._text}  {reason}", 1.0)
        self.close()

    def __call__(self, record: Facts, trainer: Any) -> None:
        """Show ``record``, the newest entry of the history."""
        gap, fraction = record["gap"], record["round"] / self.max_rounds
        if gap is not None and 0 < self.tol < 1:
            fraction = max(fraction, math.log(max(gap, self.tol)) / math.log(self.tol))
        self.show(
            f"{self.label}round {record['round']:4d}  objective {record['primal']:10.4f}  "
            f"gap {'   -  ' if gap is None else f'{100 * gap:5.2f}%'}  "
            f"{record['columns']:5d} columns  {record['seconds']:6.1f} s",
            fraction,
        )
