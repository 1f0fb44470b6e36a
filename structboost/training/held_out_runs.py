"""Fits of stage-wise boosting that leave examples out, which decide the end and the temperature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from structboost._typing import FloatArray
from structboost.objectives.master import (
    LearnsFromHeldOut,
    LossesAt,
    Temperature,
    fitted_temperature,
)
from structboost.training.boosting import StructBoost, loop_without_model

# Rounds between two looks at held-out examples.
_LOOK = 20
# Rounds after the least loss of the parts left out by rounds, at which a fit may end early.
EARLY = 40
# Fraction of the loss of the best constant below which a fit ends late.
_NOISY = 0.4
# Standard errors that the held-out loss of an early end may be above that of a late one.
_STANDARD_ERRORS = 0.5
# Standard deviation of the logarithm of the temperature from what the parts left out tell, and
# where they tell nothing.
DEVIATION, _OPEN = 0.4, 1.0


class Look(NamedTuple):
    """State of a fit after some rounds.

    Parameters
    ----------
    n_rounds : int
    left_out : Temperature or None
        Temperature and loss of the parts that rounds left out, or None if none were.
    losses : callable
        ``losses(factor)`` returns the losses of the held-out examples, where their scores are
        multiplied by a factor, shape (n_held,).
    """

    n_rounds: int
    left_out: Temperature | None
    losses: LossesAt


@dataclass(frozen=True)
class HeldOutRun:
    """A fit that did not see some examples.

    Parameters
    ----------
    weights : ndarray, shape (n_held,)
        Weights of the held-out examples.
    looks : list of Look
        From the one of least loss of the parts left out on; the last one alone without such parts.
    """

    weights: FloatArray
    looks: list[Look]

    @classmethod
    def of(
        cls,
        trainer: StructBoost,
        examples: tuple[Any, Any],
        weights: FloatArray,
        held_weights: FloatArray,
    ) -> HeldOutRun:
        """Train with these weights of all examples, zero for those held out.

        An example may have both weights, and then counts in part.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C.
        """
        held = np.flatnonzero(held_weights)
        looks: list[Look] = []

        with loop_without_model(trainer, *examples, weights) as loop:
            most, state, booster = loop.plan.max_rounds, loop.state, loop.weighted
            assert isinstance(booster, LearnsFromHeldOut)
            while not (state.done or state.interrupted) and len(state.history) < most:
                n_rounds = min(most, len(state.history) + _LOOK)
                loop.plan = replace(loop.plan, max_rounds=n_rounds)
                loop.run()
                left_out = booster.last_temperature or loop.temperature()
                look = Look(len(state.history), left_out, booster.losses_of_examples(held))
                before = looks[0].left_out if looks else None
                if left_out is None or before is None or left_out.loss < before.loss:
                    looks.clear()
                looks.append(look)

        return cls(held_weights[held], looks)

    @property
    def last(self) -> Look:
        """The last look."""
        return self.looks[-1]

    def after(self, n_rounds: int) -> Look:
        """The last look after at most so many rounds, or the first one."""
        return next((look for look in self.looks[::-1] if look.n_rounds <= n_rounds), self.looks[0])

    @property
    def early(self) -> Look:
        """The look at which an early end would be, the last one if none would."""
        first = self.looks[0].n_rounds + EARLY
        return next((look for look in self.looks if look.n_rounds >= first), self.last)


def ends_early(runs: Sequence[HeldOutRun], constant_loss: float) -> bool:
    """Whether fits that end early predict held-out examples as well as those that end late.

    Where the loss is far below that of the best constant, the error falls for long after the loss
    does, so they end late.
    """
    early, late = [run.early for run in runs], [run.last for run in runs]
    losses = [run.looks[0].left_out.loss for run in runs if run.looks[0].left_out is not None]
    if early == late or not losses or min(losses) < _NOISY * constant_loss:
        return False
    mean, error = difference(runs, early, runs, late)
    return mean < _STANDARD_ERRORS * error


def difference(
    runs: Sequence[HeldOutRun],
    looks: Sequence[Look],
    other_runs: Sequence[HeldOutRun],
    other_looks: Sequence[Look],
) -> tuple[float, float]:
    """Mean difference of held-out losses, each with the best temperature, and its standard error.

    Both have the same held-out examples, and one look of each run.
    """
    weights = np.concatenate([run.weights for run in runs])
    weights = weights / weights.sum()
    differences = _best_losses(runs, looks) - _best_losses(other_runs, other_looks)
    mean = float(weights @ differences)
    return mean, float((weights**2) @ (differences - mean) ** 2) ** 0.5


def _best_losses(runs: Sequence[HeldOutRun], looks: Sequence[Look]) -> FloatArray:
    factor = fitted_factor(runs, looks).factor
    return np.concatenate([look.losses(factor * _factor_of(look)) for look in looks])


def fitted_factor(
    runs: Sequence[HeldOutRun], looks: Sequence[Look], *, is_open: bool = False
) -> Temperature:
    """Fit the factor by which temperatures of parts left out are too low for held-out examples.

    ``looks`` has one look of each run.  The parts left out tell nothing if ``is_open``: then it is
    the factor of the scores themselves.
    """
    weights = np.concatenate([run.weights for run in runs])
    is_open = is_open or any(look.left_out is None for look in looks)

    def loss(factor: float) -> float:
        of_looks = [look.losses(factor if is_open else factor * _factor_of(look)) for look in looks]
        return float(np.average(np.concatenate(of_looks), weights=weights))

    deviation = _OPEN if is_open else DEVIATION
    return fitted_temperature(loss, len(weights), deviation=deviation)


def _factor_of(look: Look) -> float:
    return 1.0 if look.left_out is None else look.left_out.factor
