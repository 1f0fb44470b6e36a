"""Records: what a page shows, as a JSON list of dicts."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from structboost.files.whole_file import whole_file

Record = dict[str, Any]
FIELDS = (
    *("dataset", "method", "metric", "value", "std", "paper"),
    *("seconds", "gap", "rounds", "C", "repeats", "status"),
)


def record(dataset: str, method: str, metric: str, value: float | None, **others: Any) -> Record:
    """A record with every field; fields not given are null, further keys stand behind them."""
    given = {"dataset": dataset, "method": method, "metric": metric, "value": value}
    given |= {"status": "ok", **others}
    fields = {name: given.pop(name, None) for name in FIELDS}
    return plain({**fields, **given})


def plain(value: Any) -> Any:
    """JSON's own types: no numpy scalars, and null for NaN and infinity."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, value: Any) -> None:
    """Write JSON, whole or not at all."""
    write_text(path, json.dumps(plain(value), indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(text.encode())


def grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """Values by key, both in their order of appearance."""
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def by(made: Iterable[Record], *fields: str) -> dict[tuple[Any, ...], Record]:
    """Records by the values of some fields."""
    return {tuple(r.get(field) for field in fields): r for r in made}


def datasets_of(made: Iterable[Record]) -> list[str]:
    """Names of the data sets, in their order of appearance."""
    return list(dict.fromkeys(r["dataset"] for r in made))


def known(values: Iterable[float | None]) -> list[float]:
    """The values that are not null."""
    return [v for v in values if v is not None]


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of the known values, null if there are none."""
    return _of_known(np.mean, values)


def median(values: Iterable[float | None]) -> float | None:
    """Median of the known values, null if there are none."""
    return _of_known(np.median, values)


def std(values: Iterable[float | None]) -> float | None:
    """Sample standard deviation, null for fewer than two known values."""
    numbers = known(values)
    return float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None


def most(values: Iterable[float | None]) -> float | None:
    """Largest known value, null if there are none."""
    return max(known(values), default=None)


def largest(values: Iterable[float | None]) -> float | None:
    """Largest value; null if any is, because a missing gap is not known to be small."""
    numbers = list(values)
    return None if None in numbers else most(numbers)


def _of_known(statistic: Callable[..., Any], values: Iterable[float | None]) -> float | None:
    numbers = known(values)
    return float(statistic(numbers)) if numbers else None


def summary(results: Sequence[dict[str, Any]], value: str = "value") -> dict[str, Any]:
    """Fields that summarise the repeats of one method on one problem."""
    values = [r[value] for r in results]
    medians = ("seconds", "tuning_seconds", "rounds", "C")
    return {
        "value": mean(values),
        "std": std(values),
        **{name: median(r.get(name) for r in results) for name in medians},
        "gap": largest(r.get("gap") for r in results),
        "repeats": len(results),
        "status": status(results),
    }


def status(results: Iterable[dict[str, Any]]) -> str:
    """Whether a limit of time ended any of them."""
    stopped = any(r.get("status") == "time_limit" for r in results)
    return "time_limit" if stopped else "ok"


def exponent(points: Sequence[tuple[float, float | None]]) -> float | None:
    """Logarithmic slope of the known points, null for fewer than two."""
    pairs = [(x, y) for x, y in points if y]
    return float(np.polyfit(*np.log(np.array(pairs, float)).T, 1)[0]) if len(pairs) > 1 else None
