"""The garbage collector pauses in imports and compilation, and goes on afterwards."""

import gc
import subprocess
import sys

import pytest

from structboost.runtime.memory import CollectorPause


def fail_while_paused(pause):
    with pause:
        with pause:
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError("within the pause")


def test_the_collector_goes_on_at_the_last_end_also_after_an_error():
    with pytest.raises(ValueError, match="within the pause"):
        fail_while_paused(CollectorPause())
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with CollectorPause():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.slow
def test_an_import_of_a_name_makes_no_full_collection():
    code = (
        "import gc, structboost; before = gc.get_stats()[2]['collections']; "
        "structboost.StructBoostClassifier; "
        "assert gc.isenabled(); print(gc.get_stats()[2]['collections'] - before)"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert printed.split() == ["0"]
