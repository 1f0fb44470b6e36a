"""Predict costs for a decision, and learn by what the decision costs (Elmachtoub and Grigas)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.contract.measures import SparseFeature
from structboost.contract.parts import PartKind, StackedParts
from structboost.contract.separation import Separation
from structboost.contract.task import Task
from structboost.decisions.problem import DecisionProblem, problem_of
from structboost.exceptions import TaskError, on_example
from structboost.validation import checked_choice, shown

_FEATURES = ("instance", "items", "both")
# Loss of an exact solver by rounding, relative to the terms of the total.
_SOLVER_SLIP = 1e-6
# Examples of which the solver's decisions are compared with the true ones of all examples.
_PROBED = 8


class DecisionInput(NamedTuple):
    """An input of :class:`PredictThenOptimizeTask` that needs more than one array.

    Parameters
    ----------
    instance : ndarray, shape (n_features,), optional
        Features of the instance.
    items : ndarray, shape (n_items, n_item_features), optional
        Features of its items.
    problem : DecisionProblem, optional
        Problem of this instance, where instances differ in what is feasible.
    """

    instance: NDArray[Any] | None = None
    items: NDArray[Any] | None = None
    problem: DecisionProblem | None = None


class Decision(NamedTuple):
    """An output of :class:`PredictThenOptimizeTask`.

    Parameters
    ----------
    chosen : ndarray, shape (n_items,)
        The decision z.
    costs : ndarray, shape (n_items,), optional
        The true costs c of a true output; None in a predicted one.
    """

    chosen: FloatArray
    costs: FloatArray | None = None


class TrueDecisions(Sequence[Decision]):
    """True outputs of problems with equally many items, as two tables.

    Parameters
    ----------
    chosen, costs : ndarray, shape (n, n_items)
        Decisions and true costs, a row for each output.
    """

    def __init__(self, chosen: FloatArray, costs: FloatArray) -> None:
        self.chosen, self.costs = chosen, costs

    def __len__(self) -> int:
        return len(self.costs)

    @overload
    def __getitem__(self, index: int) -> Decision: ...
    @overload
    def __getitem__(self, index: slice) -> TrueDecisions: ...
    def __getitem__(self, index: Any) -> Any:
        kind = TrueDecisions if np.ndim(self.costs[index]) == 2 else Decision
        return kind(self.chosen[index], self.costs[index])


class PredictThenOptimizeTask(Task):
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
        Length of the costs.  Needed unless the problem knows it or the features are ``"items"``.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range.
    """

    separates_in_batches = True

    def __init__(
        self, problem: Any, features: str = "instance", *, n_items: int | None = None
    ) -> None:
        self.problem = None if problem is None else problem_of(problem)
        self.features = checked_choice(features, "features", _FEATURES)
        of_problem = getattr(self.problem, "n_items", None)
        if n_items is not None and of_problem not in (None, n_items):
            raise ValueError(
                f"The problem has {of_problem} items, and there are {n_items} costs of each "
                "instance; give a cost for each item."
            )
        n_items = n_items or of_problem
        self.kinds = {}
        if features != "items":
            if n_items is None:
                raise ValueError(
                    "n_items is None, and the problem has none; give the number of costs of an "
                    "instance."
                )
            self.kinds["instance"] = PartKind(n_channels=int(n_items))
        if features != "instance":
            self.kinds["items"] = PartKind()

    @override
    def parts(self, x: Any) -> Any:
        features = {}
        if "instance" in self.kinds:
            value = x.instance if isinstance(x, DecisionInput) else x
            features["instance"] = np.asarray(value).reshape(1, -1)
        if "items" in self.kinds:
            features["items"] = np.asarray(x.items if isinstance(x, DecisionInput) else x)
        return features

    @override
    def stack(self, X: Sequence[Any]) -> StackedParts:
        # The rows of a table, or of a stack of tables, are taken as they are.
        if isinstance(X, np.ndarray) and X.dtype.kind in "fiu" and len(self.kinds) == 1:
            n_parts = 1 if "instance" in self.kinds else X.shape[1] if X.ndim == 3 else 0
            if n_parts and X.size and np.isfinite(X).all():
                (kind,) = self.kinds
                offsets = np.arange(len(X) + 1, dtype=np.int64) * n_parts
                return StackedParts({kind: X.reshape(len(X) * n_parts, -1)}, {kind: offsets})
        return super().stack(X)

    @override
    def joint_feature(self, x: Any, y: Decision) -> dict[str, Any]:
        used = np.flatnonzero(y.chosen)
        values = 2.0 * self._sign(x) * y.chosen[used]
        zeros = np.zeros(len(used), np.int64)
        both = {"instance": (zeros, used, values), "items": (used, zeros, values)}
        return {kind: both[kind] for kind in self.kinds}

    @override
    def loss(self, y: Decision, y_pred: Decision) -> float:
        costs = _true_costs(y)
        if self.problem is not None:
            better = self._behind(costs[None], y.chosen[None], np.atleast_2d(y_pred.chosen))[0]
            if better > 0:
                raise _not_best(self.problem, better)
        # Nothing is better than the best, whether costs are minimised or maximised.
        return abs(float(costs @ (y_pred.chosen - y.chosen)))

    @override
    def loss_scores(self, x: Any, y: Decision) -> dict[str, FloatArray]:
        scores = -0.5 * _true_costs(y)
        if "instance" in self.kinds:
            return {"instance": scores[None]}
        return {"items": scores[:, None]}

    @override
    def argmax(self, x: Any, scores: Any) -> Decision:
        return Decision(self._problem(x).solve(self._predicted(scores)))

    @override
    def is_valid(self, x: Any, y: Decision) -> bool:
        return self._problem(x).is_feasible(y.chosen)

    @override
    def separate(self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts) -> Separation:
        if self.problem is None or not self._share_problem(X):
            return super().separate(X, Y, scores)
        true = Y if isinstance(Y, TrueDecisions) else _table(Y)
        predicted = self.costs_table(scores, len(true))
        asked = predicted - 0.5 * true.costs
        decided = self.problem.solve_all(asked)
        self._check_truth(true, decided)
        self.check_best(asked, decided, true.chosen)
        self._check_best_of_all(asked, decided, true.chosen)
        rows, items = np.nonzero(decided != true.chosen)
        values = 2.0 * self._sign(None) * (true.chosen - decided)[rows, items]
        indptr = np.searchsorted(rows, np.arange(len(true) + 1)).astype(np.int64)
        losses = np.abs(np.einsum("ij,ij->i", true.costs, decided - true.chosen))
        zeros = np.zeros(len(rows), np.int64)
        parts = {"instance": (rows, items), "items": (rows * true.costs.shape[1] + items, zeros)}
        return Separation(
            losses,
            {kind: SparseFeature(*parts[kind], values) for kind in self.kinds},
            dict.fromkeys(self.kinds, indptr),
        )

    def check_best(
        self,
        costs: FloatArray,
        found: FloatArray,
        others: FloatArray,
        examples: IntArray | None = None,
    ) -> None:
        """Raise TaskError where a decision of the solver is worse than another one.

        Parameters
        ----------
        costs, found, others : ndarray, shape (n, n_items)
            Differences of costs, the decisions of the solver at them, and others.
        examples : ndarray of int, shape (n,), optional
            Indices of the examples that the rows belong to.  Default: 0 to n - 1.

        Raises
        ------
        TaskError
            If another decision is better; the message names the example.
        """
        behind = self._behind(costs, found, others)
        i = int(np.argmax(behind > 0))
        if behind[i] <= 0:
            return
        sample = i if examples is None else int(examples[i])
        assert self.problem is not None
        if not self.problem.is_feasible(others[i]):
            raise TaskError(
                "Y[{sample}] is no decision of its problem; make true outputs by best_decisions.",
                sample,
            )
        raise TaskError(
            "The solver is not exact: at differences of costs that X[{sample}] leads to, another "
            f"decision is better by {behind[i]:.6g}. It is {self.problem}. In training, "
            "costs have either sign; take a solver for them, such as ShortestPath for paths.",
            sample,
        )

    def _check_best_of_all(self, costs: FloatArray, decided: FloatArray, true: FloatArray) -> None:
        """Check the decisions of a few examples against the true decisions of all.

        A solver that takes costs of one sign may return the true decision whatever the model.
        """
        n = len(costs)
        few = np.unique(np.linspace(0, n - 1, min(n, _PROBED)).astype(np.int64))
        best = np.argmax(self._sign(None) * costs[few] @ true.T, axis=1)
        self.check_best(costs[few], decided[few], true[best], few)

    def _check_truth(self, true: TrueDecisions, decided: FloatArray) -> None:
        """Raise TaskError where a decision is better at the true costs than the true one."""
        behind = self._behind(true.costs, true.chosen, decided)
        i = int(np.argmax(behind > 0))
        if behind[i] > 0:
            assert self.problem is not None
            raise _not_best(self.problem, behind[i], i)

    def _behind(self, costs: FloatArray, chosen: FloatArray, others: FloatArray) -> FloatArray:
        """Return by how much decisions are worse than others, beyond what rounding explains."""
        worse = self._sign(None) * np.einsum("ij,ij->i", costs, others - chosen)
        sizes = np.einsum("ij,ij->i", np.abs(costs), np.abs(others) + np.abs(chosen))
        return np.where(worse > _SOLVER_SLIP * (1.0 + sizes), worse, 0.0)

    def best_decisions(self, X: Sequence[Any], costs: Any) -> Sequence[Decision]:
        """Make true outputs: the best decision at the true costs of each input.

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
        ValueError
            If ``X`` and ``costs`` differ in length.
        TaskError
            If the costs of an input are not finite or too few, or its problem cannot be solved;
            the message names the input.
        """
        if len(costs) != len(X):
            raise ValueError(
                f"X has {len(X)} inputs and costs has {len(costs)} rows; give one row each."
            )
        vectors = [self._checked_costs(i, row) for i, row in enumerate(costs)]
        if self.problem is not None and self._share_problem(X):
            table = np.array(vectors)
            return TrueDecisions(self.problem.solve_all(table), table)
        return [
            Decision(on_example("solve", i, self._problem(x).solve, vector), vector)
            for i, (x, vector) in enumerate(zip(X, vectors, strict=True))
        ]

    def predicted_costs(self, scores: StackedParts) -> list[FloatArray]:
        """Compute the predicted costs of each input from the scores of its parts.

        Parameters
        ----------
        scores : StackedParts
            Scores of the parts of all inputs.

        Returns
        -------
        costs : list of ndarray, shape (n_items,)
            Predicted costs of each input.
        """
        return [self._predicted(scores.example(i)) for i in range(scores.n_examples)]

    def costs_table(self, scores: StackedParts, n: int) -> FloatArray:
        """Compute predicted costs of ``n`` inputs with equally many items, shape (n, n_items)."""
        return np.asarray(sum(rows.reshape(n, -1) for rows in scores.rows.values()), np.float64)

    def with_problem(self, problem: DecisionProblem) -> PredictThenOptimizeTask:
        """Make a task with another problem.

        Parameters
        ----------
        problem : DecisionProblem
            The other problem, of the same number of items.

        Returns
        -------
        task : PredictThenOptimizeTask
            A new task.

        Raises
        ------
        ValueError
            If the problem has another number of items.
        """
        n_items = self.kinds["instance"].n_channels if "instance" in self.kinds else None
        return PredictThenOptimizeTask(problem, self.features, n_items=n_items)

    def _checked_costs(self, i: int, row: Any) -> FloatArray:
        vector = np.asarray(row, np.float64)
        wanted = self.kinds["instance"].n_channels if "instance" in self.kinds else None
        if vector.ndim != 1 or wanted not in (None, len(vector)):
            raise TaskError(
                f"The costs of X[{{sample}}] have shape {vector.shape}; expected "
                f"({'n_items' if wanted is None else wanted},).",
                i,
            )
        if not np.isfinite(vector).all():
            bad = int(np.argmin(np.isfinite(vector)))
            raise TaskError(
                f"The costs of X[{{sample}}] have {vector[bad]} for item {bad}; leave the input "
                "out, or fill the cost in.",
                i,
            )
        return vector

    def _predicted(self, scores: Any) -> FloatArray:
        """Compute the costs of one example from its scores."""
        if not isinstance(scores, dict):
            return np.ascontiguousarray(scores.ravel(), np.float64)
        return np.asarray(sum(rows.ravel() for rows in scores.values()), np.float64)

    def _problem(self, x: Any) -> DecisionProblem:
        of_input = x.problem if isinstance(x, DecisionInput) else None
        problem = of_input or self.problem
        if problem is None:
            raise TaskError(
                f"{shown(x)} has no problem, and neither has the task; give "
                "DecisionInput(..., problem=...)."
            )
        return problem

    def _sign(self, x: Any) -> float:
        return 1.0 if self._problem(x).maximize else -1.0

    def _share_problem(self, X: Sequence[Any]) -> bool:
        """Return whether all inputs have the problem of the task."""
        if isinstance(X, np.ndarray):
            return True
        return all(not isinstance(x, DecisionInput) or x.problem is None for x in X)


def _true_costs(y: Decision) -> FloatArray:
    if y.costs is None:
        raise TaskError("Y[{sample}] has no costs; make true outputs by best_decisions.")
    return y.costs


def _not_best(problem: DecisionProblem, better: float, sample: int | None = None) -> TaskError:
    return TaskError(
        "Y[{sample}] is not the best decision at its true costs: another is better by "
        f"{better:.6g}. Make true outputs by best_decisions, as PredictThenOptimize does, with a "
        f"solver that is exact. It is {problem}.",
        sample,
    )


def _table(Y: Sequence[Decision]) -> TrueDecisions:
    """Collect true outputs in two tables."""
    for i, y in enumerate(Y):
        costs = y.costs if isinstance(y, Decision) else None
        if costs is None or np.shape(y.chosen) != np.shape(costs):
            raise TaskError(
                "Y[{sample}] is no Decision with a cost of each item; make true outputs by "
                "best_decisions.",
                i,
            )
    return TrueDecisions(np.array([y.chosen for y in Y]), np.array([y.costs for y in Y]))
