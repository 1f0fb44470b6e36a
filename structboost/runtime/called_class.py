"""Errors of constructors that name the class that was called, and the closest parameter."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, Self

from structboost.runtime.elsewhere import hint

__all__ = ["NamesParameters"]


class _SignatureOfInit:
    """Signature of the ``__init__`` of a class, not of the ``__new__`` that checks it."""

    def __get__(self, instance: object | None, owner: type) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        return inspect.Signature(parameters_of(owner))


class NamesParameters:
    """Base of public classes, whose constructors refuse arguments that they do not take.

    The TypeError names the class that was called, which may inherit its constructor, and what it
    takes.
    """

    __signature__ = _SignatureOfInit()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make an object, after a check of the arguments of its constructor."""
        if args or kwargs:
            _check_arguments(cls, len(args), kwargs)
        return super().__new__(cls)


def _check_arguments(cls: type, n_positional: int, keywords: dict[str, Any]) -> None:
    """Raise TypeError if there are unknown keywords, or too many arguments by position."""
    parameters = parameters_of(cls)
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return
    names = [p.name for p in parameters]
    by_position = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    unknown = [name for name in keywords if name not in names]
    if unknown:
        raise TypeError(
            f"{cls.__name__} has no parameter {unknown[0]!r}; {hint(unknown[0], names)}"
        )
    if n_positional > len(by_position):
        first = f"only {', '.join(by_position)}" if by_position else "nothing"
        others = names[len(by_position) :]
        by_name = f"; give the others by name, such as {others[0]}=..." if others else ""
        raise TypeError(
            f"{cls.__name__} takes {first} by position, and got {n_positional} values{by_name}."
        )
    twice = [name for name in by_position[:n_positional] if name in keywords]
    if twice:
        raise TypeError(f"{cls.__name__} got {twice[0]} by position and by name; give it once.")


@cache
def parameters_of(cls: type) -> tuple[inspect.Parameter, ...]:
    """Return the parameters of the constructor of a class."""
    init = vars(next(of for of in cls.__mro__ if "__init__" in vars(of)))["__init__"]
    if init is object.__init__:
        return ()
    return tuple(inspect.signature(init).parameters.values())[1:]
