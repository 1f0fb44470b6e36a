"""MultiBoost^cw by coordinate descent: figures 1, 2 and 6 of the ACCV 2012 paper, beside the published code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import fcd_reference, table
from benchmarks.datasets import Dataset, load
from benchmarks.imports import imported_sources
from benchmarks.limits import run_limited
from benchmarks.methods import multiboost
from benchmarks.methods.base import Table
from benchmarks.methods.multiboost import Setting
from benchmarks.records import largest, mean, median, record, std
from benchmarks.units import Result, Unit, source_hash

DATASETS = ("vowel", "usps", "pendigits", "mnist", "isolet1")
QUICK_DATASETS = ("vowel",)

C = 1e4
STAGE_WISE = Setting("multiboost_cw1", "fcd", 1, float("inf"))
CORRECTIVE = Setting("multiboost_cw", "fcd", 2, C)
# Compared on one split: sweeps, solver, MultiBoost with its shared weak learners, and the AdaBoosts.
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
TRAIN_SHARE = 0.75


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    """All units of a data set."""
    data = load(name, data_dir, whole=True)
    n_splits = 1 if quick else SPLITS.get(name, OTHER_SPLITS)
    rounds = QUICK_ROUNDS if quick else multiboost.ROUNDS
    planned = [
        _unit(data, setting, split, rounds, data_dir)
        for setting in (STAGE_WISE, CORRECTIVE)
        for split in range(n_splits)
    ]
    planned += [_unit(data, setting, 0, rounds, data_dir) for setting in COMPARED]
    if name in RACES:
        planned.append(_race_unit(data, QUICK_ROUNDS if quick else RACES[name], data_dir))
    return planned


def _unit(data: Dataset, setting: Setting, split: int, rounds: int, data_dir: Path) -> Unit:
    """One setting on one split."""
    return Unit(
        *("multiboost-cw", data.name, setting.name),
        {"setting": list(setting), "split": split, "rounds": rounds, "limit_seconds": LIMIT_SECONDS},
        _version(data),
        lambda: _train(data, setting, split, rounds, data_dir),
    )


def _race_unit(data: Dataset, rounds: int, data_dir: Path) -> Unit:
    """Both solvers on the columns of one run."""
    return Unit(
        *("multiboost-cw", data.name, RACE),
        {"rounds": rounds, "C": C},
        _version(data),
        lambda: _race(data, rounds, data_dir),
    )


def _version(data: Dataset) -> str:
    code = [Path(__file__), Path(multiboost.__file__)]
    code += imported_sources("structboost.boosting", "structboost.tasks.multiclass")
    return f"{data.content} {source_hash(code)}"


def tables(data: Dataset, split: int, data_dir: Path) -> tuple[Table, Table]:
    """Training and test part: the rows of the published code's runs, 75 % at random for other sets.

    Features are quantised over all rows, as there; MNIST is 8 bit as it is.
    """
    X = data.X.astype(np.uint8) if data.name == "mnist" else multiboost.quantised(data.X)
    if data.name in fcd_reference.STAGE_WISE_ERRORS:
        key = "mnist1000" if data.name == "mnist" else data.name
        with np.load(Path(data_dir) / "splits" / "fcd.npz") as file:
            train, test = (
                file[f"{key}_train"][split],
                np.atleast_2d(file[f"{key}_test"])[-1 if data.name == "mnist" else split],
            )
    else:
        rows = np.random.default_rng(split).permutation(len(X))
        n_train = round(TRAIN_SHARE * len(X))
        train, test = np.sort(rows[:n_train]), np.sort(rows[n_train:])
    return Table(X[train], data.y[train]), Table(X[test], data.y[test])


def _train(data: Dataset, setting: Setting, split: int, rounds: int, data_dir: Path) -> Result:
    """Errors and seconds at the checkpoints, in a process of its own."""
    arguments = (setting, *tables(data, split, data_dir), data.n_classes, rounds)
    ending = run_limited(multiboost.train_watched, arguments, LIMIT_SECONDS)
    result = ending.result
    result.setdefault("value", list(result["errors"].values())[-1])
    return {**result, "C": setting.C, "status": "ok" if ending.in_time else "time_limit"}


def _race(data: Dataset, rounds: int, data_dir: Path) -> Result:
    """CPU seconds to given accuracies, and of a dense pass."""
    train, _ = tables(data, 0, data_dir)
    result = run_limited(multiboost.race, (train, data.n_classes, rounds, C), 10 * LIMIT_SECONDS).result
    return {**result, "value": None, "nanoseconds_per_pair": multiboost.nanoseconds_per_pair()}


def records(name: str, finished: Sequence[tuple[Unit, Result]]) -> list[dict[str, Any]]:
    """One record a setting, with the curve over rounds; one of the solvers."""
    by_setting: dict[str, list[Result]] = {}
    for unit, result in finished:
        by_setting.setdefault(unit.method, []).append(result)
    return [
        record(name, RACE, "cpu_seconds", None, **{k: v for k, v in results[0].items() if k != "value"})
        if setting == RACE
        else _record(name, setting, results)
        for setting, results in by_setting.items()
    ]


def _record(name: str, setting: str, results: list[Result]) -> dict[str, Any]:
    """Means over the splits at the checkpoints that all of them reached."""
    reached = [c for c in map(str, multiboost.CHECKPOINTS) if all(c in _keys(r["errors"]) for r in results)]
    errors = {c: [_at(r["errors"], c) for r in results] for c in reached}
    reference = _reference(name, setting)
    return record(
        name,
        setting,
        "error",
        mean(r["value"] for r in results),
        std=std(r["value"] for r in results),
        paper=reference[-1][0] / 100 if reference else None,
        seconds=median(r["seconds"] for r in results),
        gap=largest(r["gap"] for r in results),
        rounds=median(r["rounds"] for r in results),
        C=results[0]["C"],
        repeats=len(results),
        status="ok" if all(r["status"] == "ok" for r in results) else "time_limit",
        errors={c: mean(values) for c, values in errors.items()},
        stds={c: std(values) for c, values in errors.items()},
        cpu={c: median(_at(r["cpu"], c) for r in results) for c in reached},
        reference=reference,
        reference_seconds=_reference_seconds(name, setting),
        primal=results[0].get("primal"),
        bound=results[0].get("bound"),
        objective_recomputed=results[0].get("objective_recomputed"),
        learners=median(r.get("learners") for r in results),
        peak_mb=largest(None if r.get("peak_bytes") is None else r["peak_bytes"] / 1e6 for r in results),
    )


def _keys(by_round: dict[Any, Any]) -> set[str]:
    return set(map(str, by_round))


def _at(by_round: dict[Any, Any], checkpoint: str) -> Any:
    """Value at a checkpoint, whose number JSON makes a string."""
    return {str(k): v for k, v in by_round.items()}[checkpoint]


def _reference(name: str, setting: str) -> Any:
    errors = {STAGE_WISE.name: fcd_reference.STAGE_WISE_ERRORS, CORRECTIVE.name: fcd_reference.CORRECTIVE_ERRORS}
    return errors.get(setting, {}).get(name)


def _reference_seconds(name: str, setting: str) -> float | None:
    seconds = {STAGE_WISE.name: fcd_reference.STAGE_WISE_SECONDS, CORRECTIVE.name: fcd_reference.CORRECTIVE_SECONDS}
    return seconds.get(setting, {}).get(name)


def show(made: Sequence[dict[str, Any]]) -> str:
    """Errors over rounds with the published code's below ours; seconds; the solvers."""
    rows = []
    for r in made:
        if r["method"] == RACE:
            continue
        shown = [c for c in map(str, fcd_reference.ROUNDS) if c in r["errors"]]
        rows.append(
            [
                f"{r['dataset']} {r['method']}",
                *(_error(r["errors"].get(str(c)), r["stds"].get(str(c))) for c in fcd_reference.ROUNDS),
                table.number(_our_seconds(r), "{:.2f}"),
                table.number(r["reference_seconds"], "{:.0f}"),
                table.number(_speedup(r), "{:.0f}x"),
                table.number(r["peak_mb"], "{:.0f}"),
                table.number(r["primal"], "{:.5g}"),
                table.share(r["gap"]),
            ]
        )
        if r["reference"] and shown:
            theirs = [f"{m:.1f} ±{s:.1f}" for m, s in r["reference"]]
            rows.append(["  published code", *theirs, *[""] * (len(fcd_reference.ROUNDS) - len(theirs)), *[""] * 6])
    head = ["", *(f"{c} rounds" for c in fcd_reference.ROUNDS), "CPU s", "theirs", "ratio", "MB", "objective", "gap"]
    note = (
        "Test error in %; CPU seconds of training, single-threaded (theirs: an AMD EPYC under Octave), for the "
        "corrective MNIST runs up to round 200; MB: peak resident memory of the process."
    )
    blocks = [f"{table.aligned(head, rows)}\n{note}"] if rows else []
    races = [r for r in made if r["method"] == RACE]
    return "\n\n".join([*blocks, *([_show_races(races)] if races else [])])


