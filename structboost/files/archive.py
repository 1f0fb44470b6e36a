"""Archives of a JSON header and plain arrays.

The layout is that of ``numpy.savez``: a zip with one ``.npy`` member for each array, and one for
the bytes of the header.  The header holds a checksum of everything else.

Reading trusts nothing.  It begins with the directory of the zip and the declared types and shapes:
their total size is limited by the size of the file, and they must fit the schema of the format.
Only then is memory allocated, and checksum and entries are checked.  No code of a file is ever run.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost.files.atomic_write import checked_path, checked_target, regular_file, whole_file
from structboost.files.schema import (
    DamagedFileError,
    Declared,
    Schema,
    check_names,
    checked_arrays,
    checked_sizes,
)

Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

_HEADER, _CHECKSUM = "header", "checksum"
_SUFFIX = ".npy"
# Arrays may be this many times as large as their file, or this many bytes.  Zeros would deflate to
# a thousandth.
_MOST_EXPANSION = 128
_ALWAYS_ALLOWED = 1 << 26
# The declaration of a member is smaller than this.
_MEMBER_HEADER = 256


@dataclass(frozen=True)
class ArchiveFormat:
    """Format of a kind of archive.

    Parameters
    ----------
    name : str
        Name of the format in the header.
    version : int
        Version that is written and read.
    what : str
        Kind of file in words, for errors.
    error : type
        Exception for a file that is damaged or of another kind.
    remedy : str
        Remedy in the message of that exception.
    schema : callable
        ``schema(header, names)`` returns the schema of the arrays, from the header and the names
        in a file.  It raises DamagedFileError, KeyError, TypeError or ValueError if the header is
        damaged.
    """

    name: str
    version: int
    what: str
    error: type[ValueError]
    remedy: str
    schema: Callable[[Header, Collection[str]], Schema]

    def write(
        self,
        path: str | PathLike[str],
        header: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
    ) -> None:
        """Write an archive, whole or not at all.

        TypeError if the header is not plain JSON.  ValueError if the arrays do not fit the schema,
        so that they could not be read again.  OSError if the file cannot be written, before any
        work.
        """
        checked_target(path)
        encoded = self._encoded(header, arrays)
        with whole_file(path) as file:
            _write(file, encoded, arrays)

    def to_bytes(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
        """Return the content of the file that :meth:`write` would write."""
        file = io.BytesIO()
        _write(file, self._encoded(header, arrays), arrays)
        return file.getvalue()

    def read(self, path: str | PathLike[str]) -> tuple[Header, Arrays]:
        """Read and check header and arrays of a file.

        Raises
        ------
        ValueError
            As ``error``, if the file has another format or version, or is damaged.
        """
        if checked_path(path).exists():
            regular_file(path, self.what, self.error)
        with self.damage(path), Path(path).open("rb") as file:
            return self._read(
                file, path, max(_ALWAYS_ALLOWED, _MOST_EXPANSION * os.stat(path).st_size)
            )

    def header(self, path: str | PathLike[str]) -> Header:
        """Read the header of a file, without its arrays and without comparing checksums.

        ValueError from :meth:`read`.
        """
        regular_file(path, self.what, self.error)
        most_bytes = max(_ALWAYS_ALLOWED, _MOST_EXPANSION * os.stat(path).st_size)
        with self.damage(path), zipfile.ZipFile(path) as archive:
            return self._header(archive, _members(archive, most_bytes), path)

    @contextmanager
    def opened(self, path: str | PathLike[str]) -> Iterator[tuple[Header, Arrays]]:
        """Open header and arrays of a file for a block that decodes them.

        Errors of the block count as damage of the file.  Other errors are those of :meth:`read`,
        and FileNotFoundError if there is no such file.
        """
        regular_file(path, "model file", self.error)
        content = self.read(path)
        with self.damage(path):
            yield content

    def from_bytes(self, content: bytes, name: str) -> tuple[Header, Arrays]:
        """Decode bytes of :meth:`to_bytes`, with ``name`` for errors."""
        with self.damage(name):
            return self._read(io.BytesIO(content), name, _ALWAYS_ALLOWED)

    @contextmanager
    def damage(self, path: str | PathLike[str]) -> Iterator[None]:
        """Turn errors caused by damaged content into the ``error`` of this format.

        The libraries that read zips, JSON and arrays raise about ten types of errors for damaged
        ones.  The new error names the file.
        """
        try:
            yield
        except self.error:
            raise
        except Exception as error:
            reason = (
                str(error)
                if isinstance(error, DamagedFileError)
                else f"{type(error).__name__}: {error}"
            )
            raise self.error(
                f"{path} is not a {self.what}, or is damaged ({reason}); {self.remedy}."
            ) from error

    def _encoded(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
        """Encode the header with its checksum, after checking that all can be read again."""
        plain = json.loads(json.dumps({"format": self.name, "version": self.version, **header}))
        try:
            checked_arrays(self.schema(plain, arrays.keys()), arrays)
        except DamagedFileError as error:
            raise ValueError(f"This {self.what} cannot be saved: {error}.") from error
        return json.dumps({**plain, _CHECKSUM: _checksum(plain, arrays)}).encode()

    def _read(
        self, file: IO[bytes], path: str | PathLike[str], most_bytes: int
    ) -> tuple[Header, Arrays]:
        with zipfile.ZipFile(file) as archive:
            members = _members(archive, most_bytes)
            header = self._header(archive, members, path)
            expected = header.pop(_CHECKSUM)
            schema = self.schema(header, members.keys())
            check_names(schema, members)
            checked_sizes(schema, {name: member.declared for name, member in members.items()})
            arrays = {name: _array(archive, member) for name, member in members.items()}
        if expected != _checksum(header, arrays):
            raise DamagedFileError("its checksum does not fit its content")
        return header, checked_arrays(schema, arrays)

    def _header(
        self, archive: zipfile.ZipFile, members: dict[str, _Member], path: str | PathLike[str]
    ) -> Header:
        if _HEADER not in members:
            raise DamagedFileError("it has no header")
        header: Header = json.loads(_array(archive, members.pop(_HEADER)).tobytes().decode())
        self._check_kind(header, path)
        return header

    def _check_kind(self, header: Any, path: str | PathLike[str]) -> None:
        if not isinstance(header, dict):
            raise DamagedFileError("its header is not an object")
        format_name, version = header["format"], header["version"]
        if format_name != self.name:
            raise self.error(
                f"{path} is a file of the format {format_name!r:.60}, not a {self.what}; load it "
                f"with the class that wrote it."
            )
        if version != self.version:
            raise self.error(
                f"{path} is a {self.what} of format version {version!r:.20}; this structboost "
                f"reads version {self.version}. Update structboost, or {self.remedy}."
            )


class _Member(NamedTuple):
    """Array in a zip, with its place and its declaration."""

    info: zipfile.ZipInfo
    offset: int
    declared: Declared
    fortran_order: bool


def _write(file: IO[bytes], header: bytes, arrays: Mapping[str, NDArray[Any]]) -> None:
    members: dict[str, Any] = {**arrays, _HEADER: np.frombuffer(header, dtype=np.uint8)}
    np.savez_compressed(file, **members)
    total = sum(array.nbytes + _MEMBER_HEADER for array in members.values())
    if total <= max(_ALWAYS_ALLOWED, _MOST_EXPANSION * file.tell()):
        return
    # A file that would be refused is not written.
    file.seek(0)
    file.truncate()
    np.savez(file, **members)


def _members(archive: zipfile.ZipFile, most_bytes: int) -> dict[str, _Member]:
    """Return the arrays of a zip by their names, within the limit of their total size."""
    members: dict[str, _Member] = {}
    total = 0
    for info in archive.infolist():
        name = info.filename.removesuffix(_SUFFIX)
        if not info.filename.endswith(_SUFFIX) or name in members:
            raise DamagedFileError(f"it has a member {info.filename!r:.60}")
        members[name] = _declaration(archive, info)
        total += info.file_size
        if total > most_bytes:
            raise DamagedFileError(f"its arrays would take more than {most_bytes} bytes")
    return members


def _declaration(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    with archive.open(info) as stream:
        version = np.lib.format.read_magic(stream)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran_order, dtype = read(stream)
        offset = stream.tell()
    if dtype.hasobject or any(size < 0 for size in shape):
        raise DamagedFileError(
            f"its member {info.filename!r:.60} declares {dtype} of shape {shape}"
        )
    if info.file_size != offset + math.prod(shape) * dtype.itemsize:
        raise DamagedFileError(
            f"its member {info.filename!r:.60} has another size than it declares"
        )
    return _Member(info, offset, Declared(dtype, shape), fortran_order)


def _array(archive: zipfile.ZipFile, member: _Member) -> NDArray[Any]:
    """Read one array, verifying the checksum of the zip at its end."""
    dtype, shape = member.declared
    with archive.open(member.info) as stream:
        stream.seek(member.offset)
        content = stream.read(member.info.file_size - member.offset)
        if len(content) != member.info.file_size - member.offset or stream.read(1):
            raise DamagedFileError(
                f"its member {member.info.filename!r:.60} has another size than it declares"
            )
    flat = np.frombuffer(content, dtype) if content else np.zeros(0, dtype)
    return flat.reshape(shape, order="F" if member.fortran_order else "C").copy(order="K")


def _checksum(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(json.dumps(header).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name!r} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
