"""Files of predict-then-optimise: the trained model, and how its features are prepared.

Loading never runs code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike
from typing import Any

import numpy as np

from structboost.estimators.decision_inputs import Preparation
from structboost.exceptions import ModelFileError
from structboost.files.archive import ArchiveFormat, Header
from structboost.files.schema import (
    Array,
    DamagedFileError,
    Part,
    Schema,
    below,
    finite_number,
    prefixed,
    whole_number,
)
from structboost.model.ensemble import FORMAT as MODEL_FORMAT
from structboost.model.ensemble import Ensemble

_NUMBERS = ("C", "scale")
_RECORDS = ("history", "passes", "path")


def write_decisions(
    path: str | PathLike[str],
    model: Ensemble,
    preparation: Preparation,
    facts: Mapping[str, Any],
) -> None:
    """Write a model of predict-then-optimise: all of the file or nothing.

    Raises
    ------
    ValueError
        If the preparation has boosted trees, which no file holds.
    OSError
        If the file cannot be written.
    """
    inner = MODEL_FORMAT.to_bytes(*model.to_arrays())
    header = {**facts, "features": preparation.features}
    arrays = {"model": np.frombuffer(inner, np.uint8)}
    FORMAT.write(path, header, arrays | prefixed("preparation/", preparation.to_arrays()))


def read_decisions(
    path: str | PathLike[str],
) -> tuple[Ensemble, Preparation, Header]:
    """What :func:`write_decisions` was given; ModelFileError if the file is damaged."""
    with FORMAT.opened(path) as (header, arrays):
        content = arrays["model"].tobytes()
        model = Ensemble.from_arrays(*MODEL_FORMAT.from_bytes(content, "model"))
        for name in _NUMBERS:
            finite_number(header[name], name)
        for name in _RECORDS:
            if not isinstance(header[name], list):
                raise DamagedFileError(f"its {name} is not a list")
        preparation = Preparation.from_arrays(
            header["features"],
            whole_number(header["n_items"], "number of items", 1),
            below("preparation/", arrays),
        )
        return model, preparation, header


def _schema(header: Header, names: Collection[str]) -> Schema:
    return {"": Part({"model": Array("uint8", ("n_bytes",))}), "preparation/": Preparation.schema}


FORMAT = ArchiveFormat(
    name="structboost-decisions",
    version=1,
    what="model of PredictThenOptimize",
    error=ModelFileError,
    remedy="train the model again, or take another copy of the file",
    schema=_schema,
)
