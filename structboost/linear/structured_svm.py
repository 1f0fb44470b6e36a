"""Linear structured SVM, the baseline of boosting on the same tasks."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from structboost._typing import override
from structboost.contract.calls import check_nothing_missing, separation, stacked
from structboost.contract.one_output import warn_of_one_output
from structboost.contract.parts import StackedParts
from structboost.contract.task import Task, check_is_task
from structboost.files.schema import DamagedFileError
from structboost.linear.designs import linear_ensemble
from structboost.linear.svm_run import Run
from structboost.model.ensemble import Ensemble
from structboost.model.linear_members import weights_of
from structboost.runtime.blas import one_blas_thread
from structboost.runtime.fitted_state import committed, unfitted_copy
from structboost.runtime.interrupts import deferred_interrupts
from structboost.training.history import (
    ending_of_passes,
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

# A fit that tells whether weights lower the hinge at all: its C in units of one at which examples
# count much, its gap, and its most passes.
_PROBE_STRENGTH, _PROBE_GAP, _PROBE_EPOCHS = 10.0, 0.1, 30
# Parameters that a file keeps, as plain values.
_SAVED = {"C": float, "tol": float, "max_epochs": int, "active": list, "average": bool}


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
    average : bool
        Whether exact passes are made at weighted means of the weights, or at the newest weights.
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

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import MulticlassTask, StructuredSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> trainer = StructuredSVM(MulticlassTask(3), C=100.0).fit(X, y)
    >>> -trainer.score(X, y) < 0.1  # the mean loss
    True
    """

    task: Task
    _: KW_ONLY
    C: float = 1.0
    tol: float = 1e-3
    max_epochs: int = 1000
    active: Sequence[str] = ()
    average: bool = True
    random_state: Any = None
    verbose: int = 0

    # How an estimator calls what is minimised.
    _objective = "svm"
    # Whether dense features get mean 0 and standard deviation 1.
    _standardises = False

    @committed
    def fit(self, X: Sequence[Any], Y: Sequence[Any], sample_weight: Any = None) -> StructuredSVM:
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
        self._fit(X, Y, sample_weight)
        if not self.interrupted_:
            is_optimum = partial(self._is_empty_whatever_C, X, Y, sample_weight)
            warn_of_one_output(self.task, X, Y, self.scores, is_optimum)
        return self

    def _fit(self, X: Sequence[Any], Y: Sequence[Any], sample_weight: Any) -> None:
        self._check_parameters()
        X, Y = by_position(X), by_position(Y)
        check_examples(X, Y)
        example_weights = checked_example_weights(sample_weight, len(X))
        with one_blas_thread():
            self._train(Run(self, X, Y, example_weights))

    def _is_empty_whatever_C(self, X: Sequence[Any], Y: Sequence[Any], sample_weight: Any) -> bool:
        """Whether a coarse fit at a large C proves that weights hardly lower the hinge."""
        probe = unfitted_copy(self)
        probe.C = max(float(self.C), _PROBE_STRENGTH * self._unit_of_C(X))
        probe.tol, probe.max_epochs, probe.verbose = _PROBE_GAP, _PROBE_EPOCHS, 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            probe._fit(X, Y, sample_weight)
        scores = probe.scores(X)
        zeros = {kind: np.zeros_like(rows) for kind, rows in scores.rows.items()}
        losses = separation(self.task, X, Y, StackedParts(zeros, scores.offsets)).losses
        of_none = probe.C * float(np.average(losses, weights=sample_weight))
        return bool(probe.history_[-1]["bound"] >= (1.0 - 2.0 * _PROBE_GAP) * of_none)

    def _unit_of_C(self, X: Sequence[Any]) -> float:
        """Divide the number of examples by the mean square of the features of one."""
        rows = [
            stacked >= 0 if kind in self.active else stacked
            for kind, stacked in self._stack(X).rows.items()
        ]
        values = [table.data if sparse.issparse(table) else np.asarray(table) for table in rows]
        squares = sum(float(np.square(table, dtype=np.float64).sum()) for table in values)
        unit = len(X) ** 2 / squares if squares > 0 else 1.0
        # Squares of tiny features are too small for a float.
        return unit if np.isfinite(unit) else 1.0

    def path(
        self, X: Sequence[Any], Y: Sequence[Any], Cs: Iterable[float], *, sample_weight: Any = None
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
        X, Y = by_position(X), by_position(Y)
        check_examples(X, Y)
        example_weights = checked_example_weights(sample_weight, len(X))
        run: Run | None = None
        values: Iterable[Any] = iterated_Cs(Cs, checked_positive)
        if isinstance(Cs, Sized):
            values = list(values)
            for C in values:
                checked = unfitted_copy(self)
                checked.C = C
                checked._check_parameters()
        for C in values:
            svm = unfitted_copy(self)
            svm.C = C
            svm._check_parameters()
            with deferred_interrupts(), one_blas_thread():
                if run is None:
                    run = Run(svm, X, Y, example_weights)
                else:
                    run.continue_with(svm)
                svm._train(run)
            yield svm
            if svm.interrupted_:
                return
        if run is None:
            raise ValueError("Cs is empty; give at least one C.")

    def _train(self, run: Run) -> None:
        self.interrupted_ = not run.optimise()
        self._keep(run)
        if self.interrupted_:
            warn_of_interruption(len(self.history_), "exact pass")
        elif self.history_[-1]["gap"] > self.tol:
            warn_of_open_gap(
                self.history_[-1]["gap"], self.tol, len(self.history_), "max_epochs",
                ", scale the features, or lower C",
            )  # fmt: skip

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
    def _parameters_in(cls, facts: Mapping[str, Any]) -> dict[str, Any]:
        parameters: dict[str, Any] = facts["parameters"]
        if set(parameters) != set(_SAVED):
            raise DamagedFileError("it has other parameters than those of StructuredSVM")
        return parameters

    @classmethod
    @override
    def from_model(cls, model: Ensemble, task: Task) -> Self:
        trainer = super().from_model(model, task)
        trainer._check_parameters()
        trainer.ending_ = trainer._ending()
        return trainer

    def _stack(self, X: Sequence[Any]) -> StackedParts:
        stack = stacked(self.task, X)
        for kind in self.task.kinds:
            if kind not in self.active:
                check_nothing_missing(stack, kind, "a linear function")
        return stack

    def _check_parameters(self) -> None:
        check_is_task(self.task)
        checked_positive(self.C, "C")
        checked_positive(self.tol, "tol")
        checked_relative_gap(self.tol, "tol")
        checked_whole_number(self.max_epochs, "max_epochs")
        is_list = isinstance(self.active, Sequence | Set) and not isinstance(
            self.active, str | bytes
        )
        if not is_list or not all(kind in list(self.task.kinds) for kind in self.active):
            raise ValueError(
                f"active is {shown(self.active)}; give a list of kinds of the task, which has "
                f"{list(self.task.kinds)}."
            )

    def _ending(self) -> str:
        return ending_of_passes(self.history_, self.tol, interrupted=self.interrupted_)

    def _keep(self, run: Run) -> None:
        self.history_, self.objective_, self.C_ = run.history, run.primal, float(self.C)
        self.ending_ = self._ending()
        norm = 0.5 * float(run.best @ run.best)
        self.loss_fraction_ = 1.0 - norm / run.primal if run.primal else 0.0
        matrices = {a.kind: run.parts.matrix(run.best, a) for a in run.parts.layouts}
        facts = {
            "trainer": StructuredSVM.__name__,
            "C": self.C_,
            "history": self.history_,
            "objective": self.objective_,
            "certified": bool(self.history_[-1]["certified"]),
            "ending": self.ending_,
            "interrupted": self.interrupted_,
            "parameters": {name: plain(getattr(self, name)) for name, plain in _SAVED.items()},
            "n_known": run.n_known,
        }
        self.model_ = linear_ensemble(self.task.kinds, run.designs, matrices, facts)
