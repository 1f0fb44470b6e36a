"""Exceptions and warnings of structboost, and notes on the examples of errors.

An error that a task raises keeps its class and its message, so that the caller can catch it.  The
example is a note on the error (:pep:`678`), which the traceback shows below the message.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO, TypeVar

from structboost._typing import AnyArray

__all__ = [
    "BinnedTableError",
    "CheckpointError",
    "ConstantPredictionWarning",
    "EmptyModelWarning",
    "EngineError",
    "InterruptedFitWarning",
    "MissingExtraError",
    "ModelFileError",
    "NotThinnedWarning",
    "SampledOutputsWarning",
    "SolverError",
    "TaskError",
    "TooManyOutputsError",
    "UncertifiedWarning",
]

T = TypeVar("T")

# Methods of tasks whose errors are about the true output, as the input passed ``parts``.
_METHODS_OF_TRUTHS = (
    "joint_feature", "loss", "loss_scores", "part_labels", "separate", "separate_slacks"
)  # fmt: skip


class TaskError(ValueError):
    """Error of a task that breaks its contract.

    The message names the sample and the property.

    Parameters
    ----------
    message : str
        Message, in which ``{sample}`` stands for the index of the example.
    sample : int, optional
        Index of the example among those of the call.  If it is None, ``X[{sample}]`` reads ``x``,
        and ``Y[{sample}]`` reads ``y``.
    """

    # Subclasses may have constructors of their own.
    sample: int | None = None
    _template: str | None = None

    def __init__(self, message: str, sample: int | None = None) -> None:
        super().__init__()
        self._show(message, sample)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the template, since by default an exception is copied by its shown message."""
        return type(self), (self._template, self.sample), dict(vars(self))

    def place(self, i: int, argument: str) -> None:
        """Name example ``i`` of an argument in a message without one."""
        template = self._template
        if template is None:
            return
        if "[{sample}]" not in template:
            name = argument if "[{sample}]" in argument else f"{argument}[{{sample}}]"
            template = f"{name}: {template}"
        self._show(template, i)

    def rename(self, name: str) -> None:
        """Put a name into the message, in the place of ``X[...]`` or ``Y[...]`` of the example."""
        if self._template is not None:
            template = self._template.replace("X[{sample}]", name).replace("Y[{sample}]", name)
            self._show(template, self.sample)

    def append(self, text: str) -> None:
        """Add words to the message, in which ``{sample}`` stands for the index of the example."""
        if self._template is not None:
            self._show(self._template + text, self.sample)

    def renumber(self, index_of: Callable[[int], int]) -> None:
        """Map the index of the example to another one."""
        if self.sample is not None and self._template is not None:
            self._show(self._template, index_of(self.sample))

    def _show(self, template: str, sample: int | None) -> None:
        self._template, self.sample = template, sample
        if sample is None:
            template = template.replace("X[{sample}]", "x").replace("Y[{sample}]", "y")
        else:
            template = template.replace("{sample}", str(sample))
        self.args = (template,)


class TooManyOutputsError(TaskError):
    """Error of an input with more outputs than a task can sum over for marginals.

    :func:`structboost.check_task` skips the checks of its marginals.
    """


class SolverError(RuntimeError):
    """Error of a restricted master problem that was not solved to the required accuracy."""


class MissingExtraError(ImportError):
    """Error of a use that needs packages of an extra, with the command that installs them."""


class ModelFileError(ValueError):
    """Error of a file that is not a model, is truncated, or comes from a newer version."""


class CheckpointError(ValueError):
    """Error of a checkpoint that is damaged, or belongs to another run."""


class BinnedTableError(ValueError):
    """Error of a binned table that is damaged, or cannot be made from the data."""


class InterruptedFitWarning(UserWarning):
    """Warning of an interrupted training, whose model is usable."""


class SampledOutputsWarning(UserWarning):
    """Warning that :func:`structboost.check_task` compared the argmax with sampled outputs only."""


class EmptyModelWarning(UserWarning):
    """Warning of a C so small that the fitted model has no weak learner."""


class ConstantPredictionWarning(UserWarning):
    """Warning of a model that predicts the same output for all training examples.

    The true outputs differ, or there is one class only.
    """


class NotThinnedWarning(UserWarning):
    """Warning of a model that :func:`structboost.thin` left as it is.

    The rows that were given do not show that fewer trees are as good.
    """


class UncertifiedWarning(UserWarning):
    """Warning of a fit that is not certified because its bound exceeds its objective.

    The argmax or the sums of the task are not exact, or rounding is larger than the gap.
    """


class EngineError(RuntimeError):
    """Error of an engine whose processes or machines could not be kept running."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn, and point at the line outside this package that led here."""
    level, frame = 1, sys._getframe()
    # Decorators by context managers and compiled functions lie between frames of this package.
    ours = ("structboost", "contextlib", "numba")
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ours:
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(message, category, stacklevel=level)


def usable(stream: TextIO | None) -> TextIO:
    """Return a stream, or one that drops all that is written where it is missing or closed.

    Programs without a console, and services, have no standard output and error.
    """
    return io.StringIO() if stream is None or getattr(stream, "closed", False) else stream


def say(text: str) -> None:
    """Write a line to standard error, if it can be written to, since nothing depends on it."""
    with contextlib.suppress(OSError):
        usable(sys.stderr).write(text + "\n")


class ExampleNote(str):
    """Note with the method that raised an error, and its first and last possible example."""

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
    """Call a method, named ``name``, for example ``i``, and name the example in its errors."""
    try:
        return method(*arguments)
    except Exception as error:
        note_examples(error, name, i, i)
        raise


def note_examples(error: Exception, method: str, first: int, last: int, argument: str = "") -> None:
    """Add a note with the examples of an error, unless the error names them already.

    The message of a TaskError of one example also begins with it, as in ``Y[37]``.  Other errors
    keep their messages.  ``first`` and ``last`` are the examples that may have caused the error in
    a method of a task.  The ``argument`` that holds them is ``"Y"`` for methods that read the
    truth, otherwise ``"X"``, if it is not given.
    """
    if names_examples(error):
        return
    name = argument or ("Y" if method in _METHODS_OF_TRUTHS else "X")
    if first == last and isinstance(error, TaskError):
        error.place(first, name)
    _set_notes(error, [*_notes(error), ExampleNote(method, first, last)])


def names_examples(error: Exception) -> bool:
    """Whether an error names the examples for which it was raised."""
    names_itself = isinstance(error, TaskError) and error.sample is not None
    return names_itself or any(isinstance(note, ExampleNote) for note in _notes(error))


def count_examples_from(error: Exception, first: int) -> None:
    """Add ``first`` to the indices of the examples that an error names."""
    _renumber_examples(error, lambda i: first + i)


@contextlib.contextmanager
def examples_numbered(rows: Sequence[int] | AnyArray | None) -> Iterator[None]:
    """Run a block on some examples, with their indices among all in its errors.

    Parameters
    ----------
    rows : sequence of int or None
        Index of each example of the block; None where unknown.
    """
    try:
        yield
    except Exception as error:
        if rows is not None:
            _renumber_examples(error, lambda i: int(rows[i]))
        raise


def _renumber_examples(error: Exception, index_of: Callable[[int], int]) -> None:
    if isinstance(error, TaskError):
        error.renumber(index_of)
    notes = [
        ExampleNote(note.method, index_of(note.first), index_of(note.last))
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
