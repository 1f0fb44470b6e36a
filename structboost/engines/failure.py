"""Errors of a process that holds shards, sent home as values.

An error that arrives as a value was raised by the task, or by the work on a shard. Whatever else is
raised while an answer is awaited comes from the connection or the cluster. So an `OSError` of the
task is never taken for the loss of a worker.
"""

from __future__ import annotations

import contextlib
import pickle
import traceback
from typing import Any, NamedTuple

import cloudpickle

from structboost.exceptions import EngineError


class Failure(NamedTuple):
    """An error as plain data.

    Parameters
    ----------
    pickled : bytes
        The error, by value where its class cannot be imported; empty if it cannot be pickled.
    shown : str
        How the error shows itself.
    notes : list of str
        Its notes, and first of all where it was raised.
    """

    pickled: bytes
    shown: str
    notes: list[str]

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """What is sent home of an error."""
        where = "".join(("In the process of the shard:\n", *traceback.format_exception(error)))
        return cls(_pickled(error), repr(error), [where, *getattr(error, "__notes__", [])])

    def error(self) -> Exception:
        """The error, or an :class:`EngineError` that describes it if its class is unknown here."""
        try:
            error = pickle.loads(self.pickled)
        except Exception:  # as of a module that only the worker has
            error = EngineError(f"A worker failed: {self.shown}")
        with contextlib.suppress(Exception):  # as of a class whose instances cannot be changed
            error.__notes__ = list(self.notes)
        return error  # type: ignore[no-any-return]


class _Bare:
    """Pickles an error without its constructor, whose arguments the error may not keep."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self.error), self.error.args, vars(self.error))


def _remade(kind: type[Exception], arguments: tuple[Any, ...], state: dict[str, Any]) -> Exception:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    vars(error).update(state)
    return error


def _pickled(error: Exception) -> bytes:
    for form in (error, _Bare(error)):
        with contextlib.suppress(Exception):
            pickled: bytes = cloudpickle.dumps(form)
            if isinstance(pickle.loads(pickled), type(error)):
                return pickled
    return b""
