"""Stop when a held-out part no longer gains."""

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
    """A callback that stops training when the mean loss on held-out examples stops falling.

    Where probabilities follow from the scores (the likelihoods and the exponential loss over wrong
    outputs), it is minus the logarithm of that of the true output.  Elsewhere it is the loss of the
    task, which moves by whole examples.

    Parameters
    ----------
    X, Y : sequence
        Held-out examples.
    n_iter_no_change : int
        Rounds without a new best before stopping.
    score : callable, optional
        ``score(model, fold)`` of the user, whose negative is watched instead.

    Attributes
    ----------
    losses : list of float
        Mean held-out loss after each round.
    best_stage : int
        Round of the smallest loss, from 0; the first of equals.
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
        """Evaluate the current model; True when it is time to stop."""
        if record["round"] > len(self.losses) + 1:
            self.evaluate_all(trainer)
        else:
            self._add([trainer.model_], trainer)
        return self.has_stopped

    @property
    def has_stopped(self) -> bool:
        """Whether so many rounds have brought no new best."""
        return len(self.losses) - 1 - self.best_stage >= self.n_iter_no_change

    def evaluate_all(self, trainer: StructBoost) -> None:
        """Evaluate the model after every round, those that a checkpoint has behind it as well."""
        self.losses = []
        self._add(trainer.staged_models(), trainer)

    def _add(self, models: Iterable[Ensemble], trainer: StructBoost) -> None:
        """Keep the losses of models, and which is the best."""
        self.losses += [self._loss(model, trainer) for model in models]
        self.best_stage = int(np.argmin(self.losses))

    def _loss(self, model: Ensemble, trainer: StructBoost) -> float:
        """Mean loss of a model."""
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
