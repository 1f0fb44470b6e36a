"""Linear structured SVM, the baseline of boosting on the same tasks.

Its problem alternates exact passes and steps on cuts::

    repeat
        exact pass at w     the most violated outputs, the primal value, new cuts
        stop when the gap to the dual value is small enough
        steps on the cuts so far, until they leave a fraction of the gap
        w = between the best weights so far and the new ones
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set, Sized
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from structboost._typing import Examples, Facts, FloatArray, override
from structboost.contract.calls import check_found, separation, warn_of_one_output
from structboost.contract.probes import probe_argmax
from structboost.contract.separation import KeptTruth
from structboost.contract.task import Task, checked_task
from structboost.files.archive import DamagedFileError
from structboost.linear.designs import (
    Design,
    LinearProblem,
    check_sizes,
    designs_of,
    stacked_without_gaps,
    weights_of,
)
from structboost.model.ensemble import Ensemble
from structboost.progress import ProgressBar
from structboost.runtime.called_class import names_calls
from structboost.runtime.compiled import one_blas_thread
from structboost.runtime.fitted_state import committed, unfitted_copy
from structboost.runtime.interrupts import deferred_interrupts, raise_if_interrupted
from structboost.solvers.block_frank_wolfe import BlockFrankWolfe
from structboost.solvers.linear_scores import FoundOutputs, LinearScores, merge_kinds
from structboost.training.history import (
    contradicts,
    ending_in_words,
    record,
    relative_gap,
    warn_of_interruption,
    warn_of_open_gap,
)
from structboost.training.trainer import Trainer, iterated_Cs
from structboost.validation import (
    by_position,
    check_examples,
    checked_example_weights,
    checked_positive,
    checked_relative_gap,
    checked_whole_number,
    shown,
)

# The problem restricted to the cached cuts is solved to this fraction of the gap after the last
# exact pass.
_INNER_FRACTION = 0.2
# The next exact pass is made between the best weights so far and the new ones: nearer to the new
# ones after progress, nearer to the best after none (in-out separation).
_MORE_NEW = 1.2
_LESS_NEW = 0.6
_LEAST_NEW = 0.1
# Largest size of features, and its inverse: sums of their squares are numbers.
_LARGEST = 1e150


class HingeProblem(LinearProblem):
    """Minimiser of ``C mean(structured hinge) + |w|^2 / 2`` over linear functions.

    A round is an exact pass, after steps on the cuts of the passes before it.

    Parameters
    ----------
    task : Task
    X, Y : sequence
        Inputs and true outputs.
    example_weights : ndarray, shape (n_examples,)
        Weights of the examples, which sum to 1.
    tol : float
        Relative gap that is wanted.  Steps on cuts are no finer than it needs.
    active, random_state
        As in :class:`structboost.StructuredSVM`.
    standardise : bool
        Whether dense features get mean 0 and one standard deviation.

    Attributes
    ----------
    primal, bound : float
        Objective of the best weights so far, and the lower bound, at the C of :meth:`begin`.
    """

    def __init__(
        self,
        task: Task,
        X: Examples,
        Y: Examples,
        example_weights: FloatArray,
        *,
        tol: float,
        active: Collection[str],
        random_state: Any,
        standardise: bool,
    ) -> None:
        self._X, self._Y, self._budgets = X, Y, example_weights
        self._tol = float(tol)
        stack = stacked_without_gaps(task, X, active)
        self.task = task.for_inputs(X)
        self.is_exact = bool(self.task.exact_argmax)
        probe_argmax(self.task, X, Y, stack.offsets)
        self.designs: Mapping[str, Design] = designs_of(
            task.kinds, stack, active, standardise=standardise
        )
        check_sizes(self.designs, stack, _LARGEST)
        matrices = {k: design.matrix(stack.rows[k]) for k, design in self.designs.items()}
        self._parts = LinearScores(self.task.kinds, matrices, stack.offsets)
        random = check_random_state(random_state)
        self._solver = BlockFrankWolfe(self._parts, example_weights, random)
        self._truth = KeptTruth()
        self._C = 1.0
        self._start()

    def _start(self) -> None:
        self._best = self._solver.weights.copy()
        self.primal, self.bound = np.inf, -np.inf
        self._n_passes = 0
        self._fraction_of_new, self._is_better = 1.0, False
        # Outputs and flat scores of the last pass, whose cuts are not added yet.
        self._last_pass: tuple[FoundOutputs, FloatArray] | None = None

    @override
    def begin(self, C: float) -> None:
        if (relative_gap(self.primal, self.bound) or 0.0) > self._tol:
            self._next_weights()
        factor = C / self._C
        self._C, self._budgets = C, factor * self._budgets
        self._solver.scale_budgets(factor)
        self._start()

    @property
    def loss_fraction(self) -> float:
        """Fraction of the objective that is loss."""
        norm = 0.5 * float(self._best @ self._best)
        return 1.0 - norm / self.primal if self.primal else 0.0

    @override
    def facts(self) -> dict[str, int]:
        return {
            "cuts": self._solver.n_cuts,
            "columns": int(np.count_nonzero(self._best)),
            "oracle_calls": self._n_passes,
        }

    @override
    def matrices(self) -> dict[str, FloatArray]:
        return {at.kind: self._parts.matrix(self._best, at) for at in self._parts.layouts}

    @override
    def improve(self) -> None:
        weights = self._next_weights()
        raise_if_interrupted()
        flat, scores = self._parts.scores(weights)
        separated = separation(self.task, self._X, self._Y, scores, truth=self._truth)
        outputs = merge_kinds(separated, self._parts, scores)
        hinges = np.maximum(outputs.violations, 0.0)
        cached = self._solver.cached_violations(flat)
        if self.is_exact:
            check_found(hinges, cached, outputs.losses, scores)
        risk = float(self._budgets @ np.maximum(hinges, cached))
        primal = 0.5 * float(weights @ weights) + risk
        self.bound = max(self.bound, self._solver.dual_value)
        self._is_better = primal < self.primal
        if self._is_better:
            self.primal, self._best = primal, weights
        self._n_passes += 1
        self._last_pass = outputs, flat

    def _next_weights(self) -> FloatArray:
        """Add the cuts of the last pass, make steps on all, and return weights for the next one."""
        if self._last_pass is None:
            return self._solver.weights.copy()
        n_added = self._solver.add(*self._last_pass)
        mean = self._solver.improve(
            _INNER_FRACTION * max(self.primal - self.bound, self._tol * self.primal)
        )
        factor = _MORE_NEW if self._is_better else _LESS_NEW
        self._fraction_of_new = min(1.0, max(_LEAST_NEW, factor * self._fraction_of_new))
        if self._is_better or n_added:
            return (1.0 - self._fraction_of_new) * self._best + self._fraction_of_new * mean
        # Without a better bound or cut, only the newest weights give more information.
        return self._solver.weights.copy()


# Parameters that a file keeps beside C, as plain values.
_SAVED = {"tol": float, "max_epochs": int, "active": list}


@names_calls
@dataclass(eq=False, repr=False)
class StructuredSVM(Trainer):
    """Linear structured SVM, trained to a certified duality gap.

    The features of the parts replace the weak learners of boosting: a part x scores ``<x, W[:,
    c]>`` on channel c, and the joint feature map is ``Psi(x, y) = sum_p x_p (x) M(x, y)[p]``.
    Minimises ::

        1/2 |W|^2 + C/m sum_i max_y [Delta(y_i, y) - <W, Psi(x_i, y_i) - Psi(x_i, y)>]

    by block-coordinate Frank-Wolfe with averaging (Lacoste-Julien et al., ICML 2013) on cached cuts
    (:mod:`structboost.solvers.block_frank_wolfe`).

    Kinds of parts whose weak learners respond in (-1, 1) get a constant feature 1, whose weight is
    the bias, regularised like the others.  Kinds that respond in (0, 1), the edges of a CRF,
    must have scores >= 0: their features must be >= 0, the solver keeps their weights >= 0,
    and they have no bias.

    Scale the features: the regulariser treats all alike, and on raw scales the gap may not close in
    any reasonable number of passes.

    Parameters
    ----------
    task : Task
        The problem: parts, joint feature, loss and argmax.
    C : float
        Weight of the mean loss against the regulariser.
    tol : float
        Relative gap ``(primal - bound) / primal``, above 0 and below 1, at which training stops.
    max_epochs : int
        Largest number of exact passes, each one argmax of the task for every example.
    active : sequence of str
        Kinds of parts whose rows are indices of active features
        (:func:`structboost.learners.active_features`) instead of values: sparse rows of zeros and
        ones, of hundreds of thousands of features.
    random_state : int, RandomState or None
        Seed for the order of the examples in the passes over cached cuts.
    verbose : int
        1 shows a progress bar.

    Attributes
    ----------
    model_ : Ensemble
        The linear functions as a model.
    w_ : ndarray, shape (n_features + 1, n_channels), or dict of such arrays
        Weights, with the bias in the last row, by kind if the task has several.
        Kinds without bias have ``n_features`` rows.
    history_ : list of dict
        One per exact pass: round, primal (of the best weights so far), bound, gap, certified, cuts,
        columns (weights that are not zero), oracle_calls, seconds.
    objective_ : float
        Primal objective of ``w_``.
    interrupted_ : bool
        Whether Ctrl-C ended the fit.
    ending_ : str
        Reason why the fit ended: "gap", "max_rounds" or "interrupted".
    C_ : float
        The C of the model.

    See Also
    --------
    structboost.StructuredSVMClassifier : The same for classes.
    structboost.StructBoost : Trainer of boosted weak learners.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import MulticlassTask, StructuredSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> trainer = StructuredSVM(MulticlassTask(3), C=100.0).fit(X, y)
    >>> -trainer.score(X, y) < 0.1  # the mean loss
    True
    """

    task: Any = None
    _: KW_ONLY
    C: float = 1.0
    tol: float = 1e-3
    max_epochs: int = 1000
    active: Sequence[str] = ()
    random_state: Any = None
    verbose: int = 0

    # How an estimator calls what is minimised.
    _objective = "svm"
    # What warnings call a round, the largest number of them, and a remedy.
    _words: ClassVar[tuple[str, str, str]] = ("exact pass", "max_epochs", ", scale the features")

    @committed
    def fit(self, X: Examples, Y: Examples, sample_weight: Any = None) -> Self:
        """Train on examples ``(X[i], Y[i])``.

        Parameters
        ----------
        X, Y : sequence
            Inputs and true outputs, as the task takes them.
        sample_weight : array-like, shape (n_examples,), optional
            Weight of each example in the mean loss.

        Raises
        ------
        ValueError, TypeError
            If a parameter or an argument is out of range.
        TaskError
            If the task breaks its contract.

        Warns
        -----
        ConvergenceWarning
            If the gap is above ``tol`` after ``max_epochs``.
        ConstantPredictionWarning
            If one output is predicted for all examples, whose true outputs differ.
        InterruptedFitWarning
            On Ctrl-C; the best weights so far are kept.
        """
        self._check_parameters(self.C)
        X, Y, example_weights = checked_set(self._training_inputs(X), Y, sample_weight)
        began = time.perf_counter()
        with one_blas_thread():
            problem = self._problem(X, Y, example_weights, self.tol)
            problem.begin(float(self.C))
            self._train(problem, float(self.C), self.tol, began)
        if not self.interrupted_:
            warn_of_one_output(self.task, X, Y, self._scores)
        return self

    def path(
        self, X: Examples, Y: Examples, Cs: Iterable[float], *, sample_weight: Any = None
    ) -> Iterator[StructuredSVM]:
        """Fit a copy for each C, warm started from the cuts of the previous one.

        Each copy is as certified as a fit alone.  A copy is fitted when it is requested, so that a
        caller may stop early.

        Parameters
        ----------
        X, Y, sample_weight
            As for :meth:`fit`.
        Cs : iterable of float
            Weights of the mean loss, in an order in which neighbours are near.

        Yields
        ------
        svm : StructuredSVM
            A fitted copy of this one; after Ctrl-C the last one is interrupted.

        Raises
        ------
        ValueError, TypeError, TaskError
            As :meth:`fit` does.
        """
        first = unfitted_copy(self)
        X, Y, example_weights = checked_set(first._training_inputs(X), Y, sample_weight)
        self._check_parameters(C=1.0)
        problem: HingeProblem | None = None
        values: Iterable[Any] = iterated_Cs(Cs, checked_positive)
        if isinstance(Cs, Sized):
            values = list(values)
        for C in values:
            svm = copy(first)
            svm.C = C
            began = time.perf_counter()
            with deferred_interrupts(), one_blas_thread():
                problem = problem or svm._problem(X, Y, example_weights, self.tol)
                problem.begin(float(C))
                svm._train(problem, float(C), self.tol, began)
            yield svm
            if svm.interrupted_:
                return
        if problem is None:
            raise ValueError("Cs is empty; give at least one C.")

    def _problem(self, X: Any, Y: Any, example_weights: FloatArray, tol: float) -> Any:
        """Return the problem of some examples."""
        return HingeProblem(
            self.task, X, Y, example_weights, tol=tol, active=self.active,
            random_state=self.random_state, standardise=False,
        )  # fmt: skip

    def _train(
        self, problem: LinearProblem, C: float, tol: float, began: float, **facts: Any
    ) -> None:
        """Make rounds until an end, set the attributes of the fit, and warn of an open gap."""
        most, (unit, limit, remedy) = int(self.max_epochs), self._words
        label = f"{self._objective} over linear, C {C:.4g}  "
        bar = ProgressBar(tol, most, label) if self.verbose else None
        certified, self.history_, self.interrupted_ = problem.is_exact, [], False
        try:
            for round_ in range(1, most + 1):
                problem.improve()
                primal, bound = problem.primal, problem.bound
                certified = certified and not contradicts(self.history_, primal, bound)
                seconds = time.perf_counter() - began
                of_round = {"certified": certified, **problem.facts(), "seconds": seconds}
                self.history_.append(record(round_, primal, bound, **of_round))
                if bar is not None:
                    bar(self.history_[-1], self)
                if self.history_[-1]["gap"] <= tol:
                    break
            raise_if_interrupted()
        except KeyboardInterrupt:
            if not self.history_:
                raise
            self.interrupted_ = True
        last, self.C_ = self.history_[-1], C
        self.objective_ = last["primal"]
        is_open = last["gap"] > tol
        self.ending_ = "interrupted" if self.interrupted_ else "max_rounds" if is_open else "gap"
        if bar is not None:
            bar.end(ending_in_words(self.ending_))
        saved = {name: plain(getattr(self, name)) for name, plain in _SAVED.items()}
        facts |= {
            "trainer": StructuredSVM.__name__,
            "columns": self.columns_,
            "C": C,
            "history": self.history_,
            "objective": self.objective_,
            "certified": bool(last["certified"]),
            "ending": self.ending_,
            "interrupted": self.interrupted_,
            "parameters": {"C": C, **saved},
            "n_known": {
                kind: problem.designs[kind].width - self.task.kinds[kind].has_bias
                for kind in self.active
            },
        }
        self.model_ = problem.model(facts)
        if self.interrupted_:
            warn_of_interruption(len(self.history_), unit)
        elif is_open:
            warn_of_open_gap(last["gap"], tol, len(self.history_), limit, f"{remedy}, or lower C")

    @property
    def w_(self) -> Any:
        """Weights of the features and the constant, by kind if the task has several."""
        model = self._fitted()
        n_known: Mapping[str, int] = model.metadata["n_known"]
        weights = {
            kind: weights_of(member, self.task.kinds[kind], n_known.get(kind))
            for kind, member in model.members.items()
        }
        return weights if len(weights) > 1 else next(iter(weights.values()))

    @classmethod
    @override
    def _parameters_in(cls, facts: Facts) -> dict[str, Any]:
        parameters: dict[str, Any] = facts["parameters"]
        if set(parameters) != {"C", *_SAVED}:
            raise DamagedFileError("it has other parameters than those of StructuredSVM")
        return parameters

    @classmethod
    @override
    def from_model(cls, model: Ensemble, task: Task) -> Self:
        trainer = super().from_model(model, task)
        trainer._check_parameters(trainer.C)
        return trainer

    def _check_parameters(self, C: Any) -> None:
        checked_task(self.task)
        checked_positive(C, "C")
        checked_positive(self.tol, "tol")
        checked_relative_gap(self.tol, "tol")
        checked_whole_number(self.max_epochs, self._words[1])
        is_list = isinstance(self.active, Sequence | Set) and not isinstance(
            self.active, str | bytes
        )
        if not is_list or not all(kind in list(self.task.kinds) for kind in self.active):
            raise ValueError(
                f"active is {shown(self.active)}; give a list of kinds of the task, which has "
                f"{list(self.task.kinds)}."
            )


def checked_set(X: Any, Y: Any, sample_weight: Any) -> tuple[Any, Any, FloatArray]:
    """Return examples by position, and their weights in the risk."""
    X, Y = by_position(X), by_position(Y)
    check_examples(X, Y)
    return X, Y, checked_example_weights(sample_weight, len(X))
