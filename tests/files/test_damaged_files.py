"""Damaged and crafted files never end the interpreter, raise foreign errors, or load wrongly."""

import pytest

from tests.helpers.damaged_files.kinds import KINDS, SLOW
from tests.helpers.damaged_files.outcomes import outcome


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_variants"),
    [(name, 8 if name in SLOW else 30) for name in KINDS if name != "linear segmenter"],
)
def test_damaged_files_are_refused_or_are_what_was_saved(name, n_variants, originals):
    outcomes = {seed: outcome(originals, name, seed) for seed in range(n_variants)}
    assert not {seed: found for seed, found in outcomes.items() if found[0][0].isupper()}
    assert any(result == "refused" for result, _ in outcomes.values())
