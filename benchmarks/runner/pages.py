"""Pages of results, NAME.md for readers and NAME.json for records.

What a page shows and claims is declared in a file NAME.toml beside its module: ``table``, with the
arguments of :func:`table`, and ``target``, with those of :func:`judged`.
"""

import importlib
import json
import math
import operator
import tomllib
from pathlib import Path
from typing import NamedTuple

from scipy.stats import t as student

from benchmarks.papers import NAMES
from benchmarks.runner.machine import in_words
from benchmarks.runner.records import grouped, mean, median, most, pick, plain, write_text

PAGES = {
    name: importlib.import_module(f"benchmarks.papers.{name.replace('-', '_')}") for name in NAMES
}
INTERVALS = "±: half of the 95 % interval of a mean over the splits or seeds, by Student's t."
# Fields that are least values where a limit ended the run.
TIMES = ("seconds", "ratio")
WORDS = {True: "met", False: "**missed**", None: "not measured"}
RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
STATISTICS = {"mean": mean, "median": median, "max": most}


class Target(NamedTuple):
    """A target of the project, with ``met`` None where the page cannot tell."""

    wanted: str
    measured: str
    met: bool | None


def cell(r, name, form="{}", factor=1):
    """Format a field of a record, times a factor, with the interval of a mean over repeats.

    A time that a limit ended has a ">" before it.
    """
    value, n = r.get(name), r.get("repeats") or 0
    if value is None:
        return "-"
    text = form.format(value if factor == 1 else factor * value)
    if name in TIMES and r.get("status") == "time_limit":
        return f"> {text}"
    if name != "value" or r.get("std") is None or n < 2:
        return text
    half = float(student.ppf(0.975, n - 1)) * r["std"] / math.sqrt(n)
    return f"{text.rstrip('%')}±{form.format(factor * half).lstrip('+')}"


def table(
    made,
    head,
    form="{:.3g}",
    name="value",
    factor=1,
    rows=("dataset",),
    across="method",
    columns=(),
    **where,
):
    """Table of the records with some values of some fields, empty without a value.

    ``rows`` are the fields that name a line.  There is a column for each value of the field
    ``across``, or for each of ``columns``: its head, and the name, form and factor of a field.
    """
    shown = pick(made, **where)
    cells = [
        (tuple(r.get(row) for row in rows), title, cell(r, *fact))
        for r in shown
        for title, *fact in (columns or [(r.get(across), name, form, factor)])
        if columns or r.get(name) is not None
    ]
    if not cells:
        return ""
    texts = {(key, title): text for key, title, text in cells}
    heads = list(dict.fromkeys(title for _, title, _ in cells))
    lines = [
        [*("-" if part is None else str(part) for part in key)]
        + [texts.get((key, title), "-") for title in heads]
        for key in dict.fromkeys(key for key, _, _ in cells)
    ]
    return f"**{head}**\n\n{markdown([*rows, *heads], lines)}"


def markdown(head, rows, *, right=True):
    """Return a table; numbers stand on the right of their columns, but for the first."""
    rules = ["---", *(["---:" if right else "---"] * (len(head) - 1))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rules, *rows))


