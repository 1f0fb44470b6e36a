"""History of a fit, and the state from which a checkpoint goes on.

The history has records of the rounds, their gaps, the check that a bound holds, and why runs end.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from structboost.contract.parts import PartKind
from structboost.errors import InterruptedFitWarning, UncertifiedWarning, warn_user
from structboost.files.archive import (
    Array,
    DamagedFileError,
    Part,
    Schema,
    below,
    damaged_content,
    finite_number,
    prefixed,
    whole_number,
)
from structboost.files.checkpoint import CheckpointFile
from structboost.objectives.master import WeightedColumns
from structboost.training.columns import COLUMNS_SCHEMA, ColumnRegistry, ColumnWeights

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
            Below this C the model is certainly empty.  If the model is empty, the last record has
            the C above which it is not.
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


def coverage_in_words(history: Sequence[Mapping[str, Any]]) -> str:
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


def ending_of_passes(history: Sequence[Mapping[str, Any]], tol: float, *, interrupted: bool) -> str:
    """Return the reason why passes over examples ended, a key of :data:`ENDINGS`."""
    if interrupted:
        return "interrupted"
    return "gap" if history[-1]["gap"] <= tol else "max_rounds"


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


# Relative difference between sums of the same numbers in another order.
_ROUNDING = 1e-9
# Values that a checkpoint holds as they are.
_PLAIN = ("history", "bound", "exhausted", "done", "ending", "estimate")


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


class RunCheckpoint:
    """Checkpoint of all that the next rounds of a run depend on.

    Parameters
    ----------
    file : CheckpointFile
    columns : ColumnRegistry
    weighted : WeightedColumns
    """

    def __init__(
        self, file: CheckpointFile, columns: ColumnRegistry, weighted: WeightedColumns
    ) -> None:
        self._file = file
        self._columns = columns
        self._weighted = weighted

    def write(self, state: State, *, is_last: bool) -> None:
        """Write a state if it is due, or the last one of its run."""
        if not (is_last or self._file.is_due()):
            return
        values, of_master = self._weighted.state()
        learners, of_columns = self._columns.state()
        stages = state.stages
        arrays = {
            "stage_sizes": np.array([len(stage.columns) for stage in stages], np.int64),
            "stage_numbers": np.concatenate([stage.columns for stage in stages]),
            "stage_weights": np.concatenate([stage.weights for stage in stages]),
            **prefixed("master/", of_master),
            **prefixed("columns/", of_columns),
        }
        header = {name: getattr(state, name) for name in _PLAIN}
        self._file.write({**header, "master": values, **learners}, arrays, self._schema)

    def restored(self, max_rounds: int, kinds: Mapping[str, PartKind]) -> State | None:
        """Bring columns and weights to the state in the file and return it, or None without one."""
        content = self._file.read(self._schema)
        if content is None:
            return None
        header, arrays = content
        n_rounds = len(header["history"])
        self._file.check_rounds(n_rounds, max_rounds)
        with self._file.refusing():
            self._columns.restore(header, below("columns/", arrays), kinds)
            for family in self._columns.families.values():
                family.skip_rounds(n_rounds)
            self._weighted.restore(header["master"], below("master/", arrays))
            sizes, indices = arrays["stage_sizes"], arrays["stage_numbers"]
            if sizes.sum() != len(indices) or indices.max(initial=-1) >= len(self._columns):
                raise DamagedFileError("its rounds refer to columns that it does not hold")
            by_stage = (
                np.split(array, np.cumsum(sizes)[:-1])
                for array in (indices, arrays["stage_weights"])
            )
            stages = [ColumnWeights(*stage) for stage in zip(*by_stage, strict=True)]
            return _restored_state(header, stages, self._weighted.primal)

    def _schema(self, header: Mapping[str, Any], names: Collection[str]) -> Schema:
        """Names, types and shapes of the arrays of a checkpoint of this run."""
        n_learners = {kind: len(header["learners"][kind]) for kind in self._columns.families}
        of_master = dict(self._weighted.schema(n_learners))
        part = of_master.pop("", Part({}))
        arrays = {
            "stage_sizes": Array("int64", ("n_rounds",), low=0),
            "stage_numbers": Array("int32", ("n_staged",), low=0),
            "stage_weights": Array("float64", ("n_staged",)),
            **prefixed("columns/", COLUMNS_SCHEMA),
            **prefixed("master/", part.arrays),
        }
        shared = Part(arrays, {"n_rounds": len(header["history"]), **part.sizes})
        return {"": shared, **prefixed("master/", of_master)}


def _restored_state(header: Mapping[str, Any], stages: list[ColumnWeights], primal: float) -> State:
    """Read the plain values of a state, of weights with the objective ``primal``.

    DamagedFileError if its rounds, its bound and this objective do not fit together.
    """
    with damaged_content():
        history = list(header["history"])
        for index, entry in enumerate(history):
            if whole_number(entry["round"], "round") != index + 1:
                raise DamagedFileError("its rounds are not numbered in order")
            for name in ("primal", "seconds"):
                finite_number(entry[name], name, 0.0)
        bound, estimate = header["bound"], header["estimate"]
        # Where pricing is a search the header has an estimate, the record none.
        if not history or history[-1]["bound"] not in (None, bound):
            raise DamagedFileError("its bound is not that of its last round")
        if bound is not None:
            finite_number(bound, "bound", high=primal * (1 + _ROUNDING))
        if abs(history[-1]["primal"] - primal) > _ROUNDING * primal:
            raise DamagedFileError("its objective is not that of its weights")
        return State(
            history,
            stages,
            bound,
            history[-1].get("smallest_C"),
            whole_number(header["exhausted"], "exhausted"),
            header["done"] is True,
            ending=str(header["ending"]),
            estimate=None if estimate is None else finite_number(estimate, "estimate", 0.0),
        )
