"""The pass over all distinct thresholds at the end of training."""

import numpy as np
import pytest

from structboost.learners import all_thresholds
from structboost.learners.all_thresholds import largest_edges
from structboost.learners.binning import bin_features


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("direction", [None, 1, -1])
def test_edges_are_those_of_every_stump_however_equal_values_are_sorted(
    dtype, direction, monkeypatch
):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(500, 2)) * 40).astype(dtype)
    duals = rng.normal(size=(500, 3)) * (rng.random(500) < 0.9)[:, None]
    directions = None if direction is None else np.full(2, direction, np.int8)
    given = X, bin_features(X).bins, np.arange(2), duals, -1.0, 1.0, directions

    found = largest_edges(*given)
    splits = [np.zeros(500, bool), *(X[:, f] <= v for f in range(2) for v in np.unique(X[:, f]))]
    rising = np.array([np.where(left, -1.0, 1.0) @ duals for left in splits])
    total = np.abs(duals.sum(axis=0))
    either = {None: np.abs(rising), 1: rising, -1: -rising}[direction].max(axis=0)
    np.testing.assert_allclose(found, np.maximum(either, total))

    def backwards(column):
        return len(column) - 1 - np.argsort(column[::-1], kind="stable")

    monkeypatch.setattr(all_thresholds, "_any_order", backwards)
    np.testing.assert_array_equal(largest_edges(*given), found)
