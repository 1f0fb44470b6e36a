"""Records, the rows of a page as JSON, and statistics over the repeats in them."""

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

Record = dict[str, Any]
Values = Iterable[float | None]
# Digits of a float on a page.
DIGITS = 8
FIELDS = (
    *("dataset", "method", "metric", "value", "std", "paper"),
    *("seconds", "gap", "rounds", "C", "repeats", "status"),
)


def record(dataset: str, method: str, metric: str, value: float | None, **others: Any) -> Record:
    """Return a record with every field, null where it is not set; further keys stand behind."""
    about = {"dataset": dataset, "method": method, "metric": metric, "value": value}
    return plain({**dict.fromkeys(FIELDS), "status": "ok", **about, **others})


def plain(value: Any) -> Any:
    """Return a value in JSON's own types: no numpy scalars, and null for NaN and infinity."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def short(value: Any) -> Any:
    """Return a value in JSON's own types with the digits that pages keep."""
    if isinstance(value, dict):
        return {key: short(one) for key, one in value.items()}
    if isinstance(value, list):
        return [short(one) for one in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def write_json(path: Path, value: Any) -> None:
    """Write JSON, whole or not at all."""
    write_text(path, json.dumps(plain(value), indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(text)
    part.replace(path)


def grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """Collect values by key, both in their order of appearance."""
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def pick(records: Iterable[Record], **fields: Any) -> list[Record]:
    """Select the records whose fields have these values."""
    return [r for r in records if all(r.get(name) == value for name, value in fields.items())]


def by(records: Iterable[Record], *fields: str) -> dict[Any, Record]:
    """Map the value of a field, or the values of several, to the record."""
    keys = [(r, tuple(r.get(field) for field in fields)) for r in records]
    return {key if len(fields) > 1 else key[0]: r for r, key in keys}


def lookup(records: Iterable[Record], *fields: str) -> Callable[..., Any]:
    """Return ``at(*key, name="value")``, a field of the record of a key; None without one."""
    of_keys = by(records, *fields)

    def at(*key: Any, name: str = "value") -> Any:
        return of_keys.get(key if len(fields) > 1 else key[0], {}).get(name)

    return at


def ratio(one: float | None, other: float | None) -> float | None:
    """Divide; None if a number is missing, or the second one is 0."""
    return None if one is None or not other else one / other


def less(one: float | None, other: float | None) -> float | None:
    """Subtract; None if a number is missing."""
    return None if one is None or other is None else one - other


def known(values: Values) -> list[float]:
    """Drop nulls."""
    return [v for v in values if v is not None]


def mean(values: Values) -> float | None:
    """Mean without nulls; null if nothing is left, as for the statistics below."""
    return float(np.mean(numbers)) if (numbers := known(values)) else None


def median(values: Values) -> float | None:
    """Median without nulls."""
    return float(np.median(numbers)) if (numbers := known(values)) else None


def std(values: Values) -> float | None:
    """Sample standard deviation without nulls; null for fewer than two values."""
    return float(np.std(numbers, ddof=1)) if len(numbers := known(values)) > 1 else None


def most(values: Values) -> float | None:
    """Largest value without nulls."""
    return max(known(values), default=None)


def largest(values: Values) -> float | None:
    """Largest value; null if any is, because a missing gap is not known to be small."""
    numbers = list(values)
    return None if None in numbers else most(numbers)


def half_width(r: Record) -> float | None:
    """Half of the 95 % interval of a mean over repeats, by Student's t; null for one repeat."""
    n = r.get("repeats") or 0
    if r.get("std") is None or n < 2:
        return None
    return float(student.ppf(0.975, n - 1)) * r["std"] / math.sqrt(n)


# Statistics of the fields over the repeats; medians of the others.
STATISTICS: dict[str, Callable[[Values], float | None]] = {
    **dict.fromkeys(("value", "train_value", "train_error", "foreground", "validation"), mean),
    **dict.fromkeys(("min_margin", "exact_solves", "argmax_ms"), mean),
    **dict.fromkeys(("gap", "gap_at_1000"), largest),
    **dict.fromkeys(("peak", "peak_mb", "largest_latency"), most),
}


def summary(rows: Sequence[Record]) -> Record:
    """Summarise the rows of all repeats: numbers by their statistic, others if all are equal."""
    fields: Record = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        own = [row.get(name) for row in rows]
        if any(isinstance(v, bool) for v in own):
            fields[name] = all(own)
        elif all(v is None or isinstance(v, (int, float)) for v in own):
            fields[name] = STATISTICS.get(name, median)(own)
        elif all(v == own[0] for v in own) and not isinstance(own[0], (dict, list)):
            fields[name] = own[0]
    values = [row["value"] for row in rows]
    return {
        **fields,
        **{"std": std(values), "each": values, "repeats": len(rows)},
        "status": "time_limit" if pick(rows, status="time_limit") else "ok",
    }


def exponent(points: Sequence[tuple[float, float | None]]) -> float | None:
    """Logarithmic slope of the points that are known, null for fewer than two."""
    pairs = [(x, y) for x, y in points if y]
    return float(np.polyfit(*np.log(np.array(pairs, float)).T, 1)[0]) if len(pairs) > 1 else None
