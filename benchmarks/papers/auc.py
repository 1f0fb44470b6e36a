"""AUC on Table 1's sets, each class against the rest: 1-slack, m-slack, RankBoost, LightGBM."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.ours import hinge
from benchmarks.ours.hinge import M_SLACK, ONE_SLACK, SINGLE_COLUMNS
from benchmarks.papers import PRINTED
from benchmarks.peers import full_program
from benchmarks.peers.boosted_trees import LightGBMRanker, LightGBMStumpRanker
from benchmarks.peers.method import Method
from benchmarks.peers.rankboost import RankBoost
from benchmarks.runner import plots, tables
from benchmarks.runner.datasets import Dataset, Split, load, parts
from benchmarks.runner.limits import run_limited
from benchmarks.runner.protocol import AUC, QUICK, Protocol, tuned_unit, version
from benchmarks.runner.records import (
    Record,
    by,
    datasets_of,
    grouped,
    largest,
    mean,
    median,
    record,
    summary,
)
from benchmarks.runner.sources import code_version
from benchmarks.runner.tables import Column, field
from benchmarks.runner.targets import Target, all_of, reach
from benchmarks.runner.units import Finished, Result, Unit

DATASETS = ("wine", "glass", "svmguide2", "svmguide4", "vowel", "dna", "segment", "satimage")
QUICK_DATASETS = ("wine", "glass", "svmguide4")
PEERS = dict.fromkeys(DATASETS, ("lightgbm",))
QUICK_CLASSES = 2

PRINTED_ROWS = PRINTED["auc"]
TABLE_1 = {name: tuple(row[:2]) for name, row in PRINTED_ROWS.items()}
TABLE_1_SECONDS = {name: row[2] for name, row in PRINTED_ROWS.items()}
TABLE_1_M_SLACK = {name: tuple(row[3:]) for name, row in PRINTED_ROWS.items() if len(row) > 3}

OURS = hinge.TIGHT.name
METHODS: tuple[Method, ...] = (
    hinge.TIGHT,
    RankBoost(),
    LightGBMStumpRanker(),
    LightGBMRanker(),
    hinge.TREES,
)
PEER_NAMES = ("rankboost", "lightgbm_stumps", "lightgbm")
# Where boosted trees beat every additive model: whether it is the stumps.
TREE_DATASETS = ("vowel",)
# The slow formulations run on the first repeat, at the C chosen there, for at most 60 times our
# seconds measured beside them: a target is 50 times. On segment three classes are trivial, which
# the others must make up for in the sum.
LIMIT_RATIO = 60.0
LIMIT_RATIOS = {"segment": 150.0}
LIMIT_SECONDS = 600.0
# Name in the records, method, and the C if not the chosen one: the C that an easy class is given
# is no test.
AT_1000 = f"{hinge.PRINTED.name}_at_1000"
SLOW_METHODS = (
    (M_SLACK.name, M_SLACK, None),
    (hinge.PRINTED.name, hinge.PRINTED, None),
    (AT_1000, hinge.PRINTED, 1e3),
)
FULL_PROGRAM = "highs_full_lp"
FULL_PROGRAM_SECONDS = 120.0
FULL_PROGRAM_CLASSES = 3
MANY_PAIRS = 10_000
# Objective and seconds round by round, on two sets where the m-slack formulation gets through many
# rounds.
FIGURE_3 = "figure_3"
FIGURE_3_DATASETS = ("glass", "svmguide4")
FIGURE_3_SECONDS = 300.0
PRINTED_FIGURES = {
    OURS: TABLE_1,
    hinge.PRINTED.name: TABLE_1,
    AT_1000: {},
    M_SLACK.name: TABLE_1_M_SLACK,
}


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    data = load(name, data_dir)
    classes = range(min(data.n_classes, QUICK_CLASSES) if quick else data.n_classes)
    protocol = QUICK if quick else Protocol()
    planned = []
    for method in METHODS:
        if method is hinge.TREES and name not in TREE_DATASETS:
            continue
        for repeat in range(protocol.repeats):
            for c in classes:
                own = {"labels": data.one_against_rest(c), "objective": AUC, "class": c}
                planned.append(tuned_unit("auc", data, method, protocol, repeat, **own))
    tuned = planned[: len(classes)]
    return planned + [
        unit for which in (_slow, _programs, _figure_3) for unit in which(data, tuned)
    ]


def _timed(
    data: Dataset, name: str, tuned: Unit, code: str, run: Callable[..., Result], **params: Any
) -> Unit:
    """A unit beside a tuned one, on the same class and split, and after it."""
    which = {key: tuned.params[key] for key in ("class", "repeat")}
    return Unit("auc", data.name, name, {**which, **params}, code, run, needs=tuned, timed=True)


def _tables(data: Dataset, tuned: Unit) -> Split:
    """Tables of a unit's class against the rest, stratified by all classes."""
    labels = data.one_against_rest(tuned.params["class"])
    return parts(data.X, labels, data.y, tuned.params["repeat"])


