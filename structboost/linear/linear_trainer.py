"""Linear functions as models, by hinge or likelihood, with C chosen by held-out examples."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Self

import numpy as np

from structboost._typing import Examples, Facts, FloatArray, override
from structboost.contract.calls import predicts_one_output, stacked_inputs, warn_of_one_output
from structboost.contract.parts import StackedParts
from structboost.errors import examples_numbered
from structboost.linear.designs import FoldResult, approached, linear_scores
from structboost.linear.primal_likelihood import PrimalLikelihood
from structboost.linear.structured_svm import HingeProblem, StructuredSVM, checked_set
from structboost.objectives.base import Problem
from structboost.objectives.likelihood import Likelihood
from structboost.runtime.compiled import one_blas_thread
from structboost.runtime.fitted_state import committed
from structboost.selection.folds import Fold
from structboost.selection.held_out import (
    HeldOut,
    Score,
    checked_score,
    measured_model,
    measured_scores,
    temperature_on_folds,
)
from structboost.selection.path import SATISFIED, Path, Trial, upwards
from structboost.training.history import Record
from structboost.validation import AUTO, checked_choice, checked_example_weights, is_text

Loss = Literal["hinge", "log_loss"]
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


@dataclass(eq=False, repr=False)
class LinearTrainer(StructuredSVM):
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
    max_epochs : int
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
        Class of the :class:`LinearProblem` of the likelihood; the hinge has its own.
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

    C: Any = 1.0
    loss: Loss = "hinge"
    problem: Callable[..., Any] = PrimalLikelihood
    on_held_out: Callable[[Iterator[HeldScores]], None] | None = None
    C_path_: list[Record] = field(init=False)
    C_path_end_: str = field(init=False)
    temperature_: float | None = field(init=False)

    _objective = ""
    _words = ("round", "max_rounds", "")

    @committed
    @override
    def fit(
        self,
        X: Examples,
        Y: Examples,
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
            If the gap is above ``tol`` after ``max_epochs``.
        ConstantPredictionWarning
            If one output is predicted for all examples, whose true outputs differ.
        InterruptedFitWarning
            On Ctrl-C, which keeps the best weights so far.
        """
        checked_choice(self.loss, "loss", Loss)
        self.C_path_, self.C_path_end_, self.temperature_ = [], "", None
        self._objective = self._objective or self.loss
        chooses_C = is_text(self.C, AUTO)
        self._check_parameters(1.0 if chooses_C else self.C)
        X, Y, example_weights = checked_set(self._training_inputs(X), Y, sample_weight)
        C, start = self.C, None
        held_out: list[HeldScores] = []
        with one_blas_thread():
            if chooses_C:
                C, start, held_out = self._chosen_C(folds or [], score)
            if self.on_held_out is not None and folds:
                self.on_held_out(self._held_out(float(C), folds, held_out))
            self._fit(X, Y, example_weights, float(C), start)
        if not self.interrupted_:
            warn_of_one_output(self.task, X, Y, self._scores)
        return self

    def _chosen_C(
        self, folds: Sequence[Fold], score: Score | None
    ) -> tuple[float, tuple[FoldResult, Fold] | None, list[HeldScores]]:
        """Return the best C on the folds.

        By the likelihood, the result on the first fold and held-out scores follow.
        """
        path = Path("C", records=self.C_path_)
        if self.loss == "hinge":
            path.follow(upwards(_SMALLEST), _FoldFits(self, folds, score).fit)
            self.C_path_end_ = path.end
            return path.value, None, []
        held = np.cumsum([len(fold.held_Y) for fold in folds])
        folds = folds[: int(np.searchsorted(held, _ENOUGH)) + 1]
        fits = _FoldFits(self, folds, score)
        n = float(np.mean([len(fold.Y) for fold in folds]))
        path.follow(upwards(_SMALLEST_OF_EXAMPLE * n), fits.fit)
        self.C_path_end_ = path.end
        C = path.value if score is not None else _boldest(path.records)
        if path.value < C:
            self.C_path_end_ += f"; {C:.4g} is the largest whose surrogate is near the least"
        # A bold C is too certain on new examples.
        self.temperature_ = fits.temperature(C)
        return (
            C,
            (fits.problems[0].result(), folds[0]),
            list(zip(folds, fits.scores[C], strict=True)),
        )

    def _held_out(
        self, C: float, folds: Sequence[Fold], of_path: Sequence[HeldScores]
    ) -> Iterator[HeldScores]:
        """Yield the scores of the folds of the path, then of the other folds, fitted at C."""
        yield from of_path
        for fold in folds[len(of_path) :]:
            fits = _FoldFits(self, [fold], None)
            fits.fit(C)
            yield fold, fits.scores[C][0]

    def _fit(
        self,
        X: Examples,
        Y: Examples,
        example_weights: FloatArray,
        C: float,
        start: tuple[FoldResult, Fold] | None,
    ) -> None:
        """Train, to a finer gap while one output is predicted by the hinge at a chosen C."""
        tol = self.tol
        for _ in range(_MOST_FITS):
            began = time.perf_counter()
            problem = self._problem(X, Y, example_weights, tol)
            if start is None or start[1].rows is None:
                problem.begin(C)
            else:
                problem.adopt(start[0], np.asarray(start[1].rows), C)
            self._train(problem, C, tol, began, temperature=self.temperature_)
            # Near weights of zero the gap is small already.  A C that was chosen left them behind.
            gap = self.history_[-1]["gap"]
            is_chosen = self.loss == "hinge" and is_text(self.C, AUTO)
            is_done = not is_chosen or self.interrupted_ or gap <= _FINEST
            if is_done or not predicts_one_output(self.task, X, Y, self._scores):
                return
            tol = _FINER * min(tol, gap)

    @override
    def _problem(self, X: Any, Y: Any, example_weights: FloatArray, tol: float) -> Any:
        shared = {"active": self.active, "random_state": self.random_state}
        if self.loss != "hinge":
            return self.problem(self.task, X, Y, example_weights, **shared)
        # A choice on the same examples is the same in each fit.
        shared["random_state"] = self.random_state or 0
        return HingeProblem(self.task, X, Y, example_weights, tol=tol, standardise=True, **shared)


