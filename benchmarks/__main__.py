"""Command line: ``python -m benchmarks list``, ``python -m benchmarks run NAME --data DIR --json FILE``."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import auc, hierarchy, mo_ecc, multiboost_cw, multiclass, segmentation, shareboost, speed
from benchmarks.records import write_json, write_text
from benchmarks.units import Runner, Store

BENCHMARKS: dict[str, ModuleType] = {
    "auc": auc,
    "multiclass": multiclass,
    "speed": speed,
    "multiboost-cw": multiboost_cw,
    "hierarchy": hierarchy,
    "mo-ecc": mo_ecc,
    "shareboost": shareboost,
    "segmentation": segmentation,
}
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0 if every unit finished."""
    options = parser().parse_args(arguments)
    if options.command == "list":
        for name, benchmark in BENCHMARKS.items():
            print(f"{name}\n  {(benchmark.__doc__ or '').splitlines()[0]}\n  {' '.join(benchmark.DATASETS)}")
        return 0
    return run(options)


def parser() -> argparse.ArgumentParser:
    """What the command line takes."""
    top = argparse.ArgumentParser(prog="python -m benchmarks", description=sys.modules["benchmarks"].__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="name the benchmarks and their data sets")
    runs = commands.add_parser("run", help="run a benchmark, or go on with one that was interrupted")
    runs.add_argument("name", choices=BENCHMARKS)
    runs.add_argument("--data", type=Path, required=True, metavar="DIR", help="directory with tabular/NAME.npz")
    runs.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the records go")
    runs.add_argument("--only", nargs="+", metavar="DATASET", help="these data sets only")
    runs.add_argument("--quick", action="store_true", help="one repeat, two candidates, the small data sets")
    runs.add_argument("--results", type=Path, metavar="DIR", help="write NAME.md and NAME.png there too")
    runs.add_argument("--kept", action="store_true", help="run nothing, show what finished units say")
    runs.add_argument("--cache", type=Path, metavar="DIR", help="finished units (default: .bench beside FILE)")
    return top


def run(options: argparse.Namespace) -> int:
    """Finish all units, data set by data set, and print the table."""
    benchmark = BENCHMARKS[options.name]
    names = options.only or (benchmark.QUICK_DATASETS if options.quick else benchmark.DATASETS)
    unknown = sorted(set(names) - set(benchmark.DATASETS))
    if unknown:
        sys.stderr.write(f"{options.name} has no {', '.join(unknown)}; it has {', '.join(benchmark.DATASETS)}.\n")
        return 2
    plan = {name: benchmark.units(name, options.data, quick=options.quick) for name in names}
    store = Store(options.cache or options.json.parent / ".bench")
    runner = Runner(store, sum(map(len, plan.values())), only_kept=options.kept)
    made: list[dict[str, Any]] = []
    try:
        for name, units in plan.items():
            made += benchmark.records(name, runner.finish(units))
            write_json(options.json, made)
    except KeyboardInterrupt:
        sys.stderr.write(f"\nInterrupted; finished units are in {store.directory}, the same command goes on.\n")
        return INTERRUPTED
    shown = benchmark.show(made)
    print(shown)
    if options.results is not None:
        write_results(options, benchmark, made, shown)
    for title in runner.failures:
        sys.stderr.write(f"failed: {title}\n")
    return 1 if runner.failures else 0


def write_results(options: argparse.Namespace, benchmark: ModuleType, made: list[dict[str, Any]], shown: str) -> None:
    """The table as a page, and the plot if the benchmark has one."""
    options.results.mkdir(parents=True, exist_ok=True)
    text = f"# {options.name}\n\n{(benchmark.__doc__ or '').strip()}\n\n```\n{shown}\n```\n"
    if hasattr(benchmark, "plot"):
        benchmark.plot(made, options.results / f"{options.name}.png")
        text += f"\n![{options.name}]({options.name}.png)\n"
    write_text(options.results / f"{options.name}.md", text)


if __name__ == "__main__":
    # Also where the shell has them ignored or fatal: an interrupted run ends its measured process and says so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
