"""The page of all results: ours beside the best peer, task by task, made from the other pages."""

import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom
from scipy.stats import t as student

from benchmarks.runner.check import read_page
from benchmarks.runner.pages import blocks, markdown, picture
from benchmarks.runner.ranks import LEVEL, mean_ranks, plot_ranks
from benchmarks.runner.records import Record, grouped, write_text

# No error at all has no ratio.
LEAST_ERROR, LARGEST_RATIO = 1e-4, 10.0
TICKS = {"error": (0.25, 0.5, 0.7, 1, 1.4, 2, 4), "time": (0.001, 0.01, 0.1, 1, 10, 100)}
BETTER, WORSE, OPEN = "#2a7f62", "#c8553d", "#9a9a9a"
# Fewer sets have no interval of their median: its ends are those of the splits.
FEWEST_SETS, N_DRAWS = 6, 4000
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

    ``deviation`` is the standard error of a mean error over ``repeats`` splits.
    """

    dataset: Hashable
    method: str
    error: float | None = None
    seconds: float | None = None
    deviation: float | None = None
    repeats: int = 1


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
    per_second: str = ""  # a field with the inverse of the seconds
    where: Mapping[str, Sequence[Any]] = {}  # fields and their values
    some: str = ""  # a field that must have a value
    none: str = ""  # one that must not
    readme: str = ""  # title of the line in the README, where it has one

    def figures(self, records: Sequence[Record]) -> list[Figure]:
        """Figures from the records of some metrics."""
        figures = []
        for r in records:
            if r["metric"] not in self.metrics or r["value"] is None:
                continue
            if (self.some and not r.get(self.some)) or (self.none and r.get(self.none)):
                continue
            if any(r.get(field) not in values for field, values in self.where.items()):
                continue
            key = tuple(r.get(k) for k in ("dataset", "metric", "share", "case", "depth", "batch"))
            seconds = 1.0 / r[self.per_second] if self.per_second else r.get(self.seconds)
            repeats, std = r.get("repeats") or 1, r.get("std")
            known = None if std is None or repeats < 2 else std / math.sqrt(repeats)
            if known is not None and self.error == "rest of 100":
                known *= 0.01
            error = ERRORS[self.error](r["value"])
            figures.append(Figure(key, r["method"], error, seconds, known, repeats))
        return figures


class Line(NamedTuple):
    """A headline with medians over data sets of ours over the best peer's.

    ``interval`` holds the true ratio of errors with 95 %; None if it is not known.
    """

    headline: Headline
    source: "Source"
    ours: str
    peer: str
    error: float | None
    seconds: float | None
    n_sets: int
    interval: tuple[float, float] | None

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
    page = read_page(path.with_suffix(".json"))
    last = page.get("checked", page)
    runs = [last] if "commit" in last else page["runs"]
    commits = dict.fromkeys(str(run and run["commit"])[:7] for run in runs)
    shown = ", ".join(commits) if len(commits) < 3 else f"{len(commits)} commits"
    return Source(page["records"], shown, len(told), missed)


Figures = Callable[[Sequence[Record]], Iterable[Figure]]


def line(headline: Headline, page: Source, special: Figures | None = None) -> Line | None:
    """Ours beside the best peer of those with the most data sets; None if one of both is missing.

    The best peer is the one beside which ours is worst, in error, or in seconds without an error.
    ``special`` reads the figures of a page whose records are of another kind.
    """
    figures = grouped((f.method, f) for f in (special or headline.figures)(page.records))
    of_methods = {m: {figure.dataset: figure for figure in own} for m, own in figures.items()}
    own = max((of_methods.get(method, {}) for method in headline.ours), key=len)
    pairs = {
        peer: [(own[name], of_methods[peer][name]) for name in own if name in of_methods[peer]]
        for peer in headline.peers
        if peer in of_methods
    }
    most = max(map(len, pairs.values()), default=0)
    lines = [
        Line(headline, page, both[0][0].method, peer, *_ratios(both), most, interval(both))
        for peer, both in pairs.items()
        if len(both) == most > 0
    ]
    return max(lines, key=lambda one: one.error or one.seconds or 0.0, default=None)


def interval(pairs: Sequence[tuple[Figure, Figure]]) -> tuple[float, float] | None:
    """95 % interval of the median ratio of errors, or None.

    Of six sets or more it is that of the median over all such sets, by order statistics, which
    holds for any distribution.  Fewer sets are taken as they are, and their figures have the errors
    of their splits.
    """
    errors = [both for both in pairs if None not in (both[0].error, both[1].error)]
    floored = [(max(a.error, LEAST_ERROR), max(b.error, LEAST_ERROR)) for a, b in errors]
    logs = np.array([math.log(a / b) for a, b in floored])
    if len(logs) >= FEWEST_SETS:
        at = int(binom.ppf((1 - LEVEL) / 2, len(logs), 0.5))
        ordered = np.sort(logs)
        ends = ordered[at - 1], ordered[-at]
    elif len(logs) and all(figure.deviation is not None for both in errors for figure in both):
        rng = np.random.default_rng(0)
        draws = [
            log
            + sum(
                figure.deviation
                / error
                * student.rvs(figure.repeats - 1, size=N_DRAWS, random_state=rng)
                for figure, error in zip(both, values, strict=True)
            )
            for log, both, values in zip(logs, errors, floored, strict=True)
        ]
        ends = np.quantile(np.median(draws, axis=0), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    else:
        return None
    low, high = np.clip(np.exp(ends), 1 / LARGEST_RATIO, LARGEST_RATIO)
    # Rounded outwards, as it is printed.
    return math.floor(100 * low) / 100, math.ceil(100 * high) / 100


def _ratios(pairs: Sequence[tuple[Figure, Figure]]) -> tuple[float | None, float | None]:
    """Medians of ours over theirs, of errors and of seconds; None where none are known."""
    errors = [(a.error, b.error) for a, b in pairs if None not in (a.error, b.error)]
    # Seconds that are printed as 0.0 are not known.
    seconds = [(a.seconds, b.seconds) for a, b in pairs if a.seconds and b.seconds]
    floors = ((errors, LEAST_ERROR), (seconds, 0.0))
    logs = [[math.log(max(a, low) / max(b, low)) for a, b in both] for both, low in floors]
    # A mean would be that of sets with next to no errors, whose ratios are extreme.
    error, time = (math.exp(median(own)) if own else None for own in logs)
    if error is not None:
        error = min(max(error, 1 / LARGEST_RATIO), LARGEST_RATIO)
    return error, time


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
    ranks = toml.get("ranks", {})
    with_ranks = ranks.get("page") in sources
    of_pages = {name: "; ".join(one.missed) for name, one in sources.items() if one.missed}
    missed = [f"- [{name}]({name}.md): {text}" for name, text in of_pages.items()]
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
        NOTE,
        _ranked(folder, ranks, toml["names"], sources[ranks["page"]]) if with_ranks else "",
        f"Pages that compare with no peer: {', '.join(others)}." if others else "",
        "\n".join(("## Targets missed", "", *missed)) if missed else "",
        "```{toctree}\n:hidden:\n:glob:\n\n*\n```",
    )
    write_text(folder / "index.md", f"{text}\n")
    if readme is not None:
        write_text(readme, with_results(readme.read_text(), shown, toml["names"]))
    return shown


SUMMARY = """\
Each ratio is structboost's figure divided by that of the best peer: below 1 structboost is better.
Its error is lower on {n_better} of {n} tasks and higher on {n_worse} (bold). On the others the
interval contains 1 or is unknown, so they count as neither.
It takes longer on {n_slower} (bold)."""
NOTE = f"""\
Figures are medians over the data sets of a page. Time is the CPU time of a fit with its chosen
settings on one thread, unless the line says otherwise; for boxes in a video it is the wall time of
a frame. A dash means that the page does not measure it. The best peer is the one against which the
ratio of errors is highest. Which method of structboost is shown was fixed beforehand, except for
the two lines of trees of two levels, which were added when some of their figures were known. Ratios
end at 10, because one of the two may make no error. *Missed* counts the targets that a page misses.
*Commit* is where a page was measured, or where a sample of it was last computed anew with the same
result; later changes are not in the figures. `python -m benchmarks index` makes this page from the
others.

