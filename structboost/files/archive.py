"""Archives of a JSON header and plain arrays.

The layout is that of ``numpy.savez``: a zip with one ``.npy`` member for each array, and one for
the bytes of the header.  The header holds a checksum of everything else.

Reading trusts nothing.  The total size of the arrays is limited by the size of the file before any
is read.  Header, checksum, and types, shapes and entries of the arrays are checked, the latter by
the schema of the format.  No code of a file is ever run.

A class whose arrays go to a file describes them beside its fields::

    schema = {
        "feature": Array("int64", ("n_learners",), low=0, high="n_features - 1"),
        "threshold": Array("float64", ("n_learners",), infinite=True),
    }

A dimension is a number, a name, or a sum such as ``"n_nodes + 1"``.  A name gets its size from the
first array with that dimension alone; all others must agree.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Self
from zipfile import is_zipfile

import numpy as np

from structboost._typing import AnyArray, Facts, PathName
from structboost.errors import ModelFileError
from structboost.files.atomic_write import checked_target, regular_file, write_whole


class SavedToFile:
    """Class whose fitted objects can be written to a file."""

    @abstractmethod
    def save(self, path: PathName) -> None:
        """Write the fitted model to a file, all of it or nothing, and without pickle.

        The file does not hold tasks and problems, which are code.

        Parameters
        ----------
        path : str or path
            The file; an existing one is replaced.

        Raises
        ------
        NotFittedError
            If there is no model yet.
        ValueError
            If a part of the model is a user's code, such as a family of weak learners, or is of a
            library whose models no file of plain arrays holds.
        TypeError
            If a label, a category or a name is neither a number nor a string nor a date, or another
            part is an object of a user's class.
        OSError
            If the file cannot be written.
        """


class LoadedFromFile(SavedToFile):
    """Class whose files need nothing beside them to be loaded."""

    @classmethod
    @abstractmethod
    def load(cls, path: PathName) -> Self:
        """Read what :meth:`save` wrote, without running code of the file.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        fitted : object
            The fitted object, of the class that :meth:`load` is called on.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ModelFileError
            If it is of another class, is damaged, or is of another version.
        """


Header = dict[str, Any]
Arrays = dict[str, AnyArray]
NamedArrays = Mapping[str, AnyArray]
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


def checked_arrays(schema: Schema, arrays: NamedArrays) -> Arrays:
    """Return the arrays, or raise DamagedFileError unless they fit the schema."""
    checked: Arrays = {}
    shared: dict[str, int] = {}
    for prefix, part in sorted(schema.items()):
        of_part = {n: arrays[prefix + n] for n in part.arrays if prefix + n in arrays}
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
    if type(value) is not int or not low <= value <= high:
        raise DamagedFileError(f"its {name} is {value!r:.40}")
    return value


def finite_number(value: Any, name: str, low: float = -np.inf, high: float = np.inf) -> float:
    """Return a float of a header, with the errors of :func:`whole_number`."""
    is_number = type(value) in (int, float)
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


def _check(name: str, expected: Array, array: AnyArray, sizes: Mapping[str, int]) -> None:
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


_HEADER, _CHECKSUM = "header", "checksum"
# Header and arrays may be this many times as large as their file, or this many bytes.  Zeros would
# deflate to a thousandth, and values of a header take 20 times as much memory as their text.
_MOST_EXPANSION = 128
_ALWAYS_ALLOWED = 1 << 22
# The declaration of a member is smaller than this.
_MEMBER_HEADER = 256


@dataclass(frozen=True)
class ArchiveFormat:
    """Format of a kind of archive.

    Parameters
    ----------
    name : str
        Name of the format in the header.
    what : str
        Kind of file in words, for errors.
    schema : callable
        ``schema(header, names)`` returns the schema of the arrays, from the header and the names
        in a file.  It raises DamagedFileError, KeyError, TypeError or ValueError if the header is
        damaged.
    error : type
        Exception for a file that is damaged or of another kind.
    remedy : str
        Remedy in the message of that exception.
    version : int
        Version that is written and read.
    """

    name: str
    what: str
    schema: Callable[[Header, Collection[str]], Schema]
    error: type[ValueError] = ModelFileError
    remedy: str = "train the model again, or take another copy of the file"
    version: int = 1

    def write(self, path: PathName, header: Facts, arrays: NamedArrays) -> None:
        """Write an archive, whole or not at all.

        TypeError if the header is not plain JSON.  ValueError if the arrays do not fit the schema,
        so that they could not be read again.  OSError if the file cannot be written, before any
        work.
        """
        checked_target(path)
        write_whole(path, self.to_bytes(header, arrays))

    def to_bytes(self, header: Facts, arrays: NamedArrays) -> bytes:
        """Return the content of the file that :meth:`write` would write."""
        plain = json.loads(json.dumps({"format": self.name, "version": self.version, **header}))
        try:
            checked_arrays(self.schema(plain, arrays.keys()), arrays)
        except DamagedFileError as error:
            raise ValueError(f"This {self.what} cannot be saved: {error}.") from error
        file = io.BytesIO()
        _write(file, json.dumps({**plain, _CHECKSUM: _checksum(plain, arrays)}).encode(), arrays)
        return file.getvalue()

    def read(self, path: PathName) -> tuple[Header, Arrays]:
        """Read and check header and arrays of a file.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            As ``error``, if the file has another format or version, or is damaged.
        """
        file = regular_file(path, self.what, self.error)
        with self.damage(path), file.open("rb") as stream:
            return self._content(stream, os.stat(file).st_size, path)

    @contextmanager
    def opened(self, path: PathName) -> Iterator[tuple[Header, Arrays]]:
        """Open header and arrays of a file for a block that decodes them.

        Errors of the block count as damage of the file.  Other errors are those of :meth:`read`.
        """
        content = self.read(path)
        with self.damage(path):
            yield content

    def from_bytes(self, content: bytes, name: str) -> tuple[Header, Arrays]:
        """Decode bytes of :meth:`to_bytes`, with ``name`` for errors, within :meth:`damage`."""
        return self._content(io.BytesIO(content), len(content), name)

    @contextmanager
    def damage(self, path: PathName) -> Iterator[None]:
        """Turn errors caused by damaged content into the ``error`` of this format.

        The libraries that read zips, JSON and arrays raise about ten types of errors for damaged
        ones.  The new error names the file.
        """
        try:
            yield
        except self.error:
            raise
        except Exception as error:
            reason = str(error)
            if not isinstance(error, DamagedFileError):
                # NumPy advises to unpickle, which would run code of the file.
                words = "it holds Python objects" if "pickle" in reason else reason
                reason = f"{type(error).__name__}: {words}"
            raise self.error(
                f"{path} is not a {self.what}, or is damaged ({reason}); {self.remedy}."
            ) from error

    def _content(self, file: IO[bytes], n_bytes: int, path: PathName) -> tuple[Header, Arrays]:
        """Read header and arrays, whose total size is limited by that of the file."""
        most_bytes = max(_ALWAYS_ALLOWED, _MOST_EXPANSION * n_bytes)
        if not is_zipfile(file):
            raise DamagedFileError("it is no archive of arrays")
        with np.load(file, allow_pickle=False) as members:
            infos = members.zip.infolist()
            if sum(info.file_size for info in infos) > most_bytes:
                raise DamagedFileError(f"its arrays would take more than {most_bytes} bytes")
            for info in infos:
                with members.zip.open(info) as member:
                    np.lib.format.read_magic(member)
                    shape, _, dtype = np.lib.format.read_array_header_1_0(member)
                if math.prod(shape) * dtype.itemsize > info.file_size:
                    raise DamagedFileError(f"it holds less than {info.filename!r:.60} declares")
            header = json.loads(members[_HEADER].tobytes().decode())
            if not isinstance(header, dict):
                raise DamagedFileError("its header is not an object")
            format_name, version = header["format"], header["version"]
            if format_name != self.name:
                raise self.error(
                    f"{path} is a file of the format {format_name!r:.60}, not a {self.what}; load "
                    "it with the class that wrote it."
                )
            if version != self.version:
                raise self.error(
                    f"{path} is a {self.what} of format version {version!r:.20}; this structboost "
                    f"reads version {self.version}. Update structboost, or {self.remedy}."
                )
            names = set(members.files) - {_HEADER}
            expected, schema = header.pop(_CHECKSUM), self.schema(header, names)
            arrays = {name: members[name] for name in names}
        if expected != _checksum(header, arrays):
            raise DamagedFileError("its checksum does not fit its content")
        return header, checked_arrays(schema, arrays)


def _write(file: IO[bytes], header: bytes, arrays: NamedArrays) -> None:
    members: dict[str, Any] = {**arrays, _HEADER: np.frombuffer(header, dtype=np.uint8)}
    np.savez_compressed(file, **members)
    total = sum(array.nbytes + _MEMBER_HEADER for array in members.values())
    if total <= max(_ALWAYS_ALLOWED, _MOST_EXPANSION * file.tell()):
        return
    # A file that would be refused is not written.
    file.seek(0)
    file.truncate()
    np.savez(file, **members)


def _checksum(header: Facts, arrays: NamedArrays) -> str:
    digest = hashlib.sha256(json.dumps(header).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name!r} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
