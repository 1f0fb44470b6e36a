"""Smallest C at which a model is not empty.

With weights ``w`` the objective is ``sum(w) + C R(w)``, and the empty model has ``C R(0)``.  So
``w`` beats it exactly if C is above ``sum(w) / (R(0) - R(w))``, and the smallest such ratio is the
smallest C.  Repeated minimisation, with C set to the ratio of the last fit, ends there after a few
fits (Dinkelbach 1967).
"""

from __future__ import annotations

from collections.abc import Callable

_DOUBLINGS = 30
_RATIOS = 12
# Relative decrease of the ratio at which the search ends.
_ACCURACY = 0.01

# Sum of the weights and risk of the best model at some C.
Fit = Callable[[float], tuple[float, float]]


def smallest_C(fit: Fit, start: float, empty_risk: float) -> float | None:
    """Return the C above which some weights beat the empty model, to a few percent, or None.

    ``fit(C)`` lowers the objective at C, and returns ``sum(w)`` and ``R(w)``.  The weights may be
    zero if hardly any beat the empty model.  At ``start`` the model is empty, or nearly so, and
    ``empty_risk`` is R(0).  None means that the search failed.
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
