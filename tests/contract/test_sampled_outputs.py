"""Tests that check_task samples too many outputs, with a warning."""

import itertools
import warnings

import numpy as np
import pytest

from structboost import check_task
from structboost.errors import SampledOutputsWarning
from structboost.tasks.superpixel_crf import SuperpixelCRFTask, SuperpixelGraph, TrueLabels
from tests.helpers.listed_outputs import (
    Choose,
    candidates,
)


def grids(n=2, side=6):
    """Graphs of ``side**2`` superpixels, and their truth."""
    rng = np.random.default_rng(0)
    number = np.arange(side**2).reshape(side, side)
    across, down = (
        np.stack(pair, axis=-1)
        for pair in ((number[:, :-1], number[:, 1:]), (number[:-1], number[1:]))
    )
    edges = np.concatenate((across.reshape(-1, 2), down.reshape(-1, 2)))
    X = [
        SuperpixelGraph(rng.normal(size=(side**2, 2, 2)), edges, rng.random((len(edges), 1)))
        for _ in range(n)
    ]
    return X, [TrueLabels(rng.integers(0, 2, side**2), rng.random(side**2)) for _ in range(n)]


@pytest.mark.slow
def test_too_many_outputs_are_sampled_with_a_warning():
    X, Y = grids()
    with pytest.warns(
        SampledOutputsWarning,
        match=r"For 2 of 2 examples, the first of which is X\[0\], .* max_outputs",
    ) as said:
        check_task(SuperpixelCRFTask(2), X, Y, max_outputs=40)
    assert len(said) == 1
    assert said[0].filename == __file__


class Endless(Choose):
    """Task that lists its outputs without end, and counts them."""

    def __init__(self, listed):
        self.listed = listed

    def outputs(self, x):
        for k in itertools.count():
            self.listed.append(k)
            yield k % len(x)

    def __reduce__(self):
        return (Choose, ())


def test_at_most_max_outputs_are_listed():
    listed = []

    X, Y = candidates(3)
    with pytest.warns(SampledOutputsWarning, match="For 3 of 3 examples"):
        check_task(Endless(listed), X, Y, max_outputs=7)
    assert listed == [*range(8)] * 3
    with pytest.warns(SampledOutputsWarning, match="For 3 of 3 examples"):
        check_task(Choose(), X, Y, outputs=[itertools.repeat(0)] * 3, max_outputs=7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_task(Choose(), X, Y, max_outputs=max(map(len, X)))
    with pytest.raises(ValueError, match="max_outputs is 0"):
        check_task(Choose(), X, Y, max_outputs=0)
