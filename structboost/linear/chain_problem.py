"""Choice of the solver of a linear chain by its likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structboost._typing import FloatArray
from structboost.linear.dual_chain import DualChain
from structboost.linear.dual_step_chain import DualStepChain
from structboost.linear.primal_chain import PrimalChain
from structboost.linear.step_chain import StepChain

# Mean length of the sequence of a token from which on quasi-Newton steps are faster.
_LONG = 100.0
# Probabilities of pairs of tags that dual ascent may store: 128 megabytes for sequences, and 512
# for steps, where quasi-Newton steps take ten times as long.
_MOST_PAIRS, _MOST_PAIRS_OF_STEPS = 1 << 24, 1 << 26


def chain_problem(
    task: Any,
    X: Sequence[Any],
    Y: Sequence[Any],
    example_weights: FloatArray,
    *,
    transitions: str = "all",
    **settings: Any,
) -> DualChain | PrimalChain:
    """Return the fastest solver, which is dual ascent unless sequences are long or tags many.

    A step of dual ascent changes one sequence, so that it needs many passes over a few long ones
    (docs/decisions.md), and it stores the pairs of tags of each.  Parameters are
    those of :class:`.DualChain` and :class:`.PrimalChain`.  Where pairs of tags depend on features,
    those of each step are stored, and solvers are :class:`.DualStepChain` and :class:`.StepChain`.
    """
    if transitions == "seen":
        return PrimalChain(task, X, Y, example_weights, transitions=transitions, **settings)
    lengths = np.array([len(y) for y in Y], np.float64)
    is_long = float(lengths @ lengths) > _LONG * float(lengths.sum())
    solver: type[DualChain | PrimalChain]
    if task.step_features:
        n_steps = int(np.maximum(lengths - 1, 0).sum())
        is_large = n_steps * task.n_tags**2 > _MOST_PAIRS_OF_STEPS
        solver = StepChain if is_long or is_large or settings.get("l1_ratio") else DualStepChain
    else:
        is_large = len(Y) * task.n_tags**2 > _MOST_PAIRS
        solver = PrimalChain if is_long or is_large else DualChain
    return solver(task, X, Y, example_weights, **settings)
