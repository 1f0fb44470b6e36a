"""Pages of results: NAME.md for readers; NAME.json holds records and single units for `check`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.runner.provenance import Provenance, in_words
from benchmarks.runner.records import Record, grouped, plain, write_text
from benchmarks.runner.tables import blocks
from benchmarks.runner.targets import as_table
from benchmarks.runner.units import Result, Unit

# Digits of a float on a page. Longer lists of numbers are kept as their length, mean and rms.
DIGITS = 8
LONG = 32
LONG_LIST = ("numbers", "mean", "rms")


@dataclass(frozen=True)
class FinishedRun:
    """What a run of a benchmark came to: the units that have a result, by key what each was
    measured on (None if that is not known), and all that were planned."""

    datasets: Sequence[str]
    quick: bool
    planned: Sequence[Unit]
    results: Sequence[tuple[Unit, Result]]
    runs: Mapping[str, Provenance | None]


def write_results(
    folder: Path, name: str, page: ModuleType, made: list[Record], shown: str, run: FinishedRun
) -> None:
    """The page, its plots if it has any, and its records and units."""
    folder.mkdir(parents=True, exist_ok=True)
    plots: list[Path] = []
    if hasattr(page, "plot"):
        page.plot(made, folder / f"{name}.png")
        plots = sorted([*folder.glob(f"{name}.png"), *folder.glob(f"{name}-*.png")])
    text = blocks(
        f"# {name}",
        Path(str(page.__file__)).with_suffix(".md").read_text().strip(),
        as_table(page.targets(made)),
        _measured(name, run),
        f"```\n{shown}\n```",
        *(f"![{plot.name}]({plot.name})" for plot in plots),
    )
    write_text(folder / f"{name}.json", as_json(name, made, run))
    write_text(folder / f"{name}.md", f"{text}\n")


def _measured(name: str, run: FinishedRun) -> str:
    """Which commits and machines the units are of, and which units are missing."""
    of_units = [run.runs.get(unit.key) for unit, _ in run.results]
    groups = grouped((_without_date(one), one) for one in of_units)
    words = [(in_words(group[0], _dates(group)), len(group)) for group in groups.values()]
    if len(words) == 1:
        text = f"Measured on {words[0][0]}."
    else:
        text = "Measured on\n\n" + "\n".join(f"- {what}: {n} units" for what, n in words)
    done = {unit.key for unit, _ in run.results}
    missing = [unit.title for unit in run.planned if unit.key not in done]
    if missing:
        named = "; ".join(missing[:5]) + ("." if len(missing) <= 5 else "; and others.")
        text += f"\n\n{len(missing)} of {len(run.planned)} units are missing: {named}"
    if run.quick:
        text += "\n\nA quick run: one repeat, few candidates, small data sets."
    return f"{text}\n\nRecords and single units: [{name}.json]({name}.json)."


def _without_date(run: Provenance | None) -> str:
    return json.dumps(run and {key: value for key, value in run.items() if key != "date"})


def _dates(runs: Sequence[Provenance | None]) -> str:
    """The day, or the first and the last."""
    dates = sorted({str(run["date"]) for run in runs if run})
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}" if dates else ""


def as_json(name: str, made: Sequence[Record], run: FinishedRun) -> str:
    """Records and units, a line each."""
    distinct: list[Provenance | None] = []
    units = []
    for unit, result in run.results:
        one = run.runs.get(unit.key)
        if one not in distinct:
            distinct.append(one)
        about_unit = {"title": unit.title, **unit.identity, "run": distinct.index(one)}
        units.append({**about_unit, "result": rounded(result)})
    about = {"benchmark": name, "datasets": list(run.datasets), "quick": run.quick}
    head = json.dumps({**about, "runs": distinct}, indent=1)[:-2]
    lists = {"records": [rounded(r) for r in made], "units": units}
    parts = [f' "{key}": [\n{_lines(entries)}\n ]' for key, entries in lists.items()]
    return head + ",\n" + ",\n".join(parts) + "\n}\n"


def _lines(entries: Sequence[Any]) -> str:
    lines = (json.dumps(entry, allow_nan=False, separators=(",", ":")) for entry in entries)
    return ",\n".join(f"  {line}" for line in lines)


def rounded(value: Any) -> Any:
    """JSON's own types with short floats; long lists of numbers are summarised."""
    value = plain(value)
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        numbers = _numbers(value)
        is_long = numbers is not None and len(numbers) > LONG
        return _summarised(numbers) if is_long else [rounded(v) for v in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _numbers(value: list[Any]) -> list[float] | None:
    """All numbers in nested lists; None if there is anything else."""
    found: list[float] = []
    for one in value:
        inner = _numbers(one) if isinstance(one, list) else [one]
        if inner is None or not all(isinstance(v, (int, float)) for v in inner):
            return None
        found.extend(inner)
    return found


def _summarised(numbers: list[float]) -> dict[str, Any]:
    n = len(numbers)
    mean, rms = sum(numbers) / n, (sum(v * v for v in numbers) / n) ** 0.5
    return dict(zip(LONG_LIST, (n, rounded(float(mean)), rounded(float(rms))), strict=True))
