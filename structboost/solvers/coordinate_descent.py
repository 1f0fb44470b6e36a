"""Kernels of the exponential master, for coordinate updates in closed form and KKT violations.

The weight of a pair (example i, wrong output y) is ``mu[y, i] = rho[y, i] exp(F_y(x_i) -
F_{y_i}(x_i))`` ((15) of MultiBoost^cw).  Examples are ordered by true output, so that a column on
channel c meets, for each pair of outputs (a, y) whose codes differ there, one slice of ``mu[y]``:
an update reads and writes each pair that it changes once, in order.  With one channel a class that
is 2m (1 - 1/K) of the m (K - 1) pairs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structboost._typing import AnyArray, FloatArray, IntArray
from structboost.runtime.compiled import compiled

# Sums may be taken in any order, which lets them be vectorised.
_FAST = {"reassoc", "nsz"}


@compiled(fastmath=_FAST)
def signed_sums(weights: FloatArray, response: AnyArray) -> tuple[float, float]:
    """Sum ``weights`` where the response is positive, and where it is negative."""
    positive = 0.0
    negative = 0.0
    for i in range(len(weights)):
        positive += weights[i] if response[i] > 0 else 0.0
        negative += weights[i] if response[i] < 0 else 0.0
    return positive, negative


@compiled
def scale_by_sign(
    weights: FloatArray, response: AnyArray, positive: float, negative: float
) -> None:
    """Multiply ``weights`` by ``positive`` or ``negative``, by the sign of the response."""
    for i in range(len(weights)):
        factor = positive if response[i] > 0 else (negative if response[i] < 0 else 1.0)
        weights[i] *= factor


@compiled
def closed_form(
    weight: float, v_plus: float, v_minus: float, half_price: float, largest: float
) -> float:
    """Minimiser (12) of one weight from the sums (21) at the current weight.

    ``half_price`` is p / (2C), 0 for C infinite, which gives (13).  V- = 0 gives log(C V+ / p),
    or ``largest``, the bound of all weights, if C is infinite too.
    """
    if v_plus <= 0.0:
        return 0.0
    below = np.sqrt(v_plus * v_minus + half_price * half_price) + half_price
    if below <= 0.0:
        return largest
    return float(min(max(weight + np.log(v_plus / below), 0.0), largest))


@compiled
def update_coordinates(
    order: IntArray,
    responses: AnyArray,
    learners: IntArray,
    channels: IntArray,
    signs: NDArray[np.int8],
    starts: IntArray,
    half_price: float,
    largest: float,
    pair_weights: FloatArray,
    weights: FloatArray,
) -> None:
    """Minimise over each weight in turn, in a fixed order (lines 5-10 of Algorithm 2).

    Parameters
    ----------
    order : ndarray of int64
        Columns to update.
    responses : ndarray, shape (n_learners, n_examples)
        Responses in {-1, 0, 1}, examples ordered by true output.
    learners, channels : ndarray of int64, shape (n_columns,)
    signs : ndarray of int8, shape (n_channels, n_outputs, n_outputs)
        ``code[a, c] - code[y, c]`` for true output a and output y.
    starts : ndarray of int64, shape (n_outputs + 1,)
        First example of each true output.
    pair_weights : ndarray, shape (n_outputs, n_examples)
        mu, updated in place.
    weights : ndarray, shape (n_columns,)
        Updated in place.
    """
    n_outputs = len(starts) - 1
    for j in order:
        response = responses[learners[j]]
        sign = signs[channels[j]]
        v_plus = 0.0
        v_minus = 0.0
        for a in range(n_outputs):
            start, stop = starts[a], starts[a + 1]
            for y in range(n_outputs):
                if sign[a, y] != 0:
                    positive, negative = signed_sums(
                        pair_weights[y, start:stop], response[start:stop]
                    )
                    v_plus += positive if sign[a, y] > 0 else negative
                    v_minus += negative if sign[a, y] > 0 else positive
        new = closed_form(weights[j], v_plus, v_minus, half_price, largest)
        change = new - weights[j]
        if change == 0.0:
            continue
        weights[j] = new
        down, up = np.exp(-change), np.exp(change)
        for a in range(n_outputs):
            start, stop = starts[a], starts[a + 1]
            for y in range(n_outputs):
                if sign[a, y] > 0:
                    scale_by_sign(pair_weights[y, start:stop], response[start:stop], down, up)
                elif sign[a, y] < 0:
                    scale_by_sign(pair_weights[y, start:stop], response[start:stop], up, down)


@compiled
def channel_weights(
    pair_weights: FloatArray, signs: NDArray[np.int8], starts: IntArray, out: FloatArray
) -> None:
    """Add to ``out`` the sum over outputs of sign times mu, for each channel and example."""
    n_channels, n_outputs, _ = signs.shape
    for c in range(n_channels):
        for a in range(n_outputs):
            start, stop = starts[a], starts[a + 1]
            for y in range(n_outputs):
                sign = signs[c, a, y]
                if sign != 0:
                    for i in range(start, stop):
                        out[c, i] += sign * pair_weights[y, i]