def _slow(data: Dataset, tuned: Sequence[Unit]) -> Iterator[Unit]:
    """Slow formulations at a given C, or the one chosen for 1-slack, under a limit."""
    ratio = LIMIT_RATIOS.get(data.name, LIMIT_RATIO)
    limits = {"limit_ratio": ratio, "limit_seconds": LIMIT_SECONDS}
    for name, method, C in SLOW_METHODS:
        for one in tuned:

            def run(chosen: Result, *, one=one, method=method, C=C) -> Result:
                return compare(method, _tables(data, one), C or chosen["C"], ratio)

            yield _timed(data, name, one, version(method, data), run, C=C, **limits)


def _programs(data: Dataset, tuned: Sequence[Unit]) -> Iterator[Unit]:
    """HiGHS on all pairs at once against the m-slack master."""
    code = f"{data.content} {code_version([full_program.__name__])}"
    for one in tuned[:FULL_PROGRAM_CLASSES]:

        def run(chosen: Result, *, one=one) -> Result:
            train = _tables(data, one).train
            return full_program.compare(train, chosen["C"], FULL_PROGRAM_SECONDS)

        if full_program.pairs(_tables(data, one).train.y) <= full_program.MAX_PAIRS:
            limit = {"limit_seconds": FULL_PROGRAM_SECONDS}
            yield _timed(data, FULL_PROGRAM, one, code, run, **limit)


def _figure_3(data: Dataset, tuned: Sequence[Unit]) -> Iterator[Unit]:
    """Both formulations at the C chosen for the first class, one column per round."""
    first = tuned[0]

    def run(chosen: Result) -> Result:
        train, _, test = _tables(data, first)
        found: Result = {"value": None, "C": chosen["C"]}
        for formulation, method in SINGLE_COLUMNS.items():
            arguments = (method, train, test, chosen["C"])
            ending = run_limited(hinge.fit_reporting, arguments, FIGURE_3_SECONDS)
            found[formulation] = ending.with_status
        return found

    if data.name in FIGURE_3_DATASETS:
        code = version(SINGLE_COLUMNS["one_slack"], data)
        yield _timed(data, FIGURE_3, first, code, run, limit_seconds=FIGURE_3_SECONDS)


def compare(method: hinge.Ranking, tables_: Split, C: float, limit_ratio: float) -> Result:
    """Time 1-slack and then, in the same run, another formulation to the same gap at the same C."""
    train, _, test = tables_
    ours = run_limited(hinge.fit_reporting, (ONE_SLACK, train, test, C), LIMIT_SECONDS)
    ours_seconds = ours.result.get("seconds", ours.seconds)
    limit = min(limit_ratio * ours_seconds, LIMIT_SECONDS)
    theirs = run_limited(hinge.fit_reporting, (method, train, test, C), limit)
    seconds = theirs.result.get("seconds", theirs.seconds)
    return {
        **{"value": None, "gap": None, "rounds": 0, **theirs.with_status},
        "C": C,
        "seconds": seconds,
        "seconds_1slack": ours_seconds,
        "ratio": seconds / ours_seconds,
        "pairs": full_program.pairs(train.y),
    }


