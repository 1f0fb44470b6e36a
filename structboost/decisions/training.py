"""Training for decisions, with C and start by held-out regret.

Where it spares solves, it trains on the decisions known so far, with exact solves only to certify.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from structboost._typing import FloatArray, IntArray, override
from structboost.decisions.inputs import DecisionInputs, TrueDecisions
from structboost.decisions.model import STD_OF_START, Preparation, costs_of
from structboost.decisions.problem import BatchProblem, DecisionProblem
from structboost.decisions.task import PredictThenOptimizeTask, check_best
from structboost.errors import InterruptedFitWarning, examples_numbered, warn_user
from structboost.linear.designs import plain_ensemble
from structboost.linear.structured_svm import StructuredSVM
from structboost.runtime.compiled import one_blas_thread
from structboost.runtime.interrupts import uninterrupted
from structboost.selection.folds import Fold, shuffled_parts
from structboost.selection.held_out import HeldOut
from structboost.selection.path import Path, Record, Trial
from structboost.training.boosting import StructBoost
from structboost.training.trainer import Trainer
from structboost.validation import AUTO, is_text

# Products of costs and decisions held at once.
_MOST_PRODUCTS = 1 << 24
# After each fit, one of so many parts of the instances is solved exactly.
_PARTS = 16
# Exact solves of each instance, about, after which training ends.
_MOST_SOLVES = 10
# The fit on the known decisions closes its gap to this fraction of the last gap over all decisions.
_INNER_GAP = 0.2
_COARSEST = 0.2


class KnownDecisions(BatchProblem):
    """A problem restricted to known decisions, shape (n, n_items), the best of which it returns."""

    def __init__(self, problem: DecisionProblem, decisions: FloatArray) -> None:
        self.maximize = problem.maximize
        self.n_items = decisions.shape[1]
        self._name = str(problem)
        self.decisions = np.unique(decisions, axis=0)

    def add(self, decisions: FloatArray) -> None:
        """Add further decisions."""
        self.decisions = np.unique(np.concatenate((self.decisions, decisions)), axis=0)

    @override
    def solve_all(self, costs: FloatArray) -> FloatArray:
        step, sign = max(1, _MOST_PRODUCTS // len(self.decisions)), -1.0 if self.maximize else 1.0
        best = [
            np.argmin(sign * costs[i : i + step] @ self.decisions.T, axis=1)
            for i in range(0, len(costs), step)
        ]
        decisions: FloatArray = self.decisions[np.concatenate(best)]
        return decisions

    @override
    def is_feasible(self, decision: FloatArray) -> bool:
        return bool((self.decisions == decision).all(axis=1).any())

    def __str__(self) -> str:
        return self._name


def fit_on_known_decisions(trainer: Trainer, X: DecisionInputs, Y: TrueDecisions) -> list[Record]:
    """Fit a trainer on the known decisions, solve some instances exactly at its costs, and repeat.

    First the problem's own ``improve_all`` betters the known decisions, until they leave a gap of
    at most the trainer's ``tol``.  Then a few instances at a time are solved, each time after a new
    fit; once these few have such a gap, all others are solved too.  Every decision is known for all
    instances from then on.  The maximum of the hinge over known decisions is at most that over all,
    so the bound of each fit holds for the whole problem; solving all gives the primal value.
    Returns a record per fit; where it is not ``certified``, primal and gap are estimates.
    """
    task: Any = trainer.task
    problem: DecisionProblem = task.problem
    pool = KnownDecisions(problem, Y.chosen)
    passes: list[Record] = []
    tol, n = float(trainer.tol), len(Y)
    few = np.arange(-(-n // _PARTS))
    gap, bound, n_solves = 1.0, -np.inf, 0
    trainer.task = PredictThenOptimizeTask(pool, task.features, n_items=task.n_items)

    def judged(slack: FloatArray) -> tuple[float, float, bool]:
        """Return primal value and gap, and whether few enough of the hinge is missed."""
        missed = trainer.C_ * float(np.nanmean(slack))
        primal = trainer.objective_ + missed
        # Where the trainer gave up, only what exact solves miss can become smaller.
        gave_up = trainer.history_[-1]["gap"] > trainer.tol
        gap = (primal - bound) / primal if primal else 0.0
        return primal, gap, gap <= tol or (gave_up and missed <= tol * primal)

    try:
        while True:
            trainer.tol = max(0.5 * tol, min(_COARSEST, _INNER_GAP * gap))
            uninterrupted(partial(trainer.fit, X, Y))
            trainer.C = trainer.C_
            bound = max(bound, float(trainer.history_[-1]["bound"]))
            costs = costs_of(trainer, X) - 0.5 * Y.costs
            best = pool.solve_all(costs)
            better = problem.improve_all(costs, best)
            pool.add(better)
            slack = _slack(problem, costs, best, better)
            primal, gap, is_close = judged(slack)
            if slack.any() and not is_close:
                continue
            slack[:] = np.nan
            is_last = n_solves + n >= _MOST_SOLVES * n
            for rows in (few, np.setdiff1d(np.arange(n), few)):
                with examples_numbered(rows):
                    decisions = problem.solve_all(costs[rows])
                    check_best(problem, costs[rows], decisions, best[rows])
                pool.add(decisions)
                n_solves += len(rows)
                slack[rows] = _slack(problem, costs[rows], best[rows], decisions)
                primal, gap, is_close = judged(slack)
                if not (is_close or is_last):
                    break
            few = (few + len(few)) % n
            is_certified = not np.isnan(slack).any()
            passes.append(
                {
                    "round": len(passes) + 1,
                    "primal": primal,
                    "bound": bound,
                    "gap": gap,
                    "certified": is_certified,
                    "exact_solves": n_solves,
                    "decisions": len(pool.decisions),
                }
            )
            if is_certified and (is_close or is_last):
                break
    finally:
        trainer.task, trainer.tol = task, tol
    trainer.objective_ = primal
    if gap > tol:
        warn_user(
            f"The gap is {gap:.2g} after {n_solves} exact solves, above tol = {tol}; raise tol or "
            "max_rounds, lower C, or set spare_solves=False.",
            ConvergenceWarning,
        )
    return passes


def _slack(
    problem: DecisionProblem, costs: FloatArray, decisions: FloatArray, better: FloatArray
) -> FloatArray:
    """Hinge of each instance that better decisions add, which other ones did not tell of."""
    twice = -2.0 if problem.maximize else 2.0
    gains: FloatArray = twice * np.einsum("ij,ij->i", costs, decisions - better)
    return np.maximum(gains, 0.0)


# The C that are tried, upwards and then downwards.  Beyond the largest the gap closes slowly.
# Towards 0 the weights shrink in a fixed direction: decisions, and so the regret, end up the same.
_UPWARDS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_DOWNWARDS = (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
# The C of smoothed costs, whose noise is gone.
_LARGE = 1000.0
_FOLDS = 5
# The mean of the best few needs neighbours of the best C, so some are tried in any case.
_AT_LEAST = 4
# The model is the mean of the fits with so many pairs of C and start.
_AVERAGED = 5
# Standard errors by which the best of them must be better than the neutral one.
_CLEARLY = 1.5
# Width of the kernel over the index of n instances, times the fifth root of n.
_WIDTH = 0.5
# Instances, of any number, at whose index the smoothed costs are fitted.
_POINTS = 100
# Near the best C the held-out regret does not tell a gap of a few percent from none.
_COARSE = 0.05
_MAX_EPOCHS = 15


def train(
    parameters: Any, task: PredictThenOptimizeTask, inputs: DecisionInputs, truth: TrueDecisions
) -> tuple[Trainer, Preparation, Record]:
    """Choose C and start on folds, where they are left open, and train on all instances.

    The ``parameters`` are attributes, as of :class:`PredictThenOptimize`.  The facts that come with
    trainer and preparation are those of a :class:`DecisionModel`.
    """
    C, start, learners = parameters.C, parameters.start, parameters.weak_learner
    is_linear = is_text(learners, "linear")
    is_plain = not parameters.spare_solves and start != "boosted"
    # The linear functions of a union are judged alone, too.
    is_union = isinstance(learners, list | tuple) and "linear" in learners
    is_judged = is_linear or (is_union and is_plain and start != "least_squares")
    fits, passes = None, []
    if is_text(C, AUTO) and is_judged:
        starts = ["none", "least_squares"] if start == "auto" else [start]
        if start == "auto" and is_plain and task.features == "instance":
            starts.append("index")
        fits = LinearFits(parameters, task, inputs, truth, starts)
        C, start = fits.chosen[:2]
    elif start == "auto":
        start = "least_squares" if is_linear else "none"
    is_mean = fits and is_plain and C
    preparation, prepared = Preparation.fit(inputs, truth.costs, "none" if is_mean else start)
    own_task = preparation.task(task.problem, task.n_items)
    if fits and (is_mean or not C):
        trainer = fits.mean(preparation) if C else fits.alone(start, preparation, own_task)
    else:
        trainer = _trainer(parameters, own_task, C, is_linear=is_linear)
        if parameters.spare_solves:
            passes = fit_on_known_decisions(trainer, prepared, truth)
        else:
            trainer.fit(prepared, truth)
    if fits and is_union:
        plain, prepared = Preparation.fit(inputs, truth.costs)
        union = _trainer(parameters, task, AUTO, is_linear=False)
        # Linear functions alone have been judged, and every solve of further paths costs time.
        folds = fits.folds(prepared)
        uninterrupted(partial(union.fit, prepared, truth, folds=folds, can_split=False))
        if not fits.beat([entry["losses"] for entry in union.C_path_]):
            trainer, preparation = union, plain
    facts = {"C": float(trainer.C_), "history": trainer.history_, "passes": passes}
    facts |= {"path": fits.path if fits else [], "path_end": fits.end if fits else ""}
    return trainer, preparation, facts


def _trainer(parameters: Any, task: PredictThenOptimizeTask, C: Any, *, is_linear: bool) -> Any:
    trainer: Any = StructuredSVM if is_linear else StructBoost
    names = ["tol", "random_state", "verbose"]
    names += [] if is_linear else ["max_rounds", "weak_learner", "engine", "n_jobs"]
    return trainer(task, C=C, **{name: getattr(parameters, name) for name in names})


class _Fit(NamedTuple):
    """A fit on all instances but those of one fold, and the regret of each of these."""

    preparation: Preparation
    svm: StructuredSVM
    held_out: HeldOut
    regrets: FloatArray


class _Setting(NamedTuple):
    """The fits of a C and a start, one for each fold, where C = 0 is the start alone."""

    C: float
    start: str
    fits: list[_Fit]

    @property
    def regret(self) -> float:
        return float(np.mean([fit.held_out.loss for fit in self.fits]))

    @property
    def regrets(self) -> FloatArray:
        """Regret of each instance, where it was held out."""
        return np.concatenate([fit.regrets for fit in self.fits])

    def is_clearly_better(self, other: _Setting) -> bool:
        """Whether the regret of the same instances is smaller by 1.5 standard errors."""
        gain = other.regrets - self.regrets
        return bool(gain.mean() > _CLEARLY * gain.std(ddof=1) / np.sqrt(len(gain)))


class _Part:
    """Inputs of one fold, prepared with one start, to train on and held out."""

    def __init__(self, fits: LinearFits, start: str, train: IntArray, held: IntArray) -> None:
        self._train, self._held, self._truth = train, held, fits.truth[train]
        self._held_truth = fits.truth[held]
        self.preparation, self._prepared = Preparation.fit(
            fits.inputs[train], self._truth.costs, start
        )
        if start == "index":
            # The smoothed costs are a function of the index, of which some values are enough.
            index = self._prepared.tables["instance"]
            order = np.argsort(index[:, 0], kind="stable")
            rows = order[np.unique(np.linspace(0, len(order) - 1, _POINTS).astype(np.int64))]
            costs = smoothed(index[rows], index, self._truth.costs)
            self._train, self._prepared = train[rows], self._prepared[rows]
            with examples_numbered(self._train):
                chosen = fits.problem.solve_all(costs)
            self._truth = TrueDecisions(chosen=chosen, costs=costs)
        self._held_inputs = self.preparation.inputs(fits.inputs[held])

    def path(self, svm: StructuredSVM, Cs: Sequence[float]) -> Iterator[_Fit]:
        """Fit with each C, warm started from the one before, and measure the held-out regret."""
        path = svm.path(self._prepared, self._truth, Cs)
        for _ in Cs:
            with examples_numbered(self._train):
                fitted: Any = uninterrupted(partial(next, path))
            yield self.judged(fitted)

    def judged(self, svm: StructuredSVM) -> _Fit:
        """Measure the regret of the held-out instances."""
        task: Any = svm.task
        with examples_numbered(self._held):
            chosen = task.problem.solve_all(costs_of(svm, self._held_inputs))
        best = self._held_truth.chosen
        regrets, sizes = regrets_and_sizes(self._held_truth.costs, chosen, best)
        regrets /= sizes.mean() or 1.0
        regret = float(regrets.mean())
        is_constant = bool((chosen == chosen[:1]).all() and not (best == best[:1]).all())
        # No surrogate: it would call the solver some more times for each instance.
        return _Fit(self.preparation, svm, HeldOut(regret, regret, is_constant, -regret), regrets)


@contextmanager
def _coarse_fits() -> Iterator[None]:
    """Silence warnings of fits that are meant to be coarse, or end by Ctrl-C."""
    with warnings.catch_warnings():
        for category in (ConvergenceWarning, InterruptedFitWarning):
            warnings.simplefilter("ignore", category)
        yield


class LinearFits:
    """Fits of linear functions over C and starts, each with one fold of the instances held out.

    Where solves are spared, the only decisions are the true ones of all instances.  ``path`` has a
    record per setting, and ``end`` the reason why no other C was tried, for each start.
    """

    def __init__(
        self,
        parameters: Any,
        task: PredictThenOptimizeTask,
        inputs: DecisionInputs,
        truth: TrueDecisions,
        starts: Sequence[str],
    ) -> None:
        self.task, self.inputs, self.truth = task, inputs, truth
        n_folds, seed = min(_FOLDS, len(inputs)), parameters.random_state
        if n_folds < 2:
            raise ValueError("C is 'auto', which holds out instances; give at least two.")
        self._rows = shuffled_parts(len(inputs), n_folds, 0 if seed is None else seed)
        self.settings: list[_Setting] = []
        problem: Any = task.problem
        self.problem = KnownDecisions(problem, truth.chosen) if parameters.spare_solves else problem
        self._svm = StructuredSVM(
            task, tol=max(parameters.tol, _COARSE), max_epochs=_MAX_EPOCHS, random_state=seed
        )
        with _coarse_fits():
            self.end = "; ".join([self._search(start) for start in starts if start != "index"])
            neutral = [setting for setting in self.settings if not setting.C]
            if "index" in starts:
                fits = [self._index_fit(*rows) for rows in self._rows]
                # Fits of an index that leaves out much are chosen only by chance.
                if all(fit.preparation.has_one_index for fit in fits):
                    self.settings.append(_Setting(_LARGE, "index", fits))
                    # One of two features has most of the variance by chance.
                    if inputs.tables["instance"].shape[1] > 2:
                        neutral.append(self.settings[-1])
        # The setting of the least held-out regret, if it is clearly better than the best neutral.
        by_regret = attrgetter("regret")
        best, first = min(self.settings, key=by_regret), min(neutral, key=by_regret, default=None)
        self.chosen = best if first is None or best.is_clearly_better(first) else first
        self.path = [{"C": s.C, "start": s.start, "regret": s.regret} for s in self.settings]

    def _search(self, start: str) -> str:
        """Try each C with a start, upwards and then downwards, and return why both ended."""
        parts = [_Part(self, start, *rows) for rows in self._rows]
        task = self._svm.task = parts[0].preparation.task(self.problem, self.task.n_items)
        path, ends = Path("C"), []
        for Cs, direction in ((_UPWARDS, "largest"), (_DOWNWARDS, "smallest")):
            paths = [part.path(self._svm, Cs) for part in parts]

            def fit(C: float, paths: Sequence[Iterator[_Fit]] = paths) -> Trial:
                fits = [next(fits_of_part) for fits_of_part in paths]
                self.settings.append(_Setting(C, start, fits))
                return Trial([fit.held_out for fit in fits])

            path.follow(Cs, fit, direction=direction, at_least=_AT_LEAST)
            ends.append(path.end)
        if start != "none":
            alone = [part.judged(self.alone(start, part.preparation, task)) for part in parts]
            self.settings.append(_Setting(0.0, start, alone))
        return f"start {start}: {', and then '.join(ends)}"

    def _index_fit(self, train: IntArray, held: IntArray) -> _Fit:
        """Fit the function of one index, which is that of largest variance of predicted costs."""
        self._svm.task = self.task
        return next(_Part(self, "index", train, held).path(self._svm, [_LARGE]))

    def folds(self, prepared: DecisionInputs) -> list[Fold]:
        """Return the same folds of all inputs, prepared without a start.

        A start would have seen the costs of the held-out instances.
        """
        return [
            Fold(
                prepared[train], self.truth[train], None, prepared[held], self.truth[held],
                rows=train, held_rows=held,
            )
            for train, held in self._rows
        ]  # fmt: skip

    def beat(self, losses: Sequence[Sequence[float]]) -> bool:
        """Return whether the chosen setting has a regret at most that of another model's best.

        ``losses`` are the mean regrets of an instance, for each C of the other model and each fold.
        """
        _, sizes = regrets_and_sizes(self.truth.costs, self.truth.chosen, self.truth.chosen)
        scales = [sizes[held].mean() or 1.0 for _, held in self._rows]
        return self.chosen.regret <= min(float(np.mean(np.divide(x, scales))) for x in losses)

    def alone(self, start: str, preparation: Preparation, task: Any) -> StructuredSVM:
        """Return the start as a linear function of prepared features, which is its costs."""
        sizes = {kind: preparation.sizes.get(kind, 0) + 1 for kind in task.kinds}
        sizes["items"] += 1  # the start
        weights = {kind: np.zeros((sizes[kind], of.n_channels)) for kind, of in task.kinds.items()}
        center, std = preparation.arrays["start"].tolist()
        weights["items"][-2:, 0] = std / STD_OF_START, center
        facts = {
            **self.settings[0].fits[0].svm.model_.metadata,
            "certified": False,
            "C": 0.0,
            "objective": 0.0,
            "history": [{"C": 0.0, "start": start, "gap": 1.0}],
        }
        return StructuredSVM.from_model(plain_ensemble(task.kinds, weights, facts), task)

    def mean(self, preparation: Preparation) -> StructuredSVM:
        """Return the mean of the fits of the best settings, which is a linear function, too.

        Its weights are those of features that are prepared without a start.
        """
        if self.chosen.start == "index":
            # The fits of folds miss too much where few parameters are left.
            every = np.arange(len(self.inputs))
            with _coarse_fits():
                fits = [(self.chosen, self._index_fit(every, every))]
        else:
            settings = [s for s in self.settings if s.C and s.start != "index"]
            best = sorted(settings, key=lambda setting: setting.regret)[:_AVERAGED]
            fits = [(setting, fit) for setting in best for fit in setting.fits]
        basis = preparation.basis(self.truth.costs.shape[1])
        costs = np.mean([costs_of(f.svm, f.preparation.inputs(basis)) for _, f in fits], axis=0)
        bias, slopes = costs[0], costs[1:] - costs[0]
        n_instance = len(preparation.arrays.get("instance_mean", ()))
        weights, kinds = {}, self.task.kinds
        if "instance" in kinds:
            weights["instance"] = np.vstack((slopes[:n_instance], bias))
            bias = np.zeros(1)
        if "items" in kinds:
            # The items share a function: all costs move alike.
            weights["items"] = np.append(slopes[n_instance:].mean(axis=1), bias.mean())[:, None]
        facts = {**fits[0][1].svm.model_.metadata, "certified": False}
        facts["history"] = [{"C": s.C, "start": s.start} | f.svm.history_[-1] for s, f in fits]
        return StructuredSVM.from_model(plain_ensemble(kinds, weights, facts), self.task)


def smoothed(points: FloatArray, index: FloatArray, costs: FloatArray) -> FloatArray:
    """Return the mean costs, at each point, of instances whose index, of std 1, is near it."""
    with one_blas_thread():
        weights = np.exp(-0.5 * np.square((points - index.T) / (_WIDTH * len(index) ** -0.2)))
        means: FloatArray = weights @ costs / weights.sum(axis=1, keepdims=True)
    return means


def regrets_and_sizes(
    costs: FloatArray, chosen: FloatArray, best: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the regret of each decision, and the size of the best value.

    Costs and decisions have the shape (n, n_items).
    """
    values = np.einsum("ij,ij->i", costs, best)
    return np.abs(np.einsum("ij,ij->i", costs, chosen) - values), np.abs(values)
