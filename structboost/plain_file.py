"""Files of a JSON header and plain arrays: written whole or not at all, read without running code."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.whole_file import whole_file

_HEADER = "header"


class DamagedFileError(ValueError):
    """A file has not the header and the arrays that it should."""


def write_arrays(path: str | PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a header and arrays to ``path``.

    Raises
    ------
    TypeError
        If the header is not plain JSON.
    """
    if _HEADER in arrays:
        raise ValueError(f"No array may be called {_HEADER!r}.")
    encoded = np.frombuffer(json.dumps(dict(header)).encode(), dtype=np.uint8)
    with whole_file(path) as file:
        np.savez_compressed(file, **{**arrays, _HEADER: encoded})  # type: ignore[arg-type]


def read_arrays(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a file.

    Raises
    ------
    DamagedFileError
        If it was not written by :func:`write_arrays`, or is truncated.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop(_HEADER).tobytes().decode())
    except (OSError, ValueError, KeyError, TypeError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise DamagedFileError(str(error)) from error
    if not isinstance(header, dict):
        raise DamagedFileError("its header is not an object")
    return header, arrays
