"""Statistics over repeats, null where nothing is known."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from benchmarks.runner.records import Record, pick

Values = Iterable[float | None]


def known(values: Values) -> list[float]:
    """The values that are not null."""
    return [v for v in values if v is not None]


def mean(values: Values) -> float | None:
    """Mean of the known values, null if there are none."""
    return float(np.mean(numbers)) if (numbers := known(values)) else None


def median(values: Values) -> float | None:
    """Median of the known values, null if there are none."""
    return float(np.median(numbers)) if (numbers := known(values)) else None


def std(values: Values) -> float | None:
    """Sample standard deviation, null for fewer than two known values."""
    return float(np.std(numbers, ddof=1)) if len(numbers := known(values)) > 1 else None


def most(values: Values) -> float | None:
    """Largest known value, null if there are none."""
    return max(known(values), default=None)


def largest(values: Values) -> float | None:
    """Largest value; null if any is, because a missing gap is not known to be small."""
    numbers = list(values)
    return None if None in numbers else most(numbers)


def over(
    statistic: Callable[[Values], float | None], results: Sequence[Record], *names: str
) -> Record:
    """A statistic of some fields, each under its own name; a field that is missing is null."""
    return {name: statistic([r.get(name) for r in results]) for name in names}


def summary(results: Sequence[Record], value: str = "value") -> Record:
    """Fields that summarise the repeats of one method on one problem."""
    values = [r[value] for r in results]
    return {
        "value": mean(values),
        "std": std(values),
        **over(median, results, "seconds", "tuning_seconds", "rounds", "C"),
        **over(largest, results, "gap"),
        "repeats": len(results),
        "status": status(results),
    }


def status(results: Iterable[Record]) -> str:
    """Whether a limit of time ended any of them."""
    return "time_limit" if pick(results, status="time_limit") else "ok"


def exponent(points: Sequence[tuple[float, float | None]]) -> float | None:
    """Logarithmic slope of the known points, null for fewer than two."""
    pairs = [(x, y) for x, y in points if y]
    return float(np.polyfit(*np.log(np.array(pairs, float)).T, 1)[0]) if len(pairs) > 1 else None
