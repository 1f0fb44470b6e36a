"""Exceptions and warnings of structboost, and the example that an error belongs to.

An error that a task raises keeps its class and its message, so that the caller can catch it.  The
example is a note on the error (:pep:`678`), which the traceback shows below the message.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from numpy.typing import NDArray

__all__ = [
    "BinnedTableError",
    "CheckpointError",
    "ConstantPredictionWarning",
    "EmptyModelWarning",
    "EngineError",
    "InterruptedFitWarning",
    "ModelFileError",
    "SampledOutputsWarning",
    "SolverError",
    "TaskError",
    "TooManyOutputsError",
]

T = TypeVar("T")


class TaskError(ValueError):
    """A task broke its contract; the message names the sample and the property.

    Parameters
    ----------
    message : str
        ``{sample}`` stands for the number of the example.
    sample : int, optional
        Number of the example, among those that the method was given.  Without it, ``X[{sample}]``
        reads ``x``, and ``Y[{sample}]`` reads ``y``.
    """

    # Subclasses may have constructors of their own.
    sample: int | None = None

    def __init__(self, message: str, sample: int | None = None) -> None:
        super().__init__(_shown(message, sample))
        self._template, self.sample = message, sample

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the template: by default an exception is copied by its shown message."""
        return type(self), (self._template, self.sample), dict(vars(self))

    def renumber(self, number: Callable[[int], int]) -> None:
        """Name the example by another number than its place among those that were given."""
        if self.sample is not None:
            self.sample = number(self.sample)
            self.args = (_shown(self._template, self.sample),)


def _shown(message: str, sample: int | None) -> str:
    if sample is None:
        return message.replace("X[{sample}]", "x").replace("Y[{sample}]", "y")
    return message.replace("{sample}", str(sample))


class TooManyOutputsError(TaskError):
    """An input has more outputs than a task can sum over, so it gives no marginals for it.

    :func:`structboost.check_task` leaves out what it would check of them.
    """


class SolverError(RuntimeError):
    """A restricted master problem could not be solved to the accuracy it needs."""


class ModelFileError(ValueError):
    """A file is not a model of this library, is truncated, or comes from a newer version."""


class CheckpointError(ValueError):
    """A checkpoint is torn, or belongs to another run."""


class BinnedTableError(ValueError):
    """A binned table on disk is damaged, or cannot be made from the given data."""


class InterruptedFitWarning(UserWarning):
    """Training was interrupted; the model kept so far is usable."""


class SampledOutputsWarning(UserWarning):
    """:func:`structboost.check_task` compared the argmax with a sample of the outputs only."""


class EmptyModelWarning(UserWarning):
    """C is so small that the fitted model has no weak learner."""


class ConstantPredictionWarning(UserWarning):
    """The fitted model predicts one output for all training examples, whose true outputs differ."""


class EngineError(RuntimeError):
    """The processes or machines that train could not be kept running."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line outside this package that led here."""
    level, frame = 1, sys._getframe()
    # Decorators by context managers stand between our own frames.
    ours = ("structboost", "contextlib")
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ours:
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(message, category, stacklevel=level)


class ExampleNote(str):
    """Which method raised an error, and the first and last example that may be the cause."""

    method: str
    first: int
    last: int

    def __new__(cls, method: str, first: int, last: int) -> ExampleNote:
        """Write the note."""
        which = (
            f"example {first}, X[{first}]"
            if first == last
            else f"one of the examples {first} to {last}"
        )
        note = super().__new__(cls, f"Raised by the task's {method} for {which}.")
        note.method, note.first, note.last = method, first, last
        return note

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parts of the note."""
        return ExampleNote, (self.method, self.first, self.last)


def on_example(name: str, i: int, method: Callable[..., T], *arguments: Any) -> T:
    """Call a method, known as ``name``, for example ``i``; an error that it raises gets a note."""
    try:
        return method(*arguments)
    except Exception as error:
        note_examples(error, name, i, i)
        raise


def note_examples(error: Exception, method: str, first: int, last: int) -> None:
    """Note for which examples a method raised an error, unless the error names them already."""
    if not names_examples(error):
        _set_notes(error, [*_notes(error), ExampleNote(method, first, last)])


def names_examples(error: Exception) -> bool:
    """Whether an error names the examples for which it was raised."""
    names_itself = isinstance(error, TaskError) and error.sample is not None
    return names_itself or any(isinstance(note, ExampleNote) for note in _notes(error))


def count_examples_from(error: Exception, first: int) -> None:
    """Count the examples that an error names from ``first``, the number of the first one given."""
    _renumber_examples(error, lambda i: first + i)


@contextlib.contextmanager
def examples_numbered(rows: Sequence[int] | NDArray[Any] | None) -> Iterator[None]:
    """A block that works on some examples; its errors name them by their numbers among all.

    Parameters
    ----------
    rows : sequence of int or None
        Number of each example that the block works on; None where it is not known.
    """
    try:
        yield
    except Exception as error:
        if rows is not None:
            _renumber_examples(error, lambda i: int(rows[i]))
        raise


def _renumber_examples(error: Exception, number: Callable[[int], int]) -> None:
    if isinstance(error, TaskError):
        error.renumber(number)
    notes = [
        ExampleNote(note.method, number(note.first), number(note.last))
        if isinstance(note, ExampleNote)
        else note
        for note in _notes(error)
    ]
    if notes:
        _set_notes(error, notes)


def _notes(error: Exception) -> list[str]:
    return getattr(error, "__notes__", [])


def _set_notes(error: Exception, notes: list[str]) -> None:
    with contextlib.suppress(Exception):  # instances of some classes cannot be changed
        error.__notes__ = notes
