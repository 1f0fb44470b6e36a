"""Scores of parts by the columns that were not fitted to them, and the resulting temperature."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from structboost._typing import FloatArray
from structboost.files.schema import Array, DamagedFileError, below, prefixed

# Logarithms of the temperatures that are searched.
_LOWEST, _HIGHEST = math.log(0.02), math.log(20.0)
# How far logarithms of temperatures are from 0 before examples speak: the deviation of a prior that
# counts as one example would.
_DEVIATION = 1.0
_STEP = 0.5
# The factor of new parts is so many times this power of that of parts left out.
_SCALE, _EXPONENT = 1.2, 0.57


class HeldOut(NamedTuple):
    """Responses of the columns of a round on the parts that they were not fitted to.

    Parameters
    ----------
    parts : ndarray of bool, shape (n_parts,)
        The parts that the round left out.
    columns, channels : sequence of int
        Index of each column in the master, and channel of each of its terms.
    responses : sequence of ndarray, shape (n_parts,)
        For each term its coefficient times the responses of its learner; 0 on all other parts.
    """

    parts: NDArray[np.bool_]
    columns: Sequence[int]
    channels: Sequence[int]
    responses: Sequence[FloatArray]


class Temperature(NamedTuple):
    """Factor of scores, and the mean loss of held-out examples with it.

    Parameters
    ----------
    factor : float
        Factor of the scores before they become probabilities.
    loss : float
        Mean of minus the logarithms of the probabilities of the true outputs.
    """

    factor: float
    loss: float

    def damped(self) -> Temperature:
        """Temperature of parts that no round has seen, estimated from the parts left out.

        All other rounds have seen a part that one round leaves out: they pull its neighbours
        towards its output, and rounds without it push them back.  So the factor of the parts left
        out is much too low, and early a little too high, for new parts
        (docs/decisions.md).
        """
        return self._replace(factor=damped(self.factor))


def damped(factor: float) -> float:
    """Factor of scores of parts that no round has seen, from the factor of parts left out."""
    return float(_SCALE * factor**_EXPONENT)


class HeldOutScores:
    """Scores of each part by the columns of the rounds that left it out.

    A part has the sum of the responses of these columns, scaled as if all rounds had left it out.
    Kinds whose learners are fitted to all parts have their scores.

    Parameters
    ----------
    shapes : dict of str to (int, int)
        Number of channels and of parts of each kind.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, int]]) -> None:
        self._sums = {kind: np.zeros(shape) for kind, shape in shapes.items()}
        self._counts = {kind: np.zeros(n_parts, np.int64) for kind, (_, n_parts) in shapes.items()}
        self._waiting: dict[str, HeldOut] = {}

    def add(self, kind: str, held_out: HeldOut) -> None:
        """Store the responses of the columns of a round until their steps are available."""
        self._waiting[kind] = held_out

    def step(self, steps: Mapping[int, float]) -> None:
        """Add the responses of the columns of the round times their steps."""
        for kind, held_out in self._waiting.items():
            sums = self._sums[kind]
            for column, channel, responses in zip(*held_out[1:], strict=True):
                sums[channel] += steps[column] * responses
            self._counts[kind] += held_out.parts
        self.forget_round()

    def arrays_of(self, kind: str) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return sums and counts of the parts of a kind, which may be changed in place."""
        return self._sums[kind], self._counts[kind]

    def forget_round(self) -> None:
        """Drop the responses of a round that took no step."""
        self._waiting.clear()

    def scores(
        self, of_all: Mapping[str, FloatArray], n_rounds: int
    ) -> dict[str, FloatArray] | None:
        """Held-out scores by kind, shape (n_channels, n_parts), or None if no part was left out.

        ``of_all`` are the scores by all columns, after ``n_rounds`` so far.
        """
        if not any(of_kind.any() for of_kind in self._counts.values()):
            return None
        return {
            kind: self._sums[kind] * (n_rounds / np.maximum(counts, 1)) if counts.any() else of_kind
            for (kind, counts), of_kind in zip(self._counts.items(), of_all.values(), strict=True)
        }

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Arrays of a checkpoint."""
        return {**prefixed("held_out/", self._sums), **prefixed("left_out/", self._counts)}

    def schema(self) -> dict[str, Array]:
        """Types and shapes of :meth:`arrays`."""
        sums = {kind: Array("float64", of_kind.shape) for kind, of_kind in self._sums.items()}
        counts = {
            kind: Array("int64", of_kind.shape, low=0) for kind, of_kind in self._counts.items()
        }
        return {**prefixed("held_out/", sums), **prefixed("left_out/", counts)}

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Restore a state that :meth:`schema` accepted."""
        self._sums, self._counts = below("held_out/", arrays), below("left_out/", arrays)


def fitted_temperature(
    loss: Callable[[float], float],
    n_examples: int,
    start: float | None = None,
    *,
    deviation: float = _DEVIATION,
) -> Temperature:
    """Fit the factor of scores that gives the least mean loss over ``n_examples``.

    The logarithm of the factor has a normal prior of mean 0 and std ``deviation``, which keeps it
    finite if all examples are right.  With ``start``, a nearby factor, three or four losses are
    computed, and the factor is the minimiser of the parabola through them.
    """

    def penalised(log_factor: float) -> float:
        prior = 0.5 * (log_factor / deviation) ** 2 / n_examples
        return loss(math.exp(log_factor)) + prior

    if start is None:
        minimum = minimize_scalar(
            penalised, bounds=(_LOWEST, _HIGHEST), method="bounded", options={"xatol": 1e-4}
        )
        best = float(minimum.x)
        return Temperature(math.exp(best), loss(math.exp(best)))
    at = min(max(math.log(start), _LOWEST), _HIGHEST)
    left, here, right = (penalised(at + step) for step in (-_STEP, 0.0, _STEP))
    while min(left, right) < here and _LOWEST < at < _HIGHEST:
        step = _STEP if right < left else -_STEP
        at += step
        beyond = penalised(at + step)
        left, here, right = (here, right, beyond) if step > 0 else (beyond, left, here)
    curvature = left - 2.0 * here + right
    shift = 0.5 * (left - right) / curvature if curvature > 0 else 0.0
    return Temperature(math.exp(at + _STEP * shift), here - 0.25 * (left - right) * shift)


def saved_temperature(metadata: Mapping[str, Any]) -> float | None:
    """Factor of scores stored in a model file, or None in files before 0.3.

    DamagedFileError if it is not a number above 0.
    """
    factor = metadata.get("temperature")
    if factor is None:
        return None
    if not isinstance(factor, float) or not 0 < factor < math.inf:
        raise DamagedFileError(f"its temperature is {factor!r}")
    return factor
