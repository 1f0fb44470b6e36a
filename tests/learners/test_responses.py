"""Answers that are looked up, sparse or computed have the sums of answers that are stored."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from structboost.contract.parts import SparseFeature
from structboost.errors import TaskError
from structboost.learners.binning import bin_features
from structboost.learners.linear_function import FunctionResponses
from structboost.learners.responses import SparseResponses, StoredResponses, block_measure
from structboost.learners.stump import Stump, StumpResponses
from structboost.learners.terms import Terms
from structboost.learners.union import UnionCodes, UnionResponses

N_ROWS, N_CHANNELS, FIRST = 40, 3, 8


def stumps_and_answers(rng):
    binned = bin_features(rng.integers(0, 9, (N_ROWS, 4)).astype(float))
    feature, left = rng.integers(0, 4, 6), rng.normal(size=6)
    bins = np.append(rng.integers(0, 7, 5), -1)
    columns = zip(feature, np.zeros(6), left, -2.0 * left, bins, strict=True)
    answers = np.where((binned.codes[feature] <= bins[:, None]), left[:, None], -2 * left[:, None])
    return StumpResponses(binned), [Stump(*column) for column in columns], answers


def responses_of_every_form(rng):
    """Form, the same learners in two parts as it takes them, and their answers."""
    stumps, learners, answers = stumps_and_answers(rng)
    yield stumps, (learners[:4], learners[4:]), answers
    yield StoredResponses(N_ROWS), (answers[:4], answers[4:]), answers
    thin = answers * (rng.random(answers.shape) < 0.4)
    parts = [sparse.csr_array(part) for part in (thin[:4], thin[4:])]
    yield SparseResponses(N_ROWS), parts, thin
    rows, functions = rng.normal(size=(N_ROWS, 5)), rng.normal(size=(6, 5))
    linear = FunctionResponses(rows, np.array([0, N_ROWS]))
    yield linear, (functions[:4], functions[4:]), functions @ rows.T
    own, more, of_stumps = stumps_and_answers(rng)
    both = UnionResponses([own, FunctionResponses(rows, np.array([0, N_ROWS]))])
    codes = [UnionCodes(np.array([0, 1, 0]), (more[at : at + 2], functions[[at]])) for at in (0, 2)]
    order = [of_stumps[0], functions[0] @ rows.T, *of_stumps[1:3], functions[2] @ rows.T]
    yield both, codes, np.array([*order, of_stumps[3]])


@pytest.mark.parametrize("n_levels", [2, 3, 30])
def test_every_form_of_responses_has_the_sums_of_its_answers(n_levels):
    """With two levels, a few, and more than are kept as codes."""
    rng = np.random.default_rng(n_levels)
    terms = Terms(*rng.integers(0, (6, 6, N_CHANNELS), (9, 3)).T.copy(), rng.normal(size=9))
    n_entries = 60
    parts, channels = rng.integers(0, (N_ROWS - FIRST, N_CHANNELS), (n_entries, 2)).T.copy()
    values = rng.normal(size=n_levels)[rng.integers(0, n_levels, n_entries)]
    measure = block_measure(
        SparseFeature(parts, channels, values), N_CHANNELS, np.array([0, n_entries]), np.ones(1)
    )
    assert (len(measure.codes) > 0) == (n_levels < 30)
    for responses, (some, others), answers in responses_of_every_form(rng):
        n_first = len(some) if not sparse.issparse(some) else some.shape[0]
        assert [responses.add(some), responses.add(others)] == [0, n_first]
        out, scores = rng.normal(size=9), rng.normal(size=(N_CHANNELS, N_ROWS - FIRST))
        expected, expected_scores = out.copy(), scores.copy()
        for t, (_, learner, channel, coefficient) in enumerate(zip(*terms, strict=True)):
            at = channels == channel
            expected[t] += values[at] @ answers[learner, FIRST + parts[at]]
            expected_scores[channel] += coefficient * answers[learner, FIRST:]
        responses.add_products(terms, measure, FIRST, out)
        responses.add_scores(terms, FIRST, scores)
        assert_allclose(out, expected, atol=1e-12)
        assert_allclose(scores, expected_scores, atol=1e-12)
        if isinstance(responses, StoredResponses | SparseResponses):
            duals = rng.normal(size=(N_CHANNELS, N_ROWS))
            edges = (answers[terms.learners] * duals[terms.channels]).sum(axis=1)
            assert_allclose(responses.edges(terms, duals), edges, atol=1e-12)


def test_a_family_may_not_change_the_form_of_its_answers():
    held = StoredResponses(3)
    held.add(np.ones((1, 3), np.int8))
    with pytest.raises(TaskError, match="give one form always"):
        SparseResponses.instead_of(held)
