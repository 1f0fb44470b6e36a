"""Checkpoints, from which a killed run resumes and ends in the same model."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from structboost._typing import AnyArray, PathName
from structboost.errors import CheckpointError
from structboost.files.archive import ArchiveFormat, Arrays, DamagedFileError, Header, Schema
from structboost.files.atomic_write import checked_path, checked_target
from structboost.validation import checked_not_negative, checked_whole_number, shown

_REMEDY = "remove it, or give another path"
_CHOICE = "choice"
T = TypeVar("T")
SchemaOfHeader = Callable[[Header, Collection[str]], Schema]


@dataclass(frozen=True)
class Checkpoint:
    """File and frequency of the checkpoints of a run.

    Parameters
    ----------
    path : str or path
        The file.  If it exists, the run resumes from it; it must be of the same data and
        parameters, but ``max_rounds`` may be larger than before.
    rounds : int or None
        Write after this many rounds.
    seconds : float or None
        Write after the first round that ends this many seconds after the last write.
    """

    path: PathName
    rounds: int | None = None
    seconds: float | None = 60.0

    def __post_init__(self) -> None:
        checked_path(self.path, "Checkpoint.path")
        if self.rounds is not None:
            checked_whole_number(self.rounds, "Checkpoint.rounds")
        if self.seconds is not None:
            checked_not_negative(self.seconds, "Checkpoint.seconds")
        if self.rounds is None and self.seconds is None:
            raise ValueError("Checkpoint has neither rounds nor seconds; give one of them.")

    @classmethod
    def of(cls, value: Any) -> Checkpoint | None:
        """Return ``value`` itself, the checkpoint of a path, or None for None.

        Raises
        ------
        TypeError, ValueError
            If ``value`` has another type, or a parameter is out of its range.
        OSError
            If the file is not a regular one, or cannot be written.
        """
        if value is None:
            return None
        if not isinstance(value, (str, PathLike, Checkpoint)):
            raise TypeError(
                f"checkpoint is {shown(value)}; give the path of a file, or a Checkpoint."
            )
        checkpoint = value if isinstance(value, Checkpoint) else cls(value)
        checked_target(checkpoint.path, "Checkpoint.path")
        return checkpoint


class CheckpointFile:
    """File that the state of one run is written to and read from.

    Parameters
    ----------
    checkpoint : Checkpoint
    hashes : dict of str to str
        Hashes that the run and the file must have in common: ``identity`` (:func:`identity_of`),
        ``features`` and ``outputs``.
    choice : dict, optional
        Plain values of a choice, which a resumed run need not repeat (:func:`saved_choice`).
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        hashes: Mapping[str, str],
        choice: Mapping[str, Any] | None = None,
    ) -> None:
        self._checkpoint = checkpoint
        self._hashes = dict(hashes)
        self._choice = {} if choice is None else {_CHOICE: dict(choice)}
        self._rounds = 0
        self._written = time.monotonic()

    def is_due(self) -> bool:
        """Whether to write after this round."""
        self._rounds += 1
        rounds, seconds = self._checkpoint.rounds, self._checkpoint.seconds
        return (rounds is not None and self._rounds >= rounds) or (
            seconds is not None and time.monotonic() - self._written >= seconds
        )

    def write(self, header: Mapping[str, Any], arrays: Arrays, schema: SchemaOfHeader) -> None:
        """Write a state that fits ``schema(header, names)``, whole or not at all."""
        about = {**self._hashes, **self._choice, **header}
        self._format(schema).write(self._checkpoint.path, about, arrays)
        self._rounds = 0
        self._written = time.monotonic()

    def read(self, schema: SchemaOfHeader) -> tuple[Header, Arrays] | None:
        """Read the state that was written last, or return None where there is no file.

        CheckpointError if the file is damaged, not a checkpoint, of another version, or of another
        run.
        """
        path = self._checkpoint.path
        return self._format(schema).read(path) if Path(path).exists() else None

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Turn a DamagedFileError of a block into a CheckpointError."""
        try:
            yield
        except DamagedFileError as error:
            raise CheckpointError(
                f"{self._checkpoint.path} is not a checkpoint of this run, or is damaged: {error}; "
                f"{_REMEDY}."
            ) from error

    def check_rounds(self, n_rounds: int, max_rounds: int) -> None:
        """Raise CheckpointError if the file has more rounds than the run may have."""
        if n_rounds > max_rounds:
            raise CheckpointError(
                f"The checkpoint {self._checkpoint.path} holds {n_rounds} rounds, but max_rounds "
                f"is {max_rounds}; give max_rounds={n_rounds} or more, or {_REMEDY}."
            )

    def _format(self, schema: SchemaOfHeader) -> ArchiveFormat:
        def of_run(header: Header, names: Collection[str]) -> Schema:
            for name, value in self._hashes.items():
                if header[name] != value:
                    raise CheckpointError(
                        f"{self._checkpoint.path} is a checkpoint of other data or parameters; "
                        f"{_REMEDY}."
                    )
            return schema(header, names)

        return _format(of_run)


def _format(schema: SchemaOfHeader) -> ArchiveFormat:
    return ArchiveFormat(
        name="structboost-checkpoint",
        version=1,
        what="checkpoint of structboost",
        error=CheckpointError,
        remedy=_REMEDY,
        schema=schema,
    )


def saved_choice(checkpoint: Checkpoint | None, make: Callable[[Header], T | None]) -> T | None:
    """Apply ``make`` to the choice in a checkpoint, or return None where there is none.

    CheckpointError if the file is not a checkpoint, or is damaged.
    """
    if checkpoint is None or not Path(checkpoint.path).exists():
        return None
    of_choice = _format(lambda header, names: {})
    with of_choice.damage(checkpoint.path):
        choice = of_choice.header(checkpoint.path).get(_CHOICE)
        return None if choice is None else make(choice)


def identity_of(parameters: Mapping[str, Any], arrays: Sequence[AnyArray]) -> str:
    """Compute the hash of parameters, plain JSON, and of arrays."""
    digest = hashlib.sha256(json.dumps(dict(parameters), sort_keys=True).encode())
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
