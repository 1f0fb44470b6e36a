"""Models without weak learners, and the C from which they have some."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

from structboost.contract.one_output import WITHOUT_HINGE
from structboost.errors import EmptyModelWarning, SolverError, warn_user
from structboost.training.history import Record
from structboost.training.loop import Loop
from structboost.training.plan import Plan

# How the smallest C is searched for: coarsely, no further than what beats the empty model, and not
# for long: in so many fits and passes, or so many times the passes of the fit that was empty.
_PROBE_ROUNDS = 20
_BEATEN = 0.99
_FITS, _PASSES, _PASSES_RATIO = 30, 100, 10
# Relative decrease of the ratio at which the search ends.
_ACCURACY = 0.01


def warn_of_empty_models(
    plan: Plan, empty: Sequence[Loop], X: Sequence[Any], Y: Sequence[Any], sample_weight: Any
) -> None:
    """Warn that C was too small in some loops, which are empty, and by how much."""
    largest = max(empty, key=lambda loop: float(loop.plan.C))
    smallest = smallest_C(plan, largest, X, Y, sample_weight)
    for loop in empty:
        loop.state.history[-1]["smallest_C"] = smallest
    if smallest is not None:
        remedy = f"Take C well above {smallest:.4g}, the smallest that gives a model."
    elif any(loop.state.smallest_C is not None for loop in empty):
        remedy = (
            "Fits at larger C were empty, too, as far as they were tried: so it is where features "
            "do not tell the outputs apart, or no output of an input is more probable than all "
            f"others together. {WITHOUT_HINGE}"
        )
    else:
        remedy = (
            "No larger C helps: no weak learner has an edge. Give features that tell the outputs "
            "apart."
        )
    tried = ", ".join(f"{loop.plan.C:g}" for loop in empty)
    warn_user(
        f"The model is empty: C is {tried}, and no weak learner is worth its weight. {remedy}",
        EmptyModelWarning,
    )


def smallest_C(
    plan: Plan, empty: Loop, X: Sequence[Any], Y: Sequence[Any], sample_weight: Any
) -> float | None:
    """Return the C above which some weights beat the empty model, to a few percent, or None.

    With weights ``w`` the objective is ``sum(w) + C R(w)``, so they beat the empty model exactly if
    C is above ``sum(w) / (R(0) - R(w))``.  C is doubled until a fit of a few rounds beats it.
    Repeated minimisation, with C set to the ratio of the last fit, then ends at the smallest ratio
    after a few fits (Dinkelbach 1967).  None means that weight costs nothing, so that no C matters,
    or that none was found within the passes that the search may take.
    """
    if empty.price_of_weight <= 0:
        return None
    last = empty.state.history[-1]
    empty_risk = last["primal"] / float(empty.plan.C)
    passes_left = max(_PASSES, _PASSES_RATIO * last["oracle_calls"])
    C, ratio, loop = 2.0 * max(float(empty.plan.C), last["smallest_C"] or 0.0), inf, None
    probe = replace(plan, tol=0.01, max_rounds=_PROBE_ROUNDS, spread=0.0, checkpoint=None)
    with ExitStack() as resources:
        for _ in range(_FITS):
            try:
                if loop is None:
                    loop = Loop.start(replace(probe, C=C), X, Y, sample_weight, resources)
                else:
                    loop = loop.repeat(C=C)
                loop.run(partial(_is_below, _BEATEN * C * empty_risk))
            except SolverError:
                break  # it gives up at a C this large
            if loop.state.interrupted:
                raise KeyboardInterrupt
            total = float(loop.weighted.weights.sum())
            risk = (loop.weighted.primal - total) / C
            passes_left -= loop.state.history[-1]["oracle_calls"]
            if total > 0 and risk < empty_risk:
                before, ratio = ratio, min(ratio, total / (empty_risk - risk))
                if ratio > (1.0 - _ACCURACY) * before:
                    break
                C = ratio
            elif ratio < inf:
                break
            else:
                C *= 2.0
            if passes_left <= 0:
                break
    return ratio if ratio < inf else None


def _is_below(most: float, record: Record) -> bool:
    return bool(record["primal"] < most)
