"""Trainings that take turns, and what is made of their seconds."""

from functools import partial
from multiprocessing import get_context

import pytest

from benchmarks.ours.engines import ALONE, SIDE_BY_SIDE
from benchmarks.ours.races import race, side_by_side
from benchmarks.papers.scale import race_records


def training(name, rounds, diary, after_round):
    for r in range(rounds):
        diary.append((name, r))
        after_round()
    return f"{name} has ended"


def test_trainings_take_turns():
    diary = []
    seconds, said = race([partial(training, name, 3, diary) for name in "ab"], 3)
    assert seconds.shape == (2, 3)
    assert diary == [(name, r) for r in range(3) for name in "ab"]
    assert said == ["a has ended", "b has ended"]


def test_a_training_that_ends_too_soon_is_not_waited_for():
    with pytest.raises(RuntimeError, match="before its last round"):
        race([partial(training, "a", 1, [])], 3)


def failing(after_round):
    after_round()
    raise ValueError("no second round")


def test_errors_of_a_training_come_out():
    with pytest.raises(ValueError, match="no second round"):
        race([failing], 2)


def meeting(barrier, after_round):
    while True:
        barrier.wait(30)
        after_round()


def test_processes_do_their_rounds_at_the_same_time():
    barrier = get_context("spawn").Barrier(2)
    both = partial(side_by_side, partial(meeting, barrier), 2, 3)
    assert race([both], 3)[0].shape == (1, 3)


def test_ratios_are_of_the_same_round():
    def entry(engine, workers, *seconds, objective="same"):
        entry = {"engine": engine, "workers": workers, "seconds": seconds, "start_seconds": 1.0}
        return {**entry, "objective": objective} if objective else entry

    pools = [
        entry("serial", 1, 1.0, 4.0, 2.0),
        entry("processes", 1, 2.0, 6.0, 3.0),
        entry("processes", 2, 1.0, 4.0, 2.0, objective="another"),
        entry(*ALONE, 1.0, 2.0, 1.0, objective=None),
        entry(*SIDE_BY_SIDE, 1.25, 2.5, 1.0, objective=None),
    ]
    one = [entry("serial", 1, 1.0, 1.0, 1.0), entry("dask", 1, 2.0, 2.0, 2.0)]
    two = [entry("serial", 1, 2.0, 2.0, 2.0), entry("dask", 2, 2.0, 2.0, 2.0)]
    found = {(r["method"], r["workers"]): r for r in race_records("made", 10, [pools, one, two])}
    assert found["processes", 1]["overhead_seconds"] == 1.0
    assert found["processes", 2]["speed_up"] == 1.5
    assert not found["processes", 2]["same"]
    assert found["processes", 1]["same"]
    assert found[SIDE_BY_SIDE]["speed_up"] == 1.6
    assert found["dask", 1]["speed_up"] == 0.5
    assert found["dask", 2]["speed_up"] == 2.0
    assert found["dask", 2]["overhead_seconds"] == 0.0
    assert ALONE not in found
