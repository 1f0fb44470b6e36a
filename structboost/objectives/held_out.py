"""Scores of parts by the columns that were not fitted to them, and the resulting temperature."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from structboost._typing import FloatArray
from structboost.files.schema import DamagedFileError

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
