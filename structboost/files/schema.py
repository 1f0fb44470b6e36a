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

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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


class Declared(NamedTuple):
    """Type and shape of an array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def prefixed(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays under names with ``prefix`` in front."""
    return {prefix + name: array for name, array in arrays.items()}


def below(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Select names that begin with ``prefix``, and remove the prefix."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def check_names(schema: Schema, names: Iterable[str]) -> None:
    """Raise DamagedFileError unless the names are those of the schema."""
    expected = {
        prefix + name: array
        for prefix, part in schema.items()
        for name, array in part.arrays.items()
    }
    actual = set(names)
    for name, array in expected.items():
        if name not in actual and not array.optional:
            raise DamagedFileError(f"it lacks the array {name!r}")
    for name in actual - expected.keys():
        raise DamagedFileError(f"it has an array {name!r:.60}")


def checked_sizes(schema: Schema, declared: Mapping[str, Declared]) -> dict[str, dict[str, int]]:
    """Derive the dimensions of each part, or raise DamagedFileError for a bad type or shape."""
    sizes: dict[str, dict[str, int]] = {}
    for prefix, part in sorted(schema.items()):
        known_sizes = dict(sizes.get("", {}))
        known_sizes |= {name: _number(size, known_sizes) for name, size in part.sizes.items()}
        sizes[prefix] = known_sizes
        of_part = {
            prefix + name: (array, declared[prefix + name])
            for name, array in part.arrays.items()
            if prefix + name in declared
        }
        for name, (array, actual) in of_part.items():
            if len(array.shape) != len(actual.shape):
                raise DamagedFileError(f"the array {name!r} has shape {actual.shape}")
            for dimension, size in zip(array.shape, actual.shape, strict=True):
                if isinstance(dimension, str) and dimension.isidentifier():
                    known_sizes.setdefault(dimension, size)
        for name, (array, actual) in of_part.items():
            expected = tuple(_number(dimension, known_sizes) for dimension in array.shape)
            if actual.shape != expected:
                raise DamagedFileError(
                    f"the array {name!r} has shape {actual.shape}, not {expected}"
                )
            # Arrays without entries were written with any type.
            if actual.dtype != array.dtype and 0 not in actual.shape:
                raise DamagedFileError(
                    f"the array {name!r} has type {actual.dtype}, not {array.dtype}"
                )
    return sizes


def checked_arrays(schema: Schema, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays, or raise DamagedFileError unless they fit the schema."""
    check_names(schema, arrays)
    sizes = checked_sizes(
        schema, {name: Declared(array.dtype, array.shape) for name, array in arrays.items()}
    )
    checked = {}
    for prefix, part in schema.items():
        for name, array in part.arrays.items():
            if prefix + name in arrays:
                _check_entries(prefix + name, array, arrays[prefix + name], sizes[prefix])
                checked[prefix + name] = arrays[prefix + name].astype(array.dtype, copy=False)
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
        raise DamagedFileError(f"its {name} is {_short(value)}")
    return value


def finite_number(value: Any, name: str, low: float = -np.inf, high: float = np.inf) -> float:
    """Return a float of a header, with the errors of :func:`whole_number`."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not low <= value <= high
        or abs(value) == np.inf
    ):
        raise DamagedFileError(f"its {name} is {_short(value)}")
    return float(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


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


def _check_entries(
    name: str, expected: Array, array: NDArray[Any], sizes: Mapping[str, int]
) -> None:
    if not array.size:
        if expected.ends is not None:
            raise DamagedFileError(f"the array {name!r} is empty")
        return
    if (
        array.dtype.kind == "f"
        and not (np.isfinite(array) | (expected.infinite & ~np.isnan(array))).all()
    ):
        raise DamagedFileError(f"the array {name!r} has NaN or infinite entries")
    low, high = (
        None if bound is None else _number(bound, sizes) for bound in (expected.low, expected.high)
    )
    if expected.ends is not None:
        low, high = 0, _number(expected.ends, sizes)
        if array[0] != low or array[-1] != high:
            raise DamagedFileError(f"the array {name!r} does not go from 0 to {high}")
    if (low is not None and array.min() < low) or (high is not None and array.max() > high):
        raise DamagedFileError(f"the array {name!r} has entries out of their range")
    if expected.nonzero and not array.all():
        raise DamagedFileError(f"the array {name!r} has zeros")
    if expected.rising or expected.ends is not None:
        least_step = 1 if expected.rising else 0
        if (np.diff(array) < least_step).any():
            raise DamagedFileError(f"the array {name!r} is not in order")
