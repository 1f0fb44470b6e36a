"""Files and folders that are written whole or not at all.

Content goes to a hidden neighbour, which replaces the target at the end.  A killed process leaves
the neighbour behind.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any

from structboost._typing import PathName
from structboost.errors import usable
from structboost.validation import shown

# What a command calls its standard output, as an argument that names a file.
STANDARD_OUTPUT = Path("-")


def checked_path(path: Any, name: str = "path") -> Path:
    """Return a path of text, or raise TypeError or ValueError with the name of the argument."""
    text = path.__fspath__() if isinstance(path, PathLike) else path
    if not isinstance(text, str):
        remedy = f", such as {os.fsdecode(text)!r}" if isinstance(text, bytes) else ""
        raise TypeError(
            f"{name} is {shown(path)}; give the path of a file, as a string or a "
            f"pathlib.Path{remedy}."
        )
    if not text:
        raise ValueError(f"{name} is empty; give the path of a file.")
    # Python writes a byte that is no text as one of the surrogates U+DC80 to U+DCFF.
    if re.search("[\0\ud800-\udc7f\udd00-\udfff]", text):
        raise ValueError(
            f"{name} is {shown(text)}, which has a zero character or a lone surrogate; leave it "
            "out."
        )
    return Path(text)


def checked_target(path: Any, name: str = "path") -> Path:
    """Return the file that is written, behind all links, or raise if it cannot be written.

    OSError if it is a folder, a pipe, a device or the like, or cannot be written, which a test
    write shows; or errors of :func:`checked_path`.
    """
    target = _target(path, name)
    probe, file = _neighbour_file(target)
    file.close()
    probe.unlink()
    return target


def _target(path: Any, name: str = "path") -> Path:
    """Return the file behind all links, or raise if something else is there."""
    target = Path(os.path.realpath(checked_path(path, name)))
    if os.path.isdir(target):
        raise IsADirectoryError(f"{path} is a folder; give the name of a file.")
    if os.fspath(path).endswith(("/", os.sep)):
        raise NotADirectoryError(
            f"{path} is the name of a folder; leave the slash at its end out for a file."
        )
    if os.path.islink(target):
        raise OSError(errno.ELOOP, f"{path} is a link that leads to itself; give another path")
    if os.path.exists(target):
        if not os.path.isfile(target):
            raise FileExistsError(
                f"{path} is not a regular file, but a pipe, a device or the like; give another "
                "path."
            )
        if not os.access(target, os.W_OK):
            raise PermissionError(f"{path} allows no writing; give another path.")
    return target


def checked_folder(path: Any) -> Path:
    """Return the folder that is created, behind all links, or raise if it cannot be.

    OSError if something is there already, or the folder around it is missing or allows no new ones;
    or errors of :func:`checked_path`.
    """
    checked = checked_path(path)
    if os.path.lexists(checked):
        raise FileExistsError(f"{path} exists already; remove it, or give another path.")
    return checked_target(checked)


def regular_file(path: Any, what: str, error: type[Exception]) -> Path:
    """Return the path of a file that can be read.

    ``what`` is the kind of file, for errors, and ``error`` the exception for what is there but is
    no regular file.  FileNotFoundError if nothing is there; or errors of :func:`checked_path`.
    """
    checked = checked_path(path)
    if os.path.isfile(checked):
        return checked
    if not os.path.exists(checked):
        where = ": it is a link that leads nowhere" * os.path.islink(checked)
        raise FileNotFoundError(f"There is no {what} {path}{where}.")
    kind = "a folder" if os.path.isdir(checked) else "a pipe, a device or the like"
    raise error(f"{path} is {kind}; give the path of a {what}.")


@contextmanager
def whole_file(path: PathName) -> Iterator[IO[bytes]]:
    """Open a file that replaces ``path`` at the end of the block, if the block succeeds.

    A link stays a link, and its target is written.  An existing file keeps its mode.  TypeError,
    ValueError or OSError from :func:`checked_target`; the message names the file, not its
    neighbour.
    """
    target = _target(path)
    temporary, file = _neighbour_file(target)
    try:
        with file:
            yield file
            file.flush()
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            os.fsync(file.fileno())
        _target(path)  # something else may be there by now
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def whole_folder(path: PathName) -> Iterator[Path]:
    """Create a folder that becomes ``path``, which must not exist, at the end of the block.

    TypeError, ValueError or OSError from :func:`checked_folder`.
    """
    target = checked_folder(path)
    temporary = _neighbour(target)
    temporary.mkdir()
    try:
        yield temporary
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def write_whole(path: PathName, content: bytes) -> None:
    """Write a file whole or not at all."""
    with whole_file(path) as file:
        file.write(content)


def write_json(path: Path, record: Any) -> None:
    """Write a record of plain values as a file of JSON, or to standard output."""
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    if path == STANDARD_OUTPUT:
        usable(sys.stdout).write(text)
    else:
        write_whole(path, text.encode())


def _neighbour(target: Path) -> Path:
    # With a whole name of 255 bytes it would be too long.
    return target.with_name(f".{target.name[:50]}.{uuid.uuid4().hex[:8]}")


def _neighbour_file(target: Path) -> tuple[Path, IO[bytes]]:
    """Create a hidden file beside the target."""
    temporary = _neighbour(target)
    try:
        return temporary, temporary.open("xb")
    except OSError as error:
        raise type(error)(
            f"{target} cannot be written ({error.strerror}); give a path in a folder that exists "
            "and that one can write to."
        ) from error


# Inode of a file on its disk, or the path of a file that does not exist.
_Identity = tuple[int, int] | str


class OutputError(ValueError):
    """Error of a file that cannot be written, or would overwrite an input."""


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[Path] = ()) -> None:
    """Raise OutputError unless every output can be written and overwrites no input or other output.

    The keys are the names of the outputs in errors.  None is skipped, and so is standard output,
    for what :func:`write_json` writes.  Links and other spellings of a path are followed.
    """
    taken: dict[_Identity, str] = {}
    for name, path in outputs.items():
        if path is None or (name, path) == ("--json", STANDARD_OUTPUT):
            continue
        check_writable(path, name)
        other = taken.setdefault(_identity(path), name)
        if other != name:
            raise OutputError(f"{name} {path} is also the file of {other}; give another file.")
        check_overwrites_none([path], inputs, name)


def check_overwrites_none(targets: Iterable[Path], inputs: Iterable[Path], name: str) -> None:
    """Raise OutputError if a target is one of the files that are read."""
    read = {_identity(path): path for path in inputs}
    for target in targets:
        if _identity(target) in read:
            raise OutputError(
                f"{name} {target} would overwrite {read[_identity(target)]}, which is read; give "
                f"another {name}."
            )


def check_writable(path: PathName, name: str = "") -> None:
    """Raise OutputError unless a file can be written, in a folder that exists."""
    try:
        checked_target(path)
    except OSError as error:
        raise OutputError(f"{name} {error.strerror or error}".strip()) from error


def check_folder(path: PathName, name: str = "") -> None:
    """Create a folder and its parents, and raise unless files can be written into it."""
    folder = Path(path)
    shown = f"{name} {path}".strip()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise OutputError(f"{shown} is a file; give a folder.") from error
    except OSError as error:
        raise OutputError(
            f"{shown} cannot be created ({error.strerror}); give another folder."
        ) from error
    check_writable(folder / "probe", name)


def _identity(path: Path) -> _Identity:
    """Return a value that is equal for two names of one file."""
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino
