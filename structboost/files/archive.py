"""Archives of a JSON header and plain arrays.

The layout is that of ``numpy.savez``: a zip with one ``.npy`` member for each array, and one for
the bytes of the header.  The header holds a checksum of everything else.

Reading trusts nothing.  The total size of the arrays is limited by the size of the file before any
is read.  Header, checksum, and types, shapes and entries of the arrays are checked, the latter by
the schema of the format.  No code of a file is ever run.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from structboost.files.atomic_write import checked_target, regular_file, write_whole
from structboost.files.schema import DamagedFileError, Schema, checked_arrays

Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

_HEADER, _CHECKSUM = "header", "checksum"
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
        write_whole(path, self.to_bytes(header, arrays))

    def to_bytes(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
        """Return the content of the file that :meth:`write` would write."""
        plain = json.loads(json.dumps({"format": self.name, "version": self.version, **header}))
        try:
            checked_arrays(self.schema(plain, arrays.keys()), arrays)
        except DamagedFileError as error:
            raise ValueError(f"This {self.what} cannot be saved: {error}.") from error
        file = io.BytesIO()
        _write(file, json.dumps({**plain, _CHECKSUM: _checksum(plain, arrays)}).encode(), arrays)
        return file.getvalue()

    def read(self, path: str | PathLike[str]) -> tuple[Header, Arrays]:
        """Read and check header and arrays of a file.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            As ``error``, if the file has another format or version, or is damaged.
        """
        with self._members(path) as (header, members):
            return self._checked(header, members)

    def header(self, path: str | PathLike[str]) -> Header:
        """Read the header of a file, without its arrays and without comparing checksums.

        Errors are those of :meth:`read`.
        """
        with self._members(path) as (header, _):
            return header

    @contextmanager
    def opened(self, path: str | PathLike[str]) -> Iterator[tuple[Header, Arrays]]:
        """Open header and arrays of a file for a block that decodes them.

        Errors of the block count as damage of the file.  Other errors are those of :meth:`read`.
        """
        content = self.read(path)
        with self.damage(path):
            yield content

    def from_bytes(self, content: bytes, name: str) -> tuple[Header, Arrays]:
        """Decode bytes of :meth:`to_bytes`, with ``name`` for errors."""
        with self.damage(name), _loaded(io.BytesIO(content), _ALWAYS_ALLOWED) as members:
            return self._checked(self._header(members, name), members)

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
            kind = "" if isinstance(error, DamagedFileError) else f"{type(error).__name__}: "
            raise self.error(
                f"{path} is not a {self.what}, or is damaged ({kind}{error}); {self.remedy}."
            ) from error

    @contextmanager
    def _members(self, path: str | PathLike[str]) -> Iterator[tuple[Header, Any]]:
        """Open a file, with its header and its arrays, which are read when they are used."""
        file = regular_file(path, self.what, self.error)
        with self.damage(path):
            most_bytes = max(_ALWAYS_ALLOWED, _MOST_EXPANSION * os.stat(file).st_size)
            with file.open("rb") as stream, _loaded(stream, most_bytes) as members:
                yield self._header(members, path), members

    def _header(self, members: Any, path: str | PathLike[str]) -> Header:
        header: Header = json.loads(members[_HEADER].tobytes().decode())
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
        return header

    def _checked(self, header: Header, members: Any) -> tuple[Header, Arrays]:
        names = set(members.files) - {_HEADER}
        expected, schema = header.pop(_CHECKSUM), self.schema(header, names)
        arrays = {name: members[name] for name in names}
        if expected != _checksum(header, arrays):
            raise DamagedFileError("its checksum does not fit its content")
        return header, checked_arrays(schema, arrays)


@contextmanager
def _loaded(file: IO[bytes], most_bytes: int) -> Iterator[Any]:
    """Open the arrays of a zip by their names, within the limit of their total size."""
    with np.load(file, allow_pickle=False) as members:
        if sum(info.file_size for info in members.zip.infolist()) > most_bytes:
            raise DamagedFileError(f"its arrays would take more than {most_bytes} bytes")
        yield members


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


def _checksum(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(json.dumps(header).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name!r} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
