"""Units of measurement: one method on one split, kept on disk and never run twice."""

from __future__ import annotations

import hashlib
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.runner.interrupts import uninterrupted
from benchmarks.runner.provenance import this_run
from benchmarks.runner.records import plain, write_json

Result = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Unit:
    """The least that is run at a time.

    ``run()`` gives the result, or ``run(result)`` with the result of the unit that it needs.
    """

    benchmark: str
    dataset: str
    method: str
    params: dict[str, Any]  # what tells it from others of the same method: class, repeat, grid
    version: str  # hash of the data and of the code that is measured
    run: Callable[..., Result]
    needs: Unit | None = None  # comes before
    timed: bool = False  # its times are the point: it never runs beside others

    @property
    def key(self) -> str:
        """Name of the kept result; differs whenever data, parameters or code differ."""
        identity = [self.benchmark, self.dataset, self.method, self.params, self.version]
        if self.needs is not None:
            identity.append(self.needs.key)
        digest = hashlib.sha256(json.dumps(plain(identity), sort_keys=True).encode()).hexdigest()
        return f"{self.benchmark}-{self.dataset}-{self.method}-{digest[:20]}"

    @property
    def identity(self) -> dict[str, Any]:
        """What tells it from the other units of its benchmark, whatever the code."""
        return {"dataset": self.dataset, "method": self.method, "params": plain(self.params)}

    @property
    def title(self) -> str:
        """Its name in the progress lines."""
        numbers = " ".join(f"{k} {v}" for k, v in self.params.items() if isinstance(v, int))
        return f"{self.benchmark} {self.dataset} {self.method} {numbers}".strip()


Finished = list[tuple[Unit, Result]]


def share(units: Iterable[Unit], k: int, n: int) -> list[Unit]:
    """Every ``n``-th unit from the ``k``-th on; a unit goes with the one it needs."""
    taken: dict[Unit, int] = {}
    for unit in units:
        taken[unit] = len(taken) % n if unit.needs is None else taken[unit.needs]
    return [unit for unit, owner in taken.items() if owner == k]


class Runner:
    """Runs units one after the other, with a line on stderr for each of ``n_units``.

    Results are kept in a folder, one file each, written whole or not at all. With ``only_kept``
    nothing is run: units without a kept result are left out. ``failures`` are the titles of the
    units that raised an exception.
    """

    def __init__(self, folder: Path, n_units: int, *, only_kept: bool = False) -> None:
        self.folder = folder
        self.n_units = n_units
        self.only_kept = only_kept
        self.n_done = 0
        self.failures: list[str] = []
        self.started = time.perf_counter()

    def kept(self, unit: Unit) -> dict[str, Any]:
        """A unit's ``result`` and the ``run`` that it is of; empty without a readable file."""
        try:
            found = json.loads(self._path(unit).read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def adopt(self, units: Iterable[Unit], found: dict[str, dict[str, Any]]) -> None:
        """Keep results of units, by their key, that were found elsewhere and are not kept yet."""
        for unit in units:
            if unit.key in found and "result" not in self.kept(unit):
                write_json(self._path(unit), found[unit.key])

    def finish(self, units: Iterable[Unit]) -> Finished:
        """Results of the units, kept ones included; failed ones are left out."""
        results = ((unit, self._finish_one(unit)) for unit in units)
        return [(unit, result) for unit, result in results if result is not None]

    def _finish_one(self, unit: Unit) -> Result | None:
        """One result, kept or by running the unit, after the one that it needs."""
        self.n_done += 1
        kept = self.kept(unit).get("result")
        if kept is not None:
            self._say(unit, "kept")
        if kept is not None or self.only_kept:
            return kept
        needed = [] if unit.needs is None else [self.kept(unit.needs).get("result")]
        if None in needed:
            return self._fail(unit, "left out: the unit that it needs failed")
        started = time.perf_counter()
        try:
            result = plain(uninterrupted(unit.run, needed))
        except Exception:
            return self._fail(unit, "FAILED\n" + traceback.format_exc())
        result["unit_seconds"] = time.perf_counter() - started
        about = {"unit": unit.title, "params": unit.params, "run": this_run()}
        write_json(self._path(unit), {**about, "result": result})
        self._say(unit, outcome(result))
        return result

    def _path(self, unit: Unit) -> Path:
        return self.folder / f"{unit.key}.json"

    def _fail(self, unit: Unit, text: str) -> None:
        self.failures.append(unit.title)
        self._say(unit, text)

    def _say(self, unit: Unit, text: str) -> None:
        elapsed = time.perf_counter() - self.started
        sys.stderr.write(f"[{self.n_done}/{self.n_units} {elapsed:6.0f} s] {unit.title}: {text}\n")
        sys.stderr.flush()


def outcome(result: Result) -> str:
    """A result in one line."""
    forms = {"value": "{:.4f}", "gap": "gap {:.2%}", "seconds": "fit {:.3g} s"}
    numbers = [(form, result.get(name)) for name, form in forms.items()]
    shown = [form.format(value) for form, value in numbers if isinstance(value, (int, float))]
    stopped = ["time limit"] if result.get("status") == "time_limit" else []
    return ", ".join([*shown, *stopped, f"{result['unit_seconds']:.1f} s in all"])
