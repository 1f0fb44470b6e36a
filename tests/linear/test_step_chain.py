"""Chains whose transitions depend on features, against enumeration and a general solver."""

from itertools import pairwise, product

import numpy as np
import pytest

from structboost import ChainTask
from structboost.linear.dual_chain import DualChain, chain_problem
from structboost.linear.primal_chain import PrimalChain
from structboost.linear.primal_likelihood import PrimalLikelihood
from structboost.tasks.chain import Stretch

N_TAGS, ACTIVE = 3, ["token", "step"]
FORBIDDEN = [(0, 2), (None, 1), (2, None)]


def examples(rng, n=8, *, longest=4, vectors=False):
    """Inputs of active features of tokens and steps, and tags that the task allows."""
    task = ChainTask(N_TAGS, step_features=True, vectors=vectors, forbidden=FORBIDDEN)
    X, Y = [], []
    for i in range(n):
        size = int(rng.integers(1, longest + 1))
        tokens = np.sort([rng.choice(5, 2, replace=False) for _ in range(size)])
        steps = np.array([rng.choice(4, 2, replace=False) for _ in range(size - 1)])
        steps = np.where(rng.random((size - 1, 2)) < 0.3, -1, steps.reshape(-1, 2)).astype(int)
        more = [rng.normal(size=(size, 2))] if vectors else []
        x = (tokens, *more, steps)
        X.append(Stretch(x, begins=bool(i % 2), ends=True) if i % 3 == 0 else x)
        outputs = list(task.outputs(X[-1]))
        Y.append(outputs[rng.integers(len(outputs))])
    # All features are in training, whatever the seed.
    all_steps = np.array([[0, 1], [2, 3]])
    x = (np.array([[0, 1], [2, 3], [3, 4]]), *([np.zeros((3, 2))] if vectors else []), all_steps)
    return task, [*X, x], [*Y, np.array([0, 1, 1])]


def score(task, problem, weights, x, y):
    """The score of tags, feature by feature."""
    content = x.x if isinstance(x, Stretch) else x
    tokens, steps = content[0], content[-1]
    total = 0.0
    for t, tag in enumerate(y):
        total += weights["token"][-1, tag]
        total += sum(weights["token"][f, tag] for f in tokens[t] if f >= 0)
        if task.vectors:
            total += (problem.designs["vector"].matrix(content[1][t : t + 1]) @ weights["vector"])[
                0, tag
            ]
        if t:
            pair = y[t - 1] * N_TAGS + tag
            total += weights["step"][-1, pair]
            total += sum(weights["step"][f, pair] for f in steps[t - 1] if f >= 0)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("vectors", [False, True])
def test_objective_and_gradient_equal_those_of_all_tags_one_by_one(vectors):
    rng = np.random.default_rng(1)
    task, X, Y = examples(rng, vectors=vectors)
    shares = rng.dirichlet(np.ones(len(X)))
    problem = PrimalChain(task, X, Y, shares, active=ACTIVE)
    problem.begin(4.0)
    weights = rng.normal(size=len(problem._curvature))

    def objective(weights):
        by_kind = problem._split(weights)
        loss = 0.0
        for x, y, share in zip(X, Y, shares, strict=True):
            scores = [score(task, problem, by_kind, x, z) for z in task.outputs(x)]
            loss += share * (np.logaddexp.reduce(scores) - score(task, problem, by_kind, x, y))
        return 4.0 * loss + 0.5 * weights @ weights

    value, gradient = problem._evaluate(weights / problem._scale)
    assert value == pytest.approx(objective(weights), rel=1e-10)
    for k in rng.choice(len(weights), 25, replace=False):
        step = np.zeros(len(weights))
        step[k] = 1e-5
        slope = (objective(weights + step) - objective(weights - step)) / 2e-5
        assert gradient[k] == pytest.approx(problem._scale[k] * slope, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("vectors", [False, True])
def test_the_optimum_is_certified_and_is_that_of_the_general_solver(vectors):
    task, X, Y = examples(np.random.default_rng(2), n=30, vectors=vectors)
    ends = []
    for solver in (PrimalChain, DualChain, PrimalLikelihood):
        problem = solver(task, X, Y, np.full(len(X), 1 / len(X)), active=ACTIVE)
        problem.begin(20.0)
        for _ in range(30):
            problem.improve()
            assert problem.bound <= problem.primal * (1 + 1e-9)
        assert problem.primal - problem.bound < 1e-3 * problem.primal
        ends.append(problem)
    for problem in ends[:2]:
        assert problem.primal == pytest.approx(ends[2].primal, rel=1e-4)
        for kind, weights in problem.matrices().items():
            np.testing.assert_allclose(weights, ends[2].matrices()[kind], atol=0.05)


def test_dual_ascent_goes_on_from_the_result_on_some_sequences():
    task, X, Y = examples(np.random.default_rng(4), n=40)
    rows = np.arange(0, len(X), 2)
    part = DualChain(
        task, [X[i] for i in rows], [Y[i] for i in rows], np.full(len(rows), 1 / len(rows)),
        active=ACTIVE,
    )  # fmt: skip
    part.begin(20.0)
    for _ in range(10):
        part.improve()
    whole, other = (
        DualChain(task, X, Y, np.full(len(X), 1 / len(X)), active=ACTIVE) for _ in range(2)
    )
    whole.adopt(part.result(), rows, 20.0)
    whole.improve()
    other.begin(20.0)
    other.improve()
    assert whole.primal < other.primal
    # The weights are those that the dual distributions give.
    kept = [weights.copy() for weights in whole._slopes]
    whole._set_slopes()
    for weights, before in zip(whole._slopes, kept, strict=True):
        np.testing.assert_allclose(weights, before, atol=1e-9)


def test_the_solver_follows_from_lengths_and_memory(monkeypatch):
    task, X, Y = examples(np.random.default_rng(5))
    weights = np.full(len(X), 1 / len(X))
    assert isinstance(chain_problem(task, X, Y, weights, active=ACTIVE), DualChain)
    sparse = chain_problem(task, X, Y, weights, active=ACTIVE, l1_ratio=0.1)
    assert isinstance(sparse, PrimalChain)
    monkeypatch.setattr("structboost.linear.dual_chain._MOST_PAIRS_OF_STEPS", 10)
    assert isinstance(chain_problem(task, X, Y, weights, active=ACTIVE), PrimalChain)


def test_large_scores_and_empty_sequences_leave_a_finite_bound():
    X = [(np.zeros((0, 1), int), np.zeros((0, 1), int))]
    X += [(np.array([[0], [1], [0]]), np.array([[0], [1]]))] * 2
    Y = [np.zeros(0, int), np.array([0, 1, 0]), np.array([0, 1, 1])]
    task = ChainTask(2, step_features=True)
    problem = PrimalChain(task, X, Y, np.full(3, 1 / 3), active=ACTIVE)
    problem.begin(1e7)
    for _ in range(20):
        problem.improve()
    assert np.isfinite([problem.primal, problem.bound]).all()
    assert problem.bound <= problem.primal * (1 + 1e-9)


def test_outputs_of_the_enumeration_are_all_allowed_tags():
    task, X, _ = examples(np.random.default_rng(3))
    x = next(x for x in X if not isinstance(x, Stretch) and len(x[0]) == 3)
    pairs = [(a, b) for a, b in FORBIDDEN if a is not None and b is not None]
    wanted = [
        y
        for y in product(range(N_TAGS), repeat=3)
        if y[0] != 1 and y[-1] != 2 and not any(p in pairs for p in pairwise(y))
    ]
    assert [tuple(y.tolist()) for y in task.outputs(x)] == wanted
