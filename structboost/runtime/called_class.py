"""Errors of calls that name the class that was called, and the closest parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, wraps
from types import FunctionType
from typing import Any, Self

from structboost.runtime.elsewhere import hint

__all__ = ["NamesParameters", "names_arguments"]


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
    filled = {*by_position[:n_positional], *keywords}
    missing = [p.name for p in parameters if p.default is p.empty and p.name not in filled]
    if missing:
        called = ", ".join([*by_position[:n_positional], *(f"{name}=..." for name in missing)])
        raise TypeError(
            f"{cls.__name__} needs {' and '.join(missing)}; write {cls.__name__}({called}).  Its "
            "docstring says what they may be."
        )


@cache
def parameters_of(cls: type) -> tuple[inspect.Parameter, ...]:
    """Return the parameters of the constructor of a class."""
    init = vars(next(of for of in cls.__mro__ if "__init__" in vars(of)))["__init__"]
    if init is object.__init__:
        return ()
    return tuple(inspect.signature(init).parameters.values())[1:]


def names_arguments(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of an estimator refuse arguments that it does not take.

    The TypeError names the class of the object, which may inherit the method, and what to write.
    """

    @wraps(method)
    def checked(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not kwargs.keys() <= _arguments_of(method).keys():
            _check_call(self, method, args, kwargs)
        try:
            return method(self, *args, **kwargs)
        except TypeError:
            _check_call(self, method, args, kwargs)
            raise

    checked._names_arguments = True  # type: ignore[attr-defined]
    return checked


def name_arguments_of_methods(cls: type) -> None:
    """Make all public methods of a class refuse arguments that they do not take."""
    for name in dir(cls):
        if name.startswith(("_", "get_", "set_")):
            continue
        method = inspect.getattr_static(cls, name)
        of_class = isinstance(method, classmethod)
        function = method.__func__ if of_class else method
        if type(function) is FunctionType and not hasattr(function, "_names_arguments"):
            checked = names_arguments(function)
            setattr(cls, name, classmethod(checked) if of_class else checked)


@cache
def _arguments_of(method: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(method).parameters
    return {name: parameters[name] for name in list(parameters)[1:]}


def _check_call(
    self: object, method: Callable[..., Any], args: Any, kwargs: dict[str, Any]
) -> None:
    """Raise TypeError if a method cannot be called with these arguments."""
    signature = inspect.Signature(list(_arguments_of(method).values()))
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        names = list(signature.parameters)
        cls: type = self if isinstance(self, type) else type(self)
        call = f"{method.__name__} of {cls.__name__}"
        unknown = [name for name in kwargs if name not in names]
        if not unknown:
            raise TypeError(f"{call}: {error}; it takes {', '.join(names)}.") from None
        parameters = [p.name for p in parameters_of(cls)]
        text = hint(unknown[0], names, parameters, dir(cls))
        raise TypeError(f"{call} has no argument {unknown[0]!r}; {text}") from None
