"""Rows of the page *structures*: what a unit of a structure measures."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.runner.sources import code_version
from benchmarks.runner.units import Result, Unit

BENCHMARK = "structures"


class Row(NamedTuple):
    """A method, how it is measured, and the value of one metric on test data."""

    method: str
    metric: str
    value: float
    facts: dict[str, Any] = {}  # chosen settings, CPU seconds of the last fit


class Run(NamedTuple):
    """Rows that are measured together, because they share a classifier.

    ``rows(data, quick)`` tunes on training data only, and gives the rows; from fewer candidates if
    ``quick``. ``packages`` are those whose versions count.
    """

    name: str
    rows: Callable[[Any, bool], list[Row]]
    packages: tuple[str, ...] = ()


def unit(
    module: str, dataset: str, content: str, data: Callable[[], Any], run: Run, quick: bool
) -> Unit:
    """The unit of a run of a module on a data set; ``data()`` reads it."""

    def result() -> Result:
        rows = run.rows(data(), quick)
        return {"rows": [row._asdict() for row in rows], "value": rows[-1].value}

    code = code_version([__name__, module], run.packages)
    return Unit(BENCHMARK, dataset, run.name, {"quick": quick}, f"{content} {code}", result)


def content_of(path: Path) -> str:
    """Hash of a file; FileNotFoundError says where it should be."""
    if not path.is_file():
        where = "/".join(path.parts[-3:])
        raise FileNotFoundError(f"{path} is missing; --data must name a directory with {where}.")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


@contextmanager
def cpu_seconds(facts: dict[str, Any]) -> Iterator[None]:
    """Put the CPU seconds of a block into ``facts``."""
    began = time.process_time()
    yield
    facts["seconds"] = time.process_time() - began
