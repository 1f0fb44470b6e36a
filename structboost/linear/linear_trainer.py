"""Linear functions as models, by hinge or likelihood, with C chosen by held-out examples."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Protocol, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from structboost._typing import FloatArray, IntArray
from structboost.contract.calls import mean_loss, predictions, stacked_inputs
from structboost.contract.one_output import (
    is_constant,
    predicts_one_output,
    warn_of_one_output,
)
from structboost.contract.parts import StackedParts
from structboost.contract.task import Task, check_is_task
from structboost.errors import examples_numbered
from structboost.linear.designs import Design, linear_ensemble, linear_scores
from structboost.linear.primal_likelihood import FoldResult, PrimalLikelihood
from structboost.linear.structured_svm import StructuredSVM
from structboost.objectives.base import Problem
from structboost.objectives.likelihood import Likelihood
from structboost.progress import ProgressBar
from structboost.runtime.blas import one_blas_thread
from structboost.runtime.fitted_state import committed
from structboost.runtime.interrupts import raise_if_interrupted, uninterrupted
from structboost.selection.folds import Fold
from structboost.selection.held_out import HeldOut, measured_model
from structboost.selection.path import SATISFIED, SATISFIED_FRACTION, Path, Trial, upwards
from structboost.selection.scoring import Score, checked_score
from structboost.selection.temperature import temperature_on_folds
from structboost.training.history import (
    contradicts,
    ending_in_words,
    ending_of_passes,
    record,
    relative_gap,
    warn_of_interruption,
    warn_of_open_gap,
)
from structboost.training.trainer import Trainer
from structboost.validation import (
    by_position,
    check_examples,
    checked_choice,
    checked_example_weights,
    checked_positive,
    checked_relative_gap,
    checked_whole_number,
    is_text,
)

AUTO = "auto"
LOSSES = ("hinge", "log_loss")
# The smallest C that is tried: by the hinge, and as a weight of each example by the likelihood.
_SMALLEST, _SMALLEST_OF_EXAMPLE = 0.1, 0.03
# Gap and rounds of the fits on folds, by the hinge and by the likelihood.  Near the best C,
# held-out examples do not show the effect of a gap of a few percent.
_COARSE_OF_HINGE, _EPOCHS_OF_HINGE = 0.1, 30
_COARSE, _COARSE_ROUNDS = 0.05, 10
# Fits at the C chosen, each to a gap that is finer by a factor, while one output is predicted.
_MOST_FITS, _FINER, _FINEST = 4, 0.1, 1e-9
# Folds are used until so many examples are held out, since each likelihood is informative.
_ENOUGH = 200
# A path ends where the likelihood of held-out examples has fallen by so many standard errors.
_CLEARLY = 2.0
# How far the minus log-likelihood of held-out examples may be above the least, as a fraction of
# what it fell by from the smallest C on: which is little if features are uninformative.
_NEAR = 0.125

# A fold, and the scores of the parts of its held-out examples.
HeldScores = tuple[Fold, StackedParts]


class LikelihoodProblem(Protocol):
    """Interface of a solver on one training set, as the trainer needs it.

    ``begin(C)`` comes before ``improve()``, which makes a round and sets ``primal`` and ``bound``.
    Ctrl-C may be raised inside it, and leaves the matrices of the round before.
    """

    designs: Mapping[str, Design]
    primal: float
    bound: float

    def begin(self, C: float) -> None:
        """Continue with another C, from the result of the previous one."""

    def result(self) -> FoldResult:
        """Return the result so far, which is small and shares no memory with the examples."""

    def adopt(self, result: FoldResult, rows: IntArray, C: float) -> None:
        """Start at C from the result of a problem with the examples ``rows``."""

    def improve(self) -> None:
        """Make a round."""

    def matrices(self) -> Mapping[str, FloatArray]:
        """Return the best weights so far, by kind, shape (width, n_channels)."""


@dataclass(eq=False, repr=False)
class LinearTrainer(Trainer):
    """Trainer of linear functions of the parts, on standardised features.

    Minimises ``C mean(loss_i) + |w|^2 / 2``, where the loss of an example is the structured hinge
    of :class:`structboost.StructuredSVM` or ``-log p(y_i | x_i)``, with ``p(y | x) ~ exp(F(x,
    y))``.  Sparse and ``active`` features are not standardised.  Each channel of each kind has one
    linear function of weight 1.

    Parameters
    ----------
    task : Task
        A task, which implements marginals for the likelihood.
    C : float or "auto"
        Weight of the mean loss against half the squared norm of the weights.  ``"auto"`` takes the
        best C on the folds passed to :meth:`fit`.  By the likelihood that is the largest one whose
        held-out minus log-likelihood is near the least: above it by at most an eighth of its fall
        since the smallest C.
    tol : float
        Relative gap ``(primal - bound) / primal`` at which training stops.
    max_rounds : int
        Largest number of rounds, or of exact passes.
    loss : {"hinge", "log_loss"}
        The structured hinge, or minus the log-likelihood.
    random_state : int, RandomState or None
        Seed for the order of the examples, if the problem draws one.
    verbose : int
        1 shows a progress bar.
    active : collection of str
        Kinds whose rows are indices of active features
        (:func:`structboost.learners.active_features`).
    problem : callable
        Class of :class:`LikelihoodProblem` that is solved; the hinge has its own.
    on_held_out : callable, optional
        Called with an iterator over the folds and the scores of their held-out parts, at the C of
        a fit by the likelihood.  A fold on which C was not chosen is fitted when the iterator
        reaches it.

    Attributes
    ----------
    model_, history_, objective_, interrupted_, ending_, C_, C_path_, C_path_end_
        As in :class:`structboost.StructBoost`.
    temperature_ : float or None
        Factor of the scores before they become probabilities, at most 1, fitted on the held-out
        parts of the folds by the likelihood.  None if C is a number.
    """

    task: Task
    _: KW_ONLY
    C: float | str
    tol: float
    max_rounds: int
    loss: str = "hinge"
    random_state: Any = None
    verbose: int = 0
    active: Collection[str] = ()
    problem: Callable[..., Any] = PrimalLikelihood
    on_held_out: Callable[[Iterator[HeldScores]], None] | None = None
    C_path_: list[dict[str, Any]] = field(init=False)
    C_path_end_: str = field(init=False)
    temperature_: float | None = field(init=False)

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

        Parameters
        ----------
        X, Y : sequence
            Inputs and true outputs, as the task takes them.
        sample_weight : array-like, shape (n_examples,), optional
            Weight of each example in the mean loss.
        folds : sequence of Fold, optional
            Folds on which C is chosen, as far as they are needed, and for ``on_held_out``.
        score : callable, optional
            As in :meth:`structboost.StructBoost.fit`.

        Raises
        ------
        ValueError, TypeError, TaskError
            If a parameter or an argument is out of range, or the task has no marginals.

        Warns
        -----
        ConvergenceWarning
            If the gap is above ``tol`` after ``max_rounds``.
        ConstantPredictionWarning
            If one output is predicted for all examples, whose true outputs differ.
        InterruptedFitWarning
            On Ctrl-C, which keeps the best weights so far.
        """
        checked_choice(self.loss, "loss", LOSSES)
        self.C_path_, self.C_path_end_, self.temperature_ = [], "", None
        if self.loss == "hinge":
            self._fit_hinge(X, Y, sample_weight, folds or [], score)
            return self
        self._objective = self._objective or self.loss
        self._check_parameters()
        check_examples(X, Y)
        began = time.perf_counter()
        X, Y = by_position(X), by_position(Y)
        example_weights = checked_example_weights(sample_weight, len(X))
        with one_blas_thread():
            start: tuple[FoldResult, Fold] | None = None
            C, of_path = self.C, list[HeldScores]()
            if is_text(C, AUTO):
                C, start, of_path = self._chosen_C(folds or [], score)
            if self.on_held_out is not None and folds:
                self.on_held_out(self._held_out(float(C), folds, of_path))
            problem = self._problem(X, Y, example_weights)
            if start is None or start[1].rows is None:
                problem.begin(float(C))
            else:
                problem.adopt(start[0], np.asarray(start[1].rows), float(C))
            start = None
            facts = self._train(problem, float(C), began)
            designs, weights = problem.designs, problem.matrices()
            del problem  # which is large
            self.model_ = linear_ensemble(self.task.kinds, designs, weights, facts)
            self._warn()
        if not self.interrupted_:
            warn_of_one_output(self.task, X, Y, self.scores)
        return self

    # -- by the hinge ----------------------------------------------------------------------------

    def _fit_hinge(
        self,
        X: Sequence[Any],
        Y: Sequence[Any],
        sample_weight: Any,
        folds: Sequence[Fold],
        score: Score | None,
    ) -> None:
        C: Any = self.C
        if is_text(C, AUTO):
            coarse = replace(
                self,
                verbose=0,
                tol=max(self.tol, _COARSE_OF_HINGE),
                max_rounds=min(self.max_rounds, _EPOCHS_OF_HINGE),
            )
            path = Path("C", records=self.C_path_)
            path.follow(upwards(_SMALLEST), _HingeFits(coarse, folds, score).fit)
            C, self.C_path_end_ = path.value, path.end
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

    def _svm(self, C: Any, tol: float) -> StructuredSVM:
        svm = StructuredSVM(
            self.task,
            C=C,
            tol=tol,
            max_epochs=self.max_rounds,
            # A choice on the same examples is the same in each fit.
            random_state=0 if self.random_state is None else self.random_state,
            verbose=self.verbose,
            active=list(self.active),
        )
        svm._objective, svm._standardises = self._objective, True
        return svm

    # -- by the likelihood -----------------------------------------------------------------------

    def _train(self, problem: LikelihoodProblem, C: float, began: float) -> dict[str, Any]:
        """Run rounds until an end, and return the facts that are saved with the model."""
        label = f"{self._objective} over linear, C {C:.4g}  "
        bar = ProgressBar(self.tol, self.max_rounds, label) if self.verbose else None
        self.history_, self.interrupted_, certified = [], False, True
        try:
            for round_ in range(1, int(self.max_rounds) + 1):
                problem.improve()
                certified = certified and not contradicts(
                    self.history_, problem.primal, problem.bound
                )
                self.history_.append(
                    record(
                        round_,
                        problem.primal,
                        problem.bound,
                        certified=certified,
                        columns=_n_columns(problem),
                        seconds=time.perf_counter() - began,
                    )
                )
                if bar is not None:
                    bar(self.history_[-1], self)
                if self.history_[-1]["gap"] <= self.tol:
                    break
            raise_if_interrupted()
        except KeyboardInterrupt:
            if not self.history_:
                raise
            self.interrupted_ = True
        self.objective_, self.C_ = self.history_[-1]["primal"], C
        self.ending_ = ending_of_passes(self.history_, self.tol, interrupted=self.interrupted_)
        if bar is not None:
            bar.end(ending_in_words(self.ending_))
        return {
            "C": C,
            "history": self.history_,
            "objective": self.objective_,
            "temperature": self.temperature_,
        }

    def _warn(self) -> None:
        if self.interrupted_:
            warn_of_interruption(len(self.history_))
        elif self.history_[-1]["gap"] > self.tol:
            warn_of_open_gap(
                self.history_[-1]["gap"], self.tol, len(self.history_), remedy=", or lower C"
            )

    def _chosen_C(
        self, folds: Sequence[Fold], score: Score | None
    ) -> tuple[float, tuple[FoldResult, Fold], list[HeldScores]]:
        """Return the best C on the folds, the result on the first fold, and held-out scores."""
        held = np.cumsum([len(fold.held_Y) for fold in folds])
        folds = folds[: int(np.searchsorted(held, _ENOUGH)) + 1]
        fits = _LikelihoodFits(self, folds, score)
        path = Path("C", records=self.C_path_)
        n = float(np.mean([len(fold.Y) for fold in folds]))
        path.follow(upwards(float(f"{_SMALLEST_OF_EXAMPLE * n:.3g}")), fits.fit)
        self.C_path_end_ = path.end
        C = path.value if score is not None else _boldest(path.records)
        if path.value < C:
            self.C_path_end_ += f"; {C:.4g} is the largest whose surrogate is near the least"
        # A bold C is too certain on new examples.
        self.temperature_ = fits.temperature(C)
        held_out = list(zip(folds, fits.scores[C], strict=True))
        return C, (fits.problems[0].result(), folds[0]), held_out

    def _held_out(
        self, C: float, folds: Sequence[Fold], of_path: Sequence[HeldScores]
    ) -> Iterator[HeldScores]:
        """Yield the scores of the folds of the path, then of the other folds, fitted at C."""
        yield from of_path
        for fold in folds[len(of_path) :]:
            fits = _LikelihoodFits(self, [fold], None)
            fits.fit(C)
            yield fold, fits.scores[C][0]

    def _problem(self, X: Any, Y: Any, example_weights: FloatArray) -> LikelihoodProblem:
        problem: LikelihoodProblem = self.problem(
            self.task, X, Y, example_weights, active=self.active, random_state=self.random_state
        )
        return problem

    def _check_parameters(self) -> None:
        check_is_task(self.task)
        if not is_text(self.C, AUTO):
            checked_positive(self.C, "C")
        checked_positive(self.tol, "tol")
        checked_relative_gap(self.tol, "tol")
        checked_whole_number(self.max_rounds, "max_rounds")


