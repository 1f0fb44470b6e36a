"""Types of arrays, examples and paths in many signatures, and the mark of an override."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
AnyArray = NDArray[Any]
SingleArray = NDArray[np.float32]
ShortArray = NDArray[np.int32]
ByteArray = NDArray[np.uint8]
# Codes of -1, 0 and 1, sets as bits, the leaf of each row, and rows of a block.
SignArray = NDArray[np.int8]
WordArray = NDArray[np.uint64]
LeafArray = NDArray[np.int16]
RowArray = NDArray[np.uint16]
# The lowest and the highest value.
Range = tuple[float, float]
# Inputs or outputs of examples, one of each.
Examples = Sequence[Any]
# Plain values by name, as files, records and parameters have them.
Facts = Mapping[str, Any]
# Numbers and indices by kind of parts.
KindArrays = Mapping[str, FloatArray]
KindIndices = Mapping[str, IntArray]
PathName = str | PathLike[str]

if TYPE_CHECKING:
    from typing_extensions import override as override  # noqa: PLC0414
else:

    def override(method):
        """Mark a method that overrides one of a base, as ``typing.override`` of Python 3.12."""
        return method
