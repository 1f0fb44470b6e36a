"""Errors of a process that holds shards, returned as values.

An error that arrives as a value was raised by the task, or by the work on a shard.  Any other
exception during the wait for a reply comes from the connection or the cluster.  So an `OSError` of
the task is never taken for the loss of a worker.
"""

from __future__ import annotations

import contextlib
import pickle
import traceback
from typing import Any, NamedTuple

import cloudpickle

from structboost.errors import EngineError


class Failure(NamedTuple):
    """Error as plain data.

    Parameters
    ----------
    pickled : bytes
        The error, by value where its class cannot be imported; empty if it cannot be pickled.
    shown : str
        Text of the error.
    notes : list of str
        Notes of the error, the first of which has the place where it was raised.
    """

    pickled: bytes
    shown: str
    notes: list[str]

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Build the plain data of an error."""
        where = "".join(("In the process of the shard:\n", *traceback.format_exception(error)))
        return cls(_pickle_error(error), repr(error), [where, *getattr(error, "__notes__", [])])

    def error(self) -> Exception:
        """Return the error, or an :class:`EngineError` if its class is unknown here."""
        try:
            error = pickle.loads(self.pickled)
        except Exception:  # for example of a module that only the worker has
            error = EngineError(f"A worker failed: {self.shown}")
        with contextlib.suppress(
            Exception
        ):  # for example of a class whose instances cannot be changed
            error.__notes__ = list(self.notes)
        return error  # type: ignore[no-any-return]


class _Bare:
    """Wrapper that pickles an error without its constructor.

    The error may not have stored the arguments of the constructor.
    """

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self.error), self.error.args, vars(self.error))


def _rebuild(kind: type[Exception], arguments: tuple[Any, ...], state: dict[str, Any]) -> Exception:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    vars(error).update(state)
    return error


def _pickle_error(error: Exception) -> bytes:
    for form in (error, _Bare(error)):
        with contextlib.suppress(Exception):
            pickled: bytes = cloudpickle.dumps(form)
            if isinstance(pickle.loads(pickled), type(error)):
                return pickled
    return b""
