"""Records: what a page shows, as a JSON list of dicts."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from structboost.files.atomic_write import whole_file

Record = dict[str, Any]
FIELDS = (
    *("dataset", "method", "metric", "value", "std", "paper"),
    *("seconds", "gap", "rounds", "C", "repeats", "status"),
)


def record(dataset: str, method: str, metric: str, value: float | None, **others: Any) -> Record:
    """A record with every field; fields not given are null, further keys stand behind them."""
    given = {"dataset": dataset, "method": method, "metric": metric, "value": value}
    return plain({**dict.fromkeys(FIELDS), "status": "ok", **given, **others})


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
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(text.encode())


def grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """Values by key, both in their order of appearance."""
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def pick(made: Iterable[Record], **fields: Any) -> list[Record]:
    """The records whose fields have these values."""
    return [r for r in made if all(r.get(name) == value for name, value in fields.items())]


def by(made: Iterable[Record], *fields: str) -> dict[Any, Record]:
    """Records by the value of a field, or the values of several."""
    keys = [(r, tuple(r.get(field) for field in fields)) for r in made]
    return {key if len(fields) > 1 else key[0]: r for r, key in keys}


def side_by_side(made: Iterable[Record], rows: Sequence[str], *columns: str) -> list[Record]:
    """A row for each value of the fields ``rows``: its first record, and in ``of`` all of them.

    The records of a row are found by the value of the field ``columns``, or the values of several.
    """
    groups = grouped((tuple(r.get(field) for field in rows), r) for r in made)
    return [{**own[0], "of": by(own, *columns)} for own in groups.values()]


def datasets_of(made: Iterable[Record]) -> list[str]:
    """Names of the data sets, in their order of appearance."""
    return list(dict.fromkeys(r["dataset"] for r in made))