def _our_seconds(r: dict[str, Any]) -> float | None:
    """CPU seconds up to the round that the published code's figure is for."""
    if r["method"] == CORRECTIVE.name:
        return r["cpu"].get(str(fcd_reference.CORRECTIVE_ROUNDS.get(r["dataset"])), r["seconds"])
    return r["seconds"]


def _speedup(r: dict[str, Any]) -> float | None:
    ours = _our_seconds(r)
    return None if r["reference_seconds"] is None or not ours else r["reference_seconds"] / ours


def _error(value: float | None, spread: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.1f}" if spread is None else f"{100 * value:.1f} ±{100 * spread:.1f}"


def _show_races(races: list[dict[str, Any]]) -> str:
    """CPU seconds to each accuracy."""
    rows = []
    for r in races:
        for start in ("cold", "warm"):
            for solver in ("fcd", "lbfgs"):
                found = r[f"{solver}_{start}"]
                seconds = [table.number(found[f"{a:g}"], "{:.3f}") for a in multiboost.ACCURACIES]
                rows.append([f"{r['dataset']} {solver} {start}", str(r["columns"]), *seconds, f"{found['end']:.1e}"])
    head = ["solver, start", "columns", *(f"to {a:g}" for a in multiboost.ACCURACIES), "at the end"]
    paces = [r["nanoseconds_per_pair"] for r in races]
    low, high = fcd_reference.NANOSECONDS_PER_PAIR
    note = (
        "CPU seconds to a relative accuracy of the objective, on the columns of 100 rounds: from nothing, and from the "
        f"round before.\nA dense pass over all pairs: {min(paces):.1f} ns a pair here ({low} to {high} on theirs)."
    )
    return f"{table.aligned(head, rows)}\n{note}"


