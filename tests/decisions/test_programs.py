"""Programs, assignments and greedy choices against enumeration; errors that name the instance."""

from __future__ import annotations

import pickle
from itertools import combinations, permutations, product

import highspy
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost import check_task
from structboost.decisions import (
    AcyclicPath,
    Assignment,
    Choose,
    GridPath,
    Knapsack,
    LinearProgram,
    MatroidBasis,
    PredictThenOptimizeTask,
    ShortestPath,
    SolvedBy,
)
from structboost.errors import TaskError

WEIGHTS = np.array([[2.0, 3.0, 4.0, 1.0], [1.0, 1.0, 0.0, 2.0]])
ROOM = np.array([6.0, 2.0])


def best_of(decisions, costs, maximize=False):
    values = np.array(decisions) @ costs
    return values.max() if maximize else values.min()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 9999))
def test_problems_return_the_best_of_all_decisions(seed):
    rng = np.random.default_rng(seed)
    subsets = np.array(list(product((0.0, 1.0), repeat=4)))
    fitting = subsets[(subsets @ WEIGHTS.T <= ROOM).all(axis=1)]
    pairs = [np.eye(3)[list(p)][:, :3].ravel() for p in permutations(range(3))]
    pairs_of_two = [np.eye(3)[list(p)].ravel() for p in permutations(range(3), 2)]
    twos = [np.isin(np.arange(5), c).astype(float) for c in combinations(range(5), 2)]
    maximize = bool(rng.integers(2))
    for problem, decisions in (
        (LinearProgram(WEIGHTS, ROOM, integrality=True, maximize=maximize), fitting),
        (Knapsack(WEIGHTS, ROOM), fitting),
        (Assignment(3, 3, maximize=maximize), pairs),
        (Assignment(2, 3, maximize=maximize), pairs_of_two),
        (Choose(5, 2, maximize=maximize), twos),
        (MatroidBasis(5, lambda items: len(items) <= 2, maximize=maximize), twos),
    ):
        costs = rng.normal(size=(3, problem.n_items))
        for row, z in zip(costs, problem.solve_all(costs), strict=True):
            assert problem.is_feasible(z)
            assert z @ row == pytest.approx(best_of(decisions, row, problem.maximize), abs=1e-9)
            np.testing.assert_array_equal(problem.solve(row), z)


def test_spanning_trees_are_bases():
    edges = list(combinations(range(5), 2))
    tree = MatroidBasis(10, lambda items: nx.is_forest(nx.Graph([edges[e] for e in items])))
    costs = np.random.default_rng(0).normal(size=10)
    graph = nx.Graph()
    graph.add_weighted_edges_from([(*e, c) for e, c in zip(edges, costs, strict=True)])
    assert tree.solve(costs) @ costs == pytest.approx(
        nx.minimum_spanning_tree(graph).size(weight="weight")
    )


def test_a_flow_is_the_shortest_path_and_may_use_cycles_where_they_pay():
    arcs = [(0, 1), (1, 2), (2, 1), (0, 2), (2, 3), (1, 3)]
    problem = ShortestPath(arcs, 0, 3)
    assert problem.solve(np.array([1.0, 1, 1, 5, 1, 4])).tolist() == [1, 1, 0, 0, 1, 0]
    assert problem.solve(np.array([1.0, -3, 1, 9, 9, 1])).tolist() == [1, 1, 1, 0, 0, 1]
    forwards = arcs[:2] + arcs[3:]
    costs = np.random.default_rng(1).normal(size=(20, 5))
    np.testing.assert_array_equal(
        ShortestPath(forwards, 0, 3).solve_all(costs), AcyclicPath(forwards, 0, 3).solve_all(costs)
    )


def test_the_path_of_a_flow_has_no_cycles():
    rng = np.random.default_rng(0)
    for _ in range(20):
        arcs = np.unique(rng.integers(0, 7, (20, 2)), axis=0)
        arcs = np.concatenate((arcs[arcs[:, 0] != arcs[:, 1]], [(0, 3), (3, 6)]))
        problem = ShortestPath(arcs, 0, 6)
        flows = problem.solve_all(rng.normal(size=(10, len(arcs))))
        paths = problem.simplify_all(flows)
        assert (paths <= flows).all()
        for path in paths:
            assert problem.is_feasible(path)
            nodes = arcs[path > 0].ravel()
            # Each node is entered and left at most once, and the arcs are connected.
            assert np.bincount(nodes, minlength=7).max() <= 2
            assert nx.is_connected(nx.Graph(arcs[path > 0].tolist()))
        positive = problem.solve_all(rng.uniform(1, 2, size=(10, len(arcs))))
        np.testing.assert_array_equal(problem.simplify_all(positive), positive)


