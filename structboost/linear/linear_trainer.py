"""Linear functions as models, by hinge or likelihood, with C chosen by held-out examples."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Protocol, Self

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.contract.calls import mean_loss, predictions, stacked_inputs
from structboost.contract.one_output import (
    is_constant,
    predicts_one_output,
    warn_of_one_output,
)
from structboost.contract.parts import StackedParts
from structboost.contract.task import Task
from structboost.errors import examples_numbered
from structboost.linear.designs import Design, linear_ensemble, linear_scores
from structboost.linear.linear_fit import LinearFit, LinearProblem, approached, n_columns
from structboost.linear.primal_likelihood import FoldResult, PrimalLikelihood
from structboost.linear.svm_run import HingeProblem
from structboost.objectives.base import Problem
from structboost.objectives.likelihood import Likelihood
from structboost.runtime.blas import one_blas_thread
from structboost.runtime.fitted_state import committed
from structboost.selection.folds import Fold
from structboost.selection.held_out import HeldOut, measured_model
from structboost.selection.path import SATISFIED, SATISFIED_FRACTION, Path, Trial, upwards
from structboost.selection.scoring import Score, checked_score
from structboost.selection.temperature import temperature_on_folds
from structboost.validation import (
    by_position,
    check_examples,
    checked_choice,
    checked_example_weights,
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


class LikelihoodProblem(LinearProblem, Protocol):
    """Problem of a likelihood, which may start from the result of another one."""

    def result(self) -> FoldResult:
        """Return the result so far, which is small and shares no memory with the examples."""

    def adopt(self, result: FoldResult, rows: IntArray, C: float) -> None:
        """Start at C from the result of a problem with the examples ``rows``."""


@dataclass(eq=False, repr=False)
class LinearTrainer(LinearFit):
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
        self._objective = self._objective or self.loss
        C: Any = 1.0 if is_text(self.C, AUTO) else self.C
        self._check_numbers(C, self.max_rounds, "max_rounds")
        X, Y = by_position(X), by_position(Y)
        check_examples(X, Y)
        example_weights = checked_example_weights(sample_weight, len(X))
        train = self._fit_hinge if self.loss == "hinge" else self._fit_likelihood
        with one_blas_thread():
            is_optimum = train(X, Y, example_weights, folds or [], score)
        if not self.interrupted_:
            warn_of_one_output(self.task, X, Y, self.scores, is_optimum)
        return self

    def _keep(self, designs: Mapping[str, Design], weights: Mapping[str, FloatArray]) -> None:
        facts = {
            "C": self.C_,
            "history": self.history_,
            "objective": self.objective_,
            "temperature": self.temperature_,
        }
        self.model_ = linear_ensemble(self.task.kinds, designs, weights, facts)

    # -- by the hinge ----------------------------------------------------------------------------

    def _fit_hinge(
        self,
        X: Sequence[Any],
        Y: Sequence[Any],
        example_weights: FloatArray,
        folds: Sequence[Fold],
        score: Score | None,
    ) -> Callable[[], bool]:
        """Train, and return a test of whether weights of zero are the optimum."""
        C: Any = self.C
        if is_text(C, AUTO):
            path = Path("C", records=self.C_path_)
            path.follow(upwards(_SMALLEST), _HingeFits(self, folds, score).fit)
            C, self.C_path_end_ = path.value, path.end
        tol = self.tol
        for _ in range(_MOST_FITS):
            began = time.perf_counter()
            problem = self._hinge(X, Y, example_weights, tol)
            problem.begin(float(C))
            self._follow(
                problem, float(C), tol=tol, most=self.max_rounds, began=began,
                certified=bool(problem.task.exact_argmax), facts=problem.facts,
            )  # fmt: skip
            self._keep(problem.designs, problem.matrices())
            self._warn(tol)
            # Near weights of zero the gap is small already.  A C that was chosen left them behind.
            gap = self.history_[-1]["gap"]
            is_done = not is_text(self.C, AUTO) or self.interrupted_ or gap <= _FINEST
            if is_done or not predicts_one_output(self.task, X, Y, self.scores):
                break
            tol = _FINER * min(tol, gap)
        return partial(problem.is_empty_whatever_C, float(C))

    def _hinge(
        self, X: Sequence[Any], Y: Sequence[Any], example_weights: FloatArray, tol: float
    ) -> HingeProblem:
        # A choice on the same examples is the same in each fit.
        random_state = 0 if self.random_state is None else self.random_state
        return HingeProblem(
            self.task, X, Y, example_weights, tol=tol, active=self.active,
            random_state=random_state, standardise=True,
        )  # fmt: skip

    # -- by the likelihood -----------------------------------------------------------------------

    def _fit_likelihood(
        self,
        X: Sequence[Any],
        Y: Sequence[Any],
        example_weights: FloatArray,
        folds: Sequence[Fold],
        score: Score | None,
    ) -> None:
        began = time.perf_counter()
        start: tuple[FoldResult, Fold] | None = None
        C: Any = self.C
        of_path: list[HeldScores] = []
        if is_text(C, AUTO):
            C, start, of_path = self._chosen_C(folds, score)
        if self.on_held_out is not None and folds:
            self.on_held_out(self._held_out(float(C), folds, of_path))
        problem = self._problem(X, Y, example_weights)
        if start is None or start[1].rows is None:
            problem.begin(float(C))
        else:
            problem.adopt(start[0], np.asarray(start[1].rows), float(C))
        start = None
        self._follow(problem, float(C), tol=self.tol, most=self.max_rounds, began=began)
        designs, weights = problem.designs, problem.matrices()
        del problem  # which is large
        self._keep(designs, weights)
        self._warn(self.tol)

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


class _HingeFits:
    """Fits on each fold by the hinge, each warm started from the fit at the previous C."""

    def __init__(self, trainer: LinearTrainer, folds: Sequence[Fold], score: Score | None) -> None:
        self._task, self._folds, self._score = trainer.task, folds, score
        self._tol = max(trainer.tol, _COARSE_OF_HINGE)
        self._most = min(int(trainer.max_rounds), _EPOCHS_OF_HINGE)
        self._problems: list[HingeProblem] = []
        for fold in folds:
            example_weights = checked_example_weights(fold.sample_weight, len(fold.Y))
            with examples_numbered(fold.rows):
                self._problems.append(trainer._hinge(fold.X, fold.Y, example_weights, self._tol))

    def fit(self, C: float) -> Trial:
        """Continue with ``C``, and measure."""
        began = time.perf_counter()
        rounds, measured = [], []
        for fold, problem in zip(self._folds, self._problems, strict=True):
            with examples_numbered(fold.rows):
                problem.begin(C)
                rounds.append(approached(problem, self._tol, self._most))
            model = linear_ensemble(
                self._task.kinds, problem.designs, problem.matrices(), {"C": C, "history": []}
            )
            measured.append(measured_model(self._task, fold, model, score=self._score))
        facts = {
            "weak_learner": "linear",
            "columns": float(np.mean([problem.facts()["columns"] for problem in self._problems])),
            "rounds": float(np.mean(rounds)),
            "seconds": time.perf_counter() - began,
        }
        loss_fraction = max(problem.loss_fraction for problem in self._problems)
        end = SATISFIED if loss_fraction <= SATISFIED_FRACTION else ""
        return Trial(measured, facts, end=end)


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
        most = min(int(self._trainer.max_rounds), _COARSE_ROUNDS)
        rounds, measured = [], []
        scores, losses = [], []
        for k, problem in enumerate(self.problems):
            with examples_numbered(self._folds[k].rows):
                problem.begin(C)
                rounds.append(approached(problem, tol, most))
            own_scores, own_losses, held_out = self._measured(k, problem)
            scores.append(own_scores)
            losses.append(own_losses)
            measured.append(held_out)
        facts = {
            "weak_learner": "linear",
            "columns": float(np.mean([n_columns(problem) for problem in self.problems])),
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


def _boldest(records: Sequence[Mapping[str, Any]]) -> float:
    """Return the largest C whose held-out likelihood is near the maximum.

    The most likely C makes models that are a little too timid, whose outputs omit what is
    rare (docs/decisions.md).
    """
    losses = [entry["surrogate"] for entry in records]
    largest = min(losses) + _NEAR * (losses[0] - min(losses))
    return float(max(entry["C"] for entry in records if entry["surrogate"] <= largest))
