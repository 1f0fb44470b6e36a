"""Settings of the tests of weak learners."""

from __future__ import annotations

import pytest

from structboost.learners import tree_histograms


@pytest.fixture(autouse=True, scope="module")
def one_sparse_column_is_enough():
    """Few columns of a small table are counted as many of a large one are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_histograms, "_FEWEST_SPARSE", 1)
        yield
