"""The command line: ``list``, ``run``, ``all``, ``check`` and ``index``."""

import argparse
import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

from benchmarks.papers import NAMES
from benchmarks.papers.headlines import INDEX, SPECIAL
from benchmarks.runner.check import PageError, check, read_page
from benchmarks.runner.experiment import Result, Runner, Source, Unit
from benchmarks.runner.index import as_table, write_index
from benchmarks.runner.pages import datasets_of, plan, records_of, units_on_pages, write_results
from benchmarks.runner.processor import ending
from benchmarks.runner.provenance import ROOT, this_run
from benchmarks.runner.records import grouped, known, mean, write_json

PAGES: dict[str, ModuleType] = {
    name: importlib.import_module(f"benchmarks.papers.{name.replace('-', '_')}") for name in NAMES
}
RESULTS = ROOT / "docs/results"
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
HOUR = 3600.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0 if every unit finished."""
    command = sys.argv[1:] if arguments is None else arguments
    options = parser().parse_args(command, argparse.Namespace(as_typed=command))
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
        "check": ("compute some units of a page anew and compare", _check),
        "index": ("make the page of all results from the others", _index),
    }
    parsers = {name: commands.add_parser(name, help=text) for name, (text, _) in words.items()}
    for name, (_, function) in words.items():
        parsers[name].set_defaults(run=function)

    def add(names: str, option: str, **settings: object) -> None:
        for name in names.split():
            parsers[name].add_argument(option, **settings)

    folder = {"type": Path, "metavar": "DIR"}
    add("run check", "name", choices=NAMES)
    add("run all check", "--data", **folder, required=True, help="directory with the data sets")
    add("run", "--json", type=Path, metavar="FILE", required=True, help="records")
    add("all", "--json", **folder, default=Path("bench"), help="records (default: bench)")
    add("run", "--only", nargs="+", metavar="DATASET", help="these data sets only")
    quick = "one repeat, two candidates, the small data sets"
    add("run all", "--quick", action="store_true", help=quick)
    add("run all", "--results", **folder, help="write NAME.md there too")
    jobs = "processes; units whose times on the wall count run alone"
    add("run all", "--jobs", type=int, default=1, metavar="N", help=jobs)
    add("run all", "--worker", type=Path, help=argparse.SUPPRESS)  # where units are claimed
    estimate = "run nothing, say how long it would take by what units took before"
    add("run all", "--estimate", action="store_true", help=estimate)
    resume = "take from pages there what was measured with the same data and code"
    add("run all", "--resume", **folder, help=resume)
    share = "fraction of the units (0.05); 1: all"
    add("check", "--share", type=_fraction, default=0.05, metavar="S", help=share)
    add("check", "--seed", type=int, default=0, metavar="N", help="seed of the draw of units (0)")
    write = "say on the page that it was checked, if it agrees"
    add("check", "--write", action="store_true", help=write)
    add("check index", "--results", **folder, default=RESULTS, help="where the pages are")
    return top


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share; give a number above 0, up to 1.")
    return value


def _list(options: argparse.Namespace) -> int:
    for name, page in PAGES.items():
        title = (page.__doc__ or "").splitlines()[0]
        print(f"{name}\n  {title}\n  {' '.join(datasets_of(page))}")
    return 0


def _check(options: argparse.Namespace) -> int:
    """Compute some units of a page anew; the exit code is 0 if they are as on the page."""
    page, benchmark = read_page(options.results / f"{options.name}.json"), PAGES[options.name]
    names = [name for name in page["datasets"] if name in datasets_of(benchmark)]
    if not _can_run(options.name, names, options.data):
        return BAD_INPUT
    folder = options.results if options.write else None
    drawn, unseeded = (options.share, options.seed), INDEX["unseeded"]
    code = check(benchmark, page, options.data, *drawn, folder, unseeded)
    if code == 0 and folder is not None:
        _renew_index(folder)
    return code


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
    if not all(can_run) and not options.estimate:
        return BAD_INPUT
    plans = {name: plan(PAGES[name], datasets[name], options.data, options.quick) for name in files}
    units = list({unit.key: unit for planned in plans.values() for unit in planned}.values())
    runner = Runner(folder / ".bench", len(units))
    if options.resume is not None and not options.worker:
        _resume(runner, units, options.resume)
    if options.estimate:
        return _estimate(plans, runner, options.jobs)
    if options.worker:
        runner.finish(_claimed(units, options.worker))
        return FAILED if runner.failures else 0
    if options.jobs > 1:
        runner.lost = _finish_in_processes(options.as_typed, options.jobs)
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


def _resume(runner: Runner, units: Sequence[Unit], folder: Path) -> None:
    """Keep what pages in a folder say of units with the same data and code."""
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise PageError(f"--resume {folder} has no page; give a folder of NAME.json, as --results.")
    runner.adopt(units, units_on_pages(map(read_page, paths)))


def _estimate(plans: dict[str, list[Unit]], runner: Runner, n_jobs: int) -> int:
    """Say how long what is left will take, page by page and in all, by the pages of before.

    Times of other code and other machines count too: CPU seconds where a page has them, since a
    busy machine makes those on the wall longer, and it has. A repeat takes the mean of the
    learner's on the data set.
    """
    total, counted = [0, 0, 0.0, 0.0], set()
    for name, units in plans.items():
        path = RESULTS / f"{name}.json"
        entries = read_page(path)["units"] if path.exists() else []
        of_units = ((e["dataset"], e["method"], e["result"]) for e in entries)
        recorded = grouped(((dataset, method), _spent(r)) for dataset, method, r in of_units)
        left = [unit for unit in units if unit.key not in counted and not runner.kept(unit)]
        counted |= {unit.key for unit in left}
        seconds = [mean(recorded.get((unit.dataset, unit.method), ())) for unit in left]
        alone = [s for s, unit in zip(seconds, left, strict=True) if unit.experiment.alone]
        own = [len(left), seconds.count(None), sum(known(seconds)), sum(known(alone))]
        total = [one + other for one, other in zip(total, own, strict=True)]
        print(f"{name}: {_in_words(*own, n_jobs=n_jobs)}")
    print(f"in all: {_in_words(*total, n_jobs=n_jobs)}")
    return 0


def _spent(result: Result) -> float | None:
    """CPU seconds of a unit, or those on the wall where its page is older."""
    return result.get("unit_cpu_seconds", result.get("unit_seconds"))


def _in_words(n_units: int, n_unknown: int, seconds: float, alone: float, *, n_jobs: int) -> str:
    """An estimate as a phrase; units that run alone use one process."""
    hours = f"{(alone + (seconds - alone) / n_jobs) / HOUR:.2f} h"
    where = "one process" if n_jobs == 1 else f"{n_jobs} processes"
    unknown = f"; {n_unknown} have no recorded time" if n_unknown else ""
    return f"{n_units} units are left: {n_units - n_unknown} take {hours} on {where}{unknown}"


def _finish_in_processes(as_typed: Sequence[str], n_jobs: int) -> set[str]:
    """Finish the units that may run side by side; a process that dies is named.

    Returns the keys of the units that such a process took, since the last of them ended it; what
    nobody took is done afterwards. KeyboardInterrupt goes to all processes.
    """
    with tempfile.TemporaryDirectory() as claims:
        command = [sys.executable, "-m", "benchmarks", *as_typed, "--worker", claims]
        workers = [subprocess.Popen(command) for _ in range(n_jobs)]
        try:
            codes = [worker.wait() for worker in workers]
        except KeyboardInterrupt:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.wait()
            raise
        takers = {path.name: int(path.read_text()) for path in Path(claims).iterdir()}
    if INTERRUPTED in codes:
        raise KeyboardInterrupt
    for index, code in enumerate(codes):
        if code < 0:
            sys.stderr.write(f"{ending(f'Process {index + 1} of {n_jobs}', code)}\n")
    died = {worker.pid for worker, code in zip(workers, codes, strict=True) if code < 0}
    return {key for key, taker in takers.items() if taker in died}


def _claimed(units: Iterable[Unit], claims: Path) -> Iterable[Unit]:
    """Units that run beside others and that no other process has taken."""
    for unit in units:
        if not unit.experiment.alone:
            try:
                with open(claims / unit.key, "x") as file:
                    file.write(str(os.getpid()))
            except FileExistsError:
                continue
            yield unit


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
