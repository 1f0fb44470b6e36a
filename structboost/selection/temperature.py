"""Temperature of scores from models of folds, where rows left out of rounds are no new rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from structboost._typing import FloatArray
from structboost.objectives.held_out import Temperature, fitted_temperature
from structboost.selection.folds import Fold


def temperature_on_folds(
    folds: Sequence[Fold], losses: Sequence[Callable[[float], FloatArray]]
) -> Temperature:
    """Fit the factor of the held-out scores of all folds that gives the least mean loss.

    Parameters
    ----------
    folds : sequence of Fold
        Folds, of which the weights of the held-out examples are read.
    losses : sequence of callable
        For each fold, ``losses(factor)`` returns minus the logarithms of the probabilities of the
        held-out outputs, shape (n_held,), where scores are multiplied by the factor.
    """
    sizes = [len(fold.held_Y) for fold in folds]

    def loss(factor: float) -> float:
        means = [
            np.average(of_fold(factor), weights=fold.held_weight)
            for fold, of_fold in zip(folds, losses, strict=True)
        ]
        return float(np.average(means, weights=sizes))

    return fitted_temperature(loss, sum(sizes))
