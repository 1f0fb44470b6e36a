"""MultiBoost^cw by coordinate descent: figures 1, 2 and 6 of ACCV 2012, with the published code."""

import operator
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.ours import multiboost
from benchmarks.ours.methods import certified_gap
from benchmarks.ours.multiboost import Setting
from benchmarks.papers import PRINTED
from benchmarks.runner import plots, tables
from benchmarks.runner.datasets import Dataset, Table, load
from benchmarks.runner.limits import run_limited
from benchmarks.runner.records import Record, datasets_of, grouped, pick, record
from benchmarks.runner.sources import code_version
from benchmarks.runner.statistics import largest, mean, median, over, status, std
from benchmarks.runner.tables import Column, field
from benchmarks.runner.targets import Target, all_of, each
from benchmarks.runner.units import Finished, Result, Unit

DATASETS = ("vowel", "usps", "pendigits", "mnist", "isolet1")
QUICK_DATASETS = ("vowel",)
C = 1e4
STAGE_WISE = Setting("multiboost_cw1", "fcd", 1, float("inf"))
CORRECTIVE = Setting("multiboost_cw", "fcd", 2, C)
# Compared on one split: sweeps, solver, MultiBoost with its shared weak learners, the AdaBoosts.
COMPARED = (
    Setting("multiboost_cw_tau1", "fcd", 1, C),
    Setting("multiboost_cw_tau5", "fcd", 5, C),
    Setting("multiboost_cw_lbfgs", "lbfgs", 2, C),
    Setting("multiboost", "lbfgs", 2, C, "best"),
    *(Setting(f"adaboost_{ada}", "", 0, float("inf"), ada=ada) for ada in ("ecc", "mh", "mo")),
)
SPLITS = {"vowel": 5}
OTHER_SPLITS = 3
QUICK_ROUNDS = 50
# The paper stops Ada.MO after 1,000 seconds; here MultiBoost may take long too.
LIMIT_SECONDS = 400.0
RACES = {"vowel": 100, "usps": 100, "pendigits": 100}
RACE = "solvers"
ENDS = tuple(f"{solver}_{start}" for start in ("cold", "warm") for solver in ("fcd", "lbfgs"))
# CPU seconds, and accuracies at the rounding.
NOT_COMPARED = frozenset(ENDS)
CURVES = ("errors", "cpu")

ROUNDS = (10, 50, 100, 200, 500)
PUBLISHED = PRINTED["multiboost-cw"]
# Its compiled kernel: nanoseconds per pair and update, two passes over all pairs.
NANOSECONDS_PER_PAIR = (2.0, 2.3)
# vowel, split 0, C = 10,000: the optimum over all stumps is 277.1336 to 277.1714.
OBJECTIVE, BOUND = 277.172, 277.0


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    data = load(name, data_dir, whole=True)
    version = f"{data.content} {code_version([multiboost.__name__])}"
    rounds = QUICK_ROUNDS if quick else multiboost.ROUNDS

    def unit(setting: Setting, split: int) -> Unit:
        params = {"setting": list(setting), "split": split, "rounds": rounds}
        params["limit_seconds"] = LIMIT_SECONDS
        run = partial(_train, data, setting, split, rounds, data_dir)
        return Unit("multiboost-cw", name, setting.name, params, version, run)

    splits = range(1 if quick else SPLITS.get(name, OTHER_SPLITS))
    planned = [unit(setting, split) for setting in (STAGE_WISE, CORRECTIVE) for split in splits]
    planned += [unit(setting, 0) for setting in COMPARED]
    if name in RACES:
        own = {"rounds": QUICK_ROUNDS if quick else RACES[name], "C": C}
        run = partial(_race, data, own["rounds"], data_dir)
        planned.append(Unit("multiboost-cw", name, RACE, own, version, run))
    return planned


def _parts(data: Dataset, split: int, data_dir: Path) -> tuple[Table, Table]:
    """Training and test part: the rows of the published code's runs where there are some."""
    has_rows = data.name in PUBLISHED["errors"][STAGE_WISE.name]
    return multiboost.parts(data, split, data_dir / "splits" / "fcd.npz" if has_rows else None)


def _train(data: Dataset, setting: Setting, split: int, rounds: int, data_dir: Path) -> Result:
    """Errors and seconds at the checkpoints, in a process of its own."""
    arguments = (setting, *_parts(data, split, data_dir), data.n_classes, rounds, LIMIT_SECONDS)
    ending = run_limited(10 * LIMIT_SECONDS, multiboost.train_watched, *arguments)
    if not ending.in_time:
        raise RuntimeError(f"One round took more than {9 * LIMIT_SECONDS:.0f} seconds.")
    return {**ending.result, "C": setting.C}


