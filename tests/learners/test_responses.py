"""Answers that are looked up have the sums of answers that are stored."""

import numpy as np
import pytest

from structboost.contract.measures import SparseFeature
from structboost.learners.binning import bin_features
from structboost.learners.block_measures import block_measure
from structboost.learners.responses import ResponsesInShard, StoredResponses
from structboost.learners.stump import Stump, StumpResponses
from structboost.learners.terms import Terms

N_ROWS, N_CHANNELS, FIRST = 40, 3, 8


class ByRow(ResponsesInShard):
    """Responses in a shard with nothing but ``answers`` of its own."""

    def __init__(self, n_rows):
        super().__init__(np.zeros((n_rows, 1)), np.array([0, n_rows]))

    def add(self, new):
        self.matrix = new
        return 0

    def answers(self, learners, rows):
        return self.matrix[learners, rows]


@pytest.mark.parametrize("n_levels", [2, 3, 30])
def test_stumps_have_the_sums_of_their_answers(n_levels):
    """With two levels, a few, and more than are kept as codes."""
    rng = np.random.default_rng(n_levels)
    binned = bin_features(rng.integers(0, 9, (N_ROWS, 4)).astype(float))
    feature, left = rng.integers(0, 4, 6), rng.normal(size=6)
    bins = np.append(rng.integers(0, 7, 5), -1)
    columns = zip(feature, np.zeros(6), left, -2.0 * left, bins, strict=True)
    stumps = [Stump(*column) for column in columns]
    answers = np.where((binned.codes[feature] <= bins[:, None]), left[:, None], -2 * left[:, None])
    looked_up, stored = StumpResponses(binned), StoredResponses(N_ROWS)
    by_row = ByRow(N_ROWS)
    assert looked_up.add(stumps) == stored.add(answers) == by_row.add(answers) == 0
    terms = Terms(*rng.integers(0, (6, 6, N_CHANNELS), (9, 3)).T.copy(), rng.normal(size=9))

    n_entries = 60
    parts, channels = rng.integers(0, (N_ROWS - FIRST, N_CHANNELS), (n_entries, 2)).T.copy()
    values = rng.normal(size=n_levels)[rng.integers(0, n_levels, n_entries)]
    measure = block_measure(
        SparseFeature(parts, channels, values), N_CHANNELS, np.array([0, n_entries]), np.ones(1)
    )
    assert (len(measure.codes) > 0) == (n_levels < 30)
    expected = np.zeros(9)
    for t, (_, learner, channel, _) in enumerate(zip(*terms, strict=True)):
        own = channels == channel
        expected[t] = values[own] @ answers[learner, FIRST + parts[own]]
    expected_scores = np.zeros((N_CHANNELS, N_ROWS - FIRST))
    for _, learner, channel, coefficient in zip(*terms, strict=True):
        expected_scores[channel] += coefficient * answers[learner, FIRST:]
    for responses in (looked_up, stored, by_row):
        out, scores = np.zeros(9), np.zeros_like(expected_scores)
        responses.add_products(terms, measure, FIRST, out)
        responses.add_scores(terms, FIRST, scores)
        np.testing.assert_allclose(out, expected, atol=1e-12)
        np.testing.assert_allclose(scores, expected_scores, atol=1e-12)
