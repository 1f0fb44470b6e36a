"""Pages of results: NAME.md for readers; NAME.json holds records and single units for `check`."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.runner.provenance import Provenance, in_words, machine, this_run
from benchmarks.runner.records import Record, grouped, plain, write_text
from benchmarks.runner.tables import blocks
from benchmarks.runner.targets import as_table
from benchmarks.runner.units import Finished, Unit

# Digits of a float on a page. Longer lists of numbers are kept as their length, mean and rms.
DIGITS = 8
LONG = 32
SUMMARY = ("numbers", "mean", "rms")
RECORDS, CHECKED_ON = "Records and single units:", "Checked on commit"
CHECKED = re.compile(rf"^{CHECKED_ON} .*\n\n", re.MULTILINE)
Runs = dict[str, Provenance | None]


def write_results(
    folder: Path,
    page: ModuleType,
    about: dict[str, Any],  # of the run: name of the benchmark, data sets, whether it was quick
    made: list[Record],
    planned: Sequence[Unit],
    results: Finished,
    runs: Runs,  # what each unit was measured on, by its key; None if that is not known
) -> None:
    """The page, its plots if it has any, and its records and units."""
    name = about["benchmark"]
    folder.mkdir(parents=True, exist_ok=True)
    plots: list[Path] = []
    if hasattr(page, "plot"):
        page.plot(made, folder / f"{name}.png")
        plots = sorted([*folder.glob(f"{name}.png"), *folder.glob(f"{name}-*.png")])
    text = blocks(
        f"# {name}",
        Path(str(page.__file__)).with_suffix(".md").read_text().strip(),
        as_table(page.targets(made)),
        _measured(this_run()["commit"], list(runs.values())),
        _missing([unit.title for unit in planned if unit.key not in runs], len(planned)),
        "A quick run: one repeat, few candidates, small data sets." if about["quick"] else "",
        f"{RECORDS} [{name}.json]({name}.json).",
        f"```\n{page.show(made)}\n```",
        *(f"![{plot.name}]({plot.name})" for plot in plots),
    )
    write_text(folder / f"{name}.json", as_json(about, made, results, runs))
    write_text(folder / f"{name}.md", f"{text}\n")


def _measured(commit: Any, runs: Sequence[Provenance | None]) -> str:
    """Which commits and machines the units are of.

    A kept unit is one whose data, parameters and code are those of the commit that writes the page.
    """
    groups = grouped((json.dumps({**(run or {}), "date": None}), run) for run in runs)
    words = [(in_words(group), len(group)) for group in groups.values()]
    if {run and run["commit"] for run in runs} == {commit} and len(words) == 1:
        return f"Measured on {words[0][0]}."
    head = f"Written on commit {commit}, whose data and code are those of every unit. They ran on"
    return f"{head}\n\n" + "\n".join(f"- {what}: {n} units" for what, n in words)


def _missing(titles: Sequence[str], n_planned: int) -> str:
    named = "; ".join(titles[:5]) + ("." if len(titles) <= 5 else "; and others.")
    return f"{len(titles)} of {n_planned} units are missing: {named}" if titles else ""


def as_json(about: dict[str, Any], made: Sequence[Record], results: Finished, runs: Runs) -> str:
    """A page's records and units."""
    distinct: list[Provenance | None] = []
    units = []
    for unit, result in results:
        if runs[unit.key] not in distinct:
            distinct.append(runs[unit.key])
        which = {"title": unit.title, "key": unit.key, **unit.identity}
        run = distinct.index(runs[unit.key])
        units.append({**which, "run": run, "result": rounded(result)})
    about = {**about, "commit": this_run()["commit"], "runs": distinct}
    return _laid_out({**about, "records": [rounded(r) for r in made], "units": units})


def _laid_out(page: dict[str, Any]) -> str:
    """A page as JSON, its records and units a line each."""
    lists = {key: page[key] for key in ("records", "units")}
    head = json.dumps({key: page[key] for key in page if key not in lists}, indent=1)[:-2]
    parts = [f' "{key}": [\n{_lines(entries)}\n ]' for key, entries in lists.items()]
    return head + ",\n" + ",\n".join(parts) + "\n}\n"


def say_checked(folder: Path, page: dict[str, Any], n_checked: int) -> None:
    """Write on a page that so many of its units were computed anew now and agree."""
    name, run = page["benchmark"], this_run()
    text = (folder / f"{name}.md").read_text()
    before, head, after = CHECKED.sub("", text).partition(RECORDS)
    of_all = f"{n_checked} of {len(page['units'])} units were computed anew and agree"
    line = f"{CHECKED_ON} {run['commit']}, {run['date']}, {machine(run)}: {of_all}.\n\n"
    facts = {name: run[name] for name in ("commit", "date", "cpu", "kernels", "compiled_for")}
    checked = {**facts, "n_checked": n_checked}
    write_text(folder / f"{name}.json", _laid_out({**page, "checked": checked}))
    write_text(folder / f"{name}.md", f"{before}{line}{head}{after}")


def units_on_pages(pages: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Title, parameters, run and result of the units on some pages, by their key.

    Units with a list that the page holds as a summary are left out.
    """
    found = {}
    for page in pages:
        for unit in page["units"]:
            if "key" in unit and not _is_summarised(unit["result"]):
                about = {"unit": unit["title"], "params": unit["params"]}
                run = page["runs"][unit["run"]]
                found[unit["key"]] = {**about, "run": run, "result": unit["result"]}
    return found


def _lines(entries: Sequence[Any]) -> str:
    lines = (json.dumps(entry, allow_nan=False, separators=(",", ":")) for entry in entries)
    return ",\n".join(f"  {line}" for line in lines)


def rounded(value: Any) -> Any:
    """JSON's own types with short floats; long lists of numbers are summarised."""
    value = plain(value)
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return _summarised(value) or [rounded(one) for one in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _summarised(value: list[Any]) -> dict[str, Any] | None:
    """Length, mean and root mean square of a long list of numbers, nested or not."""
    try:
        numbers = np.array(value)
    except ValueError:  # lists of different lengths
        return None
    if numbers.dtype.kind not in "iuf" or numbers.size <= LONG:
        return None
    mean, rms = np.mean(numbers), np.sqrt(np.mean(np.square(numbers, dtype=float)))
    return rounded(dict(zip(SUMMARY, (numbers.size, mean, rms), strict=True)))


def _is_summarised(value: Any) -> bool:
    """Whether a result, or anything in it, is a summary of a long list."""
    if isinstance(value, dict):
        return set(value) == set(SUMMARY) or any(map(_is_summarised, value.values()))
    return isinstance(value, list) and any(map(_is_summarised, value))
