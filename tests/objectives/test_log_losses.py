"""Losses of held-out examples by their likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax

from structboost import MulticlassTask
from structboost.contract.parts import StackedParts
from structboost.objectives.likelihood import log_losses


class NoRows:
    """A table without single rows, as sparse ones of scipy before 1.15."""

    def __init__(self, n):
        self.shape = (n, 2)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, i):
        raise NotImplementedError("there are no single rows")


def test_inputs_that_a_task_does_not_read_are_not_taken_apart():
    rng = np.random.default_rng(0)
    y, scores = rng.integers(0, 3, 8), rng.normal(size=(8, 3))
    task = MulticlassTask(3)
    (kind,) = task.kinds
    stack = StackedParts({kind: scores}, {kind: np.arange(9)})
    found = log_losses(task, NoRows(8), y, stack, 2.0)
    assert found == pytest.approx(-log_softmax(2.0 * scores, axis=1)[np.arange(8), y])
