"""The page of all results: ours beside the best peer, task by task, made from the other pages."""

import json
import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median, stdev
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom
from scipy.stats import t as student

from benchmarks.runner.pages import blocks, markdown
from benchmarks.runner.records import Record, grouped, write_text

# No error at all has no ratio.
LEAST_ERROR, LARGEST_RATIO = 1e-4, 10.0
TICKS = {"error": (0.25, 0.5, 0.7, 1, 1.4, 2, 4), "time": (0.001, 0.01, 0.1, 1, 10, 100)}
BETTER, WORSE, OPEN = "#2a7f62", "#c8553d", "#9a9a9a"
# Fewer sets have no interval of their median: its ends are those of the splits.
FEWEST_SETS, N_DRAWS, LEVEL = 6, 4000, 0.95
# Times stand beside the fastest peer with at most so much more error than ours.
NEAR = 1.05
# Where the README has its lines of results.
BEGIN, END = "<!-- results: python -m benchmarks index -->\n", "<!-- end of results -->"
TARGET = re.compile(
    r"^\| (?P<wanted>.+) \| (?P<measured>.+) \| (?P<end>met|\*\*missed\*\*|not measured) \|$",
    re.MULTILINE,
)
ERRORS: dict[str, Callable[[float], float | None]] = {
    "same": lambda value: value,
    "rest": lambda value: 1.0 - value,
    "rest of 100": lambda value: 1.0 - 0.01 * value,
    "none": lambda value: None,
}


class Figure(NamedTuple):
    """Error and seconds of a method on a data set or a part of it, or None.

    All parts of a data set count as one.  ``deviation`` is the standard error of a mean error over
    ``repeats`` splits, and ``each`` has the errors of the splits.
    """

    dataset: Hashable
    method: str
    error: float | None = None
    seconds: float | None = None
    deviation: float | None = None
    repeats: int = 1
    part: Hashable = None
    each: tuple[float | None, ...] = ()


class Headline(NamedTuple):
    """A line of the page: the learners that are compared, and where their figures are.

    The first of ``ours`` with the most data sets is shown, whatever its results.
    """

    page: str
    task: str
    measure: str
    ours: Sequence[str]
    peers: Sequence[str]
    metrics: Sequence[str] = ()
    error: str = "same"
    seconds: str = "seconds"
    where: Mapping[str, Sequence[Any]] = {}  # fields and their values
    readme: str = ""  # title of the line in the README, where it has one
    sets: str = "dataset"  # field that names a data set
    each: bool = False  # whether the ratios of each data set stand below the table

    def figures(self, records: Sequence[Record]) -> list[Figure]:
        """Figures from the records of some metrics."""
        figures = []
        for r in records:
            if r["metric"] not in self.metrics or r["value"] is None:
                continue
            if any(r.get(field) not in values for field, values in self.where.items()):
                continue
            part = tuple(r.get(k) for k in ("metric", "share", "case", "depth", "batch"))
            seconds, repeats, std = r.get(self.seconds), r.get("repeats") or 1, r.get("std")
            known = None if std is None or repeats < 2 else std / math.sqrt(repeats)
            if known is not None and self.error == "rest of 100":
                known *= 0.01
            errors = [ERRORS[self.error](value) for value in (r["value"], *(r.get("each") or ()))]
            about = (errors[0], seconds, known, repeats, part, tuple(errors[1:]))
            figures.append(Figure(r[self.sets], r["method"], *about))
        return figures


class Line(NamedTuple):
    """A headline with medians over data sets of ours over the best peer's.

    ``interval`` holds the true ratio of errors with 95 %; None if it is not known.  ``fastest`` is
    the peer beside which the seconds are.  ``each`` has the ratios of errors of the parts of each
    data set, beside the best peer of each part.
    """

    headline: Headline
    source: "Source"
    ours: str
    peer: str
    error: float | None
    n_sets: int
    interval: tuple[float, float] | None
    fastest: str
    seconds: float | None
    each: Mapping[Hashable, list[float]]

    @property
    def verdict(self) -> int:
        """1 where ours has more error, -1 where less, 0 where the interval leaves it open."""
        low, high = self.interval or (0.0, math.inf)
        return int(low > 1) - int(high < 1)


class Source(NamedTuple):
    """A page: its records, the commit it was written or checked on, and its targets.

    ``missed`` are the targets that it misses, each with what was measured.
    """

    records: list[Record]
    commits: str
    n_targets: int
    missed: list[str]

    @property
    def n_missed(self) -> str:
        return f"{len(self.missed)} of {self.n_targets}" if self.n_targets else "-"


