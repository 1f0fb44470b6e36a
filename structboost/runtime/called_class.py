"""Errors of calls that name the class that was called, and the closest parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache, wraps
from types import FunctionType
from typing import Any, TypeVar

from structboost.runtime.elsewhere import advice, hint

T = TypeVar("T")


class _SignatureOfInit:
    """Signature of the ``__init__`` of a class, not of the ``__new__`` that checks it."""

    def __get__(self, instance: object | None, owner: type) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        return inspect.Signature(parameters_of(owner))


def names_parameters(cls: type[T]) -> type[T]:
    """Make the constructor of a class, and of its subclasses, refuse arguments that it lacks.

    The TypeError names the class that was called, which may inherit its constructor, and what it
    takes.
    """
    decorated: Any = cls
    decorated.__signature__ = _SignatureOfInit()
    decorated.__new__ = _checked_new
    return cls


def _checked_new(cls: type, *args: Any, **kwargs: Any) -> Any:
    """Make an object, after a check of the arguments of its constructor."""
    if args or kwargs:
        _check_call(cls.__name__, parameters_of(cls), args, kwargs)
    return object.__new__(cls)


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
        try:
            return method(self, *args, **kwargs)
        except TypeError:
            check_arguments(method, self, args, kwargs)
            raise

    checked._names_arguments = True  # type: ignore[attr-defined]
    return checked


def check_arguments(
    method: Callable[..., Any], self: Any, args: Any, kwargs: dict[str, Any]
) -> None:
    """Raise TypeError, which names the class of the object, if its method does not take these."""
    cls: type = self if isinstance(self, type) else type(self)
    takes = list(inspect.signature(method).parameters.values())[1:]
    _check_call(f"{method.__name__} of {cls.__name__}", takes, args, kwargs, cls)


def _check_call(
    called: str,
    takes: Sequence[inspect.Parameter],
    args: Any,
    kwargs: dict[str, Any],
    cls: type | None = None,
) -> None:
    """Raise TypeError if something, perhaps a method of a class, cannot be called like this."""
    try:
        inspect.Signature(takes).bind(*args, **kwargs)
    except TypeError as error:
        names = [parameter.name for parameter in takes]
        unknown = [name for name in kwargs if name not in names]
        text = f"{called}: {error}; it takes {', '.join(names) or 'nothing'}."
        if unknown:
            kind = "parameter" if cls is None else "argument"
            of_class = () if cls is None else ([p.name for p in parameters_of(cls)], dir(cls))
            text = f"{called} has no {kind} {unknown[0]!r}; {hint(unknown[0], names, *of_class)}"
        raise TypeError(text) from None


def names_calls(cls: type[T]) -> type[T]:
    """Make an estimator and its methods refuse arguments that they do not take.

    Errors of ``set_params`` and of missing attributes name what to write.
    """
    decorated: Any = names_parameters(cls)
    for name in dir(cls):
        method = inspect.getattr_static(cls, name)
        of_class = isinstance(method, classmethod)
        function = method.__func__ if of_class else method
        is_taken = name.startswith(("_", "get_", "set_")) or hasattr(function, "_names_arguments")
        if type(function) is FunctionType and not is_taken:
            checked = names_arguments(function)
            setattr(cls, name, classmethod(checked) if of_class else checked)
    decorated.__getattr__ = _missing
    # scikit-learn reads the signature anew for each get_params.
    decorated._get_param_names = classmethod(lambda of: list(_names(of)))  # type: ignore[arg-type]
    if decorated.set_params.__module__ == "sklearn.base":
        decorated.set_params = set_params
    return cls


def set_params(estimator: Any, /, **params: Any) -> Any:
    """Set parameters of this estimator, and return it.

    Raises
    ------
    ValueError
        If there is no such parameter.  The message names the closest one.
    """
    cls: Any = type(estimator)
    names = [parameter.name for parameter in parameters_of(cls)]
    for name in params:
        if "__" not in name and name not in names:
            raise ValueError(
                f"Invalid parameter {name!r} for estimator {cls.__name__}; {hint(name, names)}"
            )
    from sklearn.base import BaseEstimator  # workers import this module without scikit-learn

    return BaseEstimator.set_params(estimator, **params)


@cache
def _names(cls: Any) -> list[str]:
    from sklearn.base import BaseEstimator

    names: list[str] = BaseEstimator._get_param_names.__func__(cls)
    return names


def _missing(estimator: object, name: str) -> Any:
    """Raise the error of a missing attribute, with advice for a name of another library."""
    cls: Any = type(estimator)
    if text := advice(name, [parameter.name for parameter in parameters_of(cls)]):
        raise AttributeError(f"{cls.__name__} has no {name}; {text}")
    # Raises the error of the class, or of a property.
    return object.__getattribute__(estimator, name)
