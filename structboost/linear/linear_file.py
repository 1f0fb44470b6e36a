"""Files of linear models: weights of each kind of part, and what the model says of itself.

Loading never runs code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike
from typing import Any, NamedTuple

from structboost._typing import FloatArray
from structboost.contract.parts import PartKind
from structboost.exceptions import ModelFileError
from structboost.files.archive import ArchiveFormat, Arrays, Header
from structboost.files.schema import (
    Array,
    DamagedFileError,
    Part,
    Schema,
    finite_number,
    whole_number,
)
from structboost.solvers.linear_scores import is_bounded


class LinearModel(NamedTuple):
    """What a file of a linear model holds.

    Parameters
    ----------
    kinds : dict of str to PartKind
    weights : dict of str to ndarray, shape (n_rows, n_channels)
        The bias in the last row, where the kind has one.
    metadata : dict
        Plain values that are saved with the weights.
    """

    kinds: Mapping[str, PartKind]
    weights: Mapping[str, FloatArray]
    metadata: Mapping[str, Any]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file: all of it or nothing.

        Raises
        ------
        TypeError
            If the metadata is not plain JSON.
        ValueError
            If weights are not finite.
        """
        FORMAT.write(path, *self.to_arrays())

    def to_arrays(self) -> tuple[Header, Arrays]:
        """The header and the arrays of a file."""
        kinds = {
            name: {"n_channels": kind.n_channels, "response": list(kind.response)}
            for name, kind in self.kinds.items()
        }
        arrays = {f"{name}/weights": self.weights[name] for name in kinds}
        return {"kinds": kinds, "metadata": dict(self.metadata)}, arrays

    @classmethod
    def from_arrays(cls, header: Header, arrays: Arrays) -> LinearModel:
        """The model that :meth:`to_arrays` took apart."""
        kinds = _kinds(header)
        weights = {name: arrays[f"{name}/weights"] for name in kinds}
        if any(not len(weights[name]) and not is_bounded(kind) for name, kind in kinds.items()):
            raise DamagedFileError("a kind has no bias")
        return cls(kinds, weights, header["metadata"])

    @classmethod
    def load(cls, path: str | PathLike[str]) -> LinearModel:
        """Read a model that :meth:`save` wrote.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ModelFileError
            If it is not a file of a linear model, is damaged, or is of another version.
        """
        with FORMAT.opened(path) as content:
            return cls.from_arrays(*content)


def _kinds(header: Header) -> dict[str, PartKind]:
    kinds = {}
    for name, entry in header["kinds"].items():
        low, high = (finite_number(answer, "response") for answer in entry["response"])
        kinds[name] = PartKind(whole_number(entry["n_channels"], "n_channels", 1), (low, high))
    return kinds


def _schema(header: Header, names: Collection[str]) -> Schema:
    kinds = _kinds(header)
    if not kinds or not isinstance(header["metadata"], dict):
        raise DamagedFileError("its header has no kinds or no metadata")
    parts = {}
    for name, kind in kinds.items():
        lowest = 0.0 if is_bounded(kind) else None
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
