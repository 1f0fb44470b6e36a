"""Whether a page still holds: some of its units are computed anew and compared value by value."""

import json
import math
import random
import re
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.runner.experiment import Result, Runner
from benchmarks.runner.pages import datasets_of, plan, rounded, say_checked
from benchmarks.runner.provenance import this_run
from benchmarks.runner.records import Record

# Seconds, bytes and what is made of them differ from run to run.
TIMED = re.compile(r"seconds|nanoseconds|latency|fps|bytes|peak|(^|_)cpu(_|$)|ratio$|_us$|_ms$")
GONE = "not measured"
# Half a unit of the last digit that a page keeps, on both sides.
PRINTED = 1e-7


class PageError(Exception):
    """A page that cannot be checked."""


def read_page(path: Path) -> dict[str, Any]:
    """Records and units of a page."""
    try:
        page = json.loads(path.read_text())
    except FileNotFoundError:
        raise PageError(
            f"{path} is missing. `python -m benchmarks run {path.stem} --data DIR --json FILE "
            f"--results {path.parent}` makes it."
        ) from None
    except ValueError as error:
        page = str(error)
    if not isinstance(page, dict) or not {"datasets", "quick", "runs", "units"} <= set(page):
        raise PageError(f"{path} is no page of results; run the benchmark again with --results.")
    return page


def check(
    benchmark: ModuleType,
    page: dict[str, Any],
    data_dir: Path,
    fraction: float,
    seed: int,
    write: Path | None,
    unseeded: Collection[str] = (),
) -> int:
    """Compute a fraction of the units and print what differs; 0 if nothing does and none fails.

    Then the page in the folder ``write`` says so, if one is given. Methods of ``unseeded`` differ
    from run to run, and are not compared.
    """
    names = [name for name in page["datasets"] if name in datasets_of(benchmark)]
    planned = {
        _key(unit.identity): unit for unit in plan(benchmark, names, data_dir, page["quick"])
    }
    on_page = {_key(entry): entry for entry in page["units"]}
    commits = ", ".join(sorted({str(run and run["commit"]) for run in page["runs"]}))
    here = this_run()
    print(f"{page['benchmark']}: page of commit {commits}, now {here['commit']}.")
    for key in (key for key in on_page if key not in planned):
        print(f"on the page, but no longer planned: {on_page[key]['title']}")
    for key in (key for key in planned if key not in on_page):
        print(f"planned, but not on the page: {planned[key].title}")
    common = [key for key in planned if key in on_page]
    seeded = [key for key in common if on_page[key]["method"] not in unseeded]
    if len(common) > len(seeded):
        print(f"{len(common) - len(seeded)} units have no seed and are not compared.")
    comparable = [key for key in seeded if _ended_by_itself(on_page[key]["result"])]
    if len(seeded) > len(comparable):
        n_stopped = len(seeded) - len(comparable)
        print(f"{n_stopped} units were stopped by a time limit and are not compared.")
    if not comparable:
        raise PageError("No unit of the page can be compared; run the benchmark with --results.")
    n_drawn = min(len(comparable), math.ceil(fraction * len(comparable)))
    drawn = set(random.Random(seed).sample(comparable, n_drawn))
    print(f"{n_drawn} of {len(comparable)} units are computed anew.", flush=True)
    chosen = {planned[key]: on_page[key]["result"] for key in comparable if key in drawn}
    ignored = getattr(benchmark, "NOT_COMPARED", frozenset())
    n_compared = n_different = 0
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Path(folder), len(chosen))
        for unit, before in chosen.items():
            for _, now in runner.finish([unit]):
                if not _ended_by_itself(now):
                    print(f"stopped by a time limit now, not compared: {unit.title}")
                    continue
                compared = list(differences(before, rounded(now), ignored))
                gone = [path for path, _, new in compared if new is GONE]
                if gone:
                    print(f"no longer measured: {', '.join(gone)} of {unit.title}")
                differing = [one for one in compared if one[2] is not GONE]
                n_compared += 1
                n_different += bool(differing)
                lines = [f"  {path}: {old} on the page, {new} now" for path, old, new in differing]
                if differing:
                    print("\n".join([f"differs: {unit.title}", *lines]), flush=True)
    for title in runner.failures:
        print(f"failed: {title}")
    n_agreeing = n_compared - n_different
    print(f"{n_agreeing} of {n_compared} units agree with the page, {n_different} differ.")
    if n_different or runner.failures:
        return 1
    if write is not None and n_compared:
        say_checked(write, page, n_compared)
    return 0


def _key(identity: Record) -> str:
    """Name of a unit on a page; parameters that are not set do not count."""
    params = {k: v for k, v in identity["params"].items() if v is not None and v is not False}
    return json.dumps([identity["dataset"], identity["method"], params], sort_keys=True)


def _ended_by_itself(result: Result) -> bool:
    """Whether no time limit decided what came out."""
    return result.get("status") != "time_limit" and result.get("tuned_in_time") is not False


def differences(
    before: Any, now: Any, ignored: frozenset[str] = frozenset(), path: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Path, value on the page and value now or GONE, where they differ; new values do not count."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = [key for key in before if not TIMED.search(key) and key not in ignored]
        pairs = [(key, before[key], now.get(key, GONE)) for key in names]
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = [(str(i), *both) for i, both in enumerate(zip(before, now, strict=True))]
    else:
        is_same = type(before) is type(now) and bool(before == now)
        if {type(before), type(now)} <= {int, float}:
            is_same = math.isclose(before, now, rel_tol=PRINTED)
        if not is_same:
            yield path, before, now
        return
    for name, one, other in pairs:
        yield from differences(one, other, ignored, f"{path} {name}".strip())
