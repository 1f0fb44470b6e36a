"""Sparse answers, against the same answers as arrays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from structboost.contract.measures import SparseFeature
from structboost.errors import TaskError
from structboost.learners.block_measures import block_measure
from structboost.learners.responses import SparseResponses, StoredResponses
from structboost.learners.terms import Terms


@pytest.mark.parametrize("seed", range(4))
def test_scores_and_products_of_a_block_equal_those_of_arrays(seed):
    rng = np.random.default_rng(seed)
    n_rows, n_channels, first, n_block = 40, 3, 13, 17
    answers = rng.integers(-1, 2, size=(7, n_rows)) * (rng.random((7, n_rows)) < 0.4)
    answers = answers.astype(np.int8)
    dense, thin = StoredResponses(n_rows), SparseResponses(n_rows)
    for some in (answers[:4], answers[4:]):
        assert dense.add(some) == thin.add(sparse.csr_array(some))
    n = 12
    terms = Terms(
        np.arange(n), rng.integers(7, size=n), rng.integers(n_channels, size=n), rng.normal(size=n)
    )
    found = [np.zeros((n_channels, n_block)) for _ in range(2)]
    for responses, out in zip((dense, thin), found, strict=True):
        responses.add_scores(terms, first, out)
    assert np.allclose(*found, rtol=1e-13)
    assert found[0].any()
    entries = SparseFeature(
        rng.integers(n_block, size=9), rng.integers(n_channels, size=9), rng.normal(size=9)
    )
    measure = block_measure(entries, n_channels, np.array([0, 9]), np.ones(1))
    sums = [np.zeros(n) for _ in range(2)]
    for responses, out in zip((dense, thin), sums, strict=True):
        responses.add_products(terms, measure, first, out)
    assert np.allclose(*sums, rtol=1e-12, atol=1e-14)
    assert sums[0].any()


def test_a_family_may_not_change_the_form_of_its_answers():
    held = StoredResponses(3)
    held.add(np.ones((1, 3), np.int8))
    with pytest.raises(TaskError, match="give one form always"):
        SparseResponses.instead_of(held)
