"""Types of arrays, examples and paths in many signatures, and the mark of an override."""

from __future__ import annotations

from collections.abc import Sequence
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
# Inputs or outputs of examples, one of each.
Examples = Sequence[Any]
PathName = str | PathLike[str]

if TYPE_CHECKING:
    from typing_extensions import override as override  # noqa: PLC0414
else:

    def override(method):
        """Mark a method that overrides one of a base, as ``typing.override`` of Python 3.12."""
        return method
