"""The command line: ``list``, ``run`` and ``index``."""

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from benchmarks.papers import NAMES
from benchmarks.papers.headlines import INDEX, SPECIAL
from benchmarks.runner.experiment import Runner, Source
from benchmarks.runner.index import as_table, write_index
from benchmarks.runner.pages import datasets_of, plan, records_of, write_results
from benchmarks.runner.provenance import ROOT, this_run

PAGES: dict[str, ModuleType] = {
    name: importlib.import_module(f"benchmarks.papers.{name.replace('-', '_')}") for name in NAMES
}
RESULTS, UNITS = ROOT / "docs/results", Path(".bench") / "units"
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
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


def parser() -> argparse.ArgumentParser:
    """Options of all commands."""
    about = sys.modules["benchmarks"].__doc__
    top = argparse.ArgumentParser(prog="python -m benchmarks", description=about)
    commands = top.add_subparsers(dest="command", required=True)
    one = commands.add_parser("list", help="name the benchmarks and their data sets")
    one.set_defaults(run=_list)
    folder = {"type": Path, "metavar": "DIR"}
    one = commands.add_parser("run", help="run some benchmarks or all, or resume")
    one.set_defaults(run=_run)
    one.add_argument("names", nargs="*", metavar="NAME", help="all by default")
    one.add_argument("--data", **folder, required=True, help="directory with the data sets")
    one.add_argument("--only", nargs="+", metavar="DATASET", help="these data sets only")
    one.add_argument("--results", **folder, default=Path("bench"), help="pages (default: bench)")
    one = commands.add_parser("index", help="make the page of all results from the others")
    one.set_defaults(run=_index)
    one.add_argument("--results", **folder, default=RESULTS, help="where the pages are")
    return top


def _list(options: argparse.Namespace) -> int:
    for name, page in PAGES.items():
        title = (page.__doc__ or "").splitlines()[0]
        print(f"{name}\n  {title}\n  {' '.join(datasets_of(page))}")
    return 0


def _index(options: argparse.Namespace) -> int:
    readme = ROOT / "README.md" if options.results.resolve() == RESULTS else None
    lines = write_index(options.results, INDEX, SPECIAL, NAMES, readme)
    print(as_table(lines, INDEX["names"]))
    return 0 if lines else BAD_INPUT


def _run(options: argparse.Namespace) -> int:
    """Finish the units of some pages or of all, and write the pages."""
    datasets = {}
    for name in options.names or NAMES:
        if name not in PAGES:
            sys.stderr.write(f"{name} is no benchmark; these are: {', '.join(NAMES)}.\n")
            return BAD_INPUT
        datasets[name] = options.only or datasets_of(PAGES[name])
        if (obstacle := _obstacle(name, datasets[name], options.data)) is not None:
            sys.stderr.write(f"{name} {obstacle}\n")
            return BAD_INPUT
    plans = {name: plan(PAGES[name], own, options.data) for name, own in datasets.items()}
    runner = Runner(UNITS, sum(map(len, plans.values())))
    for name, planned in plans.items():
        page, results = PAGES[name], runner.finish(planned)
        made = records_of(page, results)
        print(page.show(made))
        runs = {unit.key: runner.kept(unit)["run"] for unit, _ in results}
        about = {"benchmark": name, "datasets": datasets[name]}
        write_results(options.results, page, about, made, planned, runs)
    if (options.results / "index.md").exists():
        write_index(options.results, INDEX, SPECIAL, NAMES)
    for title in runner.failures:
        sys.stderr.write(f"failed: {title}\n")
    return FAILED if runner.failures else 0


def _obstacle(name: str, names: Sequence[str], data_dir: Path) -> str | None:
    """Say why a page cannot be measured, and what to do, or return None where it can."""
    there = datasets_of(PAGES[name])
    if unknown := sorted(set(names) - set(there)):
        return f"has no {', '.join(unknown)}; it has {', '.join(there)}."
    wanted = {
        package
        for one in PAGES[name].EXPERIMENTS
        for dataset in names
        if dataset in one.data
        for learner in one.learners_of(Source(dataset, data_dir)).values()
        for package in getattr(learner, "packages", ())
    }
    missing = sorted(package for package in wanted if importlib.util.find_spec(package) is None)
    if not missing:
        return None
    remedy = "`make bench` installs all that the benchmarks need"
    return f"needs {', '.join(missing)}, not installed; {remedy}."