def test_model_of_highs_gives_the_same_program():
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    z = [highs.addBinary() for _ in range(4)]
    for row, room in zip(WEIGHTS, ROOM, strict=True):
        highs.addConstr(sum(w * v for w, v in zip(row, z, strict=True)) <= room)
    highs.addConstr(z[0] + z[1] >= 1)
    highs.maximize(z[0] + z[1])
    program = LinearProgram.from_highs(highs)
    arrays = LinearProgram(
        np.vstack((WEIGHTS, [[-1, -1, 0, 0]])), [*ROOM, -1], integrality=True, maximize=True
    )
    assert program.maximize
    for costs in np.random.default_rng(0).normal(size=(10, 4)):
        assert program.solve(costs) @ costs == pytest.approx(arrays.solve(costs) @ costs)


def test_program_is_pure_and_can_be_pickled():
    program = LinearProgram(WEIGHTS, ROOM)
    costs = -np.random.default_rng(0).uniform(size=(6, 4)).round(1)
    first = program.solve_all(costs)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(program)).solve_all(costs), first)
    np.testing.assert_array_equal(program.solve_all(costs[::-1])[::-1], first)
    X = np.random.default_rng(1).normal(size=(6, 2))
    task = PredictThenOptimizeTask(program)
    check_task(task, X, task.best_decisions(X, costs))


def test_infeasible_and_unbounded_programs_name_the_instance():
    X, costs = np.ones((3, 1)), np.array([[1.0, 1], [1, 1], [-1, -1]])
    task = PredictThenOptimizeTask(LinearProgram([[1.0, 1]], [3.0], bounds=(0, 1)))
    assert len(task.best_decisions(X, costs)) == 3
    task = PredictThenOptimizeTask(LinearProgram([[1.0, -1]], [3.0], bounds=(0, np.inf)))
    with pytest.raises(TaskError, match="unbounded") as error:
        task.best_decisions(X, costs)
    assert "example 2, X[2]" in error.value.__notes__[0]
    task = PredictThenOptimizeTask(LinearProgram([[1.0, 1]], [-3.0]))
    with pytest.raises(TaskError, match="infeasible") as error:
        task.best_decisions(X, costs)
    assert "example 0, X[0]" in error.value.__notes__[0]


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_costs_of_any_size_have_the_same_decision(size):
    program = LinearProgram(WEIGHTS, ROOM)
    costs = np.random.default_rng(2).normal(size=(8, 4))
    np.testing.assert_array_equal(program.solve_all(size * costs), program.solve_all(costs))


def test_a_bound_may_be_none_and_a_model_of_highs_may_have_bounds_only():
    program = LinearProgram(A_eq=[[1.0, 1]], b_eq=[3.0], bounds=(0, None))
    np.testing.assert_array_equal(program.solve(np.array([2.0, 1.0])), [0, 3])
    assert program.is_feasible(np.array([0.0, 3.0]))
    model = highspy.Highs()
    model.silent()
    model.addVar(0.0, 1.0)
    model.addVar(-1.0, 2.0)
    box = LinearProgram.from_highs(model)
    np.testing.assert_array_equal(box.solve(np.array([-1.0, 1.0])), [1, -1])


def test_semi_continuous_variables_of_a_model_of_highs_are_refused():
    model = highspy.Highs()
    model.silent()
    total = model.addVariable(lb=0, ub=5)
    total += model.addVariable(lb=2, ub=5, type=highspy.HighsVarType.kSemiContinuous)
    model.addConstr(total >= 3.5)
    with pytest.raises(ValueError, match="Variable 1 of the model is semi-continuous"):
        LinearProgram.from_highs(model)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 9999))