def source(folder: Path, name: str) -> Source | None:
    """A page and the records beside it; None if one of both is missing."""
    path = folder / f"{name}.md"
    if not path.exists() or not path.with_suffix(".json").exists():
        return None
    told = list(TARGET.finditer(path.read_text()))
    missed = [f"{one['wanted']} ({one['measured']})" for one in told if "missed" in one["end"]]
    page = json.loads(path.with_suffix(".json").read_text())
    last = page.get("checked", page)
    runs = [last] if "commit" in last else page["runs"]
    commits = dict.fromkeys(str(run["commit"])[:7] for run in runs)
    shown = ", ".join(commits) if len(commits) < 3 else f"{len(commits)} commits"
    return Source(page["records"], shown, len(told), missed)


Figures = Callable[[Sequence[Record]], Iterable[Figure]]


def line(headline: Headline, page: Source, special: Figures | None = None) -> Line | None:
    """Compare ours with the best peer and with the fastest one, None without ours or a peer.

    The best peer is the one beside which ours is worst, in error, or in seconds without an error.
    A peer counts if it has at least half as many data sets as another.  ``special`` reads the
    figures of a page whose records are of another kind.
    """
    figures = grouped((f.method, f) for f in (special or headline.figures)(page.records))
    of_methods = {m: {(f.dataset, f.part): f for f in own} for m, own in figures.items()}
    own = max((of_methods.get(method, {}) for method in headline.ours), key=len)
    beside = {
        peer: [_same_splits(own[k], of_methods[peer][k]) for k in own if k in of_methods[peer]]
        for peer in headline.peers
        if peer in of_methods
    }
    n_sets = {peer: len({a.dataset for a, _ in pairs}) for peer, pairs in beside.items()}
    there = [peer for peer in beside if 2 * n_sets[peer] >= max(n_sets.values()) > 0]
    if not there:
        return None
    errors = {peer: _median_ratio(beside[peer], "error", LEAST_ERROR) for peer in there}
    seconds = {peer: _median_ratio(beside[peer], "seconds", 0.0) for peer in there}
    best = max(there, key=lambda peer: errors[peer] or seconds[peer] or 0.0)
    near = [p for p in there if p == best or (errors[p] or 0.0) >= 1 / NEAR]
    fastest = max(near, key=lambda peer: (seconds[peer] or 0.0, peer == best))
    return Line(
        *(headline, page, next(iter(own.values())).method, best, errors[best], n_sets[best]),
        *(interval(beside[best]), fastest, seconds[fastest]),
        _ratios_of_sets([pair for peer in there for pair in beside[peer]]),
    )


def _same_splits(ours: Figure, theirs: Figure) -> tuple[Figure, Figure]:
    """Both figures on the splits that both have, which are the first ones."""
    n = min(len(ours.each), len(theirs.each))
    if not n or len(ours.each) == len(theirs.each):
        return ours, theirs
    ours, theirs = (
        one._replace(
            error=mean(one.each[:n]),
            deviation=stdev(one.each[:n]) / math.sqrt(n) if n > 1 else None,
            repeats=n,
        )
        for one in (ours, theirs)
    )
    return ours, theirs


def _ratios_of_sets(pairs: Sequence[tuple[Figure, Figure]]) -> dict[Hashable, list[float]]:
    """Errors over the least of the peers', part by part, of each data set."""
    of_parts = grouped(((a.dataset, a.part), (a.error, b.error)) for a, b in pairs if a.error)
    return grouped(
        (dataset, max(a / max(b, LEAST_ERROR) for a, b in both if b is not None))
        for (dataset, _), both in of_parts.items()
        if any(b is not None for _, b in both)
    )


