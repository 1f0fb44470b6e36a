"""Pages of results, NAME.md for readers and NAME.json for records."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from benchmarks.runner.experiment import Finished, Source, Unit
from benchmarks.runner.provenance import Provenance, in_words, this_run
from benchmarks.runner.records import Record, by, grouped, half_width, short, write_text
from benchmarks.runner.targets import as_table

INTERVALS = "±: half of the 95 % interval of a mean over the splits or seeds, by Student's t."
Runs = dict[str, Provenance]
# Fields that are least values where a limit ended the run.
TIMES = ("seconds", "ratio")


class Column(NamedTuple):
    """A column of a table: its head, and the text of a cell."""

    head: str
    cell: Callable[[Record], str]


def field(head: str, name: str, form: str = "{}", factor: float | None = None) -> Column:
    """Format a field of a record, times a factor, with its interval if it has one.

    A time that a limit ended has a ">" before it.
    """

    def cell(r: Record) -> str:
        value, half = r.get(name), half_width(r) if name == "value" else None
        shown = [v if factor is None or v is None else factor * v for v in (value, half)]
        ended = name in TIMES and r.get("status") == "time_limit" and shown[0] is not None
        text = f"> {number(shown[0], form)}" if ended else number(shown[0], form)
        if half is None or value is None:
            return text
        return f"{text.rstrip('%')}±{number(shown[1], form).lstrip('+')}"

    return Column(head, cell)


def number(value: Any, form: str) -> str:
    """A number, or a dash for null."""
    return "-" if value is None else form.format(value)


def listing(records: Iterable[Record], *columns: Column) -> str:
    """One line for each record; empty if there are none."""
    rows = [[column.cell(r) for column in columns] for r in records]
    return markdown([column.head for column in columns], rows) if rows else ""


def across(
    head: str,
    records: Iterable[Record],
    name: str = "value",
    form: str = "{:.3g}",
    rows: Sequence[str] = ("dataset",),
    factor: float | None = None,
) -> str:
    """A field of all learners side by side under a heading, a line for each data set.

    ``rows`` are the fields that name a line.  Empty without a value.
    """
    shown = [r for r in records if r.get(name) is not None]
    if not shown:
        return ""
    of_rows = grouped((tuple(r.get(row) for row in rows), r) for r in shown)
    methods = list(dict.fromkeys(r["method"] for r in shown))
    cell = field("", name, form, factor).cell
    lines = [
        [
            *(str("-" if part is None else part) for part in key),
            *(cell(by(own, "method").get(m, {})) for m in methods),
        ]
        for key, own in of_rows.items()
    ]
    return f"**{head}**\n\n{markdown([*rows, *methods], lines)}"


def beside(
    head: str, records: Sequence[Record], facts: Mapping[str, Sequence[Any]], **rows: Any
) -> str:
    """Several fields of all learners in one table: name, form and factor of each by its head."""
    shown = [
        {**r, "text": field("", *fact).cell(r), "method": f"{name}, {r['method']}"}
        for name, fact in facts.items()
        for r in records
        if r.get(fact[0]) is not None
    ]
    return across(head, shown, "text", "{}", **rows)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = True) -> str:
    """Return a table; numbers stand on the right of their columns, but for the first."""
    rules = ["---", *(["---:" if right else "---"] * (len(head) - 1))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rules, *rows))


def blocks(*parts: str) -> str:
    """Parts of a page with a blank line between them; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)


def datasets_of(page: ModuleType) -> list[str]:
    """Names of a page's data sets."""
    return list(dict.fromkeys(name for one in page.EXPERIMENTS for name in one.data))


def plan(page: ModuleType, names: Iterable[str], folder: Path) -> list[Unit]:
    """Units of some data sets of a page."""
    return [
        unit
        for name in names
        for one in page.EXPERIMENTS
        if name in one.data
        for unit in one.units(Source(name, folder))
    ]


def records_of(page: ModuleType, results: Finished) -> list[Record]:
    """Records of a page, data set by data set, and those that it makes of them."""
    groups = grouped(
        ((unit.dataset, id(unit.experiment)), (unit, result)) for unit, result in results
    )
    made = [r for (name, _), own in groups.items() for r in own[0][0].experiment.records(name, own)]
    return page.derived(made) if hasattr(page, "derived") else made


def write_results(
    folder: Path,
    page: ModuleType,
    about: dict[str, Any],  # of the run: name of the page, data sets
    made: list[Record],
    planned: Sequence[Unit],
    runs: Runs,  # where each unit was measured, by its key
) -> None:
    """The page, and its records."""
    name = about["benchmark"]
    shown = page.show(made)
    text = blocks(
        f"# {name}",
        Path(str(page.__file__)).with_suffix(".md").read_text().strip(),
        as_table(page.targets(made)),
        _measured(runs.values()),
        _missing([unit.title for unit in planned if unit.key not in runs], len(planned)),
        f"Records: [{name}.json]({name}.json).",
        shown,
        INTERVALS if "±" in shown else "",
    )
    write_text(folder / f"{name}.json", as_json(about, made, runs))
    write_text(folder / f"{name}.md", f"{text}\n")


def _measured(runs: Iterable[Provenance]) -> str:
    """Commits and machines of the units."""
    groups = grouped((json.dumps({**run, "date": None}), run) for run in runs)
    words = [(in_words(group), len(group)) for group in groups.values()]
    if len(words) == 1:
        return f"Measured on {words[0][0]}."
    return blocks("Measured on:", "\n".join(f"- {what}: {n} units" for what, n in words))


def _missing(titles: Sequence[str], n_planned: int) -> str:
    named = "; ".join(titles[:5]) + ("." if len(titles) <= 5 else "; and others.")
    return f"{len(titles)} of {n_planned} units are missing: {named}" if titles else ""


def as_json(about: dict[str, Any], made: Sequence[Record], runs: Runs) -> str:
    """A page's records as JSON, a line each."""
    distinct = [run for k, run in enumerate(runs.values()) if run not in list(runs.values())[:k]]
    head = json.dumps({**about, "commit": this_run()["commit"], "runs": distinct}, indent=1)[:-2]
    lines = (json.dumps(short(r), allow_nan=False, separators=(",", ":")) for r in made)
    return head + ',\n "records": [\n' + ",\n".join(f"  {line}" for line in lines) + "\n ]\n}\n"
