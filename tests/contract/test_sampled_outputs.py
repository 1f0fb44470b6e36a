"""Tests that check_task samples too many outputs, with a warning."""

import itertools
import warnings

import numpy as np
import pytest

from structboost.contract import check_task as checks
from structboost.contract.check_task import check_task, mixture
from structboost.contract.parts import deep_copy, deeply_equal
from structboost.contract.task import Task
from structboost.errors import SampledOutputsWarning, TaskError
from structboost.tasks.ranking import PairOrder
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


class TiesTwo(SuperpixelCRFTask):
    """Task whose argmax gives the first two superpixels one label, which late outputs beat."""

    def argmax(self, x, scores, y=None):
        energies = scores.reshape(-1, 2).copy()
        if y is not None:
            energies[np.arange(len(energies)), y.labels] += y.areas
        energies[:2] = energies[:2].sum(axis=0)
        return energies.argmin(axis=1)

    separate = Task.separate


class TiesTwoSilently(TiesTwo):
    is_valid = Task.is_valid


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
    with pytest.raises(TaskError, match=r"is not exact: .*the valid output array\("):
        check_task(TiesTwo(2, pairwise=False), X, Y, max_outputs=2000)
    # Without is_valid there are no mixtures: the first outputs alone do not find it.
    with pytest.warns(SampledOutputsWarning):
        check_task(TiesTwoSilently(2, pairwise=False), X, Y, max_outputs=2000)


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
    for name in ("max_outputs", "max_seconds"):
        with pytest.raises(ValueError, match=f"{name} is 0"):
            check_task(Choose(), X, Y, **{name: 0})


def test_listing_ends_when_its_time_is_up(monkeypatch):
    seconds = itertools.count()
    monkeypatch.setattr(checks.time, "monotonic", lambda: float(next(seconds)))
    listed = []

    with pytest.warns(SampledOutputsWarning, match="For 3 of 3 examples"):
        check_task(Endless(listed), *candidates(3), max_outputs=10**6, max_seconds=60.0)
    # A look at the clock takes a second here: half of each example's 20 seconds or more go into the
    # listing.
    assert 3 * 9 <= len(listed) <= 60


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.zeros(6, np.int64), np.ones(6, np.int64)),
        (np.zeros((4, 2)), np.ones((4, 2))),
        ([0] * 5, [1] * 5),
        ((0,) * 5, (1,) * 5),
    ],
)
def test_mixtures_have_the_same_form_and_often_differ_in_one_entry(first, second):
    rng = np.random.default_rng(0)
    before = deep_copy(first), deep_copy(second)
    changes = []
    for _ in range(60):
        mixed = mixture(first, second, rng)
        assert type(mixed) is type(first)
        assert np.shape(mixed) == np.shape(first)
        changed = np.not_equal(mixed, first).reshape(len(first), -1)
        assert (changed.all(axis=1) == changed.any(axis=1)).all()
        changes.append(int(changed.any(axis=1).sum()))
    assert changes.count(1) >= 20
    assert max(changes) >= len(first) - 1
    assert min(changes) >= 1
    assert deeply_equal(before, (first, second))


def test_values_of_different_forms_are_not_mixed():
    rng = np.random.default_rng(0)
    order = PairOrder(np.zeros(2), 0.0)
    for first, second in (
        (1, 2), ("ab", "cd"), ([1], [1, 2]), ([], []), ([1], (1,)), (order, order), (np.array(1),
        np.array(2)),
        (np.zeros(2), np.zeros(2, np.int64)), (np.zeros(2), np.zeros(3)), ({1: 2}, {1: 3}),
    ):  # fmt: skip
        assert mixture(first, second, rng) is None
