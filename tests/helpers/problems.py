"""A problem as masters get it, without a trainer."""

import numpy as np

from structboost.objectives import Problem


def problem_of(task, y):
    """A problem whose examples have one part each, all of the same weight."""
    n = len(y)
    (kind,) = task.kinds
    random = np.random.RandomState(0)
    return Problem(task, None, y, {kind: np.arange(n + 1)}, np.full(n, 1 / n), random)
