"""Files and folders that are written whole or not at all.

Content goes to a hidden neighbour, which replaces the target at the end.  A killed process leaves
the neighbour behind, and the next save of the same target removes it.  A writer holds a lock on its
neighbour, so that one that is still being written stays.
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
except ImportError:  # Windows does not delete an open file, which serves the same purpose
    fcntl = None  # type: ignore[assignment]


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that replaces ``path`` at the end of the block, if the block succeeds.

    A link stays a link, and its target is written.  An existing file keeps its mode.

    Raises
    ------
    OSError
        If the file cannot be written; the message names it, not its neighbour.
    """
    target = Path(os.path.realpath(path))
    if os.path.isdir(target):
        raise IsADirectoryError(f"{path} is a folder; give the name of a file.")
    _remove_abandoned(target)
    temporary, file = _create_neighbour(target)
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
    """Create a folder that becomes ``path``, which must not exist, at the end of the block."""
    target = Path(os.path.realpath(path))
    _remove_abandoned(target)
    temporary = _neighbour(target)
    temporary.mkdir()
    descriptor = _lock(temporary)
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
    """Write a file whole or not at all."""
    with whole_file(path) as file:
        file.write(content)


def _neighbour(target: Path) -> Path:
    return target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")


def _create_neighbour(target: Path) -> tuple[Path, IO[bytes]]:
    """Create a hidden, locked file beside the target."""
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
            # On a file system without locks the files of killed saves stay.
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
        # In between, another save of the same target may have removed it as abandoned.
        if temporary.exists():
            return temporary, file
        file.close()


def _remove_abandoned(target: Path) -> None:
    """Remove the files that killed saves of the target have left behind."""
    if not target.parent.is_dir():
        return
    ours = re.compile(re.escape(f".{target.name}.") + "[0-9a-f]{8}")
    for path in [
        target.with_name(name) for name in os.listdir(target.parent) if ours.fullmatch(name)
    ]:
        descriptor = _lock(path)
        if descriptor is None and (fcntl is not None or path.is_dir()):
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()
        if descriptor is not None:
            os.close(descriptor)


def _lock(path: Path) -> int | None:
    """Lock a file or a folder and return the descriptor, None if another process holds it."""
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
