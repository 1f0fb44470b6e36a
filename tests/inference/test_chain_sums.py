"""Sums and searches over chains of many tags and of many tokens."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from structboost.inference import forward_backward, graph_marginals, viterbi
from structboost.inference.chain import _exponentiate


@settings(max_examples=100)
@given(st.lists(st.floats(-2000, 0) | st.just(-np.inf), min_size=1, max_size=20))
def test_exponentials_are_exact_to_the_last_bits(values):
    own = np.array(values)
    _exponentiate(own, np.empty(len(own)))
    assert_allclose(own, np.exp(values), rtol=1e-15, atol=1e-300)


@pytest.mark.parametrize(
    ("n_tokens", "n_tags", "size"), [(4, 70, 1.0), (600, 4, 3.0), (5, 65, 90.0)]
)
def test_sums_of_long_chains_and_many_tags_are_those_of_logarithms(n_tokens, n_tags, size):
    rng = default_rng(0)
    emissions = size * rng.normal(size=(n_tokens, n_tags))
    pairs = size * rng.normal(size=(n_tags, n_tags))
    pairs[rng.random(pairs.shape) < 0.1] = -np.inf
    of_tags, of_pairs, log_sum = forward_backward(emissions, pairs)
    forward = emissions[0]
    for own in emissions[1:]:
        forward = np.logaddexp.reduce(forward[:, None] + pairs, axis=0) + own
    assert log_sum == pytest.approx(np.logaddexp.reduce(forward), rel=1e-12)
    assert_allclose(of_tags[-1], np.exp(forward - log_sum), atol=1e-9)
    assert_allclose(of_tags.sum(axis=1), 1.0)
    assert of_pairs.sum() == pytest.approx(n_tokens - 1)


@pytest.mark.parametrize("size", [1e8, 1e16, 1e300])
def test_probabilities_sum_to_1_at_scores_of_any_size(size):
    own, pairs = default_rng(0).normal(size=(4, 2)), np.array([[0.5, size], [-0.5, 1.9]])
    of_tags, of_pairs, _ = forward_backward(own, pairs)
    edges = [[0, 1], [1, 2], [1, 3]]
    of_nodes, of_edges, _ = graph_marginals(own, edges, [pairs] * 3)
    for sums in (of_tags.sum(1), of_nodes.sum(1), of_edges.sum((1, 2)), of_pairs.sum() / 3):
        assert_allclose(sums, 1.0, rtol=1e-12)


@pytest.mark.parametrize("forbids", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_many_tags_have_the_best_sequence_and_the_same_ties(seed, forbids):
    rng = default_rng(seed)
    n_tokens, n_tags = 12, 70
    # Whole numbers, so that many sequences are equally good.
    emissions = rng.integers(0, (3, 30, 300)[seed % 3], (n_tokens, n_tags)).astype(float)
    pairs = rng.integers(0, 4, (n_tags, n_tags)).astype(float)
    if forbids:
        pairs[rng.random(pairs.shape) < 0.2] = -np.inf
    scores = [emissions[0]]
    for own in emissions[1:]:
        scores.append((scores[-1][:, None] + pairs).max(axis=0) + own)
    tags = [int(np.argmax(scores[-1]))]
    for before in scores[-2::-1]:
        tags.insert(0, int(np.argmax(before + pairs[:, tags[0]])))
    assert viterbi(emissions, pairs).tolist() == tags


@pytest.mark.parametrize("size", [300.0, 560.0, 575.0])
def test_tags_that_nothing_leads_to_may_have_a_sum_beyond_the_range(size):
    # Tag 0 would be more likely by far at token 1, and at what follows, but is forbidden after all.
    emissions = np.array([[0.0, 0.0], [0.0, -size], [0.0, 0.0]])
    pairs = np.array([[-np.inf, 0.0], [-np.inf, -size]])
    of_tags, of_pairs, log_sum = forward_backward(emissions, pairs)
    assert_allclose(of_tags, [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], atol=1e-12)
    assert_allclose(of_pairs, [[0.0, 1.0], [0.0, 1.0]], atol=1e-12)
    assert log_sum == pytest.approx(-2.0 * size)


def test_scores_beyond_the_precision_of_their_sum_give_probabilities():
    for seed in range(10):
        rng = default_rng(seed)
        emissions, pairs = 1e150 * rng.normal(size=(20, 5)), 1e150 * rng.normal(size=(5, 5))
        of_tags, of_pairs, _ = forward_backward(emissions, pairs)
        assert np.isfinite(of_pairs).all()
        assert_array_equal(of_tags.argmax(axis=1), viterbi(emissions, pairs))
        assert_allclose(of_tags.sum(axis=1), 1.0)
        assert of_pairs.sum() == pytest.approx(19.0)
