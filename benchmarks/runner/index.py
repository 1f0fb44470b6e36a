"""The page of all results: ours beside the best peer, task by task, made from the other pages.

Its lines are declared in ``papers/index.toml``.
"""

import json
import math
import tomllib
from statistics import mean, median
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from benchmarks.runner.machine import ROOT
from benchmarks.runner.pages import PAGES, blocks, markdown, targets
from benchmarks.runner.records import grouped, pick, write_text

INDEX = tomllib.loads((ROOT / "benchmarks/papers/index.toml").read_text())
NAMES = INDEX["names"]
# No error at all has no ratio.
LEAST_ERROR = 1e-4
FEWEST_SETS, LEVEL = 6, 0.95
# Times stand beside the fastest peer with at most so much more error than ours.
NEAR = 1.05
# Where the README has its lines of results.
BEGIN, END = "<!-- results: python -m benchmarks index -->\n", "<!-- end of results -->"
# Parts of a data set, which count as one.
PARTS = ("metric", "share", "case", "depth", "batch")


class Line(NamedTuple):
    """Medians over data sets of ours over the best peer's.

    ``interval`` holds the true ratio of errors with 95 %; None if it is not known.  ``fastest`` is
    the peer beside which the seconds are.  ``each`` has the ratios of errors of the parts of each
    data set, beside the best peer of each part.
    """

    about: dict[str, Any]  # its table in index.toml
    ours: str
    peer: str
    error: float | None
    n_sets: int
    interval: tuple[float, float] | None
    fastest: str
    seconds: float | None
    each: dict[Any, list[float]]

    @property
    def verdict(self):
        """1 where ours has more error, -1 where less, 0 where the interval leaves it open."""
        low, high = self.interval or (0.0, math.inf)
        return (low > 1) - (high < 1)


def line(about, records):
    """Compare ours with the best peer and with the fastest one, None without ours or a peer.

    The first of ``ours`` with the most data sets is shown, whatever its results.  The best peer is
    the one beside which ours is worst, in error, or in seconds without an error.  A peer counts if
    it has at least half as many data sets as another.
    """
    field, has_error = about.get("seconds", "seconds"), about.get("error", True)
    methods = {}
    for r in pick(records, metric=about["metrics"], **about.get("where", {})):
        if r["value"] is not None:
            key = r[about.get("sets", "dataset")], *(r.get(k) for k in PARTS)
            methods.setdefault(r["method"], {})[key] = r
    ours = max(about["ours"], key=lambda method: len(methods.get(method, ())))
    own, errors, seconds, ratios = methods.get(ours, {}), {}, {}, {}
    for peer in about["peers"]:
        both = [(key, own[key], r) for key, r in methods.get(peer, {}).items() if key in own]
        errors[peer] = grouped((key[0], _errors(about, a, b)) for key, a, b in both)
        # Seconds that are printed as 0.0 are not known.
        times = [(key[0], (a.get(field), b.get(field))) for key, a, b in both]
        seconds[peer] = grouped((name, pair) for name, pair in times if all(pair))
    most = max(map(len, errors.values()))
    there = [peer for peer in errors if 2 * len(errors[peer]) >= most > 0]
    if not there:
        return None
    of_error = {peer: math.exp(median(_logs(errors[peer]))) for peer in there}
    of_time = {p: math.exp(median(_logs(seconds[p]))) if seconds[p] else 0.0 for p in there}
    best = max(there, key=(of_error if has_error else of_time).__getitem__)
    near = [p for p in there if p == best or of_error[p] >= 1 / NEAR]
    fastest = max(near, key=lambda peer: (of_time[peer], peer == best))
    for key, a in own.items():
        beside = [_errors(about, a, methods[p][key]) for p in there if key in methods[p]]
        if beside:
            ratios.setdefault(key[0], []).append(max(x / y for x, y in beside))
    return Line(
        *(about, ours, best, of_error[best] if has_error else None, len(errors[best])),
        *(interval(errors[best]) if has_error else None, fastest, of_time[fastest] or None, ratios),
    )


def _errors(about, *pair):
    """Both errors, on the splits that both have, which are the first ones."""
    n, perfect = [len(r.get("each") or ()) for r in pair], about.get("perfect", 0.0)
    values = (r["value"] if n[0] == n[1] or not min(n) else mean(r["each"][: min(n)]) for r in pair)
    return [max(abs(perfect - value), LEAST_ERROR) for value in values]


def _logs(pairs):
    """Mean logarithm of ours over theirs over the parts of each data set."""
    # A mean over sets would be that of those with next to no errors, whose ratios are extreme.
    return [mean(math.log(a / b) for a, b in own) for own in pairs.values()]


