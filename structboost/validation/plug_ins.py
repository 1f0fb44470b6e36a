"""Checks of plug-ins, callbacks and estimators by what they have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from structboost.validation.messages import shown


def check_estimator(value: Any, attribute: str) -> None:
    """Raise TypeError unless ``value`` may be a fitted estimator, which has ``attribute``."""
    if isinstance(value, type) or not (hasattr(value, "fit") or hasattr(value, attribute)):
        raise TypeError(f"estimator is {shown(value)}; give a fitted estimator.")


def checked_callbacks(value: Any) -> list[Callable[..., Any]]:
    """Return ``value``, None or a sequence of callables, as a list."""
    if value is None:
        return []
    if not isinstance(value, Sequence):
        raise TypeError(
            f"callbacks is {shown(value)}; give a list of callables, such as [callback], or None."
        )
    for i, callback in enumerate(value):
        if not callable(callback):
            raise TypeError(
                f"callbacks[{i}] is {shown(callback)}; give a callable(record, trainer)."
            )
        # What a callback raises itself stays as it is.
        check_takes_arguments(callback, f"callbacks[{i}]", "callback(record, trainer)", {}, None)
    return list(value)


def check_declares(plug_in: Any, flag: str, argument: str, remedy: str) -> None:
    """Raise ValueError unless a plug-in has the ``flag`` that an argument of the trainer needs."""
    if not getattr(plug_in, flag):
        raise ValueError(
            f"{argument} needs {flag}, which {type(plug_in).__name__} does not declare; {remedy}."
        )


@functools.lru_cache(maxsize=256)
def _signature_of_class(value: type) -> inspect.Signature:
    return inspect.signature(value)


def check_takes_arguments(
    value: Callable[..., Any], name: str, call: str, *arguments: Any, **named: Any
) -> None:
    """Raise TypeError unless ``value`` takes the arguments, shown as ``call`` in the error."""
    called: Callable[..., Any] = value
    while isinstance(called, functools.partial):
        arguments, named = (*called.args, *arguments), {**called.keywords, **named}
        called = called.func
    try:
        is_class = isinstance(called, type)
        signature = (_signature_of_class if is_class else inspect.signature)(called)
    except ValueError:  # some compiled functions have no signature
        return
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        raise TypeError(
            f"{name} is {shown(value)}, which cannot be called as {call}: {error}.  Give a "
            "callable that takes these arguments."
        ) from None
