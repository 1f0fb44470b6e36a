"""Exceptions and warnings of structboost."""

from __future__ import annotations

from typing import Any


class TaskError(ValueError):
    """A task broke its contract; the message names the sample and the property.

    Parameters
    ----------
    message : str
        Where ``sample`` is given it stands for every ``{sample}``.
    sample : int, optional
        Number of the example, among those that the method was given.
    """

    def __init__(self, message: str, sample: int | None = None) -> None:
        super().__init__(message if sample is None else message.replace("{sample}", str(sample)))
        self._template, self._sample = message, sample

    def __reduce__(self) -> tuple[Any, ...]:
        """Exceptions are copied by their shown message unless told otherwise."""
        return type(self), (self._template, self._sample)

    def counted_from(self, first: int) -> TaskError:
        """The same error, of examples the first of which is number ``first`` of all."""
        return self if self._sample is None else TaskError(self._template, self._sample + first)


class SolverError(RuntimeError):
    """A restricted master problem could not be solved to the accuracy it needs."""


class ModelFileError(ValueError):
    """A file is not a model of this library, is truncated, or is of a newer version."""


class CheckpointError(ValueError):
    """A checkpoint is torn, or is of another run."""


class BinnedTableError(ValueError):
    """A binned table on disk is damaged, or cannot be made of what was given."""


class InterruptedFitWarning(UserWarning):
    """Training was interrupted; the model kept so far is usable."""


class EngineError(RuntimeError):
    """The processes or machines that train could not be kept going."""
