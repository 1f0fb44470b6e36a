"""Records, the rows of a page as JSON, and statistics over the repeats in them."""

import math
import os

import numpy as np

FIELDS = (
    *("dataset", "method", "metric", "value", "std", "paper"),
    *("seconds", "gap", "rounds", "C", "repeats", "status"),
)


def record(dataset, method, metric, value, **others):
    """Return a record with every field, null where it is not set; further keys stand behind."""
    about = {"dataset": dataset, "method": method, "metric": metric, "value": value}
    return plain({**dict.fromkeys(FIELDS), "status": "ok", **about, **others})


def plain(value):
    """Return a value in JSON's types with the digits of pages, null for NaN and infinity."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.8g}") if math.isfinite(value) else None
    return value


def write_text(path, text):
    """Write a text file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(text)
    part.replace(path)


def grouped(pairs):
    """Collect values by key, both in their order of appearance."""
    groups = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def pick(records, **fields):
    """Select the records whose fields have these values, or a value of these lists."""
    wanted = {k: v if isinstance(v, (list, tuple)) else [v] for k, v in fields.items()}
    return [r for r in records if all(r.get(name) in values for name, values in wanted.items())]


def lookup(records, *fields):
    """Return ``at(*key, name="value")``, a field of the record of a key; None without one."""
    by_key = {tuple(r.get(field) for field in fields): r for r in records}

    def at(*key, name="value"):
        return by_key.get(key, {}).get(name)

    return at


def known(statistic, least=1):
    """A statistic without nulls; null if fewer than ``least`` numbers are left."""

    def of_known(values):
        numbers = [v for v in values if v is not None]
        return float(statistic(numbers)) if len(numbers) >= least else None

    return of_known


mean, median, most = known(np.mean), known(np.median), known(max)
std = known(lambda values: np.std(values, ddof=1), 2)
# Statistics of the fields over the repeats; medians of the others. A missing gap may be large.
STATISTICS = {
    **dict.fromkeys(("value", "train_error", "foreground", "min_margin", "argmax_ms"), mean),
    **dict.fromkeys(("gap", "gap_at_1000"), lambda gaps: None if None in gaps else max(gaps)),
    **dict.fromkeys(("peak_mb", "largest_latency"), most),
}


def summary(rows):
    """Summarise the rows of all repeats: numbers by their statistic, others if all are equal."""
    fields = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        own = [row.get(name) for row in rows]
        if any(isinstance(v, bool) for v in own):
            fields[name] = all(own)
        elif all(v is None or isinstance(v, (int, float)) for v in own):
            fields[name] = STATISTICS.get(name, median)(own)
        elif all(v == own[0] for v in own) and not isinstance(own[0], (dict, list)):
            fields[name] = own[0]
    values = [row["value"] for row in rows]
    ended = any(row.get("status") == "time_limit" for row in rows)
    fields |= {"std": std(values), "each": values, "repeats": len(rows)}
    return {**fields, "status": "time_limit" if ended else "ok"}


def exponent(points):
    """Logarithmic slope of the points that are known, null for fewer than two."""
    pairs = [(x, y) for x, y in points if y]
    return float(np.polyfit(*np.log(np.array(pairs, float)).T, 1)[0]) if len(pairs) > 1 else None
