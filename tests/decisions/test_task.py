"""Decisions by predicted costs: the SPO+ formula, enumeration, independent solvers, errors."""

import itertools
from functools import partial

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from structboost import PredictThenOptimize, StructBoost, StructuredSVM, check_task
from structboost.contract.parts import StackedParts
from structboost.contract.separation import best_outputs
from structboost.decisions import (
    Choose,
    Decision,
    DecisionInput,
    GridPath,
    Knapsack,
    LinearProgram,
    PredictThenOptimizeTask,
    SolvedBy,
)
from tests.helpers.refusals import refused

ROUTES = GridPath(2, 3)


def all_routes():
    """List the three paths of the grid."""
    choices = np.array([*itertools.product((0.0, 1.0), repeat=ROUTES.n_items)])
    return choices[[*map(ROUTES.is_feasible, choices)]]


def cheapest_route(costs):
    routes = all_routes()
    return routes[int(np.argmin(routes @ costs))]


def travel(n=12, seed=0):
    """Features of instances and costs of arcs, three of them equal in price on purpose."""
    rng = default_rng(seed)
    X = rng.normal(size=(n, 2))
    costs = 2.0 + X @ rng.normal(size=(2, ROUTES.n_items)) + rng.uniform(0, 1, (n, ROUTES.n_items))
    costs[0] = 1.0
    return X, costs


def wares():
    rng = default_rng(0)
    items = rng.normal(size=(10, 5, 3))
    values = (3.0 + items @ rng.normal(size=3) + rng.uniform(0, 1, (10, 5))).round(1)
    return items, values


@pytest.mark.slow
@pytest.mark.parametrize("features", ["instance", "items", "both"])
def test_the_decision_task_passes_check_task(features):
    items, values = wares()
    task = PredictThenOptimizeTask(LinearProgram([[1, 2, 3, 2, 1]], [4]), features)
    X = {
        "instance": items[:, :, 0],
        "items": items,
        "both": [DecisionInput(x[:, 0], x) for x in items],
    }[features]
    check_task(task, X, task.best_decisions(X, values))


def test_instances_may_have_problems_of_their_own():
    items, values = wares()
    weights = default_rng(0).integers(1, 4, size=values.shape)
    X = [
        DecisionInput(items=x, problem=Knapsack(w, 4)) for x, w in zip(items, weights, strict=True)
    ]
    task = PredictThenOptimizeTask(None, "items")
    Y = task.best_decisions(X, values)
    check_task(task, X, Y)
    alone = [PredictThenOptimizeTask(x.problem, "items").best_decisions([x.items], [v])[0]
             for x, v in zip(X, values, strict=True)]  # fmt: skip
    for shared, single in zip(Y, alone, strict=True):
        assert_array_equal(shared.chosen, single.chosen)
    refused("has no problem", task.best_decisions, [items[0]], values[:1])


@pytest.mark.parametrize("maximize", [False, True])
def test_the_hinge_is_the_spo_plus_loss_ties_included(maximize):
    """Definition 3 of Elmachtoub and Grigas, by enumeration; values are costs turned around."""
    X, costs = travel()
    sign = -1.0 if maximize else 1.0
    problem = SolvedBy(lambda c: cheapest_route(sign * c), maximize=maximize)
    task = PredictThenOptimizeTask(problem, n_items=ROUTES.n_items)
    Y = task.best_decisions(X, sign * costs)
    predicted = default_rng(1).normal(size=costs.shape)
    predicted[1], predicted[2] = 0.0, costs[2]
    scores = StackedParts({"instance": sign * predicted}, {"instance": np.arange(len(X) + 1)})
    separation = task.separate(X, Y, scores)
    routes = all_routes()
    best = np.array([y.chosen for y in Y])
    spo_plus = ((costs - 2 * predicted) @ routes.T).max(axis=1)
    spo_plus += 2 * (predicted * best).sum(axis=1) - (costs @ routes.T).min(axis=1)
    assert_allclose(separation.violations(scores), spo_plus, atol=1e-12)
    # It bounds the regret of the decision at the predicted costs, and is 0 at the true ones.
    decided = best_outputs(task, X, scores)
    regret = [task.loss(y, z) for y, z in zip(Y, decided, strict=True)]
    assert (np.array(regret) <= spo_plus + 1e-12).all()
    assert spo_plus[2] == pytest.approx(0.0, abs=1e-12)


