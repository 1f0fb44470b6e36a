"""Linear functions for decisions: C and start by held-out regret, and the mean of the best fits."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from structboost._typing import FloatArray, IntArray
from structboost.decisions.problem import DecisionProblem
from structboost.estimators.decision_inputs import FeatureTables, Preparation
from structboost.estimators.known_decisions import costs_of
from structboost.exceptions import InterruptedFitWarning, examples_numbered
from structboost.linear.designs import plain_ensemble
from structboost.linear.structured_svm import StructuredSVM
from structboost.runtime.interrupts import uninterrupted
from structboost.selection.folds import Fold, shuffled_parts
from structboost.selection.held_out import HeldOut
from structboost.selection.path import Path, Trial
from structboost.tasks.predict_then_optimize import PredictThenOptimizeTask, TrueDecisions

# The C that are tried, upwards and then downwards.  Beyond the largest the gap closes slowly.
# Towards 0 the weights shrink in a fixed direction: decisions, and so the regret, end up the same.
_UPWARDS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_DOWNWARDS = (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
_FOLDS = 5
# The mean of the best few needs neighbours of the best C, so some are tried in any case.
_AT_LEAST = 4
# The model is the mean of the fits with so many pairs of C and start.
_AVERAGED = 5
# Near the best C the held-out regret does not tell a gap of a few percent from none.
_COARSE = 0.05
_MAX_EPOCHS = 15


class _Fit(NamedTuple):
    """A fit on all instances but those of one fold."""

    preparation: Preparation
    svm: StructuredSVM
    regret: float
    is_constant: bool

    def costs(self, given: FeatureTables) -> FloatArray:
        """Predicted costs, shape (n, n_items)."""
        task: Any = self.svm.task
        return np.array(costs_of(task, self.svm, self.preparation.inputs(given)))


class _Setting(NamedTuple):
    """The fits of a C and a start, one for each fold."""

    C: float
    start: str
    fits: list[_Fit]

    @property
    def regret(self) -> float:
        return float(np.mean([fit.regret for fit in self.fits]))


class FoldFits:
    """Fits of linear functions, each with one fold of the instances held out.

    Parameters
    ----------
    problem : DecisionProblem
        Solved in training, and for the held-out instances.
    given : FeatureTables
    truth : TrueDecisions
    starts : sequence of str
    tol : float
        Relative gap of the fits, unless it is finer than what the held-out regret can tell.
    random_state : int, RandomState or None

    Attributes
    ----------
    path : list of dict
        ``C``, ``start`` and held-out ``regret`` of each setting.
    end : str
        Reason why no other C was tried, for each start, upwards and downwards.
    """

    def __init__(
        self,
        problem: DecisionProblem,
        given: FeatureTables,
        truth: TrueDecisions,
        starts: Sequence[str],
        tol: float,
        random_state: Any,
    ) -> None:
        self._problem, self._given, self._truth = problem, given, truth
        self._tol, self._random_state = max(tol, _COARSE), random_state
        n_folds = min(_FOLDS, len(given))
        if n_folds < 2:
            raise ValueError("C is 'auto', which holds out instances; give at least two.")
        seed = 0 if random_state is None else random_state
        self._folds = shuffled_parts(len(given), n_folds, seed)
        self._settings: list[_Setting] = []
        with warnings.catch_warnings():
            for category in (ConvergenceWarning, InterruptedFitWarning):
                warnings.simplefilter("ignore", category)
            ends = [self._search(start) for start in starts]
        self.end = "; ".join(ends)
        self.path = [{"C": s.C, "start": s.start, "regret": s.regret} for s in self._settings]

    def _search(self, start: str) -> str:
        """Try each C with a start, upwards and then downwards, and return why both ended."""
        given, truth = self._given, self._truth
        parts = [
            (Preparation(given.take(train), truth.costs[train], start), train, held)
            for train, held in self._folds
        ]
        path, ends = Path("C"), []
        for Cs, direction in ((_UPWARDS, "largest"), (_DOWNWARDS, "smallest")):
            now = [0.0]
            fits = [self._fits(iter(partial(now.__getitem__, 0), None), *part) for part in parts]

            def fit(C: float, now: list[float] = now, fits: Any = fits) -> Trial:
                now[0] = C
                setting = _Setting(C, start, [next(of_fold) for of_fold in fits])
                self._settings.append(setting)
                # No surrogate: it would call the solver some more times for each instance.
                return Trial(
                    [
                        HeldOut(own.regret, own.regret, own.is_constant, -own.regret)
                        for own in setting.fits
                    ]
                )

            path.follow(Cs, fit, direction=direction, at_least=_AT_LEAST)
            ends.append(path.end)
        return f"start {start}: {', and then '.join(ends)}"

    @property
    def best(self) -> tuple[float, str]:
        """C and start of the smallest held-out regret."""
        return self._best.C, self._best.start

    def folds(self, preparation: Preparation) -> list[Fold]:
        """The same folds for a trainer.

        Parameters
        ----------
        preparation : Preparation
            Without a start, which would have seen the costs of the held-out instances.
        """
        return [
            Fold(
                *self._part(preparation, train), None, *self._part(preparation, held),
                rows=train, held_rows=held,
            )
            for train, held in self._folds
        ]  # fmt: skip

    def beat(self, losses: Sequence[Sequence[float]]) -> bool:
        """Whether the best setting has a regret at most that of another model's best.

        Parameters
        ----------
        losses : sequence of sequences
            For each C of the other model, the mean regret of an instance, for each fold.
        """
        values = np.abs(np.einsum("ij,ij->i", self._truth.costs, self._truth.chosen))
        scales = [max(values[held].mean(), np.finfo(float).tiny) for _, held in self._folds]
        return self._best.regret <= min(float(np.mean(np.divide(x, scales))) for x in losses)

    @property
    def _best(self) -> _Setting:
        return min(self._settings, key=lambda s: s.regret)

    def _part(self, preparation: Preparation, rows: IntArray) -> tuple[Any, TrueDecisions]:
        truth = TrueDecisions(self._truth.chosen[rows], self._truth.costs[rows])
        return preparation.inputs(self._given.take(rows)), truth

    def mean(self, task: PredictThenOptimizeTask, preparation: Preparation) -> StructuredSVM:
        """The mean of the fits of the best settings: again a linear function.

        Parameters
        ----------
        task : PredictThenOptimizeTask
            Of the features without a start.
        preparation : Preparation
            Without a start; the weights are those of its standardised features.
        """
        settings = sorted(self._settings, key=lambda s: s.regret)[:_AVERAGED]
        fits = [(s, fit) for s in settings for fit in s.fits]
        points, n_instance = preparation.points(self._truth.costs.shape[1])
        costs = np.mean([fit.costs(points) for _, fit in fits], axis=0)
        bias, slopes = costs[0], costs[1:] - costs[0]
        weights = {}
        if "instance" in task.kinds:
            weights["instance"] = np.vstack((slopes[:n_instance], bias))
            bias = np.zeros(1)
        if "items" in task.kinds:
            # The items share a function: all costs move alike.
            of_items = np.append(slopes[n_instance:].mean(axis=1), bias.mean())
            weights["items"] = of_items[:, None]
        facts = dict(fits[0][1].svm.model_.metadata)
        facts["history"] = [{"C": s.C, "start": s.start} | f.svm.history_[-1] for s, f in fits]
        return StructuredSVM.from_model(plain_ensemble(task.kinds, weights, facts), task)

    def _fits(
        self, Cs: Iterable[float], preparation: Preparation, train: IntArray, held: IntArray
    ) -> Iterator[_Fit]:
        """A fit for each C, warm started from the one before."""
        truth = self._truth
        n_items = truth.costs.shape[1]
        task = PredictThenOptimizeTask(self._problem, preparation.features, n_items=n_items)
        coarse = StructuredSVM(
            task, tol=self._tol, max_epochs=_MAX_EPOCHS, random_state=self._random_state
        )
        known = TrueDecisions(truth.chosen[train], truth.costs[train])
        path = coarse.path(preparation.training_inputs, known, Cs)
        while True:
            with examples_numbered(train):
                svm = uninterrupted(partial(next, path))
            fit = _Fit(preparation, svm, np.nan, False)
            with examples_numbered(held):
                chosen = self._problem.solve_all(fit.costs(self._given.take(held)))
            regret = normalized_regret(truth.costs[held], chosen, truth.chosen[held])
            best = truth.chosen[held]
            is_constant = bool((chosen == chosen[:1]).all() and not (best == best[:1]).all())
            yield fit._replace(regret=regret, is_constant=is_constant)


def normalized_regret(
    costs: FloatArray, chosen: FloatArray, best: FloatArray, weights: FloatArray | float = 1.0
) -> float:
    """Total regret over the total size of the best values.

    Parameters
    ----------
    costs : ndarray, shape (n, n_items)
        True costs or values.
    chosen, best : ndarray, shape (n, n_items)
        Decisions made, and the best ones.
    weights : ndarray, shape (n,), or float
        Weight of each instance in both totals.
    """
    values = weights * np.einsum("ij,ij->i", costs, best)
    regret = np.abs(weights * np.einsum("ij,ij->i", costs, chosen) - values)
    return float(regret.sum() / max(np.abs(values).sum(), np.finfo(float).tiny))
