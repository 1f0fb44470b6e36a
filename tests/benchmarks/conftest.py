"""Benchmarks compare with packages that nothing else needs: without them tests are left out."""

from __future__ import annotations

import pytest

PEERS = ("dask", "distributed", "lightgbm")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip a test that misses one of the peers."""
    try:
        return (yield)
    except ImportError as error:
        missing = error.__cause__ if isinstance(error.__cause__, ImportError) else error
        name = (missing.name or "").partition(".")[0]
        if name in PEERS:
            pytest.skip(f"{name} is not installed")
        raise
