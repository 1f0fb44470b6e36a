"""Experiments: which learners are measured on which data sets, and how; a unit is measured once."""

import hashlib
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.runner.machine import CODE, MEASURED, ROOT, this_run, versions
from benchmarks.runner.records import grouped, plain, record, summary, write_text
from structboost.errors import InterruptedFitWarning


class Source(NamedTuple):
    """A data set by its name, the folder of all data, and its files below that folder."""

    name: str
    folder: Path
    files: Sequence[str] = ()

    def arrays(self):
        """All arrays of its first file."""
        with np.load(self.folder / self.files[0]) as file:
            return dict(file)


@dataclass(frozen=True)
class Experiment:
    """Learners measured on data sets: ``measure(source, learner, **case)`` gives a dict of facts.

    It may have ``rows``, facts that go before those of the unit.
    """

    data: Mapping[str, Sequence[str]]  # the files of each set, below the folder of all data
    learners: Any  # by name, or a function of a source that returns them
    measure: Callable
    cases: Callable = lambda source, learner: [{}]
    metrics: Any = field(default_factory=lambda: {"error": "value"})  # and its fact
    by: Sequence[str] = ()  # facts and cases that tell records apart, beside set, learner, metric
    more: Callable = lambda rows: {}  # facts of the rows of all repeats

    def units(self, name, folder):
        """Units of a data set, learner by learner."""
        source = Source(name, folder, self.data[name])
        learners = self.learners(source) if callable(self.learners) else self.learners
        return [
            Unit(self, source, label, learner, case)
            for label, learner in learners.items()
            for case in self.cases(source, label)
        ]

    def records(self, name, results):
        """Records of a data set: one for each learner and metric, over the repeats."""
        groups = grouped(
            (
                (
                    row.get("method", unit.method),
                    row.get("metric", metric),
                    *({**unit.case, **row}.get(key) for key in self.by),
                ),
                {**row, "value": row[fact]},
            )
            for unit, result in results
            for row in ({**result, **own} for own in result.get("rows", [{}]))
            for metric, fact in self.metrics.items()
            if fact in row
        )
        fields = ("method", "metric", *self.by)
        return [
            record(
                **{**summary(rows), **self.more(rows), **dict(zip(fields, key, strict=True))},
                dataset=name,
            )
            for key, rows in groups.items()
        ]


class Unit(NamedTuple):
    """The least that is run at a time."""

    experiment: Experiment
    source: Source
    method: str
    learner: Any
    case: dict[str, Any]  # what tells it from others of the same learner

    @property
    def key(self):
        """Name of the stored result, another one wherever data, case or code differ."""
        data = content_of(*(self.source.folder / file for file in self.source.files))
        measure = self.experiment.measure.__qualname__
        identity = [self.source.name, self.method, measure, self.case, data, code_of_all_results()]
        return hashlib.sha256(json.dumps(plain(identity), sort_keys=True).encode()).hexdigest()[:20]

    @property
    def title(self):
        """Its name in the progress lines."""
        scalars = [f"{k} {v}" for k, v in self.case.items() if isinstance(v, (int, float, str))]
        return f"{self.source.name}, {self.method} {' '.join(scalars)}".strip()

    def run(self):
        """Its result, with its seconds on the wall and of CPU, and where it was measured.

        A fit that was interrupted keeps what it has and warns; that is no result.
        """
        started, before = time.perf_counter(), sum(os.times()[:4])  # with ended processes
        with warnings.catch_warnings():
            warnings.simplefilter("error", InterruptedFitWarning)
            result = self.experiment.measure(self.source, self.learner, **self.case)
        spent = {"unit_seconds": time.perf_counter() - started}
        spent["unit_cpu_seconds"] = sum(os.times()[:4]) - before
        return plain({"run": this_run(), "result": {**result, **spent}})


@cache
def code_of_all_results():
    """Hash of the library and the benchmarks, and what else changes numbers."""
    sources = sorted(path for folder in MEASURED for path in (ROOT / folder).rglob("*.py"))
    return [content_of(*sources), *versions(), *CODE.values()]


@lru_cache(maxsize=512)
def content_of(*paths):
    """Hash of files and of all that is in folders; FileNotFoundError says where they should be."""
    digest = hashlib.sha256()
    for path in paths:
        if not path.exists():
            where = "/".join(path.parts[-3:])
            raise FileNotFoundError(
                f"{path} is missing; --data must name a directory that has {where}."
            )
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(file.name.encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


class Runner:
    """Runs units one after the other, with a line on stderr for each of ``n_units``.

    Results are kept in a folder, a file for each key of a unit.  ``failures`` are the titles of the
    units that raised an exception.
    """

    def __init__(self, folder, n_units):
        self.folder, self.n_units, self.n_done = folder, n_units, 0
        self.started = time.perf_counter()
        self.failures = []

    def kept(self, unit):
        """A unit's ``result`` and the ``run`` that it is of; empty if none can be read."""
        with suppress(OSError, ValueError):
            stored = json.loads(self._file(unit).read_text())
            return stored
        return {}

    def _file(self, unit):
        return self.folder / f"{unit.key}.json"

    def finish(self, units):
        """Results of the units, kept ones included; failed ones are left out."""
        stored = ((unit, self._finish_one(unit)) for unit in units)
        return [(unit, one["result"]) for unit, one in stored if one]

    def _finish_one(self, unit):
        """One result, kept or by running the unit."""
        self.n_done += 1
        if stored := self.kept(unit):
            self._say(unit, "kept")
            return stored
        self._say(unit, "...")  # the last line if the process is killed
        try:
            write_text(self._file(unit), json.dumps(unit.run(), indent=1, allow_nan=False))
        except InterruptedFitWarning:
            raise KeyboardInterrupt from None
        except Exception:
            self.failures.append(unit.title)
            self._say(unit, f"FAILED\n{traceback.format_exc()}")
        return self.kept(unit)

    def _say(self, unit, text):
        seconds = time.perf_counter() - self.started
        line = f"[{self.n_done}/{self.n_units} {seconds:6.0f} s] {unit.title}: {text}"
        print(line, file=sys.stderr, flush=True)
