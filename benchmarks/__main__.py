"""Command line: ``python -m benchmarks list``, ``python -m benchmarks run NAME --data DIR --json FILE``."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import (
    auc,
    hierarchy,
    mo_ecc,
    multiboost_cw,
    multiclass,
    scale,
    segmentation,
    shareboost,
    speed,
    tracking,
)
from benchmarks.records import write_json, write_text
from benchmarks.units import Runner, Store, share

BENCHMARKS: dict[str, ModuleType] = {
    "auc": auc,
    "multiclass": multiclass,
    "speed": speed,
    "scale": scale,
    "multiboost-cw": multiboost_cw,
    "hierarchy": hierarchy,
    "mo-ecc": mo_ecc,
    "shareboost": shareboost,
    "segmentation": segmentation,
    "tracking": tracking,
}
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0 if every unit finished."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = parser().parse_args(given)
    if options.command == "list":
        for name, benchmark in BENCHMARKS.items():
            print(f"{name}\n  {(benchmark.__doc__ or '').splitlines()[0]}\n  {' '.join(benchmark.DATASETS)}")
        return 0
    if options.jobs > 1 and not options.kept and not run_shares(given, options.jobs):
        return INTERRUPTED
    return run(options)


def parser() -> argparse.ArgumentParser:
    """What the command line takes."""
    top = argparse.ArgumentParser(prog="python -m benchmarks", description=sys.modules["benchmarks"].__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="name the benchmarks and their data sets")
    runs = commands.add_parser("run", help="run a benchmark, or go on with one that was interrupted")
    runs.add_argument("name", choices=BENCHMARKS)
    runs.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="directory with tabular/NAME.npz and tracking/NAME"
    )
    runs.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the records go")
    runs.add_argument("--only", nargs="+", metavar="DATASET", help="these data sets only")
    runs.add_argument("--quick", action="store_true", help="one repeat, two candidates, the small data sets")
    runs.add_argument("--results", type=Path, metavar="DIR", help="write NAME.md and NAME.png there too")
    runs.add_argument("--jobs", type=int, default=1, metavar="N", help="processes; times are those of busy cores")
    runs.add_argument("--share", type=int, nargs=2, metavar=("K", "N"), help="finish every N-th unit from K, no table")
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
    if options.share:
        plan = {name: share(units, *options.share) for name, units in plan.items()}
    store = Store(options.cache or options.json.parent / ".bench")
    runner = Runner(store, sum(map(len, plan.values())), only_kept=options.kept)
    made: list[dict[str, Any]] = []
    try:
        for name, units in plan.items():
            finished = runner.finish(units)
            if not options.share:
                made += benchmark.records(name, finished)
                write_json(options.json, made)
    except KeyboardInterrupt:
        sys.stderr.write(f"\nInterrupted; finished units are in {store.directory}, the same command goes on.\n")
        return INTERRUPTED
    if not options.share:
        _show(options, benchmark, made)
    for title in runner.failures:
        sys.stderr.write(f"failed: {title}\n")
    return 1 if runner.failures else 0


def run_shares(arguments: Sequence[str], n_jobs: int) -> bool:
    """Finish all units of a command in processes; False if they were interrupted."""
    command = [sys.executable, "-m", "benchmarks", *arguments, "--jobs", "1"]
    workers = [subprocess.Popen([*command, "--share", str(k), str(n_jobs)]) for k in range(n_jobs)]
    try:
        return all([worker.wait() != INTERRUPTED for worker in workers])
    except KeyboardInterrupt:
        for worker in workers:
            worker.terminate()
            worker.wait()
        return False


def _show(options: argparse.Namespace, benchmark: ModuleType, made: list[dict[str, Any]]) -> None:
    """Print the table, and write it where that is asked for."""
    shown = benchmark.show(made)
    print(shown)
    if options.results is not None:
        write_results(options, benchmark, made, shown)


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
