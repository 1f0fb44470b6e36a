"""Choice of a parameter by held-out data, along a path of values.

The caller passes the values to try, such that neighbours are near, and a function that fits at a
value and measures the held-out part of each fold.  The path determines which value is best, when it
ends, and why.  Figures: docs/decisions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from structboost._typing import Facts, FloatArray
from structboost.selection.held_out import SCALE_GAP, HeldExamples, HeldOut

# Each value of an upward path is this many times the one before.
FACTOR = 10**0.5
# Largest number of values of an upward path.
MAX_STEPS = 14
# A path ends at this factor beyond the last value that was clearly better: sooner where the
# measurement is clearly worse by now, later where it is flat, because then a weak learner of a rare
# feature may still enter.  Values are rounded, so the factors are a little below 10 and 100.
_BEYOND, _BEYOND_FLAT = 9.9, 98.0
# Relative difference from which a measurement is clearly better or worse.
_FLAT = 0.01
# With so many folds, a value that is clearly worse than the best in their mean, and on each of them
# or by so many standard errors, ends a path at once.
# An equal value is worse on all five with probability 1/32.
_AGREEING, _SURELY = 5, 2.0

# Standard errors of a mean difference, paired over examples, up to which surrogates are equally
# good, and a loss is no larger.  A difference on a single example is one of them.
_NOISE, _NOISE_OF_LOSS = 1 / 3, 1.02

# Reason to end where the loss is a smaller fraction of the objective than the gap of the fits.
SATISFIED = "a larger C changes little: the loss on the examples trained on is within the gap"
# Criterion where the user passes no score.
_CRITERION = "surrogate"
# Words for a measurement, and for a worse one, in the reason why a path ended.
_WORDS = {
    "score": ("score", "smaller"),
    "surrogate": ("surrogate of the loss", "larger"),
    "loss": ("loss", "larger"),
}

Record = dict[str, Any]
# Receives texts on the progress of the path.
Report = Callable[[str], None]


def silent(text: str) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Trial:
    """Measurements at one value of a path.

    Parameters
    ----------
    folds : sequence of HeldOut
        Measurements of the held-out part of each fold.
    facts : dict
        Further entries of the record, such as ``rounds`` and ``seconds``.
    is_empty : bool
        Whether there is no model yet, in which case the value is never the best.
    end : str
        Reason why no further value is worth a fit; empty if one may be worth it.
    """

    folds: Sequence[HeldOut]
    facts: Facts = field(default_factory=dict)
    is_empty: bool = False
    end: str = ""

    @property
    def is_constant(self) -> bool:
        """Whether the model of every fold predicts the same for all held-out examples."""
        return all(fold.is_constant for fold in self.folds)

    @property
    def loss(self) -> float:
        """Mean held-out loss of the folds."""
        return float(np.mean([fold.loss for fold in self.folds]))

    @property
    def examples(self) -> HeldExamples | None:
        """Measurements of the held-out examples of all folds, or None if a fold has none."""
        of_folds = [fold.examples for fold in self.folds if fold.examples is not None]
        if len(of_folds) < len(self.folds):
            return None
        return HeldExamples(*map(np.concatenate, zip(*of_folds, strict=True)))

    def record(self) -> dict[str, Any]:
        """Return the measurements as a record, with means and values of the folds."""
        surrogates = [fold.surrogate for fold in self.folds]
        scores = [fold.score for fold in self.folds if fold.score is not None]
        measured: dict[str, Any] = {
            "loss": self.loss,
            "losses": [fold.loss for fold in self.folds],
            "surrogate": float(np.mean(surrogates)),
            "surrogates": surrogates,
            "is_constant": self.is_constant,
            "is_empty": self.is_empty,
        }
        if scores:
            measured |= {"score": float(np.mean(scores)), "scores": scores}
        return {**measured, **self.facts}


# Trains on each fold at a value, warm started where possible, and measures.
Fit = Callable[[float], Trial]


def upwards(first: float, n_values: int = MAX_STEPS) -> Iterator[float]:
    """Yield values from ``first`` on, each :data:`FACTOR` times the last, to three digits."""
    for _ in range(n_values):
        first = float(f"{first:.3g}")
        yield first
        first *= FACTOR


class Path:
    """Path of values of a parameter, each measured on held-out data.

    Parameters
    ----------
    name : str
        Name of the parameter in records and reports.
    report : callable
        Called with a text on the current step.
    records : list of dict, optional
        List to append records to, such as that of earlier paths.

    Attributes
    ----------
    records : list of dict
        One per value, in their order: the value under ``name``, ``loss``, ``surrogate``,
        ``is_constant``, with ``losses`` and ``surrogates`` of each fold, and the facts of the fit.
        With a score of the user's, ``score`` and ``scores`` as well.
    best : dict or None
        Record of the best value; of those that are equally good for all that is known
        (:func:`is_preferred`), the one of the smaller loss, else the first.
    end : str
        Reason why the path ended, as a sentence.
    """

    def __init__(
        self, name: str = "C", report: Report = silent, records: list[Record] | None = None
    ) -> None:
        self.name, self._report = name, report
        self.records: list[Record] = [] if records is None else records
        self.best: Record | None = None
        self.end = ""
        self._has_left = False
        self._best_trial: Trial | None = None
        # The least measurement, by which the path ends.
        self._least: Record | None = None
        self._least_trial: Trial | None = None

    @property
    def value(self) -> float:
        """Best value so far."""
        assert self.best is not None
        return float(self.best[self.name])

    def follow(
        self,
        values: Iterable[float],
        fit: Fit,
        on_best: Callable[[Record], None] = lambda record: None,
        *,
        direction: str = "largest",
        at_least: int = 1,
    ) -> None:
        """Try values in turn until no further one is worth a fit.

        Results are in ``best`` and ``end``.  A path does not end at a constant model, unless no
        value is left, or the trial has a reason to end.  A second call continues with other values,
        such as smaller ones.

        Parameters
        ----------
        values : iterable of float
        fit : callable
            ``fit(value)`` returns a :class:`Trial`.
        on_best : callable, optional
            Called with the record of each fit that is the best so far.
        direction : str
            Word for the last value among all, ``"largest"`` or ``"smallest"``.
        at_least : int
            Number of values that are tried in any case, such as for a mean of the best few.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C in a fit; ``records`` and ``best`` are those of earlier fits.
        """
        anchor: Record = {}
        for n_tried, value in enumerate(values, 1):
            so_far = "" if self.best is None else f", {self.value:.4g} is best so far"
            self._report(f"{self.name}: trying {value:.4g}{so_far}")
            trial = fit(value)
            record = {self.name: value, **trial.record()}
            self.records.append(record)
            if self._least is None or is_better(record, self._least):
                self._least, self._least_trial = record, trial
            if self._best_trial is None or is_preferred(trial, self._best_trial):
                self.best, self._best_trial = record, trial
                on_best(record)
            if not (anchor and self._has_left) or is_better(record, anchor, by=_FLAT):
                anchor = record
            self._has_left |= not (trial.is_constant or trial.is_empty)
            self.end = trial.end
            if n_tried >= at_least and not self.end:
                self.end = self._why_it_ends(trial, record, anchor)
            if self.end:
                return
        self.end = f"the {direction} {self.name} was tried"

    def _why_it_ends(self, trial: Trial, record: Record, anchor: Record) -> str:
        """Return the reason why no further value is tried, or an empty text."""
        if not self._has_left:
            return ""
        if "score" not in record and not trial.loss:
            return "no held-out loss is left"
        assert self._least is not None
        assert self._least_trial is not None
        measure, least = _measure(record), self._least[self.name]
        noun, worse = _WORDS[measure]
        at = f"{self.name} = {record[self.name]:.4g}"
        ratio = record[self.name] / anchor[self.name]
        beyond = max(ratio, 1 / ratio)
        if is_better(self._least, record, by=_FLAT):
            of_folds = zip(_costs(record), _costs(self._least), strict=True)
            has_many = len(trial.folds) >= _AGREEING
            if has_many and all(value > smallest for value, smallest in of_folds):
                return f"the held-out {noun} at {at} was {worse} on every fold than at {least:.4g}"
            is_sure = "score" in record or _is_surely_worse(trial, self._least_trial)
            # The values beyond the best one cost most.
            if (has_many and is_sure) or beyond >= _BEYOND:
                return f"the held-out {noun} at {at} was {worse} than at {least:.4g}"
        if beyond >= _BEYOND_FLAT:
            return (
                f"the held-out {noun} was as good as the same from "
                f"{self.name} = {anchor[self.name]:.4g} to {record[self.name]:.4g}"
            )
        return ""


def is_preferred(trial: Trial, to: Trial) -> bool:
    """Whether a trial is better than that of an earlier value, on what is known.

    Surrogates are equally good within the gap of their scale, or a third of a standard error of the
    difference, paired over examples.  Then the trial must have a clearly smaller loss.  With a
    smaller surrogate, its loss must not be clearly larger, unless a model predicts one output.
    The measurements alone decide where those of the examples are unknown, or the user has a score.
    """
    record, other = trial.record(), to.record()
    examples, others = trial.examples, to.examples
    if examples is None or others is None or trial.is_empty or to.is_empty or "score" in record:
        return is_better(record, other)
    lead, error = _mean_and_error(others.surrogates - examples.surrogates, examples)
    noise = max(_NOISE * error, SCALE_GAP * float(other["surrogate"]))
    if trial.is_constant or to.is_constant:
        return lead > noise
    lead_of_loss, error_of_loss = _mean_and_error(others.losses - examples.losses, examples)
    if lead > noise:
        return lead_of_loss >= -_NOISE_OF_LOSS * error_of_loss
    return lead >= -noise and lead_of_loss > _NOISE_OF_LOSS * error_of_loss


def _is_surely_worse(trial: Trial, than: Trial) -> bool:
    """Whether surrogates are larger than by noise, as far as those of examples are known."""
    examples, others = trial.examples, than.examples
    if examples is None or others is None:
        return True
    excess, error = _mean_and_error(examples.surrogates - others.surrogates, examples)
    return excess > _SURELY * error


def _mean_and_error(values: FloatArray, examples: HeldExamples) -> tuple[float, float]:
    """Return the mean of values of held-out examples, and its standard error."""
    mean = float(np.average(values, weights=examples.weights))
    # Equal examples are drawn one by one.
    parts = examples.weights / np.sqrt(examples.counts)
    n = float(examples.counts.sum())
    error = float(np.linalg.norm(parts * (values - mean)) / examples.weights.sum())
    return mean, error * np.sqrt(n / max(n - 1.0, 1.0))


def is_better(record: Facts, other: Facts, by: float = 0.0) -> bool:
    """Whether a record is better than another by a relative margin."""
    if record["is_empty"] or other["is_empty"]:
        return bool(other["is_empty"] and not record["is_empty"])
    cost, than = _cost(record), _cost(other)
    if cost == than and not by:
        return bool(record["surrogate"] < other["surrogate"])
    return cost < than - by * abs(than)


def _measure(record: Facts) -> str:
    """Return the entry to compare, the score of the user or the criterion."""
    return "score" if "score" in record else _CRITERION


def _cost(record: Facts) -> float:
    """Return the mean measurement of the folds as a cost to minimise."""
    measure = _measure(record)
    return float(-record[measure] if measure == "score" else record[measure])


def _costs(record: Facts) -> list[float]:
    """Return the measurement of each fold as a cost to minimise."""
    measure = _measure(record)
    return [-value if measure == "score" else value for value in record[f"{measure}s"]]
