"""Files of linear models of versions 0.1 and 0.2, which are read as ensembles."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from structboost.contract.parts import PartKind
from structboost.errors import ModelFileError
from structboost.files.archive import ArchiveFormat, Arrays, Header
from structboost.files.schema import (
    Array,
    DamagedFileError,
    Part,
    Schema,
    finite_number,
    prefixed,
    whole_number,
)
from structboost.model.kind_ensemble import KindEnsemble
from structboost.model.linear_members import active_functions, plain_functions

# The trainer that wrote files which name no estimator.
_TRAINER = "StructuredSVM"


def as_ensemble(header: Header, arrays: Arrays) -> tuple[Header, Arrays]:
    """Convert the header and arrays of a linear file to those of an ensemble.

    DamagedFileError if a kind has no bias.
    """
    facts = dict(header["metadata"])
    active = facts.get("parameters", {}).get("active", [])
    kinds, n_known, n_columns = {}, {}, 0
    out: Arrays = {}
    for name, part in _kinds(header).items():
        weights = arrays[f"{name}/weights"]
        if part.has_bias and not len(weights):
            raise DamagedFileError("a kind has no bias")
        if name in active:
            n_known[name] = len(weights) - part.has_bias
            member = active_functions(weights, part, n_columns, n_slots=1)
        else:
            member = plain_functions(weights, part, n_columns)
        n_columns += part.n_channels
        kinds[name] = {
            **header["kinds"][name],
            "family": member.family,
            "n_features": member.n_features,
        }
        out |= {f"{name}/{field}": getattr(member, field) for field in KindEnsemble.schema}
        out |= prefixed(f"{name}/learners/", member.learners.to_arrays())
    out |= {"weights": np.ones(n_columns), "stages": np.ones((1, n_columns))}
    facts |= {"C": facts.get("parameters", {}).get("C", 1.0), "n_known": n_known}
    if "estimator" not in facts:
        facts["trainer"] = _TRAINER
    return {"kinds": kinds, "metadata": facts}, out


def _kinds(header: Header) -> dict[str, PartKind]:
    kinds = {}
    for name, entry in header["kinds"].items():
        low, high = (finite_number(end, "response") for end in entry["response"])
        kinds[name] = PartKind(whole_number(entry["n_channels"], "n_channels", 1), (low, high))
    return kinds


def _schema(header: Header, names: Collection[str]) -> Schema:
    kinds = _kinds(header)
    if not kinds or not isinstance(header["metadata"], dict):
        raise DamagedFileError("its header has no kinds or no metadata")
    parts = {}
    for name, kind in kinds.items():
        lowest = 0.0 if not kind.has_bias else None
        weights = Array("float64", ("n_rows", "n_channels"), low=lowest)
        parts[f"{name}/"] = Part({"weights": weights}, {"n_channels": kind.n_channels})
    return parts


FORMAT = ArchiveFormat(
    name="structboost-linear-model",
    version=1,
    what="structboost linear model",
    error=ModelFileError,
    remedy="train the model again, or take another copy of the file",
    schema=_schema,
)
