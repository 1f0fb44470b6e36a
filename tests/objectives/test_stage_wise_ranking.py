"""Stage-wise ranking: its sums over pairs by enumeration, its steps by a search, its limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from structboost import MulticlassTask, StructBoost
from structboost.learners.terms import Terms
from structboost.objectives import StageWiseRanking
from structboost.objectives.base import Problem
from structboost.tasks.ranking import RankingTask, WeightedRelevance
from tests.helpers.refusals import refused


def made_booster(seed, levels=4, weighted=True, **parameters):
    """A booster of four queries, one of them without pairs, and what it was made of."""
    rng = default_rng(seed)
    sizes = [5, 1, 7, 6]
    grades = [rng.integers(0, levels, size=n).astype(float) for n in sizes]
    grades[0][:2] = 0.0, 1.0
    weights = [rng.uniform(0.5, 2.0, size=n) if weighted else np.ones(n) for n in sizes]
    Y = [WeightedRelevance(*pair) for pair in zip(grades, weights, strict=True)]
    X = [rng.normal(size=(n, 3)) for n in sizes]
    of_queries = rng.dirichlet(np.ones(4))
    offsets = {"x": np.concatenate(([0], np.cumsum(sizes)))}
    problem = Problem(RankingTask(), X, Y, offsets, of_queries, np.random.RandomState(0))
    return StageWiseRanking(**parameters).start(problem, np.inf), problem


def plain_pairs(problem, gain):
    """Better item, worse item and weight of every pair."""
    pairs = []
    for q, y in enumerate(problem.Y):
        first, gains = problem.offsets["x"][q], gain(y.relevance)
        own = [
            (first + i, first + j, (gains[i] - gains[j]) * y.weights[i] * y.weights[j])
            for i in range(len(gains))
            for j in range(len(gains))
            if gains[i] > gains[j]
        ]
        total = sum(weight for _, _, weight in own)
        pairs += [(i, j, problem.example_weights[q] * weight / total) for i, j, weight in own]
    better, worse, weights = zip(*pairs, strict=True)
    return np.array(better), np.array(worse), np.array(weights)


def add_learner(booster, answers):
    first = booster.add_responses("x", np.array([answers], np.int8))
    terms = Terms(*(np.array([value]) for value in (0, first, 0)), np.ones(1))
    booster.add_columns({"x": terms}, 1)


@given(st.integers(0, 9999), st.sampled_from([0.1, 1.0]), st.integers(2, 5), st.booleans())
def test_loss_duals_and_newton_steps_are_those_of_the_listed_pairs(seed, shrinkage, levels, sure):
    booster, problem = made_booster(seed, levels, shrinkage=shrinkage, largest_step=0.7)
    better, worse, weights = plain_pairs(problem, lambda y: np.exp2(y) - 1.0)
    rng = default_rng(seed)
    scores = np.zeros(problem.offsets["x"][-1])
    for column in range(4):
        losses = weights * np.exp(scores[worse] - scores[better])
        assert booster.risk == pytest.approx(losses.sum())
        duals = np.bincount(better, losses, len(scores)) - np.bincount(worse, losses, len(scores))
        np.testing.assert_allclose(booster.gradient()["x"][:, 0], duals, atol=1e-12)
        answers = rng.choice([-1, 1] if sure else np.arange(-127, 128), len(scores))
        add_learner(booster, answers)
        booster.step(np.array([column]))
        margins = (answers[better] - answers[worse]).astype(float)
        slope, curvature = losses @ margins, losses @ margins**2
        step = 0.0
        if slope > 1e-9:
            step = shrinkage * min(slope / curvature, 0.7 / np.abs(answers).max())
        assert booster.weights[column] == pytest.approx(step, rel=1e-9, abs=1e-12)
        scores += booster.weights[column] * answers


def test_relevance_that_is_no_grade_counts_by_its_rank():
    _, problem = made_booster(3)
    levels = [WeightedRelevance(y.relevance + 0.5, y.weights) for y in problem.Y]
    problem = Problem(*(problem.task, problem.X, levels), *list(vars(problem).values())[3:])
    booster = StageWiseRanking().start(problem, np.inf)
    better, worse, weights = plain_pairs(problem, lambda y: np.unique(y, return_inverse=True)[1])
    duals = np.bincount(better, weights, 19) - np.bincount(worse, weights, 19)
    np.testing.assert_allclose(booster.gradient()["x"][:, 0], duals, atol=1e-12)


def test_huge_scores_stay_finite():
    booster, _ = made_booster(0, weighted=False, shrinkage=1.0, largest_step=1e4)
    add_learner(booster, np.where(np.arange(19) % 2, -1, 1))
    booster.weights[:] = 0.0
    booster._scores[booster._kind][0] += 1e4 * np.arange(19)
    assert np.isfinite(booster.gradient()["x"]).all()
    booster.step(np.array([0]))
    assert np.isfinite(booster.risk)


def test_what_cannot_be_ranked_stage_wise_is_refused():
    X, y = default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    refused(
        r"MulticlassTask has no gains",
        StructBoost(MulticlassTask(3), formulation=StageWiseRanking(), C=np.inf).fit,
        X,
        y,
    )
    refused(
        "gave 29 entries for 30 items",
        StructBoost(RankingTask(), formulation=StageWiseRanking(), C=np.inf).fit,
        [X],
        [y[:-1]],
    )