def records(name: str, finished: Finished) -> list[Record]:
    made = []
    by_method = grouped((unit.method, (unit, result)) for unit, result in finished)
    curves = by_method.pop(FIGURE_3, [])
    for method, own in by_method.items():
        value, std = PRINTED_FIGURES.get(method, {}).get(name, (None, None))
        common = {"note": own[0][0].params.get("note"), "paper": value, "paper_std": std}
        by_class = grouped((unit.params["class"], result) for unit, result in own)
        for positive, results in by_class.items():
            fields = {**summary(results), **_more(results), **common}
            made.append(record(name, method, "auc", **fields) | {"class": positive})
        fields = {**_mean_over(list(by_class.values())), **common}
        made.append(record(name, method, "auc", **fields) | {"class": "mean"})
    for unit, result in curves:
        for formulation in SINGLE_COLUMNS:
            kept = ("by_round", "gap", "rounds", "status")
            fields = {key: result[formulation].get(key) for key in kept}
            fields |= {"C": result["C"], "class": unit.params["class"]}
            made.append(record(name, f"{FIGURE_3}_{formulation}", "objective", None, **fields))
    return made


def _mean_over(by_class: list[list[Result]]) -> dict[str, Any]:
    """Mean over the classes, and its deviation over the repeats; the worst gap; other medians."""
    is_complete = len({len(results) for results in by_class}) == 1
    repeats = zip(*by_class, strict=True) if is_complete else ()
    means = summary([{"value": mean(r["value"] for r in results)} for results in repeats])
    pooled = [result for results in by_class for result in results]
    of_means = {key: means[key] for key in ("value", "std", "repeats")}
    return {**summary(pooled), **_more(pooled), **of_means}


def _more(results: list[Result]) -> dict[str, Any]:
    """The gap at C = 1000, the training AUC, and whom a slow formulation was timed against."""
    fields: dict[str, Any] = {"train_value": mean(r.get("train_value") for r in results)}
    at_largest = [r["gap_at_1000"] for r in results if "gap_at_1000" in r]
    if at_largest:
        fields["gap_at_1000"] = largest(at_largest)
        fields["certified"] = all(r["certified"] for r in results)
    if "ratio" in results[0]:
        timed = ("seconds_1slack", "seconds_master", "pairs")
        fields |= {key: median(r[key] for r in results) for key in timed if key in results[0]}
        ours = sum(r["seconds"] / r["ratio"] for r in results)
        fields["ratio"] = sum(r["seconds"] for r in results) / ours
    return fields


def _slowdown(head: str, method: str) -> Column:
    """How many times slower a formulation is than 1-slack: in all, and over the classes."""

    def cell(row: dict[str, Any]) -> str:
        of_method = row["ratios"].get(method, [])
        ratios = sorted(
            (r["ratio"], r["status"] != "ok") for r in of_method if r["class"] != "mean"
        )
        if not ratios:
            return "-"
        in_all = next(r["ratio"] for r in of_method if r["class"] == "mean")
        ends = ratios[:1] + ratios[1:][-1:]
        shown = [f"{'>' if stopped else ''}{ratio:.1f}" for ratio, stopped in ends]
        return f"{in_all:.1f} ({' .. '.join(shown)})"

    return Column(head, cell)


def _value(head: str, method: str) -> Column:
    return Column(head, lambda row: tables.percent(row["means"].get((method,), {}), 2))


COLUMNS = [
    field("", "name"),
    _value("1-slack, mean", OURS),
    field("best class / paper", "best"),
    _value("RankBoost", "rankboost"),
    _value("LightGBM stumps", "lightgbm_stumps"),
    _value("LightGBM", "lightgbm"),
    _value("1-slack trees", hinge.TREES.name),
    field("fit s", "seconds", "{:.2f}"),
    Column("paper s", lambda row: str(TABLE_1_SECONDS[row["name"]])),
    field("gap", "gap", "{:.2%}"),
    field("gap C=1000", "gap_at_1000", "{:.2%}"),
    _slowdown("m-slack", M_SLACK.name),
    _slowdown("printed", hinge.PRINTED.name),
    _slowdown("printed, C=1000", AT_1000),
    _slowdown("full LP", FULL_PROGRAM),
]
NOTE = (
    "Test AUC in %; worst gaps; m-slack and printed: seconds over 1-slack's in the same run, all "
    "classes together (least .. most,\n>: stopped there); full LP: HiGHS's seconds over the "
    "m-slack master's, same columns."
)


def show(made: Sequence[Record]) -> str:
    rows = []
    for name in datasets_of(made):
        own = [r for r in made if r["dataset"] == name]
        means = by([r for r in own if r.get("class") == "mean"], "method")
        ratios = grouped((r["method"], r) for r in own if "ratio" in r)
        row = {"name": name, "best": best_class(own), "means": means, "ratios": ratios}
        rows.append({**means.get((OURS,), {}), **row})
    return f"{tables.table(rows, COLUMNS)}\n{NOTE}"


