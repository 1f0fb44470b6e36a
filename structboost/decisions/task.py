"""Predict costs for a decision, and learn by the regret of the decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from structboost._typing import Examples, FloatArray, override
from structboost.contract.parts import PartKind, SparseFeature, StackedParts
from structboost.contract.separation import Separation, separate_by_argmax
from structboost.contract.task import Decomposes, Searches, Separates, Task, Validates
from structboost.decisions.inputs import Decision, DecisionInput, DecisionInputs, TrueDecisions
from structboost.decisions.problem import DecisionProblem, problem_of
from structboost.errors import TaskError, examples_numbered, on_example
from structboost.inference.arguments import checked_costs
from structboost.validation import checked_choice, shown

# Loss of an exact solver by rounding, relative to the terms of the total.
_SOLVER_SLIP = 1e-6
# Examples of which the solver's decisions are compared with the true ones of all examples.
_PROBED = 8
Features = Literal["instance", "items", "both"]


class PredictThenOptimizeTask(Task, Searches, Decomposes, Separates, Validates):
    """Decisions that are best for predicted costs of items, judged by the true costs.

    The loss is regret: the excess cost of decision z over the best one z*, ``c'z - c'z*`` with the
    true costs c (for values to be maximised, ``c'z* - c'z``).  Scores of parts are predicted costs
    c^, and a decision scores ``F(x, z) = -2 c^'z`` (``2 c^'z`` if values are maximised).  The
    structured hinge of this task is then the SPO+ loss (Elmachtoub and Grigas, Management Science
    2022, definition 3) ::

        max_z [c'z - 2 c^'z] + 2 c^'z* - c'z*

    in which z* is the one optimal decision that the solver returns at the true costs.  Where there
    are several, the solver's choice is the tie rule, in training as in prediction: another optimal
    decision has no regret, but it is a different output.

    A cost is ``c^_j(x) = W_j(instance) + V(item_j)``: the features of the instance have a channel
    for each item, features of items have one function for all items.

    Parameters
    ----------
    problem : DecisionProblem, callable or None
        The problem, or ``solve(costs)`` that minimises.  None if every input is a
        :class:`DecisionInput` with its problem.
    features : {"instance", "items", "both"}
        Features of an input.  With ``"instance"`` it is a vector, with ``"items"`` a table with a
        row for each item, and with either it may be a :class:`DecisionInput`.
    n_items : int, optional
        Length of the costs.  Needed unless the problem has it or the features are ``"items"``.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> from structboost.decisions import PredictThenOptimizeTask
    >>> from structboost.decisions import Choose
    >>> task = PredictThenOptimizeTask(Choose(3, 1))
    >>> list(task.kinds)
    ['instance']
    """

    separates_in_batches = True

    def __init__(
        self, problem: Any, features: Features = "instance", *, n_items: int | None = None
    ) -> None:
        self.problem = None if problem is None else problem_of(problem)
        self.features = checked_choice(features, "features", Features)
        of_problem = getattr(self.problem, "n_items", None)
        if n_items is not None and of_problem not in (None, n_items):
            raise ValueError(
                f"The problem has {of_problem} items, and there are {n_items} costs of each "
                "instance; give a cost for each item."
            )
        self.n_items = n_items or of_problem
        self.kinds = {}
        if features != "items":
            if self.n_items is None:
                raise ValueError(
                    "n_items is None, and the problem has none; give the number of costs of an "
                    "instance."
                )
            self.kinds["instance"] = PartKind(n_channels=int(self.n_items))
        if features != "instance":
            self.kinds["items"] = PartKind()

    @override
    def parts(self, x: Any) -> Any:
        x = x if isinstance(x, DecisionInput) else DecisionInput(x, x)
        rows = {"instance": np.asarray(x.instance).reshape(1, -1), "items": np.asarray(x.items)}
        return {kind: rows[kind] for kind in self.kinds}

    @override
    def stack(self, X: Examples) -> StackedParts:
        if not isinstance(X, DecisionInputs):
            return super().stack(X)
        rows = {kind: X.tables[kind].reshape(-1, X.tables[kind].shape[-1]) for kind in self.kinds}
        starts = np.arange(len(X) + 1, dtype=np.int64)
        return StackedParts(rows, {kind: len(rows[kind]) // len(X) * starts for kind in rows})

    @override
    def joint_feature(self, x: Any, y: Decision) -> dict[str, Any]:
        used = np.flatnonzero(y.chosen)
        values = 2.0 * _sign(self._problem(x)) * y.chosen[used]
        zeros = np.zeros(len(used), np.int64)
        both = {"instance": (zeros, used, values), "items": (used, zeros, values)}
        return {kind: both[kind] for kind in self.kinds}

    @override
    def loss(self, y: Decision, y_pred: Decision) -> float:
        costs, chosen = _costs_of(y), np.atleast_2d(y_pred.chosen)
        if self.problem is not None:
            _, lead = _first_better(self.problem, costs[None], y.chosen[None], chosen)
            if lead:
                raise _not_best(self.problem, lead)
        # Nothing is better than the best, whether costs are minimised or maximised.
        return abs(float(costs @ (y_pred.chosen - y.chosen)))

    @override
    def loss_scores(self, x: Any, y: Decision) -> dict[str, FloatArray]:
        costs = _costs_of(y)
        if "instance" in self.kinds:
            return {"instance": -0.5 * costs[None]}
        return {"items": -0.5 * costs[:, None]}

    @override
    def argmax(self, x: Any, scores: Any) -> Decision:
        by_kind = scores if isinstance(scores, dict) else {"": scores}
        return Decision(self._problem(x).solve(flat_costs(by_kind)))

    @override
    def is_valid(self, x: Any, y: Decision) -> bool:
        return self._problem(x).is_feasible(y.chosen)

    @override
    def separate(self, X: Examples, Y: Examples, scores: StackedParts) -> Separation:
        problem = self._shared_problem(X)
        if problem is None:
            return separate_by_argmax(self, X, Y, scores)
        truth = Y if isinstance(Y, TrueDecisions) else _table(Y)
        chosen, sign, n = truth.chosen, _sign(problem), len(truth)
        costs = flat_costs(scores.rows).reshape(chosen.shape) - 0.5 * truth.costs
        decisions = problem.solve_all(costs)
        i, lead = _first_better(problem, truth.costs, chosen, decisions)
        if lead:
            raise _not_best(problem, lead, i)
        check_best(problem, costs, decisions, chosen)
        # A solver that takes costs of one sign may return the true decision whatever the model.
        few = np.unique(np.linspace(0, n - 1, min(n, _PROBED)).astype(np.int64))
        best = np.argmax(sign * costs[few] @ chosen.T, axis=1)
        with examples_numbered(few):
            check_best(problem, costs[few], decisions[few], chosen[best])
        rows, items = np.nonzero(decisions != chosen)
        values = 2.0 * sign * (chosen - decisions)[rows, items]
        zeros = np.zeros(len(rows), np.int64)
        parts = {"instance": (rows, items), "items": (rows * chosen.shape[1] + items, zeros)}
        return Separation(
            np.abs(np.einsum("ij,ij->i", truth.costs, decisions - chosen)),
            {kind: SparseFeature(*parts[kind], values) for kind in self.kinds},
            dict.fromkeys(self.kinds, np.searchsorted(rows, np.arange(n + 1)).astype(np.int64)),
        )

    def best_decisions(self, X: Examples, costs: Any) -> Sequence[Decision]:
        """Make true outputs, which are the best decisions at the true costs of each input.

        Parameters
        ----------
        X : sequence, shape (n,)
            Inputs.
        costs : array-like, shape (n, n_items), or a sequence of n vectors
            True costs of each input.

        Returns
        -------
        truth : sequence of Decision, shape (n,)
            Best decisions, each with its true costs.

        Raises
        ------
        ValueError, TypeError
            If ``X`` and ``costs`` differ in length, or costs are not finite or too few.
        TaskError
            If the problem of an input cannot be solved; the message names the input.
        """
        if len(costs) != len(X):
            raise ValueError(
                f"X has {len(X)} inputs and costs has {len(costs)} rows; give one row each."
            )
        problem = self._shared_problem(X)
        if problem is not None:
            table = checked_costs(costs, self.n_items, 2)
            return TrueDecisions(chosen=problem.solve_all(table), costs=table)

        def solved(x: Any, row: Any) -> Decision:
            vector = checked_costs(row, self.n_items)
            return Decision(self._problem(x).solve(vector), vector)

        return [
            on_example("solve", i, solved, *pair)
            for i, pair in enumerate(zip(X, costs, strict=True))
        ]

    def _problem(self, x: Any) -> DecisionProblem:
        problem = getattr(x, "problem", None) or self.problem
        if problem is None:
            raise TaskError(
                f"{shown(x)} has no problem, and neither has the task; give "
                "DecisionInput(..., problem=...)."
            )
        return problem

    def _shared_problem(self, X: Examples) -> DecisionProblem | None:
        """Return the problem that all inputs share, or None where one has another."""
        has_same = isinstance(X, np.ndarray | DecisionInputs)
        has_same = has_same or all(getattr(x, "problem", None) is None for x in X)
        return self.problem if has_same else None


def flat_costs(scores: Mapping[str, Any]) -> FloatArray:
    """Return predicted costs of all items of all inputs from the scores of their parts."""
    return np.asarray(sum(rows.ravel() for rows in scores.values()), np.float64)


def check_best(
    problem: DecisionProblem, costs: FloatArray, decisions: FloatArray, others: FloatArray
) -> None:
    """Raise TaskError where a decision of the solver is worse than another one.

    ``costs`` are differences of costs.
    """
    i, lead = _first_better(problem, costs, decisions, others)
    if not lead:
        return
    message = (
        "The solver is not exact: at differences of costs that X[{sample}] leads to, another "
        f"decision is better by {lead:.6g}. It is {problem}. In training, costs have either sign; "
        "take a solver for them, such as ShortestPath for paths."
    )
    if not problem.is_feasible(others[i]):
        message = "Y[{sample}] is no decision of its problem; make true outputs by best_decisions."
    raise TaskError(message, i)


def _first_better(
    problem: DecisionProblem, costs: FloatArray, decisions: FloatArray, others: FloatArray
) -> tuple[int, float]:
    """Return the first row in which another decision is better, and its lead, which may be 0."""
    lead = _sign(problem) * np.einsum("ij,ij->i", costs, others - decisions)
    sizes = np.einsum("ij,ij->i", np.abs(costs), np.abs(others) + np.abs(decisions))
    is_better = lead > _SOLVER_SLIP * (1.0 + sizes)
    if not is_better.any():
        return 0, 0.0
    i = int(np.argmax(is_better))
    return i, float(lead[i])


def _sign(problem: DecisionProblem) -> float:
    return 1.0 if problem.maximize else -1.0


def _not_best(problem: DecisionProblem, lead: float, sample: int | None = None) -> TaskError:
    return TaskError(
        "Y[{sample}] is not the best decision at its true costs: another is better by "
        f"{lead:.6g}. Make true outputs by best_decisions, as PredictThenOptimize does, with a "
        f"solver that is exact. It is {problem}.",
        sample,
    )


def _costs_of(y: Decision) -> FloatArray:
    if y.costs is None:
        raise TaskError("Y[{sample}] has no costs; make true outputs by best_decisions.")
    return y.costs


def _table(Y: Sequence[Decision]) -> TrueDecisions:
    """Collect true outputs in two tables."""
    for i, y in enumerate(Y):
        costs: Any = getattr(y, "costs", None)
        if not isinstance(y, Decision) or np.shape(y.chosen) != np.shape(costs):
            raise TaskError(
                "Y[{sample}] is no Decision with a cost of each item; make true outputs by "
                "best_decisions.",
                i,
            )
    return TrueDecisions(
        chosen=np.array([y.chosen for y in Y]), costs=np.array([y.costs for y in Y])
    )
