"""The command line: ``list``, ``run``, ``all`` and ``check``."""

import argparse
import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from benchmarks.runner.check import PageError, check, read_page
from benchmarks.runner.pages import FinishedRun, write_results
from benchmarks.runner.provenance import ROOT, this_run
from benchmarks.runner.records import write_json
from benchmarks.runner.units import Runner, Store, Unit, share

NAMES = (
    *("auc", "multiclass", "speed", "scale", "multiboost-cw"),
    *("hierarchy", "mo-ecc", "shareboost", "segmentation", "tracking"),
)
PAGES: dict[str, ModuleType] = {
    name: importlib.import_module(f"benchmarks.papers.{name.replace('-', '_')}") for name in NAMES
}
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
Plan = dict[str, list[Unit]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0 if every unit finished."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = parser().parse_args(given)
    this_run()  # before anybody commits something else
    try:
        return options.run(options, given)
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
    lists.set_defaults(run=_list)

    runs = commands.add_parser("run", help="run a benchmark, or resume an interrupted run")
    runs.set_defaults(run=_run_one)
    runs.add_argument("name", choices=NAMES)
    runs.add_argument("--json", type=Path, required=True, metavar="FILE", help="records")
    runs.add_argument("--only", nargs="+", metavar="DATASET", help="these data sets only")

    runs_all = commands.add_parser("all", help="run every benchmark, or resume")
    runs_all.set_defaults(run=_run_all, only=None)
    add = runs_all.add_argument
    add("--json", type=Path, default=Path("bench"), metavar="DIR", help="records (default: bench)")
    for one in (runs, runs_all):
        _add_run_options(one)

    checks = commands.add_parser("check", help="compute some units of a page anew and compare")
    checks.set_defaults(run=_check)
    checks.add_argument("name", choices=NAMES)
    add = checks.add_argument
    results = ROOT / "docs/results"
    add("--data", type=Path, required=True, metavar="DIR", help="directory with the data sets")
    add("--share", type=_share, default=0.05, metavar="S", help="share of the units (0.05); 1: all")
    add("--seed", type=int, default=0, metavar="N", help="seed of the draw of units (0)")
    add("--tolerance", type=float, default=0.0, metavar="T", help="relative tolerance (0)")
    add("--results", type=Path, default=results, metavar="DIR", help="where NAME.json is")
    return top


def _add_run_options(runs: argparse.ArgumentParser) -> None:
    add = runs.add_argument
    add("--data", type=Path, required=True, metavar="DIR", help="directory with the data sets")
    add("--quick", action="store_true", help="one repeat, two candidates, the small data sets")
    add("--results", type=Path, metavar="DIR", help="write NAME.md and NAME.png there too")
    add("--jobs", type=int, default=1, metavar="N", help="processes; timed units still run alone")
    add("--kept", action="store_true", help="run nothing, show what finished units say")
    add("--share", type=int, nargs=2, metavar=("K", "N"), help="every N-th unit from K, no table")
    add("--untimed", action="store_true", help="leave out units whose times are the point")
    add("--cache", type=Path, metavar="DIR", help="finished units (default: .bench beside --json)")


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share; give a number above 0, up to 1.")
    return value


def _list(options: argparse.Namespace, given: Sequence[str]) -> int:
    for name, page in PAGES.items():
        title = (page.__doc__ or "").splitlines()[0]
        print(f"{name}\n  {title}\n  {' '.join(page.DATASETS)}")
    return 0


def _check(options: argparse.Namespace, given: Sequence[str]) -> int:
    """Compute some units of a page anew; the exit code is 0 if they are as on the page."""
    page = read_page(options.results / f"{options.name}.json")
    if not _can_run(options.name, page["datasets"], plots=False):
        return BAD_INPUT
    settings = {"share": options.share, "seed": options.seed, "tolerance": options.tolerance}
    return check(PAGES[options.name], page, options.data, **settings)


def _run_one(options: argparse.Namespace, given: Sequence[str]) -> int:
    store = options.cache or options.json.parent / ".bench"
    return _run({options.name: options.json}, Store(store), options, given)


def _run_all(options: argparse.Namespace, given: Sequence[str]) -> int:
    files = {name: options.json / f"{name}.json" for name in NAMES}
    return _run(files, Store(options.cache or options.json / ".bench"), options, given)


def _run(
    files: dict[str, Path], store: Store, options: argparse.Namespace, given: Sequence[str]
) -> int:
    """Finish the units of pages, at first those that may run side by side, and write the pages."""
    names = {name: _datasets(PAGES[name], options) for name in files}
    if not all([_can_run(n, names[n], plots=options.results is not None) for n in files]):
        return BAD_INPUT
    plans = {
        page: {
            name: PAGES[page].units(name, options.data, quick=options.quick) for name in names[page]
        }
        for page in files
    }
    if options.share:
        return _finish_share(plans, store, options)
    if options.jobs > 1 and not options.kept:
        _run_shares(given, options.jobs)
    n_units = sum(len(units) for plan in plans.values() for units in plan.values())
    runner = Runner(store, n_units, only_kept=options.kept)
    for page, plan in plans.items():
        _finish_page(page, plan, files[page], runner, options)
    return _failures(runner)


def _datasets(page: ModuleType, options: argparse.Namespace) -> Sequence[str]:
    return options.only or (page.QUICK_DATASETS if options.quick else page.DATASETS)


def _finish_share(plans: dict[str, Plan], store: Store, options: argparse.Namespace) -> int:
    """Units of one of several processes; no records."""
    units = [unit for plan in plans.values() for of_name in plan.values() for unit in of_name]
    own = share([u for u in units if not (options.untimed and u.timed)], *options.share)
    runner = Runner(store, len(own))
    runner.finish(own)
    return _failures(runner)


def _finish_page(
    name: str, plan: Plan, path: Path, runner: Runner, options: argparse.Namespace
) -> None:
    """Finish a page's units, data set by data set; its records, its table and perhaps the page."""
    page = PAGES[name]
    made, results = [], []
    for dataset, units in plan.items():
        finished = runner.finish(units)
        results += finished
        made += page.records(dataset, finished)
        write_json(path, made)
    shown = page.show(made)
    print(shown)
    if options.results is not None:
        planned = [unit for units in plan.values() for unit in units]
        runs = {unit.key: runner.store.run_of(unit) for unit, _ in results}
        done = FinishedRun(list(plan), options.quick, planned, results, runs)
        write_results(options.results, name, page, made, shown, done)


def _failures(runner: Runner) -> int:
    for title in runner.failures:
        sys.stderr.write(f"failed: {title}\n")
    return FAILED if runner.failures else 0


def missing_packages(page: ModuleType, names: Sequence[str], *, plots: bool) -> list[str]:
    """Packages that are not installed, but needed by the units of some data sets or by plots."""
    peers = getattr(page, "PEERS", {})
    wanted = {package for name in names for package in peers.get(name, ())}
    if plots and hasattr(page, "plot"):
        wanted.add("matplotlib")
    return sorted(package for package in wanted if importlib.util.find_spec(package) is None)


def _can_run(name: str, names: Sequence[str], *, plots: bool) -> bool:
    """Whether all data sets are known and all packages installed; else says what to do."""
    known = PAGES[name].DATASETS
    unknown = sorted(set(names) - set(known))
    if unknown:
        sys.stderr.write(f"{name} has no {', '.join(unknown)}; it has {', '.join(known)}.\n")
        return False
    missing = missing_packages(PAGES[name], names, plots=plots)
    if missing:
        sys.stderr.write(
            f"{name} needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not "
            "installed; `make bench` installs all that the benchmarks need.\n"
        )
    return not missing


def _run_shares(given: Sequence[str], n_jobs: int) -> None:
    """Finish the units that may run side by side in processes; KeyboardInterrupt goes to all."""
    command = [sys.executable, "-m", "benchmarks", *given, "--jobs", "1", "--untimed"]
    workers = [subprocess.Popen([*command, "--share", str(k), str(n_jobs)]) for k in range(n_jobs)]
    try:
        codes = [worker.wait() for worker in workers]
    except KeyboardInterrupt:
        for worker in workers:
            worker.terminate()
            worker.wait()
        raise
    if INTERRUPTED in codes:
        raise KeyboardInterrupt
