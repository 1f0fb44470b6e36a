"""Errors of calls that name the class that was called, and the closest parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache, wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Self

from structboost.runtime.elsewhere import advice, hint


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


class NamesArguments(NamesParameters):
    """Base of estimators, whose methods refuse arguments that they do not take as well."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in dir(cls):
            method = inspect.getattr_static(cls, name)
            of_class = isinstance(method, classmethod)
            function = method.__func__ if of_class else method
            is_checked = hasattr(function, "_names_arguments")
            if name.startswith(("_", "get_", "set_")) or is_checked:
                continue
            if type(function) is FunctionType:
                checked = names_arguments(function)
                setattr(cls, name, classmethod(checked) if of_class else checked)

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        # scikit-learn reads the signature anew for each get_params.
        return list(super()._get_param_names())  # type: ignore[misc]

    def set_params(self, **params: Any) -> Self:
        """Set parameters of this estimator, and return it.

        Raises
        ------
        ValueError
            If there is no such parameter.  The message names the closest one.
        """
        names = list(self.get_params(deep=False))  # type: ignore[attr-defined]
        for name in params:
            if "__" not in name and name not in names:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {type(self).__name__}; "
                    f"{hint(name, names)}"
                )
        return super().set_params(**params)  # type: ignore[misc,no-any-return]

    if not TYPE_CHECKING:  # it would let all names pass

        def __getattr__(self, name):
            if text := advice(name, [p.name for p in parameters_of(type(self))]):
                raise AttributeError(f"{type(self).__name__} has no {name}; {text}")
            # Raises the error of the class, or of a property.
            return object.__getattribute__(self, name)
