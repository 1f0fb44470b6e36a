"""The command line: ``list``, ``run`` and ``index``."""

import argparse
import sys
from pathlib import Path

import benchmarks
from benchmarks.runner.experiment import Runner
from benchmarks.runner.index import as_table, write_index
from benchmarks.runner.machine import ROOT, this_run
from benchmarks.runner.pages import PAGES, datasets_of, records_of, show, write_results

RESULTS, UNITS = ROOT / "docs/results", Path(".bench") / "units"
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


def main(arguments=None):
    """Run the command line; the exit code is 0 if every unit finished."""
    options = parser().parse_args(arguments)
    this_run()  # before anybody commits something else
    try:
        return options.run(options)
    except FileNotFoundError as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted; the same command goes on with what is left.\n")
        return INTERRUPTED


def parser():
    """Options of all commands."""
    top = argparse.ArgumentParser(prog="python -m benchmarks", description=benchmarks.__doc__)
    commands = top.add_subparsers(required=True)
    one = commands.add_parser("list", help="name the benchmarks and their data sets")
    one.set_defaults(run=_list)
    one = commands.add_parser("run", help="run some benchmarks or all, or resume")
    one.set_defaults(run=_run)
    one.add_argument("names", nargs="*", metavar="NAME", help="all by default")
    one.add_argument("--data", type=Path, required=True, help="directory with the data sets")
    one.add_argument("--only", nargs="+", metavar="DATASET", help="these data sets only")
    one.add_argument("--results", type=Path, default=Path("bench"), help="pages (default: bench)")
    one = commands.add_parser("index", help="make the page of all results from the others")
    one.set_defaults(run=_index)
    one.add_argument("--results", type=Path, default=RESULTS, help="where the pages are")
    return top


def _list(options):
    for name, page in PAGES.items():
        title = page.__doc__.splitlines()[0]
        print(f"{name}\n  {title}\n  {' '.join(datasets_of(page))}")
    return 0


def _index(options):
    is_ours = options.results.resolve() == RESULTS
    lines = write_index(options.results, ROOT / "README.md" if is_ours else None)
    print(as_table(lines))
    return 0 if lines else BAD_INPUT


def _run(options):
    """Finish the units of some pages or of all, and write the pages."""
    plans = {}
    for name in options.names or PAGES:
        there = datasets_of(PAGES[name]) if name in PAGES else []
        if not there or set(options.only or ()) - set(there):
            has = f"{name} has {', '.join(there)}" if there else f"Benchmarks: {', '.join(PAGES)}"
            sys.stderr.write(f"{has}.\n")
            return BAD_INPUT
        plans[name] = [
            unit
            for dataset in options.only or there
            for one in PAGES[name].EXPERIMENTS
            if dataset in one.data
            for unit in one.units(dataset, options.data)
        ]
        for unit in plans[name]:
            unit.key  # noqa: B018 -- a missing file is named before anything is measured
    runner = Runner(UNITS, sum(map(len, plans.values())))
    for name, planned in plans.items():
        results = runner.finish(planned)
        made = records_of(PAGES[name], results)
        print(show(PAGES[name], made))
        runs = {unit.key: runner.kept(unit)["run"] for unit, _ in results}
        about = {"benchmark": name, "datasets": list({u.source.name: 0 for u in planned})}
        write_results(options.results, PAGES[name], about, made, planned, runs)
    if (options.results / "index.md").exists():
        write_index(options.results)
    for title in runner.failures:
        sys.stderr.write(f"failed: {title}\n")
    return FAILED if runner.failures else 0