*Interval* is a 95 % confidence interval of the ratio of errors. With {FEWEST_SETS} data sets or
more it is that of the median over such data sets, by order statistics. With fewer it is that of
these sets alone, by the deviation over their splits; it is unknown where a set has one split."""
RANKED = """\
## Classifiers without settings, by rank

![Mean ranks with their critical difference](ranks.png)

Mean ranks over the {n} data sets of [{page}]({page}.md). Ranks that are less than {difference:.2f}
apart do not differ at 5 % (Nemenyi's test): a bar joins them."""


def _ranked(folder: Path, about: Mapping[str, Any], names: Mapping[str, str], page: Source) -> str:
    """Section with the picture of mean ranks, and what does not differ by each measure."""
    panels = {
        title: mean_ranks(page.records, metric, about["methods"])
        for metric, title in about["metrics"].items()
    }
    plot_ranks(panels, names, folder / "ranks.png")
    first = next(iter(panels.values()))
    lines = [
        f"- By {title}, "
        + "; ".join(
            f"{', '.join(names.get(method, method) for method in group)} do not differ"
            for group in ranks.groups()
        )
        + "."
        for title, ranks in panels.items()
    ]
    text = RANKED.format(n=first.n_sets, page=about["page"], difference=first.difference)
    return "\n".join((text, "", *lines))


def with_results(text: str, lines: Sequence[Line], names: Mapping[str, str]) -> str:
    """Text of the README with the lines of results that it shall have."""
    rows = []
    for one in lines:
        if one.headline.readme:
            sets = f", {one.n_sets} sets" if one.n_sets > 1 else ""
            title = f"[{one.headline.readme}][{one.headline.page}]"
            peer = names.get(one.peer, one.peer)
            rows.append((title, _error(one), _ends(one), peer, one.headline.measure + sets))
    table = markdown(("", "error", "interval", "best peer", "measure"), rows, right=False)
    pages = dict.fromkeys(one.headline.page for one in lines if one.headline.readme)
    links = "\n".join(f"[{page}]: docs/results/{page}.md" for page in pages)
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}{table}\n\n{links}\n{END}{rest.split(END)[1]}"


