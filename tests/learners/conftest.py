"""Settings of the tests of weak learners."""

import pytest

from structboost.learners import histogram


@pytest.fixture(autouse=True, scope="module")
def small_tables_are_as_large_ones():
    """Columns and rows of a small table are taken as those of a large one are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histogram, "_FEWEST_SPARSE", 1)
        yield
