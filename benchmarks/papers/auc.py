"""AUC on Table 1's sets, each class against the rest: 1-slack, m-slack, RankBoost, LightGBM."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.ours import methods
from benchmarks.ours.methods import (
    M_SLACK,
    ONE_SLACK,
    SINGLE_COLUMNS,
    TIGHT,
    TREES,
    fit_reporting,
)
from benchmarks.papers import PRINTED
from benchmarks.peers import full_program
from benchmarks.peers.classifiers import LightGBMRanker, LightGBMStumpRanker
from benchmarks.peers.rankboost import RankBoost
from benchmarks.runner import plots
from benchmarks.runner.datasets import Dataset, Split, load, parts
from benchmarks.runner.limits import limited, run_limited
from benchmarks.runner.protocol import AUC, QUICK, Method, Protocol, tuned_unit, version
from benchmarks.runner.records import Record, by, datasets_of, grouped, pick, record, side_by_side
from benchmarks.runner.sources import code_version
from benchmarks.runner.statistics import largest, mean, median, over, summary
from benchmarks.runner.tables import Column, field, of, table, value
from benchmarks.runner.targets import Target, all_of, each, reach
from benchmarks.runner.units import Finished, Result, Unit

DATASETS = ("wine", "glass", "svmguide2", "svmguide4", "vowel", "dna", "segment", "satimage")
QUICK_DATASETS = ("wine", "glass", "svmguide4")
PEERS = dict.fromkeys(DATASETS, ("lightgbm",))
QUICK_CLASSES = 2

OURS = TIGHT.name
PEER_METHODS = (RankBoost(), LightGBMStumpRanker(), LightGBMRanker())
PEER_NAMES = tuple(method.name for method in PEER_METHODS)
METHODS: tuple[Method, ...] = (TIGHT, *PEER_METHODS, TREES)
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
AT_1000 = f"{methods.PRINTED.name}_at_1000"
SLOW_METHODS = (
    (M_SLACK.name, M_SLACK, None),
    (methods.PRINTED.name, methods.PRINTED, None),
    (AT_1000, methods.PRINTED, 1e3),
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
# Table 1: AUC and its deviation, seconds, and both of the m-slack formulation where it has them.
TABLE_1 = PRINTED["auc"]
FIRST_PRINTED = {OURS: 0, methods.PRINTED.name: 0, M_SLACK.name: 3}


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    data = load(name, data_dir)
    classes = range(min(data.n_classes, QUICK_CLASSES) if quick else data.n_classes)
    protocol = QUICK if quick else Protocol()
    planned = [
        tuned_unit(
            *("auc", data, method, protocol, repeat),
            **{"labels": data.one_against_rest(c), "objective": AUC, "class": c},
        )
        for method in METHODS
        if method is not TREES or name in TREE_DATASETS
        for repeat in range(protocol.repeats)
        for c in classes
    ]
    return planned + list(_timed_units(data, planned[: len(classes)]))


def _timed_units(data: Dataset, tuned: Sequence[Unit]) -> Iterator[Unit]:
    """Beside each tuned unit of the first repeat, after it and at its C, on its class and split."""

    def tables(one: Unit) -> Split:
        return parts(data.X, data.one_against_rest(one.params["class"]), data.y, 0)

    def unit(one: Unit, name: str, code: str, run: Callable[..., Result], **params: Any) -> Unit:
        def run_at(chosen: Result) -> Result:
            return run(tables(one), params.get("C") or chosen["C"])

        which = {key: one.params[key] for key in ("class", "repeat")}
        return Unit("auc", data.name, name, {**which, **params}, code, run_at, one, timed=True)

    ratio = LIMIT_RATIOS.get(data.name, LIMIT_RATIO)
    limits = {"limit_ratio": ratio, "limit_seconds": LIMIT_SECONDS}
    for name, method, C in SLOW_METHODS:
        run = partial(compare, method, ratio)
        for one in tuned:
            yield unit(one, name, version(method, data), run, C=C, **limits)
    code = f"{data.content} {code_version([full_program.__name__])}"
    run = partial(full_program.compare, FULL_PROGRAM_SECONDS)
    for one in tuned[:FULL_PROGRAM_CLASSES]:
        if full_program.pairs(tables(one).train.y) <= full_program.MAX_PAIRS:
            yield unit(one, FULL_PROGRAM, code, run, limit_seconds=FULL_PROGRAM_SECONDS)
    if data.name in FIGURE_3_DATASETS:
        code = version(SINGLE_COLUMNS["one_slack"], data)
        yield unit(tuned[0], FIGURE_3, code, _both_curves, limit_seconds=FIGURE_3_SECONDS)


def _both_curves(tables: Split, C: float) -> Result:
    """Both formulations on one class, one column per round."""
    rest = (tables.train, tables.test, C)
    return {"value": None, "C": C} | {
        formulation: limited(FIGURE_3_SECONDS, fit_reporting, method, *rest)
        for formulation, method in SINGLE_COLUMNS.items()
    }


def compare(method: methods.Ranking, limit_ratio: float, tables: Split, C: float) -> Result:
    """Time 1-slack and then, in the same run, another formulation to the same gap at the same C."""
    arguments = (tables.train, tables.test, C)
    ours = run_limited(LIMIT_SECONDS, fit_reporting, ONE_SLACK, *arguments)
    ours_seconds = ours.result.get("seconds", ours.seconds)
    limit = min(limit_ratio * ours_seconds, LIMIT_SECONDS)
    theirs = run_limited(limit, fit_reporting, method, *arguments)
    seconds = theirs.result.get("seconds", theirs.seconds)
    return {
        **{"value": None, "gap": None, "rounds": 0, **theirs.with_status},
        **{"C": C, "seconds": seconds, "seconds_1slack": ours_seconds},
        "ratio": seconds / ours_seconds,
        "pairs": full_program.pairs(tables.train.y),
    }


def records(name: str, finished: Finished) -> list[Record]:
    made = []
    by_method = grouped((unit.method, (unit, result)) for unit, result in finished)
    curves = by_method.pop(FIGURE_3, [])
    for method, own in by_method.items():
        first = FIRST_PRINTED.get(method, len(TABLE_1[name]))
        paper, std = TABLE_1[name][first : first + 2] or (None, None)
        common = {"note": own[0][0].params.get("note"), "paper": paper, "paper_std": std}
        by_class = grouped((unit.params["class"], result) for unit, result in own)
        for positive, results in by_class.items():
            fields = {**summary(results), **_more(results), **common, "class": positive}
            made.append(record(name, method, "auc", **fields))
        fields = {**_mean_over(list(by_class.values())), **common, "class": "mean"}
        made.append(record(name, method, "auc", **fields))
    shown = ("by_round", "gap", "rounds", "status")
    for unit, result in curves:
        for formulation in SINGLE_COLUMNS:
            fields = {**{k: result[formulation].get(k) for k in shown}, "C": result["C"]}
            fields["class"] = unit.params["class"]
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
    fields = over(mean, results, "train_value")
    at_largest = [r for r in results if "gap_at_1000" in r]
    if at_largest:
        fields |= over(largest, at_largest, "gap_at_1000")
        fields["certified"] = all(r["certified"] for r in results)
    if "ratio" in results[0]:
        timed = [k for k in ("seconds_1slack", "seconds_master", "pairs") if k in results[0]]
        fields |= over(median, results, *timed)
        ours = sum(r["seconds"] / r["ratio"] for r in results)
        fields["ratio"] = sum(r["seconds"] for r in results) / ours
    return fields


def _slowdown(head: str, method: str) -> Column:
    """How many times slower a formulation is than 1-slack: in all, and over the classes."""

    def cell(row: Record) -> str:
        own = [r for r in row["of"].values() if r["method"] == method and "ratio" in r]
        ratios = sorted((r["ratio"], r["status"] != "ok") for r in own if r["class"] != "mean")
        if not ratios:
            return "-"
        ends = ratios[:1] + ratios[1:][-1:]
        shown = [f"{'>' if stopped else ''}{ratio:.1f}" for ratio, stopped in ends]
        return f"{row['of'][method, 'mean']['ratio']:.1f} ({' .. '.join(shown)})"

    return Column(head, cell)


def _mean(method: str, column: Column) -> Column:
    return of((method, "mean"), column)


COLUMNS = [
    field("", "dataset"),
    _mean(OURS, value("1-slack, mean", 2, 100)),
    Column("best class / paper", lambda row: best_class(list(row["of"].values())) or "-"),
    _mean("rankboost", value("RankBoost", 2, 100)),
    _mean("lightgbm_stumps", value("LightGBM stumps", 2, 100)),
    _mean("lightgbm", value("LightGBM", 2, 100)),
    _mean(TREES.name, value("1-slack trees", 2, 100)),
    _mean(OURS, field("fit s", "seconds", "{:.2f}")),
    Column("paper s", lambda row: str(TABLE_1[row["dataset"]][2])),
    _mean(OURS, field("gap", "gap", "{:.2%}")),
    _mean(OURS, field("gap C=1000", "gap_at_1000", "{:.2%}")),
    _slowdown("m-slack", M_SLACK.name),
    _slowdown("printed", methods.PRINTED.name),
    _slowdown("printed, C=1000", AT_1000),
    _slowdown("full LP", FULL_PROGRAM),
]
NOTE = (
    "Test AUC in %; worst gaps; m-slack and printed: seconds over 1-slack's in the same run, all "
    "classes together (least .. most,\n>: stopped there); full LP: HiGHS's seconds over the "
    "m-slack master's, same columns."
)


def show(made: Sequence[Record]) -> str:
    rows = side_by_side(made, ["dataset"], "method", "class")
    return f"{table(rows, COLUMNS)}\n{NOTE}"


def best_class(made: Sequence[Record]) -> str | None:
    """The class of the highest AUC beside Table 1's figure, which names no class."""
    of_class = [r for r in pick(made, method=OURS) if r["class"] != "mean"]
    known = [r for r in of_class if r["value"] is not None]
    best = max(known, key=lambda r: r["value"], default=None)
    return best and f"{best['class']}: {100 * best['value']:.2f} / {100 * best['paper']:.1f}"