def plot(made: Sequence[dict[str, Any]], path: Path) -> None:
    """Test error against rounds and against CPU seconds (figures 1 and 2)."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import ScalarFormatter

    names = list(dict.fromkeys(r["dataset"] for r in made))
    figure, axes = plt.subplots(2, len(names), figsize=(3.4 * len(names), 6.0), layout="constrained", squeeze=False)
    for column, name in zip(axes.T, names, strict=True):
        for r in made:
            if r["dataset"] != name or r["method"] == RACE:
                continue
            rounds = [int(c) for c in r["errors"]]
            percent = [100 * v for v in r["errors"].values()]
            label = r["method"].removeprefix("multiboost_")
            column[0].plot(rounds, percent, marker=".", label=label)
            column[1].plot(list(r["cpu"].values()), percent, marker=".", label=label)
            if r["reference"]:
                theirs = [m for m, _ in r["reference"]]
                column[0].plot(
                    fcd_reference.ROUNDS[: len(theirs)], theirs, "kx" if r["method"] == STAGE_WISE.name else "k+",
                    label=f"published code, {label}",
                )  # fmt: skip
        column[0].set_title(name)
        column[0].set_xlabel("rounds")
        column[1].set_xlabel("CPU seconds")
        for axis in column:
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.grid(alpha=0.25, which="both")
            axis.yaxis.set_major_formatter(ScalarFormatter())
            axis.yaxis.set_minor_formatter(ScalarFormatter())
    axes[0, 0].set_ylabel("test error (%)")
    axes[1, 0].set_ylabel("test error (%)")
    axes[0, 0].legend(frameon=False, fontsize=7)
    figure.savefig(path, dpi=110)
    plt.close(figure)
