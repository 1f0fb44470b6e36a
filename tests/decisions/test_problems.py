"""Decision problems against enumeration, and errors that name the argument or the instance."""

import itertools
from functools import partial
from itertools import combinations, permutations, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_array_equal

from structboost.decisions import (
    AcyclicPath,
    Assignment,
    Choose,
    GridPath,
    Knapsack,
    LinearProgram,
    PredictThenOptimizeTask,
    ShortestPath,
    SolvedBy,
    Tour,
)
from structboost.errors import TaskError
from tests.helpers.refusals import refused

WEIGHTS = np.array([[2.0, 3.0, 4.0, 1.0], [1.0, 1.0, 0.0, 2.0]])
# A weight of 7 is a twentieth too much.
ROOM = np.array([6.7, 2.0])
SUBSETS = np.array(list(product((0.0, 1.0), repeat=4)))


def rows_of(sets, n):
    """Sets of items as rows of zeros and ones."""
    return np.array([np.isin(np.arange(n), [*items]).astype(float) for items in sets])


def paths_of(problem):
    """All paths of an acyclic graph."""
    graph = nx.DiGraph(problem.arcs.tolist())
    arcs = [tuple(arc) for arc in problem.arcs.tolist()]
    paths = nx.all_simple_paths(graph, problem.source, problem.target)
    return rows_of([map(arcs.index, itertools.pairwise(path)) for path in paths], len(arcs))


def tours_of(n):
    """All tours through n nodes."""
    edges = list(combinations(range(n), 2))
    rings = [zip((0, *rest), (*rest, 0), strict=True) for rest in permutations(range(1, n))]
    return rows_of([[edges.index(tuple(sorted(e))) for e in ring] for ring in rings], len(edges))


def assigned(n):
    """All assignments of n rows to some of three columns."""
    return np.array([np.eye(3)[list(chosen)] for chosen in permutations(range(3), n)])


def listed_problems(rng):
    """Problems, and all their decisions."""
    maximize = bool(rng.integers(2))
    nodes = int(rng.integers(2, 7))
    arcs = [(i, j) for i, j in combinations(range(nodes), 2) if j == i + 1 or rng.random() < 0.5]
    names = rng.permutation(nodes)
    arcs = names[np.array(arcs)[rng.permutation(len(arcs))]]
    ends = int(names[0]), int(names[-1])
    acyclic, by_search = AcyclicPath(arcs, *ends), ShortestPath(arcs, *ends)
    grid, paths = GridPath(2, 3), paths_of(acyclic)
    limits = (WEIGHTS, ROOM), (WEIGHTS[:1], 6.0), (WEIGHTS[:1] / 3, 2.0)
    both, one, thirds = (SUBSETS[(SUBSETS @ W.T <= room).all(axis=1)] for W, room in limits)
    return [
        (LinearProgram(WEIGHTS, ROOM, integrality=True, maximize=maximize), both),
        (Knapsack(WEIGHTS, ROOM), both),
        (Knapsack(WEIGHTS[0], 6), one),
        (Knapsack(WEIGHTS[:1] / 3, [2.0]), thirds),
        (Assignment(3, 3, maximize=maximize), assigned(3).reshape(-1, 9)),
        (Assignment(2, 3, maximize=maximize), assigned(2).reshape(-1, 6)),
        (Assignment(3, 2, maximize=maximize), assigned(2).swapaxes(1, 2).reshape(-1, 6)),
        (Choose(5, 2, maximize=maximize), rows_of(combinations(range(5), 2), 5)),
        (acyclic, paths),
        (by_search, paths),
        (grid, paths_of(grid)),
        (Tour(5), tours_of(5)),
    ]  # fmt: skip


@pytest.mark.slow
@given(st.integers(0, 9999), st.sampled_from([1.0, 1e-8, 1e8]))
def test_problems_return_the_best_of_all_decisions(seed, scale):
    rng = default_rng(seed)
    for problem, decisions in listed_problems(rng):
        sign = 1.0 if problem.maximize else -1.0
        costs = scale * rng.normal(size=(3, problem.n_items))
        solved = problem.solve_all(costs)
        begun = problem.solve_all(rng.normal(size=costs.shape))
        before = begun.copy()
        improved = problem.improve_all(costs, begun)
        assert_array_equal(begun, before)
        for row, z, old, new in zip(costs, solved, begun, improved, strict=True):
            assert (decisions == z).all(axis=1).any()
            assert sign * z @ row == pytest.approx((sign * decisions @ row).max(), abs=1e-9 * scale)
            assert_array_equal(problem.solve(row), z)
            assert sign * row @ new >= sign * row @ old - 1e-9 * scale
            assert (decisions == new).all(axis=1).any()
        for z in (*decisions, *rng.integers(0, 2, (9, problem.n_items)).astype(float)):
            assert problem.is_feasible(z) == (decisions == z).all(axis=1).any()


