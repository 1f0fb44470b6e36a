"""Checkpoints, from which a killed run resumes and ends in the same model."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from structboost._typing import AnyArray, Facts, PathName
from structboost.contract.parts import Kinds
from structboost.errors import CheckpointError, warn_user
from structboost.files.archive import (
    ArchiveFormat,
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
from structboost.training.history import State

# A state is written after the first round that ends so many seconds after the last write.
SECONDS = 60.0
_REMEDY = "remove it, or give another path"
# Relative difference between sums of the same numbers in another order.
_ROUNDING = 1e-9
# Values that a checkpoint holds as they are.
_PLAIN = ("history", "bound", "exhausted", "done", "ending", "estimate")


class RunCheckpoint:
    """File of all that the next rounds of a run depend on.

    Parameters
    ----------
    path : str or path
    hashes : dict of str to str
        Hashes that the run and the file must have in common: ``identity`` (:func:`identity_of`),
        ``features`` and ``outputs``.
    columns : ColumnRegistry
    weighted : WeightedColumns
    """

    def __init__(
        self,
        path: PathName,
        hashes: Mapping[str, str],
        columns: ColumnRegistry,
        weighted: WeightedColumns,
    ) -> None:
        self._path = path
        self._hashes = hashes
        self._columns = columns
        self._weighted = weighted
        self._written = time.monotonic()
        self._format = ArchiveFormat(
            name="structboost-checkpoint",
            what="checkpoint of structboost",
            error=CheckpointError,
            remedy=_REMEDY,
            schema=self._schema,
        )

    def write(self, state: State, *, is_last: bool) -> None:
        """Write a state if it is due, or the last one of its run."""
        if not is_last and time.monotonic() - self._written < SECONDS:
            return
        values, of_master = self._weighted.state()
        learners, of_columns = self._columns.state()
        columns, weights = zip(*state.stages, strict=True)
        arrays = {
            "stage_sizes": np.array([len(of_stage) for of_stage in columns], np.int64),
            "stage_numbers": np.concatenate(columns),
            "stage_weights": np.concatenate(weights),
            **prefixed("master/", of_master),
            **prefixed("columns/", of_columns),
        }
        header = {name: getattr(state, name) for name in _PLAIN}
        header |= {**self._hashes, "master": values, **learners}
        try:
            self._format.write(self._path, header, arrays)
        except OSError as error:
            # As with a disk that is full by now: a model is worth more than its checkpoint.
            warn_user(
                f"The checkpoint {self._path} was not written, and training goes on: {error}",
                UserWarning,
            )
        self._written = time.monotonic()

    def restored(self, max_rounds: int, kinds: Kinds) -> State | None:
        """Bring columns and weights to the state in the file and return it, or None without one."""
        if not Path(self._path).exists():
            return None
        header, arrays = self._format.read(self._path)
        n_rounds = len(header["history"])
        if n_rounds > max_rounds:
            raise CheckpointError(
                f"The checkpoint {self._path} holds {n_rounds} rounds, but max_rounds is "
                f"{max_rounds}; give max_rounds={n_rounds} or more, or {_REMEDY}."
            )
        try:
            self._columns.restore(header, below("columns/", arrays), kinds)
            for family in self._columns.families.values():
                family.skip_rounds(n_rounds)
            self._weighted.restore(header["master"], below("master/", arrays))
            sizes, indices = arrays["stage_sizes"], arrays["stage_numbers"]
            if sizes.sum() != len(indices) or indices.max(initial=-1) >= len(self._columns):
                raise DamagedFileError("its rounds refer to columns that it does not hold")
            ends = np.cumsum(sizes)[:-1]
            by_stage = np.split(indices, ends), np.split(arrays["stage_weights"], ends)
            stages = [ColumnWeights(*stage) for stage in zip(*by_stage, strict=True)]
            return _restored_state(header, stages, self._weighted.primal)
        except DamagedFileError as error:
            raise CheckpointError(
                f"{self._path} is not a checkpoint of this run, or is damaged: {error}; {_REMEDY}."
            ) from error

    def _schema(self, header: Facts, names: Collection[str]) -> Schema:
        """Names, types and shapes of the arrays of a checkpoint of this run."""
        for name, value in self._hashes.items():
            if header[name] != value:
                raise CheckpointError(
                    f"{self._path} is a checkpoint of other data or parameters; {_REMEDY}."
                )
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


def _restored_state(header: Facts, stages: list[ColumnWeights], primal: float) -> State:
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


def identity_of(parameters: Facts, arrays: Sequence[AnyArray]) -> str:
    """Compute the hash of parameters, plain JSON, and of arrays."""
    digest = hashlib.sha256(json.dumps(dict(parameters), sort_keys=True).encode())
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
