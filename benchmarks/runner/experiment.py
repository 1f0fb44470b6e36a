"""Experiments: which learners are measured on which data sets, and how; a unit is measured once."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.runner.processor import CODE
from benchmarks.runner.provenance import MEASURED, PACKAGES, ROOT, this_run
from benchmarks.runner.records import Record, grouped, plain, record, short, summary, write_json
from structboost.errors import InterruptedFitWarning

Result = dict[str, Any]
Case = dict[str, Any]


class Source(NamedTuple):
    """A data set by its name, and the folder of all data."""

    name: str
    folder: Path


class Learner(NamedTuple):
    """A function that a measure calls, and the packages whose versions count."""

    fit: Callable[..., Any]
    packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """Learners measured on data sets: ``measure(source, learner, **case)`` gives a result.

    A result is a dict of facts, or has ``rows`` of them; what stands in a row goes before what is
    known of the unit.
    """

    data: Mapping[str, Sequence[str]]  # the files of each set, below the folder of all data
    learners: Mapping[str, Any] | Callable[[Source], Mapping[str, Any]]
    measure: Callable[..., Result]
    cases: Callable[[Source, str], Iterable[Case]] = lambda source, learner: [{}]
    metrics: Mapping[str, str] = field(default_factory=lambda: {"error": "value"})  # and its fact
    by: Sequence[str] = ()  # facts and cases that tell records apart, beside set, learner, metric
    rows: Callable[[Result], Sequence[Record]] = lambda result: result.get("rows", [{}])
    more: Callable[[Sequence[Record]], Record] = lambda rows: {}  # facts of the rows of all repeats

    def learners_of(self, source: Source) -> Mapping[str, Any]:
        """Learners of a data set by name."""
        return self.learners(source) if callable(self.learners) else self.learners

    def units(self, source: Source) -> list[Unit]:
        """Units of a data set, learner by learner."""
        content = content_of(*(source.folder / file for file in self.data[source.name]))
        planned = []
        for name, learner in self.learners_of(source).items():
            versions = map(version_of, getattr(learner, "packages", ()))
            version = " ".join([content, *code_of_all_results(), *versions])
            for case in self.cases(source, name):
                run = partial(self.measure, source, learner, **case)
                planned.append(Unit(self, source.name, name, case, version, run))
        return planned

    def records(self, name: str, units: Sequence[tuple[Unit, Result]]) -> list[Record]:
        """Records of a data set: a line for each learner and metric, over the repeats."""
        groups = grouped(
            ((row["method"], row.get("metric", metric), *(row.get(one) for one in self.by)), row)
            for unit, result in units
            for row in self._rows(unit, result)
            for metric, fact in self.metrics.items()
            for row in ([{**row, "value": row[fact]}] if fact in row else [])
        )
        made = []
        # A fact of a result has the place of a case of the same name, such as the gap asked for.
        cases = {case for unit, result in units for case in unit.params if case not in result}
        cases |= {"method", "metric"}
        for (method, metric, *key), rows in groups.items():
            facts = {k: v for k, v in summary(rows).items() if k not in cases} | self.more(rows)
            own = dict(zip(self.by, key, strict=True))
            made.append(record(name, method, metric, **{**facts, **own}))
        return made

    def _rows(self, unit: Unit, result: Result) -> list[Record]:
        """Rows of a result with what is known of the unit."""
        rows = self.rows(result)
        about = {"method": unit.method, **unit.params}
        if not isinstance(rows, list):  # the number of rows of a table
            return [{**about, **result}]
        about |= {name: fact for name, fact in result.items() if name != "rows"}
        return [{**about, **row, **row.get("facts", {})} for row in rows]


def version_of(package: str) -> str:
    """Name and version of a package that a peer needs."""
    if importlib.util.find_spec(package) is None:
        return f"no {package}"  # nothing is measured without it
    return f"{package} {getattr(importlib.import_module(package), '__version__', '')}"


@cache
def code_of_all_results() -> list[str]:
    """Hash of the library and the benchmarks, and what else changes numbers."""
    sources = sorted(path for folder in MEASURED for path in (ROOT / folder).rglob("*.py"))
    return [content_of(*sources), *(str(this_run()[name]) for name in PACKAGES), *CODE.values()]


@lru_cache(maxsize=512)
def content_of(*paths: Path) -> str:
    """Hash of files and of all that is in folders; FileNotFoundError says where they should be."""
    digest = hashlib.sha256()
    for path in paths:
        if not path.exists():
            where = "/".join(path.parts[-3:])
            raise FileNotFoundError(
                f"{path} is missing; --data must name a directory that has {where}."
            )
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            digest.update(file.name.encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Unit:
    """The least that is run at a time."""

    experiment: Experiment
    dataset: str
    method: str
    params: Case  # what tells it from others of the same learner
    version: str  # hash of the data and of the code that is measured
    run: Callable[[], Result]

    @property
    def key(self) -> str:
        """Name of the kept result; differs whenever data, parameters or code differ."""
        measure = getattr(getattr(self.run, "func", None), "__qualname__", "")
        identity = [self.dataset, self.method, measure, self.params, self.version]
        return hashlib.sha256(json.dumps(plain(identity), sort_keys=True).encode()).hexdigest()[:20]

    @property
    def title(self) -> str:
        """Its name in the progress lines."""
        scalars = [f"{k} {v}" for k, v in self.params.items() if isinstance(v, (int, float, str))]
        return f"{self.dataset}, {self.method} {' '.join(scalars)}".strip()


Finished = list[tuple[Unit, Result]]


class Runner:
    """Runs units one after the other, with a line on stderr for each of ``n_units``.

    Results are kept in a folder, a file for each key of a unit, and have the digits of pages.
    ``failures`` are the titles of the units that raised an exception.
    """

    def __init__(self, folder: Path, n_units: int) -> None:
        self.folder, self.n_units, self.n_done = folder, n_units, 0
        self.started = time.perf_counter()
        self.failures: list[str] = []

    def kept(self, unit: Unit) -> Record:
        """A unit's ``result`` and the ``run`` that it is of; empty if none can be read."""
        with suppress(OSError, ValueError):
            kept: Record = json.loads(self._file(unit).read_text())
            return kept
        return {}

    def _file(self, unit: Unit) -> Path:
        return self.folder / f"{unit.key}.json"

    def finish(self, units: Iterable[Unit]) -> Finished:
        """Results of the units, kept ones included; failed ones are left out."""
        results = ((unit, self._finish_one(unit)) for unit in units)
        return [(unit, result) for unit, result in results if result is not None]

    def _finish_one(self, unit: Unit) -> Result | None:
        """One result, kept or by running the unit."""
        self.n_done += 1
        kept = self.kept(unit).get("result")
        if kept is not None:
            self._say(unit, "kept")
            return short(kept)
        self._say(unit, "...")  # the last line if the process is killed
        try:
            measured = _run(unit)
            write_json(self._file(unit), measured)
        except InterruptedFitWarning:
            raise KeyboardInterrupt from None
        except Exception:
            self.failures.append(unit.title)
            self._say(unit, f"FAILED\n{traceback.format_exc()}")
            return None
        result = short(plain(measured["result"]))
        self._say(unit, f"{result['unit_seconds']:.1f} s")
        return result

    def _say(self, unit: Unit, text: str) -> None:
        elapsed = time.perf_counter() - self.started
        sys.stderr.write(f"[{self.n_done}/{self.n_units} {elapsed:6.0f} s] {unit.title}: {text}\n")
        sys.stderr.flush()


def _run(unit: Unit) -> Record:
    """Result of a unit, its seconds on the wall and of CPU, and where it was measured.

    A fit that was interrupted keeps what it has and warns; that is no result.
    """
    started, before = time.perf_counter(), sum(os.times()[:4])  # with ended processes
    with warnings.catch_warnings():
        warnings.simplefilter("error", InterruptedFitWarning)
        result = plain(unit.run())
    spent = {"unit_seconds": time.perf_counter() - started}
    spent["unit_cpu_seconds"] = sum(os.times()[:4]) - before
    return {"run": this_run(), "result": {**result, **spent}}
