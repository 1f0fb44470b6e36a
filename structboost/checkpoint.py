"""Checkpoints: what a run needs to go on after it was killed, and to end in the same model as if it had not been."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import CheckpointError
from structboost.plain_file import DamagedFileError, read_arrays, write_arrays

_FORMAT = "structboost-checkpoint"
_VERSION = 1

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a run is written down.

    Parameters
    ----------
    path : str or path
        A file that is there already is gone on from, if it is of the same data and parameters; more rounds may be asked
        for than before.
    rounds : int or None
        Write after so many rounds.
    seconds : float or None
        Write after the first round that ends so many seconds after the last writing.
    """

    path: str | PathLike[str]
    rounds: int | None = None
    seconds: float | None = 60.0

    def check(self) -> None:
        """Raise ValueError if a parameter is out of its range."""
        if self.rounds is not None and (
            isinstance(self.rounds, bool) or int(self.rounds) != self.rounds or self.rounds < 1
        ):
            raise ValueError(f"Checkpoint.rounds is {self.rounds!r}; give a whole number from 1, or None.")
        if self.seconds is not None and not self.seconds >= 0:
            raise ValueError(f"Checkpoint.seconds is {self.seconds!r}; give a number from 0, or None.")
        if self.rounds is None and self.seconds is None:
            raise ValueError("Checkpoint has neither rounds nor seconds; give one of them.")
        if not Path(self.path).resolve().parent.is_dir():
            raise ValueError(f"The folder of the checkpoint {self.path} does not exist; make it first.")


class CheckpointWriter:
    """Writes the state of a run when it is due.

    Parameters
    ----------
    checkpoint : Checkpoint
    identity : str
        Of the data and the parameters (:func:`identity_of`).
    """

    def __init__(self, checkpoint: Checkpoint, identity: str) -> None:
        self._checkpoint = checkpoint
        self._identity = identity
        self._rounds = 0
        self._written = time.monotonic()

    def is_due(self) -> bool:
        """Whether to write after this round."""
        self._rounds += 1
        rounds, seconds = self._checkpoint.rounds, self._checkpoint.seconds
        return (rounds is not None and self._rounds >= rounds) or (
            seconds is not None and time.monotonic() - self._written >= seconds
        )

    def write(self, header: Mapping[str, Any], arrays: Arrays) -> None:
        """Write a state: all of it or nothing."""
        own = {"format": _FORMAT, "version": _VERSION, "identity": self._identity}
        write_arrays(self._checkpoint.path, {**own, **header}, arrays)
        self._rounds = 0
        self._written = time.monotonic()

    def read(self) -> tuple[dict[str, Any], Arrays] | None:
        """The state that was written last; None where there is no file.

        Raises
        ------
        CheckpointError
            If the file is torn, no checkpoint, of a newer version, or of another run.
        """
        path = self._checkpoint.path
        if not Path(path).exists():
            return None
        advice = "remove it, or give another path"
        try:
            header, arrays = read_arrays(path)
        except DamagedFileError as error:
            raise CheckpointError(f"{path} is not a checkpoint, or is torn ({error}); {advice}.") from error
        if header.get("format") != _FORMAT:
            raise CheckpointError(f"{path} is no checkpoint of structboost; {advice}.")
        if header.get("version") != _VERSION:
            raise CheckpointError(
                f"{path} is a checkpoint of format version {header.get('version')}, this structboost writes "
                f"{_VERSION}; {advice}."
            )
        if header.get("identity") != self._identity:
            raise CheckpointError(f"{path} is a checkpoint of other data or parameters; {advice}.")
        return header, arrays


def identity_of(parameters: Mapping[str, Any], arrays: Sequence[NDArray[Any]]) -> str:
    """Hash of parameters, plain JSON, and of arrays."""
    digest = hashlib.sha256(json.dumps(dict(parameters), sort_keys=True).encode())
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
