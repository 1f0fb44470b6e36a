"""The result of a benchmark: a JSON list of records."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from structboost.whole_file import whole_file

FIELDS = (
    "dataset",
    "method",
    "metric",
    "value",
    "std",
    "paper",
    "seconds",
    "gap",
    "rounds",
    "C",
    "repeats",
    "status",
)


def record(dataset: str, method: str, metric: str, value: float | None, **others: Any) -> dict[str, Any]:
    """A record with every field; those not given are null, further keys are kept behind them."""
    given = {"dataset": dataset, "method": method, "metric": metric, "value": value, "status": "ok", **others}
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
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: Path, value: Any) -> None:
    """Write all of the file or nothing of it."""
    write_text(path, json.dumps(plain(value), indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write all of the file or nothing of it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(text.encode())


def known(values: Iterable[float | None]) -> list[float]:
    """The values that are not null."""
    return [v for v in values if v is not None]


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of the known values, null if there are none."""
    numbers = known(values)
    return float(np.mean(numbers)) if numbers else None


def std(values: Iterable[float | None]) -> float | None:
    """Sample standard deviation, null for fewer than two values."""
    numbers = known(values)
    return float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None


def median(values: Iterable[float | None]) -> float | None:
    """Median of the known values, null if there are none."""
    numbers = known(values)
    return float(np.median(numbers)) if numbers else None


def largest(values: Iterable[float | None]) -> float | None:
    """Largest value; null if any is, for a gap that is missing once is not known to be small."""
    numbers = list(values)
    return None if not numbers or None in numbers else float(max(numbers))  # type: ignore[type-var]


def summary(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Fields that summarise the repeats of one method on one problem."""
    out_of_time = any(r.get("status") == "time_limit" for r in results)
    return {
        "value": mean(r["value"] for r in results),
        "std": std(r["value"] for r in results),
        "seconds": median(r.get("seconds") for r in results),
        "tuning_seconds": median(r.get("tuning_seconds") for r in results),
        "gap": largest(r.get("gap") for r in results),
        "rounds": median(r.get("rounds") for r in results),
        "C": median(r.get("C") for r in results),
        "repeats": len(results),
        "status": "time_limit" if out_of_time else "ok",
    }
