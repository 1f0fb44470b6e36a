"""Model files: a JSON header and plain arrays, versioned; loading never runs code."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from structboost.ensemble import Ensemble, KindEnsemble
from structboost.exceptions import ModelFileError
from structboost.plain_file import DamagedFileError, read_arrays, write_arrays
from structboost.task import PartKind
from structboost.weak import registry

_FORMAT = "structboost-model"
_VERSION = 1
_TERMS = ("columns", "term_learners", "channels", "coefficients")


def save_model(model: Ensemble, path: str | PathLike[str]) -> None:
    """Write ``model`` to ``path``: all of it or nothing.

    Raises
    ------
    TypeError
        If the metadata is not plain JSON.
    """
    arrays: dict[str, NDArray[Any]] = {"weights": model.weights, "stages": model.stages}
    kinds = {}
    for kind, member in model.members.items():
        of_kind = model.kinds[kind]
        kinds[kind] = {
            "n_channels": of_kind.n_channels,
            "response": list(of_kind.response),
            "family": member.family,
            "n_features": member.n_features,
        }
        arrays |= {f"{kind}/{name}": getattr(member, name) for name in _TERMS}
        arrays |= {f"{kind}/learners/{name}": array for name, array in member.learners.to_arrays().items()}
    header = {"format": _FORMAT, "version": _VERSION, "kinds": kinds, "metadata": dict(model.metadata)}
    write_arrays(path, header, arrays)


def load_model(path: str | PathLike[str]) -> Ensemble:
    """Read a model that :func:`save_model` wrote.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError
        If it is not a model file, is truncated, or is of a newer version.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no model file {path}.")
    try:
        header, arrays = read_arrays(path)
        known = header["format"] == _FORMAT
        version = int(header["version"])
    except (DamagedFileError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path} is not a structboost model, or is truncated ({error}).") from error
    if not known:
        raise ModelFileError(f"{path} is a file of the format {header['format']!r}, not a structboost model.")
    if version > _VERSION:
        raise ModelFileError(
            f"{path} is of format version {version}; this structboost reads up to {_VERSION}. Update structboost."
        )
    try:
        return _assemble(header, arrays)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ModelFileError(f"{path} is damaged: {error}.") from error


def _assemble(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Ensemble:
    kinds, members = {}, {}
    weights, stages = arrays["weights"], arrays["stages"]
    for kind, entry in header["kinds"].items():
        kinds[kind] = PartKind(int(entry["n_channels"]), (float(entry["response"][0]), float(entry["response"][1])))
        prefix = f"{kind}/learners/"
        table = {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
        terms = {name: arrays[f"{kind}/{name}"] for name in _TERMS}
        member = KindEnsemble(
            family=entry["family"],
            learners=registry.table(entry["family"])(**table),
            n_features=int(entry["n_features"]),
            **terms,
        )
        _check_terms(member, kinds[kind], len(weights))
        members[kind] = member
    if stages.ndim != 2 or stages.shape[1] != len(weights):
        raise ValueError("its stages do not fit its weights")
    return Ensemble(kinds, members, weights, stages, header["metadata"])


def _check_terms(member: KindEnsemble, kind: PartKind, n_columns: int) -> None:
    limits = {"columns": n_columns, "term_learners": len(member.learners), "channels": kind.n_channels}
    for name, limit in limits.items():
        index = getattr(member, name)
        if len(index) != len(member.columns) or (len(index) and not 0 <= index.min() <= index.max() < limit):
            raise ValueError(f"its {name} are out of range")
