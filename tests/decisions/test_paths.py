"""Cheapest paths against all paths."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost.decisions import AcyclicPath, GridPath, ShortestPath


def all_paths(problem):
    """Every path of an acyclic graph as a row of zeros and ones."""
    paths = []

    def walk(node, used):
        if node == problem.target:
            paths.append(used)
            return
        for a in np.flatnonzero(problem.arcs[:, 0] == node):
            walk(problem.arcs[a, 1], [*used, a])

    walk(problem.source, [])
    return np.array([np.bincount(used, minlength=problem.n_items) for used in paths], float)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 9999))
def test_acyclic_path_is_the_cheapest_of_all_whatever_the_signs_of_costs(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    names = rng.permutation(n)
    arcs = [(i, j) for i in range(n) for j in range(i + 1, n) if j == i + 1 or rng.random() < 0.5]
    arcs = names[np.array(arcs)[rng.permutation(len(arcs))]]
    problem = AcyclicPath(arcs, int(names[0]), int(names[-1]))
    costs = rng.normal(size=(5, len(arcs)))
    paths = all_paths(problem)
    decisions = problem.solve_all(costs)
    assert all(problem.is_feasible(z) for z in decisions)
    np.testing.assert_allclose((decisions * costs).sum(axis=1), (costs @ paths.T).min(axis=1))
    np.testing.assert_array_equal(problem.solve(costs[0]), decisions[0])


def test_grid_has_the_arcs_of_pyepo_and_all_its_paths():
    problem = GridPath(3, 4)
    assert problem.n_items == 17
    assert problem.arcs[:8].tolist() == [
        [0, 1], [1, 2], [2, 3], [0, 4], [1, 5], [2, 6], [3, 7], [4, 5],
    ]  # fmt: skip
    assert len(all_paths(problem)) == 10
    assert not problem.is_feasible(np.ones(17))


def test_graphs_without_a_path_or_with_a_cycle_are_refused():
    with pytest.raises(ValueError, match="form a cycle"):
        AcyclicPath([(0, 1), (1, 2), (2, 1), (2, 3)], 0, 3)
    with pytest.raises(ValueError, match="infeasible"):
        AcyclicPath([(0, 1), (2, 3)], 0, 3)
    with pytest.raises(ValueError, match=r"arcs\[1, 0\] is -1; give whole numbers from 0"):
        AcyclicPath([(0, 1), (-1, 2)], 0, 1)
    with pytest.raises(ValueError, match=r"arcs has shape \(2,\)"):
        AcyclicPath([0, 1], 0, 1)
    with pytest.raises(ValueError, match="at least two nodes"):
        GridPath(1, 1)
    for path in (AcyclicPath, ShortestPath):
        with pytest.raises(ValueError, match="source is -2; give a node, such as 0"):
            path([(0, 1), (1, 2)], -2, 2)
        with pytest.raises(ValueError, match=r"target is 1\.5"):
            path([(0, 1), (1, 2)], 0, 1.5)


@pytest.mark.parametrize("path", [AcyclicPath, ShortestPath])
def test_directed_graph_of_networkx_is_taken_with_its_arcs_in_order_and_its_nodes_by_name(path):
    graph = nx.DiGraph([("home", "mill"), ("mill", "town"), ("home", "town"), ("town", "sea")])
    problem = path(graph, "home", "sea")
    by_number = path([(0, 1), (0, 2), (1, 2), (2, 3)], 0, 3)
    nodes = list(graph.nodes)
    assert [(nodes[tail], nodes[head]) for tail, head in problem.arcs] == list(graph.edges)
    costs = np.random.default_rng(0).normal(size=(10, 4))
    np.testing.assert_array_equal(problem.solve_all(costs), by_number.solve_all(costs))
    with pytest.raises(ValueError, match="target is 'moon'; give a node, such as 'home'"):
        path(graph, "home", "moon")
    with pytest.raises(ValueError, match="No path leads from source sea"):
        path(graph, "sea", "home")
    with pytest.raises(ValueError, match=r"no directions; give graph.to_directed\(\)"):
        path(graph.to_undirected(), "home", "sea")
    with pytest.raises(ValueError, match="arcs is empty"):
        path(nx.DiGraph(), 0, 1)


def test_parallel_arcs_of_a_multigraph_are_different_items():
    graph = nx.MultiDiGraph([(0, 1), (0, 1), (1, 2)])
    assert AcyclicPath(graph, 0, 2).solve(np.array([3.0, 1.0, 1.0])).tolist() == [0, 1, 1]
    problem = ShortestPath(graph, 0, 2)
    flow = problem.solve(np.array([3.0, 1.0, 1.0]))
    assert problem.simplify_all(flow[None]).tolist() == [[0, 1, 1]]