def judged(
    made,
    wanted,
    ours,
    theirs=None,
    relation="<=",
    limit=0.0,
    times=1.0,
    take="",
    per=("dataset",),
    n=0,
    least=None,
    form="{:.3g}",
    best=False,
):
    """Whether a figure of ours keeps to a limit, beside theirs if there are such records.

    ``ours`` and ``theirs`` are fields of records and their values; ``name`` is that of the figure,
    and ``without`` what stands for null.  Records of the same fields ``per`` are one case, with
    their worst figure of ours, or the ``best``, and the best of theirs.

    Ours shall have a ``relation`` to ``times`` theirs plus a limit in each of ``n`` cases, or in at
    least some; without ``n`` in all that are on the page.  With ``take``, a statistic, it is over
    the cases' ratios to theirs, or their figures.
    """
    holds, smaller = RELATIONS[relation], relation in ("<", "<=")

    def figures(which, choose):
        name, without = which.get("name", "value"), which.get("without")
        where = {k: v for k, v in which.items() if k not in ("name", "without")}
        values = grouped(
            (tuple(r.get(field) for field in per), without if r.get(name) is None else r[name])
            for r in pick(made, **where)
        )
        return {key: choose(own) for key, own in values.items() if None not in own}

    pairs = figures(ours, max if smaller != best else min)
    rivals = dict.fromkeys(pairs, 1.0 if take else 0.0)
    if theirs is not None:
        rivals = figures(theirs, min if smaller else max)
    cases = [key for key in pairs if key in rivals and (rivals[key] or not take)]
    if take:
        value = STATISTICS[take](pairs[key] / rivals[key] for key in cases)
        if value is None or len(cases) < n:
            return Target(wanted, "-", None)
        return Target(wanted, form.format(value), holds(value, limit))
    results = {key: holds(pairs[key], times * rivals[key] + limit) for key in cases}
    failing = [" ".join(map(str, key)) for key, is_met in results.items() if not is_met]
    n, n_met = n or max(1, len(results)), len(results) - len(failing)
    least = n if least is None else least
    measured = f"{n_met} of {n}" + (f"; not {', '.join(failing)}" if failing else "")
    is_possible = n_met + n - len(results) >= least
    return Target(wanted, measured, True if n_met >= least else None if is_possible else False)


def declared(page):
    """Tables and targets of a page."""
    return tomllib.loads(Path(page.__file__).with_suffix(".toml").read_text())


def show(page, made):
    """All tables of a page."""
    return blocks(*(table(made, **own) for own in declared(page)["table"]))


def targets(page, made):
    """All targets of a page."""
    return [judged(made, **own) for own in declared(page)["target"]]


def blocks(*texts):
    """Parts of a page with a blank line between them; empty ones are left out."""
    return "\n\n".join(text for text in texts if text)


def datasets_of(page):
    """Names of a page's data sets."""
    return list(dict.fromkeys(name for one in page.EXPERIMENTS for name in one.data))


def records_of(page, results):
    """Records of a page, data set by data set, and those that it makes of them."""
    groups = grouped(
        ((unit.source.name, id(unit.experiment)), (unit, one)) for unit, one in results
    )
    made = [r for (name, _), own in groups.items() for r in own[0][0].experiment.records(name, own)]
    return plain(page.derived(made) if hasattr(page, "derived") else made)


def write_results(
    folder,
    page,
    about,  # of the run: name of the page, data sets
    made,
    planned,
    runs,  # where each unit was measured, by its key
):
    """The page, and its records."""
    name, shown, judgements = about["benchmark"], show(page, made), targets(page, made)
    measured = grouped((json.dumps({**run, "date": None}), run) for run in runs.values())
    words = [f"- {in_words(group)}: {len(group)} units" for group in measured.values()]
    missing = [unit.title for unit in planned if unit.key not in runs]
    missed = sum(target.met is False for target in judgements)
    text = blocks(
        f"# {name}",
        Path(page.__file__).with_suffix(".md").read_text().strip(),
        f"Targets missed: {missed} of {len(judgements)}.",
        markdown(
            ("target", "measured", ""),
            [(wanted, value, WORDS[met]) for wanted, value, met in judgements],
            right=False,
        ),
        "\n".join(("Measured on:", "", *words)),
        f"{len(missing)} of {len(planned)} units are missing: {'; '.join(missing[:5])}."
        if missing
        else "",
        f"Records: [{name}.json]({name}.json).",
        shown,
        INTERVALS if "±" in shown else "",
    )
    head = json.dumps({**about, "runs": [group[-1] for group in measured.values()]}, indent=1)[:-2]
    lines = (json.dumps(r, allow_nan=False, separators=(",", ":")) for r in made)
    rows = ",\n".join(f"  {line}" for line in lines)
    write_text(folder / f"{name}.json", f'{head},\n "records": [\n{rows}\n ]\n}}\n')
    write_text(folder / f"{name}.md", f"{text}\n")