class _FoldFits:
    """Fits on each fold, each warm started from the fit at the previous C.

    By the likelihood, ``scores`` are those of the held-out parts of each fold, by C.
    """

    def __init__(self, trainer: LinearTrainer, folds: Sequence[Fold], score: Score | None) -> None:
        self._trainer, self._folds, self._score = trainer, folds, score
        self._is_hinge = trainer.loss == "hinge"
        gap, most = (
            (_COARSE_OF_HINGE, _EPOCHS_OF_HINGE) if self._is_hinge else (_COARSE, _COARSE_ROUNDS)
        )
        self._tol, self._most = max(trainer.tol, gap), min(int(trainer.max_epochs), most)
        self.problems: list[Any] = []
        self.scores: dict[float, list[StackedParts]] = {}
        self._losses: dict[float, FloatArray] = {}
        self._held: list[tuple[StackedParts, Likelihood]] = []
        for fold in folds:
            weights = checked_example_weights(fold.sample_weight, len(fold.Y))
            with examples_numbered(fold.rows):
                self.problems.append(trainer._problem(fold.X, fold.Y, weights, self._tol))
            if self._is_hinge:
                continue
            with examples_numbered(fold.held_rows):
                stack = stacked_inputs(trainer.task, fold.held_X)
                weights = checked_example_weights(fold.held_weight, len(fold.held_Y))
                examples = trainer.task, fold.held_X, fold.held_Y, stack.offsets, weights
                self._held.append((stack, Likelihood(Problem(*examples), probes=False)))

    def fit(self, C: float) -> Trial:
        """Continue with ``C``, and measure."""
        began = time.perf_counter()
        rounds, measured = [], []
        self.scores[C], losses = [], []
        for k, (fold, problem) in enumerate(zip(self._folds, self.problems, strict=True)):
            with examples_numbered(fold.rows):
                problem.begin(C)
                rounds.append(approached(problem, self._tol, self._most))
            task, no_facts = self._trainer.task, {"C": C, "history": []}
            if self._is_hinge:
                model = problem.model(no_facts)
                measured.append(measured_model(task, fold, model, score=self._score))
                continue
            stack, likelihood = self._held[k]
            with examples_numbered(fold.held_rows):
                scores = linear_scores(problem.designs, problem.matrices(), stack)
                of_fold = likelihood.losses(scores.rows)
            held_out = measured_scores(task, fold, scores, lambda *_, of=of_fold: of)
            held_out = held_out._replace(examples=None)
            if self._score is not None:
                score = checked_score(self._score, problem.model(no_facts), fold)
                held_out = held_out._replace(score=score)
            self.scores[C].append(scores)
            losses.append(of_fold)
            measured.append(held_out)
        facts = {
            "weak_learner": "linear",
            "columns": float(np.mean([problem.facts()["columns"] for problem in self.problems])),
            "rounds": float(np.mean(rounds)),
            "seconds": time.perf_counter() - began,
        }
        if self._is_hinge:
            loss_fraction = max(problem.loss_fraction for problem in self.problems)
            end = SATISFIED if loss_fraction <= _COARSE_OF_HINGE else ""
            return Trial(measured, facts, end=end)
        self._losses[C] = np.concatenate(losses)
        return Trial(measured, facts, end=self._why_it_ends(C, measured))

    def temperature(self, C: float) -> float:
        """Fit the factor of the held-out scores, at most 1, at a C of the path."""

        def losses(likelihood: Likelihood, held: StackedParts, factor: float) -> FloatArray:
            return likelihood.at({kind: factor * of for kind, of in held.rows.items()}).losses

        of_folds = [
            partial(losses, likelihood, scores)
            for (_, likelihood), scores in zip(self._held, self.scores[C], strict=True)
        ]
        return min(1.0, temperature_on_folds(self._folds, of_folds).factor)

    def _why_it_ends(self, C: float, measured: Sequence[HeldOut]) -> str:
        """Reason to end the path, empty unless the likelihood is clearly below the best."""
        weights = np.concatenate(
            [
                np.ones(len(of.held_Y)) if of.held_weight is None else of.held_weight
                for of in self._folds
            ]
        )
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


def _boldest(records: Sequence[Facts]) -> float:
    """Return the largest C whose held-out likelihood is near the maximum.

    The most likely C makes models that are a little too timid, whose outputs omit what is
    rare (docs/decisions.md).
    """
    losses = [entry["surrogate"] for entry in records]
    largest = min(losses) + _NEAR * (losses[0] - min(losses))
    return float(max(entry["C"] for entry in records if entry["surrogate"] <= largest))
