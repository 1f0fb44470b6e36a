"""Orders of several grades that have no better one nearby."""

import numpy as np
import pytest

from structboost.inference.ranking import TopMeasure, most_violated_graded_order


def test_a_long_list_of_which_ten_places_count_has_no_worse_order_nearby():
    rng = np.random.default_rng(0)
    n, n_pairs = 500, 5e4
    gains, scores = 2.0 ** rng.integers(0, 4, n) - 1, rng.normal(size=n)
    heights, loss = most_violated_graded_order(scores, gains, n_pairs, TopMeasure("ndcg", 10))
    discounts = np.where(np.arange(n) < 10, 1 / np.log2(np.arange(2.0, n + 2.0)), 0.0)
    surplus = np.arange(n - 1.0, -n, -2.0) / (2.0 * n_pairs)

    def value(order):
        return scores[order] @ surplus - gains[order] @ discounts / (discounts @ -np.sort(-gains))

    order = np.argsort(-heights)
    best = value(order)
    assert loss == pytest.approx(1 - gains[order] @ discounts / (discounts @ -np.sort(-gains)))
    for _ in range(2000):
        i, j = rng.integers(0, (20, n))
        other = order.copy()
        other[[i, j]] = other[[j, i]]
        assert value(other) <= best + 1e-12
