"""Files and folders that are written whole or not at all.

What is written goes to a hidden neighbour, which takes the place of the target at the end.  A
killed process leaves the neighbour behind; the next save of the same target removes it.  A writer
holds a lock on its neighbour, so that one that is still being written stays.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows does not let go of a file that is open, which serves the same purpose
    fcntl = None  # type: ignore[assignment]


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to; it replaces ``path`` when the block ends, and is removed if it fails.

    A link stays a link: the file that it points to is written.  A file that was there before keeps
    its mode.

    Raises
    ------
    OSError
        If the file cannot be written; the message names it, not its neighbour.
    """
    target = Path(os.path.realpath(path))
    if os.path.isdir(target):
        raise IsADirectoryError(f"{path} is a folder; give the name of a file.")
    _remove_abandoned(target)
    temporary, file = _locked_neighbour(target)
    try:
        with file:
            yield file
            file.flush()
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def whole_folder(path: str | PathLike[str]) -> Iterator[Path]:
    """A folder to write to; it becomes ``path``, which must not exist, when the block ends."""
    target = Path(os.path.realpath(path))
    _remove_abandoned(target)
    temporary = _neighbour(target)
    temporary.mkdir()
    descriptor = _locked(temporary)
    try:
        yield temporary
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        if descriptor is not None:
            os.close(descriptor)


def write_whole(path: str | PathLike[str], content: bytes) -> None:
    """Write all of a file or nothing of it."""
    with whole_file(path) as file:
        file.write(content)


def _neighbour(target: Path) -> Path:
    return target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")


def _locked_neighbour(target: Path) -> tuple[Path, IO[bytes]]:
    """A new hidden file beside the target, locked."""
    while True:
        temporary = _neighbour(target)
        try:
            file = temporary.open("xb")
        except OSError as error:
            raise OSError(
                error.errno,
                f"{target} cannot be written ({error.strerror}); give a file in a folder that "
                "exists and that one can write to",
            ) from error
        if fcntl is not None:
            # A file system without locks keeps what killed saves leave.
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
        # Between the two another save of the same target may have taken it for abandoned.
        if temporary.exists():
            return temporary, file
        file.close()


def _remove_abandoned(target: Path) -> None:
    """Remove what killed saves of the target have left behind."""
    if not target.parent.is_dir():
        return
    ours = re.compile(re.escape(f".{target.name}.") + "[0-9a-f]{8}")
    for found in [
        target.with_name(name) for name in os.listdir(target.parent) if ours.fullmatch(name)
    ]:
        descriptor = _locked(found)
        if descriptor is None and (fcntl is not None or found.is_dir()):
            continue
        if found.is_dir():
            shutil.rmtree(found, ignore_errors=True)
        else:
            with suppress(OSError):
                found.unlink()
        if descriptor is not None:
            os.close(descriptor)


def _locked(path: Path) -> int | None:
    """A descriptor that holds the lock of a file or a folder; None if another process holds it."""
    if fcntl is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