def test_flips_of_one_or_two_entries_improve_a_decision_until_none_pays(seed):
    rng = np.random.default_rng(seed)
    rows, room = rng.uniform(0, 1, size=(2, 7)), np.array([2.0, 2.5])
    at_least = [np.ones(7)], [1.0]
    program = LinearProgram(
        np.vstack((rows, -at_least[0][0])), [*room, -1.0], integrality=True,
        maximize=bool(rng.integers(2)),
    )  # fmt: skip
    costs = rng.normal(size=(4, 7))
    begun = program.solve_all(rng.normal(size=(4, 7)))
    before = begun.copy()
    improved = program.improve_all(costs, begun)
    np.testing.assert_array_equal(begun, before)
    sign = 1.0 if program.maximize else -1.0
    for row, old, new in zip(costs, begun, improved, strict=True):
        assert program.is_feasible(new)
        assert sign * row @ new >= sign * row @ old - 1e-12
        for pair in [*combinations(range(7), 2), *((i,) for i in range(7))]:
            other = new.copy()
            other[list(pair)] = 1 - other[list(pair)]
            assert not program.is_feasible(other) or sign * row @ other <= sign * row @ new + 1e-8


@pytest.mark.parametrize("bounds", [(0, 1), (0, 2)])
def test_programs_of_other_numbers_than_zeros_and_ones_are_not_improved(bounds):
    program = LinearProgram(WEIGHTS, ROOM, bounds=bounds, integrality=bounds == (0, 2))
    decisions = np.zeros((3, 4))
    assert program.improve_all(-np.ones((3, 4)), decisions) is decisions


def test_knapsack_leaves_out_items_without_value():
    assert Knapsack([1, 1], 2).solve(np.array([0.0, -1.0])).tolist() == [0.0, 0.0]
    assert Knapsack([[1.5, 1.0]], [9.0]).solve(np.array([-1.0, 2.0])).tolist() == [0.0, 1.0]


def test_knapsack_refuses_wrong_weights_and_capacities():
    with pytest.raises(ValueError, match="negative"):
        Knapsack([1, -1], 2)
    with pytest.raises(ValueError, match=r"weights has shape \(1, 2\); give \(2, 2\)"):
        Knapsack([1, 1], [2, 3])


def program(**changed):
    return lambda: LinearProgram(**{"A_ub": [[1.0, 2.0]], "b_ub": [1.0], **changed})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((program(bounds=bad), "bounds is") for bad in (None, 1.0, "ab", [1.0], [[1, 2], [3]])),
        (program(bounds=(1, 0, 2)), r"bounds is \(1, 0, 2\); give a pair"),
        (program(bounds=[(0, 1), (2, 1)]), r"The bounds of item 1 are \[2.0, 1.0\]"),
        *((program(integrality=bad), "integrality is") for bad in (2, "yes", [True] * 3)),
        *((program(A_ub=bad), "A_ub is") for bad in (3.0, "ab", [[1, 2], [3]])),
        (program(b_ub=None), "b_ub"),
        (program(b_ub=[1.0, 2.0]), "for each row"),
        (LinearProgram, "both None"),
        (program(maximize="yes"), "maximize is 'yes'"),
        (lambda: Choose(3, 1, maximize="yes"), "maximize is"),
        (lambda: Assignment(2, 2, maximize=1), "maximize is"),
        (lambda: SolvedBy(len, maximize=None), "maximize is"),
        (lambda: MatroidBasis(3, len, maximize="no"), "maximize is"),
        (lambda: MatroidBasis(3, 5), "is_independent is 5"),
        (lambda: MatroidBasis(2, lambda items: False).solve(np.ones(2)), "every single item"),
        (lambda: Choose(2, 3), "k is 3"),
        (lambda: LinearProgram.from_highs("lp"), r"model is 'lp'; give a highspy\.Highs"),
        (lambda: GridPath(10**6, 10**6), "Arcs of a grid of 1000000 x 1000000 nodes"),
    ],
)
def test_a_malformed_argument_of_a_problem_is_named(make, message):
    with pytest.raises((TypeError, ValueError, TaskError, MemoryError), match=message):
        make()


def test_a_problem_shows_its_parameters_and_no_address():
    problems = [
        Choose(3, 1), GridPath(2, 3), Knapsack([1, 2], 2), ShortestPath([(0, 1), (1, 2)], 0, 2),
        SolvedBy(len),
    ]  # fmt: skip
    for problem in problems:
        assert repr(problem).startswith(f"{type(problem).__name__}(")
        assert " at 0x" not in repr(problem)
    assert repr(problems[0]) == "Choose(n_items=3, k=1)"
    assert repr(problems[3]) == "ShortestPath(<2 arcs>, 0, 2)"
