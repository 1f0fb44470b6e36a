"""How long a run will take, by what its units took before: on a page, or in the folder of records.

Times of other code and other machines are used too: an estimate is all that they are for.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.runner.records import grouped
from benchmarks.runner.statistics import known, mean
from benchmarks.runner.units import Unit

HOUR = 3600.0


class Estimate(NamedTuple):
    """Seconds of units one after the other, and how many units have no recorded time."""

    n_units: int
    seconds: float
    alone: float  # the part of it that runs on one process only
    n_unknown: int

    def wall(self, n_jobs: int) -> float:
        """Seconds on so many processes."""
        return self.alone + (self.seconds - self.alone) / n_jobs

    def in_words(self, n_jobs: int) -> str:
        """The estimate as a phrase."""
        hours = f"{self.wall(n_jobs) / HOUR:.1f} h"
        where = "one process" if n_jobs == 1 else f"{n_jobs} processes"
        n_known = self.n_units - self.n_unknown
        unknown = f"; {self.n_unknown} have no recorded time" if self.n_unknown else ""
        return f"{self.n_units} units are left: {n_known} take {hours} on {where}{unknown}"


def recorded_seconds(pages: Path, kept: Path) -> dict[str, float]:
    """Seconds by the title of a unit, from pages and from kept results, whatever their code."""
    found = {}
    for path in sorted(pages.glob("*.json")):
        for entry in _read(path).get("units", []):
            found[entry["title"]] = entry["result"].get("unit_seconds")
    for path in sorted(kept.glob("*.json"), key=lambda path: path.stat().st_mtime):
        one = _read(path)
        found[one.get("unit", "")] = (one.get("result") or {}).get("unit_seconds")
    return {title: seconds for title, seconds in found.items() if seconds is not None}


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def estimate(planned: Sequence[Unit], left: Sequence[Unit], recorded: dict[str, float]) -> Estimate:
    """What is left of some planned units will take.

    Where a repeat has no time, the mean of the method's others on the data set counts.
    """

    def same(unit: Unit) -> tuple[str, ...]:
        return (unit.benchmark, unit.dataset, unit.method)

    own = grouped((same(unit), recorded.get(unit.title)) for unit in planned)
    means = {key: mean(seconds) for key, seconds in own.items()}
    seconds = {unit: recorded.get(unit.title, means[same(unit)]) for unit in left}
    return Estimate(
        len(left),
        sum(known(seconds.values())),
        sum(known(seconds[unit] for unit in left if unit.timed)),
        sum(one is None for one in seconds.values()),
    )


def total(estimates: Iterable[Estimate]) -> Estimate:
    """Sum of estimates."""
    return Estimate(*(sum(values) for values in zip(*estimates, strict=True)))
