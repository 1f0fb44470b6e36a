"""Predict costs for a decision, and learn by what the decision costs (Elmachtoub and Grigas)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.contract.measures import Measure
from structboost.contract.parts import PartKind, StackedParts
from structboost.contract.separation import Separation
from structboost.contract.task import Task
from structboost.decisions.problem import DecisionProblem, problem_of
from structboost.exceptions import TaskError, on_example
from structboost.validation import checked_choice, shown

_FEATURES = ("instance", "items", "both")
# What an exact solver may lose by rounding, relative to the terms of the total.
_SOLVER_SLIP = 1e-6
# Examples of which the decisions found are compared with the true ones of all examples.
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
        The true costs c, which a true output has and a predicted one has not.
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
        made = TrueDecisions if np.ndim(self.costs[index]) == 2 else Decision
        return made(self.chosen[index], self.costs[index])


class PredictThenOptimizeTask(Task):
    """Costs of items are predicted, and the decision that is best for them is judged by the truth.

    The loss is regret: what decision z costs more than the best one z*, ``c'z - c'z*`` with the
    true costs c (for values to be maximised, ``c'z* - c'z``).  Scores of parts are predicted costs
    c^, and a decision scores ``F(x, z) = -2 c^'z`` (``2 c^'z`` if values are maximised).  The
    structured hinge of this task is then the SPO+ loss (Elmachtoub and Grigas, Management Science
    2022, definition 3) ::

        max_z [c'z - 2 c^'z] + 2 c^'z* - c'z*

    in which z* is the one optimal decision that the solver returns at the true costs.  Where there
    are several, the solver's choice is the tie rule, in training as in prediction: another optimal
    decision has no regret, but it is an output of its own.

    A cost is ``c^_j(x) = W_j(instance) + V(item_j)``: the features of the instance have a channel
    for each item, features of items have one function for all items.

    Parameters
    ----------
    problem : DecisionProblem, callable or None
        The problem, or ``solve(costs)`` that minimises.  None if every input is an
        :class:`DecisionInput` with a problem of its own.
    features : {"instance", "items", "both"}
        Which features an input has.  With ``"instance"`` it is a vector, with ``"items"`` a table
        with a row for each item, and with either an :class:`DecisionInput`.
    n_items : int, optional
        Length of the costs.  Needed unless the problem knows it or the features are ``"items"``.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range.
    """

    def __init__(
        self, problem: Any, features: str = "instance", *, n_items: int | None = None
    ) -> None:
        self.problem = None if problem is None else problem_of(problem)
        self.features = checked_choice(features, "features", _FEATURES)
        known = getattr(self.problem, "n_items", None)
        if n_items is not None and known not in (None, n_items):
            raise ValueError(
                f"The problem has {known} items, and there are {n_items} costs of each instance; "
                "give a cost for each item."
            )
        n_items = n_items or known
        self.kinds = {}
        if features != "items":
            if n_items is None:
                raise ValueError(
                    "n_items is None, and the problem does not know it; give the number of costs "
                    "of an instance."
                )
            self.kinds["instance"] = PartKind(n_channels=int(n_items))
        if features != "instance":
            self.kinds["items"] = PartKind()

    def parts(self, x: Any) -> Any:
        """One row for the instance, a row for each item, or both."""
        given = {}
        if "instance" in self.kinds:
            value = x.instance if isinstance(x, DecisionInput) else x
            given["instance"] = np.asarray(value).reshape(1, -1)
        if "items" in self.kinds:
            given["items"] = np.asarray(x.items if isinstance(x, DecisionInput) else x)
        return given

    def stack(self, X: Sequence[Any]) -> StackedParts:
        """The rows of a table, or of a stack of tables, as they are; else example by example."""
        if isinstance(X, np.ndarray) and X.dtype.kind in "fiu" and len(self.kinds) == 1:
            n_parts = 1 if "instance" in self.kinds else X.shape[1] if X.ndim == 3 else 0
            if n_parts and X.size and np.isfinite(X).all():
                (kind,) = self.kinds
                offsets = np.arange(len(X) + 1, dtype=np.int64) * n_parts
                return StackedParts({kind: X.reshape(len(X) * n_parts, -1)}, {kind: offsets})
        return super().stack(X)

    def joint_feature(self, x: Any, y: Decision) -> dict[str, Any]:
        """Twice the decision, negative where costs are minimised."""
        used = np.flatnonzero(y.chosen)
        values = 2.0 * self._sign(x) * y.chosen[used]
        zeros = np.zeros(len(used), np.int64)
        both = {"instance": (zeros, used, values), "items": (used, zeros, values)}
        return {kind: both[kind] for kind in self.kinds}

    def loss(self, y: Decision, y_pred: Decision) -> float:
        """The regret of ``y_pred``.

        Raises
        ------
        TaskError
            If ``y`` has no costs, or ``y_pred`` is better at them and the task has one problem for
            all.
        """
        if y.costs is None:
            raise TaskError("Y[{sample}] has no costs; make true outputs by best_decisions.")
        if self.problem is not None:
            better = self._behind(y.costs[None], y.chosen[None], np.atleast_2d(y_pred.chosen))[0]
            if better > 0:
                raise _not_best(self.problem, better)
        # Nothing is better than the best: the same whether costs are minimised or maximised.
        return abs(float(y.costs @ (y_pred.chosen - y.chosen)))

    def loss_scores(self, x: Any, y: Decision) -> dict[str, FloatArray]:
        """Minus half the true costs.

        Raises
        ------
        TaskError
            If ``y`` has no costs.
        """
        if y.costs is None:
            raise TaskError("Y[{sample}] has no costs; make true outputs by best_decisions.")
        if "instance" in self.kinds:
            return {"instance": -0.5 * y.costs[None]}
        return {"items": -0.5 * y.costs[:, None]}

    def argmax(self, x: Any, scores: Any) -> Decision:
        """The best decision for costs that are the scores."""
        return Decision(self._problem(x).solve(self._predicted(scores)))

    def is_valid(self, x: Any, y: Decision) -> bool:
        """Whether the problem of ``x`` may decide so."""
        return self._problem(x).is_feasible(y.chosen)

    def separate(self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts) -> Separation:
        """All instances at once where they share a problem."""
        if self.problem is None or not self._share_problem(X):
            return super().separate(X, Y, scores)
        true = Y if isinstance(Y, TrueDecisions) else _table(Y)
        predicted = self.costs_table(scores, len(true))
        asked = predicted - 0.5 * true.costs
        found = self.problem.solve_all(asked)
        self._check_truth(true, found)
        self.check_best(asked, found, true.chosen)
        self._check_best_of_all(asked, found, true.chosen)
        rows, items = np.nonzero(found != true.chosen)
        values = 2.0 * self._sign(None) * (true.chosen - found)[rows, items]
        indptr = np.searchsorted(rows, np.arange(len(true) + 1)).astype(np.int64)
        losses = np.abs(np.einsum("ij,ij->i", true.costs, found - true.chosen))
        zeros = np.zeros(len(rows), np.int64)
        parts = {"instance": (rows, items), "items": (rows * true.costs.shape[1] + items, zeros)}
        return Separation(
            losses,
            {kind: Measure(*parts[kind], values) for kind in self.kinds},
            dict.fromkeys(self.kinds, indptr),
        )

    def check_best(
        self,
        costs: FloatArray,
        found: FloatArray,
        others: FloatArray,
        examples: IntArray | None = None,
    ) -> None:
        """Raise TaskError where a decision found is worse than another that is known.

        Parameters
        ----------
        costs, found, others : ndarray, shape (n, n_items)
            Differences of costs, the decisions found at them, and others.
        examples : ndarray of int, shape (n,), optional
            Numbers of the examples that the rows belong to.  Default: 0 to n - 1.
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

    def _check_best_of_all(self, costs: FloatArray, found: FloatArray, known: FloatArray) -> None:
        """The same for a few examples, against the true decisions of all.

        A solver that takes costs of one sign may return the true decision whatever the model.
        """
        n = len(costs)
        few = np.unique(np.linspace(0, n - 1, min(n, _PROBED)).astype(np.int64))
        best = np.argmax(self._sign(None) * costs[few] @ known.T, axis=1)
        self.check_best(costs[few], found[few], known[best], few)

    def _check_truth(self, true: TrueDecisions, found: FloatArray) -> None:
        """Raise TaskError where a decision found is better at the true costs than the true one."""
        behind = self._behind(true.costs, true.chosen, found)
        i = int(np.argmax(behind > 0))
        if behind[i] > 0:
            assert self.problem is not None
            raise _not_best(self.problem, behind[i], i)

    def _behind(self, costs: FloatArray, chosen: FloatArray, others: FloatArray) -> FloatArray:
        """By how much decisions are worse than others; 0 within what rounding makes of it."""
        worse = self._sign(None) * np.einsum("ij,ij->i", costs, others - chosen)
        sizes = np.einsum("ij,ij->i", np.abs(costs), np.abs(others) + np.abs(chosen))
        return np.where(worse > _SOLVER_SLIP * (1.0 + sizes), worse, 0.0)

    def best_decisions(self, X: Sequence[Any], costs: Any) -> Sequence[Decision]:
        """True outputs: the best decision at the true costs of each input.

        Parameters
        ----------
        X : sequence, shape (n,)
            Inputs.
        costs : array-like, shape (n, n_items), or a sequence of n vectors
            True costs of each input.

        Returns
        -------
        truth : sequence of Decision, shape (n,)
            Each with its true costs.

        Raises
        ------
        ValueError
            If ``X`` and ``costs`` differ in length.
        TaskError
            If the costs of an input are not finite or too few, or its problem cannot be solved;
            the message names the input.
        """
        if len(costs) != len(X):
            raise ValueError(f"X has {len(X)} inputs and costs {len(costs)}; give one row each.")
        vectors = [self._checked_costs(i, row) for i, row in enumerate(costs)]
        if self.problem is not None and self._share_problem(X):
            table = np.array(vectors)
            return TrueDecisions(self.problem.solve_all(table), table)
        return [
            Decision(on_example("solve", i, self._problem(x).solve, vector), vector)
            for i, (x, vector) in enumerate(zip(X, vectors, strict=True))
        ]

    def predicted_costs(self, scores: StackedParts) -> list[FloatArray]:
        """Predicted costs of each input from the scores of its parts.

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
        """The same for ``n`` inputs with equally many items, shape (n, n_items)."""
        return np.asarray(sum(rows.reshape(n, -1) for rows in scores.rows.values()), np.float64)

    def with_problem(self, problem: DecisionProblem) -> PredictThenOptimizeTask:
        """The same task with another problem.

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
            If the problem is known to have another number of items.
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
        """Costs of one example from its scores by kind."""
        if not isinstance(scores, dict):
            return np.ascontiguousarray(scores.ravel(), np.float64)
        return np.asarray(sum(rows.ravel() for rows in scores.values()), np.float64)

    def _problem(self, x: Any) -> DecisionProblem:
        own = x.problem if isinstance(x, DecisionInput) else None
        problem = own or self.problem
        if problem is None:
            raise TaskError(
                f"{shown(x)} has no problem, and neither has the task; give "
                "DecisionInput(..., problem=...)."
            )
        return problem

    def _sign(self, x: Any) -> float:
        return 1.0 if self._problem(x).maximize else -1.0

    def _share_problem(self, X: Sequence[Any]) -> bool:
        """Whether no input has a problem of its own."""
        if isinstance(X, np.ndarray):
            return True
        return all(not isinstance(x, DecisionInput) or x.problem is None for x in X)


def _not_best(problem: DecisionProblem, better: float, sample: int | None = None) -> TaskError:
    return TaskError(
        "Y[{sample}] is not the best decision at its true costs: another is better by "
        f"{better:.6g}. Make true outputs by best_decisions, as PredictThenOptimize does, with a "
        f"solver that is exact. It is {problem}.",
        sample,
    )


def _table(Y: Sequence[Decision]) -> TrueDecisions:
    """True outputs as two tables."""
    for i, y in enumerate(Y):
        costs = y.costs if isinstance(y, Decision) else None
        if costs is None or np.shape(y.chosen) != np.shape(costs):
            raise TaskError(
                "Y[{sample}] is no Decision with a cost of each item; make true outputs by "
                "best_decisions.",
                i,
            )
    return TrueDecisions(np.array([y.chosen for y in Y]), np.array([y.costs for y in Y]))
