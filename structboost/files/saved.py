"""Bases of classes that are written to files, with the contract of both directions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

from structboost._typing import PathName


class SavedToFile:
    """Class whose fitted objects can be written to a file."""

    @abstractmethod
    def save(self, path: PathName) -> None:
        """Write the fitted model to a file, all of it or nothing, and without pickle.

        The file does not hold tasks and problems, which are code.

        Parameters
        ----------
        path : str or path
            The file; an existing one is replaced.

        Raises
        ------
        NotFittedError
            If there is no model yet.
        ValueError
            If a part of the model is a user's code, such as a family of weak learners, or is of a
            library whose models no file of plain arrays holds.
        TypeError
            If a label, a category or a name is neither a number nor a string nor a date, or another
            part is an object of a user's class.
        OSError
            If the file cannot be written.
        """


class LoadedFromFile(SavedToFile):
    """Class whose files need nothing beside them to be loaded."""

    @classmethod
    @abstractmethod
    def load(cls, path: PathName) -> Self:
        """Read what :meth:`save` wrote, without running code of the file.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        fitted : object
            The fitted object, of the class that :meth:`load` is called on.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ModelFileError
            If it is of another class, is damaged, or is of another version.
        """
