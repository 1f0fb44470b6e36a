"""All problems check the costs that ``solve`` and ``solve_all`` take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from structboost import PredictThenOptimize
from structboost.decisions import (
    AcyclicPath,
    Assignment,
    Choose,
    GridPath,
    Knapsack,
    LinearProgram,
    MatroidBasis,
    ShortestPath,
    SolvedBy,
    Tour,
)
from structboost.errors import TaskError

ARCS = [(0, 1), (1, 2), (0, 2)]
PROBLEMS = [
    AcyclicPath(ARCS, 0, 2),
    Assignment(2, 2),
    Choose(4, 2),
    GridPath(2, 2),
    Knapsack([1, 1, 2], 2),
    LinearProgram(A_eq=[[1, 1, 1]], b_eq=[1]),
    MatroidBasis(3, lambda items: len(items) < 3),
    ShortestPath(ARCS, 0, 2),
    SolvedBy(lambda costs: costs < 0),
    Tour(4),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_solve_takes_lists_and_refuses_what_are_no_costs(problem: Any) -> None:
    costs = np.arange(problem.n_items or 3, dtype=np.float64)
    expected = problem.solve(costs)
    assert np.array_equal(problem.solve(costs.tolist()), expected)
    assert np.array_equal(problem.solve_all([costs.tolist()]), [expected])
    broken = costs.copy()
    broken[1] = np.nan
    masked = np.ma.masked_array(costs, costs == 1)
    for bad in (None, "a", 3.0, {}, list("abc"), [[1], [1, 2]], costs[None], broken, masked):
        with pytest.raises(TaskError, match="costs"):
            problem.solve(bad)
    with pytest.raises(TaskError, match=r"costs\[0, 1\] is nan|X\[0\]: costs"):
        problem.solve_all(broken[None])
    # Compiled solvers would read, and write, beyond the end.
    for other in (costs[:-1], np.append(costs, 1.0)) if problem.n_items else ():
        for call in (problem.solve, lambda row: problem.solve_all(row[None])):
            with pytest.raises(
                TaskError, match=f"There are {len(other)} costs for {len(costs)} it"
            ):
                call(other)


@pytest.mark.parametrize("name", ["weights", "capacity"])
@pytest.mark.parametrize("value", ["abc", object(), [[1], [1, 2]], {}])
def test_knapsack_names_the_argument_that_holds_no_numbers(name: str, value: Any) -> None:
    arguments: dict[str, Any] = {"weights": [1, 2], "capacity": 2, name: value}
    with pytest.raises(ValueError, match=name):
        Knapsack(**arguments)


@pytest.mark.parametrize("problem", [AcyclicPath, ShortestPath])
def test_paths_refuse_an_array_as_an_end(problem: Any) -> None:
    with pytest.raises(ValueError, match="source is array"):
        problem(ARCS, np.array([0, 1]), 2)


def test_problem_that_is_a_class_is_refused() -> None:
    with pytest.raises(TypeError, match="problem is <class"):
        PredictThenOptimize(Choose, C=1.0).fit(np.eye(3), np.eye(3))