def test_costs_and_decisions_of_another_form_are_named():
    X, costs = travel()
    task = PredictThenOptimizeTask(ROUTES)
    refused(r"costs has shape \(12, 4\)", task.best_decisions, X, costs[:, :4])
    refused("one row each", task.best_decisions, X, costs[:4])
    for decision, said in ((np.zeros(3), "shape"), (np.full(ROUTES.n_items, np.nan), "is nan")):
        task = PredictThenOptimizeTask(lambda c, z=decision: z, n_items=ROUTES.n_items)
        refused(said, task.best_decisions, X, costs)


def wrong_below_zero(costs):
    """The two cheapest items, as long as no cost is negative."""
    return Choose(6, 2).solve(np.maximum(costs, 0.0))


def of_smallest_size(costs):
    """The two items of the smallest cost, whatever its sign."""
    return Choose(6, 2).solve(np.abs(costs))


SPARING = partial(PredictThenOptimize, spare_solves=True, random_state=0)


@pytest.mark.parametrize("train", [StructBoost, StructuredSVM, SPARING])
@pytest.mark.parametrize("solve", [wrong_below_zero, of_smallest_size])
def test_a_solver_that_is_wrong_at_costs_of_another_sign_ends_the_fit(solve, train):
    rng = default_rng(0)
    X = rng.normal(size=(30, 3))
    Y = costs = np.exp(X @ rng.normal(size=(3, 6)))
    task = solve
    if train is not SPARING:
        task = PredictThenOptimizeTask(solve, n_items=6)
        Y = task.best_decisions(X, costs)
    # The second finds the truth at minus half the true costs, which it is asked at without scores.
    said = (
        rf"solver is not exact: .* X\[\d+\] leads to.* function {solve.__name__}, taken to minimise"
    )
    refused(said, train(task, C=10.0).fit, X, Y)


def test_true_outputs_must_be_the_best_decisions():
    X, costs = travel()
    costs[7] = np.linspace(1.0, 1.01, ROUTES.n_items)  # all routes are nearly the best
    task = PredictThenOptimizeTask(ROUTES)
    Y = list(task.best_decisions(X, costs))
    routes = all_routes()
    Y[7] = Decision(routes[np.argmax(routes @ costs[7])], costs[7])
    scores = StackedParts({"instance": costs}, {"instance": np.arange(len(X) + 1)})
    better = f"{Y[7].chosen @ costs[7] - (routes @ costs[7]).min():.6g}"
    refused(rf"Y\[7\] is not the best .* better by {better}", task.separate, X, Y, scores)
    refused("y is not the best", task.loss, Y[7], Decision(routes[np.argmin(routes @ costs[7])]))
    for wrong in (costs[7], Decision(Y[3].chosen), Decision(Y[3].chosen[1:], costs[7])):
        refused(
            r"Y\[7\] is no Decision with a cost of each item",
            task.separate,
            X,
            [*Y[:7], wrong, *Y[8:]],
            scores,
        )
    Y[7] = Decision(np.zeros(ROUTES.n_items), costs[7])
    refused(r"Y\[7\] is no decision of its problem", task.separate, X, Y, scores)


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("spare_solves", [False, True])
def test_a_solver_of_the_other_sense_is_named(maximize, spare_solves):
    X, costs = travel()
    routes = all_routes()

    def other_sense(c):
        return routes[np.argmax(routes @ c if not maximize else -routes @ c)]

    model = PredictThenOptimize(
        SolvedBy(other_sense, maximize=maximize), C=1.0, spare_solves=spare_solves
    )
    said = rf"function other_sense, taken to .* SolvedBy\(solve, maximize={not maximize}\)"
    refused(said, model.fit, X, costs)


def test_a_solver_may_change_its_costs_in_place_and_must_return_a_decision():
    def sorts(costs):
        decision = Choose(6, 2).solve(costs)
        costs.sort()
        return decision

    rng = default_rng(0)
    X, costs = rng.normal(size=(5, 3)), rng.normal(size=(5, 6))
    before = costs.copy()
    PredictThenOptimizeTask(sorts, n_items=6).best_decisions(X, costs)
    assert_array_equal(costs, before)
    refused(
        r"decision of solve has type object; .*shape \(6,\)",
        SolvedBy(lambda c: None).solve,
        costs[0],
    )


def test_an_error_of_a_solver_at_negative_costs_has_a_note_on_them():
    def refuses(costs):
        if (costs < 0).any():
            raise RuntimeError("negative weights?")
        return cheapest_route(costs)

    assert refuses(np.ones(ROUTES.n_items)).any()
    with pytest.raises(RuntimeError, match="negative weights") as caught:
        SolvedBy(refuses).solve(-np.ones(ROUTES.n_items))
    assert "costs of either sign" in caught.value.__notes__[0]
