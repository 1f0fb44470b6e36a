"""Whether a page still holds: some of its units are computed anew and compared value by value."""

import json
import math
import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.runner.pages import rounded
from benchmarks.runner.provenance import Provenance, this_run
from benchmarks.runner.units import Result, Runner, Store, Unit

# Seconds, bytes and what is made of them differ from run to run.
TIMED = re.compile(r"seconds|nanoseconds|latency|fps|bytes|peak|^cpu$|ratio$|_us$|_ms$")
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
            f"{path} is missing: the page was written before its units were kept beside it. "
            f"`python -m benchmarks run {path.stem} --data DIR --json FILE "
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
    *,
    share: float,
    seed: int,
    tolerance: float,
) -> int:
    """Print what differs; 0 if nothing does, 1 if something does or fails."""
    plans = [benchmark.units(name, data_dir, quick=page["quick"]) for name in page["datasets"]]
    by_key = {_key(unit.identity): unit for units in plans for unit in units}
    on_page = {_key(entry): entry for entry in page["units"]}
    print(f"{page['benchmark']}: page of {_commits(page['runs'])}, now {_commits([this_run()])}.")
    for key in (key for key in on_page if key not in by_key):
        print(f"on the page, but no longer planned: {on_page[key]['title']}")
    for key in (key for key in by_key if key not in on_page):
        print(f"planned, but not on the page: {by_key[key].title}")
    common = [key for key in by_key if key in on_page]
    comparable = [key for key in common if _ended_by_itself(on_page[key]["result"])]
    n_stopped = len(common) - len(comparable)
    if n_stopped:
        print(f"{n_stopped} units were stopped by a time limit and are not compared.")
    if not comparable:
        raise PageError("No unit of the page can be compared; run the benchmark with --results.")
    n_drawn = min(len(comparable), math.ceil(share * len(comparable)))
    drawn = set(random.Random(seed).sample(comparable, n_drawn))
    settings = f"(share {share:g}, seed {seed})"
    print(f"{n_drawn} of {len(comparable)} units are computed anew {settings}.", flush=True)
    chosen = [(by_key[key], on_page[key]["result"]) for key in comparable if key in drawn]
    ignored = getattr(benchmark, "NOT_COMPARED", frozenset())
    return _compare(chosen, tolerance, ignored)


def _compare(chosen: Sequence[tuple[Unit, Result]], tolerance: float, ignored: frozenset) -> int:
    """Compute units and compare them with the results on the page."""
    n_agreeing = n_different = 0
    n_needed = sum(unit.needs is not None for unit, _ in chosen)
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Store(Path(folder)), len(chosen) + n_needed)
        for unit, before in chosen:
            now = _computed(runner, unit)
            if now is None:
                continue
            if not _ended_by_itself(now):
                print(f"stopped by a time limit now, not compared: {unit.title}")
                continue
            found = list(differences(before, rounded(now), tolerance, ignored))
            n_different += bool(found)
            n_agreeing += not found
            if found:
                lines = [f"  {path}: {old} on the page, {new} now" for path, old, new in found]
                print("\n".join([f"differs: {unit.title}", *lines]), flush=True)
    for title in runner.failures:
        print(f"failed: {title}")
    n = n_agreeing + n_different
    print(f"{n_agreeing} of {n} units compared agree with the page, {n_different} differ.")
    return 1 if n_different or runner.failures else 0


def _computed(runner: Runner, unit: Unit) -> Result | None:
    """A unit's result, computed after that of the unit it needs."""
    for one in (unit.needs, unit):
        finished = [] if one is None else runner.finish([one])
    return finished[0][1] if finished else None


def _key(identity: dict[str, Any]) -> str:
    return json.dumps([identity[name] for name in ("dataset", "method", "params")], sort_keys=True)


def _commits(runs: Sequence[Provenance | None]) -> str:
    names = [run["commit"] if run else None for run in runs]
    return ", ".join(f"commit {name}" if name else "an unknown commit" for name in names)


def _ended_by_itself(result: Result) -> bool:
    """Whether no time limit decided what came out."""
    return result.get("status") != "time_limit" and result.get("tuned_in_time") is not False


def differences(
    before: Any, now: Any, tolerance: float, ignored: frozenset[str] = frozenset(), path: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Path, value on the page and value now, where they differ; new values are no difference."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = [key for key in before if not TIMED.search(key) and key not in ignored]
        pairs = [(key, before[key], now.get(key)) for key in names]
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = [(str(i), *both) for i, both in enumerate(zip(before, now, strict=True))]
    else:
        if not _same(before, now, tolerance):
            yield path, before, now
        return
    for name, one, other in pairs:
        yield from differences(one, other, tolerance, ignored, f"{path} {name}".strip())


def _same(before: Any, now: Any, tolerance: float) -> bool:
    numbers = [isinstance(v, (int, float)) and not isinstance(v, bool) for v in (before, now)]
    if all(numbers):
        return math.isclose(before, now, rel_tol=PRINTED + tolerance)
    return type(before) is type(now) and bool(before == now)
