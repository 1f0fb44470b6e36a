"""One linear function on standardised features as a model, with C chosen by held-out examples."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from structboost._typing import override
from structboost.contract.one_output import predicts_one_output, warn_of_one_output
from structboost.contract.parts import StackedParts
from structboost.contract.task import Task
from structboost.errors import examples_numbered
from structboost.linear.designs import Design, designs_of
from structboost.linear.structured_svm import StructuredSVM
from structboost.runtime.fitted_state import committed
from structboost.runtime.interrupts import uninterrupted
from structboost.selection.folds import Fold
from structboost.selection.held_out import measured_model
from structboost.selection.path import SATISFIED, SATISFIED_FRACTION, Path, Trial, upwards
from structboost.selection.scoring import Score
from structboost.training.trainer import Trainer
from structboost.validation import is_text

AUTO = "auto"
# The smallest C that is tried.
_SMALLEST = 0.1
# Near the best C, held-out examples do not show the effect of a gap of a few percent.
_COARSE = 0.1
_COARSE_EPOCHS = 30
# Fits at the C chosen, each to a gap that is finer by a factor, while one output is predicted.
_MOST_FITS, _FINER, _FINEST = 4, 0.1, 1e-9


@dataclass(eq=False, repr=False)
class LinearTrainer(Trainer):
    """Trainer of a :class:`structboost.StructuredSVM` on standardised features.

    Each channel of each kind has one linear function of weight 1.

    Parameters
    ----------
    task : Task
    C : float or "auto"
        Weight of the mean loss against half the squared norm of the standardised weights.
        ``"auto"`` takes the best C on the folds passed to :meth:`fit`.
    tol, random_state, verbose, active
        As in :class:`structboost.StructuredSVM`; ``active`` kinds are not standardised.
    max_rounds : int
        Largest number of exact passes.

    Attributes
    ----------
    model_, history_, objective_, interrupted_, ending_, C_, C_path_, C_path_end_
        As in :class:`structboost.StructBoost`.
    """

    task: Task
    _: KW_ONLY
    C: float | str
    tol: float
    max_rounds: int
    random_state: Any = None
    verbose: int = 0
    active: Sequence[str] = ()
    C_path_: list[dict[str, Any]] = field(init=False)
    C_path_end_: str = field(init=False)

    @committed
    def fit(
        self,
        X: Sequence[Any],
        Y: Sequence[Any],
        sample_weight: Any = None,
        *,
        folds: Sequence[Fold] | None = None,
        score: Score | None = None,
    ) -> Self:
        """Train on examples, after the choice of C on folds if it is ``"auto"``.

        ``score`` is as in :meth:`structboost.StructBoost.fit`.  ValueError, TypeError or TaskError
        if a parameter or an argument is out of range.
        """
        self.C_path_, self.C_path_end_ = [], ""
        C = self._chosen_C(folds or [], score) if is_text(self.C, AUTO) else self.C
        tol = self.tol
        for _ in range(_MOST_FITS):
            svm = self._svm(C, tol)
            svm._fit(X, Y, sample_weight)
            self.model_ = svm.model_
            scores_of = self.scores
            # Near weights of zero the gap is small already.  A C that was chosen left them behind.
            gap = svm.history_[-1]["gap"]
            is_done = not is_text(self.C, AUTO) or svm.interrupted_ or gap <= _FINEST
            if is_done or not predicts_one_output(self.task, X, Y, scores_of):
                break
            tol = _FINER * min(tol, gap)
        self.history_, self.interrupted_ = svm.history_, svm.interrupted_
        self.objective_, self.C_ = svm.objective_, float(C)
        self.ending_ = svm.ending_
        if not self.interrupted_:
            is_optimum = partial(svm._is_empty_whatever_C, X, Y, sample_weight)
            warn_of_one_output(self.task, X, Y, scores_of, is_optimum)
        return self

    def _chosen_C(self, folds: Sequence[Fold], score: Score | None) -> float:
        coarse = replace(
            self,
            verbose=0,
            tol=max(self.tol, _COARSE),
            max_rounds=min(self.max_rounds, _COARSE_EPOCHS),
        )
        path = Path("C", records=self.C_path_)
        path.follow(upwards(_SMALLEST), _FoldFits(coarse, folds, score).fit)
        self.C_path_end_ = path.end
        return path.value

    def _svm(self, C: Any, tol: float) -> _Standardised:
        svm = _Standardised(
            self.task,
            C=C,
            tol=tol,
            max_epochs=self.max_rounds,
            # A choice on the same examples is the same in each fit.
            random_state=0 if self.random_state is None else self.random_state,
            verbose=self.verbose,
            active=self.active,
        )
        svm._objective = self._objective
        return svm


class _FoldFits:
    """Fits on each fold, each warm started from the fit at the previous C."""

    def __init__(self, trainer: LinearTrainer, folds: Sequence[Fold], score: Score | None) -> None:
        self._task, self._folds, self._score = trainer.task, folds, score
        self._C = 0.0
        self._paths = [
            trainer._svm(1.0, trainer.tol).path(
                fold.X, fold.Y, iter(lambda: self._C, None), sample_weight=fold.sample_weight
            )
            for fold in folds
        ]

    def fit(self, C: float) -> Trial:
        """Continue with ``C``, and measure."""
        began = time.perf_counter()
        self._C = C
        histories, folds, loss_fractions = [], [], []
        for fold, path in zip(self._folds, self._paths, strict=True):
            with warnings.catch_warnings(), examples_numbered(fold.rows):
                warnings.simplefilter("ignore", ConvergenceWarning)
                svm: Any = uninterrupted(partial(next, path))
            histories.append(svm.history_)
            loss_fractions.append(svm.loss_fraction_)
            folds.append(measured_model(self._task, fold, svm.model_, score=self._score))
        facts = {
            "weak_learner": "linear",
            "columns": float(np.mean([history[-1]["columns"] for history in histories])),
            "rounds": float(np.mean([len(history) for history in histories])),
            "seconds": time.perf_counter() - began,
        }
        return Trial(
            folds, facts, end=SATISFIED if max(loss_fractions) <= SATISFIED_FRACTION else ""
        )


class _Standardised(StructuredSVM):
    """Structured SVM on features that it standardises."""

    @override
    def _designs(self, stack: StackedParts) -> dict[str, Design]:
        return designs_of(self.task.kinds, stack, self.active)