@pytest.mark.parametrize("k", range(12))
def test_solve_takes_lists_and_refuses_what_are_no_costs(k):
    problem, decisions = listed_problems(default_rng(1))[k]
    # With an item more or less, few are feasible.
    turned = np.abs(decisions[:, None] - np.eye(problem.n_items))
    for z in (*decisions, *np.concatenate(turned)):
        assert problem.is_feasible(z) == (decisions == z).all(axis=1).any()
    assert not problem.is_feasible(0.5 * decisions[-1])
    assert not problem.is_feasible(decisions[0][1:])
    costs = np.arange(problem.n_items, dtype=np.float64)
    expected = problem.solve(costs)
    assert np.array_equal(problem.solve(costs.tolist()), expected)
    assert np.array_equal(problem.solve_all([costs.tolist()]), [expected])
    broken = np.where(costs == 0, np.nan, costs)
    masked = np.ma.masked_array(costs, costs == 0)
    for bad in (None, list("abc"), costs[None], broken, masked):
        refused("costs", problem.solve, bad)
    refused(r"costs\[0, 0\] is nan|X\[0\]: costs", problem.solve_all, broken[None])
    # Compiled solvers would read, and write, beyond the end.
    for other in (costs[:-1], np.append(costs, 1.0)):
        for call in (problem.solve, lambda row: problem.solve_all(row[None])):
            refused(rf"costs has .*{len(other)}.*{len(costs)}", call, other)


# -- paths ----------------------------------------------------------------------------------------


def test_grid_has_the_arcs_of_pyepo():
    arcs = [f"{i}-{j}" for i, j in GridPath(2, 3).arcs]
    assert " ".join(arcs) == "0-1 1-2 0-3 1-4 2-5 3-4 4-5"


def test_a_flow_may_use_cycles_where_they_pay_and_its_path_has_none():
    problem = ShortestPath([(0, 1), (1, 2), (2, 1), (0, 2), (2, 3), (1, 3)], 0, 3)
    assert problem.solve([1.0, -3, 1, 9, 9, 1]).tolist() == [1, 1, 1, 0, 0, 1]
    rng = default_rng(0)
    for _ in range(20):
        arcs = np.unique(rng.integers(0, 7, (20, 2)), axis=0)
        arcs = np.concatenate((arcs[arcs[:, 0] != arcs[:, 1]], [(0, 3), (3, 6)]))
        problem = ShortestPath(arcs, 0, 6)
        flows = problem.solve_all(rng.normal(size=(10, len(arcs))))
        for flow, path in zip(flows, problem.simplify_all(flows), strict=True):
            assert (path <= flow).all()
            assert problem.is_feasible(path)
            graph = nx.DiGraph(arcs[path > 0].tolist())
            assert len(nx.shortest_path(graph, 0, 6)) == len(graph) == path.sum() + 1
        positive = problem.solve_all(rng.uniform(1, 2, size=(10, len(arcs))))
        assert_array_equal(problem.simplify_all(positive), positive)


@pytest.mark.parametrize("path", [AcyclicPath, ShortestPath])
@pytest.mark.parametrize(
    ("arcs", "ends", "message"),
    [
        (np.zeros((0, 2), int), (0, 1), "arcs is empty"),
        ([(0, 1), (2, 3)], (0, 3), "infeasible"),
        ([(0, 1), (-1, 2)], (0, 1), r"arcs\[1, 0\] is -1; give whole numbers from 0"),
        ([(0, 1), (1, 2)], (-2, 2), "source is -2; give a whole number from 0 to 2"),
    ],
)
def test_arcs_and_ends_that_have_no_path_are_named(path, arcs, ends, message):
    refused(message, path, arcs, *ends)


# -- programs -------------------------------------------------------------------------------------


