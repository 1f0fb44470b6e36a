"""Data that a round of training hands to the next, and its place in a checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from structboost.contract.parts import PartKind
from structboost.files.checkpoint import CheckpointFile
from structboost.files.schema import (
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
from structboost.objectives.master import WeightedColumns
from structboost.training.columns import COLUMNS_SCHEMA, ColumnRegistry, ColumnWeights
from structboost.training.history import Record

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
