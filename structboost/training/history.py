"""History of a fit, and the state that a round hands to the next.

The history has records of the rounds, their gaps, the check that a bound holds, and why runs end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sklearn.exceptions import ConvergenceWarning

from structboost._typing import Facts
from structboost.errors import InterruptedFitWarning, UncertifiedWarning, warn_user

if TYPE_CHECKING:
    from structboost.training.columns import ColumnWeights

Record = dict[str, Any]

# Fractions of the objective, and of the first one, by which a bound may exceed it by rounding.
_SLIP, _SLIP_OF_FIRST = 1e-6, 1e-9


def record(
    round_: int, primal: float, bound: float | None, *, certified: bool, **others: Any
) -> Record:
    """One entry of a history.

    Parameters
    ----------
    round_ : int
        Number of the round, from 1.
    primal : float
        Objective of the model kept so far.  It never rises, except in a last record of spread
        weights.
    bound : float or None
        Lower bound of the optimum over the family trained on.  None without a bound: C infinite,
        pricing by search, or a rule that does not see all columns.  The relative ``gap`` follows.
    certified : bool
        Whether objective and bound are exact and those of the model.  Then the bound is at most the
        objective, but for rounding of a millionth (:func:`contradicts`).
    **others
        Further plain values:

        cross_fitted
            Whether objective and bound are those of the responses in training, which the saved
            learners do not give (the default of image segmentation).  Such a model has no
            certificate.
        held_out_loss
            Mean loss of held-out examples after this round, None where it was not measured: every
            20 rounds that of the examples that rounds left out, where they say when to end; with
            ``early_stopping`` of an estimator that of the part that was held out.
        bound_all, gap_all
            Over stumps on all distinct thresholds: in all records after a fit that searched all of
            these, else in the last one; None if not known.
        smallest_C
            Below this C the model is certainly empty.
        cuts, columns, oracle_calls
            Cuts held, columns with a weight, passes over the training set.
        seconds
            Since the fit began.
    """
    return {
        "round": round_,
        "primal": primal,
        "bound": bound,
        "gap": relative_gap(primal, bound),
        "certified": certified,
        **others,
    }


def relative_gap(primal: float, bound: float | None) -> float | None:
    """Gap ``(primal - bound) / primal`` from 0, or None without a bound."""
    if bound is None:
        return None
    return max(0.0, (primal - bound) / primal) if primal > 0 else 0.0


def coverage_in_words(history: Sequence[Facts]) -> str:
    """Describe the weak learners that the last gap covers, or return an empty text without one."""
    last = history[-1] if history else {}
    if last.get("gap") is None or "gap_all" not in last:
        return ""
    if last["gap_all"] is None:
        return "over the learners searched, not over all of their kind"
    if last["bound_all"] >= last["bound"]:
        return "over all learners of their kind"
    return f"over the learners searched, {100 * last['gap_all']:.2g} % over all of their kind"


def fit_in_words(
    fitted: Any, minimised: str, n_rounds: int, formulation: str = "", choices: Sequence[str] = ()
) -> str:
    """Describe objective, weak learners, choices and ending of a fit.

    Parameters
    ----------
    fitted : estimator or trainer
        With the attributes ``model_``, ``history_``, ``C_``, ``gap_text_``, ``ending_`` and
        ``ending_text_``; ``learner_`` names the weak learners, by default as the model does.
    minimised : str
        Name of the objective.
    n_rounds : int
        Number of rounds.
    formulation : str
        Name of the formulation, empty to leave it out.
    choices : sequence of str
        Further values that the fit chose.
    """
    members = fitted.model_.members.values()
    if not any(len(member.learners) for member in members):
        what = "nothing" if fitted.ending_ == "one_class" else f"{minimised} without weak learners"
        return f"minimised {what}; {fitted.ending_text_}"
    families = getattr(fitted, "learner_", fitted.model_.families)
    rounds = f"{n_rounds} round" + ("" if n_rounds == 1 else "s")
    words = [
        f"minimised {minimised} over {families}",
        f"{rounds} of {formulation}" if formulation else rounds,
    ]
    words += choices
    if math.isfinite(fitted.C_):
        words.append(f"C = {fitted.C_:.4g}")
    gap = fitted.history_[-1].get("gap") if fitted.history_ else None
    if gap is not None:
        percent = f"{100 * gap:.0f}" if gap >= 0.995 else f"{100 * gap:.2g}"
        kind = "gap" if fitted.history_[-1].get("certified", True) else "uncertified gap"
        words.append(f"{kind} {percent} % {fitted.gap_text_}".rstrip())
    return "; ".join(filter(None, (", ".join(words), fitted.ending_text_)))


def contradicts(history: Sequence[Record], primal: float, bound: float | None) -> bool:
    """Whether a lower bound exceeds the objective of a model by more than rounding.

    That is by a millionth of the objective and a billionth of the first one.  Then it warns, once
    per history.
    """
    first = history[0]["primal"] if history else primal
    if bound is None or not bound - primal > _SLIP * abs(primal) + _SLIP_OF_FIRST * first:
        return False
    warn_user(
        f"The lower bound {bound:.9g} of the optimum exceeds the objective {primal:.9g} of a "
        "model, so nothing is certified: the argmax or the sums of the task are not exact.  Run "
        "check_task(task, X, Y), or scale losses and features if it finds nothing.",
        UncertifiedWarning,
    )
    return True


# A stable word for each reason, and the end of a sentence.
ENDINGS: Mapping[str, str] = {
    "gap": "the gap is at most tol",
    "columns": "no further weak learner lowers the objective",
    "stalled": "the objective hardly fell any more",
    "loss": "hardly any training loss is left",
    "held_out": "further rounds gained nothing on held-out examples",
    "callback": "a callback asked for it",
    "max_rounds": "max_iter (max_rounds, max_epochs of trainers) allows no more rounds",
    "one_class": "y has one class or tag, which the model always predicts",
    "interrupted": "Ctrl-C was pressed",
}


def ending_in_words(ending: str) -> str:
    """Return a sentence on why training ended, or an empty one."""
    return f"ended because {ENDINGS.get(ending, ending)}" if ending else ""


def warn_of_interruption(n_passes: int, unit: str = "round") -> None:
    """Warn that Ctrl-C ended training after so many rounds or passes."""
    ending = "" if n_passes == 1 else "es" if unit.endswith("s") else "s"
    warn_user(
        f"Training was interrupted after {n_passes} {unit}{ending}; the model kept so far is "
        "usable.",
        InterruptedFitWarning,
    )


def warn_of_open_gap(
    gap: float, tol: float, n_passes: int, limit: str = "max_rounds", remedy: str = ""
) -> None:
    """Warn that the ``limit`` of rounds or passes was reached before the gap was ``tol``."""
    unit = limit.removeprefix("max_")
    warn_user(
        f"Training ended after {limit} = {n_passes} (max_iter of the estimators), at a gap of "
        f"{gap:.2g}, above tol = {tol}.  Allow more {unit}, or a larger tol{remedy}.",
        ConvergenceWarning,
    )


@dataclass
class State:
    """Data that a round hands to the next, beside the weights and the columns.

    Parameters
    ----------
    history : list of dict
        A record per round.
    stages : list of ColumnWeights
        The weights after each round.
    bound : float or None
        What the master and the edges found would prove if pricing saw every column.
    smallest_C : float or None
        Below this C the model is empty for certain.
    exhausted : int
        Rounds in a row without a violated column.
    done : bool
        Whether training came to its end before it ran out of rounds.
    interrupted : bool
        Whether Ctrl-C ended it.
    ending : str
        Why training ended, a key of :data:`~structboost.training.history.ENDINGS`; masters
        of your own may have further ones.
    estimate : float or None
        Bound over a part of the families, where the last round priced no more.
    """

    history: list[Record] = field(default_factory=list)
    stages: list[ColumnWeights] = field(default_factory=list)
    bound: float | None = None
    smallest_C: float | None = None
    exhausted: int = 0
    done: bool = False
    interrupted: bool = False
    ending: str = "max_rounds"
    estimate: float | None = None
