"""Units of measurement: one method on one split, run alone, kept on disk, never run twice."""

from __future__ import annotations

import hashlib
import json
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.records import plain, write_json

Result = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Unit:
    """What is run at a time.

    Parameters
    ----------
    benchmark, dataset, method : str
    params : dict
        What tells the unit from others of the same method: class, repeat, grid.
    version : str
        Hash of the data and of the code that is measured.
    run : callable
        ``run()``, or ``run(result)`` with the result of ``needs``, gives the result as a dict.
    needs : Unit, optional
        A unit that comes before.
    """

    benchmark: str
    dataset: str
    method: str
    params: dict[str, Any]
    version: str
    run: Callable[..., Result]
    needs: Unit | None = None

    @property
    def key(self) -> str:
        """Name of the kept result; differs whenever data, parameters or code differ."""
        identity = [self.benchmark, self.dataset, self.method, self.params, self.version]
        if self.needs is not None:
            identity.append(self.needs.key)
        digest = hashlib.sha256(json.dumps(plain(identity), sort_keys=True).encode()).hexdigest()[:20]
        return f"{self.benchmark}-{self.dataset}-{self.method}-{digest}"

    @property
    def title(self) -> str:
        """How the progress line calls it."""
        numbers = " ".join(f"{k} {v}" for k, v in self.params.items() if isinstance(v, int))
        return f"{self.benchmark} {self.dataset} {self.method} {numbers}".strip()


def share(units: Sequence[Unit], k: int, n: int) -> list[Unit]:
    """Every ``n``-th unit from the ``k``-th on; a unit goes with the one it needs."""
    taken: dict[Unit, int] = {}
    for unit in units:
        taken[unit] = len(taken) % n if unit.needs is None else taken[unit.needs]
    return [unit for unit in units if taken[unit] == k]


class Store:
    """Results of finished units, one file each, written at once or not at all."""

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)

    def get(self, unit: Unit) -> Result | None:
        """Kept result of a unit; an unreadable file counts as none."""
        try:
            return json.loads(self._path(unit).read_text())["result"]
        except (OSError, ValueError, KeyError):
            return None

    def put(self, unit: Unit, result: Result) -> None:
        """Keep a result, with what it is the result of."""
        write_json(self._path(unit), {"unit": unit.title, "params": unit.params, "result": result})

    def _path(self, unit: Unit) -> Path:
        return self.directory / f"{unit.key}.json"


class Runner:
    """Runs units one after the other, with a line on stderr for each.

    Parameters
    ----------
    store : Store
    n_units : int
        How many will come, for the progress line.
    only_kept : bool
        Run nothing: units that are not in the store are left out.

    Attributes
    ----------
    failures : list of str
        Titles of the units that raised; the others go on.
    """

    def __init__(self, store: Store, n_units: int, *, only_kept: bool = False) -> None:
        self.store = store
        self.n_units = n_units
        self.only_kept = only_kept
        self.n_done = 0
        self.failures: list[str] = []
        self.started = time.perf_counter()

    def finish(self, units: Iterable[Unit]) -> list[tuple[Unit, Result]]:
        """Results of the units, kept ones included; failed ones are left out."""
        finished = []
        for unit in units:
            result = self._finish_one(unit)
            if result is not None:
                finished.append((unit, result))
        return finished

    def _finish_one(self, unit: Unit) -> Result | None:
        """One result, from the store or by running the unit."""
        kept = self.store.get(unit)
        self.n_done += 1
        if kept is not None:
            self._say(unit, "kept")
            return kept
        if self.only_kept:
            return None
        arguments = [] if unit.needs is None else [self.store.get(unit.needs)]
        if None in arguments:
            self.failures.append(unit.title)
            self._say(unit, f"left out: it needs {unit.needs.title}, which failed")  # type: ignore[union-attr]
            return None
        started = time.perf_counter()
        try:
            result = plain(_uninterrupted(unit.run, arguments))
        except Exception:
            self.failures.append(unit.title)
            self._say(unit, "FAILED\n" + traceback.format_exc())
            return None
        result["unit_seconds"] = time.perf_counter() - started
        self.store.put(unit, result)
        self._say(unit, outcome(result))
        return result

    def _say(self, unit: Unit, text: str) -> None:
        elapsed = time.perf_counter() - self.started
        sys.stderr.write(f"[{self.n_done}/{self.n_units} {elapsed:6.0f} s] {unit.title}: {text}\n")
        sys.stderr.flush()


def _uninterrupted(run: Callable[..., Result], arguments: Sequence[Any]) -> Result:
    """The result of a unit; goes on with Ctrl-C, after which our trainers keep their model, which is no result."""
    from structboost import InterruptedFitWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run(*arguments)
    for warning in caught:
        if issubclass(warning.category, InterruptedFitWarning):
            raise KeyboardInterrupt
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return result


def outcome(result: Result) -> str:
    """A result in one line."""
    shown = []
    for name, form in (("value", "{:.4f}"), ("gap", "gap {:.2%}"), ("seconds", "fit {:.3g} s")):
        if isinstance(result.get(name), (int, float)):
            shown.append(form.format(result[name]))
    if result.get("status") == "time_limit":
        shown.append("time limit")
    return ", ".join([*shown, f"{result['unit_seconds']:.1f} s in all"])


def source_hash(paths: Sequence[Path]) -> str:
    """Hash of source files, and of all Python files of directories among them."""
    digest = hashlib.sha256()
    for path in map(Path, paths):
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        for file in files:
            digest.update(str(file.relative_to(path.parent)).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