def targets(made: Sequence[Record]) -> list[Target]:
    of_means = pick(made, **{"class": "mean"})
    own = [r for r in pick(made, method=OURS) if r["value"] is not None]
    ours = by(pick(own, **{"class": "mean"}), "dataset")
    n = len(DATASETS)

    def small(key: str) -> list[tuple[str, bool]]:
        gaps = [(s, r.get(key)) for s, r in ours.items()]
        return [(s, gap is not None and gap <= ONE_SLACK.gap) for s, gap in gaps]

    best = {s: max(r["value"] for r in pick(own, dataset=s)) for s in ours}
    near = [(s, best[s] >= r["paper"] - 0.01) for s, r in ours.items()]
    found = [
        all_of("certified gap of 1 % at the chosen C", small("gap"), n),
        all_of("certified gap of 1 % at C = 1000", small("gap_at_1000"), n),
        all_of("some class within 0.01 of Table 1", near, n),
    ]
    for peer in PEER_NAMES:
        beside = each(of_means, ours, lambda own, other: own >= other - 0.01, OURS, peer)
        found.append(all_of(f"mean AUC at most 0.01 below {peer}'s", beside, n))
    slow = ("segment", "satimage")
    many = [r["dataset"] for r in pick(of_means, method=M_SLACK.name) if r["pairs"] > MANY_PAIRS]
    with_program = datasets_of(pick(of_means, method=FULL_PROGRAM))
    for wanted, method, least, sets in (
        ("50 times faster than Algorithm 2 as printed", methods.PRINTED.name, 50.0, slow),
        ("the same at C = 1000", AT_1000, 50.0, slow),
        ("3 times faster than m-slack above 10,000 pairs", M_SLACK.name, 3.0, many),
        ("m-slack master no slower than HiGHS on the full LP", FULL_PROGRAM, 1.0, with_program),
    ):
        holds = each(of_means, sets, lambda ratio, n=least: ratio >= n, method, key="ratio")
        found.append(all_of(wanted, holds, len(sets)))
    seconds = ours.get("satimage", {}).get("seconds")
    return [*found, reach("a fit of satimage in a minute, seconds", seconds, "<=", 60)]


def plot(made: Sequence[Record], path: Path) -> None:
    """Objective and seconds against rounds (figure 3), where its sets are on the page."""
    curves = [r for r in made if r["method"].startswith(FIGURE_3)]
    names = datasets_of(curves)
    if not names:
        return
    size = (3.4 * len(names), 5.0)
    with plots.panels(path, (2, len(names)), size, sharex="col") as (_, axes):
        for name, above, below in zip(names, *axes, strict=True):
            above.set(title=f"{name}, one against the rest")
            below.set(xlabel="rounds of column generation", xscale="log", yscale="log")
            for formulation, style in zip(SINGLE_COLUMNS, ("-", "--"), strict=True):
                for r in pick(curves, dataset=name, method=f"{FIGURE_3}_{formulation}"):
                    label = formulation.replace("one_", "1-").replace("m_", "m-")
                    for axis, values in ((above, "primal"), (below, "seconds")):
                        curve = r["by_round"] or {"rounds": [], values: []}
                        axis.plot(curve["rounds"], curve[values], style, marker=".", label=label)
            above.legend()
        for axis, label in zip(axes[:, 0], ("objective", "seconds"), strict=True):
            axis.set_ylabel(label)
