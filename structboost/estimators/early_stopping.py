"""Early stopping on held-out examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from structboost.contract.calls import mean_loss, predictions
from structboost.exceptions import TaskError
from structboost.masters.likelihood import log_losses
from structboost.masters.registry import formulation_of
from structboost.model.ensemble import Ensemble
from structboost.model.prediction import model_scores
from structboost.selection.folds import Fold
from structboost.selection.scoring import Score, checked_score
from structboost.training.boosting import StructBoost
from structboost.validation import by_position


class EarlyStopping:
    """Callback that stops training when the mean loss of held-out examples stops falling.

    If the formulation has probabilities (the likelihoods and the exponential loss over wrong
    outputs), the loss is minus the log-probability of the true output.  Otherwise it is the loss of
    the task, which changes in steps of whole examples.

    Parameters
    ----------
    X, Y : sequence
        Held-out examples.
    n_iter_no_change : int
        Number of rounds without improvement before training stops.
    score : callable, optional
        ``score(model, fold)`` of the user, whose negative replaces the loss.

    Attributes
    ----------
    losses : list of float
        Mean held-out loss after each round.
    best_stage : int
        Index of the first round of the smallest loss.
    """

    # Why training ends where it does.
    ending = "held_out"

    def __init__(
        self,
        X: Sequence[Any],
        Y: Sequence[Any],
        n_iter_no_change: int = 10,
        score: Score | None = None,
    ) -> None:
        self.X, self.Y = by_position(X), by_position(Y)
        self._score = score
        self.n_iter_no_change = n_iter_no_change
        self.losses: list[float] = []
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
        """Evaluate the model after every round, including those before a checkpoint."""
        self.losses = []
        self._add(trainer.staged_models(), trainer)

    def _add(self, models: Iterable[Ensemble], trainer: StructBoost) -> None:
        """Append the losses of models, and update the best stage."""
        self.losses += [self._loss(model, trainer) for model in models]
        self.best_stage = int(np.argmin(self.losses))

    def _loss(self, model: Ensemble, trainer: StructBoost) -> float:
        """Return the mean loss of a model."""
        task = trainer.task
        if self._score is not None:
            return -checked_score(self._score, model, Fold([], [], None, self.X, self.Y))
        scores = model_scores(task, model, self.X)
        formulation = formulation_of(trainer.formulation)
        link = formulation.link if formulation.has_probabilities else None
        if link is not None and not link.margin:
            try:
                return float(log_losses(task, self.X, self.Y, scores, link.sharpness).mean())
            except TaskError:  # a task of codes alone, without marginals
                pass
        return mean_loss(task, self.Y, predictions(task, self.X, scores))