def interval(pairs):
    """95 % interval of the median ratio over all such sets, None for fewer than six.

    It is by order statistics, which hold for any distribution.
    """
    ordered = np.sort(_logs(pairs))
    if len(ordered) < FEWEST_SETS:
        return None
    at = int(binom.ppf((1 - LEVEL) / 2, len(ordered), 0.5))
    low, high = np.exp([ordered[at - 1], ordered[-at]])
    # Rounded outwards, as it is printed.
    return math.floor(100 * low) / 100, math.ceil(100 * high) / 100


def write_index(folder, readme=None):
    """Write index.md for a folder of pages, and return its lines.

    ``readme`` is a file whose lines of results are renewed, too.
    """
    paths = {name: folder / f"{name}.json" for name in PAGES}
    there = {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}
    missed = {
        name: [
            f"{target.wanted} ({target.measured})"
            for target in targets(PAGES[name], page["records"])
            if target.met is False
        ]
        for name, page in there.items()
    }
    lines = [line(a, there[a["page"]]["records"]) for a in INDEX["line"] if a["page"] in there]
    shown = [one for one in lines if one is not None]
    text = blocks(
        "# Results",
        SUMMARY.format(
            n=len(shown),
            n_better=sum(one.verdict < 0 for one in shown),
            n_worse=sum(one.verdict > 0 for one in shown),
            n_slower=sum("**" in _cell(one.seconds) for one in shown),
        ),
        as_table(shown),
        one_by_one(shown),
        NOTE,
        "\n".join(
            f"- [{name}]({name}.md) misses {'; '.join(own)}." for name, own in missed.items() if own
        ),
        "```{toctree}\n:hidden:\n:glob:\n\n*\n```",
    )
    write_text(folder / "index.md", f"{text}\n")
    if readme is not None:
        before, rest = readme.read_text().split(BEGIN)
        lead = [one for one in shown if "readme" in one.about]
        names = dict.fromkeys(one.about["page"] for one in lead)
        links = "\n".join(f"[{page}]: docs/results/{page}.md" for page in names)
        titles = [f"[{one.about['readme']}][{one.about['page']}]" for one in lead]
        results = blocks(as_table(lead, titles), one_by_one(lead), links)
        write_text(readme, f"{before}{BEGIN}{results}\n{END}{rest.split(END)[1]}")
    return shown


SUMMARY = """\
Each ratio is structboost's figure divided by that of a peer: below 1 structboost is better.
Its error is lower on {n_better} of {n} tasks and higher on {n_worse} (bold). On the others the
interval contains 1 or is unknown, so they count as neither.
It takes longer on {n_slower} (bold)."""
NOTE = f"""\
Figures are medians over the data sets of a page; several measures or parts of a set count as one.
The best peer is the one against which the ratio of errors is highest. Time is the CPU time of a fit
with its chosen settings on one thread, unless the line says otherwise, over that of the fastest
peer with at most 5 % more error, or of the best one. A dash means that the page does not measure
it. On the tables of *classes, no settings* nothing was tuned. Which method of structboost is shown
was fixed beforehand, except for the two lines of trees of two levels, which were added when some of
their figures were known. *Interval* is
a 95 % confidence interval of the median ratio of errors over all such sets, by order statistics; it
is not known of fewer than {FEWEST_SETS} data sets. `python -m benchmarks index` makes this page."""


def as_table(lines, titles=()):
    """The lines as a table in Markdown, methods by their names for readers."""
    heads = ("task", "ours", "error", "interval", "best peer", "time", "fastest peer", "measure")
    rows = []
    for k, one in enumerate(lines):
        error = "-" if one.error is None else _text(one.error)
        rows.append((
            titles[k] if titles else f"[{one.about['task']}]({one.about['page']}.md)",
            NAMES.get(one.ours, one.ours),
            f"**{error}**" if one.verdict > 0 else error,
            "-" if one.interval is None else "{:.2f} to {:.2f}".format(*one.interval),
            NAMES.get(one.peer, one.peer),
            _cell(one.seconds),
            "-" if one.seconds is None else NAMES.get(one.fastest, one.fastest),
            one.about["measure"] + (f", {one.n_sets} sets" if one.n_sets > 1 else ""),
        ))  # fmt: skip
    return markdown(heads, rows, right=False)


def one_by_one(lines):
    """Ratios of each data set of the lines that show them."""
    return "\n\n".join(
        fill(
            f"*{one.about['readme']}*, beside the best peer of each: "
            + "; ".join(f"{name} {', '.join(map(_text, own))}" for name, own in one.each.items())
            + f" ({', '.join(one.about['metrics'])}).",
            100,
        )
        for one in lines
        if one.about.get("each")
    )


def _cell(ratio):
    """A ratio, bold where it is above 1 as printed."""
    if ratio is None:
        return "-"
    return f"**{_text(ratio)}**" if round(ratio, 2) > 1 else _text(ratio)


def _text(value):
    return f"{value:.2g}" if value < 0.1 or value >= 10 else f"{value:.2f}"