def test_a_bound_may_be_none_and_infeasible_and_unbounded_programs_name_the_instance():
    program = LinearProgram(A_eq=[[1.0, 1]], b_eq=[3.0], bounds=(0, None))
    assert_array_equal(program.solve([2.0, 1.0]), [0, 3])
    assert program.is_feasible(np.array([0.0, 3.0]))
    costs = np.array([[1.0, 1], [1, 1], [-1, -1]])
    for A, room, bounds, said, k in (
        ([[1.0, -1]], [3.0], (0, np.inf), "unbounded", 2),
        ([[1.0, 1]], [-3.0], (0, 1), "infeasible", 0),
    ):
        task = PredictThenOptimizeTask(LinearProgram(A, room, bounds=bounds))
        error = refused(said, task.best_decisions, np.ones((3, 1)), costs)
        assert f"X[{k}]" in error.__notes__[0]


@given(st.integers(0, 9999))
def test_a_search_improves_decisions_to_the_best_ones(seed):
    rng = default_rng(seed)
    A = np.vstack((rng.uniform(0, 1, size=(2, 7)), -np.ones(7)))
    program = LinearProgram(A, [2.0, 2.5, -1.0], integrality=True, maximize=bool(rng.integers(2)))
    costs, others = rng.normal(size=(2, 4, 7))
    improved = program.improve_all(costs, program.solve_all(others))
    best = (costs * program.solve_all(costs)).sum(axis=1)
    assert (costs * improved).sum(axis=1) == pytest.approx(best)
    whole = LinearProgram(WEIGHTS, ROOM, integrality=True, bounds=(0, 2))
    assert not whole.improve_all(-np.ones((3, 4)), np.zeros((3, 4))).any()


# -- tours ----------------------------------------------------------------------------------------


def test_a_tour_of_twenty_nodes_is_that_of_an_integer_program():
    """Degrees alone bound the tour, and short cycles are cut off as they appear."""
    problem = Tour(20)
    i, j = np.triu_indices(20, 1)
    nodes = np.arange(20)[:, None]
    degrees = ((nodes == i) | (nodes == j)).astype(float)
    costs = default_rng(2).normal(size=problem.n_items)
    A, b = np.zeros((1, len(i))), [0.0]
    while True:
        z = LinearProgram(A, b, degrees, np.full(20, 2.0), integrality=True).solve(costs)
        graph = nx.Graph(np.column_stack((i, j))[z > 0].tolist())
        if nx.is_connected(graph):
            break
        assert not problem.is_feasible(z)
        cycle = np.isin(np.arange(20), [*nx.node_connected_component(graph, 0)])
        A = np.vstack((A, (cycle[i] & cycle[j]).astype(float)))
        b.append(cycle.sum() - 1.0)
    assert problem.is_feasible(z)
    assert problem.solve(costs) @ costs == pytest.approx(z @ costs)


def test_local_search_mostly_ends_in_the_shortest_tour():
    problem = Tour(12)
    costs, others = default_rng(0).normal(size=(2, 40, problem.n_items))
    best = problem.solve_all(costs)
    tours = problem.improve_all(costs, problem.solve_all(others))
    assert ((costs * (tours - best)).sum(axis=1) < 1e-9).mean() > 0.8


# -- arguments ------------------------------------------------------------------------------------


program = partial(partial, LinearProgram, [[1.0, 2.0]], [1.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (program(bounds=(1, 0, 2)), r"bounds is \(1, 0, 2\); give a pair"),
        (program(bounds=[(0, 1), (2, 1)]), "The bounds of item 1 are"),
        (program(maximize="yes"), "maximize is 'yes'"),
        *((partial(kind, *sizes, maximize=1), "maximize is") for kind, *sizes in (
            (Choose, 3, 1), (Assignment, 2, 2), (SolvedBy, len),
        )),
        (lambda: GridPath(10**6, 10**6), "Arcs of a grid of 1000000 x 1000000 nodes"),
        (lambda: LinearProgram(3), r"A_ub .* give an entry"),
        (lambda: GridPath(1, 1), "at least two nodes"),
        (lambda: AcyclicPath([(0, 1), (1, 2), (2, 1), (2, 3)], 0, 3), "form a cycle"),
        (lambda: Tour(2), "at least 3 nodes"),
        (lambda: Knapsack([1, -1], 2), "negative"),
        (lambda: Knapsack([1, 1], [2, 3]), r"weights has shape \(1, 2\); give \(2, "),
    ],
)  # fmt: skip
def test_a_malformed_argument_of_a_problem_is_named(make, message):
    with pytest.raises((TypeError, ValueError, TaskError, MemoryError), match=message):
        make()
