"""Rows of the page *structures*: a unit has those that share a classifier."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from benchmarks.runner.experiment import Learner, Result, Source


class Row(NamedTuple):
    """A method, how it is measured, and the value of one metric on test data."""

    method: str
    metric: str
    value: float
    facts: dict[str, Any] = {}  # chosen settings, CPU seconds of the last fit


def rows_of(source: Source, learner: Learner) -> Result:
    """All rows of a learner, which tunes on training data only; with fewer candidates if quick."""
    rows: list[Row] = learner.fit(source)
    return {"rows": [row._asdict() for row in rows], "value": rows[-1].value}


@contextmanager
def cpu_seconds(facts: dict[str, Any]) -> Iterator[None]:
    """Put the CPU seconds of a block into ``facts``."""
    began = time.process_time()
    yield
    facts["seconds"] = time.process_time() - began
