"""Errors of calls that name the class that was called, and the closest parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
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
            takes = parameters_of(cls)  # type: ignore[arg-type]
            _check_call(cls.__name__, takes, args, kwargs)
        return super().__new__(cls)


@cache
def parameters_of(cls: type) -> tuple[inspect.Parameter, ...]:
    """Return the parameters of the constructor of a class."""
    init = next(vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base))
    if init is object.__init__:
        return ()
    return tuple(inspect.signature(init).parameters.values())[1:]


def names_arguments(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of an estimator refuse arguments that it does not take.

    The TypeError names the class of the object, which may inherit the method, and what to write.
    """

    @wraps(method)
    def checked(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        def check() -> None:
            cls: type = self if isinstance(self, type) else type(self)
            names = [parameter.name for parameter in parameters_of(cls)]
            name = f"{method.__name__} of {cls.__name__}"
            _check_call(name, arguments_of().values(), args, kwargs, names, dir(cls))

        if not kwargs.keys() <= arguments_of().keys():
            check()
        try:
            return method(self, *args, **kwargs)
        except TypeError:
            check()
            raise

    @cache
    def arguments_of() -> dict[str, inspect.Parameter]:
        parameters = inspect.signature(method).parameters
        return {name: parameters[name] for name in list(parameters)[1:]}

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


def _check_call(
    called: str,
    takes: Iterable[inspect.Parameter],
    args: Any,
    kwargs: dict[str, Any],
    *names_of_class: Sequence[str],
) -> None:
    """Raise TypeError if something cannot be called with these arguments."""
    signature = inspect.Signature(list(takes))
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        names = list(signature.parameters)
        unknown = [name for name in kwargs if name not in names]
        text = f"{called}: {error}; it takes {', '.join(names) or 'nothing'}."
        if unknown:
            kind = "argument" if names_of_class else "parameter"
            text = f"{called} has no {kind} {unknown[0]!r}; "
            text += hint(unknown[0], names, *names_of_class)
        raise TypeError(text) from None
