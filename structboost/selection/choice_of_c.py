"""C by the loss on held-out examples, along a warm-started path.

The path begins just above the smallest C at which any column has an edge and goes up by a constant
factor.  Fits on it are coarse: near the best C the held-out loss does not tell a gap of a few
percent from none.  Figures: docs/decisions/auto-C.md.

There may be several paths, each over other weak learners, such as a union of families and each of
them alone; the first is taken unless another has a clearly smaller loss
(docs/decisions/union-of-families.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np

from structboost.contract.calls import mean_loss, model_predictions
from structboost.ensemble import Ensemble
from structboost.exceptions import examples_numbered
from structboost.loop import Loop, Record, Settings
from structboost.runtime.blas_threads import one_blas_thread
from structboost.runtime.interrupts import deferred_interrupts, raise_if_interrupted
from structboost.selection.folds import Fold
from structboost.training import Plan
from structboost.weak.families import WeakLearners

_FACTOR = 10**0.5
_MAX_STEPS = 14
# Relative gap at which a fit of the path stops.
_COARSE = 0.2
# Share of the loss in the objective below which a larger C changes nothing.
_SATISFIED = 0.1
# Steps without a smaller held-out loss after which a path ends.
_PATIENCE = 2
# Share by which the loss of other weak learners must be smaller: less is a tie of a few examples.
_CLEARLY = 0.03
# With so many folds, a C that is worse than the best on each of them ends a path at once.  Steps
# past the best C cost most; chance alone is worse on all five once in 32 times.
_AGREEING = 5
# Rounds of a fold along the whole path, as a multiple of the largest number per fit.
_ROUNDS = 2
# Where no column has an edge the model is empty whatever C.
_WITHOUT_EDGE = 1.0

# Is told how far the path is.
Report = Callable[[str], None]


@dataclass
class ChosenC:
    """The paths over C, and what was best on them.

    Attributes
    ----------
    weak_learner : str, callable, list or dict of these
        The first ones, or others of a clearly smaller held-out loss.
    C : float
        Their C of the smallest held-out loss; the first of equals.
    records : list of dict
        One per C: ``weak_learner`` (its name), ``C``, ``loss`` (mean held-out loss), ``losses`` (of
        each fold), ``columns``, ``rounds`` (means over the folds), ``seconds``.
    model : Ensemble or None
        The model of the first fold at ``C``.
    history : list of dict
        Records of its rounds.
    interrupted : bool
        Whether Ctrl-C ended the path.
    """

    weak_learner: WeakLearners
    C: float = _WITHOUT_EDGE
    records: list[Record] = field(default_factory=list)
    model: Ensemble | None = None
    history: list[Record] = field(default_factory=list)
    interrupted: bool = False


def choose_C(
    plan: Plan,
    weak_learners: Sequence[WeakLearners],
    settings: Settings,
    folds: Sequence[Fold],
    report: Report,
) -> ChosenC:
    """Follow the path of each of some weak learners until the held-out loss no longer falls.

    Parameters
    ----------
    plan : Plan
    weak_learners : sequence
        What to choose from, in place of the plan's; the first of them, unless others are clearly
        better.
    settings : Settings
        Those of the fit that C is for.
    folds : sequence of Fold
    report : callable
        Is told what is being done.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C before the first C is done.
    """
    chosen = ChosenC(weak_learners[0])
    with deferred_interrupts(), one_blas_thread():
        try:
            for weak_learner in weak_learners:
                own = replace(plan, checkpoint=None, weak_learner=weak_learner)
                with ExitStack() as resources:
                    _follow(_Path(own, settings, folds, resources), chosen, report)
                if not _best_loss(chosen.records):
                    break
        except KeyboardInterrupt:
            if chosen.model is None:
                raise
            chosen.interrupted = True
    return chosen


def _follow(path: _Path, chosen: ChosenC, report: Report) -> None:
    report("C: looking for the smallest")
    C = path.begin()
    if C is None:
        return
    since_best, lowest = 0, np.inf
    best: Record = {}
    to_beat = (1 - _CLEARLY) * _best_loss(chosen.records)
    for _ in range(_MAX_STEPS):
        C = float(f"{C * _FACTOR:.3g}")
        so_far = f", {chosen.C:.4g} is best so far" if chosen.records else ""
        report(f"C: trying {C:.4g}{so_far}")
        entry = path.fit(C)
        chosen.records.append(entry)
        # Too small a C for any weak learner says nothing of the larger ones.
        since_best += bool(entry["columns"])
        is_better = bool(entry["columns"]) and entry["loss"] < lowest
        if is_better:
            since_best, lowest, best = 0, entry["loss"], entry
        if chosen.model is None or (is_better and lowest < to_beat):
            chosen.model, chosen.history = path.first_model()
            chosen.weak_learner, chosen.C = path.weak_learner, C
        is_past_best = since_best >= _PATIENCE or _is_worse_on_all(entry, best)
        if path.is_done or is_past_best or not lowest:
            return


def _is_worse_on_all(entry: Record, best: Record) -> bool:
    """Whether each of many folds has a larger loss than at the best C, if there is one yet."""
    pairs = list(zip(entry["losses"], best["losses"], strict=True)) if best else []
    return len(pairs) >= _AGREEING and all(loss > least for loss, least in pairs)


def _best_loss(records: Sequence[Record]) -> float:
    """Smallest held-out loss of a model that is not empty."""
    return min((entry["loss"] for entry in records if entry["columns"]), default=np.inf)


class _Path:
    """A loop for each fold, all at the same C."""

    def __init__(
        self, plan: Plan, settings: Settings, folds: Sequence[Fold], resources: ExitStack
    ) -> None:
        self._plan = plan
        self._settings = replace(settings, tol=max(float(settings.tol), _COARSE), spread=0.0)
        self._folds = folds
        self._resources = resources
        self.weak_learner = plan.weak_learner
        self._rounds = 0
        self._loops: list[Loop] = []

    def begin(self) -> float | None:
        """The smallest C at which a column of any fold has an edge; None where none has."""
        probe = replace(self._settings, C=1.0, max_rounds=1)
        for fold in self._folds:
            with examples_numbered(fold.rows):
                loop = self._plan.loop(probe, fold.X, fold.Y, fold.sample_weight, self._resources)
            self._run(fold, loop)
            self._loops.append(loop)
        found = [loop.state.smallest_C for loop in self._loops]
        return min((C for C in found if C is not None), default=None)

    def fit(self, C: float) -> Record:
        """Go on to ``C``; the record."""
        left = _ROUNDS * self._settings.max_rounds - self._rounds
        settings = replace(self._settings, C=C, max_rounds=min(self._settings.max_rounds, left))
        self._loops = [loop.again(settings) for loop in self._loops]
        for fold, loop in zip(self._folds, self._loops, strict=True):
            self._run(fold, loop)
        last = [loop.state.history[-1] for loop in self._loops]
        self._rounds += max(entry["round"] for entry in last)
        losses = [self._held_out_loss(*pair) for pair in zip(self._folds, self._loops, strict=True)]
        families = self._loops[0].columns.families.values()
        return {
            "weak_learner": ", ".join(dict.fromkeys(family.name for family in families)),
            "C": C,
            "loss": float(np.mean(losses)),
            "losses": losses,
            "columns": float(np.mean([entry["columns"] for entry in last])),
            "rounds": float(np.mean([entry["round"] for entry in last])),
            "seconds": sum(entry["seconds"] for entry in last),
        }

    @property
    def is_done(self) -> bool:
        """Whether a larger C changes nothing, or the rounds are used up."""
        share = max(loop.master.C * loop.master.risk / loop.master.primal for loop in self._loops)
        return bool(share <= _SATISFIED or self._rounds >= _ROUNDS * self._settings.max_rounds)

    def first_model(self) -> tuple[Ensemble, list[Record]]:
        """The model of the first fold, and its records."""
        loop = self._loops[0]
        return loop.final_model({}), loop.state.history

    def _run(self, fold: Fold, loop: Loop) -> None:
        with examples_numbered(fold.rows):
            loop.run(lambda record: False)
        if loop.state.interrupted:
            raise KeyboardInterrupt

    def _held_out_loss(self, fold: Fold, loop: Loop) -> float:
        raise_if_interrupted()
        task = self._plan.task
        with examples_numbered(fold.held_rows):
            outputs = model_predictions(task, loop.current_model(), fold.held_X)
            return mean_loss(task, fold.held_Y, outputs, fold.held_weight)