class _HingeFits:
    """Fits on each fold by the hinge, each warm started from the fit at the previous C."""

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


class _LikelihoodFits:
    """Fits on each fold by the likelihood, each warm started from the fit at the previous C."""

    def __init__(self, trainer: LinearTrainer, folds: Sequence[Fold], score: Score | None) -> None:
        self._trainer, self._folds, self._score = trainer, folds, score
        self.problems: list[LikelihoodProblem] = []
        # Scores of the held-out parts of each fold, by C.
        self.scores: dict[float, list[StackedParts]] = {}
        self._losses: dict[float, FloatArray] = {}
        self._surrogates: dict[float, float] = {}
        self._stacks: list[StackedParts] = []
        self._likelihoods: list[Likelihood] = []
        for fold in folds:
            example_weights = checked_example_weights(fold.sample_weight, len(fold.Y))
            with examples_numbered(fold.rows):
                self.problems.append(trainer._problem(fold.X, fold.Y, example_weights))
            with examples_numbered(fold.held_rows):
                stack = stacked_inputs(trainer.task, fold.held_X)
                example_weights = checked_example_weights(fold.held_weight, len(fold.held_Y))
                random = np.random.RandomState(0)
                problem = Problem(
                    trainer.task, fold.held_X, fold.held_Y, stack.offsets, example_weights, random
                )
                self._stacks.append(stack)
                self._likelihoods.append(Likelihood(problem, probes=False))

    def fit(self, C: float) -> Trial:
        """Continue with ``C``, and measure."""
        began = time.perf_counter()
        tol = max(self._trainer.tol, _COARSE)
        rounds, measured = [], []
        scores, losses = [], []
        for k, problem in enumerate(self.problems):
            with examples_numbered(self._folds[k].rows):
                problem.begin(C)
                n_rounds = self._approached(problem, tol)
            rounds.append(n_rounds)
            own_scores, own_losses, held_out = self._measured(k, problem)
            scores.append(own_scores)
            losses.append(own_losses)
            measured.append(held_out)
        facts = {
            "weak_learner": "linear",
            "columns": float(np.mean([_n_columns(problem) for problem in self.problems])),
            "rounds": float(np.mean(rounds)),
            "seconds": time.perf_counter() - began,
        }
        self.scores[C], self._losses[C] = scores, np.concatenate(losses)
        if self._score is None:
            # The C that is chosen is at least the most likely one, and scores may be large.
            self._surrogates[C] = float(np.mean([of_fold.surrogate for of_fold in measured]))
            likeliest = min(self._surrogates, key=self._surrogates.__getitem__)
            self.scores = {of_C: held for of_C, held in self.scores.items() if of_C >= likeliest}
        return Trial(measured, facts, end=self._why_it_ends(C, measured))

    def temperature(self, C: float) -> float:
        """Fit the factor of the held-out scores, at most 1, at a C of the path."""

        def losses(likelihood: Likelihood, held: StackedParts, factor: float) -> FloatArray:
            return likelihood.at({kind: factor * of for kind, of in held.rows.items()}).losses

        of_folds = [
            partial(losses, *of_fold)
            for of_fold in zip(self._likelihoods, self.scores[C], strict=True)
        ]
        return min(1.0, temperature_on_folds(self._folds, of_folds).factor)

    def _why_it_ends(self, C: float, measured: Sequence[HeldOut]) -> str:
        """Reason to end the path, empty unless the likelihood is clearly below the best."""
        weights = np.concatenate([fold.held_weight for fold in self._folds])
        best = min(self._losses, key=lambda tried: np.average(self._losses[tried], weights=weights))
        if self._score is not None or all(fold.is_constant for fold in measured):
            return ""
        differences = self._losses[C] - self._losses[best]
        mean = np.average(differences, weights=weights)
        error = np.linalg.norm(weights * (differences - mean)) / weights.sum()
        if mean <= _CLEARLY * error:
            return ""
        return (
            f"the held-out likelihood at C = {C:.4g} was smaller than the largest by more than "
            f"{_CLEARLY:g} standard errors"
        )

    def _approached(self, problem: LikelihoodProblem, tol: float) -> int:
        """Run rounds until the gap is small or a limit is reached, and return their number."""
        most = min(int(self._trainer.max_rounds), _COARSE_ROUNDS)
        for n in range(1, most + 1):
            problem.improve()
            if (relative_gap(problem.primal, problem.bound) or 0.0) <= tol:
                return n
        return most

    def _measured(
        self, k: int, problem: LikelihoodProblem
    ) -> tuple[StackedParts, FloatArray, HeldOut]:
        task, fold = self._trainer.task, self._folds[k]
        X, Y, weights = fold.held_X, fold.held_Y, fold.held_weight
        with examples_numbered(fold.held_rows):
            scores = linear_scores(problem.designs, problem.matrices(), self._stacks[k])
            outputs = predictions(task, X, scores)
            losses = self._likelihoods[k].losses(scores.rows)
            held_out = HeldOut(
                mean_loss(task, Y, outputs, weights),
                float(np.average(losses, weights=weights)),
                is_constant(task, X, Y, outputs, scores),
            )
        if self._score is not None:
            model = linear_ensemble(
                task.kinds, problem.designs, problem.matrices(), {"C": 0.0, "history": []}
            )
            held_out = held_out._replace(score=checked_score(self._score, model, fold))
        return scores, losses, held_out


def _n_columns(problem: LikelihoodProblem) -> int:
    return sum(design.width for design in problem.designs.values())


def _boldest(records: Sequence[Mapping[str, Any]]) -> float:
    """Return the largest C whose held-out likelihood is near the maximum.

    The most likely C makes models that are a little too timid, whose outputs omit what is
    rare (docs/decisions.md).
    """
    losses = [entry["surrogate"] for entry in records]
    largest = min(losses) + _NEAR * (losses[0] - min(losses))
    return float(max(entry["C"] for entry in records if entry["surrogate"] <= largest))
