"""Early stopping on held-out examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from structboost.contract.calls import mean_loss, predictions
from structboost.errors import TaskError
from structboost.model.ensemble import Ensemble, model_scores
from structboost.objectives.likelihood import log_losses
from structboost.objectives.registry import formulation_of
from structboost.runtime.described import Described
from structboost.selection.folds import Fold
from structboost.selection.held_out import scaled_surrogate
from structboost.selection.scoring import Score, checked_score
from structboost.training.boosting import StructBoost
from structboost.validation import (
    by_position,
    check_examples,
    checked_example_weights,
    checked_whole_number,
    shown,
)


class EarlyStopping(Described):
    """Callback that stops training when the mean loss of held-out examples stops falling.

    Where probabilities follow from the scores (the likelihoods and the exponential loss over wrong
    outputs), it is minus the logarithm of that of the true output.  Elsewhere it is the loss of the
    task, which moves by whole examples, as scores of the user such as the accuracy do.  Of rounds
    with equal losses the one with the least surrogate is the best: minus the log-likelihood or the
    hinge, at the best scale of the scores where there are no probabilities.  So training does not
    end while predictions are still those of the beginning.

    Parameters
    ----------
    X, Y : sequence
        Held-out examples.
    n_iter_no_change : int
        Number of rounds without improvement before training stops.
    score : callable, optional
        ``score(model, fold)`` of the user, whose negative replaces the loss.
    sample_weight : array-like, shape (n_examples,), optional
        Weights of the held-out examples in the mean.

    Attributes
    ----------
    losses : list of float
        Mean held-out loss after each round.
    best_stage : int
        Round of the smallest loss, and of the smallest surrogate among these, from 0; the first of
        equals.
    """

    # Why training ends where it does.
    ending = "held_out"

    def __init__(
        self,
        X: Sequence[Any],
        Y: Sequence[Any],
        n_iter_no_change: int = 10,
        score: Score | None = None,
        *,
        sample_weight: Any = None,
    ) -> None:
        check_examples(X, Y)
        weights = checked_example_weights(sample_weight, len(Y))
        self.sample_weight = None if (weights == weights[0]).all() else weights
        if score is not None and not callable(score):
            raise TypeError(f"score is {shown(score)}; give a callable(model, fold), or None.")
        self.X, self.Y = by_position(X), by_position(Y)
        self._score = score
        self.n_iter_no_change = checked_whole_number(n_iter_no_change, "n_iter_no_change")
        self.losses: list[float] = []
        self._surrogates: list[float] = []
        self.best_stage = 0

    def __call__(self, record: Mapping[str, Any], trainer: StructBoost) -> bool:
        """Evaluate the current model, and return whether to stop."""
        if record["round"] > len(self.losses) + 1:
            self.evaluate_all(trainer)
        else:
            self._add([trainer.model_], trainer)
        return self.has_stopped

    @property
    def has_stopped(self) -> bool:
        """Whether ``n_iter_no_change`` rounds have passed without improvement."""
        return len(self.losses) - 1 - self.best_stage >= self.n_iter_no_change

    def evaluate_all(self, trainer: StructBoost) -> None:
        """Evaluate the model after every round, those that a checkpoint has behind it as well."""
        self.losses, self._surrogates = [], []
        self._add(trainer.staged_models(), trainer)

    def _add(self, models: Iterable[Ensemble], trainer: StructBoost) -> None:
        """Keep the losses of models, and which is the best."""
        for model in models:
            loss, surrogate = self._measured(model, trainer)
            self.losses.append(loss)
            self._surrogates.append(surrogate)
        self.best_stage = int(np.lexsort((self._surrogates, self.losses))[0])

    def _measured(self, model: Ensemble, trainer: StructBoost) -> tuple[float, float]:
        """Mean loss of a model, and its surrogate."""
        task, X, Y, weights = trainer.task, self.X, self.Y, self.sample_weight
        scores = model_scores(task, model, X)
        formulation = formulation_of(trainer.formulation)
        link = formulation.link
        surrogate, is_likelihood = np.inf, link is not None and not link.margin
        if link is not None and is_likelihood:
            try:
                losses = log_losses(task, X, Y, scores, link.sharpness)
                surrogate = float(losses.mean() if weights is None else weights @ losses)
            except TaskError:  # a task of codes alone, without marginals
                is_likelihood = False
        if not is_likelihood:
            values = scaled_surrogate(task, X, Y, scores, weights)
            surrogate = float(np.average(values, weights=weights))
        if self._score is not None:
            fold = Fold([], [], None, X, Y, weights)
            return -checked_score(self._score, model, fold), surrogate
        if is_likelihood:
            return surrogate, surrogate
        return mean_loss(task, Y, predictions(task, X, scores), weights), surrogate
