"""Schema of the arrays of a file, with types, shapes with common dimensions, and ranges.

A class whose arrays go to a file describes them beside its fields::

    schema = {
        "feature": Array("int64", ("n_learners",), low=0, high="n_features - 1"),
        "threshold": Array("float64", ("n_learners",), infinite=True),
    }

A dimension is a number, a name, or a sum such as ``"n_nodes + 1"``.  A name gets its size from the
first array with that dimension alone; all others must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

# No real file has this number of features, channels or labels; a larger one is damaged.
_MOST = 1 << 24


class DamagedFileError(ValueError):
    """Error of a file whose header or arrays do not fit their schema."""


@dataclass(frozen=True)
class Array:
    """Requirements on one array.

    Parameters
    ----------
    dtype : str
        Its type, such as ``"float64"``.
    shape : tuple of int or str
        Its dimensions: numbers, names, or sums of them.
    low, high : float or str, optional
        Smallest and largest entry.
    infinite : bool
        Whether entries may be infinite; NaN is never allowed.
    nonzero : bool
        Whether no entry may be 0.
    rising : bool
        Whether each entry must be larger than the one before.
    ends : str, optional
        For index pointers, which begin at 0, never fall, and end at this number.
    optional : bool
        Whether files may lack the array.
    """

    dtype: str
    shape: tuple[int | str, ...]
    low: float | str | None = None
    high: float | str | None = None
    infinite: bool = False
    nonzero: bool = False
    rising: bool = False
    ends: str | None = None
    optional: bool = False


@dataclass(frozen=True)
class Part:
    """Group of arrays with common dimensions.

    Parameters
    ----------
    arrays : dict of str to Array
        The arrays, by name.
    sizes : dict of str to int or str
        Fixed dimensions, as a size or as the name of one in the part "".
    """

    arrays: Mapping[str, Array]
    sizes: Mapping[str, int | str] = field(default_factory=dict)


# By the beginning of the names; the dimensions of the part "" are defined in all others.
Schema = Mapping[str, Part]


def prefixed(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays under names with ``prefix`` in front."""
    return {prefix + name: array for name, array in arrays.items()}


def below(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Select names that begin with ``prefix``, and remove the prefix."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def checked_arrays(schema: Schema, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays, or raise DamagedFileError unless they fit the schema."""
    checked: dict[str, NDArray[Any]] = {}
    shared: dict[str, int] = {}
    for prefix, part in sorted(schema.items()):
        of_part = below(prefix, {n: arrays[n] for n in arrays if n[len(prefix) :] in part.arrays})
        sizes = dict(shared)
        sizes |= {name: _number(size, sizes) for name, size in part.sizes.items()}
        for name, expected in part.arrays.items():
            if name not in of_part and not expected.optional:
                raise DamagedFileError(f"it lacks the array {prefix + name!r}")
        for name, array in of_part.items():
            for dimension, size in zip(part.arrays[name].shape, array.shape, strict=False):
                if isinstance(dimension, str) and dimension.isidentifier():
                    sizes.setdefault(dimension, size)
        for name, array in of_part.items():
            _check(f"the array {prefix + name!r}", part.arrays[name], array, sizes)
            checked[prefix + name] = array.astype(part.arrays[name].dtype, copy=False)
        if not prefix:
            shared = sizes
    for name in arrays.keys() - checked:
        raise DamagedFileError(f"it has an array {name!r:.60}")
    return checked


@contextmanager
def damaged_content() -> Iterator[None]:
    """Turn errors of code that decodes damaged content into DamagedFileError."""
    try:
        yield
    except DamagedFileError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise DamagedFileError(f"{type(error).__name__}: {error}") from error


def whole_number(value: Any, name: str, low: int = 0, high: int = _MOST) -> int:
    """Return an int of a header, or raise DamagedFileError if it is bad or out of range."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise DamagedFileError(f"its {name} is {value!r:.40}")
    return value


def finite_number(value: Any, name: str, low: float = -np.inf, high: float = np.inf) -> float:
    """Return a float of a header, with the errors of :func:`whole_number`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or abs(value) == np.inf:
        raise DamagedFileError(f"its {name} is {value!r:.40}")
    return float(value)


def _number(expression: float | str, sizes: Mapping[str, int]) -> Any:
    """Evaluate a number, or a sum or difference such as ``n_nodes + 1``."""
    if not isinstance(expression, str):
        return expression
    total, sign = 0, 1
    for word in expression.split():
        if word in "+-":
            sign = 1 if word == "+" else -1
        else:
            total += sign * (int(word) if word.isdigit() else sizes[word])
    return total


def _check(name: str, expected: Array, array: NDArray[Any], sizes: Mapping[str, int]) -> None:
    """Raise DamagedFileError unless an array has the type, shape and entries of its schema."""
    shape = tuple(_number(dimension, sizes) for dimension in expected.shape)
    if array.shape != shape:
        raise DamagedFileError(f"{name} has shape {array.shape}, not {shape}")
    low, high, step = expected.low, expected.high, 1 if expected.rising else None
    if expected.ends is not None:
        low, high, step = 0, expected.ends, 0
        if not array.size or array[0] or array[-1] != _number(high, sizes):
            raise DamagedFileError(f"{name} does not go from 0 to {_number(high, sizes)}")
    if not array.size:  # of any type
        return
    if array.dtype != expected.dtype:
        raise DamagedFileError(f"{name} has type {array.dtype}, not {expected.dtype}")
    if np.isnan(array).any() or not (expected.infinite or np.isfinite(array).all()):
        raise DamagedFileError(f"{name} has NaN or infinite entries")
    for bound, beyond in ((low, np.less), (high, np.greater)):
        if bound is not None and beyond(array, _number(bound, sizes)).any():
            raise DamagedFileError(f"{name} has entries out of their range")
    if expected.nonzero and not array.all():
        raise DamagedFileError(f"{name} has zeros")
    if step is not None and (np.diff(array) < step).any():
        raise DamagedFileError(f"{name} is not in order")
