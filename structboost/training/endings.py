"""Reasons why training ends, as stable words and as sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from structboost.errors import InterruptedFitWarning, warn_user

# A stable word for each reason, and the end of a sentence.
ENDINGS: Mapping[str, str] = {
    "gap": "the gap is at most tol",
    "columns": "no further weak learner lowers the objective",
    "stalled": "the objective hardly fell any more",
    "loss": "hardly any training loss is left",
    "held_out": "further rounds gained nothing on held-out examples",
    "callback": "a callback asked for it",
    "max_rounds": "max_iter (max_rounds, max_epochs of trainers) allows no more rounds",
    "one_class": "y has one class or tag, which the model always predicts",
    "interrupted": "Ctrl-C was pressed",
}


def ending_in_words(ending: str) -> str:
    """Return a sentence on why training ended, or an empty one."""
    return f"ended because {ENDINGS.get(ending, ending)}" if ending else ""


def ending_of_passes(history: Sequence[Mapping[str, Any]], tol: float, *, interrupted: bool) -> str:
    """Return the reason why passes over examples ended, a key of :data:`ENDINGS`."""
    if interrupted:
        return "interrupted"
    return "gap" if history[-1]["gap"] <= tol else "max_rounds"


def warn_of_interruption(n_passes: int, unit: str = "round") -> None:
    """Warn that Ctrl-C ended training after so many rounds or passes."""
    ending = "" if n_passes == 1 else "es" if unit.endswith("s") else "s"
    warn_user(
        f"Training was interrupted after {n_passes} {unit}{ending}; the model kept so far is "
        "usable.",
        InterruptedFitWarning,
    )


def warn_of_open_gap(
    gap: float, tol: float, n_passes: int, limit: str = "max_rounds", remedy: str = ""
) -> None:
    """Warn that the ``limit`` of rounds or passes was reached before the gap was ``tol``."""
    unit = limit.removeprefix("max_")
    warn_user(
        f"Training ended after {limit} = {n_passes} (max_iter of the estimators), at a gap of "
        f"{gap:.2g}, above tol = {tol}.  Allow more {unit}, or a larger tol{remedy}.",
        ConvergenceWarning,
    )