def _race(data: Dataset, rounds: int, data_dir: Path) -> Result:
    """CPU seconds of both solvers to given accuracies, and of a dense pass."""
    arguments = (_parts(data, 0, data_dir)[0], data.n_classes, rounds, C)
    result = run_limited(10 * LIMIT_SECONDS, multiboost.race, *arguments).result
    return {**result, "value": None, "nanoseconds_per_pair": multiboost.nanoseconds_per_pair()}


def records(name: str, finished: Finished) -> list[Record]:
    by_method = grouped((unit.method, result) for unit, result in finished)
    return [
        record(name, RACE, "cpu_seconds", **results[0])
        if method == RACE
        else record(name, method, "error", **_summary(name, method, results))
        for method, results in by_method.items()
    ]


def _summary(name: str, method: str, results: list[Result]) -> Record:
    """Means over the splits at the checkpoints that all of them reached."""
    # JSON makes the numbers of rounds of kept results strings.
    errors, cpu = ([{str(k): v for k, v in r[key].items()} for r in results] for key in CURVES)
    reached = [c for c in map(str, multiboost.CHECKPOINTS) if all(c in one for one in errors)]
    published = PUBLISHED["errors"].get(method, {}).get(name)
    return {
        **{**over(mean, results, "value"), "std": std(r["value"] for r in results)},
        "paper": published[-1][0] / 100 if published else None,
        **over(median, results, "seconds", "rounds", "learners"),
        "gap": largest(certified_gap(r) for r in results),
        **{"C": results[0]["C"], "repeats": len(results), "status": status(results)},
        **{"errors": over(mean, errors, *reached), "stds": over(std, errors, *reached)},
        "cpu": over(median, cpu, *reached),
        "reference": published,
        "reference_seconds": PUBLISHED["seconds"].get(method, {}).get(name),
        **{key: results[0].get(key) for key in ("primal", "bound", "objective_recomputed")},
        "peak_mb": largest(r["peak_bytes"] / 1e6 for r in results),
    }


def _at(rounds: int) -> Column:
    """Error after so many rounds; in a line of the published code, its error."""

    def cell(r: Record) -> str:
        if "published" in r:
            return dict(zip(ROUNDS, r["published"], strict=False)).get(rounds, "")
        found = {"value": r["errors"].get(str(rounds)), "std": r["stds"].get(str(rounds))}
        return tables.with_std(found, 1, 100)

    return Column(f"{rounds} rounds", cell)


def _own(column: Column) -> Column:
    """A column that is empty in a line of the published code."""
    return Column(column.head, lambda r: "" if "published" in r else column.cell(r))


COLUMNS = [
    Column("", lambda r: r.get("title") or f"{r['dataset']} {r['method']}"),
    *(_at(rounds) for rounds in ROUNDS),
    _own(Column("CPU s", lambda r: tables.number(_our_seconds(r), "{:.2f}"))),
    _own(field("theirs", "reference_seconds", "{:.0f}")),
    _own(Column("ratio", lambda r: tables.number(_speedup(r), "{:.0f}x"))),
    _own(field("MB", "peak_mb", "{:.0f}")),
    _own(field("objective", "primal", "{:.5g}")),
    _own(field("gap", "gap", "{:.2%}")),
]
NOTE = (
    "Test error in %; CPU seconds of training, single-threaded (theirs: an AMD EPYC under Octave), "
    "for the\ncorrective MNIST runs up to round 200; MB: peak resident memory of the process."
)


def _trainings(made: Sequence[Record]) -> list[Record]:
    return [r for r in made if r["method"] != RACE]


def show(made: Sequence[Record]) -> str:
    lines = []
    for r in _trainings(made):
        lines.append(r)
        if r["reference"] and any(str(rounds) in r["errors"] for rounds in ROUNDS):
            theirs = [f"{value:.1f} ±{spread:.1f}" for value, spread in r["reference"]]
            lines.append({"title": "  published code", "published": theirs})
    shown = tables.table(lines, COLUMNS)
    races = _show_races(pick(made, method=RACE))
    return tables.blocks(f"{shown}\n{NOTE}" if lines else "", races)


def _show_races(races: list[Record]) -> str:
    """CPU seconds to each accuracy."""
    if not races:
        return ""
    lines = [{**r, **r[end], "title": f"{r['dataset']} {end}"} for r in races for end in ENDS]
    columns = [
        Column("solver, start", lambda r: r["title"].replace("_", " ")),
        field("columns", "columns"),
        *(field(f"to {a:g}", f"{a:g}", "{:.3f}") for a in multiboost.ACCURACIES),
        field("at the end", "end", "{:.1e}"),
    ]
    pace = min(r["nanoseconds_per_pair"] for r in races)
    low, high = NANOSECONDS_PER_PAIR
    return (
        f"{tables.table(lines, columns)}\n"
        "CPU seconds to a relative accuracy of the objective, on the columns of 100 rounds: from "
        "nothing, and from\nthe round before. A dense pass over all pairs: "
        f"{pace:.1f} ns per pair here ({low} to {high} on theirs)."
    )