def interval(pairs: Sequence[tuple[Figure, Figure]]) -> tuple[float, float] | None:
    """95 % interval of the median ratio of errors, or None.

    Of six sets or more it is that of the median over all such sets, by order statistics, which
    holds for any distribution.  Fewer sets are taken as they are, and their figures have the errors
    of their splits, which the parts of a set share.
    """
    of_sets = list(_logs(pairs, "error", LEAST_ERROR).values())
    errors = grouped((a.dataset, (a, b)) for a, b in pairs if None not in (a.error, b.error))
    if len(of_sets) >= FEWEST_SETS:
        at = int(binom.ppf((1 - LEVEL) / 2, len(of_sets), 0.5))
        ordered = np.sort(of_sets)
        ends = ordered[at - 1], ordered[-at]
    elif of_sets and all(
        f.deviation is not None for own in errors.values() for p in own for f in p
    ):
        rng = np.random.default_rng(0)
        draws = [log + sum(_draws(rng, side) for side in zip(*own, strict=True))
                 for log, own in zip(of_sets, errors.values(), strict=True)]  # fmt: skip
        ends = np.quantile(np.median(draws, axis=0), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    else:
        return None
    low, high = np.clip(np.exp(ends), 1 / LARGEST_RATIO, LARGEST_RATIO)
    # Rounded outwards, as it is printed.
    return math.floor(100 * low) / 100, math.ceil(100 * high) / 100


def _draws(rng: np.random.Generator, parts: Sequence[Figure]) -> Any:
    """Draw errors of the mean logarithm over the parts of a set, which have the same splits."""
    scale = mean(f.deviation / max(f.error, LEAST_ERROR) for f in parts)
    return scale * student.rvs(min(f.repeats for f in parts) - 1, size=N_DRAWS, random_state=rng)


def _logs(pairs: Sequence[tuple[Figure, Figure]], name: str, least: float) -> dict[Hashable, float]:
    """Mean logarithm of ours over theirs over the parts of each data set."""
    both = [(a.dataset, getattr(a, name), getattr(b, name)) for a, b in pairs]
    # Seconds that are printed as 0.0 are not known.
    known = [row for row in both if None not in row and (least or all(row[1:]))]
    logs = grouped((s, math.log(max(a, least) / max(b, least))) for s, a, b in known)
    return {dataset: mean(own) for dataset, own in logs.items()}


def _median_ratio(pairs: Sequence[tuple[Figure, Figure]], name: str, least: float) -> float | None:
    """Return the median ratio of ours to theirs over data sets, None if no ratio is known."""
    # A mean would be that of sets with next to no errors, whose ratios are extreme.
    logs = _logs(pairs, name, least).values()
    ratio = math.exp(median(logs)) if logs else None
    if ratio is None or not least:
        return ratio
    return min(max(ratio, 1 / LARGEST_RATIO), LARGEST_RATIO)


def write_index(
    folder: Path,
    toml: Mapping[str, Any],
    special: Mapping[str, Figures],
    pages: Sequence[str],
    readme: Path | None = None,
) -> list[Line]:
    """Write index.md and its pictures for a folder of pages, and return the lines.

    ``readme`` is a file whose lines of results are renewed, too.
    """
    sources = {name: one for name in pages if (one := source(folder, name)) is not None}
    headlines = [Headline(**one) for one in toml["line"]]
    here = [one for one in headlines if one.page in sources]
    lines = [line(one, sources[one.page], special.get(one.task)) for one in here]
    shown = [one for one in lines if one is not None]
    plot(shown, folder / "index.png")
    others = [
        f"[{name}]({name}.md) (missed: {one.n_missed}; commit {one.commits})"
        for name, one in sources.items()
        if name not in {one.headline.page for one in shown}
    ]
    missed = [
        f"- [{name}]({name}.md): {'; '.join(one.missed)}"
        for name, one in sources.items()
        if one.missed
    ]
    text = blocks(
        "# Results",
        SUMMARY.format(
            n=len(shown),
            n_better=sum(one.verdict < 0 for one in shown),
            n_worse=sum(one.verdict > 0 for one in shown),
            n_slower=sum(_is_worse(one.seconds) for one in shown),
        ),
        "![Bars of error and time, ours over the best peer](index.png)",
        as_table(shown, toml["names"]),
        one_by_one(shown),
        NOTE,
        f"Pages that compare with no peer: {', '.join(others)}." if others else "",
        "\n".join(("## Targets missed", "", *missed)) if missed else "",
        "```{toctree}\n:hidden:\n:glob:\n\n*\n```",
    )
    write_text(folder / "index.md", f"{text}\n")
    if readme is not None:
        write_text(readme, with_results(readme.read_text(), shown, toml["names"]))
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
their figures were known. Ratios end at 10, because one of the two may make no error. *Missed*
counts targets of the page. *Commit* is where a page was measured, or a sample of it computed anew
with the same result; later changes are not in the figures. `python -m benchmarks index` makes this
page.

*Interval* is a 95 % confidence interval of the ratio of errors: from {FEWEST_SETS} data sets on
that of the median over such sets, by order statistics; with fewer that of these sets alone, by the
deviation over their splits, and unknown where a set has one split."""


def with_results(text: str, lines: Sequence[Line], names: Mapping[str, str]) -> str:
    """Text of the README with the lines of results that it shall have."""
    shown = [one for one in lines if one.headline.readme]
    rows = []
    for one in shown:
        peer, error, ends, *rest = _cells(one, names)
        title = f"[{one.headline.readme}][{one.headline.page}]"
        rows.append((title, error, ends, peer, *rest))
    heads = ("", "error", "interval", "best peer", "time", "fastest peer", "measure")
    text_of_sets = one_by_one(shown)
    table = blocks(markdown(heads, rows, right=False), text_of_sets)
    pages = dict.fromkeys(one.headline.page for one in shown)
    links = "\n".join(f"[{page}]: docs/results/{page}.md" for page in pages)
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}{table}\n\n{links}\n{END}{rest.split(END)[1]}"


def as_table(lines: Sequence[Line], names: Mapping[str, str]) -> str:
    """The lines as a table in Markdown, methods by their names for readers."""
    rows = []
    for one in lines:
        task = f"[{one.headline.task}]({one.headline.page}.md)"
        about = one.source.n_missed, one.source.commits
        rows.append((task, names.get(one.ours, one.ours), *_cells(one, names), *about))
    heads = ("task", "ours", "best peer", "error", "interval", "time", "fastest peer", "measure")
    return markdown((*heads, "missed", "commit"), rows, right=False)


def one_by_one(lines: Sequence[Line]) -> str:
    """Ratios of each data set of the lines that show them."""
    shown = [
        f"*{one.headline.readme or one.headline.task}*, beside the best peer of each: "
        + "; ".join(f"{name} {', '.join(map(_text, own))}" for name, own in one.each.items())
        + f" ({', '.join(one.headline.metrics)})."
        for one in lines
        if one.headline.each
    ]
    return "\n\n".join(fill(text, 100) for text in shown)


def _cells(one: Line, names: Mapping[str, str]) -> tuple[str, ...]:
    """Peer, error, interval, time, fastest peer and measure of a line."""
    error = "-" if one.error is None else _text(one.error)
    return (
        names.get(one.peer, one.peer),
        f"**{error}**" if one.error is not None and one.verdict > 0 else error,
        "-" if one.interval is None else "{:.2f} to {:.2f}".format(*one.interval),
        _cell(one.seconds),
        "-" if one.seconds is None else names.get(one.fastest, one.fastest),
        one.headline.measure + (f", {one.n_sets} sets" if one.n_sets > 1 else ""),
    )


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"**{_text(value)}**" if _is_worse(value) else _text(value)


def _is_worse(value: float | None) -> bool:
    """Whether a ratio is above 1 as printed."""
    return value is not None and round(value, 2) > 1


def _text(value: float) -> str:
    return f"{value:.2g}" if value < 0.1 or value >= 10 else f"{value:.2f}"


def plot(lines: Sequence[Line], path: Path) -> None:
    """Bars from 1 to each ratio, on logarithmic axes: to the left ours is better."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    size = (9.0, 0.9 + 0.17 * len(lines))
    figure, axes = plt.subplots(1, 2, layout="constrained", figsize=size, sharey=True)
    for axis, (title, ticks) in zip(axes, TICKS.items(), strict=True):
        values = [one.error if title == "error" else one.seconds for one in lines]
        peer = "best" if title == "error" else "fastest"
        for at, (one, value) in enumerate(zip(lines, values, strict=True)):
            is_error = title == "error"
            color = WORSE if _is_worse(value) else BETTER
            if is_error:
                color = (BETTER, OPEN, WORSE)[one.verdict + 1]
            if is_error and one.interval is not None:
                axis.plot(one.interval, [at + 0.42] * 2, color="black", linewidth=0.8)
            axis.barh(at, (value or 1) - 1, left=1, color=color, height=0.7)
            side = "left" if value is None or value > 1 else "right"
            text = "-" if value is None else _text(value)
            axis.text(value or 1, at, f" {text} ", fontsize=8, va="center", ha=side)
        axis.axvline(1, color="black", linewidth=1)
        shown = [*(value for value in values if value is not None), 1.0]
        room = max((max(shown) / min(shown)) ** 0.17, 1.2)  # for the numbers beside the bars
        axis.set(
            xscale="log", title=f"{title}, ours / {peer} peer", xlabel="left of 1: ours better"
        )
        ends = min(shown) / room, max(shown) * room
        axis.set(xlim=ends, xticks=[tick for tick in ticks if ends[0] < tick < ends[1]])
        axis.xaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
    axes[0].set_yticks(range(len(lines)), [one.headline.task for one in lines])
    axes[0].invert_yaxis()
    figure.savefig(path, dpi=110)
    plt.close(figure)
