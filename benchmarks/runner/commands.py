"""The command line: ``list``, ``run``, ``all`` and ``index``."""

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
from benchmarks.runner.pages import PageError, datasets_of, plan, records_of, write_results
from benchmarks.runner.provenance import ROOT, this_run
from benchmarks.runner.records import write_json

PAGES: dict[str, ModuleType] = {
    name: importlib.import_module(f"benchmarks.papers.{name.replace('-', '_')}") for name in NAMES
}
RESULTS = ROOT / "docs/results"
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0 if every unit finished."""
    options = parser().parse_args(arguments)
    this_run()  # before anybody commits something else
    try:
        return options.run(options)
    except (PageError, FileNotFoundError) as error:
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
    words = {
        "list": ("name the benchmarks and their data sets", _list),
        "run": ("run a benchmark, or resume an interrupted run", _run),
        "all": ("run every benchmark, or resume", _run),
        "index": ("make the page of all results from the others", _index),
    }
    parsers = {name: commands.add_parser(name, help=text) for name, (text, _) in words.items()}
    for name, (_, function) in words.items():
        parsers[name].set_defaults(run=function)

    def add(names: str, option: str, **settings: object) -> None:
        for name in names.split():
            parsers[name].add_argument(option, **settings)

    folder = {"type": Path, "metavar": "DIR"}
    add("run", "name", choices=NAMES)
    add("run all", "--data", **folder, required=True, help="directory with the data sets")
    add("run", "--json", type=Path, metavar="FILE", required=True, help="records")
    add("all", "--json", **folder, default=Path("bench"), help="records (default: bench)")
    add("run", "--only", nargs="+", metavar="DATASET", help="these data sets only")
    quick = "one repeat, two candidates, the small data sets"
    add("run all", "--quick", action="store_true", help=quick)
    add("run all", "--results", **folder, help="write NAME.md there too")
    add("index", "--results", **folder, default=RESULTS, help="where the pages are")
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


def _renew_index(folder: Path) -> None:
    if (folder / "index.md").exists():
        write_index(folder, INDEX, SPECIAL, NAMES)


def _run(options: argparse.Namespace) -> int:
    """Finish the units of one page or of all, and write the pages."""
    files = {name: options.json / f"{name}.json" for name in NAMES}
    folder, only = options.json, None
    if options.command == "run":
        files, only = {options.name: options.json}, options.only
        folder = options.json.parent
    datasets = {name: only or _usual(PAGES[name], options.quick) for name in files}
    can_run = [_can_run(name, datasets[name], options.data) for name in files]
    if not all(can_run):
        return BAD_INPUT
    plans = {name: plan(PAGES[name], datasets[name], options.data, options.quick) for name in files}
    units = list({unit.key: unit for planned in plans.values() for unit in planned}.values())
    runner = Runner(folder / ".bench", len(units))
    for name, planned in plans.items():
        page, results = PAGES[name], []
        for dataset in datasets[name]:
            results += runner.finish(unit for unit in planned if unit.dataset == dataset)
            write_json(files[name], records_of(page, results))
        made = records_of(page, results)
        print(page.show(made))
        if options.results is not None:
            runs = {unit.key: runner.kept(unit).get("run") for unit, _ in results}
            about = {"benchmark": name, "datasets": datasets[name], "quick": options.quick}
            write_results(options.results, page, about, made, planned, results, runs)
    if options.results is not None:
        _renew_index(options.results)
    for title in runner.failures:
        sys.stderr.write(f"failed: {title}\n")
    return FAILED if runner.failures else 0


def _usual(page: ModuleType, quick: bool) -> list[str]:
    """Data sets of a page, or those of a quick run."""
    if not quick:
        return datasets_of(page)
    return list(dict.fromkeys(name for one in page.EXPERIMENTS for name in one.small))


def _can_run(name: str, names: Sequence[str], data_dir: Path) -> bool:
    """Whether all data sets are known and all packages installed; else says what to do."""
    page = PAGES[name]
    there = datasets_of(page)
    unknown = sorted(set(names) - set(there))
    if unknown:
        sys.stderr.write(f"{name} has no {', '.join(unknown)}; it has {', '.join(there)}.\n")
        return False
    wanted: set[str] = set()
    for one in page.EXPERIMENTS:
        for source in (Source(own, data_dir) for own in names if own in one.data):
            for learner in one.learners_of(source).values():
                wanted |= set(getattr(learner, "packages", ()))
    missing = sorted(package for package in wanted if importlib.util.find_spec(package) is None)
    if missing:
        remedy = "`make bench` installs all that the benchmarks need"
        sys.stderr.write(f"{name} needs {', '.join(missing)}, not installed; {remedy}.\n")
    return not missing
