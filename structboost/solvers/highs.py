"""HiGHS without output."""

from __future__ import annotations

from typing import Any

import highspy

__all__ = ["quiet_highs"]


def quiet_highs() -> Any:
    """Return a solver that prints nothing, not even its banner, and uses one thread.

    The scheduler of HiGHS is fixed by the first solve of a thread.
    """
    solver: Any = _Quiet()
    solver.setOptionValue("threads", 1)
    return solver


class _Quiet(highspy.Highs):
    """Solver whose output is off before the constructor of HiGHS 1.16 prints its banner."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        # Versions whose constructor does not call enableCallbacks.
        self.setOptionValue("output_flag", False)

    def enableCallbacks(self) -> None:
        """Turn the output off first, since the constructor prints the banner after this call."""
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]