def as_table(lines: Sequence[Line], names: Mapping[str, str]) -> str:
    """The lines as a table in Markdown, methods by their names for readers."""
    rows = []
    for one in lines:
        sets = f", {one.n_sets} sets" if one.n_sets > 1 else ""
        task = f"[{one.headline.task}]({one.headline.page}.md)"
        both = (names.get(method, method) for method in (one.ours, one.peer))
        about = (one.headline.measure + sets, one.source.n_missed, one.source.commits)
        rows.append((task, _error(one), _ends(one), _cell(one.seconds), *both, *about))
    heads = ("task", "error", "interval", "time", "ours", "best peer", "measure", "missed")
    heads = (*heads, "commit")
    return markdown(heads, rows, right=False)


def _error(one: Line) -> str:
    if one.error is None:
        return "-"
    return f"**{_text(one.error)}**" if one.verdict > 0 else _text(one.error)


def _ends(one: Line) -> str:
    return "-" if one.interval is None else "{:.2f} to {:.2f}".format(*one.interval)


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
    size = (9.0, 0.9 + 0.17 * len(lines))
    with picture(path, 1, 2, figsize=size, sharey=True) as axes:
        for axis, (title, ticks) in zip(axes, TICKS.items(), strict=True):
            values = [one.error if title == "error" else one.seconds for one in lines]
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
                xscale="log", title=f"{title}, ours / best peer", xlabel="left of 1: ours better"
            )
            ends = min(shown) / room, max(shown) * room
            axis.set(xlim=ends, xticks=[tick for tick in ticks if ends[0] < tick < ends[1]])
            axis.xaxis.set_major_formatter("{x:g}")
            axis.minorticks_off()
        axes[0].set_yticks(range(len(lines)), [one.headline.task for one in lines])
        axes[0].invert_yaxis()
