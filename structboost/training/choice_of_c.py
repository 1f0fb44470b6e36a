"""Choice of C for boosting on held-out examples, along a warm-started path.

The path is over powers of one factor, since the smallest C at which any column has an edge differs
between processors.  It begins at the first power above that C.  Fits on it are coarse, because near
the best C a gap of a few percent does not change the held-out loss (docs/decisions.md).

There may be several paths over different weak learners, such as a union of families and each of
them alone.  The first is chosen unless another has a clearly smaller loss
(docs/decisions.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np

from structboost.contract.calls import WITHOUT_HINGE
from structboost.errors import EmptyModelWarning, examples_numbered, warn_user
from structboost.learners.registry import WeakLearners
from structboost.runtime.compiled import one_blas_thread
from structboost.runtime.interrupts import deferred_interrupts, raise_if_interrupted
from structboost.selection.folds import Fold
from structboost.selection.held_out import (
    HeldOut,
    Score,
    log_loss_by,
    measured_model,
    scaled_surrogate,
)
from structboost.selection.path import (
    FACTOR,
    MAX_STEPS,
    SATISFIED,
    Path,
    Report,
    Trial,
    is_better,
)
from structboost.training.history import Record
from structboost.training.loop import Loop
from structboost.training.plan import Plan

# Relative gap at which a fit of the path stops.
_COARSE = 0.2
# Fraction by which other weak learners must be better.  Less is a tie of a few examples.
_CLEARLY = 0.03
# Rounds of a fold along the whole path, as a multiple of the maximum per fit.
_ROUNDS = 2
# C if no column has an edge, when the model is empty for any C.
_WITHOUT_EDGE = 1.0


@dataclass
class ChosenC:
    """Result of the paths over C.

    Attributes
    ----------
    weak_learner : str, callable, list or dict of these
        The first ones, or others with a clearly smaller held-out loss.
    records : list of dict
        One per C, as in :class:`structboost.selection.path.Path`, with ``weak_learner`` (its name),
        ``columns``, ``rounds`` (means over the folds) and ``seconds``.
    best : dict or None
        The record of the model, or None if no column has an edge.
    end : str
        Reason why the path of these weak learners ended.
    """

    weak_learner: WeakLearners
    records: list[Record] = field(default_factory=list)
    best: Record | None = None
    end: str = ""

    @property
    def C(self) -> float:
        """Best C of the weak learners."""
        return _WITHOUT_EDGE if self.best is None else float(self.best["C"])


def choose_C(
    plan: Plan,
    weak_learners: Sequence[WeakLearners],
    folds: Sequence[Fold],
    report: Report,
    score: Score | None = None,
) -> ChosenC:
    """Choose C and weak learners, by following a path for each of the weak learners.

    ``weak_learners`` are candidates, instead of those of the plan.  The first one is chosen unless
    another is clearly better.  ``report`` is called with a description of the current step.
    ``score(model, fold)`` replaces minus the held-out loss.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C.
    """
    chosen = ChosenC(weak_learners[0])
    with deferred_interrupts(), one_blas_thread():
        for weak_learner in weak_learners:
            candidate = replace(plan, weak_learner=weak_learner)
            with ExitStack() as resources:
                _follow(_FoldFits(candidate, folds, resources, score), chosen, report)
            if any(not record["loss"] for record in chosen.records):
                break
    return chosen


def _follow(fits: _FoldFits, chosen: ChosenC, report: Report) -> None:
    report("C: looking for the smallest")
    smallest = fits.begin()
    if smallest is None:
        chosen.end = chosen.end or "no weak learner has an edge"
        return
    path = Path("C", report, chosen.records)
    to_beat = chosen.best

    def keep(record: Record) -> None:
        if to_beat is None or is_better(record, to_beat, by=_CLEARLY):
            chosen.weak_learner, chosen.best = fits.weak_learner, record

    # The smallest may be a power itself, but for its last bits.
    rung = math.floor(math.log(smallest, FACTOR) + 1e-9) + 1
    rungs = range(rung, rung + MAX_STEPS)
    path.follow((float(f"{FACTOR**k:.3g}") for k in rungs), fits.fit, keep)
    if chosen.best is not to_beat:
        chosen.end = path.end


class _FoldFits:
    """Loops of all folds at the same C."""

    def __init__(
        self, plan: Plan, folds: Sequence[Fold], resources: ExitStack, score: Score | None
    ) -> None:
        tol = max(float(plan.tol), _COARSE)
        self._plan = replace(plan, tol=tol, spread=0.0, checkpoint=None)
        self._folds = folds
        self._resources = resources
        self._score = score
        self.weak_learner = plan.weak_learner
        self._rounds = 0
        self._loops: list[Loop] = []

    def begin(self) -> float | None:
        """Return the smallest C at which a column of any fold has an edge, or None."""
        probe = replace(self._plan, C=1.0, max_rounds=1)
        for fold in self._folds:
            with examples_numbered(fold.rows):
                loop = Loop.start(probe, fold.X, fold.Y, fold.sample_weight, self._resources)
            self._run(fold, loop)
            self._loops.append(loop)
        smallest = [loop.state.smallest_C for loop in self._loops]
        return min((C for C in smallest if C is not None), default=None)

    def fit(self, C: float) -> Trial:
        """Continue with ``C``, and measure the models."""
        most = self._plan.max_rounds
        rounds = min(most, _ROUNDS * most - self._rounds)
        self._loops = [loop.repeat(C=C, max_rounds=rounds) for loop in self._loops]
        for fold, loop in zip(self._folds, self._loops, strict=True):
            self._run(fold, loop)
        last = [loop.state.history[-1] for loop in self._loops]
        self._rounds += max(entry["round"] for entry in last)
        families = self._loops[0].columns.families.values()
        columns = float(np.mean([entry["columns"] for entry in last]))
        facts = {
            "weak_learner": ", ".join(dict.fromkeys(family.name for family in families)),
            "columns": columns,
            "rounds": float(np.mean([entry["round"] for entry in last])),
            "seconds": sum(entry["seconds"] for entry in last),
        }
        measured = [self._held_out(*pair) for pair in zip(self._folds, self._loops, strict=True)]
        return Trial(measured, facts, is_empty=not columns, end=self._why_no_larger())

    def _why_no_larger(self) -> str:
        """Return the reason why a larger C is not worth a fit, or an empty string."""
        C = float(self._loops[0].plan.C)
        fraction = max(C * loop.weighted.risk / loop.weighted.primal for loop in self._loops)
        if fraction <= _COARSE:
            return SATISFIED
        if self._rounds >= _ROUNDS * self._plan.max_rounds:
            return "the rounds are used up"
        return ""

    def _run(self, fold: Fold, loop: Loop) -> None:
        with examples_numbered(fold.rows):
            loop.run(lambda record: False)
        if loop.state.interrupted:
            raise KeyboardInterrupt

    def _held_out(self, fold: Fold, loop: Loop) -> HeldOut:
        raise_if_interrupted()
        link = self._plan.formulation.link
        surrogate = scaled_surrogate
        if link is not None and not link.margin:
            surrogate = log_loss_by(link.sharpness)
        return measured_model(
            self._plan.task, fold, loop.current_model(), surrogate, score=self._score
        )


def warn_of_empty_models(empty: Sequence[Loop]) -> None:
    """Warn that C was too small in some loops, which are empty, and by how much."""
    bounds = [loop.state.smallest_C for loop in empty if loop.state.smallest_C is not None]
    if bounds:
        remedy = (
            f"It certainly is below C = {max(bounds):.4g}; take one well above. If that is empty, "
            "too, features do not tell the outputs apart, or no output of an input is more "
            f"probable than all others together. {WITHOUT_HINGE}"
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
