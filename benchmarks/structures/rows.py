"""Rows of the page *structures*: a unit has those that share a classifier."""

from typing import Any, NamedTuple

import numpy as np

from benchmarks.runner.protocol import cpu_timed


class Row(NamedTuple):
    """A method, how it is measured, and the value of one metric on test data."""

    method: str
    metric: str
    value: float
    facts: dict[str, Any] = {}  # chosen settings, CPU seconds of the last fit


def rows_of(source, learner):
    """All rows of a learner, which tunes on training data only."""
    rows = learner.fit(source)
    return {"rows": [row._asdict() for row in rows], "value": rows[-1].value}


def tuned(candidates, value, fit, name="C"):
    """The fit with the first candidate of the largest value, and facts about it."""
    values = [float(value(one)) for one in candidates]
    chosen = candidates[int(np.argmax(values))]
    model, seconds = cpu_timed(fit, chosen)
    return model, {name: chosen, "validation": values, "seconds": seconds}
