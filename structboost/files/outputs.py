"""Checks of the targets of a command before its work."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path

from structboost.files.atomic_write import checked_target

# Inode of a file on its disk, or the path of a file that does not exist.
_Identity = tuple[int, int] | str


class OutputError(ValueError):
    """Error of a file that cannot be written, or would overwrite an input."""


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[Path] = ()) -> None:
    """Raise OutputError unless every output can be written and overwrites no input or other output.

    The keys are the names of the outputs in errors, and None is skipped.  Links and other spellings
    of a path are followed.
    """
    taken: dict[_Identity, str] = {}
    for name, path in outputs.items():
        if path is None:
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


def check_writable(path: str | PathLike[str], name: str = "") -> None:
    """Raise OutputError unless a file can be written, in a folder that exists."""
    try:
        checked_target(path)
    except OSError as error:
        raise OutputError(f"{name} {error.strerror or error}".strip()) from error


def check_folder(path: str | PathLike[str], name: str = "") -> None:
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
    real = os.path.realpath(path)
    try:
        status = os.stat(real)
    except OSError:
        return real
    return status.st_dev, status.st_ino
