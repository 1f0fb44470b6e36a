"""Exceptions and warnings of structboost."""

from __future__ import annotations


class TaskError(ValueError):
    """A task broke its contract; the message names the sample and the property."""


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
