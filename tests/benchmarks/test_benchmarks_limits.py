"""Runs under a time limit.  The measured process imports this module: it stays light."""

import time

import pytest

from benchmarks.runner.limits import peak_memory, reset_peak_memory, run_limited


def sleepy(report, seconds):
    report({"rounds": 1})
    time.sleep(seconds)
    return {"rounds": 2}


def failing(report):
    report({})
    raise ValueError("no")


def test_limit_kills_and_keeps_the_last_report():
    started = time.perf_counter()
    ending = run_limited(0.3, sleepy, 60.0)
    assert ending.result == {"rounds": 1}
    assert not ending.in_time
    assert time.perf_counter() - started < 30


def test_result_in_time():
    ending = run_limited(30.0, sleepy, 0.0)
    assert ending.result == {"rounds": 2}
    assert ending.in_time


def test_failure_is_not_taken_for_a_time_limit():
    with pytest.raises(RuntimeError, match="process died"):
        run_limited(30.0, failing)


def peaking(report):
    before = reset_peak_memory()
    block = bytearray(50_000_000)
    del block
    return {"bytes": peak_memory() - before}


def test_peak_memory_sees_what_was_freed():
    # A fresh process: this one may serve the block from memory that other tests have freed.
    assert run_limited(30.0, peaking).result["bytes"] > 40_000_000
