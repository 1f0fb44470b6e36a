"""Stop when a held-out part no longer gains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from structboost.contract.calls import mean_loss

if TYPE_CHECKING:
    from structboost.boosting import StructBoost


class EarlyStopping:
    """A callback that stops training when the mean loss on held-out examples stops falling.

    Parameters
    ----------
    X, Y : sequence
        Held-out examples.
    n_iter_no_change : int
        Rounds without a new best before stopping.

    Attributes
    ----------
    losses : list of float
        Mean held-out loss after each round.
    best_stage : int
        Round of the smallest loss, from 0; the first of equals.
    """

    def __init__(self, X: Sequence[Any], Y: Sequence[Any], n_iter_no_change: int = 10) -> None:
        self.X = X
        self.Y = Y
        self.n_iter_no_change = n_iter_no_change
        self.losses: list[float] = []
        self.best_stage = 0

    def __call__(self, record: Mapping[str, Any], trainer: StructBoost) -> bool:
        """Evaluate the current model; True when it is time to stop."""
        if record["round"] > len(self.losses) + 1:
            self.evaluate_all(trainer)
        else:
            self._add([trainer.predict(self.X)], trainer)
        return len(self.losses) - 1 - self.best_stage >= self.n_iter_no_change

    def evaluate_all(self, trainer: StructBoost) -> None:
        """Evaluate the model after every round, those that a checkpoint has behind it as well."""
        self.losses = []
        self._add(trainer.staged_predict(self.X), trainer)

    def _add(self, predictions: Iterable[Any], trainer: StructBoost) -> None:
        """Keep the losses of predictions, and which is the best."""
        self.losses += [mean_loss(trainer.task, self.Y, found) for found in predictions]
        self.best_stage = int(np.argmin(self.losses))
