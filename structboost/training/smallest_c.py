"""The smallest C at which a model is not empty.

With weights ``w`` the objective is ``sum(w) + C R(w)``, and the empty model has ``C R(0)``.  So
``w`` beats it exactly where C is above ``sum(w) / (R(0) - R(w))``, and the smallest such ratio is
the smallest C.  Minimising at one C and going on at the ratio of what was found (Dinkelbach 1967)
ends there in a few fits.
"""

from __future__ import annotations

from collections.abc import Callable

_DOUBLINGS = 30
_RATIOS = 12
# Relative fall of the ratio below which it is as good as found.
_ACCURACY = 0.01

# Sum of the weights and risk of the best model at some C.
Fit = Callable[[float], tuple[float, float]]


def smallest_C(fit: Fit, start: float, empty_risk: float) -> float | None:
    """C above which weights beat the empty model; the smallest, to a few percent.

    Parameters
    ----------
    fit : callable
        ``fit(C)`` lowers the objective at C, and gives ``sum(w)`` and ``R(w)``; zero weights where
        hardly any beat the empty model.
    start : float
        A C at which the model is known to be empty, or nearly so.
    empty_risk : float
        R(0).

    Returns
    -------
    C : float or None
        None where no C was found.
    """
    C = start
    for _ in range(_DOUBLINGS):
        C *= 2.0
        total, risk = fit(C)
        if total > 0 and risk < empty_risk:
            break
    else:
        return None
    ratio = total / (empty_risk - risk)
    for _ in range(_RATIOS):
        total, risk = fit(ratio)
        if total <= 0 or risk >= empty_risk:
            break
        before, ratio = ratio, min(ratio, total / (empty_risk - risk))
        if ratio > (1.0 - _ACCURACY) * before:
            break
    return ratio