def best_class(made: Sequence[Record]) -> str | None:
    """The class of the highest AUC beside Table 1's figure, which names no class."""
    of_class = [r for r in made if r["method"] == OURS and r["class"] != "mean"]
    best = max((r for r in of_class if r["value"] is not None), key=_by_value, default=None)
    return best and f"{best['class']}: {100 * best['value']:.2f} / {100 * best['paper']:.1f}"


def _by_value(r: Record) -> float:
    return r["value"]


def targets(made: Sequence[Record]) -> list[Target]:
    means = by([r for r in made if r["class"] == "mean"], "dataset", "method")
    ours = {s: r for (s, m), r in means.items() if m == OURS and r["value"] is not None}
    own = [r for r in made if r["method"] == OURS and r["value"] is not None]
    best = {s: max(r["value"] for r in own if r["dataset"] == s) for s in ours}
    n = len(DATASETS)

    def small(key: str) -> list[tuple[str, bool]]:
        gaps = {s: r.get(key) for s, r in ours.items()}
        return [(s, gap is not None and gap <= ONE_SLACK.gap) for s, gap in gaps.items()]

    near = [(s, best[s] >= r["paper"] - 0.01) for s, r in ours.items()]
    found = [
        all_of("certified gap of 1 % at the chosen C", small("gap"), n),
        all_of("certified gap of 1 % at C = 1000", small("gap_at_1000"), n),
        all_of("some class within 0.01 of Table 1", near, n),
    ]
    for peer in PEER_NAMES:
        values = {s: means.get((s, peer), {}).get("value") for s in ours}
        beside = [(s, ours[s]["value"] >= v - 0.01) for s, v in values.items() if v is not None]
        found.append(all_of(f"mean AUC at most 0.01 below {peer}'s", beside, n))
    slow = ("segment", "satimage")
    many = [s for (s, m), r in means.items() if m == M_SLACK.name and r["pairs"] > MANY_PAIRS]
    with_program = [s for s, m in means if m == FULL_PROGRAM]
    for wanted, method, least, sets in (
        ("50 times faster than Algorithm 2 as printed", hinge.PRINTED.name, 50.0, slow),
        ("the same at C = 1000", AT_1000, 50.0, slow),
        ("3 times faster than m-slack above 10,000 pairs", M_SLACK.name, 3.0, many),
        ("m-slack master no slower than HiGHS on the full LP", FULL_PROGRAM, 1.0, with_program),
    ):
        ratios = [(s, means[s, method]["ratio"]) for s in sets if (s, method) in means]
        holds = [(s, ratio >= least) for s, ratio in ratios]
        found.append(all_of(wanted, holds, max(1, len(sets))))
    seconds = ours.get("satimage", {}).get("seconds")
    return [*found, reach("a fit of satimage in a minute, seconds", seconds, "<=", 60)]


def plot(made: Sequence[Record], path: Path) -> None:
    """Objective and seconds against rounds (figure 3), where its sets are on the page."""
    curves = [r for r in made if r["method"].startswith(FIGURE_3)]
    if not curves:
        return
    by_key = by(curves, "dataset", "method")
    rows: list[list[plots.Panel]] = [[], []]
    for name in datasets_of(curves):
        above = plots.Panel([], {"title": f"{name}, one class against the rest"}, legend=True)
        below = plots.Panel([], {"xlabel": "rounds of column generation", "yscale": "log"})
        below.settings["xscale"] = "log"
        for formulation, style in zip(SINGLE_COLUMNS, ("-", "--"), strict=True):
            curve = by_key.get((name, f"{FIGURE_3}_{formulation}"), {}).get("by_round")
            label = formulation.replace("one_slack", "1-slack").replace("m_slack", "m-slack")
            line = {"ls": style, "marker": ".", "label": label}
            for panel, values in ((above, "primal"), (below, "seconds")) if curve else ():
                panel.curves.append((curve["rounds"], curve[values], line))
        rows[0].append(above)
        rows[1].append(below)
    for row, label in zip(rows, ("objective", "seconds"), strict=True):
        row[0].settings["ylabel"] = label
    plots.draw(path, rows, (3.4 * len(rows[0]), 5.0), sharex="col")