def _our_seconds(r: Record) -> float | None:
    """CPU seconds up to the round that the published code's figure is for."""
    if r["method"] == CORRECTIVE.name:
        return r["cpu"].get(str(PUBLISHED["corrective_rounds"].get(r["dataset"])), r["seconds"])
    return r["seconds"]


def _speedup(r: Record) -> float | None:
    ours = _our_seconds(r)
    return None if r["reference_seconds"] is None or not ours else r["reference_seconds"] / ours


def targets(made: Sequence[Record]) -> list[Target]:
    runs = _trainings(made)
    named = [(f"{r['dataset']} {r['method']}", r) for r in runs]
    published = [
        (r["dataset"], _as_published(r))
        for r in pick(runs, method=STAGE_WISE.name)
        if r["reference"]
    ]
    ratios = [(title, _speedup(r)) for title, r in named]
    fast = [(title, ratio >= 10) for title, ratio in ratios if ratio is not None]
    peaks = [
        (title, r["peak_mb"] < 500)
        for title, r in named
        if r["method"].startswith("multiboost_cw") and r["peak_mb"] is not None
    ]
    races = pick(made, method=RACE)
    ends = [(r["dataset"], all(r[end]["end"] <= 1e-6 for end in ENDS)) for r in races]
    both = (CORRECTIVE.name, COMPARED[2].name)
    faster = each(runs, ("usps", "pendigits"), operator.lt, *both, key="seconds")
    n = len(PUBLISHED["errors"][STAGE_WISE.name])
    return [
        all_of("stage-wise errors within the published code's spread", published, n),
        _vowel_objective(pick(runs, dataset="vowel")),
        all_of("a tenth of the published code's CPU seconds", fast),
        all_of("peak memory of MultiBoost^cw below 500 MB", peaks),
        all_of("both solvers end within 1e-6 of the optimum", ends, len(RACES)),
        all_of("500 rounds by FCD in less CPU than by L-BFGS-B", faster, 2),
    ]


def _as_published(r: Record) -> bool:
    """Whether the errors, as printed, are within the spread at all rounds of the published code."""
    ours = [r["errors"].get(str(rounds)) for rounds in ROUNDS]
    pairs = list(zip(ours, r["reference"], strict=False))
    return all(own is not None for own, _ in pairs) and all(
        abs(round(100 * own, 1) - value) <= spread + 1e-9 for own, (value, spread) in pairs
    )


def _vowel_objective(runs: list[Record]) -> Target:
    """The best objective of vowel's first split and the best bound on it."""
    wanted = f"vowel, first split: objective at most {OBJECTIVE}, own bound at least {BOUND}"
    single = [
        (r["primal"], r["primal"] * (1 - r["gap"]))
        for r in runs
        if r["method"].startswith("multiboost_cw")
        and (r["gap"] is not None and (r["C"], r["repeats"]) == (C, 1))
    ]
    if not single:
        return Target(wanted, "-", None)
    primal, bound = min(p for p, _ in single), max(b for _, b in single)
    return Target(wanted, f"{primal:.3f}, {bound:.3f}", primal <= OBJECTIVE and bound >= BOUND)


def plot(made: Sequence[Record], path: Path) -> None:
    """Test error against rounds and against CPU seconds (figures 1 and 2)."""
    names = datasets_of(made)
    with plots.panels(path, (2, len(names)), (3.4 * len(names), 6.5)) as (figure, axes):
        for name, above, below in zip(names, *axes, strict=True):
            for r in pick(_trainings(made), dataset=name):
                percent = [100 * v for v in r["errors"].values()]
                label = r["method"].removeprefix("multiboost_")
                above.plot([int(c) for c in r["errors"]], percent, marker=".", label=label)
                below.plot(r["cpu"].values(), percent, marker=".")
                theirs = [value for value, _ in r["reference"] or ()]
                marker = "x" if r["method"] == STAGE_WISE.name else "+"
                if theirs:
                    label = f"published code, {label}"
                    above.plot(ROUNDS[: len(theirs)], theirs, marker, color="k", label=label)
            above.set_title(name)
            for axis, label in ((above, "rounds"), (below, "CPU seconds")):
                axis.set(xlabel=label, xscale="log", yscale="log")
                plots.plain_ticks(axis)
        for axis in axes[:, 0]:
            axis.set_ylabel("test error (%)")
        plots.shared_legend(figure, axes[0, 0], loc="outside upper center", ncols=6)
