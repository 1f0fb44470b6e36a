"""The command line: ``list``, ``run``, ``all``, ``check`` and ``index``."""

import argparse
import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from benchmarks.papers.headlines import HEADLINES
from benchmarks.runner.check import PageError, check, read_page
from benchmarks.runner.estimate import estimate, recorded_seconds, total
from benchmarks.runner.headlines import as_table, write_index
from benchmarks.runner.pages import units_on_pages, write_results
from benchmarks.runner.provenance import ROOT, this_run
from benchmarks.runner.records import write_json
from benchmarks.runner.units import Runner, Unit, share

NAMES = (
    *("auc", "multiclass", "speed", "scale", "defaults", "outside", "taggers"),
    *(
        "multiboost-cw",
        "hierarchy",
        "mo-ecc",
        "shareboost",
        "segmentation",
        "tracking",
        "structures",
        "decisions",
    ),
    *("searches", "unions", "tables", "learners", "tools"),
)
PAGES: dict[str, ModuleType] = {
    name: importlib.import_module(f"benchmarks.papers.{name.replace('-', '_')}") for name in NAMES
}
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0 if every unit finished."""
    given = sys.argv[1:] if arguments is None else arguments
    options = parser().parse_args(given, argparse.Namespace(given=given))
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
    """What the command line takes."""
    top = argparse.ArgumentParser(
        prog="python -m benchmarks", description=sys.modules["benchmarks"].__doc__
    )
    commands = top.add_subparsers(dest="command", required=True)
    lists = commands.add_parser("list", help="name the benchmarks and their data sets")
    runs = commands.add_parser("run", help="run a benchmark, or resume an interrupted run")
    runs_all = commands.add_parser("all", help="run every benchmark, or resume")
    checks = commands.add_parser("check", help="compute some units of a page anew and compare")
    indexes = commands.add_parser("index", help="make the page of all results from the others")
    functions = {lists: _list, runs: _run, runs_all: _run_all, checks: _check, indexes: _index}
    for command, function in functions.items():
        command.set_defaults(run=function)
    for one in (runs, checks):
        one.add_argument("name", choices=NAMES)
    for one in (runs, runs_all, checks):
        help_ = "directory with the data sets"
        one.add_argument("--data", type=Path, required=True, metavar="DIR", help=help_)
    runs.add_argument("--json", type=Path, required=True, metavar="FILE", help="records")
    runs.add_argument("--only", nargs="+", metavar="DATASET", help="these data sets only")
    help_ = "records (default: bench)"
    runs_all.add_argument("--json", type=Path, default=Path("bench"), metavar="DIR", help=help_)
    for one in (runs, runs_all):
        add = one.add_argument
        add("--quick", action="store_true", help="one repeat, two candidates, the small data sets")
        add("--results", type=Path, metavar="DIR", help="write NAME.md and NAME.png there too")
        add("--jobs", type=int, default=1, metavar="N", help="processes; timed units run alone")
        add("--worker", type=int, nargs=2, help=argparse.SUPPRESS)  # its number, and of how many
        add("--kept", action="store_true", help="run nothing, show what finished units say")
        help_ = "run nothing, say how long it would take by what units took before"
        add("--estimate", action="store_true", help=help_)
        help_ = "take from pages there what was measured with the same data and code"
        add("--resume", type=Path, metavar="DIR", help=help_)
    add = checks.add_argument
    add("--share", type=_share, default=0.05, metavar="S", help="share of the units (0.05); 1: all")
    add("--seed", type=int, default=0, metavar="N", help="seed of the draw of units (0)")
    add("--write", action="store_true", help="say on the page that it was checked, if it agrees")
    for one, help_ in ((checks, "where NAME.json is"), (indexes, "where the pages are")):
        folder = ROOT / "docs/results"
        one.add_argument("--results", type=Path, default=folder, metavar="DIR", help=help_)
    return top


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share; give a number above 0, up to 1.")
    return value


def _list(options: argparse.Namespace) -> int:
    for name, page in PAGES.items():
        title = (page.__doc__ or "").splitlines()[0]
        print(f"{name}\n  {title}\n  {' '.join(page.DATASETS)}")
    return 0


def _check(options: argparse.Namespace) -> int:
    """Compute some units of a page anew; the exit code is 0 if they are as on the page."""
    page = read_page(options.results / f"{options.name}.json")
    if not _can_run(options.name, page["datasets"], plots=False):
        return BAD_INPUT
    folder = options.results if options.write else None
    code = check(PAGES[options.name], page, options.data, options.share, options.seed, folder)
    if code == 0 and folder is not None and (folder / "index.md").exists():
        write_index(folder, HEADLINES, NAMES)
    return code


def _index(options: argparse.Namespace) -> int:
    """Make the page of all results; 0 if it has a line."""
    lines = write_index(options.results, HEADLINES, NAMES)
    print(as_table(lines))
    return 0 if lines else BAD_INPUT


def _run(options: argparse.Namespace) -> int:
    files = {options.name: options.json}
    return _run_pages(files, options.json.parent / ".bench", options, options.only)


def _run_all(options: argparse.Namespace) -> int:
    files = {name: options.json / f"{name}.json" for name in NAMES}
    return _run_pages(files, options.json / ".bench", options, None)


def _run_pages(
    files: dict[str, Path], kept: Path, options: argparse.Namespace, only: Sequence[str] | None
) -> int:
    """Finish the units of some pages and write the pages."""
    datasets = {
        name: only or (PAGES[name].QUICK_DATASETS if options.quick else PAGES[name].DATASETS)
        for name in files
    }
    plots = options.results is not None
    if not all([_can_run(name, datasets[name], plots=plots) for name in files]):
        return BAD_INPUT
    plans = {
        name: {d: PAGES[name].units(d, options.data, quick=options.quick) for d in datasets[name]}
        for name in files
    }
    units = [unit for plan in plans.values() for of_set in plan.values() for unit in of_set]
    if options.resume is not None and not options.worker:
        _resume(Runner(kept, len(units)), units, options.resume)
    if options.estimate:
        return _estimate(plans, Runner(kept, len(units)), options.jobs)
    if options.worker:
        units = share([unit for unit in units if not unit.timed], *options.worker)
    elif options.jobs > 1 and not options.kept:
        _finish_in_processes(options.given, options.jobs)
    runner = Runner(kept, len(units), only_kept=options.kept)
    if options.worker:
        runner.finish(units)
        return FAILED if runner.failures else 0
    for name, plan in plans.items():
        _finish_page(name, plan, files[name], runner, options)
    if options.results is not None and (options.results / "index.md").exists():
        write_index(options.results, HEADLINES, NAMES)
    for title in runner.failures:
        sys.stderr.write(f"failed: {title}\n")
    return FAILED if runner.failures else 0


def _resume(runner: Runner, units: Sequence[Unit], folder: Path) -> None:
    """Keep what pages in a folder say of units with the same data and code."""
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise PageError(f"--resume {folder} has no page; give a folder of NAME.json, as --results.")
    runner.adopt(units, units_on_pages(map(read_page, paths)))


def _estimate(plans: dict[str, dict[str, list[Unit]]], runner: Runner, n_jobs: int) -> int:
    """Say how long what is left will take, page by page and in all."""
    recorded = recorded_seconds(ROOT / "docs/results", runner.folder)
    estimates = []
    for name, plan in plans.items():
        units = [unit for of_set in plan.values() for unit in of_set]
        left = [unit for unit in units if "result" not in runner.kept(unit)]
        estimates.append(estimate(units, left, recorded))
        print(f"{name}: {estimates[-1].in_words(n_jobs)}")
    print(f"in all: {total(estimates).in_words(n_jobs)}")
    return 0


def _finish_in_processes(given: Sequence[str], n_jobs: int) -> None:
    """Finish the units that may run side by side; KeyboardInterrupt goes to all processes."""
    command = [sys.executable, "-m", "benchmarks", *given, "--worker"]
    workers = [subprocess.Popen([*command, str(k), str(n_jobs)]) for k in range(n_jobs)]
    try:
        codes = [worker.wait() for worker in workers]
    except KeyboardInterrupt:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()
        raise
    if INTERRUPTED in codes:
        raise KeyboardInterrupt


def _finish_page(
    name: str, plan: dict[str, list[Unit]], path: Path, runner: Runner, options: argparse.Namespace
) -> None:
    """Finish a page's units, data set by data set; its records, its table and perhaps the page."""
    page = PAGES[name]
    made, results = [], []
    for dataset, units in plan.items():
        finished = runner.finish(units)
        results += finished
        made += page.records(dataset, finished)
        write_json(path, made)
    print(page.show(made))
    if options.results is not None:
        planned = [unit for units in plan.values() for unit in units]
        runs = {unit.key: runner.kept(unit).get("run") for unit, _ in results}
        about = {"benchmark": name, "datasets": list(plan), "quick": options.quick}
        write_results(options.results, page, about, made, planned, results, runs)


def missing_packages(page: ModuleType, names: Sequence[str], *, plots: bool) -> list[str]:
    """Packages that are not installed, but needed by the units of some data sets or by plots."""
    peers = getattr(page, "PEERS", {})
    wanted = {package for name in names for package in peers.get(name, ())}
    wanted |= {"matplotlib"} if plots and hasattr(page, "plot") else set()
    return sorted(package for package in wanted if importlib.util.find_spec(package) is None)


def _can_run(name: str, names: Sequence[str], *, plots: bool) -> bool:
    """Whether all data sets are known and all packages installed; else says what to do."""
    known = PAGES[name].DATASETS
    unknown = sorted(set(names) - set(known))
    if unknown:
        sys.stderr.write(f"{name} has no {', '.join(unknown)}; it has {', '.join(known)}.\n")
        return False
    missing = ", ".join(missing_packages(PAGES[name], names, plots=plots))
    if missing:
        remedy = "`make bench` installs all that the benchmarks need"
        sys.stderr.write(f"{name} needs {missing}, which is not installed; {remedy}.\n")
    return not missing
