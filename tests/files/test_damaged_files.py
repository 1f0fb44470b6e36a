"""Damaged and crafted files never end the interpreter, raise foreign errors, or load wrongly."""

import tracemalloc
from contextlib import suppress

import numpy as np
import pytest

from tests.helpers.damaged_files.archives import header_of, put_together, taken_apart
from tests.helpers.damaged_files.kinds import KINDS, SLOW
from tests.helpers.damaged_files.outcomes import ERRORS, outcome


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_variants"),
    [(name, 8 if name in SLOW else 30) for name in KINDS if name != "linear segmenter"],
)
def test_damaged_files_are_refused_or_are_what_was_saved(name, n_variants, originals):
    outcomes = {seed: outcome(originals, name, seed) for seed in range(n_variants)}
    assert not {seed: found for seed, found in outcomes.items() if found[0][0].isupper()}
    assert any(result == "refused" for result, _ in outcomes.values())


def whole_numbers(place, way=()):
    """Yield the ways to whole numbers of a header, in lists to those of the first entry."""
    for key, value in place.items() if isinstance(place, dict) else enumerate(place[:1]):
        if isinstance(value, dict | list):
            yield from whole_numbers(value, (*way, key))
        elif type(value) is int:
            yield (*way, key)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [name for name in KINDS if KINDS[name].file == "file" and name not in SLOW]
)
def test_no_number_of_a_header_takes_memory_that_the_file_does_not_fill(name, originals):
    content = originals.of(name)[0]["file"]
    for way in whole_numbers(taken_apart(content)[0]):
        header, arrays = taken_apart(content)
        header_of(1 << 24, *way)(header, arrays)
        tracemalloc.start()
        with suppress(*ERRORS), np.errstate(all="ignore"):
            originals.used(name, {"file": put_together(header, arrays, sealed=True)})
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 25, way
