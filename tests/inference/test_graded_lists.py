"""Both searches for the order of several grades find orders of one value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost.inference.ranking import (
    most_violated_graded_order,
    places_by_assignment,
    places_by_counts,
)


def discounted(n, k):
    return np.where(np.arange(n) < (k or n), 1 / np.log2(np.arange(2.0, n + 2.0)), 0.0)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(2, 16), st.integers(1, 4), st.sampled_from([0, 1, 2, 5]))
def test_both_searches_of_graded_lists_find_orders_of_one_value(seed, n, n_grades, k):
    rng = np.random.default_rng(seed)
    scores = rng.normal(scale=rng.choice([0.1, 1.0, 10.0]), size=n)
    if seed % 2:
        scores = (8 * scores).round() / 8  # ties
    scores = -np.sort(-scores)
    gains = 2.0 ** rng.integers(0, n_grades, n) - rng.integers(2)
    gains[0] = 2.0**n_grades
    discounts = discounted(n, k)
    shares = gains / (discounts @ -np.sort(-gains))
    grades, grade_of = np.unique(shares, return_inverse=True)
    n_pairs = float(rng.integers(1, n * n))
    limits = np.minimum(np.bincount(grade_of), k or n)
    surplus = np.arange(n - 1.0, -n, -2.0) / (2.0 * n_pairs)
    found = [
        places_by_assignment(scores, shares, discounts, n_pairs),
        places_by_counts(scores, grade_of, grades, discounts, n_pairs, limits),
    ]
    assert all(sorted(places) == list(range(n)) for places in found)
    values = [scores @ surplus[places] - shares @ discounts[places] for places in found]
    assert values[1] == pytest.approx(values[0], rel=1e-9, abs=1e-9)


def test_a_long_list_of_which_ten_places_count_has_no_worse_order_nearby():
    rng = np.random.default_rng(0)
    n, n_pairs = 500, 5e4
    gains, scores = 2.0 ** rng.integers(0, 4, n) - 1, rng.normal(size=n)
    heights, loss = most_violated_graded_order(scores, gains, n_pairs, 10)
    discounts = discounted(n, 10)
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
